"""Numbers of tuples by their times, and of those that pass a filter, against a list that forgets nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from node.core.arrangements.ordinals import Ordinals, Passing
from node.core.streams.ticks import TICK_MIN
from tests.examples import examples
from tests.unit.node.core.arrangements.kit import array

#: Tuples arrive, each some time after the one before, or those before a number are forgotten.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.lists(st.integers(0, 3), max_size=6)),
        st.tuples(st.just("forget"), st.integers(0, 40)),
    ),
    max_size=15,
)


@given(STEPS, st.integers(0, 5))
@examples(300)
def test_ranks_and_times_are_those_of_the_whole_stream_from_what_is_known_on(
    steps: list[tuple[str, list[int] | int]], first: int
) -> None:
    ordinals, times = Ordinals(first), list[int]()
    known = first
    for kind, what in steps:
        if isinstance(what, list):
            for gap in what:
                times.append((times[-1] if times else -5) + gap)
            assert ordinals.append(array(times[len(times) - len(what) :])) == first + len(times) - len(what)
        else:
            ordinals.forget_before(what)
            known = max(known, min(what, first + len(times)))
        assert (kind, ordinals.first, ordinals.end) == (kind, known, first + len(times))
        asked = [ts for ts in range(-7, 60) if ts >= ordinals.known_from]
        expected = [first + sum(time < ts for time in times) for ts in asked]
        assert ordinals.rank(array(asked)).tolist() == expected
        assert [ordinals.rank_one(ts) for ts in asked] == expected
        numbers = range(known, ordinals.end)
        assert ordinals.times(array(list(numbers))).tolist() == times[known - first :]
        assert [ordinals.time_of(number) for number in numbers] == times[known - first :]
        assert ordinals.time_of(known - 1) is None
        assert ordinals.time_of(ordinals.end) is None


def test_rank_counts_what_is_before_a_time() -> None:
    #  number   0  1  2  3  4
    #  time     1  5  5  5  9
    ordinals = Ordinals()
    ordinals.append(array([1, 5, 5, 5, 9]))
    assert ordinals.rank(array([0, 1, 2, 5, 6, 9, 10])).tolist() == [0, 0, 1, 1, 4, 4, 5]
    ordinals.forget_before(3)
    assert (ordinals.first, ordinals.end, ordinals.known_from) == (3, 5, 6)
    assert ordinals.rank(array([6, 9, 10])).tolist() == [4, 4, 5]
    ordinals.forget_before(1)
    assert ordinals.first == 3, "what is forgotten does not come back"
    ordinals.forget_before(99)
    assert (ordinals.first, ordinals.end) == (5, 5)
    assert ordinals.append(array([9, 9])) == 5
    assert ordinals.nbytes > 0


def test_the_first_number_can_be_learned_until_there_is_a_tuple() -> None:
    ordinals = Ordinals()
    ordinals.begin_at(7)
    assert ordinals.append(array([1])) == 7
    ordinals.begin_at(99)
    assert ordinals.first == 7


def test_forgetting_nothing_changes_nothing() -> None:
    ordinals = Ordinals(0, known_from=TICK_MIN)
    ordinals.append(array([1, 2]))
    ordinals.forget_before(0)
    assert (ordinals.first, ordinals.known_from) == (0, TICK_MIN)


@given(STEPS, st.integers(1, 5), st.integers(0, 2**90 - 1))
@examples(300)
def test_a_count_behind_a_filter_counts_what_passes(
    steps: list[tuple[str, list[int] | int]], count: int, passes: int
) -> None:
    passing, numbers = Passing(known_from=3), list[int]()
    end = gone = 0
    for _, what in steps:
        if isinstance(what, list):
            fresh = [number for number in range(end, end + len(what)) if passes >> number & 1]
            end += len(what)
            numbers += fresh
            passing.append(array(fresh))
        else:
            gone = max(gone, min(what, end))
            passing.forget_before(gone)
        known = [number for number in numbers if number >= gone]
        asked = list(range(gone, end + 1))
        expected = []
        for before in asked:
            earlier = [number for number in known if number < before]
            expected.append(earlier[-count:][0] if earlier else before)
        assert passing.back(array(asked), count).tolist() == expected
    assert passing.known_from == 3
    assert passing.nbytes > 0
