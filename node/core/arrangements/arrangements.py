"""The one table of what a site keeps: rows of its own streams, copies that it holds, copies that others hold of it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from node.core.arrangements.catch_up import CatchUp
from node.core.arrangements.copies.copy import HeldCopy, OwnedCopy
from node.core.arrangements.copies.full_copy import FullHolder
from node.core.arrangements.copies.held_copies import HeldCopies
from node.core.arrangements.copies.key_copy import KeysHolder
from node.core.arrangements.copies.mixed_copy import MixedHolder, MixedOwner, Sought
from node.core.arrangements.copies.owned_copies import OwnedCopies
from node.core.arrangements.copies.reduced_copy import ReducedHolder, ReducedOwner
from node.core.arrangements.fed import Fed
from node.core.arrangements.feeds import LogReaders
from node.core.arrangements.lease import Lease
from node.core.arrangements.local_tables import LocalTables, table_status
from node.core.arrangements.table import RowTable
from node.core.effects import IgnoreReason, TrimLog
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.limits import Limits
from node.core.links.messages import (
    CloseCopy,
    DropPortion,
    Fetch,
    Fetched,
    LeaseCopy,
    Level,
    OpenCopy,
    OwnerMessage,
    SetPortion,
    Sync,
    TupleAnswer,
)
from node.core.links.outbox import Outbox
from node.core.queries.query_id import query_of, reader_of
from node.core.queries.waiting import Waiting
from node.core.status import CopyStatus, TableStatus
from node.core.streams.stream import StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.core.streams.view import SealedRows
from node.core.work import FetchAnswer, Work
from planner.model.copies import RunningCopy

#: What queries lease.
Leased = RowTable | HeldCopy


class Arrangements:
    """Everything that a site keeps of streams."""

    def __init__(self, streams: Mapping[str, StreamState], work: Work, outbox: Outbox, limits: Limits) -> None:
        self._streams = streams
        self._work = work
        self._outbox = outbox
        self._limits = limits
        self.readers = LogReaders(outbox)
        self.local = LocalTables(streams, work, self.readers)
        self.held = HeldCopies(work, outbox)
        self.owned = OwnedCopies(streams, self.readers, outbox, limits)
        self.catch_up = CatchUp(streams, self.readers, self.owned, outbox, limits)
        #: What may have something to forget.
        self._dirty: dict[Leased | OwnedCopy, None] = {}
        #: At first all: logs may be full of what nobody needs in this life, and nothing would be read that cuts them.
        self._trimmable: dict[str, None] = dict.fromkeys(streams)
        #: What was fetched from M and cannot be found yet.
        self._unsearched: list[tuple[MixedOwner, Sought | None, int]] = []
        #: By query and stream: what the stream's log must have is from this event time on.
        self._pins: dict[str, dict[str, int]] = {}

    @property
    def in_use(self) -> bool:
        """Whether anything is kept for anybody."""
        return bool(self.local.all or len(self.held) or len(self.owned) or self.owned.claims or self.readers.in_use)

    def add_stream(self, name: str) -> None:
        """There is another stream."""
        self.local.add(name)
        self._trimmable[name] = None

    def remove_stream(self, name: str) -> None:
        """A stream is gone, with the query that read it: whoever has copies of it closes them, or has done so."""
        for copy in self.owned.of(name):
            self._close(copy.peer, copy.number)
        self.local.remove(name)
        self._trimmable.pop(name, None)

    # -- pins ---------------------------------------------------------------------------------

    def pin(self, query_id: str, pins: Mapping[str, int]) -> None:
        """Have logs keep what a query needs to begin again: by stream, from an event time on."""
        self._trimmable |= dict.fromkeys([*self._pins.get(query_id, {}), *pins])
        self._pins[query_id] = dict(pins)

    def pinned(self, query_id: str, stream: str) -> int:
        """The log of a stream has for a query what is from this event time on."""
        return self._pins.get(query_id, {}).get(stream, TICK_MIN)

    def pins_of(self, query_id: str) -> dict[str, int]:
        """By stream, from which event time on its log is kept for a query."""
        return dict(self._pins.get(query_id, {}))

    def unpin(self, query_id: str) -> None:
        """A query is over."""
        self._trimmable |= dict.fromkeys(self._pins.pop(query_id, {}))

    # -- leases -------------------------------------------------------------------------------

    def unwish(self, query_id: str) -> None:
        """A query that was to go on begins, or is over."""
        self.local.unwish(query_id)
        self.held.unwish(query_id)

    def release(self, stream: str, arrangement: Leased, lease: Lease) -> None:
        """A query lets go of something."""
        if isinstance(arrangement, RowTable):
            self.local.release(stream, arrangement, lease)
            self._trimmable[stream] = None
        elif lease in arrangement.leases:
            self.held.release(arrangement, lease)
        self._dirty[arrangement] = None

    def moved(self, arrangement: Leased | OwnedCopy) -> None:
        """A lease needs less than before."""
        self._dirty[arrangement] = None

    def users_of(self, table: str) -> tuple[str, ...]:
        """The queries that use a table of the engine."""
        leases = [lease for row_table in self.local.all if row_table.name == table for lease in row_table.leases]
        leases += [lease for copy in self.held.all if copy.name == table for lease in copy.leases]
        return tuple(dict.fromkeys(lease.query_id for lease in leases))

    def moved_at_owner(self) -> None:
        """Leases of copies that others hold need less; while batches come, those bring the news."""
        for copy in self.owned.all:
            if copy.frontier == TICK_END:
                self._dirty[copy] = None

    # -- batches ------------------------------------------------------------------------------

    def on_batch(self, sealed: SealedRows) -> Fed:
        """A local stream has the next batch, logged."""
        stream = self._streams[sealed.stream]
        stream.feed(sealed)
        self._trimmable[sealed.stream] = None
        fed = Fed()
        fed.batches = self.local.take(sealed)
        # Before walks go on: what they lead to must not overtake the sync on the link.
        fed.woken = self.owned.take(sealed)
        for table, _ in fed.batches:
            self._dirty[table] = None
            fed.woken += table.progress.release()
        return fed

    # -- copies that others hold --------------------------------------------------------------

    def on_open(self, peer: str, message: OpenCopy, is_current: bool = True) -> None:
        """A holder opens a copy; not ``is_current``: for a query, or a generation of one, that is over here.

        Others may use the copy already, so it is fed until its holder closes it.
        """
        stream = message.spec.stream
        if not is_current and stream not in self._streams and reader_of(stream) == query_of(message.query_id):
            # That of a join which was kept for the query, and went with it: nobody else reads it.
            self._outbox.ignore(IgnoreReason.UNKNOWN_COPY, message)
            return
        copy = self.owned.open(peer, message, is_current)
        if is_current:
            self.owned.settle_claim(message.query_id, message.need, copy)
        if not self.readers.is_behind(copy):
            self.owned.say_level(copy)

    def on_lease(self, peer: str, message: LeaseCopy) -> None:
        """A query uses a copy that is there."""
        copy = self.owned.get(peer, message.copy)
        if copy is None:
            raise PeerProtocolError(f"a lease requires a copy that is open; got {message.copy} of {peer}")
        if not self.owned.settle_claim(message.query_id, message.need, copy):
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)

    def on_close(self, peer: str, message: CloseCopy) -> None:
        """A holder closes a copy."""
        if self.owned.get(peer, message.copy) is None:
            self._outbox.ignore(IgnoreReason.UNKNOWN_COPY, message)
        self._close(peer, message.copy)

    def _close(self, peer: str, number: int) -> None:
        copy = self.owned.close(peer, number)
        if copy is not None:
            self.catch_up.forget(copy)
            # The log may have been read for it, and so kept, longer than its queries were there.
            self._trimmable[copy.spec.stream] = None

    def on_fetch(self, peer: str, message: Fetch) -> None:
        """The holder of M wants all tuples of some keys."""
        copy = self.owned.get(peer, message.copy)
        if copy is None:
            self._outbox.ignore(IgnoreReason.UNKNOWN_COPY, message)
            return
        if not isinstance(copy, MixedOwner):
            raise PeerProtocolError(f"a fetch requires a mixed copy; got {message.copy} of {peer}")
        find, fetch = copy.find(message), copy.begin_fetch()
        if self._is_searchable(copy):
            self._search(copy, find, fetch)
        else:
            self._unsearched.append((copy, find, fetch))

    def _is_searchable(self, copy: MixedOwner) -> bool:
        """Whether all tuples that the holder was told of can be found, also those that only one of its queries sees.

        A query that goes on gets its table with its start, and that may have to be filled from the log.
        """
        if any(lease.frozen for lease in copy.leases if lease.query_id in copy.resumed):
            return False
        tables = [table for table in self.local.of(copy.spec.stream) if table.frontier < copy.frontier]
        return not any(lease.query_id in copy.resumed for table in tables for lease in table.leases)

    def _search(self, copy: MixedOwner, find: Sought | None, fetch: int) -> None:
        table = self._searched(copy)
        if find is None or table is None:
            # None of its queries is here any more, and those who come later see only what is newer.
            self._answer_fetch(copy, fetch, None)
            return
        # What the table has forgotten none of its queries can see.
        low = max(find.low, table.kept_from)
        op_id = self._work.ask(find.find_in(table.name, low), FetchAnswer(copy.peer, copy.number, fetch))
        table.hold(op_id, low)

    def search_on(self) -> None:
        """Look for what was fetched and could not be found yet."""
        unsearched, self._unsearched = self._unsearched, []
        for copy, find, fetch in unsearched:
            if self.owned.get(copy.peer, copy.number) is not copy:
                continue
            if self._is_searchable(copy):
                self._search(copy, find, fetch)
            else:
                self._unsearched.append((copy, find, fetch))

    def _searched(self, copy: MixedOwner) -> RowTable | None:
        """The table in which the tuples of a copy are found; None if nobody needs them any more.

        If none of its queries is here, one may be prepared whose lease is under way, and see what is older than that.
        It has a table that is as far as the stream, or will not use this copy.
        """
        stream, keys = copy.spec.stream, copy.spec.keys
        found = self.local.with_index(stream, keys, copy.users)
        if found is not None:
            return found
        prepared = {lease.query_id for lease in copy.leases}
        return self.local.with_index(stream, keys, prepared, self.readers.behind(stream))

    def on_found(self, asker: FetchAnswer, rows: pa.RecordBatch) -> None:
        """The engine found what a holder of M fetches."""
        copy = self.owned.get(asker.peer, asker.copy)
        if isinstance(copy, MixedOwner):
            self._answer_fetch(copy, asker.fetch, rows)

    def _answer_fetch(self, copy: MixedOwner, fetch: int, rows: pa.RecordBatch | None) -> None:
        try:
            found = copy.found(rows)
        except QueryFailedError as error:
            # It has too many rows to be sent, and later answers must not be taken for this one.
            self.owned.break_off(copy, f"{copy.progress.name}: {error}")
            return
        for answer in copy.answered(fetch, found):
            self.owned.post(copy, answer)

    def on_not_found(self, asker: FetchAnswer, reason: str) -> None:
        """The engine cannot find what a holder of M fetches: later answers must not be taken for this one."""
        copy = self.owned.get(asker.peer, asker.copy)
        if copy is not None:
            self.owned.break_off(copy, reason)

    # -- copies held here ---------------------------------------------------------------------

    def on_sync(self, peer: str, message: Sync) -> Fed:
        """A copy is to be like its view again."""
        fed = Fed()
        copy = self._held_from(peer, message)
        if isinstance(copy, FullHolder):
            fed.lost = dict.fromkeys(copy.on_batch(message), _lost(peer))
            fed.batches.append((copy.table, copy.on_sync(message)))
        elif isinstance(copy, ReducedHolder | KeysHolder | MixedHolder):
            copy.on_sync(message)
        if copy is not None:
            fed.woken = copy.progress.release()
            self._dirty[copy] = None
        return fed

    def on_level(self, peer: str, message: Level) -> None:
        """A copy has caught up with its stream."""
        copy = self._held_from(peer, message)
        if copy is not None:
            copy.is_level = True

    def on_portion(self, peer: str, message: SetPortion | DropPortion) -> Fed:
        """A full copy is to have more from now on, or less."""
        fed = Fed()
        copy = self._held_from(peer, message)
        if copy is None:
            return fed
        if not isinstance(copy, FullHolder):
            raise PeerProtocolError(f"a portion requires a full copy; got {message.copy}")
        fed.lost = dict.fromkeys(copy.on_portion(message), _lost(peer))
        return fed

    def on_fetched(self, peer: str, message: Fetched) -> list[Waiting]:
        """Tuples that were fetched for M; who waited for them."""
        copy = self._held_from(peer, message)
        if copy is None:
            return []
        if not isinstance(copy, MixedHolder):
            raise PeerProtocolError(f"fetched tuples require a mixed copy; got {message.copy}")
        return copy.on_fetched(message)

    def on_tuples(self, peer: str, message: TupleAnswer) -> bool:
        """The tuples of an answer, for W', whatever became of the walk; whether the copy is there."""
        copy = self._held_from(peer, message)
        if copy is None:
            return False
        if not isinstance(copy, ReducedHolder):
            raise PeerProtocolError(f"an answer with tuples requires a reduced copy; got {message.copy}")
        copy.take(copy.decode(message.rows))
        return True

    def _held_from(self, peer: str, message: OwnerMessage | TupleAnswer) -> HeldCopy | None:
        """The copy that its owner speaks of; None if it is closed here already.

        Raises PeerProtocolError if somebody else does.
        """
        copy = self.held.get(message.copy)
        if copy is None:
            self._outbox.ignore(IgnoreReason.UNKNOWN_COPY, message)
        elif copy.spec.owner != peer:
            raise PeerProtocolError(f"{copy.progress.name} requires messages of {copy.spec.owner}; got one of {peer}")
        return copy

    def holder_lost(self, peer: str) -> None:
        """What a site held of ours is gone."""
        for owned in self.owned.all:
            if owned.peer == peer:
                self._close(peer, owned.number)

    def owner_lost(self, peer: str) -> None:
        """The other halves of what we hold of a site are gone."""
        for copy in self.held.all:
            if copy.spec.owner == peer:
                self.held.forget(copy)

    # -- forgetting ---------------------------------------------------------------------------

    def unhold(self, op_id: int) -> None:
        """A question was answered: what its answer may have had can be forgotten."""
        for table in self.local.all:
            table.unhold(op_id)

    def settle(self) -> None:
        """Forget what nobody can ask for any more."""
        dirty, self._dirty = self._dirty, {}
        for arrangement in dirty:
            if isinstance(arrangement, OwnedCopy):
                self.owned.settle(arrangement)  # type: ignore[arg-type]
            elif arrangement.leases:
                if isinstance(arrangement, RowTable):
                    self.owned.keep_fetchable(arrangement)
                arrangement.settle()
        trimmable, self._trimmable = self._trimmable, {}
        for stream in trimmable:
            # One that was kept for a query goes with it.
            if stream in self._streams:
                self._forget(stream)
        if self.logs_full:
            self._give_way()

    def _forget(self, name: str) -> None:
        stream = self._streams[name]
        tick = stream.trim(self._pinned_ts(stream))
        if tick is not None:
            self._outbox.do(TrimLog(name, tick))
        kept = self.local.lowest_kept(name)
        if kept is not None:
            # A query that goes on may have a table again with what the log has.
            kept = min(kept, stream.log_first)
            for copy in self.owned.of(name):
                if isinstance(copy, ReducedOwner):
                    copy.forget_before(kept)

    @property
    def logged_bytes(self) -> int:
        """What the logs of the site's streams hold."""
        return sum(stream.logged_bytes for stream in self._streams.values())

    @property
    def logs_full(self) -> bool:
        """Whether the logs hold as much as is allowed: no source is read then."""
        return self.logged_bytes >= self._limits.log_bytes_max

    def _give_way(self) -> None:
        """Logs hold as much as is allowed: what is only retained goes, of the largest log first. What is pinned stays.

        Somebody may need that for good, and then streams pause; but who comes later can begin later.
        """
        pinned = {name: self._pinned_ts(stream) for name, stream in self._streams.items()}
        cut: dict[str, int] = {}
        while self.logs_full:
            giving = [
                (stream.logged_bytes, name) for name, stream in self._streams.items() if stream.can_forget(pinned[name])
            ]
            if not giving:
                break
            _, largest = max(giving)
            cut[largest] = self._streams[largest].forget_oldest()
        for name, tick in cut.items():
            self._outbox.do(TrimLog(name, tick))

    def _pinned_ts(self, stream: StreamState) -> int:
        """The stream's log must have what is from this event time on."""
        name = stream.info.name
        pins = [TICK_END if stream.fed == TICK_END else stream.sealed_ts(stream.fed)]
        pins += [of_query[name] for of_query in self._pins.values() if name in of_query]
        pins += [stream.sealed_ts(feed.frontier) for feed in self.readers.behind(name)]
        # Copies that are yet to be opened begin with the query, however far that is done by then.
        begun = [claim.lease for claim in self.owned.claims if claim.stream == name and not claim.lease.frozen]
        return min(pins + [lease.first_ts for lease in begun])

    # -- for reports --------------------------------------------------------------------------

    def copy_statuses(self) -> list[CopyStatus]:
        return [*self.owned.statuses(), *self.held.statuses()]

    def table_statuses(self) -> list[TableStatus]:
        full = [copy for copy in self.held.all if isinstance(copy, FullHolder) and copy.table.keys]
        others = [copy for copy in self.held.all if isinstance(copy, ReducedHolder | MixedHolder)]
        return [
            *self.local.statuses(),
            *(table_status(copy.table, copy.spec.stream) for copy in full),
            *(_copy_table(copy) for copy in others),
        ]

    def running_copies(self) -> tuple[RunningCopy, ...]:
        """The copies that others hold of streams of this site."""
        return tuple(dict.fromkeys(self.owned.specs))

    def shared_copies(self, query_id: str) -> tuple[RunningCopy, ...]:
        """The copies that others hold of streams of this site and that would run without this query too."""
        return tuple(dict.fromkeys(self.owned.specs_beside(query_id)))

    @property
    def waiting(self) -> list[Waiting]:
        """Walks that wait for an arrangement."""
        found = [waiting for table in self.local.all for waiting in table.progress.waiting]
        for copy in self.held.all:
            found += copy.progress.waiting
            if isinstance(copy, MixedHolder):
                found += copy.fetching
        return found + [waiting for owner in self.owned.all for waiting in owner.progress.waiting]


def _lost(peer: str) -> str:
    return f"site {peer} no longer sends what it needs"


def _copy_table(copy: ReducedHolder | MixedHolder) -> TableStatus:
    users = tuple(dict.fromkeys(lease.query_id for lease in copy.leases))
    waiting = len(copy.progress.waiting)
    return TableStatus(copy.name, copy.spec.stream, (copy.spec.keys,), copy.frontier, waiting, users)
