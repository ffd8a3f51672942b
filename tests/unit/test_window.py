"""A window copy: who may probe it, who waits, what it may forget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core.errors import PeerProtocolError
from node.core.ticks import TICK_END, TICK_MIN, Span, tick_start
from node.core.window import WindowState


def window(frontier: int = 0, tau: int = 10, length: int = 25) -> WindowState[str]:
    return WindowState("q/w", "w", tau, length, frontier)


# -- delayed probe ----------------------------------------------------------------------------


def test_a_window_covers_what_is_before_its_frontier() -> None:
    #  tau 10     sealed through tick 2 |3
    #                                   |30
    #  head               ok 15   ok 29 |30 not yet   31 not yet
    state = window(frontier=3)
    assert state.covers(15)
    assert state.covers(29)
    assert not state.covers(30)
    assert not state.covers(31)


def test_a_window_covers_negative_times_the_same_way() -> None:
    #  sealed through tick -3 |-2
    #                         |-20
    state = window(frontier=-2)
    assert state.covers(-21)
    assert not state.covers(-20)


def test_a_window_that_has_not_started_covers_nothing() -> None:
    assert not window(frontier=TICK_MIN).covers(-(2**62) + 1)


def test_a_window_that_has_ended_covers_everything() -> None:
    assert window(frontier=TICK_END).covers(2**62 - 1)


def test_batches_must_follow_one_another() -> None:
    state = window(frontier=TICK_MIN)
    state.sealed(Span(TICK_MIN, 4))
    state.sealed(Span(4, 5))
    for wrong in (Span(4, 5), Span(6, 7), Span(TICK_MIN, 5), Span(3, 6)):
        with pytest.raises(PeerProtocolError, match=r"window q/w requires the batch from 5; got \["):
            state.sealed(wrong)
    assert state.frontier == 5
    state.sealed(Span(5, TICK_END))
    assert state.frontier == TICK_END


def test_parked_walks_leave_when_the_frontier_passes_them_oldest_first() -> None:
    #  tick      0      |1      |2
    #  parked    9      |10  19 |20
    state = window(frontier=0)
    for newest_ts, name in ((20, "d"), (19, "c"), (9, "a"), (10, "b")):
        state.park(newest_ts, name)
    assert state.release() == []
    state.sealed(Span(0, 1))
    assert state.release() == ["a"]
    assert state.release() == []
    state.sealed(Span(1, 2))
    assert state.release() == ["b", "c"]
    assert state.waiting == 1
    state.sealed(Span(2, TICK_END))
    assert state.release() == ["d"]
    assert state.waiting == 0


def test_walks_parked_at_the_same_time_leave_in_the_order_they_came() -> None:
    state: WindowState[object] = WindowState("q/w", "w", 10, 25, 0)
    walks = [object() for _ in range(5)]  # not comparable: the heap must not try
    for walk in walks:
        state.park(5, walk)
    state.sealed(Span(0, 1))
    assert state.release() == walks


# -- delayed removal --------------------------------------------------------------------------


def test_a_tuple_stays_while_an_open_head_can_see_it() -> None:
    #  tau 10, length 25: heads from tick 5 on have ts >= 50 and see ts >= 25
    #        24 gone |25 kept ... |50 first open head
    assert window().expire_before(5) == 25


def test_expiry_below_zero_is_the_same() -> None:
    assert window().expire_before(-5) == -75


def test_a_window_of_length_zero_keeps_the_heads_own_time() -> None:
    assert window(length=0).expire_before(5) == 50


def test_a_head_that_is_done_for_good_sees_nothing_more() -> None:
    assert window().expire_before(TICK_END) == TICK_END


def test_a_head_that_has_not_started_keeps_everything() -> None:
    assert window().expire_before(TICK_MIN) is None


def test_old_news_expires_nothing() -> None:
    state = window()
    assert state.expire_before(5) == 25
    assert state.expire_before(5) is None
    assert state.expire_before(4) is None
    assert state.expire_before(6) == 35
    assert state.kept_from_ts == 35


def test_a_window_longer_than_all_of_time_expires_nothing_before_the_end() -> None:
    state = window(length=2**63)
    assert state.expire_before(1000) is None
    assert state.expire_before(TICK_END) == TICK_END


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
        before = state.expire_before(tick)
        assert before is None or before == state.kept_from_ts
    oldest_head = tick_start(max(done), tau)
    assert (tuple_ts >= state.kept_from_ts) == (tuple_ts >= oldest_head - length)
