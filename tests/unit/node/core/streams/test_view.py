"""A stream as a query sees it: its columns, its unit, from its first tick on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.arrangements.reach import reach_of
from node.core.engine import TS
from node.core.streams.ticks import TICK_END, TICK_MIN, Span, tick_start
from node.core.streams.view import SealedRows, TimeOverflowError, View, joined, view_schema
from planner.model.query import Expr, JoinQuery, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.examples import examples
from tests.expressions import rows_that_hold
from tests.unit.node.core.arrangements.kit import array, below, odd, rows_of, sealed

SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("unused", pa.string()), ("n", pa.int64())])


def query(left: TimeUnit = TimeUnit.MS, right: TimeUnit = TimeUnit.MS) -> JoinQuery:
    streams = {name: StreamInfo(name, "ash", SCHEMA, "ts", unit) for name, unit in (("l", left), ("r", right))}
    text = "SELECT a.n AS an, b.n AS bn FROM l [RANGE 5 MS] AS a JOIN r [RANGE 5 MS] AS b ON a.key = b.key"
    return parse_query(text, streams)


def view(of: JoinQuery, alias: str, first_tick: int) -> View:
    reach = reach_of(of, alias, 10)
    return View(of, reach, tick_start(first_tick, reach.tau))


def batch(*ts: int) -> SealedRows:
    numbers = list(range(len(ts)))
    columns = [pa.array(ts, pa.int64()), pa.array(numbers, pa.int64()), pa.array([""] * len(ts)), pa.array(numbers)]
    rows = pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    return SealedRows("l", Span(TICK_MIN, TICK_END), rows, np.array(ts, np.int64), 0, 0)


def times(rows: pa.RecordBatch) -> list[int]:
    return rows.column(TS).to_pylist()  # type: ignore[no-any-return]


def test_a_view_has_the_event_time_and_only_what_the_query_needs() -> None:
    assert view_schema(query(), "a").names == [TS, "a.key", "a.n"]
    assert view(query(), "b", TICK_MIN).rows(batch(1)).schema == view_schema(query(), "b")


def test_a_view_starts_with_the_querys_first_tick() -> None:
    #  tau 10, first tick 2
    #  rows    9  19 |20  21
    rows = view(query(), "a", 2).rows(batch(9, 19, 20, 21))
    assert times(rows) == [20, 21]
    assert rows.column("a.n").to_pylist() == [2, 3]


def test_a_view_from_the_start_has_every_row() -> None:
    assert times(view(query(), "a", TICK_MIN).rows(batch(-(2**61), 0, 2**61))) == [-(2**61), 0, 2**61]


def test_a_view_from_the_end_has_none() -> None:
    rows = view(query(), "a", TICK_END).rows(batch(1, 2**61))
    assert rows.num_rows == 0
    assert rows.schema == view_schema(query(), "a")


def test_the_first_tick_counts_in_the_streams_own_unit() -> None:
    #  tau 10 ms, first tick 2 = 20 ms = 20,000 us
    of = view(query(TimeUnit.US), "a", 2)
    assert times(of.rows(batch(19_999, 20_000))) == [20_000]


@pytest.mark.parametrize(
    ("left", "right", "scale"),
    [
        (TimeUnit.MS, TimeUnit.MS, 1),
        (TimeUnit.MS, TimeUnit.US, 1_000),
        (TimeUnit.MS, TimeUnit.NS, 1_000_000),
        (TimeUnit.US, TimeUnit.NS, 1_000),
        (TimeUnit.NS, TimeUnit.MS, 1),
    ],
)
def test_times_are_in_the_finest_unit_of_the_query(left: TimeUnit, right: TimeUnit, scale: int) -> None:
    assert times(view(query(left, right), "a", TICK_MIN).rows(batch(-3, 0, 7))) == [-3 * scale, 0, 7 * scale]


def test_times_that_do_not_fit_the_finer_unit_are_refused_by_name() -> None:
    largest = 2**62 // 1_000_000
    of = view(query(TimeUnit.MS, TimeUnit.NS), "a", TICK_MIN)
    assert times(of.rows(batch(1 - largest, largest - 1))) == [(1 - largest) * 1_000_000, (largest - 1) * 1_000_000]
    for ts in (largest, -largest):
        with pytest.raises(TimeOverflowError, match=rf"stream l requires event times within {largest} of zero.*{ts}"):
            of.rows(batch(ts))


def test_times_before_the_start_may_be_of_any_size() -> None:
    of = view(query(TimeUnit.MS, TimeUnit.NS), "a", 0)
    assert times(of.rows(batch(-(2**61), 5))) == [5_000_000]


# -- many look at one batch -------------------------------------------------------------------


def test_what_of_a_batch_is_after_a_tick_has_its_numbers_and_times() -> None:
    whole = SealedRows("r", Span(0, 4), rows_of([(5, 1), (15, 2), (25, 3), (35, 4)], 40), array([5, 15, 25, 35]), 40, 9)
    assert whole.after(0, 10) is whole
    part = whole.after(2, 10)
    assert (part.span, part.first, part.ts.tolist(), part.sealed_at_us) == (Span(2, 4), 42, [25, 35], 9)
    assert part.rows.column("n").to_pylist() == [42, 43]
    assert len(whole.after(3, 10).after(3, 10)) == 1


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(-1, 9), st.sampled_from([None, odd("r"), below(3, "r")]))
@examples(200)
def test_a_selection_has_the_rows_from_a_time_on_that_pass_in_order(
    keys: list[int], from_ts: int, condition: Expr | None
) -> None:
    tuples = list(enumerate(keys))
    rows = sealed(0, 1, tuples)
    passing = [True] * len(keys) if condition is None else rows_that_hold(condition, _named(rows.rows))
    expected = [n for n in range(len(keys)) if n >= from_ts and passing[n]]
    for _ in range(2):  # the second time it is remembered
        assert rows.passing(condition, from_ts).tolist() == expected
        found, ts = rows.select(condition, from_ts, ("n",))
        assert (found.column("n").to_pylist(), ts.tolist()) == (expected, expected)


def test_rows_that_are_known_to_have_passed_a_filter_are_not_asked_again() -> None:
    rows = sealed(0, 1, [(1, 2), (2, 4)], passed=odd("r"))
    assert rows.passing(odd("r"), 0).tolist() == [0, 1]
    assert rows.passing(below(3, "r"), 0).tolist() == [0]


def _named(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.rename_columns([f"r.{name}" for name in rows.schema.names])


def test_what_of_a_batch_is_before_a_tick_and_what_is_after_it_are_all_of_it() -> None:
    #  ticks of 10     |0: 1 5    |1: none    |2: 20 25 29    |3: 30
    whole = sealed(0, 5, [(ts, ts) for ts in (1, 5, 20, 25, 29, 30)], first=7)
    for tick in (1, 2, 3, 4):
        before, after = whole.before(tick, 10), whole.after(tick, 10)
        assert (before.span, after.span) == (Span(0, tick), Span(tick, 5))
        assert [*before.ts, *after.ts] == [1, 5, 20, 25, 29, 30]
        assert pa.concat_batches([before.rows, after.rows]) == whole.rows
        assert (before.first, after.first) == (7, 7 + len(before))
        assert before.nbytes + after.nbytes == whole.nbytes
    assert whole.before(5, 10) is whole


def test_a_piece_ends_with_a_tick_and_has_one_with_tuples_at_least() -> None:
    whole = sealed(0, 5, [(ts, ts) for ts in (1, 5, 20, 25, 29, 30)])
    a_tuple = whole.nbytes / 6
    ends = [whole.end_within(count * a_tuple, 10) for count in (0, 1, 2, 3, 5, 5.5, 6)]
    assert ends == [1, 1, 2, 2, 3, 3, 5]
    assert sealed(0, 5, []).end_within(0, 10) == 5


def test_batches_that_follow_one_another_are_one_and_others_stay_as_they_are() -> None:
    def part(first: int, end: int, *values: int, number: int = 0) -> SealedRows:
        rows = pa.record_batch({"k": pa.array(values, pa.int64())})
        return SealedRows("s", Span(first, end), rows, np.array(values), number, 7)

    one, two, three = part(0, 2, 1, 5, number=10), part(2, 3, number=12), part(3, 9, 40, number=12)
    (whole,) = joined([one, two, three])
    assert (whole.span, whole.first, whole.sealed_at_us) == (Span(0, 9), 10, 7)
    assert whole.rows.column("k").to_pylist() == whole.ts.tolist() == [1, 5, 40]
    assert joined([one, three]) == [one, three]
    assert joined([one]) == [one]
    assert joined([]) == []
