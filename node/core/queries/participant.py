"""The queries that a site takes part in: prepared, started, fed, and ended.

What a query does here is in ``run``. Here it is found for what happened, and if it cannot go on it is forgotten and
its home is told, which ends it everywhere. If it only lost what it knew (a site died, a session was lost), it is
voided: home is told, which begins another generation, and until that comes it has nothing here but its pins, which
keep what that needs in the streams' logs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from node.core.arrangements.arrangements import Arrangements
from node.core.arrangements.catch_up import LogGapError
from node.core.arrangements.copies.copy import OwnedCopy
from node.core.arrangements.copies.full_copy import User
from node.core.arrangements.fed import Fed
from node.core.arrangements.head_cursor import HeadCursor
from node.core.arrangements.lease import done_with
from node.core.arrangements.reach import reach_of
from node.core.arrangements.table import RowTable
from node.core.effects import IgnoreReason, KeepRecord, NoteIgnored, QueryState, RemoveRecord, ReportDropped
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.events import EngineFailed, LogRead, LogUnread, ProbeFinished
from node.core.limits import Limits
from node.core.links.messages import (
    FIRST_GENERATION,
    NO_GENERATION,
    CloseCopy,
    Done,
    Drop,
    Failed,
    Fence,
    LeaseCopy,
    Lost,
    Message,
    OpenCopy,
    Prepare,
    Prepared,
    Refused,
    Resumption,
    Returned,
    Rows,
    Start,
    StepMessage,
    TupleAnswer,
    require_ticks,
)
from node.core.links.outbox import Outbox
from node.core.queries.ended_queries import EndedQueries
from node.core.queries.issuer import Issuer
from node.core.queries.lagging import Lagging
from node.core.queries.plan_message import plan_of
from node.core.queries.query_id import home_of
from node.core.queries.run import QueryRun
from node.core.queries.waiting import Waiting, Walk
from node.core.query_records import PinRecord, RecordKind
from node.core.status import CopyStatus, KeptLog, ProbeCounts, StepRows, ViewCount
from node.core.streams.stream import StreamState, check_same
from node.core.streams.ticks import TICK_END, TICK_MIN, tick_of, tick_start
from node.core.streams.view import SealedRows
from node.core.work import FetchAnswer, Work
from planner.model.errors import NarrowsError
from planner.model.query import Plan

#: Why a site has nothing for a query that ran.
_NOT_KEPT = "it was dropped here by a user, or had failed here, or the site began anew"


class Participant:
    """What a site does for queries, its own and those of other homes."""

    def __init__(
        self,
        tau_ms: int,
        streams: Mapping[str, StreamState],
        limits: Limits,
        outbox: Outbox,
        issuer: Issuer,
        work: Work,
        arrangements: Arrangements,
    ) -> None:
        self.runs: dict[str, QueryRun] = {}
        #: Round trips with other sites, as last measured.
        self.rtt_us: dict[str, int] = {}
        self._site = outbox.site
        self._tau_ms = tau_ms
        self._streams = streams
        self._limits = limits
        self._outbox = outbox
        self._issuer = issuer
        self._work = work
        self._arrangements = arrangements
        self._lagging = Lagging(limits)
        #: Sites that this one has not met since it was started.
        self._unmet: dict[str, None] = {}
        #: Queries that go on, once this site reaches all others of theirs; from where on logs have what they need.
        self._unready: dict[str, tuple[Prepare, dict[str, int]]] = {}
        #: Starts that wait until all sites were heard to be ready, and what was done after them.
        self._starts: dict[str, Start] = {}
        self._early_done: dict[str, Done] = {}
        self._ended = EndedQueries(limits.ended_queries_max)
        #: What generations that are over here needed and nobody had opened yet, with the holders: they may not know.
        self._unopened: dict[tuple[User, int], str] = {}
        #: By site and query: the generation that the site speaks of.
        self._fences: dict[tuple[str, str], int] = {}
        #: Queries that need something of this site, whether they run or wait to go on.
        self._pins: dict[str, PinRecord] = {}

    # -- what is seen -------------------------------------------------------------------------

    def view_counts(self) -> list[ViewCount]:
        """What queries saw of the local streams, ended queries included."""
        return [*self._ended.views, *(count for run in self.runs.values() for count in run.counts.views())]

    def probe_counts(self) -> list[ProbeCounts]:
        """How policy delta fared here, ended queries included."""
        return [*self._ended.probes, *(run.probe_counts for run in self.runs.values())]

    def step_rows(self) -> list[StepRows]:
        """Rows of walks before each of their steps here, ended queries included."""
        return [*self._ended.steps, *(rows for run in self.runs.values() for rows in run.counts.steps())]

    def copy_statuses(self) -> list[CopyStatus]:
        """Halves of copies here, each once with all who use it; those of ended queries as they were at the end."""
        closed = [half for run in self.runs.values() for half in run.closed_copies.values()]
        return [*self._ended.copies, *closed, *self._arrangements.copy_statuses()]

    def waiting(self) -> list[Waiting]:
        """Every walk that is under way here, and what it waits for."""
        asking = [asker for asker in self._work.asking.values() if isinstance(asker, Waiting)]
        return [*self._arrangements.waiting, *asking, *(one for run in self.runs.values() for one in run.waiting)]

    # -- a query begins -----------------------------------------------------------------------

    def prepare(self, peer: str, message: Prepare) -> None:
        """Get ready for a query and say from where on it can be served, or refuse it."""
        run = self.runs.get(message.query_id)
        if run is not None and run.plan.sink == peer:
            if message.generation <= run.generation:
                got = f"{message.query_id} again, generation {message.generation}"
                raise PeerProtocolError(f"site {self._site} requires new queries, or new generations; got {got}")
            self._void(run)
        try:
            self._check_id(peer, message.query_id)
            plan = self._plan_of(peer, message)
            begins = {} if message.resumed is None else self._kept_begins(message.query_id, plan, message.resumed)
        except NarrowsError as error:
            pin = self._pins.get(message.query_id)
            if pin is not None and pin.home == peer:
                self._unpin(message.query_id)
            self._outbox.send(peer, Refused(message.query_id, str(error)))
            return
        self._pin(message.query_id, plan, begins)
        if message.generation != FIRST_GENERATION:
            for site in plan.sites:
                if site != self._site:
                    self._outbox.send(site, Fence(message.query_id, message.generation))
        run = self._new_run(message, plan, begins)
        self.runs[message.query_id] = run
        self._unready[message.query_id] = message, begins
        self.say_ready()

    def say_ready(self) -> None:
        """Tell homes that this site is ready for their queries.

        A query that goes on must not begin, and hold what it needs, before its sites reach each other. Nor may a new
        one before they have met: what is said to a site that was never met could be heard by a daemon that was started
        since, which would answer without what it had promised.
        """
        for query_id, (message, begins) in list(self._unready.items()):
            run = self.runs[query_id]
            unmet = [site for site in run.plan.sites if site in self._unmet]
            missed = self._outbox.away(run.plan.sites) if run.is_resumed else unmet
            if not missed:
                del self._unready[query_id]
                self._outbox.send(run.plan.sink, self._prepared(message, run, begins))

    def expect(self, peers: Iterable[str]) -> None:
        """With these sites there are links; none has been met."""
        self._unmet = dict.fromkeys(peers)

    def met(self, peer: str) -> None:
        """There is a session with a site: if that ends, this site is told."""
        self._unmet.pop(peer, None)
        self.say_ready()

    def _new_run(self, message: Prepare, plan: Plan, begins: Mapping[str, int]) -> QueryRun:
        run = QueryRun(
            message.query_id,
            plan,
            self._tau_ms,
            self._limits,
            self._outbox,
            self._work,
            self._arrangements,
            self._store,
            message.generation,
            message.resumed,
            begins,
        )
        for alias in run.local_aliases:
            self._streams[plan.query.ref(alias).stream.name].followers.append((alias, run))
        return run

    def _prepared(self, message: Prepare, run: QueryRun, begins: Mapping[str, int]) -> Prepared:
        plan = run.plan
        streams = {alias: self._streams[plan.query.ref(alias).stream.name] for alias in run.local_aliases}
        waiting = [stream for stream in streams.values() if not stream.started and not run.is_resumed]
        origins = [stream.origin_ms for stream in waiting if stream.origin_ms is not None]
        if not run.is_resumed:
            begins = {alias: stream.begin_of(message.beginning) for alias, stream in streams.items()}
        earliest = max(begins.values(), default=TICK_MIN)
        rtts = tuple((other, rtt) for other, rtt in sorted(self.rtt_us.items()) if other in plan.sites)
        frontiers = tuple((alias, stream.fed) for alias, stream in streams.items())
        origin_ms = min(origins, default=None)
        return Prepared(
            message.query_id, earliest, origin_ms, rtts, frontiers, message.generation, tuple(begins.items())
        )

    @property
    def pinned(self) -> tuple[str, ...]:
        """Queries for which logs keep something."""
        return tuple(self._pins)

    # -- what is kept for queries that go on --------------------------------------------------

    def _begins(self, query_id: str, plan: Plan, resumed: Resumption) -> dict[str, int]:
        """By local alias: from which tick on its stream's log has what walks that are not done can see.

        Raises NarrowsError if it has not.
        """
        require_ticks(f"query {query_id}", "what is done", resumed.done, plan.query.aliases)
        found, done = {}, dict(resumed.done)
        if resumed.stored_to > resumed.first_tick:
            self._check_restored(query_id, plan, resumed.stored_to)
        for ref in plan.query.streams:
            if ref.stream.site == self._site:
                reach = reach_of(plan.query, ref.alias, self._tau_ms)
                stream = self._streams[ref.stream.name]
                others = tick_start(done_with(ref.alias, done), reach.tau)
                pinned = self._arrangements.pinned(query_id, ref.stream.name)
                seen_ts = pinned if reach.count is not None else reach.before(others)
                unknown = seen_ts <= TICK_MIN and reach.count is not None
                seen = stream.log_begin if unknown else tick_of(seen_ts, reach.tau)
                found[ref.alias] = max(resumed.first_tick, min(done[ref.alias], seen))
                # Before its first tick nothing of it was delivered.
                delivered = done[ref.alias] if done[ref.alias] > resumed.first_tick else TICK_MIN
                # How far back a count of tuples reaches is known by what was pinned: all that the log had.
                stream.check_log(found[ref.alias], delivered, resumed.first_tick if unknown else found[ref.alias])
        return found

    def _check_restored(self, query_id: str, plan: Plan, seen: int) -> None:
        """That all is there with which results were found that were delivered: each head's with all streams.

        Raises NarrowsError if the site was restored from a backup that is older than that. A query of which nothing is
        known was prepared after the backup.
        """
        pin = self._pins.get(query_id)
        for ref in plan.query.streams:
            if ref.stream.site == self._site:
                stream = self._streams[ref.stream.name]
                bound = stream.restored_to if pin is None else dict(pin.restored).get(ref.stream.name)
                stream.check_restored(bound, seen)

    def _kept_begins(self, query_id: str, plan: Plan, resumed: Resumption) -> dict[str, int]:
        """As ``_begins``. Raises NarrowsError too if nothing is kept here for a query that has streams of this site.

        All its sites had kept a pin before it ran. So here it has ended since, or the pin is lost with the disk; what
        the log has by chance may lack something.
        """
        is_kept = query_id in self._pins
        try:
            begins = self._begins(query_id, plan, resumed)
        except NarrowsError as error:
            raise error if is_kept else NarrowsError(f"{error}: {_NOT_KEPT}") from None
        if begins and not is_kept:
            required = f"site {self._site} requires what it kept for query {query_id}"
            raise NarrowsError(f"data loss: {required}; got nothing: {_NOT_KEPT}")
        return begins

    def _pin(self, query_id: str, plan: Plan, begins: Mapping[str, int]) -> None:
        """Have the logs of this site keep what a query can need when it begins, or begins again."""
        pins: dict[str, int] = {}
        for ref in plan.query.streams:
            if ref.stream.site == self._site:
                stream = self._streams[ref.stream.name]
                ts = tick_start(begins.get(ref.alias, TICK_MIN), stream.tau)
                pins[ref.stream.name] = min(ts, pins.get(ref.stream.name, TICK_END))
        pin = self._pins.get(query_id)
        if pin is None or pin.restored:
            self._pins[query_id] = PinRecord(query_id, plan.sink, tuple(pins))
            self._outbox.do(KeepRecord(self._pins[query_id]))
        self._arrangements.pin(query_id, pins)

    def _unpin(self, query_id: str) -> None:
        if self._pins.pop(query_id, None) is not None:
            self._arrangements.unpin(query_id)
            self._outbox.do(RemoveRecord(RecordKind.PIN, query_id))

    def _move_pins(self, run: QueryRun) -> None:
        """Less is needed; but nothing is forgotten for good by what home may not know after a crash."""
        if run.plan.sink != self._site or self._issuer.kept_done(run.query_id) == run.done:
            self._arrangements.pin(run.query_id, run.pins)

    def recover(self, pins: Iterable[PinRecord]) -> None:
        """Know again what is kept for queries of an earlier life: all that the logs have."""
        for pin in pins:
            self._pins[pin.query_id] = pin
            # One may have left the configuration; its query is refused when it begins again.
            known = [name for name in pin.streams if name in self._streams]
            self._arrangements.pin(pin.query_id, dict.fromkeys(known, TICK_MIN))

    def return_pins(self, homes: Collection[str] | None = None) -> None:
        """Ask homes (all: None) whether what is kept for their queries is still needed."""
        for pin in list(self._pins.values()):
            if (homes is None or pin.home in homes) and pin.query_id not in self.runs:
                self._outbox.send(pin.home, Returned(pin.query_id))

    def _check_id(self, peer: str, query_id: str) -> None:
        """Raises NarrowsError if the id is that of another site's query."""
        run, pin = self.runs.get(query_id), self._pins.get(query_id)
        if home_of(query_id) not in ("", peer):
            raise NarrowsError(f"site {self._site} requires ids of queries of {peer} to name it; got {query_id}")
        home = run.plan.sink if run is not None else pin.home if pin is not None else peer
        home = self._site if query_id in self._issuer.homes else home
        if home != peer:
            raise NarrowsError(f"site {self._site} requires new query ids; got {query_id}, which is a query of {home}")

    def _plan_of(self, peer: str, message: Prepare) -> Plan:
        """Bind the query text against the streams that home named, once ours are as home thinks."""
        if message.sink != peer:
            raise NarrowsError(f"a query requires its home as sink; got {message.sink!r} from {peer}")
        for info in message.streams:
            if info.site != self._site:
                continue
            own = check_same(self._streams, info)
            if own.failed:
                raise NarrowsError(f"stream {info.name} cannot be read: {own.failed}")
        plan = plan_of(message)
        if unlinked := self._outbox.unlinked(plan.sites):
            required = f"site {self._site} requires links with all sites of a query"
            raise NarrowsError(f"{required}; got none with {', '.join(unlinked)}")
        return plan

    def takes_part(self, peer: str, query_id: str) -> bool:
        """Whether a site has to do with a query that is known here."""
        run, home = self.runs.get(query_id), self._issuer.homes.get(query_id)
        return (run is not None and peer in run.plan.sites) or (home is not None and peer in home.plan.sites)

    def _check_home(self, peer: str, run: QueryRun, what: str) -> None:
        if peer != run.plan.sink:
            raise PeerProtocolError(f"query {run.query_id} requires {what} from its home, {run.plan.sink}; got {peer}")

    def start(self, peer: str, message: Start) -> list[tuple[str, StepMessage]]:
        """All sites are ready; the messages that came before we knew, each with who sent it."""
        run = self._find(message)
        if run is None:
            return []
        self._check_home(peer, run, "its start")
        if message.generation != run.generation:
            self._outbox.ignore(IgnoreReason.OTHER_GENERATION, message)
            return []
        message.check(run.plan.query.aliases, run.is_resumed)
        self._starts[run.query_id] = message
        return self._start_fenced(run)

    def _start_fenced(self, run: QueryRun) -> list[tuple[str, StepMessage]]:
        """Start a query, once all its other sites were heard to be ready if it goes on.

        Each of them said so before home could start it. What it said of copies before that may be for others alone, so
        which of them are right for the query is known only now.
        """
        others = [site for site in run.plan.sites if site != self._site] if run.is_resumed else []
        message = self._starts.get(run.query_id)
        if message is None or any(self._fences.get((site, run.query_id)) != run.generation for site in others):
            return []
        del self._starts[run.query_id]
        for alias in run.local_aliases:
            stream = self._streams[run.plan.query.ref(alias).stream.name]
            if not stream.started and message.origin_ms is not None:
                stream.origin_ms = message.origin_ms
        early: list[tuple[str, StepMessage]] = []
        with self._working(run.query_id):
            early += run.start(message)
            self._move_pins(run)
        done = self._early_done.pop(run.query_id, None)
        if done is not None:
            self._on_done(run, done)
        return early

    def on_fence(self, peer: str, message: Fence) -> list[tuple[str, StepMessage]]:
        """What a site says of a query from now on belongs to another generation. It may be here before its Prepare.

        What is here of the generation that the site was in cannot go on. Nor must it: its leases there are gone, so
        what the site says of copies from now on is for others, and walks here would miss what is forgotten.

        The messages that came before a start which waited for this, each with who sent it.
        """
        before = self._fences.pop((peer, message.query_id), FIRST_GENERATION)
        run = self.runs.get(message.query_id)
        if run is not None and peer in run.plan.sites and before == run.generation != message.generation:
            if message.generation == NO_GENERATION:
                self._lose(run.query_id, f"site {peer} lost what it knew")
            else:
                # Home knows, and asks us next.
                self._void(run)
        self._fences[peer, message.query_id] = message.generation
        if len(self._fences) > self._limits.fences_max:
            # Without its fences a query that goes on would wait for ever: those go of which nothing is here.
            unknown = [place for place in self._fences if place[1] not in self.runs and place[1] not in self._pins]
            for place in unknown[: len(self._fences) - self._limits.fences_max]:
                del self._fences[place]
        run = self.runs.get(message.query_id)
        return [] if run is None else self._start_fenced(run)

    def _is_current(self, peer: str, run: QueryRun, message: Message) -> bool:
        """Whether what a site says of a query is of the generation that is here."""
        if self._fences.get((peer, run.query_id), FIRST_GENERATION) == run.generation:
            return True
        self._outbox.ignore(IgnoreReason.OTHER_GENERATION, message)
        return False

    def give_up_waiting(self) -> None:
        """A query that nobody starts must not hold streams that others read."""
        prepared_us = self._limits.prepared_us
        for run in list(self.runs.values()):
            if run.started or self._outbox.now_us - run.prepared_us < prepared_us:
                continue
            reason = f"{self._site} requires a start within {prepared_us / 1e6:g} s of being ready; got none"
            if run.resumed is None or not run.resumed.is_alone:
                # Home may know for good that it began, and have died before its start left: it goes on when it is back,
                # by the pins. Or it begins a generation that holds nothing while it waits, and has not reached us.
                self._lose(run.query_id, reason)

    # -- a query goes on ----------------------------------------------------------------------

    def on_batch(self, sealed: SealedRows) -> None:
        """A local stream has the next batch, logged."""
        self.on_fed(self._arrangements.on_batch(sealed))

    def on_log_read(self, event: LogRead) -> None:
        """Batches out of a stream's log, for a query that begins in the past or a copy that is to have them."""
        try:
            fed = self._arrangements.catch_up.on_read(event.reader, event.batches, self._outbox.now_us, self.is_full)
        except LogGapError as error:
            for query_id in error.queries:
                self.fail(query_id, f"at {self._site}: {error}")
            return
        self.on_fed(fed)

    def on_log_unread(self, event: LogUnread) -> None:
        """What somebody needs of a stream's log cannot be read: its queries end."""
        for query_id in self._arrangements.catch_up.on_unread(event.reader, event.reason):
            self.fail(query_id, f"at {self._site}: {event.reason}")

    def is_full(self, table: RowTable | HeadCursor) -> bool:
        """Whether some query has as much under way of what a table or a cursor feeds as is allowed."""
        if isinstance(table, HeadCursor):
            run = self.runs.get(table.query_id)
            return run is not None and run.is_full(table)
        users = {lease.query_id for lease in table.leases}
        return any(run.is_full(table) for query_id, run in self.runs.items() if query_id in users)

    def on_fed(self, fed: Fed) -> None:
        """Tables took batches, copies were sealed further: walks go on, and others start."""
        for query_id, reason in fed.lost.items():
            self._lose(query_id, reason)
        self.wake(fed.woken)
        for cursor, sealed in fed.heads:
            run = self.runs.get(cursor.query_id)
            if run is not None and run.generation == cursor.generation:
                with self._working(run.query_id):
                    run.on_past_batch(cursor, sealed)
        for table, sealed in fed.batches:
            for query_id in dict.fromkeys(lease.query_id for lease in table.leases):
                run = self.runs.get(query_id)
                if run is not None:
                    with self._working(query_id):
                        run.on_batch(table, sealed)

    def wake(self, woken: list[Waiting]) -> None:
        """What these walks waited for has happened."""
        for waiting in woken:
            run = self._run_of(waiting.walk)
            if run is not None:
                with self._working(run.query_id):
                    run.wake(waiting)

    def on_step(self, peer: str, message: StepMessage) -> None:
        """A message from one half of a step to the other."""
        if isinstance(message, TupleAnswer) and not self._arrangements.on_tuples(peer, message):
            return
        run = self._find(message)
        if run is not None and self._is_current(peer, run, message):
            with self._working(run.query_id):
                run.on_message(peer, message)

    def on_done(self, peer: str, message: Done) -> None:
        """The sink of a query has stored more."""
        run = self._find(message)
        if run is None:
            return
        self._check_home(peer, run, "news of what is done")
        if run.query_id in self._starts:
            self._early_done[run.query_id] = message
        else:
            self._on_done(run, message)

    def _on_done(self, run: QueryRun, message: Done) -> None:
        with self._working(run.query_id):
            run.on_done(message.frontiers)
            self._move_pins(run)
        if run.complete:
            self.close(run.query_id)

    def on_rows(self, peer: str, message: Rows) -> None:
        """Result rows of a query whose home this is."""
        run = self._find(message)
        if run is not None:
            if not self._is_current(peer, run, message):
                return
            rows = run.decode_results(peer, message)
            span, sealed_at_us = message.span, message.sealed_at_us
            self._issuer.store(Walk(run.query_id, run.generation, message.head, span, sealed_at_us, 0, rows))

    def _store(self, walk: Walk) -> None:
        """Have the rows of a walk that ended here kept.

        If they cannot be, a peer sent rows of its ticks before. Which one is not known: nobody is blamed.
        """
        try:
            self._issuer.store(walk)
        except PeerProtocolError as error:
            raise QueryFailedError(str(error)) from error

    def on_answer(self, event: ProbeFinished) -> None:
        """The engine answered."""
        self._arrangements.unhold(event.op_id)
        asker = self._work.take(event.op_id)
        if asker is None:
            self._outbox.do(NoteIgnored(IgnoreReason.UNKNOWN_QUESTION, f"answer to question {event.op_id}"))
        elif isinstance(asker, FetchAnswer):
            self._arrangements.on_found(asker, event.rows)
        else:
            run = self._run_of(asker.walk)
            if run is not None:
                with self._working(run.query_id):
                    run.answered(asker, event.rows)

    def on_engine_failed(self, event: EngineFailed) -> None:
        """What cannot be answered ends its query, or its copy; a table that cannot be changed, all that use it."""
        self._arrangements.unhold(event.op_id)
        asker = self._work.take(event.op_id)
        reason = f"the engine failed: {event.reason}"
        if isinstance(asker, FetchAnswer):
            self._arrangements.on_not_found(asker, reason)
            return
        users = (asker.walk.query_id,) if isinstance(asker, Waiting) else self._arrangements.users_of(event.table)
        for query_id in users:
            self.fail(query_id, f"at {self._site}: {reason}")

    def on_clock(self) -> None:
        for run in list(self.runs.values()):
            with self._working(run.query_id):
                run.on_clock()

    def void_lagging(self) -> None:
        """Queries that cannot go on must not stop others that read the same streams."""
        for run in self._lagging.find(list(self.runs.values()), self._streams, self._outbox.now_us):
            waited_us = self._outbox.now_us - run.moved_us
            away = self._outbox.away(run.plan.sites)
            because = f", {', '.join(away)} away" if away else ""
            self._lagging.voided(run)
            self._lose(run.query_id, f"lags at {self._site}: nothing was done for {waited_us / 1e6:.0f} s{because}")

    def void_old(self, query_id: str) -> None:
        """A query that was issued here may have to wait before its next generation: nothing is held meanwhile."""
        run, home = self.runs.get(query_id), self._issuer.homes.get(query_id)
        if run is not None and home is not None and home.is_waiting and run.plan.sink == self._site:
            self._fence_off(run)
            self._void(run)

    def tell_endings(self) -> None:
        """Walks that ended without rows: the sinks of their queries learn of them beside other messages."""
        # Once for those that are due, once more for others that can ride with these.
        for _ in range(2):
            waiting = [run for run in self.runs.values() if run.has_endings]
            if not waiting:
                return
            sent_to = self._outbox.sent_to()
            for run in waiting:
                with self._working(run.query_id):
                    run.tell_endings(riding=run.plan.sink in sent_to)

    def _find(self, message: Start | Done | Drop | Rows | StepMessage) -> QueryRun | None:
        run = self.runs.get(message.query_id)
        if run is None:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)
        return run

    def _run_of(self, walk: Walk) -> QueryRun | None:
        run = self.runs.get(walk.query_id)
        if run is None or run.generation != walk.generation:
            self._outbox.do(NoteIgnored(IgnoreReason.WALK_OVER, str(walk)))
            return None
        return run

    @contextmanager
    def _working(self, query_id: str) -> Iterator[None]:
        """Let a query work, or end it if it cannot go on."""
        try:
            yield
        except QueryFailedError as error:
            self.fail(query_id, f"at {self._site}: {error}")

    # -- a query ends -------------------------------------------------------------------------

    def drop(self, peer: str, message: Drop) -> None:
        """Home ends a query, which may have nothing here but its pins."""
        pin = self._pins.get(message.query_id)
        if pin is not None and pin.home == peer and message.query_id not in self.runs:
            self.close(message.query_id)
            return
        run = self._find(message)
        if run is not None:
            self._check_home(peer, run, "its end")
            self.close(message.query_id)

    def drop_here(self, query_id: str) -> None:
        """A user ends a query of another home, which may be gone for good. If it is not, it hears of it and ends it.

        If it returns with another life, it does not hear; but here its query finds no pin then, and is refused.
        """
        run, pin = self.runs.get(query_id), self._pins.get(query_id)
        home = run.plan.sink if run is not None else pin.home if pin is not None else None
        if home is not None:
            self._outbox.send(home, Failed(query_id, f"dropped at {self._site} by a user"))
            self.close(query_id)
        self._outbox.do(ReportDropped(query_id))

    def kept_for(self) -> list[KeptLog]:
        """What logs keep for queries."""
        found = []
        for pin in self._pins.values():
            for name in pin.streams:
                stream = self._streams.get(name)
                if stream is None:
                    continue
                ts = self._arrangements.pinned(pin.query_id, name)
                since = stream.log_begin if ts <= TICK_MIN else max(stream.log_begin, tick_of(ts, stream.tau))
                nbytes, runs = stream.bytes_from(ts), pin.query_id in self.runs
                found.append(KeptLog(pin.query_id, pin.home, name, since, nbytes, runs))
        return found

    def close(self, query_id: str) -> None:
        """Forget a query."""
        run = self.runs.get(query_id)
        if run is not None:
            self._void(run)
        self._lagging.forget(query_id)
        self._unpin(query_id)
        self._forget_fences(query_id)

    def _forget_fences(self, query_id: str) -> None:
        """Nothing of a query is here but copies that may be opened for what is over: who opens one says for which."""
        opening = {holder for (user, _), holder in self._unopened.items() if user[0] == query_id}
        self._fences = {
            place: generation
            for place, generation in self._fences.items()
            if place[1] != query_id or place[0] in opening
        }

    def _void(self, run: QueryRun) -> None:
        """Nothing of a generation is left here; what its query needs to go on is pinned."""
        query_id = run.query_id
        del self.runs[query_id]
        for waiting in (self._unready, self._starts, self._early_done):
            waiting.pop(query_id, None)
        ended = self._ended.of(query_id)
        ended.views += run.counts.views()
        ended.probes.append(run.probe_counts)
        ended.steps += run.counts.steps()
        ended.copies += run.closed_copies.values()
        ended.copies += [half for half in self._arrangements.copy_statuses() if half.query_id == query_id]
        self._expect_openings(run)
        run.close()
        for stream in self._streams.values():
            stream.followers = [(alias, other) for alias, other in stream.followers if other is not run]

    def _expect_openings(self, run: QueryRun) -> None:
        """A generation ends before the holders of its copies said which ones it uses."""
        for claim in self._arrangements.owned.claims:
            if claim.lease.query_id == run.query_id:
                self._unopened[claim.user, run.generation] = claim.need.holder
        while len(self._unopened) > self._limits.unopened_copies_max:
            del self._unopened[next(iter(self._unopened))]

    def on_copy_leased(self, peer: str, message: LeaseCopy) -> None:
        """A query uses a copy that is there, unless it is over here."""
        run = self.runs.get(message.query_id)
        if run is None or self._is_current(peer, run, message):
            self._arrangements.on_lease(peer, message)

    def on_copy_opened(self, peer: str, message: OpenCopy) -> None:
        """A holder opens a copy, one for each need of a query.

        The generation may be over here. Its copy is opened nevertheless: the holder may have lent it to others already.
        """
        user = message.query_id, message.need
        run = self.runs.get(message.query_id)
        generation = self._fences.get((peer, message.query_id), FIRST_GENERATION)
        is_current = run is not None and run.generation == generation
        if is_current:
            is_expected = self._arrangements.owned.is_claimed(*user)
        else:
            is_expected = self._unopened.get((user, generation)) == peer
            if is_expected:
                del self._unopened[user, generation]
                if run is None and message.query_id not in self._pins:
                    self._forget_fences(message.query_id)
        if not is_expected:
            got = f"copy {message.copy} for need {message.need} of query {message.query_id}"
            raise PeerProtocolError(f"site {self._site} requires one copy for each need of a query; got {got}")
        self._arrangements.on_open(peer, message, is_current)

    def on_copy_closed(self, peer: str, message: CloseCopy) -> None:
        """A holder closes a copy: it may have heard before us that the query is over, whose figures it belongs to."""
        copy = self._arrangements.owned.get(peer, message.copy)
        if copy is not None:
            self._note_figures(copy)
        self._arrangements.on_close(peer, message)

    def _note_figures(self, copy: OwnedCopy) -> None:
        half = copy.status()
        run = self.runs.get(half.query_id)
        if run is not None and half.query_id in copy.users:
            run.closed_copies[copy.users[half.query_id]] = half

    def fail(self, query_id: str, reason: str) -> None:
        """This site cannot go on with the query: it forgets it and tells its home, which ends it everywhere."""
        run = self.runs.get(query_id)
        if run is not None:
            # Before what follows from closing it: whoever hears of that shall know why.
            self._outbox.send(run.plan.sink, Failed(query_id, reason))
            self.close(query_id)
        else:
            self._issuer.end(query_id, QueryState.FAILED, reason)

    def _lose(self, query_id: str, reason: str) -> None:
        """What this site knew of a generation is gone: home begins another, if it does not know already."""
        run = self.runs.get(query_id)
        if run is not None:
            self._fence_off(run)
            self._void(run)
            self._outbox.send(run.plan.sink, Lost(query_id, run.generation, reason))

    def _fence_off(self, run: QueryRun) -> None:
        """Others must not go on by what this site lets others forget after it has voided a generation.

        Home learns it by a message of its own, if it can be reached.
        """
        for site in run.plan.sites:
            if site not in (self._site, run.plan.sink):
                self._outbox.send(site, Fence(run.query_id, NO_GENERATION))

    def end_failed(self) -> None:
        """End the queries with copies that could not be sent what they need."""
        for query_id, reason in self._arrangements.owned.take_failed().items():
            self.fail(query_id, f"at {self._site}: {reason}")

    def peer_lost(self, peer: str, reason: str) -> None:
        """Home may not notice: its own link with the peer can be fine, or the peer may be home itself."""
        # Before its queries are voided here: some may be those of its new life, which opens copies for them yet.
        self._unopened = {place: holder for place, holder in self._unopened.items() if holder != peer}
        self._fences = {place: generation for place, generation in self._fences.items() if place[0] != peer}
        # Before too: a peer that was restarted counts its copies anew, and would take what ends these for the new ones.
        for copy in self._arrangements.owned.all:
            if copy.peer == peer:
                self._note_figures(copy)
        self._arrangements.holder_lost(peer)
        for query_id, run in list(self.runs.items()):
            if run.plan.sink == peer:
                self._fence_off(run)
                self._void(run)
            elif peer in run.plan.sites:
                self._lose(query_id, f"site {peer}: {reason}")
        self._arrangements.owner_lost(peer)
        self.return_pins((peer,))
