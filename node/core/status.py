"""What a query's parts at a site say about themselves, for people and for stats.json."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.algorithms import CopyKind

ReplicaKind = CopyKind


class ReplicaRole(StrEnum):
    """The two halves of a replica."""

    OWNER = "owner"
    HOLDER = "holder"


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One half of a replica."""

    query_id: str
    alias: str
    kind: ReplicaKind
    role: ReplicaRole
    #: The site of the other half.
    peer: str
    #: Sealed up to this tick, as far as this half knows.
    frontier: int
    #: Distinct keys held (V and M), 0 for the other kinds.
    keys: int
    #: Full tuples that were ever shipped, as the owner or the holder counts them.
    tuples: int
    #: Memory of this half's bookkeeping; the tuples themselves are counted with the windows.
    nbytes: int
    #: How often it was started again from its window.
    restarts: int
    #: Other queries that use it too.
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewCount:
    """How much of a local stream a query has seen, and what shipping all of it would have cost."""

    query_id: str
    alias: str
    rows: int
    ship_all_bytes: int
    #: From the first tuple to the last, in event time.
    span_us: int


@dataclass(frozen=True, slots=True)
class StepRows:
    """How many rows the walks of a head had, at this site, before one of its steps; after the last they are results."""

    query_id: str
    head: str
    step: int
    rows: int
    #: Walks that had any.
    walks: int


@dataclass(frozen=True, slots=True)
class ProbeCounts:
    """Policy ``delta``: how often its assumption did not hold here. All zero under ``frontier``."""

    query_id: str
    delta_us: int
    #: Probes when a window was not yet sealed beyond the walk's newest row.
    early: int
    #: Probes when a window had already forgotten tuples that the walk could see.
    late: int
