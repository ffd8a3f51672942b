"""A site: events in, effects out. It wires streams, queries and the sink, and owns no algorithm."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

from node.core.desk import Shipment
from node.core.effects import (
    BlamePeer,
    Effect,
    IgnoreReason,
    NoteIgnored,
    QueryState,
    ReadSource,
    ReportQuery,
    RunOp,
    Send,
    SetAside,
    StoreRows,
)
from node.core.engine import Find, Probe
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.events import (
    ClockAdvanced,
    DropRequested,
    EngineFailed,
    Event,
    LinkMeasured,
    MessageReceived,
    PeerGreeted,
    PeerStateLost,
    ProbeFinished,
    QueryIssued,
    RowsArrived,
    RowsStored,
    SourceFailed,
    StatisticsRequested,
    StoreFailed,
    StreamMeasured,
)
from node.core.home import HomeQuery
from node.core.limits import Limits
from node.core.messages import (
    AskMatches,
    AskProfile,
    Attach,
    Carry,
    Detach,
    Done,
    Drop,
    Failed,
    Fetch,
    Fetched,
    KeyAnswer,
    Message,
    Prepare,
    Prepared,
    Profiles,
    Refused,
    ReplicaSync,
    Rows,
    Start,
    Sync,
    TupleAnswer,
)
from node.core.planning import Planning
from node.core.query_run import QueryRun
from node.core.sharing import Sharing
from node.core.status import ProbeCounts, ReplicaStatus, StepRows
from node.core.stream import LocalStream, StreamState
from node.core.ticks import TICK_MIN
from node.core.walk import Walk
from planner.errors import NarrowsError
from planner.model import Plan, StreamInfo
from planner.plans import checked_plan
from planner.sql import parse_query

#: How many ended queries keep their counts for status.
_ENDED_KEPT = 100


@dataclass(frozen=True, slots=True)
class ViewCount:
    """How much of a local stream a query has seen, and what shipping all of it would have cost."""

    query_id: str
    alias: str
    rows: int
    ship_all_bytes: int
    #: From the first tuple to the last, in event time.
    span_us: int


class Site:
    """The protocol state of one daemon."""

    def __init__(self, name: str, tau_ms: int, streams: Sequence[LocalStream], limits: Limits) -> None:
        self.name = name
        self.streams = {stream.info.name: StreamState(stream, tau_ms) for stream in streams}
        self.homes: dict[str, HomeQuery] = {}
        self.runs: dict[str, QueryRun] = {}
        self._peer_streams: dict[str, tuple[StreamInfo, ...]] = {}
        self._tau_ms = tau_ms
        self._limits = limits
        self._out: list[Effect] = []
        self._here: deque[Message] = deque()
        #: Queries whose sites were not all told the latest done frontiers.
        self._done_news: dict[str, None] = {}
        self._now_us = 0
        self._op_count = 0
        self._rtt_us: dict[str, int] = {}
        self._planning = Planning(name, tau_ms, self.streams, limits, self._send, self._do)
        self._asking: dict[int, QueryRun] = {}
        self.sharing = Sharing(name, self.runs)
        self._ended_counts: deque[ViewCount] = deque(maxlen=_ENDED_KEPT)
        self._ended_probes: deque[ProbeCounts] = deque(maxlen=_ENDED_KEPT)
        self._ended_steps: deque[StepRows] = deque(maxlen=10 * _ENDED_KEPT)
        self._ended_replicas: deque[ReplicaStatus] = deque(maxlen=_ENDED_KEPT)

    @property
    def catalogue(self) -> Mapping[str, StreamInfo]:
        """Every stream this site knows of, by name."""
        known = {info.name: info for infos in self._peer_streams.values() for info in infos}
        return known | {stream.info.name: stream.info for stream in self.streams.values()}

    def view_counts(self) -> list[ViewCount]:
        """What queries saw of the local streams, ended queries included."""
        return [*self._ended_counts, *(count for run in self.runs.values() for count in _counts(run))]

    def probe_counts(self) -> list[ProbeCounts]:
        """How policy delta fared here, ended queries included."""
        return [*self._ended_probes, *(run.probe_counts for run in self.runs.values())]

    def step_rows(self) -> list[StepRows]:
        """Rows of walks before each of their steps here, ended queries included."""
        return [*self._ended_steps, *(rows for run in self.runs.values() for rows in run.step_rows())]

    def replica_statuses(self) -> list[ReplicaStatus]:
        """Halves of replicas here, each once with all who use it; those of ended queries as they were at the end."""
        living = [*self.runs.values(), *self.sharing.lingering.values()]
        return [*self._ended_replicas, *(status for run in living for status in self._replicas_of(run))]

    def _replicas_of(self, run: QueryRun) -> list[ReplicaStatus]:
        return run.replica_statuses(lambda number: self.sharing.users_at(run.query_id, number))

    def handle(self, events: Sequence[Event], now_us: int) -> list[Effect]:
        """Take what happened, in order; returns what to do, in order."""
        self._now_us = now_us
        for event in events:
            self._handle(event)
            self._deliver_here()
            self._settle_shared()
        self._tell_endings()
        self._tell_done()
        self._settle_shared()
        self._read_on()
        out, self._out = self._out, []
        return out

    def _handle(self, event: Event) -> None:  # noqa: C901, PLR0912 - a flat table reads best
        match event:
            case RowsArrived():
                self._on_rows_arrived(event)
            case ProbeFinished():
                self._on_probe_finished(event)
            case MessageReceived():
                self._on_peer_message(event.peer, event.message)
            case RowsStored():
                self._on_rows_stored(event)
            case PeerGreeted():
                self._peer_streams[event.peer] = event.streams
            case PeerStateLost():
                self._on_peer_state_lost(event.peer, event.reason)
            case QueryIssued():
                self._on_query_issued(event)
            case DropRequested():
                self._end_home(event.query_id, QueryState.DROPPED, "dropped by a user")
            case SourceFailed():
                self._on_source_failed(event)
            case EngineFailed() | StoreFailed():
                self._fail(event.query_id, event.reason, broken=True)
            case LinkMeasured():
                self._rtt_us[event.peer] = event.rtt_us
                self._planning.on_link(event)
            case StatisticsRequested():
                self._planning.on_requested(event, self._now_us)
            case StreamMeasured():
                self._planning.on_measured(event)
            case ClockAdvanced():
                self._on_clock()
            case _:
                assert_never(event)

    # -- streams ------------------------------------------------------------------------------

    def _on_rows_arrived(self, event: RowsArrived) -> None:
        stream = self.streams[event.stream]
        stream.reading = False
        stream.rows_arrived += event.rows.num_rows
        for rows, reason in stream.sealer.add(event.rows, event.ts):
            stream.rows_aside += rows.num_rows
            self._out.append(SetAside(event.stream, rows, reason))
        stream.ended = event.ended
        batch = stream.sealer.seal(event.watermark, event.ended)
        if batch is None:
            return
        stream.sealed(batch)
        for alias, run in list(stream.followers):
            # A self-join follows twice, and may have ended the first time.
            if self.sharing.run_of(run.query_id) is run:
                with self._running(run):
                    run.on_batch(alias, batch, self._now_us)

    def _on_source_failed(self, event: SourceFailed) -> None:
        stream = self.streams[event.stream]
        stream.reading = False
        stream.failed = event.reason
        for _, run in list(stream.followers):
            self._fail(run.query_id, f"stream {event.stream} at {self.name}: {event.reason}")

    def _read_on(self) -> None:
        for name, stream in self.streams.items():
            if stream.wants_more(self._limits):
                stream.reading = True
                self._out.append(ReadSource(name, stream.origin_ms))

    # -- messages -----------------------------------------------------------------------------

    def _do(self, effect: Effect) -> None:
        self._out.append(effect)

    def _send(self, peer: str, message: Message) -> None:
        if peer == self.name:
            self._here.append(message)
        else:
            self._out.append(Send(peer, message))

    def _deliver_here(self) -> None:
        while self._here:
            self._on_peer_message(self.name, self._here.popleft())

    def _on_peer_message(self, peer: str, message: Message) -> None:
        """A wrong message ends its query: going on without it would be a silent gap in the results."""
        try:
            self._on_message(peer, message)
        except PeerProtocolError as error:
            self._out.append(BlamePeer(peer, str(error)))
            broken = isinstance(message, Sync | ReplicaSync | Fetch | Fetched)
            self._fail(message.query_id, f"site {peer} broke the protocol: {error}", broken)

    def _on_message(self, peer: str, message: Message) -> None:  # noqa: C901, PLR0912 - a flat table reads best
        match message:
            case Prepare():
                self._on_prepare(peer, message)
            case Prepared():
                self._on_prepared(peer, message)
            case Refused():
                if not self._planning.on_refused(peer, message):
                    self._end_home(message.query_id, QueryState.FAILED, f"site {peer} refused: {message.reason}")
            case AskProfile():
                self._planning.on_ask(peer, message)
            case Profiles():
                self._planning.on_profiles(peer, message)
            case Failed():
                self._end_home(message.query_id, QueryState.FAILED, message.reason)
            case Drop():
                self._close_run(message.query_id)
            case Rows():
                self._on_rows(message)
            case Sync() | Carry() | AskMatches() | KeyAnswer() | TupleAnswer() | ReplicaSync() | Fetch() | Fetched():
                self._on_run_message(message)
            case Start() | Done():
                self._on_run_message(message)
            case Attach():
                self.sharing.on_attach(message)
                self._borrow()
            case Detach():
                self.sharing.on_detach(message)
            case _:
                assert_never(message)

    def _on_run_message(self, message: Start | Done | Shipment) -> None:
        run = self._addressee(message)
        if run is None:
            self._ignore(IgnoreReason.UNKNOWN_QUERY, message)
            return
        with self._running(run):
            match message:
                case Start():
                    self._start_run(run, message)
                case Done():
                    run.on_done(message.frontiers)
                    self.sharing.done_moved(run)
                case _:
                    run.on_shipment(message)
        if isinstance(message, Start):
            self._borrow()
        if run.complete and not run.lingering:
            self._close_run(run.query_id)

    def _addressee(self, message: Start | Done | Shipment) -> QueryRun | None:
        """A query that is over may still have replicas, for others."""
        run = self.runs.get(message.query_id) or self.sharing.lingering.get(message.query_id)
        if run is None or not run.lingering:
            return run
        match message:
            case Sync():
                return run if run.has_full_copy(message.alias) else None
            case ReplicaSync() | Fetch() | Fetched():
                return run if run.has_half(message.replica) else None
            case _:
                return None

    def _start_run(self, run: QueryRun, message: Start) -> None:
        for alias in run.local_aliases:
            stream = self.streams[run.plan.query.ref(alias).stream.name]
            if not stream.started and message.origin_ms is not None:
                stream.origin_ms = message.origin_ms
        run.start(message.tick, message.delta_us)

    @contextmanager
    def _running(self, run: QueryRun) -> Iterator[None]:
        """Let a run work, then carry out what it asks for, or end it."""
        try:
            yield
        except QueryFailedError as error:
            self._fail(run.query_id, f"at {self.name}: {error}", broken=True)
        finally:
            self._drain(run)

    def _drain(self, run: QueryRun) -> None:
        """Carry out what a run asks for; questions are remembered, so the answer finds its way back."""
        for effect in run.take_effects():
            if isinstance(effect, Send):
                self._send(effect.peer, effect.message)
                continue
            if isinstance(effect, RunOp) and isinstance(effect.op, Probe | Find):
                self._asking[effect.op_id] = run
            self._out.append(effect)
        finished, run.finished = run.finished, []
        for walk in finished:
            self._store(run.query_id, walk)

    def _on_probe_finished(self, event: ProbeFinished) -> None:
        run = self._asking.pop(event.op_id, None)
        if run is not None:
            with self._running(run):
                run.on_answer(event.op_id, event.rows)

    def _on_clock(self) -> None:
        self._planning.on_clock(self._now_us)
        for run in list(self.runs.values()):
            with self._running(run):
                run.on_clock()
        self._give_up_waiting()

    def _give_up_waiting(self) -> None:
        """A query that cannot be started must not hold streams that others read."""
        limits, now_us = self._limits, self._now_us
        for home in list(self.homes.values()):
            if home.state is QueryState.PREPARING and now_us - home.issued_us >= limits.prepare_us:
                silent = ", ".join(home.waiting_for)
                reason = (
                    f"a query requires every site ready within {limits.prepare_us / 1e6:g} s; got no word of {silent}"
                )
                self._end_home(home.query_id, QueryState.FAILED, reason)
        for run in list(self.runs.values()):
            if not run.started and now_us - run.prepared_us >= limits.prepared_us:
                reason = f"{self.name} requires a start within {limits.prepared_us / 1e6:g} s of being ready; got none"
                self._fail(run.query_id, reason)

    # -- replicas of other queries ------------------------------------------------------------

    def _borrow(self) -> None:
        """Let queries use the copies of others, where both have started."""
        for run in list(self.runs.values()):
            for number, (host_id, host_number) in self.sharing.borrowed_by(run):
                host = self.sharing.run_of(host_id)
                if not run.has_half(number) or (host is not None and not host.started):
                    continue
                with self._running(run):
                    if host is None or not self.sharing.are_same(run, number, host, host_number):
                        raise QueryFailedError(
                            f"a shared replica requires its host, {host_id}; it is not here any more"
                        )
                    run.borrow(number, host, host_number)

    def _settle_shared(self) -> None:
        """What one query's work let others do, and what is left to do for queries that ended with it."""
        sharing = self.sharing
        if not sharing.in_use:
            return
        while True:
            for run in [*self.runs.values(), *sharing.lingering.values()]:
                self._drain(run)
            self._ended_replicas.extend(sharing.take_ended())
            for run in sharing.take_closed():
                self._drain(run)
                self._unfollow(run)
            ready = next((run for run in self.runs.values() if run.is_ready), None)
            if ready is None:
                self._deliver_here()
                return
            with self._running(ready):
                ready.go_on()

    def _ignore(self, reason: IgnoreReason, message: Message) -> None:
        self._out.append(NoteIgnored(reason, f"{type(message).__name__} of query {message.query_id}"))

    # -- taking part --------------------------------------------------------------------------

    def _on_prepare(self, peer: str, message: Prepare) -> None:
        if message.query_id in self.runs:
            raise PeerProtocolError(f"site {self.name} requires new query ids; got {message.query_id} again")
        try:
            plan = self._plan_of(peer, message)
        except NarrowsError as error:
            self._send(peer, Refused(message.query_id, str(error)))
            return
        run = QueryRun(message.query_id, plan, self.name, self._tau_ms, self._limits, self._next_op, self._now)
        run.users_done = lambda number: self.sharing.users_done(run.query_id, number)
        self.runs[message.query_id] = run
        streams = []
        for alias in run.local_aliases:
            stream = self.streams[plan.query.ref(alias).stream.name]
            stream.followers.append((alias, run))
            run.take_past(alias, stream.retained.pieces())
            streams.append(stream)
        origins = [stream.origin_ms for stream in streams if not stream.started and stream.origin_ms is not None]
        earliest = max((stream.earliest for stream in streams), default=TICK_MIN)
        rtts = tuple((other, rtt) for other, rtt in sorted(self._rtt_us.items()) if other in plan.sites)
        for holder, attach in self.sharing.attach_new(run, earliest):
            self._send(holder, attach)
        self._send(peer, Prepared(message.query_id, earliest, min(origins, default=None), rtts))

    def _plan_of(self, peer: str, message: Prepare) -> Plan:
        """Bind the query text against the streams that home named, once ours are as home thinks."""
        if message.sink != peer:
            raise NarrowsError(f"a query requires its home as sink; got {message.sink!r} from {peer}")
        for info in message.streams:
            if info.site != self.name:
                continue
            own = self.streams.get(info.name)
            if own is None or own.info != info:
                known = "no such stream" if own is None else f"{own.info.schema.names} with event time {own.info.ts}"
                raise NarrowsError(f"stream {info.name} requires the same columns at both sites; got {known} here")
            if own.failed:
                raise NarrowsError(f"stream {info.name} cannot be read: {own.failed}")
        query = parse_query(message.text, {info.name: info for info in message.streams})
        return checked_plan(Plan(query, message.sink, message.sequences, message.policy))

    def _now(self) -> int:
        return self._now_us

    def _next_op(self) -> int:
        self._op_count += 1
        return self._op_count

    def _close_run(self, query_id: str, broken: bool = False) -> None:
        """Forget a query; ``broken``: its replicas may be wrong, so others must not use them any more."""
        run = self.runs.pop(query_id, None)
        if run is None:
            return
        self._ended_counts.extend(_counts(run))
        self._ended_probes.append(run.probe_counts)
        self._ended_steps.extend(run.step_rows())
        replicas = self._replicas_of(run)
        users = self.sharing.users_of(query_id)
        for holder, detach in self.sharing.close(run, broken):
            self._send(holder, detach)
        self._drain(run)
        living = self._replicas_of(run) if run.lingering else []
        self._ended_replicas.extend(replace(half, users=()) for half in replicas if half not in living)
        if run.lingering:
            return
        self._unfollow(run)
        for user in users:
            self._fail(user, f"at {self.name}: the replica that it shares with query {query_id} is gone")

    def _unfollow(self, run: QueryRun) -> None:
        # After draining, which notes questions that were asked in the same turn.
        self._asking = {op_id: other for op_id, other in self._asking.items() if other is not run}
        for stream in self.streams.values():
            stream.followers = [(alias, other) for alias, other in stream.followers if other is not run]

    def _fail(self, query_id: str, reason: str, broken: bool = False) -> None:
        """This site cannot go on with the query: it forgets it and tells its home, which ends it everywhere."""
        run = self.runs.get(query_id)
        if run is not None:
            self._close_run(query_id, broken)
            self._send(run.plan.sink, Failed(query_id, reason))
        elif query_id in self.sharing.lingering:
            users = self.sharing.users_of(query_id)
            for holder, detach in self.sharing.drop_lingering(query_id):
                self._send(holder, detach)
            for user in users:
                self._fail(user, reason)
        elif query_id in self.homes:
            self._end_home(query_id, QueryState.FAILED, reason)

    def _on_peer_state_lost(self, peer: str, reason: str) -> None:
        """Home may not notice: its own link with the peer can be fine, or the peer may be home itself."""
        for query_id, run in list(self.runs.items()):
            if run.plan.sink == peer:
                self._close_run(query_id)
            elif peer in run.plan.sites:
                self._fail(query_id, f"site {peer}: {reason}")
        self.sharing.peer_lost(peer)

    # -- home and sink ------------------------------------------------------------------------

    def _on_query_issued(self, event: QueryIssued) -> None:
        home = HomeQuery(event.query_id, event.plan, self._now_us)
        self.homes[event.query_id] = home
        for site in event.plan.sites:
            self._send(site, home.prepare())

    def _on_prepared(self, peer: str, message: Prepared) -> None:
        home = self.homes.get(message.query_id)
        if home is None or home.state is not QueryState.PREPARING:
            self._ignore(IgnoreReason.QUERY_ENDED, message)
            return
        start = home.prepared(peer, message)
        if start is None:
            return
        for site in home.plan.sites:
            self._send(site, start)
        self._out.append(ReportQuery(home.query_id, home.state, ""))
        self._done_moved(home)

    def _on_rows(self, message: Rows) -> None:
        run = self.runs.get(message.query_id)
        if run is None:
            self._ignore(IgnoreReason.UNKNOWN_QUERY, message)
            return
        rows = run.decode_results(message.rows)
        self._store(run.query_id, Walk(message.head, message.span, message.sealed_at_us, 0, rows))

    def _store(self, query_id: str, walk: Walk) -> None:
        home = self.homes.get(query_id)
        if home is None or home.sink is None or walk.head not in home.sink.heads:
            raise PeerProtocolError(f"query {query_id} requires rows of its heads, at its sink; got {walk.head!r}")
        if home.state.ended:
            return
        if not home.sink.heads[walk.head].take(walk.span):
            self._out.append(NoteIgnored(IgnoreReason.DUPLICATE_WALK, f"{query_id} {walk.head} {walk.span}"))
            return
        if walk.rows.num_rows:
            self._out.append(StoreRows(query_id, walk.head, walk.span, walk.sealed_at_us, walk.rows))
        else:
            self._stored(home, RowsStored(query_id, walk.head, walk.span))

    def _on_rows_stored(self, event: RowsStored) -> None:
        home = self.homes.get(event.query_id)
        if home is not None and not home.state.ended:
            self._stored(home, event)

    def _stored(self, home: HomeQuery, event: RowsStored) -> None:
        if home.sink is not None and home.sink.heads[event.head].stored(event.span):
            self._done_moved(home)

    def _done_moved(self, home: HomeQuery) -> None:
        home.done_moved(self._now_us)
        self._done_news[home.query_id] = None

    def _tell_endings(self) -> None:
        """Walks that ended without rows: the sinks of their queries learn of them beside other messages."""
        waiting = [run for run in self.runs.values() if run.endings]
        if not waiting:
            return
        sent_to = self._sent_to()
        for run in waiting:
            with self._running(run):
                run.tell_endings(riding=run.plan.sink in sent_to)
        self._deliver_here()

    def _tell_done(self) -> None:
        """One message per query and site for many walks, beside others where that can be."""
        if not self._done_news:
            return
        news, self._done_news = self._done_news, {}
        sent_to = self._sent_to()
        for query_id in news:
            home = self.homes[query_id]
            if home.sink is None or home.state.ended:
                continue
            for site, held in home.untold.items():
                rides = site == self.name or site in sent_to or home.sink.complete
                if held.count and (rides or held.due(self._limits, self._now_us)):
                    home.told(site)
                    self._send(site, Done(query_id, home.sink.frontiers))
            if home.sink.complete:
                home.end(QueryState.COMPLETED, home.reason)
                self._out.append(ReportQuery(query_id, home.state, home.reason))
            elif not home.all_told:
                self._done_news[query_id] = None
        self._deliver_here()

    def _sent_to(self) -> frozenset[str]:
        """The sites that get a message in this turn anyway."""
        return frozenset(effect.peer for effect in self._out if isinstance(effect, Send))

    def _end_home(self, query_id: str, state: QueryState, reason: str) -> None:
        home = self.homes.get(query_id)
        if home is None or home.state.ended:
            return
        home.end(state, reason)
        for site in home.plan.sites:
            self._send(site, Drop(query_id))
        self._out.append(ReportQuery(query_id, state, reason))


def _counts(run: QueryRun) -> list[ViewCount]:
    return [
        ViewCount(run.query_id, alias, run.rows_in[alias], run.ship_all_bytes[alias], run.span_us(alias))
        for alias in run.local_aliases
    ]
