"""What a site's arrangements and queries say about themselves, for people and for stats.json."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.algorithms.descriptions import CopyKind

#: Why a stream is paused, if its site's logs hold as much as they may.
LOGS_FULL = "the logs have reached log_quota"


class CopyRole(StrEnum):
    """The two halves of a copy."""

    OWNER = "owner"
    HOLDER = "holder"


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """One half of a copy."""

    #: The query that has used it for longest.
    query_id: str
    alias: str
    kind: CopyKind
    role: CopyRole
    #: The site of the other half.
    peer: str
    #: Sealed up to this tick, as far as this half knows.
    frontier: int
    #: Distinct keys held (V and M), 0 for the other kinds.
    keys: int
    #: Full tuples that were ever shipped, as the owner or the holder counts them.
    tuples: int
    #: Memory of this half's bookkeeping; the tuples themselves are counted with the tables.
    nbytes: int
    #: Other queries that use it too.
    users: tuple[str, ...] = ()
    stream: str = ""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The rows of a stream, or of a full copy, that the engine holds for queries."""

    name: str
    stream: str
    #: The keys of its indexes.
    indexes: tuple[tuple[str, ...], ...]
    frontier: int
    #: Walks that wait for it to be sealed further.
    waiting: int
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeptLog:
    """What the log of a stream keeps for a query, which may begin again; others may need the same."""

    query_id: str
    home: str
    stream: str
    #: It keeps what is from this tick on, which is so much.
    since: int
    nbytes: int
    #: Whether the query runs here; else it waits for its home.
    runs: bool


@dataclass(frozen=True, slots=True)
class CatchingUp:
    """Somebody who is behind a stream, so that its log is read for them."""

    stream: str
    #: A head of a query, a window, or a copy that another site holds; and of that the site.
    what: str
    peer: str
    queries: tuple[str, ...]
    #: The next tick that is read, and the one where it has caught up.
    tick: int
    goal: int


@dataclass(frozen=True, slots=True)
class HeadProgress:
    """How far a head of a query that goes on after a loss is: from the tick where it began again to where it was."""

    head: str
    begun: int
    done: int
    goal: int


@dataclass(frozen=True, slots=True)
class ViewCount:
    """How much of a local stream a query has seen, by one of its plans, and what shipping all of it would have cost."""

    query_id: str
    run_id: str
    alias: str
    rows: int
    ship_all_bytes: int
    #: From the first tuple to the last, in event time.
    span_us: int


@dataclass(frozen=True, slots=True)
class StepRows:
    """How many rows the walks of a head had, at this site, before one of its steps; after the last they are results."""

    #: Of the run.
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
