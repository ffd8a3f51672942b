"""What a plan is expected to cost, as values, and what a search for a cheap one is told.

Bytes and rows are per second of event time. A step's cost is a number whose unit the objective sets, and which
adds up: over the steps of a head, over heads, and over copies, each of which is paid once however many use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from planner.algorithms.descriptions import Algorithm, CopyKind
from planner.algorithms.kinds import Kind
from planner.estimate.derived import KeptRows
from planner.model.query import KeptJoin, Plan


class Objective(StrEnum):
    """What is to be small."""

    #: Bytes, each weighed by the price of its link if any link has one.
    BYTES = "bytes"
    #: Seconds from a batch to its rows, summed over the heads.
    TIME = "time"
    #: What the links with a price cost; bytes elsewhere only break ties.
    MONEY = "money"


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes of one kind that go from one site to another in a second."""

    source: str
    target: str
    kind: Kind
    bytes_per_s: float


@dataclass(frozen=True, slots=True, order=True)
class CopyKey:
    """A copy of a stream's window that several steps may share. A full copy has no keys."""

    kind: CopyKind
    alias: str
    keys: tuple[str, ...]
    holder: str

    @property
    def what(self) -> str:
        """Of what it is a copy, without where it is."""
        keys = f"({', '.join(self.keys)})" if self.keys else ""
        return f"{self.kind} copy of {self.alias}{keys}"

    def __str__(self) -> str:
        return f"{self.what} at {self.holder}"


@dataclass(frozen=True, slots=True)
class Move:
    """One way to do a next step, or to open a sequence: what it costs, and where the carry is then.

    ``copy_cost`` comes on top, unless someone else pays for the copy already.
    """

    algorithm: Algorithm
    site: str
    cost: float
    copy: CopyKey | None = None
    copy_cost: float = 0.0

    def with_free(self, free: frozenset[CopyKey]) -> float:
        """The cost when these copies are there anyway."""
        if free and self.copy in free:
            return self.cost
        return self.cost + self.copy_cost


class Space(Protocol):
    """The plans of a query with their costs, as a search sees them. Sets of streams are bits, in the query's order."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """The streams, in the order of the bits."""
        ...

    def candidates(self, joined: int) -> tuple[int, ...]:
        """The streams that may come next: those that an equality links, or all that are left if there is none."""
        ...

    def openings(self, head: int) -> tuple[Move, ...]:
        """Where the walks of a head may start."""
        ...

    def moves(self, head: int, joined: int, site: str, following: int) -> tuple[Move, ...]:
        """The ways to join ``following`` to a carry at ``site``."""
        ...

    def closing(self, head: int, site: str) -> float:
        """What it costs to bring the rows from ``site`` to the sink."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEstimate:
    """One step of a head's walks. Rows and keys are per second."""

    alias: str
    algorithm: Algorithm
    #: Where the carry is, where the stream is, and where they are joined.
    source: str
    owner: str
    site: str
    rows_in: float
    keys: float
    #: Share of the rows that have a match.
    match: float
    rows_out: float
    flows: tuple[Flow, ...]
    #: What a batch waits for this step.
    delay_s: float
    cost: float
    copy: CopyKey | None

    @property
    def bytes_per_s(self) -> float:
        """All bytes of the step, without those of its copy's sync."""
        return sum_of(self.flows)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadEstimate:
    """The walks of one head."""

    head: str
    start: str
    rows_per_s: float
    batches_per_s: float
    steps: tuple[StepEstimate, ...]
    #: Rows on their way to the sink.
    results: tuple[Flow, ...]
    rows_out: float
    #: From a batch to its rows at the sink.
    delay_s: float

    @property
    def bytes_per_s(self) -> float:
        """All bytes of the head's walks, without copies."""
        return self.results_bytes_per_s + sum(step.bytes_per_s for step in self.steps)

    @property
    def results_bytes_per_s(self) -> float:
        """Of its rows, on their way to the sink."""
        return sum_of(self.results)


@dataclass(frozen=True, slots=True)
class CopyEstimate:
    """What it takes to keep a copy, whoever uses it."""

    copy: CopyKey
    owner: str
    users: tuple[str, ...]
    flows: tuple[Flow, ...]
    cost: float
    #: Whether it runs already, so that its sync costs nothing more.
    already_there: bool = False
    #: Whether it is a copy that runs and is sent more than before: in messages that leave anyway.
    grows: bool = False

    @property
    def bytes_per_s(self) -> float:
        """All bytes of its sync."""
        return sum_of(self.flows)


@dataclass(frozen=True, slots=True)
class KeptEstimate:
    """A join that a plan keeps."""

    join: KeptJoin
    #: The plan that makes it; its rows go to the site that keeps them.
    estimate: PlanEstimate
    rows: KeptRows


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """What a plan is expected to send and to take, with all that makes what it keeps."""

    plan: Plan
    heads: tuple[HeadEstimate, ...]
    copies: tuple[CopyEstimate, ...]
    #: What comes with any plan, such as the sink's news of what is done.
    control: tuple[Flow, ...]
    #: The objective's figure, which plans are compared by.
    cost: float
    #: None unless a link has a price.
    money_per_month: float | None
    #: Every tuple that is in some result, at a site other than the sink, once.
    lower_bound_bytes_per_s: float
    #: The joins that it keeps; heads, copies and control are only its own.
    kept: tuple[KeptEstimate, ...] = ()

    @property
    def parts(self) -> tuple[PlanEstimate, ...]:
        """The plans of the joins that it keeps, then itself."""
        return (*(each.estimate for each in self.kept), self)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Everything that travels."""
        return tuple(flow for part in self.parts for flow in part.own_flows)

    @property
    def own_flows(self) -> tuple[Flow, ...]:
        """Without what makes the joins that are kept."""
        walks = [flow for head in self.heads for step in head.steps for flow in step.flows]
        results = [flow for head in self.heads for flow in head.results]
        syncs = [flow for copy in self.copies for flow in copy.flows]
        return (*walks, *results, *syncs, *self.control)

    @property
    def bytes_per_s(self) -> float:
        """All bytes on all links."""
        return sum_of(self.flows)

    @property
    def by_link(self) -> Mapping[tuple[str, str], float]:
        """Bytes per second from one site to another."""
        found: dict[tuple[str, str], float] = {}
        for flow in self.flows:
            link = (flow.source, flow.target)
            found[link] = found.get(link, 0.0) + flow.bytes_per_s
        return dict(sorted(found.items()))

    @property
    def by_kind(self) -> Mapping[Kind, float]:
        """Bytes per second of each kind."""
        found = dict.fromkeys(Kind, 0.0)
        for flow in self.flows:
            found[flow.kind] += flow.bytes_per_s
        return found

    @property
    def delay_s(self) -> float:
        """The slowest head's time from a batch to its rows: none has all before what is kept is there."""
        kept = max((each.estimate.delay_s for each in self.kept), default=0.0)
        return kept + max(head.delay_s for head in self.heads)


def sum_of(flows: Iterable[Flow]) -> float:
    """The bytes of all of them."""
    return sum(flow.bytes_per_s for flow in flows)
