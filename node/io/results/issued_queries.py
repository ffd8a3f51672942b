"""Queries that were issued at this site: their rows, their state, who reads them. They outlive the daemon.

Of those that have ended and whose rows are all taken the last ``limits.ended_queries_max`` are kept, to be looked at.
Rows that a reader has not taken are never forgotten, nor are those that are to be kept, before the query is dropped; so
a site that has ``limits.untaken_queries_max`` of such queries takes on no more. Rows that wait for readers have at most
``quota_bytes``: beyond that a query with more than its share of them is not stored further, and so comes to a halt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from node.core.effects import QueryState, ReportSwitch, StoreRows, SwitchState
from node.core.events import RowsStored, StoreFailed
from node.core.limits import Limits
from node.core.queries.query_id import new_query_id
from node.core.streams.ticks import Span
from node.io.planning.outcome import Forecast, Planned
from node.io.results.about import About, about_facts, about_plan
from node.io.results.issued_query import IssuedQuery
from node.io.results.journal import DROPPED_NAME, JOURNAL_NAME, Facts, Journal
from node.io.results.readers import DEFAULT_READER, Reader, noted_reader
from node.io.results.scratch import Scratch
from node.io.results.spool import Spool
from node.io.results.switch_history import noted_change
from node.io.threads.file_thread import FileWork
from node.storage.damage import ASIDE
from node.storage.disk import Disk
from node.storage.errors import NO_ROOM, StorageError, VersionError
from node.storage.folder import ANY_ROOM, Folder, Room, sync_folder
from planner.model.errors import QueryError
from planner.model.plans import describe
from planner.model.query import Plan

log = logging.getLogger(__name__)

#: Rows that wait for readers, of all queries of a site.
QUOTA_BYTES = 4 << 30
_LIMITS = Limits()
_WAYS_ON = "restore a backup, or narrows node --accept-data-loss puts the query aside"
_Deliver = Callable[[Sequence[RowsStored | StoreFailed]], None]


class Queries:
    """All of them, by id. With ``durable`` they are in ``folder`` after a crash too."""

    def __init__(
        self,
        site: str,
        folder: Path,
        work: FileWork,
        limits: Limits = _LIMITS,
        life: int = 1,
        *,
        durable: bool = False,
        quota_bytes: int = QUOTA_BYTES,
        accept_loss: bool = False,
        room: Room = ANY_ROOM,
    ) -> None:
        """``accept_loss``: a query of which it is not known what it is does not keep the site from starting. ``room``:
        who says whether rows, what is noted of queries and their files may use the room there is.
        """
        self._site = site
        self._life = life
        self._folder = folder
        self._work = work
        self._limits = limits
        self._durable = durable
        self._quota_bytes = quota_bytes
        self._accept_loss = accept_loss
        self.room = room
        self._count = 0
        self._now_us: Callable[[], int] = lambda: 0
        self._deliver: _Deliver = lambda _: None
        #: The daemon is being stopped: whoever reads is told to come again.
        self.leaving = False
        self.by_id: dict[str, IssuedQuery] = {}
        #: Those that have ended, in the order in which they did.
        self._ended: dict[str, IssuedQuery] = {}

    # -- an earlier life ----------------------------------------------------------------------

    def recover(self) -> None:
        """Read what queries an earlier life left. Those that had not ended are as if they were prepared.

        It may be done in any thread; ``take_over`` follows it on the loop's. Raises StorageError if what is said about
        one is damaged; of damaged rows only their query is the worse for it.
        """
        if not self._durable or not self._folder.is_dir():
            return
        for folder in sorted(self._folder.iterdir()):
            if folder.suffix == ASIDE or not folder.is_dir():
                continue
            if any((folder / name).exists() for name in (DROPPED_NAME, JOURNAL_NAME, JOURNAL_NAME + ".new")):
                try:
                    self._recover(folder.name)
                except VersionError:
                    raise
                except OSError as error:
                    got = error.strerror or error
                    raise StorageError(f"{folder} required rows that can be read; got {got}") from error
                except StorageError as error:
                    self._put_aside(folder, error)

    def _put_aside(self, folder: Path, error: StorageError) -> None:
        if not self._accept_loss:
            raise StorageError(f"{error} ({_WAYS_ON})") from error
        aside = folder.with_name(folder.name + ASIDE)
        folder.rename(aside)
        sync_folder(self._folder)
        log.error("query %s: data loss was accepted: %s; what there is of it is in %s", folder.name, error, aside)

    def take_over(self) -> None:
        """Go on with what was recovered."""
        for query in self.by_id.values():
            query.forget_taken()
            if query.ending:
                query.spool.finish()

    def _recover(self, query_id: str) -> None:
        journal = Journal(lambda: Folder(self._folder / query_id, self.room))
        noted = journal.recover()
        # Nobody was told of it; or it was being removed, as versions before this one note.
        if not noted or any("dropped" in facts for facts in noted):
            journal.close()
            self._remove_folder(query_id)
            return
        query = self._read(query_id, journal, noted)
        state = next(facts for facts in noted if "state" in facts)
        # What a reader has taken was confirmed before, whatever is said of the whole.
        found = query.spool.recover(max([state["rows"], *(reader.place for reader in query.readers.values())]))
        query.state, query.reason = QueryState(state["state"]), state["reason"]
        if found.damage:
            log.error("rows of query %s are lost: %s", query_id, found.damage)
            # Each start finds it again.
            if query.state.ended and found.damage not in query.reason:
                before = [query.reason] if query.state is not QueryState.COMPLETED and query.reason else []
                query.state, query.reason = QueryState.FAILED, "; ".join([*before, found.damage])
        for reader in query.readers.values():
            if reader.writes and reader.place < query.spool.oldest_row:
                self._give_up(query, reader)
            # On a full disk rows are forgotten before it is noted that a reader without a file has them.
            reader.place = min(max(reader.place, query.spool.oldest_row), query.spool.rows)
        self.by_id[query_id] = query
        slowest = min((reader.place for reader in query.readers.values()), default=query.spool.rows)
        log.info(
            "query %s has %d rows of an earlier life, %d not taken by all its readers; %d bytes were not confirmed",
            query_id,
            query.spool.rows,
            query.spool.rows - slowest,
            found.cut_bytes,
        )
        if query.state.ended:
            query.ending = True
            self._ended[query_id] = query

    @staticmethod
    def _give_up(query: IssuedQuery, reader: Reader) -> None:
        """Rows are missing that are not in its file: what is written behind them would look whole."""
        path, oldest = reader.note["file"], query.spool.oldest_row
        text = f"{path} requires rows from {reader.place} on; kept are those from {oldest} on"
        log.error("query %s: %s: it is not written any more", query.query_id, text)
        reader.give_up(query.query_id, text)

    def _read(self, query_id: str, journal: Journal, noted: Sequence[Facts]) -> IssuedQuery:
        first = noted[0]
        if first.get("query") != query_id:
            where = f"{self._folder / query_id / JOURNAL_NAME}"
            raise StorageError(f"{where} required what query {query_id} is; got {first.get('query')!r}")
        query = self._made(query_id, about_facts(first["about"]), journal, keep=first["keep"])
        query.run = first["run"]
        for facts in noted:
            if "reader" in facts:
                query.readers[facts["reader"]] = noted_reader(facts)
            elif "adaptive" in facts:
                query.adaptive = facts["adaptive"]
            elif "switch" in facts:
                query.switches.take_noted(noted_change(facts))
        query.is_mixed = query.switches.has_switched
        return query

    def can_go_on(self, query_id: str) -> bool:
        """Whether a query of an earlier life has all its rows."""
        query = self.by_id.get(query_id)
        return query is not None and not query.spool.damage

    def end_unfinished(self, reason: str, going_on: Collection[str] = (), begun: Collection[str] = ()) -> None:
        """Queries of an earlier life that do not go on have failed; what there is of their rows can be read.

        Of those that go on, the ones that had begun recover.
        """
        for query in [query for query in self.by_id.values() if not query.ending]:
            if query.query_id in going_on:
                query.state = QueryState.RECOVERING if query.query_id in begun else QueryState.PREPARING
            else:
                self.report(query.query_id, QueryState.FAILED, query.spool.damage or reason)

    def go_on(self, query_id: str, plan: Plan, now_ms: int) -> None:
        """A query of an earlier life goes on by this plan: its home's record says which, and may be the newer."""
        query = self.by_id.get(query_id)
        if query is None:
            return
        query.runs_by(Planned(plan))
        change = query.switches.under_way
        if change is not None:
            state = SwitchState.SWITCHED if change.after == describe(plan) else SwitchState.GIVEN_UP
            query.end_switch(state, f"site {self._site} was restarted", now_ms)

    def stored_spans(self, query_id: str) -> list[tuple[str, Span]]:
        """By head, the walks of a query whose rows are stored and of which ``done`` did not say that they are done."""
        return self.by_id[query_id].spool.spans

    def done(self, query_id: str, frontiers: Mapping[str, int]) -> None:
        """That the heads of a query are done up to these ticks is durable elsewhere, so no start asks for them here."""
        query = self.by_id.get(query_id)
        if query is not None:
            query.spool.done(frontiers)

    # -- a query begins -----------------------------------------------------------------------

    def new(
        self, planned: Planned, keep: bool = False, reader: str = DEFAULT_READER, *, adaptive: bool = False
    ) -> IssuedQuery:
        """A query whose rows are forgotten when its readers have taken them; or, to ``keep``, not before it is dropped.

        It begins with one reader. Raises QueryError if there are too many queries here whose rows wait for somebody.
        """
        waiting = sum(not query.is_settled for query in self._ended.values())
        if waiting >= self._limits.untaken_queries_max:
            least = f"fewer than {self._limits.untaken_queries_max} ended queries whose rows are kept"
            raise QueryError(f"site {self._site} requires {least}; it has {waiting}: narrows drop ID forgets one")
        self._count += 1
        query_id = new_query_id(self._site, self._life, self._count)
        journal = Journal(lambda: self._disk(query_id))
        query = self._made(query_id, about_plan(planned.plan), journal, keep=keep)
        query.planned, query.adaptive = planned, adaptive
        query.begin_reader(reader, 0)
        self.by_id[query_id] = query
        return query

    async def begin(self, query: IssuedQuery) -> None:
        """That there is this query is durable from now on. Raises StorageError, and forgets it, if it cannot be."""
        try:
            await query.noted(*query.facts())
        except StorageError as error:
            del self.by_id[query.query_id]
            raise type(error)(f"site {self._site} cannot keep the query: {error}") from None

    def _made(self, query_id: str, about: About, journal: Journal, *, keep: bool) -> IssuedQuery:
        spool = Spool(lambda: self._disk(query_id), about.arrow_schema, self._work, keep)
        return IssuedQuery(query_id, about, spool, journal, self._work)

    def _disk(self, query_id: str) -> Disk:
        path = self._folder / query_id
        return Folder(path, self.room) if self._durable else Scratch(path)

    # -- rows ---------------------------------------------------------------------------------

    def store(self, effects: Sequence[StoreRows], now_us: Callable[[], int], deliver: _Deliver) -> None:
        """Keep the rows of walks, those of a query together, and deliver what is durable then."""
        self._now_us, self._deliver = now_us, deliver
        by_query: dict[str, list[StoreRows]] = {}
        for effect in effects:
            by_query.setdefault(effect.query_id, []).append(effect)
        for query_id, walks in by_query.items():
            query = self.by_id.get(query_id)
            if query is not None and not query.ending:
                query.held += walks
                self._store(query)

    def retry(self) -> None:
        """What could not be stored is tried again: readers may have taken rows, and a disk may have room."""
        for query in [*self.by_id.values()]:
            if query.held:
                self._store(query)
            if query.unnoted_end is not None:
                self._note_end(query, *query.unnoted_end)

    def _store(self, query: IssuedQuery) -> None:
        query.trouble = self._over_quota(query)
        if query.trouble:
            return
        walks, query.held = query.held, []

        def stored(error: Exception | None) -> None:
            full = _is_full(error)
            # A run that nobody continues has nobody who makes room either.
            if error is not None and full and self._durable and not query.ending:
                query.held = [*walks, *query.held]
                query.trouble = f"the result rows have no room at {self._site}: {_text(error)}"
            elif error is not None:
                reason = f"the result rows cannot be kept at {self._site}: {_text(error)}"
                self._deliver([StoreFailed(query.query_id, reason)])
            else:
                at_us = self._now_us()
                for walk in walks:
                    query.latency.add(at_us - walk.sealed_at_us, walk.rows.num_rows)
                query.wake()
                self._deliver([RowsStored(walk.query_id, walk.head, walk.span) for walk in walks])

        query.spool.append(walks, stored)

    def _over_quota(self, query: IssuedQuery) -> str:
        """Why nothing more of a query is stored: so much waits for readers. Nothing if it may be."""
        # Cheap first: what is not even kept cannot wait.
        if sum(each.spool.nbytes for each in self.by_id.values()) <= self._quota_bytes:
            return ""
        unsent = [size for each in self.by_id.values() if (size := each.unsent_bytes)]
        own = query.unsent_bytes
        if sum(unsent) <= self._quota_bytes or own < self._quota_bytes / max(1, len(unsent)):
            return ""
        reader = query.slowest.name
        quota = f"{sum(unsent):,} bytes wait for readers at {self._site}, whose results_quota is {self._quota_bytes:,}"
        hint = f"take them, or narrows follow {query.query_id} --forget {reader}"
        return f"{quota}; {own:,} of them are for reader {reader} of {query.query_id}: {hint}"

    # -- a query ends -------------------------------------------------------------------------

    def report(self, query_id: str, state: QueryState, reason: str) -> None:
        """A query is in another state; it has ended when the rows that came before that are kept."""
        query = self.by_id.get(query_id)
        if query is None or query.ending:
            # It is told again after a restart.
            return
        if not state.ended:
            query.state, query.reason = state, reason
            if state is QueryState.RECOVERING:
                # Its next generation is counted as it itself, as was the plan that it began with.
                query.counted_as, query.is_mixed = query_id, query.switches.has_switched
            query.wake()
            return
        query.ending = True
        query.held.clear()
        self._note_end(query, state, reason)

    def report_switch(self, report: ReportSwitch, forecast: Forecast, now_ms: int) -> None:
        """A query goes over to another plan, and has got so far."""
        query = self.by_id.get(report.query_id)
        if query is not None and not query.ending:
            query.report_switch(report, forecast, now_ms)

    def end_switch(self, query_id: str, reason: str, now_ms: int) -> None:
        """A query is over, and with it what it was going over to."""
        query = self.by_id.get(query_id)
        if query is not None:
            query.end_switch(SwitchState.GIVEN_UP, reason, now_ms)

    def _note_end(self, query: IssuedQuery, state: QueryState, reason: str) -> None:
        query.unnoted_end = None

        def noted(error: Exception | None) -> None:
            if error is not None:
                log.warning("that query %s has ended cannot be noted: %s", query.query_id, _text(error))
            # A start would not know of it, so nobody is told before there is room; who drops it makes some.
            if _is_full(error) and self._durable and state is not QueryState.DROPPED:
                query.unnoted_end = state, reason
                query.trouble = f"there is no room at {self._site} to note that it {state.value}: {_text(error)}"
                query.wake()
            else:
                self._end(query, state, reason)

        query.note(noted, {"state": state.value, "reason": reason, "rows": 0})

    def _end(self, query: IssuedQuery, state: QueryState, reason: str) -> None:
        query.state, query.reason, query.trouble = state, reason, ""
        # How many rows there were must be known when the last file is gone.
        query.note(lambda error: None if error else query.spool.finish(), query.state_facts())
        query.wake()
        if query.query_id not in self.by_id:
            return
        self._ended[query.query_id] = query
        settled = [ended.query_id for ended in self._ended.values() if ended.is_settled]
        for oldest in settled[: -self._limits.ended_queries_max]:
            self.forget(oldest)

    def forget(self, query_id: str) -> None:
        """Nobody asks for this query any more."""
        query = self.by_id.pop(query_id, None)
        self._ended.pop(query_id, None)
        if query is None:
            return

        def dropped(error: Exception | None) -> None:
            if error is not None:
                text = "query %s is dropped, but its rows stay and the next start has it again: %s"
                log.error(text, query_id, _text(error))
                return
            query.spool.remove()
            self._work.put(lambda: self._remove_folder(query_id), lambda _: None)

        # Only when that is durable: a start must not take what is left of it for a query.
        self._work.put(query.journal.drop, dropped)
        query.wake()

    def _remove_folder(self, query_id: str) -> None:
        """Rows are gone for good before the file is that says that they are to be removed."""
        folder, sync = self._folder / query_id, sync_folder if self._durable else lambda _: None
        for path in sorted(folder.iterdir(), key=lambda path: path.name == DROPPED_NAME):
            if path.name == DROPPED_NAME:
                sync(folder)
            path.unlink()
        folder.rmdir()
        sync(self._folder)

    def leave(self) -> None:
        """The daemon is being stopped."""
        self.leaving = True
        for query in self.by_id.values():
            query.wake()

    def close(self) -> None:
        """Leave everything as it is, for the next life."""
        for query in self.by_id.values():
            query.spool.close()
            self._work.put(query.journal.close, lambda _: None)


def _is_full(error: Exception | None) -> bool:
    return isinstance(error, OSError) and error.errno in NO_ROOM


def _text(error: Exception | None) -> str:
    return getattr(error, "strerror", None) or str(error)
