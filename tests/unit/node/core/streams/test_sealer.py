"""The sealer against the oracle's definition of late, and against batches recomputed in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.core.streams.sealer import AHEAD, LATE, NO_TIME, Batch, Sealer
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from tests.examples import examples
from tests.oracle.oracle import accepted

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])
Row = tuple[int, int]  # event time, number in order of arrival


def rows_of(ts: Sequence[int | None], first: int = 0) -> pa.RecordBatch:
    numbers = range(first, first + len(ts))
    return pa.RecordBatch.from_arrays([pa.array(ts, pa.int64()), pa.array(numbers, pa.int64())], schema=SCHEMA)


def content(batch: Batch) -> list[Row]:
    assert batch.ts.tolist() == batch.rows.column("ts").to_pylist()
    return list(zip(batch.ts.tolist(), batch.rows.column("n").to_pylist(), strict=True))


def numbers(rows: Sequence[pa.RecordBatch]) -> list[int]:
    return [number for batch in rows for number in batch.column("n").to_pylist()]


class Feed:
    """A sealer with a plain memory of what came out of it."""

    def __init__(self, tau: int = 10, lateness: int = 0) -> None:
        self.sealer = Sealer(SCHEMA, tau, lateness)
        self.batches: list[Batch] = []
        self.late: list[int] = []
        self.timeless: list[int] = []
        self._arrived = 0

    def give(self, *ts: int | None, watermark: int | None = None, ended: bool = False) -> Batch | None:
        rows = rows_of(ts, self._arrived)
        self._arrived += len(ts)
        for aside in self.sealer.add(rows, rows.column("ts")):
            {LATE: self.late, NO_TIME: self.timeless}[aside.reason].extend(aside.rows.column("n").to_pylist())
        batch = self.sealer.seal(watermark, ended)
        if batch is not None:
            self.batches.append(batch)
        return batch

    @property
    def spans(self) -> list[Span]:
        return [batch.span for batch in self.batches]

    @property
    def sealed(self) -> list[list[Row]]:
        return [content(batch) for batch in self.batches]


times = st.lists(st.none() | st.integers(-60, 60) | st.integers(-(2**40), 2**40), max_size=40)
taus = st.sampled_from([1, 2, 7, 10, 100])
latenesses = st.sampled_from([0, 1, 9, 10, 11, 100])


def cut(ts: list[int | None], sizes: list[int]) -> list[list[int | None]]:
    """The list in chunks of the given sizes, and the rest; empty chunks are chunks too."""
    chunks, at = [], 0
    for size in sizes:
        chunks.append(ts[at : at + size])
        at += size
    return [*chunks, ts[at:]]


chunkings = st.lists(st.integers(0, 6), max_size=12)


def run(ts: list[int | None], sizes: list[int], tau: int, lateness: int) -> Feed:
    feed = Feed(tau, lateness)
    for chunk in cut(ts, sizes):
        feed.give(*chunk)
    feed.give(ended=True)
    return feed


# -- against the judges -----------------------------------------------------------------------


@given(times, chunkings, taus, latenesses)
@example([5, 25, 5], [1, 1], 10, 0)
@examples(300)
def test_what_is_late_is_what_the_oracle_says(ts: list[int | None], sizes: list[int], tau: int, lateness: int) -> None:
    feed = run(ts, sizes, tau, lateness)
    taken, late = accepted(pa.Table.from_batches([rows_of(ts)]), "ts", tau, lateness)
    assert sorted(feed.late + feed.timeless) == late.column("n").to_pylist()
    assert sorted(number for batch in feed.sealed for _, number in batch) == taken.column("n").to_pylist()


@given(times, chunkings, taus, latenesses)
@examples(300)
def test_batches_are_those_recomputed_in_plain_python(
    ts: list[int | None], sizes: list[int], tau: int, lateness: int
) -> None:
    feed = run(ts, sizes, tau, lateness)
    aside = set(feed.late + feed.timeless)
    kept = [(time, number) for number, time in enumerate(ts) if time is not None and number not in aside]
    for batch in feed.batches:
        inside = [row for row in kept if batch.span.first <= row[0] // tau < batch.span.end]
        assert content(batch) == sorted(inside, key=lambda row: row[0])  # sorted is stable: ties as they arrived
    assert sum(len(batch) for batch in feed.sealed) == len(kept)


@given(times, chunkings, taus, latenesses)
@examples()
def test_spans_tile_the_axis_from_start_to_end(ts: list[int | None], sizes: list[int], tau: int, lateness: int) -> None:
    spans = run(ts, sizes, tau, lateness).spans
    assert spans[0].first == TICK_MIN
    assert spans[-1].end == TICK_END
    assert [span.end for span in spans[:-1]] == [span.first for span in spans[1:]]


@given(times, chunkings, chunkings, taus, latenesses)
@examples()
def test_chunking_changes_neither_what_is_late_nor_the_order_of_rows(
    ts: list[int | None], one: list[int], other: list[int], tau: int, lateness: int
) -> None:
    left, right = run(ts, one, tau, lateness), run(ts, other, tau, lateness)
    assert sorted(left.late) == sorted(right.late)
    assert sorted(left.timeless) == sorted(right.timeless)
    assert [row for batch in left.sealed for row in batch] == [row for batch in right.sealed for row in batch]


@given(times, chunkings, taus, latenesses)
@examples()
def test_a_tick_is_sealed_as_soon_as_it_is_over_and_never_before(
    ts: list[int | None], sizes: list[int], tau: int, lateness: int
) -> None:
    feed = Feed(tau, lateness)
    newest = None
    for chunk in cut(ts, sizes):
        feed.give(*chunk)
        newest = max([time for time in chunk if time is not None] + ([] if newest is None else [newest]), default=None)
        assert feed.sealer.frontier == (TICK_MIN if newest is None else (newest - lateness) // tau)


@given(
    st.lists(st.tuples(st.lists(st.none() | st.integers(-50, 50), max_size=5), st.none() | st.integers(-50, 50))),
    taus,
    latenesses,
)
@examples(300)
def test_watermarks_make_late_exactly_what_comes_behind_a_sealed_tick(
    chunks: list[tuple[list[int | None], int | None]], tau: int, lateness: int
) -> None:
    feed = Feed(tau, lateness)
    late: list[int] = []
    taken: list[int] = []
    number = 0
    newest: int | None = None
    marked = TICK_MIN
    for ts, watermark in chunks:
        for time in ts:
            if time is not None:
                by_rows = TICK_MIN if newest is None else (newest - lateness) // tau
                (late if time // tau < max(by_rows, marked) else taken).append(number)
                newest = time if newest is None else max(time, newest)
            number += 1
        feed.give(*ts, watermark=watermark)
        if watermark is not None:
            marked = max(marked, watermark // tau)
    feed.give(ended=True)
    assert sorted(feed.late) == late
    assert sorted(row[1] for batch in feed.sealed for row in batch) == taken


# -- by hand ----------------------------------------------------------------------------------


def test_nothing_is_sealed_while_the_first_tick_is_open() -> None:
    #  tick    0         |1
    #  rows    0  5   9  |
    feed = Feed()
    batch = feed.give(0, 5, 9)
    assert batch is not None
    assert batch.span == Span(TICK_MIN, 0)  # what is before the first row is over
    assert feed.sealed == [[]]
    assert feed.give() is None
    assert feed.sealer.open_rows == 3


def test_the_edge_of_a_tick_belongs_to_the_next() -> None:
    #  tick    0         |1
    #  rows    0      9  |10
    feed = Feed()
    feed.give(0, 9, 10)
    assert feed.spans == [Span(TICK_MIN, 1)]
    assert feed.sealed == [[(0, 0), (9, 1)]]
    assert feed.sealer.open_rows == 1


def test_a_gap_is_one_batch_of_many_ticks() -> None:
    #  tick    0   |1 ... 99|100
    #  rows    5   |        |1003
    feed = Feed()
    feed.give(5)
    feed.give(1003)
    assert feed.spans == [Span(TICK_MIN, 0), Span(0, 100)]
    assert feed.sealed == [[], [(5, 0)]]


def test_negative_times_have_negative_ticks() -> None:
    #  tick   -2       |-1      |0
    #  rows   -20  -11 |-10  -1 |0
    feed = Feed()
    for ts in (-20, -11, -10, -1, 0):
        feed.give(ts)
    assert feed.spans == [Span(TICK_MIN, -2), Span(-2, -1), Span(-1, 0)]
    assert feed.sealed == [[], [(-20, 0), (-11, 1)], [(-10, 2), (-1, 3)]]


def test_ties_stay_in_order_of_arrival_across_chunks() -> None:
    feed = Feed(lateness=100)
    feed.give(7, 3, 7)
    feed.give(3, 7)
    feed.give(ended=True)
    assert [row for batch in feed.sealed for row in batch] == [(3, 1), (3, 3), (7, 0), (7, 2), (7, 4)]


def test_rows_that_stay_open_keep_the_order_of_ties_when_others_are_sealed() -> None:
    feed = Feed(lateness=10)
    feed.give(12, 5, 12, 29)  # seals tick 0, sorts, keeps the rest
    feed.give(12, 12, ended=True)
    assert feed.sealed == [[(5, 1)], [(12, 0), (12, 2), (12, 4), (12, 5), (29, 3)]]


def test_lateness_keeps_a_tick_open() -> None:
    #  lateness 15       newest 24: ticks before (24-15)//10 = 0 are over
    #  tick    0         |1        |2
    #  rows          9 <----------- 24
    feed = Feed(lateness=15)
    feed.give(24)
    feed.give(9)
    assert feed.late == []
    #  newest 25: tick 0 is over
    feed.give(25, 9)
    assert feed.late == [3]


def test_a_row_in_the_open_tick_is_not_late_however_old() -> None:
    feed = Feed()
    feed.give(19, 10)
    feed.give(9)
    assert feed.late == [2]


def test_the_very_first_row_is_never_late() -> None:
    feed = Feed(lateness=0)
    feed.give(-(2**40))
    assert feed.late == []


def test_a_late_row_does_not_hold_back_the_watermark() -> None:
    feed = Feed()
    feed.give(35)
    feed.give(5, 40)
    assert feed.late == [1]
    assert feed.sealer.frontier == 4


def test_rows_without_time_are_set_aside_and_move_nothing() -> None:
    feed = Feed()
    assert feed.give(None, None) is None
    assert feed.timeless == [0, 1]
    assert feed.sealer.frontier == TICK_MIN
    feed.give(15, None, 3)
    assert feed.timeless == [0, 1, 3]
    assert feed.late == [4]


def test_an_explicit_watermark_seals_without_rows() -> None:
    #  paced:  rows 3     watermark 20      watermark 20 again
    feed = Feed()
    feed.give(3)
    batch = feed.give(watermark=20)
    assert batch is not None
    assert (batch.span, content(batch)) == (Span(0, 2), [(3, 0)])
    assert feed.give(watermark=20) is None
    assert feed.give(watermark=29) is None


def test_a_watermark_inside_a_tick_does_not_seal_it() -> None:
    feed = Feed()
    feed.give(3, watermark=9)
    assert feed.spans == [Span(TICK_MIN, 0)]


def test_a_watermark_before_any_row_makes_older_rows_late() -> None:
    feed = Feed()
    feed.give(watermark=100)
    feed.give(99, 100)
    assert feed.late == [0]


def test_a_watermark_that_goes_back_changes_nothing() -> None:
    feed = Feed()
    feed.give(watermark=100)
    assert feed.give(watermark=-100) is None
    assert feed.sealer.frontier == 10


def test_a_watermark_far_ahead_of_the_rows_skips_the_gap() -> None:
    feed = Feed()
    feed.give(3)
    feed.give(watermark=10_000)
    feed.give(10_001, ended=True)
    assert feed.spans == [Span(TICK_MIN, 0), Span(0, 1000), Span(1000, TICK_END)]
    assert feed.sealed == [[], [(3, 0)], [(10_001, 1)]]


def test_lateness_does_not_weaken_an_explicit_watermark() -> None:
    feed = Feed(lateness=1000)
    feed.give(3, watermark=10)
    assert feed.spans == [Span(TICK_MIN, 1)]


def test_the_end_seals_everything_once() -> None:
    feed = Feed(lateness=50)
    feed.give(3, 1, ended=True)
    assert feed.spans == [Span(TICK_MIN, TICK_END)]
    assert feed.sealed == [[(1, 1), (3, 0)]]
    assert feed.give(ended=True) is None
    assert feed.sealer.open_rows == 0


def test_an_empty_stream_is_one_empty_batch() -> None:
    feed = Feed()
    batch = feed.give(ended=True)
    assert batch is not None
    assert batch.span == Span(TICK_MIN, TICK_END)
    assert batch.rows.schema == SCHEMA
    assert batch.rows.num_rows == 0


@pytest.mark.parametrize("ts", [2**62 - 1, -(2**62) + 1])
@pytest.mark.parametrize("tau", [1, 1000])
def test_times_at_the_limit_of_what_sources_take_are_sealed(ts: int, tau: int) -> None:
    feed = Feed(tau, lateness=1000)
    feed.give(ts)
    feed.give(ended=True)
    assert [row for batch in feed.sealed for row in batch] == [(ts, 0)]
    assert feed.late == []


# -- ahead of the clock -----------------------------------------------------------------------


def test_a_row_too_far_ahead_is_set_aside_and_makes_no_other_late() -> None:
    #  clock, with what is allowed: 100
    #  arrives   5   100   101   2**60   7
    #                       x      x      late only after 100
    sealer = Sealer(SCHEMA, 10, 95)
    rows = rows_of([5, 100, 101, 2**60, 7])
    aside = sealer.add(rows, rows.column("ts"), latest_ts=100)
    assert [(part.rows.column("n").to_pylist(), part.reason) for part in aside] == [([2, 3], AHEAD)]
    batch = sealer.seal(None, False)
    assert batch is None or batch.rows.num_rows == 0, "nothing but 100 moves time"
    batch = sealer.seal(None, True)
    assert batch is not None
    assert content(batch) == [(5, 0), (7, 4), (100, 1)]


def test_only_rows_that_are_too_far_ahead_leave_the_sealer_as_it_was() -> None:
    sealer = Sealer(SCHEMA, 10, 0)
    rows = rows_of([50, 60])
    assert [part.reason for part in sealer.add(rows, rows.column("ts"), latest_ts=49)] == [AHEAD]
    assert sealer.seal(None, False) is None
    assert sealer.open_rows == 0
