"""What a query sees of one of its streams, in the stream's own terms.

DESIGN section 2 for a head row c and a tuple w of another stream. Event times of the carry are in the query's unit, a
multiple of the stream's (``scale``), so that times of streams with different units can be compared:

    time window    w is visible iff  c.ts - T <= w.ts * scale < c.ts   (<= c.ts when ties are before the head)
    count window   w is visible iff  it is one of the last n tuples, of those that pass the filter, before c

Either way what c sees is a range of the stream's tuples, in order of time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from node.core.keys.hashing import I64
from node.core.streams.ticks import TICK_END, TICK_MIN
from planner.model.query import Call, ColumnRef, Expr, JoinQuery, RowsWindow

_INT64_MIN = -(2**63)


@dataclass(frozen=True, slots=True)
class Reach:
    """One alias of a query: its stream, its filter, and how far back a head row looks."""

    alias: str
    stream: str
    #: The query's time units in one of the stream's.
    scale: int
    #: A tick, in the stream's unit.
    tau: int
    #: Length of a time window, in the query's unit; None for a count window.
    length: int | None
    #: Tuples of a count window; None for a time window.
    count: int | None
    #: The filter as the query writes it, and with columns named by the stream instead of the alias.
    where: Expr | None
    filter: Expr | None

    @property
    def axis(self) -> str:
        """Along what the window is cut."""
        return "time" if self.count is None else "rows"

    def where_behind(self, passed: Expr | None) -> Expr | None:
        """What is left to ask of tuples that have passed a filter."""
        return None if self.filter == passed else self.where

    def newest(self, ts: int) -> int:
        """Rows at ``ts`` (query's unit) see no tuple that is newer than this (stream's unit)."""
        return ts // self.scale

    def times(self, ts: I64, include_ties: bool) -> tuple[I64, I64]:
        """For rows at these times the range [low, high) of visible event times; of a count window only its high end."""
        high = ts // self.scale + 1 if include_ties else _divided_up(ts, self.scale)
        if self.length is None:
            return np.full(len(ts), _INT64_MIN, np.int64), high
        low = ts - self.length
        # Where that overflowed, everything is in reach.
        return np.where(low > ts, _INT64_MIN, _divided_up(low, self.scale)), high

    def before(self, ts: int) -> int:
        """Of a time window, rows at ``ts`` (stream's unit) or later see nothing that is older than this."""
        if ts >= TICK_END or ts <= TICK_MIN or self.length is None:
            return ts
        return max(TICK_MIN, ts - self.length // self.scale)


def _divided_up(values: I64, divisor: int) -> I64:
    """Divided and rounded up; the lowest number has no negative, so not by negating twice."""
    rounded: I64 = values // divisor + (values % divisor != 0)
    return rounded


def reach_of(query: JoinQuery, alias: str, tau_ms: int) -> Reach:
    """What ``alias`` sees of its stream."""
    ref = query.ref(alias)
    unit = ref.stream.unit
    rows = isinstance(ref.window, RowsWindow)
    length = None if isinstance(ref.window, RowsWindow) else ref.window.length(query.unit)
    count = ref.window.count if isinstance(ref.window, RowsWindow) else None
    assert rows == (length is None)
    by_stream = None if ref.where is None else named_by(ref.where, ref.stream.name)
    return Reach(alias, ref.stream.name, query.unit // unit, tau_ms * unit, length, count, ref.where, by_stream)


def named_by(expr: Expr, name: str) -> Expr:
    """An expression about one stream, with the stream under another name."""
    if isinstance(expr, ColumnRef):
        return ColumnRef(name, expr.column)
    if isinstance(expr, Call):
        return Call(expr.function, tuple(named_by(arg, name) for arg in expr.args), expr.type)
    return expr
