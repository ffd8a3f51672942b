"""Bytes of a query's rows, tuples and keys as they travel, from what was measured of each column.

A row of a carry has the columns that a later step or the output still needs, and the head's event time.
"""

from __future__ import annotations

from planner.estimate.statistics import Statistics
from planner.model.constants import EVENT_TIME
from planner.model.graph import needed_after
from planner.model.query import ColumnRef, Expr, JoinQuery, columns_of

#: Bytes of a computed output column, of which nothing was measured.
_COMPUTED_BYTES = 3.0
#: Keys travel alone and sorted, which compresses better than a column of rows.
_KEY_SHARE = 0.8


class RowSizes:
    """The sizes of one query, remembered. Sets of streams are bits, in the query's order."""

    def __init__(self, query: JoinQuery, statistics: Statistics) -> None:
        self._query = query
        self._aliases = query.aliases
        self._profiles = statistics.profiles
        self._carries: dict[int, tuple[float, dict[int, float]]] = {}
        self._tuples = [self._tuple_bytes_of(alias) for alias in self._aliases]

    def tuple_bytes(self, number: int) -> float:
        """Of a tuple of a stream as the query sees it."""
        return self._tuples[number]

    def _tuple_bytes_of(self, alias: str) -> float:
        names = (EVENT_TIME, *self._query.needed_columns(alias))
        return sum(self.column_bytes(ColumnRef(alias, name)) for name in names)

    def row_bytes(self, head: int, joined: int) -> tuple[float, float]:
        """Of a row of the carry, with the head's event time; and of those of its columns that are the head's."""
        if joined not in self._carries:
            inside = tuple(alias for number, alias in enumerate(self._aliases) if joined >> number & 1)
            if len(inside) == 1:
                columns = [ColumnRef(inside[0], name) for name in self._query.needed_columns(inside[0])]
            else:
                columns = list(needed_after(self._query, inside))
            parts = dict.fromkeys(range(len(self._aliases)), 0.0)
            for column in columns:
                parts[self._aliases.index(column.alias)] += self.column_bytes(column)
            self._carries[joined] = (sum(parts.values()), parts)
        total, parts = self._carries[joined]
        time = self.column_bytes(ColumnRef(self._aliases[head], EVENT_TIME))
        return total + time, parts[head] + time

    def output_bytes(self, head: int) -> tuple[float, float]:
        """Of a result row; and of those of its columns that are the head's alone."""
        size = repeated = 0.0
        for output in self._query.outputs:
            own = self._expr_bytes(output.source)
            size += own
            if all(column.alias == self._aliases[head] for column in columns_of(output.source)):
                repeated += own
        return size, repeated

    def _expr_bytes(self, expr: Expr) -> float:
        if isinstance(expr, ColumnRef):
            return self.column_bytes(expr)
        return _COMPUTED_BYTES if columns_of(expr) else 0.0

    def key_bytes(self, columns: tuple[ColumnRef, ...]) -> float:
        """Of a key of these columns."""
        return sum(_KEY_SHARE * self.column_bytes(column) for column in columns)

    def column_bytes(self, column: ColumnRef) -> float:
        """Of a value of a column."""
        return self._profiles[column.alias].column_bytes.get(column.column, _COMPUTED_BYTES)

    def batch_rows(self, number: int) -> float:
        """Tuples in the typical batch of a stream: in such messages its sizes were measured."""
        return self._profiles[self._aliases[number]].batch_rows
