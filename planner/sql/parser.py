"""From the text of a query to a bound ``JoinQuery``.

Stages, each of which can grow on its own: cut the text into tokens and windows (``text``), read them
(``grammar``, ``expressions``), give names a meaning (``names``), give expressions types (``binding``),
and here sort the conditions: an equality between columns of two streams is an edge of the join graph, what
is about one stream filters it at its site, and the rest are residual predicates between streams.
The grammar lists what is allowed; whatever else SQL knows is refused, never silently ignored.
Each error says what was found, what is required, and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from planner.model.functions import CAST
from planner.model.graph import closure, conjunction
from planner.model.key_types import key_family
from planner.model.query import Call, ColumnRef, Edge, Expr, JoinQuery, OutputColumn, StreamInfo, StreamRef, columns_of
from planner.model.rendering import expr_text
from planner.sql.binding import Binder
from planner.sql.grammar import FORM, parse
from planner.sql.names import Scope, bind_streams, checked_name
from planner.sql.text import QueryText, lex, quote, shown
from planner.sql.tree import ColumnNode, ItemNode, SelectNode, StarNode, TableNode

#: Every pair of columns that are equal is an edge: more columns than any real query joins by would make millions.
KEYS_MAX = 128


def parse_query(text: str, catalogue: Mapping[str, StreamInfo]) -> JoinQuery:
    """Read a query over the streams of ``catalogue``; the only exception raised is ``QueryError``."""
    source = lex(text)
    select = parse(source)
    if len(select.tables) == 1:
        message = f"a query over one stream is not supported yet: required {FORM}"
        raise source.error(message, select.tables[0].name.at)
    scope = Scope(source, bind_streams(source, select.tables, catalogue))
    binder = Binder(scope)
    terms = _bind_terms(scope, binder, select)
    _check_linked(scope, select.tables, terms)
    keys = len({column for edge in terms.edges for column in (edge.left, edge.right)})
    if keys > KEYS_MAX:
        message = f"too many columns in equalities: required at most {KEYS_MAX} in one query, got {keys}"
        raise source.error(message, select.tables[0].name.at)
    streams = tuple(replace(ref, where=conjunction(terms.filters[ref.alias])) for ref in scope.streams)
    aliases = [ref.alias for ref in streams]
    edges = closure(terms.edges, aliases)
    return JoinQuery(text, streams, edges, _bind_outputs(scope, binder, select), tuple(terms.residuals))


# Conditions.


@dataclass(slots=True)
class _Terms:
    """The conditions of a query, sorted, each once and in the order written."""

    filters: dict[str, dict[Expr, None]]
    edges: dict[Edge, None] = field(default_factory=dict)
    residuals: dict[Expr, None] = field(default_factory=dict)


def _bind_terms(scope: Scope, binder: Binder, select: SelectNode) -> _Terms:
    terms = _Terms({ref.alias: {} for ref in scope.streams})
    for at, left, right in _using_pairs(scope, select.tables):
        _sort(scope, terms, binder.equality(at, left, right))
    for node in select.terms:
        for expr in _conjuncts(binder.condition(node)):
            _sort(scope, terms, expr)
    return terms


def _using_pairs(scope: Scope, tables: Sequence[TableNode]) -> Iterator[tuple[int, ColumnRef, ColumnRef]]:
    """The equalities that USING stands for, with the place of each."""
    merged: dict[str, list[str]] = {}
    for place, table in enumerate(tables):
        for name in table.using:
            before = merged.setdefault(name.text.casefold(), [])
            yield name.at, *scope.using(place, name, before)
            before.append(scope.streams[place].alias)


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    """The terms of an AND, left to right; BETWEEN with columns of several streams is two, each sorted by itself."""
    if isinstance(expr, Call) and expr.function == "and":
        for arg in expr.args:
            yield from _conjuncts(arg)
    elif isinstance(expr, Call) and expr.function == "between" and len(_aliases(expr)) > 1:
        subject, low, high = expr.args
        yield Call(">=", (subject, low), expr.type)
        yield Call("<=", (subject, high), expr.type)
    else:
        yield expr


def _aliases(expr: Expr) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column.alias for column in sorted(columns_of(expr), key=str)))


def _sort(scope: Scope, terms: _Terms, expr: Expr) -> None:
    aliases = _aliases(expr)
    edge = _edge(scope, expr)
    if edge is not None:
        terms.edges[edge] = None
    elif len(aliases) > 1:
        terms.residuals[expr] = None
    else:
        # A constant condition holds for all rows or for none: any stream can say so.
        terms.filters[next(iter(aliases), scope.streams[0].alias)][expr] = None


def _edge(scope: Scope, expr: Expr) -> Edge | None:
    """An equality between columns of two streams, of one family of keys; the stream earlier in FROM is its left."""
    if not isinstance(expr, Call) or expr.function != "=":
        return None
    left, right = expr.args
    if not isinstance(left, ColumnRef) or not isinstance(right, ColumnRef) or left.alias == right.alias:
        return None
    family = key_family(scope.type_of(left))
    if family is None or family != key_family(scope.type_of(right)):
        return None
    return Edge(left, right) if scope.position(left.alias) < scope.position(right.alias) else Edge(right, left)


def _check_linked(scope: Scope, tables: Sequence[TableNode], terms: _Terms) -> None:
    """Equalities must link all streams, but for a stream that CROSS JOIN links to those before it."""
    groups = {ref.alias: place for place, ref in enumerate(scope.streams)}
    links = [(edge.left.alias, edge.right.alias) for edge in terms.edges]
    first = scope.streams[0].alias
    links += [(first, ref.alias) for ref, table in zip(scope.streams, tables, strict=True) if table.crossed]
    for one, other in links:
        low, high = sorted((groups[one], groups[other]))
        groups = {alias: low if group == high else group for alias, group in groups.items()}
    apart = [place for place, ref in enumerate(scope.streams) if groups[ref.alias] != groups[first]]
    if apart:
        linked = [ref.alias for ref in scope.streams if groups[ref.alias] == groups[first]]
        unlinked = [scope.streams[place].alias for place in apart]
        message = (
            f"{', '.join(unlinked)} {'is' if len(unlinked) == 1 else 'are'} not linked to {', '.join(linked)} by an "
            f"equality of two columns of one type{_unlike(scope, terms.residuals)}: required a condition such as "
            "a.key = b.key, or CROSS JOIN if every combination is meant"
        )
        raise scope.source.error(message, tables[apart[0]].name.at)


def _unlike(scope: Scope, residuals: Iterable[Expr]) -> str:
    """The equalities that would link streams if their columns were of one type: mostly what the user meant."""
    pairs = [
        [_uncast(arg) for arg in expr.args] for expr in residuals if isinstance(expr, Call) and expr.function == "="
    ]
    named = [
        " and ".join(f"{side} is {_type_name(scope.type_of(side))}" for side in pair if isinstance(side, ColumnRef))
        for pair in pairs
        if all(isinstance(side, ColumnRef) for side in pair)
    ]
    return f" ({'; '.join(named)})" if named else ""


def _uncast(expr: Expr) -> Expr:
    """A column that the binder has cast for a comparison."""
    while isinstance(expr, Call) and expr.function == CAST:
        (expr,) = expr.args
    return expr


def _type_name(kind: pa.DataType) -> str:
    return "of no type, since its file has no values" if pa.types.is_null(kind) else str(kind)


# The select list.


def _bind_outputs(scope: Scope, binder: Binder, select: SelectNode) -> tuple[OutputColumn, ...]:
    outputs: dict[str, OutputColumn] = {}
    for item in select.items:
        for output in _item_outputs(scope, binder, item):
            _check_output(scope.source, outputs, output, item.at)
            outputs[output.name] = output
    return tuple(outputs.values())


def _item_outputs(scope: Scope, binder: Binder, item: ItemNode) -> Iterator[OutputColumn]:
    """The columns one item of the select list stands for."""
    if isinstance(item.value, StarNode):
        for ref in scope.streams if item.value.stream is None else (scope.stream(item.value.stream),):
            yield from _every_column(ref)
        return
    expr = binder.bind(item.value)
    if item.name is not None:
        name = checked_name(scope.source, "name", item.name)
    elif isinstance(item.value, ColumnNode) and isinstance(expr, ColumnRef):
        name = expr.column
    else:
        message = f"an expression needs a name: required {shown(expr_text(expr))} AS name"
        raise scope.source.error(message, item.at)
    if not isinstance(expr, ColumnRef) and pa.types.is_null(expr.type):
        raise scope.source.error("NULL has no type of its own here: required CAST(NULL AS type)", item.at)
    yield OutputColumn(name, expr)


def _every_column(ref: StreamRef) -> Iterator[OutputColumn]:
    """A star's columns carry their alias, so that the same column of two streams stays two."""
    for column in ref.stream.schema.names:
        yield OutputColumn(f"{ref.alias}_{column}", ColumnRef(ref.alias, column))


def _check_output(source: QueryText, outputs: Mapping[str, OutputColumn], output: OutputColumn, at: int) -> None:
    name = output.name
    if name.startswith("__") or not name:
        message = f"output column {quote(name)} has a reserved name: required a name without leading __, with AS"
        raise source.error(message, at)
    if name in outputs:
        first, second = (shown(expr_text(one.source)) for one in (outputs[name], output))
        message = f"two output columns are named {quote(name)}, {first} and {second}: required different names, with AS"
        if isinstance(output.source, ColumnRef):
            message += f", for example {second} AS {output.source.alias}_{output.source.column}"
        raise source.error(message, at)
