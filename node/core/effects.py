"""Everything a site can ask of the world, as commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from node.core.engine import Op
from node.core.links.causes import Cause
from node.core.links.messages import LinkSeen, Message, RunningCounts
from node.core.query_records import Record, RecordKind
from node.core.records import RecordChange
from node.core.streams.position import Positions
from node.core.streams.sealer import Batch
from node.core.streams.ticks import Span
from planner.estimate.statistics import StreamProfile
from planner.model.copies import RunningCopy
from planner.model.query import JoinQuery, Plan


class QueryState(StrEnum):
    """The life of a query, as its home site sees it."""

    PREPARING = "preparing"
    RUNNING = "running"
    #: It ran, a site lost what it knew of it, and it is begun again from what is done.
    RECOVERING = "recovering"
    COMPLETED = "completed"
    FAILED = "failed"
    DROPPED = "dropped"

    @property
    def ended(self) -> bool:
        return self in (QueryState.COMPLETED, QueryState.FAILED, QueryState.DROPPED)


class IgnoreReason(StrEnum):
    """Why something received, or to be sent, was set aside without harm. Labels of a counter."""

    UNKNOWN_QUERY = "unknown query"
    UNKNOWN_COPY = "unknown copy"
    UNKNOWN_QUESTION = "unknown question"
    WALK_OVER = "walk over"
    QUERY_ENDED = "query ended"
    DUPLICATE_WALK = "duplicate walk"
    #: It belongs to a generation of its query that is void here.
    OTHER_GENERATION = "other generation"
    #: It was to be sent to a site that is not in the configuration any more.
    UNKNOWN_SITE = "unknown site"


@dataclass(frozen=True, slots=True)
class Send:
    """Give the message to the link with ``peer``, after those sent before."""

    peer: str
    message: Message
    #: What its bytes are counted for.
    cause: Cause


@dataclass(frozen=True, slots=True)
class AskReceipt:
    """Have ``peer`` say at once that it has what was sent before; LinkMeasured tells when it has."""

    peer: str


@dataclass(frozen=True, slots=True)
class AppendBatch:
    """Log a sealed batch of a stream, after those before; answered by BatchLogged. Nothing of it is used before."""

    stream: str
    batch: Batch


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read a stream's log from the batch on that has ``tick``; answered by one LogRead."""

    reader: int
    stream: str
    tick: int


@dataclass(frozen=True, slots=True)
class OpenLog:
    """There is a stream that has no log yet: have one, empty."""

    stream: str


@dataclass(frozen=True, slots=True)
class RemoveLog:
    """A stream is gone, and with it its log; what was asked of that and not answered is not wanted."""

    stream: str


@dataclass(frozen=True, slots=True)
class TrimLog:
    """Nobody asks for batches of a stream any more that end at or before ``tick``."""

    stream: str
    tick: int


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Read more of a stream; answered by one RowsArrived or SourceFailed."""

    stream: str
    origin_ms: int | None


@dataclass(frozen=True, slots=True)
class MeasureStream:
    """Make a profile of a stream (``profile.py``); takes long enough to be done elsewhere. Answered by StreamMeasured.

    The sample is ``batches``; without any, the source is looked into, and what it will be read for stays unread.
    """

    request_id: str
    query: JoinQuery
    alias: str
    batches: tuple[Batch, ...]
    #: The event time that they cover, if that is known better than by them: some of it may have no tuples.
    span_us: int | None = None


@dataclass(frozen=True, slots=True)
class ReportStatistics:
    """Answers StatisticsRequested. ``missing`` says of a stream, by alias, or of a site why nothing is known of it."""

    request_id: str
    profiles: dict[str, StreamProfile]
    #: By the site that measured.
    links: dict[str, tuple[LinkSeen, ...]]
    missing: dict[str, str]
    #: Copies of the query's streams that run already.
    copies: tuple[RunningCopy, ...] = ()
    #: By site, if it was asked of a query that runs.
    counts: Mapping[str, RunningCounts] = field(default_factory=dict)
    #: By site, what the logs hold of joins that are kept there.
    kept_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunOp:
    """An engine operation, after those asked for before. Questions are answered under ``op_id``."""

    op_id: int
    op: Op


@dataclass(frozen=True, slots=True)
class StoreRows:
    """Keep the result rows of a walk; answered by RowsStored. The seam for durable storage."""

    query_id: str
    head: str
    span: Span
    sealed_at_us: int
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class KeepRecord:
    """Keep a record over crashes, instead of the one of its kind for its query. Every later effect waits for that."""

    record: Record


@dataclass(frozen=True, slots=True)
class RemoveRecord:
    """A record is not needed any more. Every later effect waits for that."""

    kind: RecordKind
    query_id: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """Tuples that are in no batch: write them to the side file."""

    stream: str
    rows: pa.RecordBatch
    reason: str
    #: Where they were in the source, if it can say.
    positions: Positions | None = None


@dataclass(frozen=True, slots=True)
class WriteRecords:
    """Make these changes durable, all or none. Nothing that comes after it is done before they are."""

    changes: tuple[RecordChange, ...]


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """A query issued here changed its state."""

    query_id: str
    state: QueryState
    reason: str


class SwitchState(StrEnum):
    """How far a query has got that goes from one plan to another."""

    #: The new plan's copies are filled; the old plan runs.
    PREPARING = "preparing"
    #: Heads go over to the new plan, each where its stream is; the old plan ends what it has under way.
    SWITCHING = "switching"
    #: The new plan runs alone.
    SWITCHED = "switched"
    #: The old plan runs on.
    GIVEN_UP = "given up"

    @property
    def ended(self) -> bool:
        return self in (SwitchState.SWITCHED, SwitchState.GIVEN_UP)


@dataclass(frozen=True, slots=True)
class ReportSwitch:
    """A query issued here goes from one plan to another, and has got so far."""

    query_id: str
    #: Counts the switches of all queries of a home's life: the same in all reports about one of them.
    number: int
    state: SwitchState
    #: The plan to which it goes.
    plan: Plan
    why: str
    #: Why it was given up; or why another generation begins with the new plan, before all had gone over.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReportDropped:
    """A user had this site drop a query of another home, and nothing is kept for it here any more."""

    query_id: str


@dataclass(frozen=True, slots=True)
class NoteIgnored:
    """Something was ignored, harmlessly."""

    reason: IgnoreReason
    detail: str


@dataclass(frozen=True, slots=True)
class BlamePeer:
    """A peer sent something wrong: show it to the operator."""

    peer: str
    reason: str


Effect = (
    BlamePeer
    | Send
    | AskReceipt
    | AppendBatch
    | ReadLog
    | OpenLog
    | RemoveLog
    | TrimLog
    | ReadSource
    | MeasureStream
    | ReportStatistics
    | RunOp
    | StoreRows
    | KeepRecord
    | RemoveRecord
    | SetAside
    | WriteRecords
    | ReportQuery
    | ReportSwitch
    | ReportDropped
    | NoteIgnored
)
