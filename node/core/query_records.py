"""What a site must still know of queries after a crash: small records, each replaced as a whole.

Home keeps of a query what it takes to begin another generation; every site keeps that a query pins its streams' logs.
All else is soft: tables, copies, books of keys, walks and leases are made again. An effect that comes after
``KeepRecord`` or ``RemoveRecord`` happens after these are durable, so nothing that was told or forgotten is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from node.core.links.messages import Prepare, Ticks
from node.core.streams.log_extent import LogExtent
from node.core.streams.ticks import Span

if TYPE_CHECKING:
    from node.core.effects import QueryState


@dataclass(frozen=True, slots=True)
class HomeRecord:
    """A query that was issued here: its text and plan, and what became of it."""

    query_id: str
    prepare: Prepare
    state: QueryState
    reason: str
    #: Its rows begin with this tick; None while that is not known.
    first_tick: int | None
    #: The streams because of which it begins no earlier.
    limited_by: tuple[str, ...] = ()
    #: By alias, from which tick on it sees a stream, where that is not its first tick.
    begins: Ticks = ()
    #: Walks of the heads of its plan begin with this tick, all before is done: another plan, with other heads, did it.
    walks_from: int | None = None


@dataclass(frozen=True, slots=True)
class DoneRecord:
    """How far the sink of a query that was issued here has stored everything; others forget by it."""

    query_id: str
    done: Ticks


@dataclass(frozen=True, slots=True)
class PinRecord:
    """A query of some home may need what the logs of these streams of ours have."""

    query_id: str
    home: str
    streams: tuple[str, ...]
    #: By stream, where its log ended in the backup from which the site was restored since. What was told of later
    #: ticks is lost, and they may be sealed otherwise. Empty: the site was not, or the query has gone on since.
    restored: Ticks = ()


Record = HomeRecord | DoneRecord | PinRecord


class RecordKind(StrEnum):
    """What a record is about."""

    HOME = "home"
    DONE = "done"
    PIN = "pin"


KINDS: dict[type[Record], RecordKind] = {
    HomeRecord: RecordKind.HOME,
    DoneRecord: RecordKind.DONE,
    PinRecord: RecordKind.PIN,
}


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a daemon found when it started."""

    homes: tuple[HomeRecord, ...] = ()
    done: tuple[DoneRecord, ...] = ()
    pins: tuple[PinRecord, ...] = ()
    #: By query, the walks whose rows are stored here.
    stored: Mapping[str, tuple[tuple[str, Span], ...]] = field(default_factory=dict)
    #: Queries whose rows nothing can be added to, and why: they do not go on.
    broken: Mapping[str, str] = field(default_factory=dict)
    #: Queries that were issued here, of which nothing is left but a record.
    leftovers: tuple[str, ...] = ()
    #: What the logs of joins have that are kept here.
    kept_logs: Mapping[str, LogExtent] = field(default_factory=dict)
