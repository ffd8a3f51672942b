"""A walk: one head batch on its way through its join sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from node.core.engine import TS, joined_schema
from node.core.ticks import Span
from node.core.view import view_schema
from planner.model import JoinQuery, Plan
from planner.plans import Hop, route


@dataclass(frozen=True, slots=True)
class Walk:
    """The carry: the head's rows with what was joined to them so far. ``step`` is the next to be done."""

    head: str
    span: Span
    sealed_at_us: int
    step: int
    rows: pa.RecordBatch

    @property
    def newest_ts(self) -> int:
        """Event time of the newest head row: every window it probes must be sealed beyond that."""
        return pc.max(self.rows.column(TS)).as_py()  # type: ignore[no-any-return]

    def joined(self, rows: pa.RecordBatch) -> Walk:
        """The walk after its next step gave ``rows``."""
        return replace(self, step=self.step + 1, rows=rows)


@dataclass(frozen=True, slots=True)
class StepShape:
    """Everything about one step that does not depend on data."""

    hop: Hop
    #: Carry columns, and the window's columns they must equal.
    carry_keys: tuple[str, ...]
    window_keys: tuple[str, ...]
    #: The carry before this step.
    carry_schema: pa.Schema
    #: The window's tuples with the head's own event time count as before the head.
    include_ties: bool

    @property
    def window_name(self) -> str:
        """Steps that probe the same tuples by the same keys share one window."""
        return f"{self.hop.alias}({','.join(self.window_keys)})"


@dataclass(frozen=True, slots=True)
class Shape:
    """The steps of every head, and what a finished walk becomes."""

    steps: dict[str, tuple[StepShape, ...]]
    final_schemas: dict[str, pa.Schema]
    output_schema: pa.Schema
    _output_sources: tuple[str, ...]

    def output(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Result rows from a carry that went through all steps."""
        columns = [rows.column(source) for source in self._output_sources]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)


def shape_of(plan: Plan) -> Shape:
    """Derive the steps' keys and schemas from the plan; both ends of a link do this, so no schema is sent."""
    steps: dict[str, tuple[StepShape, ...]] = {}
    finals: dict[str, pa.Schema] = {}
    for head in plan.query.aliases:
        steps[head], finals[head] = _head_steps(plan, head)
    sources = tuple(str(output.source) for output in plan.query.outputs)
    return Shape(steps, finals, plan.query.output_schema(), sources)


def _head_steps(plan: Plan, head: str) -> tuple[tuple[StepShape, ...], pa.Schema]:
    query = plan.query
    joined: tuple[str, ...] = (head,)
    carry = view_schema(query, head)
    shapes = []
    for hop in route(plan, head):
        carry_keys, window_keys = _keys(query, hop.alias, joined)
        ties = query.position(hop.alias) < query.position(head)
        shapes.append(StepShape(hop, carry_keys, window_keys, carry, ties))
        carry = joined_schema(carry, view_schema(query, hop.alias))
        joined = (*joined, hop.alias)
    return tuple(shapes), carry


def _keys(query: JoinQuery, alias: str, joined: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    edges = [edge for edge in query.edges if edge.joins(alias, joined)]
    window = [edge.column_of(alias) for edge in edges]
    carry = [edge.right if edge.left == own else edge.left for edge, own in zip(edges, window, strict=True)]
    return tuple(map(str, carry)), tuple(map(str, window))
