"""The shape of a query's walks: everything about its steps that needs no data. Every site derives it from the plan."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from node.core.engine import TS, joined_schema
from node.core.kernels.evaluation import evaluate
from node.core.streams.view import view_schema
from planner.algorithms.descriptions import CopyKind
from planner.model.graph import link_of, needed_after
from planner.model.plans import Hop, route, start_of
from planner.model.query import Expr, Plan


@dataclass(frozen=True, slots=True)
class CopyNeed:
    """A copy that a plan needs. Every site numbers a query's needs alike.

    ``keys`` are the stream's columns by which it is known which keys the copy has; a full copy needs none, and is one
    however it is probed.
    """

    number: int
    kind: CopyKind
    alias: str
    keys: tuple[str, ...]
    owner: str
    holder: str


@dataclass(frozen=True, slots=True)
class StepShape:
    """Everything about one step that does not depend on data."""

    head: str
    number: int
    hop: Hop
    #: Where the carry is before the step, and where the stream is. The join is at one of the two.
    source: str
    owner: str
    #: Carry columns, and the stream's columns they must equal.
    carry_keys: tuple[str, ...]
    keys: tuple[str, ...]
    #: The carry before this step.
    carry_schema: pa.Schema
    #: The stream's tuples with the head's own event time count as before the head.
    include_ties: bool
    #: What else must hold for a joined row, among those it could not be asked of before.
    residual: Expr | None
    #: The carry after this step: only what later steps or the output need.
    answer_schema: pa.Schema

    @property
    def remote(self) -> bool:
        """Whether two sites are involved: if not, every algorithm is a local probe."""
        return self.source != self.owner

    @property
    def copy(self) -> CopyKind | None:
        """The kind of copy that it needs at the carry's site."""
        return self.hop.algorithm.spec.copy if self.remote else None

    @property
    def looks_at_owner(self) -> bool:
        """Whether tuples are looked for at the stream's own site: always, unless all of them are at the carry's."""
        return self.copy is not CopyKind.FULL

    @property
    def key_schema(self) -> pa.Schema:
        """The carry's key columns, as they travel."""
        return pa.schema([self.carry_schema.field(name) for name in self.carry_keys])

    def keys_of(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(name) for name in self.carry_keys]


@dataclass(frozen=True, slots=True)
class Shape:
    """The steps of every head, the copies they need, and what a finished walk becomes."""

    steps: dict[str, tuple[StepShape, ...]]
    #: Where the walks of each head start.
    starts: dict[str, str]
    needs: tuple[CopyNeed, ...]
    output_schema: pa.Schema
    _outputs: tuple[Expr, ...]

    @property
    def all_steps(self) -> tuple[StepShape, ...]:
        """Every step of every head."""
        return tuple(step for steps in self.steps.values() for step in steps)

    def end_of(self, head: str) -> str:
        """Where walks of a head end that have rows."""
        steps = self.steps[head]
        return steps[-1].hop.site if steps else self.starts[head]

    def sites_of(self, head: str) -> set[str]:
        """Where walks of a head come by, and so may end without rows."""
        steps = self.steps[head]
        return {self.starts[head], *(step.source for step in steps), *(step.owner for step in steps)}

    def need_of(self, step: StepShape) -> CopyNeed | None:
        """The copy that a step needs."""
        return next((need for need in self.needs if needs(step, need)), None)

    def output(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Result rows from a carry that went through all steps."""
        columns = [evaluate(expr, rows) for expr in self._outputs]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)


def shape_of(plan: Plan) -> Shape:
    """Derive the steps' keys and schemas from the plan; both ends of a link do this, so no schema is sent."""
    steps = {head: _head_steps(plan, head) for head in plan.query.aliases}
    outputs = tuple(output.source for output in plan.query.outputs)
    starts = {head: start_of(plan, head) for head in plan.query.aliases}
    return Shape(steps, starts, _needs(plan, steps), plan.query.output_schema(), outputs)


def _head_steps(plan: Plan, head: str) -> tuple[StepShape, ...]:
    query = plan.query
    joined: tuple[str, ...] = (head,)
    carry = view_schema(query, head)
    source = start_of(plan, head)
    shapes: list[StepShape] = []
    for hop in route(plan, head):
        link = link_of(query, hop.alias, joined)
        ties = query.position(hop.alias) < query.position(head)
        stream = query.ref(hop.alias).stream
        joined = (*joined, hop.alias)
        wanted = {str(column) for column in needed_after(query, joined)}
        full = joined_schema(carry, _plain(stream.schema), hop.alias)
        answer = pa.schema([field for field in full if field.name == TS or field.name in wanted])
        keys = tuple(map(str, link.carry_keys)), tuple(key.column for key in link.window_keys)
        number = len(shapes)
        shapes.append(StepShape(head, number, hop, source, stream.site, *keys, carry, ties, link.residual, answer))
        carry = answer
        source = hop.site
    return tuple(shapes)


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _needs(plan: Plan, steps: dict[str, tuple[StepShape, ...]]) -> tuple[CopyNeed, ...]:
    found: list[CopyNeed] = []
    for head in plan.query.aliases:
        start, owner = start_of(plan, head), plan.query.ref(head).stream.site
        if start != owner:
            found.append(CopyNeed(len(found), CopyKind.FULL, head, (), owner, start))
    for step in (step for of_head in steps.values() for step in of_head):
        kind = step.copy
        if kind is not None and not any(needs(step, need) for need in found):
            keys = step.keys if kind.spec.keyed else ()
            found.append(CopyNeed(len(found), kind, step.hop.alias, keys, step.owner, step.source))
    return tuple(found)


def needs(step: StepShape, need: CopyNeed) -> bool:
    """Whether a step uses that copy."""
    same = (step.copy, step.hop.alias, step.source) == (need.kind, need.alias, need.holder)
    return same and (not need.kind.spec.keyed or step.keys == need.keys)
