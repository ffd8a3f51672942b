"""From arriving rows to sealed batches.

Correct here: every row is in exactly one batch or set aside with a reason; a
batch holds exactly the rows of its ticks, sorted by event time with ties in
order of arrival; batches tile the tick axis; unless a source says how far time
has come (a paced replay, Spark), what is late depends on the rows alone, never
on how they were cut into chunks. One row from the far future would make all that
follow late: a live source says by its clock what is too far ahead.

A row is late iff its tick was sealed when it arrived, that is, iff its tick is
before floor((newest event time before it - lateness) / tau).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from node.core.encoding.payload import owned
from node.core.encoding.rows import empty_batch
from node.core.errors import invariant
from node.core.streams.ticks import TICK_END, TICK_MIN, Span, tick_start

Times = npt.NDArray[np.int64]

#: Why rows were set aside.
LATE = "late"
NO_TIME = "no event time"
AHEAD = "ahead of the clock"


@dataclass(frozen=True, slots=True)
class Batch:
    """The tuples of a span of ticks, sealed: it never changes."""

    span: Span
    rows: pa.RecordBatch
    #: Event time of each row, ascending, in the stream's unit.
    ts: Times
    #: The number of its first tuple in the stream.
    first: int = 0


class Sealer:
    """Collects the rows of one stream and seals them tick by tick."""

    def __init__(self, schema: pa.Schema, tau: int, lateness: int) -> None:
        self._schema = schema
        self._tau = tau
        self._lateness = lateness
        self._newest: int | None = None
        self._open: list[tuple[pa.RecordBatch, Times]] = []
        #: What the open rows take.
        self.open_bytes = 0
        #: The next tick to be sealed.
        self.frontier = TICK_MIN
        self._sealed_rows = 0

    @property
    def open_rows(self) -> int:
        """Rows that arrived and are not sealed yet."""
        return sum(rows.num_rows for rows, _ in self._open)

    def add(
        self, rows: pa.RecordBatch, ts: pa.Int64Array, latest_ts: int | None = None
    ) -> list[tuple[pa.RecordBatch, str]]:
        """Take rows in order of arrival; returns those that can be in no batch, with the reason.

        None after ``latest_ts`` can, and it moves time for nobody.
        """
        aside: list[tuple[pa.RecordBatch, str]] = []
        if ts.null_count:
            aside.append((rows.filter(ts.is_null()), NO_TIME))
            rows, ts = rows.filter(ts.is_valid()), ts.drop_null()
        times: Times = ts.to_numpy(zero_copy_only=False)
        if latest_ts is not None and (ahead := times > latest_ts).any():
            aside.append((rows.filter(pa.array(ahead)), AHEAD))
            rows, times = rows.filter(pa.array(~ahead)), times[~ahead]
        if not len(times):
            return aside
        late = self._late(times)
        self._newest = max(int(times.max()), self._newest if self._newest is not None else TICK_MIN)
        if late.any():
            aside.append((rows.filter(pa.array(late)), LATE))
            rows, times = rows.filter(pa.array(~late)), times[~late]
        if len(times):
            self._open.append((rows, times))
            self.open_bytes += rows.nbytes + times.nbytes
        return aside

    def _late(self, times: Times) -> npt.NDArray[np.bool_]:
        newest_before = np.empty_like(times)
        # Before the very first row nothing is sealed; comparing it with itself never makes it late.
        newest_before[0] = times[0] if self._newest is None else self._newest
        np.maximum.accumulate(times[:-1], out=newest_before[1:])
        np.maximum(newest_before, newest_before[0], out=newest_before)
        sealed = np.maximum((newest_before - self._lateness) // self._tau, self.frontier)
        return times // self._tau < sealed

    def forget_open(self) -> None:
        """The stream has failed: what is open will never be sealed."""
        self._open = []
        self.open_bytes = 0

    def seal(self, watermark: int | None, ended: bool) -> Batch | None:
        """Seal every tick that is over; None when that is no tick more than before."""
        frontier = self._frontier_at(watermark, ended)
        if frontier <= self.frontier:
            return None
        span = Span(self.frontier, frontier)
        self.frontier = frontier
        rows, times = self._take_before(tick_start(frontier, self._tau))
        first, self._sealed_rows = self._sealed_rows, self._sealed_rows + rows.num_rows
        return Batch(span, rows, times, first)

    def _frontier_at(self, watermark: int | None, ended: bool) -> int:
        if ended:
            return TICK_END
        marks = [self.frontier]
        if watermark is not None:
            marks.append(watermark // self._tau)
        if self._newest is not None:
            marks.append((self._newest - self._lateness) // self._tau)
        return max(marks)

    def _take_before(self, end_ts: int) -> tuple[pa.RecordBatch, Times]:
        if not self._open:
            return empty_batch(self._schema), np.empty(0, np.int64)
        rows = pa.concat_batches([rows for rows, _ in self._open])
        times = np.concatenate([times for _, times in self._open])
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            rows, times = rows.take(pa.array(order)), times[order]
        cut = int(np.searchsorted(times, end_ts, side="left"))
        # Sorting what stays open is safe: a stable sort keeps ties in order of arrival.
        rest = owned(rows.slice(cut)), times[cut:].copy()
        self._open = [rest] if rest[0].num_rows else []
        self.open_bytes = rest[0].nbytes + rest[1].nbytes
        invariant(cut == 0 or times[cut - 1] < end_ts, "sealer: a batch holds only rows of its ticks")
        return rows.slice(0, cut), times[:cut]
