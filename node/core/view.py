"""A stream as one query sees it: needed columns only, renamed, with event time in the query's unit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.engine import TS
from node.core.errors import QueryFailedError, invariant
from node.core.evaluate import holds
from node.core.payload import take_batch
from node.core.sealer import Batch, Times
from node.core.ticks import tick_start
from planner.model import JoinQuery


class TimeOverflowError(QueryFailedError):
    """An event time does not fit when expressed in the query's finer unit."""


def view_schema(query: JoinQuery, alias: str) -> pa.Schema:
    """Columns of a view: the event time, then ``alias.column`` for each needed column."""
    schema = query.ref(alias).stream.schema
    columns = [pa.field(f"{alias}.{name}", schema.field(name).type) for name in query.needed_columns(alias)]
    return pa.schema([pa.field(TS, pa.int64()), *columns])


class View:
    """Turns the batches of a stream into the rows of one query's alias, from the query's first tick on."""

    def __init__(self, query: JoinQuery, alias: str, tau_ms: int, first_tick: int) -> None:
        ref = query.ref(alias)
        self._stream = ref.stream.name
        self._names = query.needed_columns(alias)
        self._scale = query.unit // ref.stream.unit
        self._start_ts = tick_start(first_tick, tau_ms * ref.stream.unit)
        self.schema = view_schema(query, alias)
        self._where = ref.where
        self._alias = alias

    def rows(self, batch: Batch) -> pa.RecordBatch:
        """The rows of ``batch`` that the query is about.

        Raises TimeOverflowError when an event time is too large for the query's unit.
        """
        skip = int(np.searchsorted(batch.ts, self._start_ts, side="left"))
        ts, tuples = batch.ts[skip:], batch.rows.slice(skip)
        if self._where is not None and tuples.num_rows:
            named = tuples.rename_columns([f"{self._alias}.{name}" for name in tuples.schema.names])
            passed = np.flatnonzero(holds(self._where, named))
            ts, tuples = ts[passed], take_batch(tuples.select(self._names), passed)
        columns = [tuples.column(name) for name in self._names]
        return pa.RecordBatch.from_arrays([pa.array(self._scaled(ts)), *columns], schema=self.schema)

    def _scaled(self, ts: Times) -> Times:
        if self._scale == 1 or not len(ts):
            return ts
        invariant(self._scale > 1, "view: the query's unit is the finest of its streams'")
        largest = 2**62 // self._scale
        if ts[0] <= -largest or ts[-1] >= largest:
            raise TimeOverflowError(
                f"stream {self._stream} requires event times within {largest} of zero, because another stream of "
                f"the query has a finer time unit; got {ts[0]} to {ts[-1]}"
            )
        return ts * self._scale
