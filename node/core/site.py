"""A site: events in, effects out. It owns no algorithm; it gives what happened to the part that it concerns.

``queries.home`` has the queries that were issued here, ``queries.participation`` those that this site takes part in,
``arrangements`` what it keeps of streams, ``survey`` what is asked before there is a query, ``stream`` the local
streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from node.core.arrangements.arrangements import Arrangements
from node.core.effects import (
    AppendBatch,
    BlamePeer,
    Effect,
    IgnoreReason,
    QueryState,
    ReadSource,
    ReportDropped,
    SetAside,
)
from node.core.errors import PeerProtocolError
from node.core.events import (
    BandwidthMeasured,
    BatchLogged,
    ClockAdvanced,
    DropRequested,
    EngineFailed,
    Event,
    LinkMeasured,
    LogFailed,
    LogRead,
    LogUnread,
    MessageReceived,
    PeerGreeted,
    PeerStateLost,
    ProbeFinished,
    QueryIssued,
    ReplanRequested,
    RowsArrived,
    RowsStored,
    SiteStarted,
    SourceFailed,
    StatisticsRequested,
    StoreFailed,
    StreamMeasured,
)
from node.core.limits import Limits
from node.core.links.messages import (
    AskMatches,
    AskProfile,
    Carry,
    CloseCopy,
    Cut,
    Delta,
    Done,
    Drop,
    DropPortion,
    Failed,
    Fence,
    Fetch,
    Fetched,
    Floor,
    GoOver,
    Held,
    Hold,
    HolderMessage,
    KeyAnswer,
    LeaseCopy,
    Level,
    Lost,
    Message,
    OpenCopy,
    OwnerMessage,
    Prepare,
    Prepared,
    Profiles,
    Ready,
    Refused,
    Returned,
    RoundTrips,
    Rows,
    RunningCounts,
    SetPortion,
    Start,
    Switch,
    Sync,
    TupleAnswer,
)
from node.core.links.outbox import Outbox
from node.core.planning.survey import Survey
from node.core.queries.home.issuer import Issuer
from node.core.queries.participation.kept_joins import KeptJoins, derived_streams
from node.core.queries.participation.participant import Participant
from node.core.queries.query_id import query_of
from node.core.queries.waiting import Waiting
from node.core.query_records import Recovered
from node.core.status import CatchingUp, CopyStatus, KeptLog, ProbeCounts, StepRows, TableStatus, ViewCount
from node.core.streams.derived import DerivedStream
from node.core.streams.stream import LocalStream, StreamState
from node.core.work import Work
from planner.model.query import StreamInfo


class Site:
    """The protocol state of one daemon."""

    def __init__(
        self,
        name: str,
        tau_ms: int,
        streams: Sequence[LocalStream],
        limits: Limits,
        life: int = 1,
        recovered: Recovered | None = None,
    ) -> None:
        """``life`` is a number that rises each time the daemon starts; ``recovered`` what it found then."""
        self.name = name
        self.streams: dict[str, StreamState] = {stream.info.name: StreamState(stream, tau_ms) for stream in streams}
        derived = {} if recovered is None else derived_streams(recovered, tau_ms)
        self.streams |= {stream.info.name: stream for stream in derived.values()}
        self._limits = limits
        self._outbox = Outbox(name)
        self._work = Work(self._outbox.do)
        self.arrangements = Arrangements(self.streams, self._work, self._outbox, limits)
        self._issuer = Issuer(limits, self._outbox, life)
        self._kept = KeptJoins(tau_ms, self.streams, self.arrangements, self._issuer, self._outbox, limits)
        self._participant = Participant(
            tau_ms, self.streams, limits, self._outbox, self._issuer, self._work, self.arrangements, self._kept
        )
        self._survey = Survey(
            tau_ms, self.streams, limits, self._outbox, self.arrangements.running_copies, self._counted
        )
        self._sent: Callable[[str], Mapping[str, int]] = lambda _: {}
        self._peer_streams: dict[str, tuple[StreamInfo, ...]] = {}
        if recovered is not None:
            self._issuer.recover(recovered, derived)
            self._participant.recover(recovered.pins)
            self._kept.recover(derived)
        # For those who look on.
        self.homes = self._issuer.homes
        self.runs = self._participant.runs.by_id
        self.asking = self._work.asking

    def watch_links(
        self, peers: Iterable[str], backlog_bytes: Callable[[str], int], is_up: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Tell with which sites there are links, how many bytes wait for each, and whether it is connected.

        What can wait is not added to many. A query with other sites is refused.
        """
        self._outbox.peers = frozenset(peers)
        self._participant.beginnings.expect(self._outbox.peers)
        self._outbox.backlog_bytes = backlog_bytes
        self._outbox.is_up = is_up

    def watch_traffic(self, sent: Callable[[str], Mapping[str, int]]) -> None:
        """Tell what has left for a query, in bytes by peer."""
        self._sent = sent

    def _counted(self, query_id: str) -> RunningCounts:
        ship_all: dict[str, int] = {}
        for view in self.view_counts():
            if view.query_id == query_id:
                ship_all[view.alias] = ship_all.get(view.alias, 0) + view.ship_all_bytes
        plan = next((run.plan for name, run in self.runs.items() if query_of(name) == query_id), None)
        refs = [] if plan is None else [ref for ref in plan.query.streams if ref.stream.name in self.streams]
        frontiers = tuple((ref.alias, self.streams[ref.stream.name].fed) for ref in refs)
        unreached = tuple(self._outbox.away(sorted(self._outbox.peers or ())))
        sent = tuple(self._sent(query_id).items())
        return RunningCounts(
            sent, tuple(ship_all.items()), frontiers, self.arrangements.shared_copies(query_id), unreached
        )

    @property
    def catalogue(self) -> Mapping[str, StreamInfo]:
        """Every stream this site knows of, by name; of two sites that claim one, ours or the first by name has it."""
        peers = sorted(self._peer_streams, reverse=True)
        known = {info.name: info for peer in peers for info in self._peer_streams[peer]}
        own = [stream.info for stream in self.streams.values() if not isinstance(stream, DerivedStream)]
        return known | {info.name: info for info in own}

    @property
    def pins(self) -> tuple[str, ...]:
        """Queries for which the logs of this site keep something."""
        return self._participant.pins.queries

    def keeps(self, query_id: str) -> bool:
        """Whether this site takes part in a query, or keeps something for it."""
        return bool(self._participant.runs.of(query_id)) or query_id in self._participant.pins

    @property
    def kept_for(self) -> list[KeptLog]:
        """What logs keep for queries that may begin again."""
        return self._participant.pins.kept()

    def view_counts(self) -> list[ViewCount]:
        """What queries saw of the local streams, the newest ended queries included."""
        return self._participant.figures.view_counts()

    def probe_counts(self) -> list[ProbeCounts]:
        """How policy delta fared here, the newest ended queries included."""
        return self._participant.figures.probe_counts()

    def step_rows(self) -> list[StepRows]:
        """Rows of walks before each of their steps here, the newest ended queries included."""
        return self._participant.figures.step_rows()

    def copy_statuses(self) -> list[CopyStatus]:
        """Halves of copies here, each once with all who use it; those of ended queries as they were at the end."""
        return self._participant.figures.copy_statuses()

    def table_statuses(self) -> list[TableStatus]:
        """Rows that the engine holds here, each table once with all who use it."""
        return self.arrangements.table_statuses()

    def catching_up(self) -> list[CatchingUp]:
        """For whom the logs of the site's streams are read."""
        return self.arrangements.catch_up.statuses()

    def waiting(self) -> list[Waiting]:
        """Every walk that is under way here, and what it waits for."""
        return self._participant.figures.waiting()

    def handle(self, events: Sequence[Event], now_us: int) -> list[Effect]:
        """Take what happened, in order; returns what to do, in order."""
        self._outbox.now_us = now_us
        for event in events:
            self._handle(event)
            self._deliver_here()
        self._participant.deliveries.on_fed(self.arrangements.catch_up.send_on())
        self._deliver_here()
        self._participant.deliveries.end_failed()
        self._participant.ends.end_broken()
        self._participant.beginnings.say_ready()
        self._participant.beginnings.tell_level()
        self._deliver_here()
        self._participant.deliveries.tell_endings()
        self._deliver_here()
        self._kept.append_on()
        self._issuer.done_news.tell()
        self._deliver_here()
        self.arrangements.search_on()
        self.arrangements.settle()
        self._read_on()
        return self._outbox.take_effects()

    def _deliver_here(self) -> None:
        for message in self._outbox.messages_here():
            self._on_peer_message(self.name, message)

    def _handle(self, event: Event) -> None:  # noqa: C901, PLR0912, PLR0915 - a flat table reads best
        match event:
            case RowsArrived():
                self._on_rows_arrived(event)
            case BatchLogged():
                self._on_logged(event)
            case LogRead():
                self._participant.deliveries.on_log_read(event)
            case LogUnread():
                self._participant.deliveries.on_log_unread(event)
            case ProbeFinished():
                self._participant.deliveries.on_answer(event)
            case MessageReceived():
                self._on_peer_message(event.peer, event.message)
            case RowsStored():
                self._issuer.on_rows_stored(event)
            case PeerGreeted():
                self._on_greeted(event)
                self.arrangements.catch_up.pace.connected(event.peer)
                self._participant.beginnings.met(event.peer)
            case PeerStateLost():
                self._participant.peer_lost(event.peer, event.reason)
                self._issuer.peer_lost(event.peer, event.reason)
            case SiteStarted():
                self._kept.forget_unread(self.pins)
                self._participant.pins.return_to()
                self._issuer.begin_again_all()
            case QueryIssued():
                self._issuer.issue(event)
            case ReplanRequested():
                self._issuer.switching.replan(event)
            case DropRequested():
                self._on_drop(event.query_id)
            case SourceFailed() | LogFailed():
                self._on_stream_failed(event)
            case EngineFailed():
                self._participant.deliveries.on_engine_failed(event)
            case StoreFailed():
                self._participant.ends.fail(event.query_id, event.reason)
            case LinkMeasured():
                self._participant.round_trips.measured(event.peer, event.rtt_us)
                self.arrangements.catch_up.pace.measured(event)
                self._survey.on_link(event)
            case BandwidthMeasured():
                self._survey.on_bandwidth(event)
            case StatisticsRequested():
                self._survey.on_requested(event)
            case StreamMeasured():
                self._survey.on_measured(event)
            case ClockAdvanced():
                self._on_clock()
            case _:
                assert_never(event)

    def _on_logged(self, event: BatchLogged) -> None:
        stream = self.streams.get(event.stream)
        # What was kept for a query may be gone with it.
        for sealed in () if stream is None else stream.logged(event.frontier, event.sizes):
            self._participant.deliveries.on_batch(sealed)
        self._kept.on_logged(event.stream, event.frontier)

    def _on_drop(self, query_id: str) -> None:
        home = self._issuer.homes.get(query_id)
        if home is None:
            self._participant.ends.drop_here(query_id)
            return
        self._issuer.ends.end(query_id, QueryState.DROPPED, "dropped by a user")
        if home.stream is not None:
            # Of a join that is kept nothing else is reported; the query that reads it ends.
            self._outbox.do(ReportDropped(query_id))

    def _on_clock(self) -> None:
        self._survey.on_clock()
        self._participant.on_clock()
        self._issuer.give_up_waiting()
        self._participant.ends.give_up_waiting(self._limits.prepared_us)

    # -- streams ------------------------------------------------------------------------------

    def _on_greeted(self, event: PeerGreeted) -> None:
        """A peer's streams replace those that it had; it can have none of another site."""
        foreign = [info.name for info in event.streams if info.site != event.peer]
        if foreign:
            reason = f"a greeting requires streams of its own site; got {', '.join(foreign)} of others"
            self._outbox.do(BlamePeer(event.peer, reason))
        self._peer_streams.pop(event.peer, None)
        known = self.catalogue
        own = tuple(info for info in event.streams if info.site == event.peer)
        self._peer_streams[event.peer] = own
        for info in own:
            if info.name in known:
                got = f"{info.name} of {known[info.name].site} and {event.peer}"
                self._outbox.do(BlamePeer(event.peer, f"a stream requires a name of its own; got {got}"))

    def _on_rows_arrived(self, event: RowsArrived) -> None:
        stream = self.streams[event.stream]
        stream.reading = False
        for aside in stream.arrived(event.rows, event.ts, event.start, event.end, event.latest_ts):
            self._outbox.do(SetAside(event.stream, aside.rows, aside.reason, aside.positions))
        stream.ended = event.ended
        batch = stream.sealer.seal(event.watermark, event.ended)
        if batch is not None:
            stream.sealed(batch, self._outbox.now_us)
            self._outbox.do(AppendBatch(event.stream, batch))
        open_bytes, bytes_max = stream.sealer.open_bytes, self._limits.open_bytes_max
        if open_bytes > bytes_max:
            required = f"required at most {bytes_max} bytes of rows in ticks that are not over"
            got = f"got {stream.sealer.open_rows} rows with {open_bytes} bytes"
            reason = f"{required}; {got}: a shorter lateness or tau makes them fewer"
            self._on_stream_failed(SourceFailed(event.stream, reason))

    def _on_stream_failed(self, event: SourceFailed | LogFailed) -> None:
        stream = self.streams.get(event.stream)
        if stream is None:
            return
        stream.reading = False
        stream.failed = event.reason
        stream.sealer.forget_open()
        for _, run in list(stream.followers):
            self._participant.ends.fail(run.query_id, f"stream {event.stream} at {self.name}: {event.reason}")

    def _read_on(self) -> None:
        self.arrangements.catch_up.read_on(self._participant.deliveries.is_full)
        logs_full = self.arrangements.logs_full
        for name, stream in self.streams.items():
            if stream.wants_more(self._limits, logs_full):
                stream.reading = True
                self._outbox.do(ReadSource(name, stream.origin_ms))

    # -- messages -----------------------------------------------------------------------------

    def _on_peer_message(self, peer: str, message: Message) -> None:
        """A wrong message ends its query, or those that use its copy: going on would be a silent gap in the results."""
        try:
            self._on_message(peer, message)
        except PeerProtocolError as error:
            self._outbox.do(BlamePeer(peer, str(error)))
            for query_id in self._concerned(peer, message):
                self._participant.ends.fail(query_id, f"site {peer} broke the protocol: {error}")

    def _end_for(self, peer: str, message: Refused | Failed, reason: str) -> None:
        """A site that takes part in a query issued here cannot go on with it."""
        if self._issuer.switching.give_up_for(peer, message.query_id, reason):
            return
        if self._participant.takes_part(peer, message.query_id):
            self._issuer.fail(message.query_id, reason)
        else:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)

    def _concerned(self, peer: str, message: Message) -> tuple[str, ...]:
        if isinstance(message, OwnerMessage | TupleAnswer):
            held = self.arrangements.held.get(message.copy)
            if held is not None and held.spec.owner == peer:
                return tuple(dict.fromkeys(lease.query_id for lease in held.leases))
        if isinstance(message, HolderMessage):
            owned = self.arrangements.owned.get(peer, message.copy)
            return () if owned is None else tuple(owned.users)
        if isinstance(message, OwnerMessage) or not self._participant.takes_part(peer, message.query_id):
            return ()
        return (message.query_id,)

    def _on_message(self, peer: str, message: Message) -> None:  # noqa: C901, PLR0912, PLR0915 - a flat table reads best
        match message:
            case Prepare():
                self._participant.prepare(peer, message)
            case Prepared():
                self._issuer.on_prepared(peer, message)
            case Refused():
                if not self._survey.on_refused(peer, message):
                    self._end_for(peer, message, f"site {peer} refused: {message.reason}")
            case AskProfile():
                self._survey.on_ask(peer, message)
            case Profiles():
                self._survey.on_profiles(peer, message)
            case Failed():
                self._end_for(peer, message, message.reason)
            case Lost():
                self._issuer.on_lost(peer, message)
                self._participant.ends.void_old(query_of(message.query_id))
            case Returned():
                self._issuer.on_returned(peer, message)
            case Ready():
                self._issuer.switching.on_ready(peer, message)
            case RoundTrips():
                self._issuer.on_round_trips(peer, message)
            case Delta():
                self._participant.on_delta(peer, message)
            case Switch():
                self._participant.successors.on_switch(peer, message)
            case Cut():
                self._participant.successors.on_cut(peer, message)
                self._issuer.switching.on_cut(message)
            case Hold():
                self._participant.successors.on_hold(peer, message)
            case Held():
                self._participant.successors.on_held(peer, message)
                self._issuer.on_held(peer, message)
            case GoOver():
                self._participant.successors.on_go_over(peer, message)
            case Floor():
                self._participant.ends.on_floor(peer, message)
            case Fence():
                for sender, early in self._participant.on_fence(peer, message):
                    self._on_peer_message(sender, early)
            case Drop():
                self._participant.ends.on_drop(peer, message)
            case Start():
                for sender, early in self._participant.start(peer, message):
                    self._on_peer_message(sender, early)
            case Done():
                self._participant.on_done(peer, message)
            case Rows():
                self._participant.deliveries.on_rows(peer, message)
            case Carry() | AskMatches() | KeyAnswer() | TupleAnswer():
                self._participant.deliveries.on_step(peer, message)
            case Sync():
                self._participant.deliveries.on_fed(self.arrangements.on_sync(peer, message))
            case Level():
                self.arrangements.on_level(peer, message)
            case SetPortion() | DropPortion():
                self._participant.deliveries.on_fed(self.arrangements.on_portion(peer, message))
            case Fetched():
                self._participant.deliveries.wake(self.arrangements.on_fetched(peer, message))
            case Fetch():
                self.arrangements.on_fetch(peer, message)
            case OpenCopy():
                self._participant.openings.on_opened(peer, message)
            case LeaseCopy():
                self._participant.openings.on_leased(peer, message)
            case CloseCopy():
                self._participant.openings.on_closed(peer, message)
            case _:
                assert_never(message)
