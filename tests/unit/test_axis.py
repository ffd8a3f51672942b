"""The axes of windows against DESIGN section 2, tuple by tuple."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core.axis import RANK, Axis, CountAxis, Ordinals, TimeAxis, axis_of
from node.core.engine import TS
from node.core.ticks import TICK_END, TICK_MIN
from planner.model import RangeWindow, RowsWindow, TimeUnit

TIMES = st.lists(st.integers(-20, 20), max_size=25).map(sorted)
SCHEMA = pa.schema([(TS, pa.int64()), ("c.n", pa.int64())])


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def rows(ts: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(ts, pa.int64()), pa.array(range(len(ts)), pa.int64())], schema=SCHEMA)


def before(ts: int, head_ts: int, ties: bool) -> bool:
    """Whether a tuple is before a head row; at equal times the stream that stands first in the query is."""
    return ts < head_ts or (ts == head_ts and ties)


def visible(axis: Axis, times: list[int], head_ts: int, ties: bool) -> list[int]:
    """The numbers of the tuples in the window as seen from a head row: the definition, without positions."""
    earlier = [number for number, ts in enumerate(times) if before(ts, head_ts, ties)]
    if isinstance(axis, CountAxis):
        return earlier[max(0, len(earlier) - axis.length) :]
    return [number for number in earlier if times[number] >= head_ts - axis.length]


def make(kind: str, length: int) -> Axis:
    return CountAxis(length, Ordinals()) if kind == "rows" else TimeAxis(length, Ordinals())


def add(axis: Axis, times: list[int], cuts: list[int]) -> list[int]:
    """Give the axis its tuples in batches; the position of each."""
    positions: list[int] = []
    places = [0, *sorted(min(cut, len(times)) for cut in cuts), len(times)]
    for start, end in itertools.pairwise(places):
        batch = times[start:end]
        assert axis.ordinals.append(array(batch)) == start
        positions += axis.positions(rows(batch), start).column(TS).to_pylist()
    assert axis.ordinals.end == len(times)
    return positions


def seen_by_probe(axis: Axis, positions: list[int], head: list[int], ties: bool) -> list[list[int]]:
    """What an engine finds for each head row: it knows positions, a length, and whether ties are in."""
    placed, column, at_position = axis.placed(rows(head), ties)
    assert placed.num_rows == len(head)
    return [
        [n for n, at in enumerate(positions) if place - axis.length <= at and before(at, place, at_position)]
        for place in placed.column(column).to_pylist()
    ]


KIND = st.sampled_from(["rows", "range"])
HEAD = st.lists(st.integers(-25, 25), min_size=1, max_size=8)
LENGTH = st.integers(1, 12)
CUTS = st.lists(st.integers(0, 25), max_size=4)


@given(KIND, LENGTH, TIMES, CUTS, HEAD, st.booleans())
@settings(derandomize=True, deadline=None, max_examples=500)
def test_positions_say_what_the_definition_says(
    kind: str, length: int, times: list[int], cuts: list[int], head: list[int], ties: bool
) -> None:
    axis = make(kind, length)
    positions = add(axis, times, cuts)
    assert seen_by_probe(axis, positions, head, ties) == [visible(axis, times, ts, ties) for ts in head]


@given(KIND, LENGTH, TIMES, HEAD, st.booleans())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_what_rows_can_see_lies_between_the_bounds_and_no_bound_is_wider_than_needed(
    kind: str, length: int, times: list[int], head: list[int], ties: bool
) -> None:
    axis = make(kind, length)
    positions = add(axis, times, [])
    low, high = axis.visible(min(head), max(head), ties)
    found = {number for number, at in enumerate(positions) if low <= at < high}
    assert set().union(*(visible(axis, times, ts, ties) for ts in head)) <= found
    if len(set(head)) == 1:
        assert sorted(found) == visible(axis, times, head[0], ties)


@given(KIND, LENGTH, TIMES, CUTS, HEAD, st.booleans(), st.lists(st.integers(-25, 30), min_size=1, max_size=3))
@settings(derandomize=True, deadline=None, max_examples=600)
def test_forgetting_changes_no_answer_for_a_row_that_may_still_come(
    kind: str, length: int, times: list[int], cuts: list[int], head: list[int], ties: bool, done: list[int]
) -> None:
    #  tuples    x x   x x x|   x  x
    #  forgotten <----------|ts        rows from ts on may come; the window keeps what they can see
    axis = make(kind, length)
    positions = add(axis, times, cuts)
    for ts in sorted(done):
        kept_from = axis.before(ts)
        numbers_before = [axis.first_live(kept_from)]
        axis.forget(kept_from, ts)
        assert axis.first_live(kept_from) == numbers_before[0], "the same tuples are live after forgetting"
        live = {number for number in range(len(times)) if number >= axis.first_live(kept_from)}
        for coming in (max(ts, row) for row in head):
            wanted = visible(axis, times, coming, ties)
            assert set(wanted) <= live
            assert seen_by_probe(axis, positions, [coming], ties) == [wanted]
            low, high = axis.visible(coming, coming, ties)
            assert [number for number, at in enumerate(positions) if low <= at < high] == wanted
        # Nothing is kept in vain: the oldest tuple that is kept is one that some row at ``ts`` can see.
        oldest = min(live, default=None)
        if oldest is not None and times[oldest] < ts:
            assert oldest in visible(axis, times, ts, ties=False)


@given(KIND, LENGTH, TIMES, TIMES, st.integers(-25, 25), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_a_copy_that_is_behind_the_done_frontier_forgets_too_little_never_too_much(
    kind: str, length: int, times: list[int], more: list[int], ts: int, ties: bool
) -> None:
    # Walks without rows are done at once, so rows may be done up to a time that the copy has not reached.
    axis = make(kind, length)
    positions = add(axis, times, [])
    axis.forget(axis.before(ts), ts)
    later = [time for time in more if not times or time >= times[-1]]
    axis.ordinals.append(array(later))
    positions += axis.positions(rows(later), len(times)).column(TS).to_pylist()
    for coming in (ts, ts + 1, ts + 30):
        assert seen_by_probe(axis, positions, [coming], ties) == [visible(axis, times + later, coming, ties)]


def test_rank_counts_ties_only_for_a_head_that_stands_later() -> None:
    #  number   0  1  2  3  4
    #  time     1  5  5  5  9
    ordinals = Ordinals()
    ordinals.append(array([1, 5, 5, 5, 9]))
    head = array([0, 1, 5, 6, 9, 10])
    assert ordinals.rank(head, include_ties=False).tolist() == [0, 0, 1, 4, 4, 5]
    assert ordinals.rank(head, include_ties=True).tolist() == [0, 1, 4, 4, 5, 5]
    ordinals.forget_before(3)
    assert (ordinals.first, ordinals.end) == (3, 5)
    assert ordinals.rank(array([6, 9, 10]), include_ties=False).tolist() == [4, 4, 5]
    ordinals.forget_before(1)
    assert ordinals.first == 3, "what is forgotten does not come back"
    ordinals.forget_before(99)
    assert (ordinals.first, ordinals.end) == (5, 5)
    assert ordinals.append(array([9, 9])) == 5
    assert ordinals.rank_one(9, include_ties=True) == 7
    assert ordinals.nbytes > 0


def test_a_stream_that_no_row_will_look_at_is_forgotten_whole() -> None:
    for axis in (make("rows", 3), make("range", 3)):
        axis.ordinals.append(array([1, 2, 3]))
        kept_from = axis.before(TICK_END)
        assert axis.first_live(kept_from) == 3
        axis.forget(kept_from, TICK_END)
        assert axis.first_live(kept_from) == 3


def test_before_the_first_row_nothing_is_forgotten() -> None:
    for axis in (make("rows", 3), make("range", 3)):
        axis.ordinals.append(array([1, 2, 3]))
        axis.forget(axis.before(TICK_MIN), TICK_MIN)
        assert (axis.ordinals.first, axis.ordinals.end) == (0, 3)


def test_rows_carry_their_rank_beside_their_time() -> None:
    axis = make("rows", 2)
    axis.ordinals.append(array([1, 2, 3]))
    placed, column, ties = axis.placed(rows([3, 9]), include_ties=True)
    assert (column, ties) == (RANK, False)  # ties are in the rank already
    assert placed.schema.names == [TS, "c.n", RANK]
    assert placed.column(TS).to_pylist() == [3, 9]
    assert placed.column(RANK).to_pylist() == [3, 3]


def test_the_window_of_a_query_decides_the_axis() -> None:
    count, time = axis_of(RowsWindow(7), TimeUnit.NS), axis_of(RangeWindow(7), TimeUnit.NS)
    assert isinstance(count, CountAxis)
    assert isinstance(time, TimeAxis)
    assert (count.length, time.length) == (7, 7_000)
