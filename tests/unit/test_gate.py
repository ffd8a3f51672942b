"""When a walk may use a window: by frontiers, or by the clock."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core.axis import CountAxis, Ordinals, TimeAxis
from node.core.gate import DeltaGate, FrontierGate, Gate
from node.core.ticks import TICK_END, TICK_MIN
from node.core.window import WindowState
from planner.model import TimeUnit

TAU = 10


def window(frontier: int = 0, length: int = 30) -> WindowState:
    return WindowState("q/w", "w", TAU, TimeAxis(length, Ordinals()), frontier)


class Clock:
    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        return self.now_us


class Door:
    """A gate with a log of who went through."""

    def __init__(self, gate: Gate, state: WindowState) -> None:
        self.gate, self.state = gate, state
        self.entered: list[str] = []

    def enter(self, name: str, low_ts: int, high_ts: int, sealed_at_us: int = 0, ties: bool = False) -> None:
        self.gate.enter(self.state, low_ts, high_ts, ties, sealed_at_us, lambda: self.entered.append(name))

    def seal(self, end: int) -> None:
        self.state.sealed(self.state.frontier, end)
        self.state.release()


# -- frontier ---------------------------------------------------------------------------------


def test_a_walk_enters_at_once_when_the_window_is_sealed_beyond_its_newest_row() -> None:
    #  sealed through tick 2 |30
    #  walks       a 5 .. 29 |   b 5 .. 30
    door = Door(FrontierGate(), window(frontier=3))
    door.enter("a", 5, 29)
    door.enter("b", 5, 30)
    assert door.entered == ["a"]
    assert door.state.waiting == 1


def test_walks_enter_in_the_order_of_their_newest_rows_and_never_before_they_may() -> None:
    door = Door(FrontierGate(), window())
    for name, high_ts in (("d", 31), ("b", 12), ("a", 3), ("c", 12)):
        door.enter(name, 0, high_ts)
    assert door.entered == []
    door.seal(1)
    assert door.entered == ["a"]
    door.seal(2)
    assert door.entered == ["a", "b", "c"]
    door.seal(3)
    assert door.entered == ["a", "b", "c"]
    door.seal(TICK_END)
    assert door.entered == ["a", "b", "c", "d"]


@given(st.lists(st.one_of(st.integers(0, 60).map(lambda ts: ("walk", ts)), st.just(("seal", 0))), max_size=30))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_every_walk_enters_exactly_when_the_frontier_allows(steps: list[tuple[str, int]]) -> None:
    door, walks = Door(FrontierGate(), window()), dict[str, int]()
    for number, (kind, ts) in enumerate(steps):
        if kind == "walk":
            walks[f"{number}"] = ts
            door.enter(f"{number}", ts, ts)
        else:
            door.seal(door.state.frontier + 1)
        sealed_ts = door.state.frontier * TAU
        assert sorted(door.entered) == sorted(name for name, newest in walks.items() if newest < sealed_ts)
    assert len(door.entered) == len(set(door.entered))


def test_the_clock_means_nothing_to_frontiers() -> None:
    gate = FrontierGate()
    door = Door(gate, window())
    door.enter("a", 0, 5)
    gate.on_clock()
    assert door.entered == []
    assert (gate.delta_us, gate.early, gate.late) == (0, 0, 0)


def test_frontiers_say_what_passed() -> None:
    gate = FrontierGate()
    assert gate.passed(window(), 7) == 70
    assert gate.passed(window(), -7) == -70
    assert gate.passed(window(), TICK_MIN) is None
    assert gate.passed(window(), TICK_END) == TICK_END


# -- delta ------------------------------------------------------------------------------------


def by_clock(frontier: int = 0, delta_us: int = 1_000) -> tuple[Clock, DeltaGate, Door]:
    clock = Clock()
    gate = DeltaGate(delta_us, TimeUnit.MS, clock)
    return clock, gate, Door(gate, window(frontier))


def test_a_walk_enters_delta_after_its_batch_was_sealed_whatever_the_frontier() -> None:
    clock, gate, door = by_clock(frontier=100)
    door.enter("a", 0, 5, sealed_at_us=500)
    for now_us, entered in ((500, []), (1_499, []), (1_500, ["a"]), (9_999, ["a"])):
        clock.now_us = now_us
        gate.on_clock()
        assert door.entered == entered
    assert (gate.early, gate.late) == (0, 0)


def test_a_walk_that_comes_after_its_time_enters_at_once() -> None:
    clock, _, door = by_clock(frontier=100)
    clock.now_us = 5_000
    door.enter("a", 0, 5, sealed_at_us=4_000)
    assert door.entered == ["a"]


def test_walks_enter_in_the_order_of_their_times_not_of_their_coming() -> None:
    clock, gate, door = by_clock(frontier=100)
    for name, sealed_at_us in (("c", 300), ("a", 100), ("d", 300), ("b", 200)):
        door.enter(name, 0, 5, sealed_at_us)
    clock.now_us = 2_000
    gate.on_clock()
    assert door.entered == ["a", "b", "c", "d"]


def test_a_walk_that_comes_while_others_enter_is_not_lost() -> None:
    clock, gate, door = by_clock(frontier=100)
    gate.enter(door.state, 0, 5, False, 0, lambda: door.enter("late", 0, 5, sealed_at_us=-10))
    door.enter("b", 0, 5, sealed_at_us=1)
    clock.now_us = 2_000
    gate.on_clock()
    assert sorted(door.entered) == ["b", "late"]


@pytest.mark.parametrize(
    ("frontier", "newest", "early"), [(0, 25, 1), (2, 25, 1), (3, 25, 0), (3, 29, 0), (3, 30, 1), (TICK_END, 25, 0)]
)
def test_a_probe_before_the_window_is_sealed_beyond_it_is_counted_and_done(
    frontier: int, newest: int, early: int
) -> None:
    clock, gate, door = by_clock(frontier)
    clock.now_us = 10_000
    door.enter("a", 5, newest)
    assert door.entered == ["a"]
    assert (gate.early, gate.late) == (early, 0)


@pytest.mark.parametrize(("kept_from", "late"), [(-26, 0), (-25, 0), (-24, 1), (100, 1)])
def test_a_probe_that_could_see_what_is_forgotten_is_counted_and_done(kept_from: int, late: int) -> None:
    #  walk 5 .. 25, length 30: sees from -25 on
    clock, gate, door = by_clock(frontier=100)
    door.state.forget_before(kept_from)
    clock.now_us = 10_000
    door.enter("a", 5, 25)
    assert door.entered == ["a"]
    assert (gate.early, gate.late) == (0, late)


def test_what_counts_is_how_things_are_when_the_walk_enters() -> None:
    clock, gate, door = by_clock(frontier=0)
    door.enter("a", 5, 25, sealed_at_us=0)
    door.seal(3)  # in time
    clock.now_us = 1_000
    gate.on_clock()
    assert (door.entered, gate.early) == (["a"], 0)


@pytest.mark.parametrize(
    ("unit", "delta_us", "delta"), [(TimeUnit.MS, 7_000, 7), (TimeUnit.US, 7, 7), (TimeUnit.NS, 7, 7_000)]
)
def test_rows_have_passed_twice_delta_after_their_tick(unit: TimeUnit, delta_us: int, delta: int) -> None:
    #  batch of tick n: oldest row n * tau, sealed at (n + 1) * tau; SM-D1 probes V delta later, ships, and may take
    #  delta for that. The window may be sealed up to (n + 1) * tau + 2 * delta by then.
    gate = DeltaGate(delta_us, unit, Clock())
    assert gate.passed(window(frontier=1_000), done=-1_000) == 1_000 * TAU - TAU - 2 * delta


def test_what_the_sink_is_done_with_has_passed_whatever_the_clock_says() -> None:
    _, gate, _ = by_clock(delta_us=50_000)
    assert gate.passed(window(frontier=20), done=TICK_MIN) == 200 - TAU - 100
    assert gate.passed(window(frontier=20), done=8) == 200 - TAU - 100
    assert gate.passed(window(frontier=20), done=10) == 100


def test_before_the_start_and_after_the_end_only_the_sink_says_what_passed() -> None:
    _, gate, _ = by_clock()
    assert gate.passed(window(TICK_MIN), done=TICK_MIN) is None
    assert gate.passed(window(TICK_MIN), done=5) == 50
    assert gate.passed(window(TICK_END), done=TICK_MIN) is None
    assert gate.passed(window(TICK_END), done=5) == 50
    for frontier in (TICK_MIN, 7, TICK_END):
        assert gate.passed(window(frontier), done=TICK_END) == TICK_END


def count_window(length: int, times: list[int]) -> WindowState:
    state = WindowState("q/w", "w", TAU, CountAxis(length, Ordinals()), 100)
    state.axis.ordinals.append(np.array(times, np.int64))
    return state


def forget(state: WindowState, ts: int) -> None:
    before = state.axis.before(ts)
    state.forget_before(before)
    state.axis.forget(before, ts)


@pytest.mark.parametrize(("low_ts", "late"), [(60, 0), (50, 0), (41, 0), (40, 1), (31, 1), (5, 1)])
def test_late_rows_of_a_count_window_are_counted_although_their_rank_is_forgotten(low_ts: int, late: int) -> None:
    #  number    0  1  2  3  4  5  6     the last 2; rows before 50 are taken to be done with
    #  time      0 10 20 30 40 50 60     rows from 41 to 50 see 3 and 4, but a row at 40 sees 2 and 3
    clock = Clock()
    gate = DeltaGate(0, TimeUnit.MS, clock)
    state = count_window(2, [0, 10, 20, 30, 40, 50, 60])
    forget(state, 50)
    gate.enter(state, low_ts, 70, False, 0, lambda: None)
    assert gate.late == late


def test_both_gates_are_asked_alike() -> None:
    gates: list[Callable[[], Gate]] = [FrontierGate, lambda: DeltaGate(0, TimeUnit.MS, Clock())]
    for make in gates:
        door = Door(make(), window(frontier=5))
        door.enter("a", 0, 7)
        assert door.entered == ["a"]
