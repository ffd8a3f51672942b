"""What a lease can still ask for (delayed removal)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.arrangements.copies.copy import needed_number
from node.core.arrangements.lease import done_with
from node.core.arrangements.ordinals import Ordinals
from node.core.arrangements.progress import Progress
from node.core.streams.ticks import TICK_END, TICK_MIN, tick_start
from tests.examples import examples
from tests.unit.node.core.arrangements.kit import TAU, array, lease, reach


def needed(done: int, length: int = 25, frontier: int = 0, linger: int | None = None, tau: int = TAU) -> int:
    of = lease(of=reach(length), done=done, linger=linger)
    return of.needed_ts(Progress("w", tau, frontier))


def test_a_tuple_stays_while_an_open_head_can_see_it() -> None:
    #  tau 10, length 25: heads from tick 5 on have ts >= 50 and see ts >= 25
    #        24 gone |25 kept ... |50 first open head
    assert needed(5) == 25


def test_below_zero_it_is_the_same() -> None:
    assert needed(-5) == -75


def test_a_window_of_length_zero_keeps_the_heads_own_time() -> None:
    assert needed(5, length=0) == 50


def test_a_head_that_is_done_for_good_sees_nothing_more() -> None:
    assert needed(TICK_END) == TICK_END


def test_a_head_that_has_not_started_keeps_everything() -> None:
    assert needed(TICK_MIN) == TICK_MIN


def test_a_window_longer_than_all_of_time_lets_nothing_go_before_the_end() -> None:
    assert needed(1_000, length=2**63) == TICK_MIN
    assert needed(TICK_END, length=2**63) == TICK_END


@given(st.integers(0, 200), st.integers(-100, 100), st.integers(-5_000, 5_000))
@examples(300)
def test_exactly_what_no_open_head_can_see_is_not_needed(length: int, done: int, tuple_ts: int) -> None:
    oldest_head = tick_start(done, TAU)
    assert (tuple_ts >= needed(done, length)) == (tuple_ts >= oldest_head - length)


def test_a_lease_is_frozen_until_its_first_tick_is_known() -> None:
    frozen, begun = lease(first_tick=None), lease(first_tick=3)
    assert (frozen.frozen, frozen.first_ts) == (True, TICK_MIN)
    assert (begun.frozen, begun.first_ts) == (False, 30)


def test_frontiers_say_what_passed() -> None:
    progress = Progress("w", TAU, 0)
    for done, passed in ((7, 70), (-7, -70), (TICK_MIN, TICK_MIN), (TICK_END, TICK_END)):
        assert lease(done=done).passed_ts(progress) == passed


def test_by_the_clock_a_row_has_passed_so_long_after_its_tick() -> None:
    #  batch of tick n: oldest row n * tau, sealed at (n + 1) * tau; SM-D1 looks at V delta later, ships, and may take
    #  delta for that. The arrangement may be sealed up to (n + 1) * tau + 2 * delta by then.
    of = lease(done=-1_000, linger=14)
    assert of.passed_ts(Progress("w", TAU, 1_000)) == 1_000 * TAU - TAU - 14


def test_what_the_sink_is_done_with_has_passed_whatever_the_clock_says() -> None:
    progress = Progress("w", TAU, 20)
    assert lease(done=TICK_MIN, linger=100).passed_ts(progress) == 200 - TAU - 100
    assert lease(done=8, linger=100).passed_ts(progress) == 200 - TAU - 100
    assert lease(done=10, linger=100).passed_ts(progress) == 100


@pytest.mark.parametrize("frontier", [TICK_MIN, TICK_END])
def test_before_the_start_and_after_the_end_only_the_sink_says_what_passed(frontier: int) -> None:
    progress = Progress("w", TAU, frontier)
    assert lease(done=TICK_MIN, linger=2).passed_ts(progress) == TICK_MIN
    assert lease(done=5, linger=2).passed_ts(progress) == 50
    assert lease(done=TICK_END, linger=2).passed_ts(progress) == TICK_END


def test_a_stream_is_looked_at_by_all_heads_but_its_own() -> None:
    done = {"a": 7, "b": 3, "c": 5}
    assert done_with("a", done) == 3
    assert done_with("b", done) == 5
    assert done_with("c", done) == 3
    assert done_with("a", {"a": 7}) == TICK_MIN


def test_a_count_window_keeps_the_last_tuples_before_the_oldest_open_head() -> None:
    #  number   0  1  2   3  4   5        tau 10, 2 tuples
    #  time     1  5  9 |11 19 |25        heads from tick 2 on see tuples 3 and 4, and all after
    ordinals, progress = Ordinals(), Progress("w", TAU, 3)
    ordinals.append(array([1, 5, 9, 11, 19, 25]))
    for done, number in ((TICK_MIN, 0), (0, 0), (1, 1), (2, 3), (3, 4), (TICK_END, 6)):
        assert needed_number([lease(of=reach(count=2), done=done)], progress, ordinals) == number


def test_what_several_need_is_what_the_one_needs_that_needs_most() -> None:
    ordinals, progress = Ordinals(), Progress("w", TAU, 9)
    ordinals.append(array([5, 15, 25, 35, 45]))
    leases = [lease(of=reach(count=1), done=4), lease(of=reach(10), done=4), lease(of=reach(15), done=4)]
    assert [needed_number([one], progress, ordinals) for one in leases] == [3, 3, 2]
    assert needed_number(leases, progress, ordinals) == 2


def test_while_a_lease_is_frozen_or_none_is_known_nothing_may_be_forgotten() -> None:
    ordinals, progress = Ordinals(), Progress("w", TAU, 9)
    ordinals.append(array([5]))
    assert needed_number([], progress, ordinals) is None
    assert needed_number([lease(done=9), lease(first_tick=None)], progress, ordinals) is None
