"""What a head row sees of a stream, against DESIGN section 2, in every unit and at the ends of time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.arrangements.reach import Reach, named_by, reach_of
from node.core.streams.ticks import TICK_END, TICK_MIN
from planner.model.query import Call, ColumnRef, Literal, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.examples import examples
from tests.unit.node.core.arrangements.kit import SCHEMA, TAU, array, odd, reach

#: The largest event time that a query takes, in its own unit.
LARGEST = 2**62 - 1
SCALES = st.sampled_from([1, 3, 1_000, 1_000_000])


def sees(of: Reach, ts: int, tuple_ts: int, ties: bool) -> bool:
    """The definition of a time window, without any bound."""
    assert of.length is not None
    at = tuple_ts * of.scale
    return (at < ts or (ties and at == ts)) and at >= ts - of.length


@given(SCALES, st.integers(0, 5_000), st.lists(st.integers(-9_000, 9_000), min_size=1, max_size=5), st.booleans())
@examples(300)
def test_times_bound_exactly_what_a_row_sees(scale: int, length: int, heads: list[int], ties: bool) -> None:
    of = reach(length, scale=scale)
    lows, highs = of.times(array(heads), ties)
    for ts, low, high in zip(heads, lows.tolist(), highs.tolist(), strict=True):
        near = range((ts - length) // scale - 2, ts // scale + 3)
        assert [at for at in near if low <= at < high] == [at for at in near if sees(of, ts, at, ties)]


ENDS = st.one_of(
    st.integers(-LARGEST, LARGEST), st.sampled_from([-LARGEST, 1 - LARGEST, -1, 0, 1, LARGEST - 1, LARGEST])
)
LENGTHS = st.one_of(st.integers(0, 2**63 - 1), st.sampled_from([0, 1, 2**62, 2**62 + 1, 2**63 - 2, 2**63 - 1]))


@given(SCALES, LENGTHS, ENDS, ENDS, st.booleans())
@examples(500)
def test_a_window_of_any_length_overflows_nowhere(scale: int, length: int, ts: int, tuple_ts: int, ties: bool) -> None:
    of = reach(length, scale=scale)
    lows, highs = of.times(array([ts]), ties)
    at = tuple_ts // scale
    for near in (at - 1, at, at + 1):
        assert (int(lows[0]) <= near < int(highs[0])) == sees(of, ts, near, ties)


@given(SCALES, st.integers(-9_000, 9_000), st.booleans())
@examples(200)
def test_no_visible_tuple_is_newer_than_newest(scale: int, ts: int, ties: bool) -> None:
    of = reach(10**9, scale=scale)
    newest = of.newest(ts)
    assert not sees(of, ts, newest + 1, ties)
    assert sees(of, ts, newest, ties=True)


@given(SCALES, st.integers(0, 5_000), st.integers(-900, 900), st.integers(0, 3_000), st.booleans())
@examples(300)
def test_nothing_before_before_is_seen_by_a_row_that_may_still_come(
    scale: int, length: int, passed: int, later: int, ties: bool
) -> None:
    of = reach(length, scale=scale)
    before = of.before(passed)
    assert not sees(of, passed * scale + later, before - 1, ties)
    assert before >= passed or sees(of, passed * scale, before, ties), "nothing is kept in vain"


def test_of_a_count_window_only_the_newest_end_is_a_time() -> None:
    of = reach(count=3)
    lows, highs = of.times(array([5, 9]), include_ties=False)
    assert lows.tolist() == [-(2**63)] * 2
    assert highs.tolist() == [5, 9]
    assert of.times(array([5, 9]), include_ties=True)[1].tolist() == [6, 10]
    assert of.axis == "rows"
    assert reach(30).axis == "time"


def test_before_the_first_row_and_after_the_last_nothing_is_taken_from_the_ends_of_time() -> None:
    for ts in (TICK_MIN, TICK_END):
        assert reach(30).before(ts) == ts
    assert reach(2**63).before(1_000) == TICK_MIN


def test_a_reach_is_in_the_units_of_its_stream_and_of_its_query() -> None:
    units = {"l": TimeUnit.NS, "r": TimeUnit.MS}
    streams = {name: StreamInfo(name, "ash", SCHEMA, "ts", unit) for name, unit in units.items()}
    text = (
        "SELECT a.n AS an, b.n AS bn FROM l [ROWS 7] AS a JOIN r [RANGE 5 MS] AS b ON a.key = b.key WHERE b.key % 2 = 1"
    )
    query = parse_query(text, streams)
    a, b = reach_of(query, "a", TAU), reach_of(query, "b", TAU)
    assert (a.stream, a.scale, a.tau, a.length, a.count, a.where) == ("l", 1, TAU * 1_000_000, None, 7, None)
    assert (b.stream, b.scale, b.tau, b.length, b.count) == ("r", 1_000_000, TAU, 5_000_000, None)
    assert b.where is not None
    assert b.filter == named_by(b.where, "r") != b.where


@pytest.mark.parametrize("name", ["b", "r"])
def test_a_filter_is_the_same_under_another_name(name: str) -> None:
    assert named_by(odd("x"), name) == odd(name)
    assert named_by(Literal(1, pa.int64()), name) == Literal(1, pa.int64())
    twice = Call("and", (odd("x"), odd("x")), pa.bool_())
    assert named_by(twice, name) == Call("and", (odd(name), odd(name)), pa.bool_())
    assert named_by(ColumnRef("x", "n"), name) == ColumnRef(name, "n")
