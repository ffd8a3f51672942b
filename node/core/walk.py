"""A walk: one head batch on its way through its join sequence; and the shape of that way, which needs no data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from node.core.engine import TS, joined_schema
from node.core.evaluate import evaluate
from node.core.status import ReplicaKind
from node.core.ticks import Span
from node.core.view import view_schema
from planner.graph import link_of, needed_after
from planner.model import Algorithm, Expr, Plan
from planner.plans import Hop, route, start_of


@dataclass(frozen=True, slots=True)
class Walk:
    """The carry: the head's rows with what was joined to them so far. ``step`` is the next to be done."""

    head: str
    span: Span
    sealed_at_us: int
    step: int
    rows: pa.RecordBatch

    @property
    def times(self) -> tuple[int, int]:
        """Event times of the oldest and the newest head row."""
        ends = pc.min_max(self.rows.column(TS)).as_py()
        return ends["min"], ends["max"]

    def joined(self, rows: pa.RecordBatch) -> Walk:
        """The walk after its next step gave ``rows``."""
        return replace(self, step=self.step + 1, rows=rows)

    def narrowed(self, rows: pa.RecordBatch) -> Walk:
        """The walk without the rows that cannot match, before its next step."""
        return replace(self, rows=rows)


@dataclass(frozen=True, slots=True)
class ReplicaShape:
    """A copy of a window at another site. Both ends number a query's replicas alike.

    ``keys`` are the columns by which it is known which keys it has; a full copy needs none, and is
    one however many windows with different keys are fed from it.
    """

    number: int
    kind: ReplicaKind
    alias: str
    keys: tuple[str, ...]
    owner: str
    holder: str

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.alias}({','.join(self.keys)})"


@dataclass(frozen=True, slots=True)
class StepShape:
    """Everything about one step that does not depend on data."""

    hop: Hop
    #: Where the carry is before the step, and where the stream is. The join is at one of the two.
    source: str
    owner: str
    #: Carry columns, and the window's columns they must equal.
    carry_keys: tuple[str, ...]
    window_keys: tuple[str, ...]
    #: The carry before this step, and the window's tuples.
    carry_schema: pa.Schema
    window_schema: pa.Schema
    #: The window's tuples with the head's own event time count as before the head.
    include_ties: bool
    #: What else must hold for a joined row, among those it could not be asked of before.
    residual: Expr | None
    #: The carry after this step: only what later steps or the output need.
    answer_schema: pa.Schema

    @property
    def window_name(self) -> str:
        """Steps that probe the same tuples by the same keys share one window."""
        return f"{self.hop.alias}({','.join(self.window_keys)})"

    @property
    def remote(self) -> bool:
        """Whether two sites are involved: if not, every algorithm is a local probe."""
        return self.source != self.owner

    def by(self, *algorithms: Algorithm) -> bool:
        """Whether this is a step between sites by one of these algorithms."""
        return self.remote and self.hop.algorithm in algorithms

    @property
    def key_schema(self) -> pa.Schema:
        """The carry's key columns, as they travel."""
        return pa.schema([self.carry_schema.field(name) for name in self.carry_keys])

    def keys_of(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(name) for name in self.carry_keys]


_REPLICAS = {
    Algorithm.SP_S: ReplicaKind.FULL,
    Algorithm.SM_S1: ReplicaKind.REDUCED,
    Algorithm.SM_S2: ReplicaKind.MIXED,
    Algorithm.SM_D1: ReplicaKind.KEYS,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The steps of every head, the replicas they need, and what a finished walk becomes."""

    steps: dict[str, tuple[StepShape, ...]]
    #: Where the walks of each head start.
    starts: dict[str, str]
    replicas: tuple[ReplicaShape, ...]
    output_schema: pa.Schema
    _outputs: tuple[Expr, ...]

    @property
    def all_steps(self) -> tuple[tuple[str, int, StepShape], ...]:
        """Every step with its head and its number."""
        return tuple((head, number, step) for head, steps in self.steps.items() for number, step in enumerate(steps))

    def replica_of(self, step: StepShape) -> ReplicaShape:
        """The replica that a step between sites by SP-S, SM-S1, SM-S2 or SM-D1 uses."""
        return next(replica for replica in self.replicas if _uses(step, replica))

    def uses(self, step: StepShape, replica: ReplicaShape) -> bool:
        """Whether a step needs a replica."""
        return _uses(step, replica)

    def output(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Result rows from a carry that went through all steps."""
        columns = [evaluate(expr, rows) for expr in self._outputs]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)


def shape_of(plan: Plan) -> Shape:
    """Derive the steps' keys and schemas from the plan; both ends of a link do this, so no schema is sent."""
    steps: dict[str, tuple[StepShape, ...]] = {}
    for head in plan.query.aliases:
        steps[head] = _head_steps(plan, head)
    outputs = tuple(output.source for output in plan.query.outputs)
    starts = {head: start_of(plan, head) for head in plan.query.aliases}
    return Shape(steps, starts, _replicas(plan, steps), plan.query.output_schema(), outputs)


def _head_steps(plan: Plan, head: str) -> tuple[StepShape, ...]:
    query = plan.query
    joined: tuple[str, ...] = (head,)
    carry = view_schema(query, head)
    source = start_of(plan, head)
    shapes = []
    for hop in route(plan, head):
        link = link_of(query, hop.alias, joined)
        ties = query.position(hop.alias) < query.position(head)
        owner, window = query.ref(hop.alias).stream.site, view_schema(query, hop.alias)
        joined = (*joined, hop.alias)
        wanted = {str(column) for column in needed_after(query, joined)}
        full = joined_schema(carry, window)
        answer = pa.schema([field for field in full if field.name == TS or field.name in wanted])
        keys = tuple(map(str, link.carry_keys)), tuple(map(str, link.window_keys))
        shapes.append(StepShape(hop, source, owner, *keys, carry, window, ties, link.residual, answer))
        carry = answer
        source = hop.site
    return tuple(shapes)


def _replicas(plan: Plan, steps: dict[str, tuple[StepShape, ...]]) -> tuple[ReplicaShape, ...]:
    found: list[ReplicaShape] = []
    for head in plan.query.aliases:
        start, owner = start_of(plan, head), plan.query.ref(head).stream.site
        if start != owner:
            found.append(ReplicaShape(len(found), ReplicaKind.FULL, head, (), owner, start))
    for step in (step for of_head in steps.values() for step in of_head):
        kind = _REPLICAS.get(step.hop.algorithm)
        if kind is not None and step.remote and not any(_uses(step, replica) for replica in found):
            keys = () if kind is ReplicaKind.FULL else step.window_keys
            found.append(ReplicaShape(len(found), kind, step.hop.alias, keys, step.owner, step.source))
    return tuple(found)


def _uses(step: StepShape, replica: ReplicaShape) -> bool:
    kind = _REPLICAS.get(step.hop.algorithm)
    same_copy = (kind, step.hop.alias, step.source) == (replica.kind, replica.alias, replica.holder)
    return step.remote and same_copy and (kind is ReplicaKind.FULL or step.window_keys == replica.keys)
