"""Copies of windows that run at other sites, whoever they were made for, and which of them serve a query.

Planner and core ask here, so that what a plan counts on is what happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod

import pyarrow as pa

from planner.algorithms.descriptions import CopyKind
from planner.model.implication import implies
from planner.model.query import Call, ColumnRef, Expr, JoinQuery, Literal, RowsWindow, names_in
from planner.model.selectivity import selectivity

#: A copy with a wider filter serves a query if it lets pass at most this many times the keys that the query needs; else
#: the query gets a copy of its own.
LOOSENESS_MAX = 4.0

#: A value of no fixed size, as a guess.
_TEXT_BYTES = 16.0


class CopyAxis(StrEnum):
    """What windows are measured by."""

    TIME = "time"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class RunningCopy:
    """A copy of a stream's window at another site. Names are those of the stream, so that queries can be compared."""

    kind: CopyKind
    stream: str
    #: The columns by which it is kept, in the order of their names; none for a full copy.
    keys: tuple[str, ...]
    #: The columns of the tuples in it; a copy of keys has no others.
    columns: tuple[str, ...]
    #: What its tuples have passed, its columns under the stream's name. Of W' of a time window None: there the
    #: questions decide what comes, and who uses it filters it.
    filter: Expr | None
    axis: CopyAxis
    owner: str
    holder: str
    #: The share of the stream's tuples that has passed the filter so far; None where it is not counted. No part of
    #: what the copy is.
    share: float | None = field(default=None, compare=False)


def copy_of(query: JoinQuery, kind: CopyKind, alias: str, keys: tuple[str, ...], holder: str) -> RunningCopy:
    """The copy that a query needs of one of its streams; ``keys`` are names of columns."""
    ref, spec = query.ref(alias), kind.spec
    axis = CopyAxis.ROWS if isinstance(ref.window, RowsWindow) else CopyAxis.TIME
    where = None if ref.where is None else _renamed(ref.where, ref.stream.name)
    columns = query.needed_columns(alias) if spec.tuples else keys
    if spec.asked_only and axis is CopyAxis.TIME:
        wanted = (*columns, *names_in(where))
        columns, where = tuple(name for name in ref.stream.schema.names if name in wanted), None
    return RunningCopy(kind, ref.stream.name, keys if spec.keyed else (), columns, where, axis, ref.stream.site, holder)


def serves(copy: RunningCopy, needed: RunningCopy) -> bool:
    """Whether a copy holds all that another one would have to.

    Tuples of a copy with a wider filter are filtered again where they are used, so it must have the columns for that;
    not if it grows: then it is told of each tuple which filters it passes. Positions in a count window depend on what
    passed the filter, so there filters must be the same.
    """
    if not _is_of(copy, needed) or not set(needed.columns) <= set(copy.columns):
        return False
    spec = needed.kind.spec
    if (spec.times or spec.grows) and copy.axis is not needed.axis:
        return False
    if copy.filter == needed.filter:
        return True
    if needed.axis is CopyAxis.ROWS or not implies(needed.filter, copy.filter):
        return False
    if spec.tuples and not spec.grows and not set(names_in(needed.filter)) <= set(copy.columns):
        return False
    return looseness(copy, needed) <= LOOSENESS_MAX


def can_serve(copy: RunningCopy, needed: RunningCopy) -> bool:
    """Whether a copy holds all that another one would have to, or will when it has grown."""
    if not needed.kind.spec.grows:
        return serves(copy, needed)
    same_counts = needed.axis is not CopyAxis.ROWS or copy.filter == needed.filter
    return _is_of(copy, needed) and copy.axis is needed.axis and same_counts


def missing_shares(copies: Iterable[RunningCopy], needed: RunningCopy) -> dict[str | None, float]:
    """For each needed column the share of its values that a copy which grows does not send for others yet; a guess.

    Under None: the share of tuples of which it sends nothing. Filters are taken to be independent of each other, unless
    one follows from the other.
    """
    running = list(dict.fromkeys(copy for copy in copies if can_serve(copy, needed)))
    covered = [_covered_share(copy, needed) for copy in running]
    wider = _wider(running)
    found: dict[str | None, float] = {}
    for column in (None, *needed.columns):
        having = [column is None or column in copy.columns for copy in running]
        counted = [
            share
            for place, share in enumerate(covered)
            if having[place] and not any(having[other] for other in wider[place])
        ]
        found[column] = prod(1 - share for share in counted)
    return found


def _wider(copies: list[RunningCopy]) -> list[list[int]]:
    """For each copy the places of those that have all its tuples; of two that have the same, only one is wider."""
    follows = [[implies(one.filter, other.filter) for other in copies] for one in copies]
    written = [repr(copy) for copy in copies]

    def is_wider(other: int, one: int) -> bool:
        if other == one or not follows[one][other]:
            return False
        return not follows[other][one] or written[other] < written[one]

    places = range(len(copies))
    return [[other for other in places if is_wider(other, one)] for one in places]


def _covered_share(copy: RunningCopy, needed: RunningCopy) -> float:
    """The share of what passes the needed filter that passes the copy's too."""
    if implies(needed.filter, copy.filter):
        return 1.0
    assert copy.filter is not None, "what has no filter is implied by everything"
    share = selectivity(copy.filter) if copy.share is None else copy.share
    if not implies(copy.filter, needed.filter):
        return share
    whole = 1.0 if needed.filter is None else selectivity(needed.filter)
    return share / max(share, whole, 1e-9)


def _is_of(copy: RunningCopy, needed: RunningCopy) -> bool:
    mine, theirs = ((each.kind, each.stream, each.keys, each.owner, each.holder) for each in (copy, needed))
    return mine == theirs


def serving(copies: Iterable[RunningCopy], needed: RunningCopy) -> RunningCopy | None:
    """The copy to use, of those that serve: the one that lets pass the least, the first of several."""
    found = [copy for copy in copies if serves(copy, needed)]
    return min(found, key=lambda copy: looseness(copy, needed), default=None)


def looseness(copy: RunningCopy, needed: RunningCopy) -> float:
    """How many times the keys that it needs a query finds in a copy with a wider filter; a guess.

    Of a copy that knows keys only by their tuples it is 1: those that do not pass are seen not to.
    """
    if not needed.kind.spec.blind or copy.filter == needed.filter:
        return 1.0
    shares = [1.0 if each is None else selectivity(each) for each in (copy.filter, needed.filter)]
    return max(1.0, shares[0] / max(1e-9, shares[1]))


def weight(copy: RunningCopy, schema: pa.Schema) -> float:
    """What a copy sends for a tuple of its stream, in bytes; a guess, to compare copies of one stream with."""
    sizes = [_bytes_of(schema.field(name).type) for name in copy.columns]
    return sum(sizes) * (1.0 if copy.filter is None else selectivity(copy.filter))


def _bytes_of(kind: pa.DataType) -> float:
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return _TEXT_BYTES


def _renamed(expr: Expr, stream: str) -> Expr:
    if isinstance(expr, ColumnRef):
        return ColumnRef(stream, expr.column)
    if isinstance(expr, Literal):
        return expr
    return Call(expr.function, tuple(_renamed(arg, stream) for arg in expr.args), expr.type)
