"""What two sites say to each other, as values. Rows travel encoded: see ``rows.py``."""

from __future__ import annotations

from dataclasses import dataclass

from node.core.ticks import Span
from planner.model import Sequence, StreamInfo


@dataclass(frozen=True, slots=True)
class Prepare:
    """Home asks a site to get ready for a query; nothing flows before Start."""

    query_id: str
    text: str
    sink: str
    sequences: tuple[Sequence, ...]
    streams: tuple[StreamInfo, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The site is ready; the query cannot start before this tick there."""

    query_id: str
    frontier: int
    #: Event time (milliseconds) of the first tuple of its streams that have not started, to align replays.
    origin_ms: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    """The site cannot take part, and why."""

    query_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Start:
    """All sites are ready: the query is about the tuples from this tick on."""

    query_id: str
    tick: int
    origin_ms: int | None


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget the query."""

    query_id: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A site cannot go on with a query; home ends it everywhere."""

    query_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Sync:
    """SP-S: a batch of a stream, in full, for the copy of its window at the receiver. Empty is a heartbeat."""

    query_id: str
    alias: str
    span: Span
    rows: bytes


@dataclass(frozen=True, slots=True)
class Carry:
    """SP-D: a walk moves to the receiver, which does step number ``step``."""

    query_id: str
    head: str
    span: Span
    step: int
    sealed_at_us: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Rows:
    """A walk has ended; its result rows, none if ``rows`` is empty, for the sink."""

    query_id: str
    head: str
    span: Span
    sealed_at_us: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The sink has stored every row of these heads before these ticks."""

    query_id: str
    frontiers: tuple[tuple[str, int], ...]


Message = Prepare | Prepared | Refused | Start | Drop | Failed | Sync | Carry | Rows | Done
