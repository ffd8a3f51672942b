"""The join graph of a query: what links a stream to those joined before it, and which columns are needed then.

Plans, their execution and their cost all follow from these, so that they cannot disagree.
Columns that equalities among the joined streams make equal are one as far as joining goes:
the first of them, in the order of the query, stands for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa

from planner.model.query import Call, ColumnRef, Edge, Expr, JoinQuery, columns_of


@dataclass(frozen=True, slots=True)
class Link:
    """How one stream is joined to a set of others: by all predicates between the two that can be asked now.

    ``carry_keys[i]`` must equal ``window_keys[i]``. Each column of the window is a key once, and keys are in
    the order of their names, so that joins by the same columns look alike from whichever stream they come.
    Without keys it is a product.
    """

    carry_keys: tuple[ColumnRef, ...]
    window_keys: tuple[ColumnRef, ...]
    residual: Expr | None


def link_of(query: JoinQuery, alias: str, joined: Collection[str]) -> Link:
    """What must hold between ``alias`` and the streams that were joined before."""
    pairs: dict[ColumnRef, ColumnRef] = {}
    others: list[Expr] = []
    for own, partners in _partners(query, (alias,), joined).items():
        pairs[own] = partners[0]
        others += [Call("=", (other, own), pa.bool_()) for other in partners[1:]]
    keys = sorted(pairs, key=str)
    others += [expr for expr in query.residuals if _due(expr, alias, joined)]
    return Link(tuple(pairs[own] for own in keys), tuple(keys), conjunction(others))


def is_linked(query: JoinQuery, alias: str, joined: Iterable[str]) -> bool:
    """Whether an equality connects ``alias`` with one of the joined streams."""
    before = tuple(joined)
    return any(edge.joins(alias, before) for edge in query.edges)


def needed_after(query: JoinQuery, joined: Collection[str]) -> tuple[ColumnRef, ...]:
    """The columns of joined streams that a later step or the output still needs."""
    rest = tuple(alias for alias in query.aliases if alias not in joined)
    wanted: dict[ColumnRef, None] = {}
    for partners in _partners(query, rest, joined).values():
        wanted |= dict.fromkeys(partners)
    for expr in query.residuals:
        columns = sorted(columns_of(expr), key=str)
        if any(column.alias in rest for column in columns):
            wanted |= dict.fromkeys(columns)
    for output in query.outputs:
        wanted |= dict.fromkeys(sorted(columns_of(output.source), key=str))
    return tuple(column for column in wanted if column.alias in joined)


def conjunction(terms: Iterable[Expr]) -> Expr | None:
    """All of them, in one list however many, so that those who walk it do not go deep; None when there are none."""
    found = tuple(terms)
    return Call("and", found, pa.bool_()) if len(found) > 1 else next(iter(found), None)


def closure(edges: Iterable[Edge], aliases: Collection[str]) -> tuple[Edge, ...]:
    """The edges with those that follow from them: what equals the same column is equal.

    A chain of equalities on one key lets every stream be joined with every other.
    """
    given = list(edges)
    groups: dict[ColumnRef, list[ColumnRef]] = {}
    order = {alias: place for place, alias in enumerate(aliases)}
    for column, first in _classes(given, order).items():
        groups.setdefault(first, []).append(column)
    known = dict.fromkeys(given)
    for group in groups.values():
        ordered = sorted(group, key=lambda column: (order[column.alias], column.column))
        for place, left in enumerate(ordered):
            known |= dict.fromkeys(Edge(left, right) for right in ordered[place + 1 :] if right.alias != left.alias)
    return tuple(known)


def first_equals(edges: Iterable[Edge], aliases: Collection[str]) -> dict[ColumnRef, ColumnRef]:
    """For each column in an edge the first of all that the edges make equal to it, in the order of the query."""
    return _classes(edges, {alias: place for place, alias in enumerate(aliases)})


def _partners(query: JoinQuery, outside: Collection[str], inside: Collection[str]) -> dict[ColumnRef, list[ColumnRef]]:
    """For each column outside that must equal some inside: those, without any that equal one before."""
    order = {alias: place for place, alias in enumerate(query.aliases)}
    classes = _classes([edge for edge in query.edges if _within(edge, inside)], order)
    found: dict[ColumnRef, list[ColumnRef]] = {}
    for edge in query.edges:
        for own, other in ((edge.left, edge.right), (edge.right, edge.left)):
            if own.alias in outside and other.alias in inside:
                partners = found.setdefault(own, [])
                first = classes.get(other, other)
                if first not in partners:
                    partners.append(first)
    return found


def _within(edge: Edge, inside: Collection[str]) -> bool:
    return edge.left.alias in inside and edge.right.alias in inside


def _classes(edges: Iterable[Edge], order: dict[str, int]) -> dict[ColumnRef, ColumnRef]:
    """For each column in an edge the first of all that the edges make equal to it."""
    first: dict[ColumnRef, ColumnRef] = {}
    for edge in edges:
        left, right = (first.setdefault(column, column) for column in (edge.left, edge.right))
        low, high = sorted((left, right), key=lambda column: (order[column.alias], column.column))
        if low != high:
            first = {column: low if old == high else old for column, old in first.items()}
    return first


def _due(expr: Expr, alias: str, before: Collection[str]) -> bool:
    """Whether a residual can be asked from this step on, and not before."""
    aliases = [column.alias for column in columns_of(expr)]
    return alias in aliases and all(other == alias or other in before for other in aliases)
