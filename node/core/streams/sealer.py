"""From arriving rows to sealed batches.

Correct here: every row is in exactly one batch or set aside with a reason; a
batch holds exactly the rows of its ticks, sorted by event time with ties in
order of arrival; batches tile the tick axis; unless a source says how far time
has come (a paced replay, Spark), what is late depends on the rows alone, never
on how they were cut into chunks. One row from the far future would make all that
follow late: a live source says by its clock what is too far ahead.

A row is late iff its tick was sealed when it arrived, that is, iff its tick is
before floor((newest event time before it - lateness) / tau).

After a restart the source is read again from its oldest row that was not sealed. A row that was read before, and is in
a sealed batch or was set aside, is passed over; so each row is sealed or set aside once, over all lives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from node.core.encoding.payload import owned
from node.core.encoding.rows import empty_batch
from node.core.errors import invariant
from node.core.streams.log_extent import LogExtent
from node.core.streams.position import (
    Position,
    Positions,
    SourcePlace,
    count_before,
    oldest,
    positions_from,
)
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
    #: The newest event time that had arrived when it was sealed, and how far the source was read, if it can say.
    newest: int | None = None
    place: SourcePlace | None = None


@dataclass(frozen=True, slots=True)
class Aside:
    """Rows that can be in no batch."""

    rows: pa.RecordBatch
    reason: str
    positions: Positions | None


@dataclass(slots=True)
class _Open:
    """Rows that are not sealed yet; their positions if the source has such."""

    rows: pa.RecordBatch
    times: Times
    positions: Positions | None


class Sealer:
    """Collects the rows of one stream and seals them tick by tick."""

    def __init__(
        self,
        schema: pa.Schema,
        tau: int,
        lateness: int,
        logged: LogExtent | None = None,
        aside: frozenset[Position] = frozenset(),
    ) -> None:
        """``logged``: what earlier lives sealed, after which this one goes on; ``aside``: what they set aside since."""
        self._schema = schema
        self._tau = tau
        self._lateness = lateness
        self._open: list[_Open] = []
        #: What the open rows take.
        self.open_bytes = 0
        self._newest = None if logged is None else logged.newest_ts
        #: The next tick to be sealed.
        self.frontier = TICK_MIN if logged is None else logged.end
        self._sealed_rows = 0 if logged is None else logged.next_tuple
        place = None if logged is None else logged.place
        #: What comes next, and up to where an earlier life had read: before, what is sealed is passed over.
        self._next = None if place is None else place.resume
        self._read_before = None if place is None else place.read_to
        self._aside_before = aside

    @property
    def open_rows(self) -> int:
        """Rows that arrived and are not sealed yet."""
        return sum(part.rows.num_rows for part in self._open)

    def add(
        self,
        rows: pa.RecordBatch,
        ts: pa.Int64Array,
        start: Position | None = None,
        end: Position | None = None,
        latest_ts: int | None = None,
    ) -> list[Aside]:
        """Take rows in order of arrival; returns those that can be in no batch.

        ``start``: where the first is, the others follow it; ``end``: where the next will be. None after ``latest_ts``
        can be in a batch, and it moves time for nobody.
        """
        positions = None
        if start is not None:
            follows = self._next is None or start >= self._next
            invariant(follows, f"sealer requires rows from {self._next} on; got {start}")
            positions = positions_from(start, rows.num_rows)
            rows, ts, positions = self._pass_over(rows, ts, start, positions)
            self._next = end
        aside: list[Aside] = []
        if ts.null_count:
            valid = ts.is_valid().to_numpy(zero_copy_only=False)
            aside.append(Aside(rows.filter(ts.is_null()), NO_TIME, _chosen(positions, ~valid)))
            rows, ts, positions = rows.filter(ts.is_valid()), ts.drop_null(), _chosen(positions, valid)
        times: Times = ts.to_numpy(zero_copy_only=False)
        if latest_ts is not None and (ahead := times > latest_ts).any():
            aside.append(Aside(rows.filter(pa.array(ahead)), AHEAD, _chosen(positions, ahead)))
            rows, times, positions = rows.filter(pa.array(~ahead)), times[~ahead], _chosen(positions, ~ahead)
        if not len(times):
            return aside
        late = self._late(times)
        self._newest = max(int(times.max()), self._newest if self._newest is not None else TICK_MIN)
        if late.any():
            aside.append(Aside(rows.filter(pa.array(late)), LATE, _chosen(positions, late)))
            rows, times, positions = rows.filter(pa.array(~late)), times[~late], _chosen(positions, ~late)
        if len(times):
            self._open.append(_Open(rows, times, positions))
            self.open_bytes += rows.nbytes + times.nbytes
        return aside

    def _pass_over(
        self, rows: pa.RecordBatch, ts: pa.Int64Array, start: Position, positions: Positions
    ) -> tuple[pa.RecordBatch, pa.Int64Array, Positions]:
        """Without what an earlier life sealed or set aside."""
        known = np.zeros(rows.num_rows, np.bool_)
        if self._is_behind:
            assert self._read_before is not None
            before = count_before(start, rows.num_rows, self._read_before)
            times = ts[:before].fill_null(TICK_MIN).to_numpy(zero_copy_only=False)
            known[:before] = times // self._tau < self.frontier
        if self._aside_before and start > max(self._aside_before):
            self._aside_before = frozenset()
        elif self._aside_before:
            known |= np.array([Position(*map(int, place)) in self._aside_before for place in positions], np.bool_)
        if not known.any():
            return rows, ts, positions
        kept = pa.array(~known)
        return rows.filter(kept), ts.filter(kept), positions[~known]

    @property
    def _is_behind(self) -> bool:
        """Whether rows that were open in an earlier life are still to be read again."""
        return self._read_before is not None and self._next is not None and self._next < self._read_before

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
        """Seal every tick that is over; None when that is no tick more than before.

        None also while rows that had arrived in time in an earlier life are not all here again.
        """
        frontier = self._frontier_at(watermark, ended)
        if frontier <= self.frontier or (self._is_behind and not ended):
            return None
        span = Span(self.frontier, frontier)
        self.frontier = frontier
        rows, times = self._take_before(tick_start(frontier, self._tau))
        first, self._sealed_rows = self._sealed_rows, self._sealed_rows + rows.num_rows
        return Batch(span, rows, times, first, self._newest, self._place())

    def _place(self) -> SourcePlace | None:
        if self._next is None:
            return None
        found = [part.positions for part in self._open if part.positions is not None]
        # As nothing is sealed before all is read again, what was read never falls.
        return SourcePlace(min(map(oldest, found), default=self._next), self._next)

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
        rows = pa.concat_batches([part.rows for part in self._open])
        times = np.concatenate([part.times for part in self._open])
        found = [part.positions for part in self._open if part.positions is not None]
        positions = np.concatenate(found) if len(found) == len(self._open) else None
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            rows, times, positions = rows.take(pa.array(order)), times[order], _chosen(positions, order)
        cut = int(np.searchsorted(times, end_ts, side="left"))
        # Sorting what stays open is safe: a stable sort keeps ties in order of arrival.
        rest = _Open(owned(rows.slice(cut)), times[cut:].copy(), None if positions is None else positions[cut:])
        self._open = [rest] if rest.rows.num_rows else []
        self.open_bytes = rest.rows.nbytes + rest.times.nbytes
        invariant(cut == 0 or times[cut - 1] < end_ts, "sealer: a batch holds only rows of its ticks")
        return rows.slice(0, cut), times[:cut]


def _chosen(positions: Positions | None, which: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Positions | None:
    return None if positions is None else positions[which]
