"""Joins that are kept: a query as two, so that a sub-join's rows are a stream that the other streams are joined with.

By the definition a tuple (s1..sm) is a result iff all predicates hold and, with sk the last of them, every other sj has
sj.ts >= sk.ts - T_j. The last has the greatest event time, whichever of several with that time it is, so with time
windows a result is what has

    for every j:  sj.ts >= max(s1.ts, .., sm.ts) - T_j                                                          (*)

and who is the head of it does not matter. Let D be some of the streams.

- The **inner** query joins those of D: their filters, windows, and the predicates among them. Each of its rows is a
  tuple d of a **derived stream** with d.ts = the greatest of its components' times, and carries the time of each.
- The **outer** query joins D with the others by the predicates that are left. D's window is the shortest of its
  components'. And for each component x of D and each other stream y, one more predicate: x.ts >= y.ts - T_x.

They have the same rows. Take what has (*). Its tuples in D are an inner row d, for (*) holds among them; it meets the
predicates, which (*) says for x and y; a y outside is in its window. And d is in D's window, as seen from any y: for
every x in D d.ts >= x.ts >= max - T_x, also for the x with the shortest. So no longer window is needed. The other way
round, the greatest time of an outer row is that of d or of some y. Inner rows have x.ts >= d.ts - T_x for all x, the
predicates say x.ts >= y.ts - T_x for all y: together (*) for x. For a y outside (*) is the outer query's own window.

The predicates are needed: with T_a = T_b = 10 and a.ts = 0, b.ts = 8, c.ts = 12 the pair (a, b) has time 8, which c
sees; but c does not see a, which is 12 older. Nor may D begin before the outer query: that sees only tuples from its
first tick on, so the inner one starts with the same.

A count window counts back from the head, and which of several tuples of one time that is would matter: refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Sequence as ListOf
from dataclasses import replace

import pyarrow as pa

from planner.model.errors import PlanError
from planner.model.functions import CAST
from planner.model.graph import closure, first_equals
from planner.model.plans import checked_plan
from planner.model.query import (
    FRONTIER_POLICY,
    Call,
    ColumnRef,
    Edge,
    Expr,
    JoinQuery,
    KeptJoin,
    Literal,
    OutputColumn,
    Plan,
    Policy,
    PolicyName,
    RangeWindow,
    RowsWindow,
    Sequence,
    StreamInfo,
    StreamRef,
    columns_of,
)
from planner.model.time_unit import TimeUnit

#: The event time of a derived stream: that of its newest component.
TS = "ts"
#: What a column with the time of a component is called after.
_TIME = "@time"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def tree_plan(
    query: JoinQuery,
    sink: str,
    sequences: tuple[Sequence, ...],
    kept: tuple[KeptJoin, ...],
    policy: Policy = FRONTIER_POLICY,
    owner: str = "",
) -> Plan:
    """A plan that keeps joins; ``sequences`` are those of the outer query.

    ``owner`` is the name of the query once it has one. Raises PlanError if it makes no sense.
    """
    if policy.name is not PolicyName.FRONTIER:
        raise PlanError("kept joins: required policy frontier, got delta, which forgets by the clock of each stream")
    outer, inners = outer_query(query, kept, owner), tuple(inner_plan(query, join) for join in kept)
    return checked_plan(Plan(outer, sink, sequences, policy, kept, query, inners=inners))


def inner_plan(query: JoinQuery, join: KeptJoin) -> Plan:
    """The plan that makes a kept join of a query. Raises PlanError if it makes no sense."""
    check_kept(query, (join,))
    places = (join.site, *(query.ref(alias).stream.site for alias in join.aliases))
    odd = [sequence.start for sequence in join.sequences if sequence.start not in (None, *places)]
    if odd:
        raise PlanError(f'kept join "{join.name}": required starts at its own sites, got "{odd[0]}"')
    plan = Plan(inner_query(query, join), join.site, join.sequences, FRONTIER_POLICY, (join,), query, join.name)
    return checked_plan(plan, f'kept join "{join.name}"')


def owned_by(plan: Plan, query_id: str) -> Plan:
    """The plan of a query that has a name now: its derived streams are called after it."""
    if not plan.keeps:
        return plan
    return tree_plan(plan.asked, plan.sink, plan.sequences, plan.kept, plan.policy, query_id)


def owner_of(plan: Plan) -> str:
    """After what the derived streams of a plan are called; empty if it has none, or no name yet."""
    return next((plan.query.ref(join.name).stream.name.removesuffix(join.name)[:-1] for join in plan.keeps), "")


def derived_name(owner: str, name: str) -> str:
    """What the stream of a kept join is called."""
    return f"{owner}.{name}" if owner else name


def derived_stream(query: JoinQuery, join: KeptJoin, owner: str) -> StreamInfo:
    """The stream that the rows of a kept join are."""
    inner = inner_query(query, join)
    schema = pa.schema([field.with_nullable(True).remove_metadata() for field in inner.output_schema()])
    return StreamInfo(derived_name(owner, join.name), join.site, schema, TS, inner.unit)


def check_kept(query: JoinQuery, kept: tuple[KeptJoin, ...]) -> None:
    """Raises PlanError if a query cannot have these joins kept."""
    inside = [alias for join in kept for alias in join.aliases]
    counted = [ref.alias for ref in query.streams if isinstance(ref.window, RowsWindow)]
    if counted:
        raise PlanError(
            f'kept joins: required time windows, got a count window of "{counted[0]}": it counts back from the last '
            "tuple of a result, which a kept join does not know"
        )
    unknown = [ref.stream.name for ref in query.streams if not ref.stream.ts_scale]
    if unknown:
        raise PlanError(f"kept joins: required streams that say what their event times count, got {unknown[0]}")
    outside = [alias for alias in query.aliases if alias not in inside]
    for join in kept:
        who = f'kept join "{join.name}"'
        if not _NAME.fullmatch(join.name):
            raise PlanError(f"{who}: required a name of letters, digits and _")
        others = [alias for alias in join.aliases if alias not in query.aliases]
        if others:
            raise PlanError(f'{who}: required streams of the query, got "{others[0]}" (kept joins are not nested)')
        if join.name in outside or [other.name for other in kept].count(join.name) > 1:
            raise PlanError(f"{who}: required a name that nothing else of the query has")
        if len(dict.fromkeys(join.aliases)) < 2 or len(join.aliases) == len(query.aliases):
            raise PlanError(f"{who}: required at least two streams, not all of the query, got {join.aliases}")
    for alias in inside:
        if inside.count(alias) > 1:
            raise PlanError(f'kept joins: required each stream in one of them, got "{alias}" twice')


# -- the inner query --------------------------------------------------------------------------


def inner_query(query: JoinQuery, join: KeptJoin) -> JoinQuery:
    """The query that makes a kept join, whose rows are the tuples of its stream."""
    streams = tuple(ref for ref in query.streams if ref.alias in join.aliases)
    within = [edge for edge in query.edges if _aliases(edge.left, edge.right) <= set(join.aliases)]
    edges = closure(within, [ref.alias for ref in streams])
    residuals = tuple(expr for expr in query.residuals if _aliases(expr) <= set(join.aliases))
    unit = max(ref.stream.unit for ref in streams)
    times = [OutputColumn(_time_of(ref.alias), event_time(ref, unit)) for ref in streams]
    newest = Call("greatest", tuple(time.source for time in times), pa.int64())
    columns = [OutputColumn(_column(ref), ref) for ref in _carried(query, join)]
    outputs = (OutputColumn(TS, newest), *times, *columns)
    names = [output.name for output in outputs]
    if len(names) != len(set(names)):
        raise PlanError(f'kept join "{join.name}": required columns of different names, got {sorted(names)}')
    return JoinQuery(query.text, streams, edges, outputs, residuals)


def _carried(query: JoinQuery, join: KeptJoin) -> list[ColumnRef]:
    """The columns of a kept join's streams that the rest of the query reads, in the order of the query."""
    wanted = {column for output in query.outputs for column in columns_of(output.source)}
    for expr in query.residuals:
        if not _aliases(expr) <= set(join.aliases):
            wanted |= columns_of(expr)
    for edge in _outward(query, join):
        wanted |= {edge.left, edge.right}
    order = {ColumnRef(ref.alias, name): None for ref in query.streams for name in ref.stream.schema.names}
    return [column for column in order if column in wanted and column.alias in join.aliases]


def _outward(query: JoinQuery, join: KeptJoin) -> list[Edge]:
    """The equalities of a kept join with others: of columns that it makes equal itself only the first is asked."""
    within = [edge for edge in query.edges if _aliases(edge.left, edge.right) <= set(join.aliases)]
    first = first_equals(within, query.aliases)
    found: dict[Edge, None] = {}
    for edge in query.edges:
        if len(_aliases(edge.left, edge.right) & set(join.aliases)) == 1:
            found[Edge(first.get(edge.left, edge.left), first.get(edge.right, edge.right))] = None
    return list(found)


def event_time(ref: StreamRef, unit: TimeUnit) -> Expr:
    """The event time of a stream's tuple, in whole units, as the stream itself counts it."""
    kind = ref.stream.schema.field(ref.stream.ts).type
    value: Expr = ColumnRef(ref.alias, ref.stream.ts)
    scale = ref.stream.ts_scale
    if pa.types.is_date(kind):
        value, scale = Call(CAST, (value,), pa.timestamp("s")), 1_000
    elif pa.types.is_timestamp(kind) and kind.unit == "s":
        scale = 1_000
    return _times(Call(CAST, (value,), pa.int64()), scale * (unit // ref.stream.unit))


def _times(expr: Expr, factor: int) -> Expr:
    return expr if factor == 1 else Call("*", (expr, Literal(factor, pa.int64())), pa.int64())


# -- the outer query --------------------------------------------------------------------------


def outer_query(query: JoinQuery, kept: tuple[KeptJoin, ...], owner: str = "") -> JoinQuery:
    """The query that reads kept joins. Raises PlanError if they make no sense."""
    check_kept(query, kept)
    owners = {alias: join for join in kept for alias in join.aliases}
    streams: dict[str, StreamRef] = {}
    for ref in query.streams:
        join = owners.get(ref.alias)
        if join is None:
            streams[ref.alias] = ref
        elif join.name not in streams:
            windows = [query.ref(alias).window for alias in join.aliases]
            shortest = min(window.length_us for window in windows if isinstance(window, RangeWindow))
            streams[join.name] = StreamRef(join.name, derived_stream(query, join, owner), RangeWindow(shortest))
    residuals = [
        _mapped(expr, owners)
        for expr in query.residuals
        if not any(_aliases(expr) <= set(join.aliases) for join in kept)
    ]
    for join in kept:
        residuals += _visible(query, join, list(streams.values()), owners)
    outputs = tuple(OutputColumn(output.name, _mapped(output.source, owners)) for output in query.outputs)
    return JoinQuery(query.text, tuple(streams.values()), _edges(query, kept, owners), outputs, tuple(residuals))


def _edges(query: JoinQuery, kept: tuple[KeptJoin, ...], owners: dict[str, KeptJoin]) -> tuple[Edge, ...]:
    found = [edge for edge in query.edges if not _aliases(edge.left, edge.right) & set(owners)]
    firsts = {
        join.name: first_equals(
            [edge for edge in query.edges if _aliases(edge.left, edge.right) <= set(join.aliases)], query.aliases
        )
        for join in kept
    }
    for edge in query.edges:
        ends = []
        for column in (edge.left, edge.right):
            join = owners.get(column.alias)
            first = column if join is None else firsts[join.name].get(column, column)
            mapped = _mapped(first, owners)
            assert isinstance(mapped, ColumnRef)
            ends.append(mapped)
        if ends[0].alias != ends[1].alias:
            found.append(Edge(*ends))
    return tuple(dict.fromkeys(found))


def _visible(query: JoinQuery, join: KeptJoin, streams: ListOf[StreamRef], owners: dict[str, KeptJoin]) -> list[Expr]:
    """That each component of a kept join is in its own window as seen from every other stream."""
    found: list[Expr] = []
    inner_unit = max(query.ref(alias).stream.unit for alias in join.aliases)
    for alias in join.aliases:
        window = query.ref(alias).window
        assert isinstance(window, RangeWindow)
        own = _times(ColumnRef(join.name, _time_of(alias)), query.unit // inner_unit)
        for other in streams:
            if other.alias != join.name:
                seen_from = event_time(other, query.unit)
                oldest = Call("-", (seen_from, Literal(window.length(query.unit), pa.int64())), pa.int64())
                found.append(Call(">=", (own, oldest), pa.bool_()))
    return found


def is_visibility(expr: Expr, names: Collection[str]) -> bool:
    """Whether a predicate of an outer query says that a component of one of these kept joins is in its window."""
    if not isinstance(expr, Call) or expr.function != ">=":
        return False
    own = columns_of(expr.args[0])
    return bool(own) and all(column.alias in names and column.column.endswith(_TIME) for column in own)


def _mapped(expr: Expr, owners: dict[str, KeptJoin]) -> Expr:
    """An expression with the columns of kept joins as columns of their streams."""
    if isinstance(expr, ColumnRef):
        join = owners.get(expr.alias)
        return expr if join is None else ColumnRef(join.name, _column(expr))
    if isinstance(expr, Call):
        return replace(expr, args=tuple(_mapped(arg, owners) for arg in expr.args))
    return expr


def _column(column: ColumnRef) -> str:
    return f"{column.alias}.{column.column}"


def components_of(query: JoinQuery, join: KeptJoin) -> dict[str, ColumnRef | str]:
    """Of each column of a kept join's stream but ``TS``: the column that it is, or the stream whose event time."""
    times: dict[str, ColumnRef | str] = {_time_of(ref.alias): ref.alias for ref in inner_query(query, join).streams}
    return times | {_column(column): column for column in _carried(query, join)}


def _time_of(alias: str) -> str:
    """The column with a component's event time, in the unit of the derived stream."""
    return f"{alias}{_TIME}"


def _aliases(*exprs: Expr) -> set[str]:
    return {column.alias for expr in exprs for column in columns_of(expr)}
