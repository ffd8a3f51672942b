"""Everything that can happen to a site, as past facts."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from node.core.links.lives import Session
from node.core.links.messages import Message
from node.core.streams.position import Position
from node.core.streams.sealer import Batch
from node.core.streams.ticks import Span
from planner.estimate.statistics import StreamProfile
from planner.model.beginning import DEFAULT_BEGINNING, Beginning
from planner.model.query import JoinQuery, Plan, StreamInfo


@dataclass(frozen=True, slots=True)
class RowsArrived:
    """The source of a stream answered ReadSource.

    ``ts`` is the event time of each row in the stream's unit, null where it has none.
    ``watermark``: the source promises that what follows is not older, beyond what the rows themselves say.
    ``latest_ts``: rows after it are too far ahead of the clock to be right; None where no clock says so.
    """

    stream: str
    rows: pa.RecordBatch
    ts: pa.Int64Array
    watermark: int | None
    ended: bool
    latest_ts: int | None = None
    #: Where the first row is, if the source can say; the others follow it. And where the next one will be.
    start: Position | None = None
    end: Position | None = None


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The source of a stream cannot go on."""

    stream: str
    reason: str


@dataclass(frozen=True, slots=True)
class BatchLogged:
    """Everything of a stream before tick ``frontier`` is durable; may answer several AppendBatch."""

    stream: str
    frontier: int
    #: What each of the batches takes in the log; without, they are taken to be as large as their rows in memory.
    sizes: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class LogRead:
    """Answers ReadLog: batches in order, without a gap; none if nothing is logged from that tick on."""

    reader: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class LogUnread:
    """Answers ReadLog too: what was asked for cannot be read."""

    reader: int
    reason: str


@dataclass(frozen=True, slots=True)
class LogFailed:
    """The log of a stream cannot go on: of what was asked of it and not answered, nothing is certain."""

    stream: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeFinished:
    """The engine answered question ``op_id``."""

    op_id: int
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class EngineFailed:
    """The engine could not do operation ``op_id``, on this table."""

    op_id: int
    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class RowsStored:
    """The sink's store has the rows of this walk."""

    query_id: str
    head: str
    span: Span


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The sink's store could not keep rows of this query."""

    query_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class PeerGreeted:
    """A link came up; these are the peer's streams. What is said from now on is said in this session."""

    peer: str
    streams: tuple[StreamInfo, ...]
    session: Session | None = None


@dataclass(frozen=True, slots=True)
class PeerStateLost:
    """What the peer knew of our queries is gone: it was restarted, or the link between the two began anew."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A peer said something; each message once, in order."""

    peer: str
    message: Message


@dataclass(frozen=True, slots=True)
class StatisticsRequested:
    """Somebody here wants to plan a query: what do the sites know? Answered by ReportStatistics."""

    request_id: str
    query: JoinQuery
    #: As in AskProfile.
    running: str = ""
    counts_only: bool = False
    past_us: int = 0


@dataclass(frozen=True, slots=True)
class StreamMeasured:
    """Answers MeasureStream; without a profile, why there is none."""

    request_id: str
    alias: str
    profile: StreamProfile | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class QueryIssued:
    """A client asked this site, the query's home, to run a plan."""

    query_id: str
    plan: Plan
    beginning: Beginning = DEFAULT_BEGINNING


@dataclass(frozen=True, slots=True)
class ReplanRequested:
    """A query of this site is to go on with another plan, without a stop.

    ``why`` is for people: what was measured, or who asked. ``at_once``: nothing goes on by the plan before, so nothing
    of it is waited for: what is not done begins again by the other plan.
    """

    query_id: str
    plan: Plan
    why: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class DropRequested:
    """A client asked this site to end a query: everywhere if it is its home, else here, and home is told."""

    query_id: str


@dataclass(frozen=True, slots=True)
class LinkMeasured:
    """A round trip to a peer took this long; so many bytes went there in a second, if enough did to know."""

    peer: str
    rtt_us: int
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class BandwidthMeasured:
    """So many bytes go to a peer in a second, and no more: it acknowledged that while more was on its way.

    On a link that is slow this is known long before a round trip is over.
    """

    peer: str
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class SiteStarted:
    """The daemon is ready to speak to others: queries of an earlier life go on."""


@dataclass(frozen=True, slots=True)
class ClockAdvanced:
    """Nothing happened but time; comes a few times a second."""


Event = (
    RowsArrived
    | BatchLogged
    | LogRead
    | LogFailed
    | LogUnread
    | SourceFailed
    | ProbeFinished
    | EngineFailed
    | RowsStored
    | StoreFailed
    | PeerGreeted
    | PeerStateLost
    | MessageReceived
    | StatisticsRequested
    | StreamMeasured
    | QueryIssued
    | ReplanRequested
    | DropRequested
    | SiteStarted
    | LinkMeasured
    | BandwidthMeasured
    | ClockAdvanced
)
