"""A site: events in, effects out. It owns no algorithm; it gives what happened to the part that it concerns.

``issuer`` has the queries that were issued here, ``queries.participant`` those that this site takes part in,
``arrangements`` what it keeps of streams, ``survey`` what is asked before there is a query, ``stream`` the local
streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from node.core.arrangements.arrangements import Arrangements
from node.core.effects import AppendBatch, BlamePeer, Effect, IgnoreReason, QueryState, ReadSource, SetAside
from node.core.errors import PeerProtocolError
from node.core.events import (
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
    Done,
    Drop,
    DropPortion,
    Failed,
    Fence,
    Fetch,
    Fetched,
    HolderMessage,
    KeyAnswer,
    LeaseCopy,
    Lost,
    Message,
    OpenCopy,
    OwnerMessage,
    Prepare,
    Prepared,
    Profiles,
    Refused,
    Returned,
    Rows,
    SetPortion,
    Start,
    Sync,
    TupleAnswer,
)
from node.core.links.outbox import Outbox
from node.core.planning.survey import Survey
from node.core.queries.issuer import Issuer
from node.core.queries.participant import Participant
from node.core.queries.waiting import Waiting
from node.core.query_records import Recovered
from node.core.status import CatchingUp, CopyStatus, KeptLog, ProbeCounts, StepRows, TableStatus, ViewCount
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
        self.streams = {stream.info.name: StreamState(stream, tau_ms) for stream in streams}
        self._limits = limits
        self._outbox = Outbox(name)
        self._work = Work(self._outbox.do)
        self.arrangements = Arrangements(self.streams, self._work, self._outbox, limits)
        self._issuer = Issuer(limits, self._outbox, life)
        self._participant = Participant(
            tau_ms, self.streams, limits, self._outbox, self._issuer, self._work, self.arrangements
        )
        self._survey = Survey(tau_ms, self.streams, limits, self._outbox, self.arrangements.running_copies)
        self._peer_streams: dict[str, tuple[StreamInfo, ...]] = {}
        if recovered is not None:
            self._issuer.recover(recovered)
            self._participant.recover(recovered.pins)
        # For those who look on.
        self.homes = self._issuer.homes
        self.runs = self._participant.runs
        self.asking = self._work.asking

    def watch_links(
        self, peers: Iterable[str], backlog_bytes: Callable[[str], int], is_up: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Tell with which sites there are links, how many bytes wait for each, and whether it is connected.

        What can wait is not added to many. A query with other sites is refused.
        """
        self._outbox.peers = frozenset(peers)
        self._participant.expect(self._outbox.peers)
        self._outbox.backlog_bytes = backlog_bytes
        self._outbox.is_up = is_up

    @property
    def catalogue(self) -> Mapping[str, StreamInfo]:
        """Every stream this site knows of, by name; of two sites that claim one, ours or the first by name has it."""
        peers = sorted(self._peer_streams, reverse=True)
        known = {info.name: info for peer in peers for info in self._peer_streams[peer]}
        return known | {stream.info.name: stream.info for stream in self.streams.values()}

    @property
    def pins(self) -> tuple[str, ...]:
        """Queries for which the logs of this site keep something."""
        return self._participant.pinned

    def keeps(self, query_id: str) -> bool:
        """Whether this site takes part in a query, or keeps something for it."""
        return query_id in self.runs or query_id in self._participant.pinned

    @property
    def kept_for(self) -> list[KeptLog]:
        """What logs keep for queries that may begin again."""
        return self._participant.kept_for()

    def view_counts(self) -> list[ViewCount]:
        """What queries saw of the local streams, the newest ended queries included."""
        return self._participant.view_counts()

    def probe_counts(self) -> list[ProbeCounts]:
        """How policy delta fared here, the newest ended queries included."""
        return self._participant.probe_counts()

    def step_rows(self) -> list[StepRows]:
        """Rows of walks before each of their steps here, the newest ended queries included."""
        return self._participant.step_rows()

    def copy_statuses(self) -> list[CopyStatus]:
        """Halves of copies here, each once with all who use it; those of ended queries as they were at the end."""
        return self._participant.copy_statuses()

    def table_statuses(self) -> list[TableStatus]:
        """Rows that the engine holds here, each table once with all who use it."""
        return self.arrangements.table_statuses()

    def catching_up(self) -> list[CatchingUp]:
        """For whom the logs of the site's streams are read."""
        return self.arrangements.catch_up.statuses()

    def waiting(self) -> list[Waiting]:
        """Every walk that is under way here, and what it waits for."""
        return self._participant.waiting()

    def handle(self, events: Sequence[Event], now_us: int) -> list[Effect]:
        """Take what happened, in order; returns what to do, in order."""
        self._outbox.now_us = now_us
        for event in events:
            self._handle(event)
            self._deliver_here()
        self._participant.end_failed()
        self._deliver_here()
        self._participant.tell_endings()
        self._deliver_here()
        self._issuer.tell_done()
        self._deliver_here()
        self.arrangements.search_on()
        self.arrangements.settle()
        self._read_on()
        return self._outbox.take_effects()

    def _deliver_here(self) -> None:
        for message in self._outbox.messages_here():
            self._on_peer_message(self.name, message)

    def _handle(self, event: Event) -> None:  # noqa: C901, PLR0912 - a flat table reads best
        match event:
            case RowsArrived():
                self._on_rows_arrived(event)
            case BatchLogged():
                for sealed in self.streams[event.stream].logged(event.frontier, event.sizes):
                    self._participant.on_batch(sealed)
            case LogRead():
                self._participant.on_log_read(event)
            case LogUnread():
                self._participant.on_log_unread(event)
            case ProbeFinished():
                self._participant.on_answer(event)
            case MessageReceived():
                self._on_peer_message(event.peer, event.message)
            case RowsStored():
                self._issuer.on_rows_stored(event)
            case PeerGreeted():
                self._on_greeted(event)
                self._participant.met(event.peer)
            case PeerStateLost():
                self._participant.peer_lost(event.peer, event.reason)
                self._issuer.peer_lost(event.peer, event.reason)
            case SiteStarted():
                self._participant.return_pins()
                self._issuer.begin_again_all()
            case QueryIssued():
                self._issuer.issue(event)
            case DropRequested():
                self._on_drop(event.query_id)
            case SourceFailed() | LogFailed():
                self._on_stream_failed(event)
            case EngineFailed():
                self._participant.on_engine_failed(event)
            case StoreFailed():
                self._participant.fail(event.query_id, event.reason)
            case LinkMeasured():
                self._participant.rtt_us[event.peer] = event.rtt_us
                self._survey.on_link(event)
            case StatisticsRequested():
                self._survey.on_requested(event)
            case StreamMeasured():
                self._survey.on_measured(event)
            case ClockAdvanced():
                self._on_clock()
            case _:
                assert_never(event)

    def _on_drop(self, query_id: str) -> None:
        if query_id in self._issuer.homes:
            self._issuer.end(query_id, QueryState.DROPPED, "dropped by a user")
        else:
            self._participant.drop_here(query_id)

    def _on_clock(self) -> None:
        self._survey.on_clock()
        self._participant.on_clock()
        self._participant.void_lagging()
        self._participant.say_ready()
        self._issuer.give_up_waiting()
        self._participant.give_up_waiting()

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
        stream = self.streams[event.stream]
        stream.reading = False
        stream.failed = event.reason
        stream.sealer.forget_open()
        for _, run in list(stream.followers):
            self._participant.fail(run.query_id, f"stream {event.stream} at {self.name}: {event.reason}")

    def _read_on(self) -> None:
        self.arrangements.catch_up.read_on(self._participant.is_full)
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
                self._participant.fail(query_id, f"site {peer} broke the protocol: {error}")

    def _end_for(self, peer: str, message: Refused | Failed, reason: str) -> None:
        """A site that takes part in a query issued here cannot go on with it."""
        if self._participant.takes_part(peer, message.query_id):
            self._issuer.end(message.query_id, QueryState.FAILED, reason)
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

    def _on_message(self, peer: str, message: Message) -> None:  # noqa: C901, PLR0912 - a flat table reads best
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
                self._participant.void_old(message.query_id)
            case Returned():
                self._issuer.on_returned(peer, message)
            case Fence():
                for sender, early in self._participant.on_fence(peer, message):
                    self._on_peer_message(sender, early)
            case Drop():
                self._participant.drop(peer, message)
            case Start():
                for sender, early in self._participant.start(peer, message):
                    self._on_peer_message(sender, early)
            case Done():
                self._participant.on_done(peer, message)
            case Rows():
                self._participant.on_rows(peer, message)
            case Carry() | AskMatches() | KeyAnswer() | TupleAnswer():
                self._participant.on_step(peer, message)
            case Sync():
                self._participant.on_fed(self.arrangements.on_sync(peer, message))
            case SetPortion() | DropPortion():
                self._participant.on_fed(self.arrangements.on_portion(peer, message))
            case Fetched():
                self._participant.wake(self.arrangements.on_fetched(peer, message))
            case Fetch():
                self.arrangements.on_fetch(peer, message)
            case OpenCopy():
                self._participant.on_copy_opened(peer, message)
            case LeaseCopy():
                self._participant.on_copy_leased(peer, message)
            case CloseCopy():
                self._participant.on_copy_closed(peer, message)
            case _:
                assert_never(message)
