"""The vocabulary of a query and its plan, as immutable values that print stably.

A ``JoinQuery`` is bound: every stream in it is known, with its site and schema.
A ``Plan`` adds one join sequence per head stream (Definition 1 of Tran & Lee)
and the sink. Nothing here knows about daemons, links or engines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

import pyarrow as pa

from planner.algorithms.descriptions import Algorithm
from planner.model.time_unit import TimeUnit

__all__ = [
    "FRONTIER_POLICY",
    "Algorithm",
    "Call",
    "ColumnRef",
    "Edge",
    "Expr",
    "JoinQuery",
    "KeptJoin",
    "Literal",
    "OutputColumn",
    "Plan",
    "Policy",
    "PolicyName",
    "RangeWindow",
    "RowsWindow",
    "Sequence",
    "Step",
    "StreamInfo",
    "StreamRef",
    "Window",
    "columns_of",
    "names_in",
]


class PolicyName(StrEnum):
    """How a walk knows that it may probe, and a window that it may forget."""

    FRONTIER = "frontier"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class Policy:
    """``frontier`` waits for what it needs and is exact; ``delta`` is the paper's, by the clock.

    ``delta_us`` is the largest accumulated delay; None means measured from the links, also while the query runs.
    """

    name: PolicyName = PolicyName.FRONTIER
    delta_us: int | None = None

    @property
    def is_measured(self) -> bool:
        """Whether it goes by a delta that is measured."""
        return self.name is PolicyName.DELTA and self.delta_us is None


#: The default.
FRONTIER_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What a site tells the others about one of its streams."""

    name: str
    site: str
    schema: pa.Schema
    ts: str
    unit: TimeUnit
    #: How many units an integer in the column of event times counts: of seconds a thousand. 0: not known, of a stream
    #: whose query was issued by the version before.
    ts_scale: int = 1


@dataclass(frozen=True, slots=True)
class RangeWindow:
    """A time window: tuples at most this much older than the head are visible."""

    length_us: int

    def length(self, unit: TimeUnit) -> int:
        """The length in whole units; rounding down is exact because times are whole units."""
        return self.length_us * unit // TimeUnit.US


@dataclass(frozen=True, slots=True)
class RowsWindow:
    """A count window: the last ``count`` tuples of the stream before the head are visible."""

    count: int


Window = RangeWindow | RowsWindow


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of one stream of the query; as an expression, its value."""

    alias: str
    column: str

    def __str__(self) -> str:
        return f"{self.alias}.{self.column}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is the null of its type. Dates, times and durations are whole units of their type.

    Constants are equal if they are written alike: 0.0 and -0.0, which Python takes for equal, are texts that differ,
    and filters with the one do not stand for filters with the other.
    """

    value: bool | int | float | Decimal | str | bytes | None = field(compare=False)
    type: pa.DataType
    written: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "written", repr(self.value))


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator, by its name in ``planner.model.functions``; ``type`` is that of its value."""

    function: str
    args: tuple[Expr, ...]
    type: pa.DataType


#: What is computed from one row.
Expr = ColumnRef | Literal | Call


def names_in(expr: Expr | None) -> list[str]:
    """The names of the columns that an expression about one stream reads, in order."""
    return [] if expr is None else sorted({column.column for column in columns_of(expr)})


def columns_of(expr: Expr) -> frozenset[ColumnRef]:
    """Every column that an expression reads."""
    if isinstance(expr, ColumnRef):
        return frozenset({expr})
    if isinstance(expr, Literal):
        return frozenset()
    return frozenset().union(*map(columns_of, expr.args))


@dataclass(frozen=True, slots=True)
class StreamRef:
    """One stream of a query under the name the query gives it."""

    alias: str
    stream: StreamInfo
    window: Window
    #: Acts on the stream before its window; about columns of this stream alone.
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """An equality predicate between two streams of the query."""

    left: ColumnRef
    right: ColumnRef

    def column_of(self, alias: str) -> ColumnRef:
        """The side of this edge that belongs to ``alias``."""
        return self.left if self.left.alias == alias else self.right

    def joins(self, alias: str, others: tuple[str, ...]) -> bool:
        """Whether this edge connects ``alias`` with one of ``others``."""
        ends = (self.left.alias, self.right.alias)
        return alias in ends and any(other in ends for other in others if other != alias)


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the result."""

    name: str
    source: Expr


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """A parsed and bound query; stream order is the order of the FROM clause."""

    text: str
    streams: tuple[StreamRef, ...]
    edges: tuple[Edge, ...]
    outputs: tuple[OutputColumn, ...]
    #: Predicates between streams that are not equalities of two columns; a result meets all of them.
    residuals: tuple[Expr, ...] = ()

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names of the streams in the order of the FROM clause."""
        return tuple(ref.alias for ref in self.streams)

    @property
    def unit(self) -> TimeUnit:
        """The finest time unit among the streams: all comparisons are made in it."""
        return max(ref.stream.unit for ref in self.streams)

    def ref(self, alias: str) -> StreamRef:
        """The stream that the query calls ``alias``."""
        return self.streams[self.position(alias)]

    def position(self, alias: str) -> int:
        """Place in the FROM clause; ties in event time are broken by it."""
        return self.aliases.index(alias)

    def needed_columns(self, alias: str) -> tuple[str, ...]:
        """Columns of ``alias`` that are needed beyond its filter: keys, residuals and outputs, in schema order."""
        aliases = self.aliases
        wanted = {edge.column_of(alias) for edge in self.edges if edge.joins(alias, aliases)}
        for expr in (*self.residuals, *(output.source for output in self.outputs)):
            wanted |= columns_of(expr)
        return tuple(name for name in self.ref(alias).stream.schema.names if ColumnRef(alias, name) in wanted)

    def _field(self, column: ColumnRef) -> pa.Field:
        return self.ref(column.alias).stream.schema.field(column.column)

    def output_schema(self) -> pa.Schema:
        """Names and types of the result's columns."""
        fields = []
        for output in self.outputs:
            if isinstance(output.source, ColumnRef):
                fields.append(self._field(output.source).with_name(output.name).with_nullable(True))
            else:
                fields.append(pa.field(output.name, output.source.type))
        return pa.schema(fields)


@dataclass(frozen=True, slots=True)
class Step:
    """One one-way join of a sequence: to which stream, and how."""

    alias: str
    algorithm: Algorithm


@dataclass(frozen=True, slots=True)
class Sequence:
    """The join sequence that each batch of one head stream walks.

    ``start`` is the site where it begins; None is the head's own. Elsewhere, such as at the sink when everything
    is shipped there, it begins with the full copy of the head's stream that is kept at that site: the batch
    that comes for the copy starts the walk, and travels once for both.
    """

    head: str
    steps: tuple[Step, ...]
    start: str | None = None


@dataclass(frozen=True, slots=True)
class KeptJoin:
    """A join of some streams of a query whose rows are kept at a site, as a stream that the others are joined with."""

    #: What the rest of the query calls it.
    name: str
    aliases: tuple[str, ...]
    site: str
    #: How its own walks go; their rows go to ``site``.
    sequences: tuple[Sequence, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One sequence per head stream, and the site that collects the rows."""

    query: JoinQuery
    sink: str
    sequences: tuple[Sequence, ...]
    policy: Policy = FRONTIER_POLICY
    #: Of a tree (``planner.model.kept``): the joins that are kept. ``query`` has each of them as a stream.
    kept: tuple[KeptJoin, ...] = ()
    #: The query as it was asked, if ``query`` is another one.
    whole: JoinQuery | None = None
    #: Of the plan that makes a kept join, which of ``kept`` that is.
    part: str = ""
    #: The plans that make the joins that this one reads, in the order of ``kept``.
    inners: tuple[Plan, ...] = ()

    @property
    def asked(self) -> JoinQuery:
        """The query as it was asked."""
        return self.whole or self.query

    @property
    def keeps(self) -> tuple[KeptJoin, ...]:
        """The joins whose rows this plan reads as streams."""
        return () if self.part else self.kept

    def sequence(self, head: str) -> Sequence:
        """The sequence that the batches of ``head`` walk."""
        return next(sequence for sequence in self.sequences if sequence.head == head)

    @property
    def sites(self) -> tuple[str, ...]:
        """Every site that takes part, sorted."""
        starts = [sequence.start for sequence in self.sequences if sequence.start is not None]
        return tuple(sorted({self.sink, *starts, *(ref.stream.site for ref in self.query.streams)}))
