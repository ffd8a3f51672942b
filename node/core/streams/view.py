"""A stream as a query, or a copy, sees it: the rows that pass a filter, needed columns only.

Many queries look at one batch: what they have in common is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from node.core.arrangements.reach import Reach
from node.core.encoding.payload import plain_type, take_batch
from node.core.engine import TS
from node.core.errors import QueryFailedError, invariant
from node.core.kernels.evaluation import holds
from node.core.keys.hashing import I64
from node.core.streams.ticks import Span, tick_of, tick_start
from planner.model.query import Expr, JoinQuery


class KnownPassing(Protocol):
    """What is known of which rows of a batch pass which filters."""

    def places(self, condition: Expr) -> I64 | None:
        """The places of the rows that pass a filter; None if that is not known."""
        ...


class TimeOverflowError(QueryFailedError):
    """An event time does not fit when expressed in the query's finer unit."""


def view_schema(query: JoinQuery, alias: str) -> pa.Schema:
    """Columns of a carry that has only its head: the event time, then ``alias.column`` for each needed column."""
    schema = query.ref(alias).stream.schema
    columns = [pa.field(f"{alias}.{name}", schema.field(name).type) for name in query.needed_columns(alias)]
    return pa.schema([pa.field(TS, pa.int64()), *columns])


class SealedRows:
    """The tuples of a span of ticks, of a local stream or of a full copy, for all who look at them."""

    def __init__(
        self,
        stream: str,
        span: Span,
        rows: pa.RecordBatch,
        ts: I64,
        first: int,
        sealed_at_us: int,
        passed: Expr | None = None,
        passes: KnownPassing | None = None,
    ) -> None:
        """``ts`` is the event time of each row, ascending, in the stream's unit; ``first`` the first row's number.

        ``passed`` is a filter that all rows are known to pass; ``passes`` knows of some filters which rows pass them.
        """
        self.stream = stream
        self.span = span
        self.rows = rows
        self.ts = ts
        self.first = first
        self.sealed_at_us = sealed_at_us
        self.passed = passed
        self._passes = passes
        self._passing: dict[Expr, I64] = {}

    def __len__(self) -> int:
        return len(self.ts)

    def after(self, tick: int, tau: int) -> SealedRows:
        """What of it is at or after a tick."""
        if tick <= self.span.first:
            return self
        skip = int(np.searchsorted(self.ts, tick_start(tick, tau)))
        span = Span(tick, self.span.end)
        first = self.first + skip
        rows, ts = self.rows.slice(skip), self.ts[skip:]
        invariant(self._passes is None, "view: batches of a full copy are taken whole")
        return SealedRows(self.stream, span, rows, ts, first, self.sealed_at_us, self.passed)

    def before(self, tick: int, tau: int) -> SealedRows:
        """What of it is before a tick."""
        if tick >= self.span.end:
            return self
        count = int(np.searchsorted(self.ts, tick_start(tick, tau)))
        rows, ts = self.rows.slice(0, count), self.ts[:count]
        invariant(self._passes is None, "view: batches of a full copy are taken whole")
        return SealedRows(
            self.stream, Span(self.span.first, tick), rows, ts, self.first, self.sealed_at_us, self.passed
        )

    @property
    def nbytes(self) -> int:
        """What it takes in memory, of batches that it may be a part of only its share."""
        return int(self.rows.nbytes + self.ts.nbytes)

    def end_within(self, nbytes: float, tau: int) -> int:
        """The tick before which there is no more than so much; but a tick with tuples at least, if there is any."""
        if self.nbytes <= nbytes:
            return self.span.end
        place = int(len(self) * nbytes / self.nbytes)
        return min(self.span.end, max(tick_of(int(self.ts[place]), tau), tick_of(int(self.ts[0]), tau) + 1))

    def passing(self, condition: Expr | None, from_ts: int) -> I64:
        """The places of the rows from an event time on that pass a filter; its columns are under the stream's name."""
        skip = int(np.searchsorted(self.ts, from_ts)) if len(self.ts) and self.ts[0] < from_ts else 0
        if condition is None or condition == self.passed:
            return np.arange(skip, len(self.ts))
        if condition not in self._passing:
            self._passing[condition] = self._all_passing(condition)
        places = self._passing[condition]
        return places[np.searchsorted(places, skip) :] if skip else places

    def _all_passing(self, condition: Expr) -> I64:
        known = None if self._passes is None else self._passes.places(condition)
        if known is not None:
            return known
        if not len(self):
            return np.empty(0, np.int64)
        named = self.rows.rename_columns([f"{self.stream}.{name}" for name in self.rows.schema.names])
        return np.flatnonzero(holds(condition, named))

    def select(self, condition: Expr | None, from_ts: int, names: tuple[str, ...]) -> tuple[pa.RecordBatch, I64]:
        """Those rows, of the named columns, and their event times."""
        rows = self.rows.select(list(names))
        places = self.passing(condition, from_ts)
        if len(places) == len(self):
            return rows, self.ts
        if condition is None or condition == self.passed:
            return rows.slice(len(self) - len(places)), self.ts[places]
        return take_batch(rows, places), self.ts[places]


def joined(parts: Sequence[SealedRows]) -> Sequence[SealedRows]:
    """Batches that follow one another, as one; as they are where that would have to touch their values."""
    one_another = all(one.span.end == other.span.first for one, other in pairwise(parts))
    if len(parts) < 2 or not one_another or any(plain_type(kind) != kind for kind in parts[0].rows.schema.types):
        return parts
    first, last = parts[0], parts[-1]
    rows = pa.concat_batches([part.rows for part in parts])
    ts = np.concatenate([part.ts for part in parts])
    span = Span(first.span.first, last.span.end)
    return [SealedRows(first.stream, span, rows, ts, first.first, first.sealed_at_us, first.passed)]


class View:
    """Turns sealed rows into the carries of one query's alias, from the query's first tick on."""

    def __init__(self, query: JoinQuery, reach: Reach, first_ts: int) -> None:
        self._reach = reach
        self._names = query.needed_columns(reach.alias)
        self._first_ts = first_ts
        self.schema = view_schema(query, reach.alias)

    def rows(self, sealed: SealedRows) -> pa.RecordBatch:
        """The carry rows of a batch.

        Raises TimeOverflowError when an event time is too large for the query's unit.
        """
        tuples, ts = sealed.select(self._reach.filter, self._first_ts, self._names)
        return pa.RecordBatch.from_arrays([pa.array(self._scaled(ts)), *tuples.columns], schema=self.schema)

    def _scaled(self, ts: I64) -> I64:
        scale = self._reach.scale
        if scale == 1 or not len(ts):
            return ts
        invariant(scale > 1, "view: the query's unit is the finest of its streams'")
        largest = 2**62 // scale
        if ts[0] <= -largest or ts[-1] >= largest:
            raise TimeOverflowError(
                f"stream {self._reach.stream} requires event times within {largest} of zero, because another stream "
                f"of the query has a finer time unit; got {ts[0]} to {ts[-1]}"
            )
        return ts * scale
