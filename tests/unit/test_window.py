"""A window copy: how far it is sealed, who waits for it, what it has forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core.axis import CountAxis, Ordinals, TimeAxis
from node.core.errors import PeerProtocolError
from node.core.gate import FrontierGate
from node.core.ticks import TICK_END, TICK_MIN, tick_start
from node.core.window import WindowState


def window(frontier: int = 0, tau: int = 10, length: int = 25) -> WindowState:
    return WindowState("q/w", "w", tau, TimeAxis(length, Ordinals()), frontier)


def expire_before(state: WindowState, done: int) -> int | None:
    """Every row before tick ``done`` is done: the position before which tuples go, None when that is no news."""
    ts = FrontierGate().passed(state, done)
    if ts is None or not state.forget_before(state.axis.before(ts)):
        return None
    return state.kept_from


# -- delayed probe ----------------------------------------------------------------------------


def test_a_window_is_sealed_up_to_the_first_time_of_its_frontier() -> None:
    #  tau 10     sealed through tick 2 |3
    #  head               ok 15   ok 29 |30 not yet   31 not yet
    assert window(frontier=3).sealed_ts == 30
    assert window(frontier=-2).sealed_ts == -20


def test_a_window_that_has_not_started_has_nothing_and_one_that_has_ended_everything() -> None:
    assert window(frontier=TICK_MIN).sealed_ts <= -(2**62)
    assert window(frontier=TICK_END).sealed_ts > 2**62 - 1


def test_ticks_must_follow_one_another() -> None:
    state = window(frontier=TICK_MIN)
    state.sealed(TICK_MIN, 4)
    state.sealed(4, 5)
    for first, end in ((4, 5), (6, 7), (TICK_MIN, 5), (3, 6), (5, 4)):
        with pytest.raises(PeerProtocolError, match=f"window q/w requires ticks from 5 on; got {first} to {end}"):
            state.sealed(first, end)
    assert state.frontier == 5
    state.sealed(5, 5)  # a sync that tells only what was forgotten
    state.sealed(5, TICK_END)
    assert state.frontier == TICK_END


def test_parked_walks_leave_when_the_frontier_passes_them_oldest_first() -> None:
    #  tick      0      |1      |2
    #  parked    9      |10  19 |20
    state = window(frontier=0)
    left: list[str] = []
    for newest_ts, name in ((20, "d"), (19, "c"), (9, "a"), (10, "b")):
        state.park(newest_ts, lambda name=name: left.append(name))  # type: ignore[misc]
    state.release()
    assert left == []
    state.sealed(0, 1)
    state.release()
    assert left == ["a"]
    state.release()
    assert left == ["a"]
    state.sealed(1, 2)
    state.release()
    assert left == ["a", "b", "c"]
    assert state.waiting == 1
    state.sealed(2, TICK_END)
    state.release()
    assert left == ["a", "b", "c", "d"]
    assert state.waiting == 0


def test_walks_parked_at_the_same_time_leave_in_the_order_they_came() -> None:
    state = window(frontier=0)
    left: list[int] = []
    for number in range(5):
        state.park(5, lambda number=number: left.append(number))  # type: ignore[misc]
    state.sealed(0, 1)
    state.release()
    assert left == [0, 1, 2, 3, 4]


def test_a_walk_that_parks_another_while_it_leaves_disturbs_nobody() -> None:
    state = window(frontier=0)
    left: list[str] = []

    def first() -> None:
        left.append("first")
        state.park(3, lambda: left.append("third"))
        state.park(15, lambda: left.append("later"))

    state.park(1, first)
    state.park(2, lambda: left.append("second"))
    state.sealed(0, 1)
    state.release()
    assert left == ["first", "second", "third"]
    assert state.waiting == 1


# -- delayed removal --------------------------------------------------------------------------


def test_a_tuple_stays_while_an_open_head_can_see_it() -> None:
    #  tau 10, length 25: heads from tick 5 on have ts >= 50 and see ts >= 25
    #        24 gone |25 kept ... |50 first open head
    assert expire_before(window(), 5) == 25


def test_expiry_below_zero_is_the_same() -> None:
    assert expire_before(window(), -5) == -75


def test_a_window_of_length_zero_keeps_the_heads_own_time() -> None:
    assert expire_before(window(length=0), 5) == 50


def test_a_head_that_is_done_for_good_sees_nothing_more() -> None:
    assert expire_before(window(), TICK_END) == TICK_END


def test_a_head_that_has_not_started_keeps_everything() -> None:
    assert expire_before(window(), TICK_MIN) is None


def test_old_news_expires_nothing() -> None:
    state = window()
    assert expire_before(state, 5) == 25
    assert expire_before(state, 5) is None
    assert expire_before(state, 4) is None
    assert expire_before(state, 6) == 35
    assert state.kept_from == 35


def test_a_window_longer_than_all_of_time_expires_nothing_before_the_end() -> None:
    state = window(length=2**63)
    assert expire_before(state, 1000) is None
    assert expire_before(state, TICK_END) == TICK_END


@given(
    st.integers(1, 50),
    st.integers(0, 200),
    st.lists(st.integers(-100, 100), min_size=1, max_size=20),
    st.integers(-5000, 5000),
)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_nothing_that_an_open_head_can_see_is_ever_expired(
    tau: int, length: int, done: list[int], tuple_ts: int
) -> None:
    state = window(tau=tau, length=length)
    for tick in done:
        before = expire_before(state, tick)
        assert before is None or before == state.kept_from
    oldest_head = tick_start(max(done), tau)
    assert (tuple_ts >= state.kept_from) == (tuple_ts >= oldest_head - length)


def test_a_count_window_keeps_the_last_tuples_before_the_oldest_open_head() -> None:
    #  number   0  1  2   3  4   5        tau 10, 2 tuples
    #  time     1  5  9 |11 19 |25        heads from tick 2 on see tuples 3 and 4, and all after
    state = WindowState("q/w", "w", 10, CountAxis(2, Ordinals()), 0)
    state.axis.ordinals.append(np.array([1, 5, 9, 11, 19, 25], np.int64))
    assert expire_before(state, 2) == 3
    assert expire_before(state, 2) is None
    assert expire_before(state, TICK_END) == 6
