"""A stream as a query sees it: its columns, its unit, from its first tick on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from node.core.engine import TS
from node.core.sealer import Batch
from node.core.ticks import TICK_END, TICK_MIN, Span
from node.core.view import TimeOverflowError, View, view_schema
from planner.model import JoinQuery, StreamInfo, TimeUnit
from planner.sql import parse_query

SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("unused", pa.string()), ("n", pa.int64())])


def query(left: TimeUnit = TimeUnit.MS, right: TimeUnit = TimeUnit.MS) -> JoinQuery:
    streams = {name: StreamInfo(name, "ash", SCHEMA, "ts", unit) for name, unit in (("l", left), ("r", right))}
    text = "SELECT a.n AS an, b.n AS bn FROM l [RANGE 5 MS] AS a JOIN r [RANGE 5 MS] AS b ON a.key = b.key"
    return parse_query(text, streams)


def batch(*ts: int) -> Batch:
    numbers = list(range(len(ts)))
    columns = [pa.array(ts, pa.int64()), pa.array(numbers, pa.int64()), pa.array([""] * len(ts)), pa.array(numbers)]
    rows = pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    return Batch(Span(TICK_MIN, TICK_END), rows, np.array(ts, np.int64))


def times(rows: pa.RecordBatch) -> list[int]:
    return rows.column(TS).to_pylist()  # type: ignore[no-any-return]


def test_a_view_has_the_event_time_and_only_what_the_query_needs() -> None:
    assert view_schema(query(), "a").names == [TS, "a.key", "a.n"]
    assert View(query(), "b", 10, TICK_MIN).rows(batch(1)).schema == view_schema(query(), "b")


def test_a_view_starts_with_the_querys_first_tick() -> None:
    #  tau 10, first tick 2
    #  rows    9  19 |20  21
    rows = View(query(), "a", 10, 2).rows(batch(9, 19, 20, 21))
    assert times(rows) == [20, 21]
    assert rows.column("a.n").to_pylist() == [2, 3]


def test_a_view_from_the_start_has_every_row() -> None:
    assert times(View(query(), "a", 10, TICK_MIN).rows(batch(-(2**61), 0, 2**61))) == [-(2**61), 0, 2**61]


def test_a_view_from_the_end_has_none() -> None:
    rows = View(query(), "a", 10, TICK_END).rows(batch(1, 2**61))
    assert rows.num_rows == 0
    assert rows.schema == view_schema(query(), "a")


def test_the_first_tick_counts_in_the_streams_own_unit() -> None:
    #  tau 10 ms, first tick 2 = 20 ms = 20,000 us
    view = View(query(TimeUnit.US), "a", 10, 2)
    assert times(view.rows(batch(19_999, 20_000))) == [20_000]


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
    assert times(View(query(left, right), "a", 10, TICK_MIN).rows(batch(-3, 0, 7))) == [-3 * scale, 0, 7 * scale]


def test_times_that_do_not_fit_the_finer_unit_are_refused_by_name() -> None:
    largest = 2**62 // 1_000_000
    view = View(query(TimeUnit.MS, TimeUnit.NS), "a", 10, TICK_MIN)
    assert times(view.rows(batch(1 - largest, largest - 1))) == [(1 - largest) * 1_000_000, (largest - 1) * 1_000_000]
    for ts in (largest, -largest):
        with pytest.raises(TimeOverflowError, match=rf"stream l requires event times within {largest} of zero.*{ts}"):
            view.rows(batch(ts))


def test_times_before_the_start_may_be_of_any_size() -> None:
    view = View(query(TimeUnit.MS, TimeUnit.NS), "a", 10, 0)
    assert times(view.rows(batch(-(2**61), 5))) == [5_000_000]
