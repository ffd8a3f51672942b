"""The whole view (SP-S, and walks that start elsewhere): every batch is sent as it is."""

from __future__ import annotations

import pyarrow as pa

from node.core.arrangements.copy import HeldCopy, OwnedCopy, Post, columns_schema, timed_schema, with_times
from node.core.arrangements.lease import Lease
from node.core.arrangements.table import RowTable
from node.core.engine import TS
from node.core.messages import Sync
from node.core.rows import decode_rows, encode_rows
from node.core.status import CopyStatus
from node.core.ticks import TICK_END, Span, tick_start
from node.core.view import SealedRows
from node.core.work import Work
from planner.copies import RunningCopy


class FullOwner(OwnedCopy):
    """Sends batches."""

    def take(self, sealed: SealedRows, post: Post) -> None:
        self.progress.seal(sealed.span.first, sealed.span.end)
        rows, ts = sealed.select(self.spec.filter, self.first_ts, self.spec.columns)
        self.tuples += rows.num_rows
        data = encode_rows(with_times(ts, rows)) if rows.num_rows else b""
        post(Sync(self.number, sealed.span.end, 0, sealed.sealed_at_us, b"", b"", b"", data))


class FullHolder(HeldCopy):
    """The copy is a table like that of a local stream."""

    def __init__(self, work: Work, number: int, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(number, spec, tau, tick)
        self.table = RowTable(work, self.name, spec.stream, columns_schema(schema, spec.columns), tau, tick)
        self.table.filter = spec.filter
        self.progress = self.table.progress
        self._schema = timed_schema(schema, spec.columns)

    def lease(self, lease: Lease) -> None:
        super().lease(lease)
        self.table.lease(lease)

    def release(self, lease: Lease) -> None:
        super().release(lease)
        self.table.release(lease)

    def on_sync(self, message: Sync) -> SealedRows:
        """The next batch."""
        if message.born or message.dead or message.times or not self.frontier < message.frontier <= TICK_END:
            raise self.refuse(f"a batch with tuples alone, beyond tick {self.frontier}")
        span = Span(self.frontier, message.frontier)
        rows = decode_rows(message.rows, self._schema)
        ts = rows.column(TS)
        if ts.null_count:
            raise self.refuse("an event time in every tuple")
        times = ts.to_numpy()
        if len(times):
            first, end = tick_start(span.first, self.progress.tau), tick_start(span.end, self.progress.tau)
            if times[0] < first or times[-1] >= end or (times[1:] < times[:-1]).any():
                raise self.refuse(f"times within {span}, in order")
        spec, tuples = self.spec, rows.select(self.spec.columns)
        sealed = SealedRows(spec.stream, span, tuples, times, self.tuples, message.sealed_at_us, spec.filter)
        self.tuples += rows.num_rows
        self.table.take(sealed)
        return sealed

    def settle(self) -> None:
        self.table.settle()

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        return super().status(0, self.table.nbytes)
