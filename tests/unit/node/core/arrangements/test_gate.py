"""When a walk may look at an arrangement: by frontiers, or by the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.arrangements.gate import DeltaGate, FrontierGate, Gate, Look
from node.core.arrangements.lease import Lease
from node.core.arrangements.progress import Progress
from node.core.arrangements.reach import Reach
from node.core.queries.waiting import Waiting
from node.core.streams.ticks import TICK_END
from tests.examples import examples
from tests.unit.node.core.arrangements.kit import TAU, lease, reach, waiting


class Arrangement:
    """Something to look at; rows that are older than ``forgotten`` see what is gone."""

    def __init__(self, frontier: int = 0) -> None:
        self.progress = Progress("w", TAU, frontier)
        self.forgotten = -(10**9)

    def has_forgotten(self, lease: Lease, low_ts: int, include_ties: bool) -> bool:
        return low_ts < self.forgotten


class Door:
    """A gate with a log of who went through, to a copy or to what a stream's own site has."""

    def __init__(self, gate: Gate, frontier: int = 0, of: Reach | None = None, at_copy: bool = True) -> None:
        self.gate, self.window, self.lease = gate, Arrangement(frontier), lease(of=of or reach(30))
        self.at_copy = at_copy
        self.now_us = 0
        self.names: dict[int, str] = {}
        self.entered: list[str] = []

    def enter(self, name: str, low_ts: int, high_ts: int, sealed_at_us: int = 0) -> None:
        walk = replace(waiting(tick=len(self.names), sealed_at_us=sealed_at_us), since_us=self.now_us)
        self.names[walk.walk.span.first] = name
        if self.gate.enter(Look(self.window, self.lease, low_ts, high_ts, False, self.at_copy), walk):
            self.entered.append(name)

    def _through(self, woken: list[Waiting]) -> None:
        self.entered += [self.names[walk.walk.span.first] for walk in woken]

    def seal(self, end: int) -> None:
        self.window.progress.seal(self.window.progress.frontier, end)
        woken = self.window.progress.release()
        for walk in woken:
            self.gate.passed(walk)
        self._through(woken)

    def clock(self, now_us: int) -> None:
        self.now_us = now_us
        self._through(self.gate.due(now_us))


# -- frontier ---------------------------------------------------------------------------------


def test_a_walk_enters_at_once_when_all_is_sealed_beyond_its_newest_row() -> None:
    #  sealed through tick 2 |30
    #  walks       a 5 .. 29 |   b 5 .. 30
    door = Door(FrontierGate(), frontier=3)
    door.enter("a", 5, 29)
    door.enter("b", 5, 30)
    assert door.entered == ["a"]
    assert len(door.window.progress.waiting) == 1


def test_walks_enter_in_the_order_of_their_newest_rows_and_never_before_they_may() -> None:
    door = Door(FrontierGate())
    for name, high_ts in (("d", 31), ("b", 12), ("a", 3), ("c", 12)):
        door.enter(name, 0, high_ts)
    assert door.entered == []
    for end, entered in ((1, "a"), (2, "abc"), (3, "abc"), (TICK_END, "abcd")):
        door.seal(end)
        assert door.entered == list(entered)


def test_a_row_in_a_finer_unit_waits_for_the_tuples_that_it_can_see() -> None:
    #  scale 1,000: a row at 29,999 sees tuples up to 29, one at 30,000 may see one at 30
    door = Door(FrontierGate(), frontier=3, of=reach(30, scale=1_000))
    door.enter("a", 0, 29_999)
    door.enter("b", 0, 30_000)
    assert door.entered == ["a"]
    door.seal(4)
    assert door.entered == ["a", "b"]


@given(st.lists(st.one_of(st.integers(0, 60).map(lambda ts: ("walk", ts)), st.just(("seal", 0))), max_size=30))
@examples(200)
def test_every_walk_enters_exactly_when_the_frontier_allows(steps: list[tuple[str, int]]) -> None:
    door, walks = Door(FrontierGate()), dict[str, int]()
    for number, (kind, ts) in enumerate(steps):
        if kind == "walk":
            walks[f"{number}"] = ts
            door.enter(f"{number}", ts, ts)
        else:
            door.seal(door.window.progress.frontier + 1)
        sealed_ts = door.window.progress.sealed_ts
        assert sorted(door.entered) == sorted(name for name, newest in walks.items() if newest < sealed_ts)
    assert len(door.entered) == len(set(door.entered))


def test_the_clock_means_nothing_to_frontiers() -> None:
    gate = FrontierGate()
    door = Door(gate)
    door.enter("a", 0, 5)
    door.clock(10**12)
    assert door.entered == []
    assert (gate.delta_us, gate.early, gate.late, gate.waiting) == (0, 0, 0, [])


# -- delta ------------------------------------------------------------------------------------


def test_a_walk_enters_delta_after_its_batch_was_sealed_whatever_the_frontier() -> None:
    gate = DeltaGate(1_000)
    door = Door(gate, frontier=100)
    door.enter("a", 0, 5, sealed_at_us=500)
    for now_us, entered in ((500, []), (1_499, []), (1_500, ["a"]), (9_999, ["a"])):
        door.clock(now_us)
        assert door.entered == entered
    assert (gate.early, gate.late) == (0, 0)


def test_a_walk_that_comes_after_its_time_enters_at_once() -> None:
    gate = DeltaGate(1_000)
    door = Door(gate, frontier=100)
    door.clock(5_000)
    door.enter("a", 0, 5, sealed_at_us=4_000)
    assert door.entered == ["a"]
    assert gate.waiting == []


@pytest.mark.parametrize("forgotten", [0, 6])
def test_at_the_streams_own_site_no_walk_waits_by_the_clock(forgotten: int) -> None:
    gate = DeltaGate(1_000)
    door = Door(gate, frontier=3, at_copy=False)
    door.window.forgotten = forgotten
    door.enter("a", 5, 29)
    assert door.entered == ["a"]
    assert (gate.early, gate.late) == (0, int(forgotten > 5))


def test_a_walk_that_is_faster_than_the_streams_own_batch_waits_for_that() -> None:
    gate = DeltaGate(1_000)
    door = Door(gate, frontier=2, at_copy=False)
    door.enter("a", 5, 25)
    assert door.entered == []
    assert len(door.window.progress.waiting) == 1
    assert gate.waiting == [], "it is found where it is woken"
    door.window.forgotten = 6
    door.seal(3)
    assert door.entered == ["a"]
    door.clock(1_000)
    assert door.entered == ["a"]
    assert (gate.early, gate.late) == (0, 1)


def test_but_no_longer_than_it_would_wait_for_a_copy() -> None:
    gate = DeltaGate(1_000)
    door = Door(gate, frontier=2, at_copy=False)
    door.enter("a", 5, 25)
    door.enter("b", 5, 15)
    door.clock(999)
    assert door.entered == ["b"]
    door.clock(1_000)
    assert door.entered == ["b", "a"]
    assert (gate.early, gate.late) == (1, 0)
    door.seal(3)
    assert door.entered == ["b", "a"], "once"


def test_walks_enter_in_the_order_of_their_times_not_of_their_coming() -> None:
    gate = DeltaGate(1_000)
    door = Door(gate, frontier=100)
    for name, sealed_at_us in (("c", 300), ("a", 100), ("d", 300), ("b", 200)):
        door.enter(name, 0, 5, sealed_at_us)
    assert [door.names[walk.walk.span.first] for walk in gate.waiting] == ["a", "b", "c", "d"]
    door.clock(2_000)
    assert door.entered == ["a", "b", "c", "d"]
    assert gate.waiting == []


@pytest.mark.parametrize(
    ("frontier", "newest", "early"), [(0, 25, 1), (2, 25, 1), (3, 25, 0), (3, 29, 0), (3, 30, 1), (TICK_END, 25, 0)]
)
def test_a_look_before_all_is_sealed_beyond_it_is_counted_and_done(frontier: int, newest: int, early: int) -> None:
    gate = DeltaGate(1_000)
    door = Door(gate, frontier)
    door.enter("a", 5, newest)
    door.clock(10_000)
    assert door.entered == ["a"]
    assert (gate.early, gate.late) == (early, 0)


@pytest.mark.parametrize(("forgotten", "late"), [(4, 0), (5, 0), (6, 1), (100, 1)])
def test_a_look_that_could_see_what_is_forgotten_is_counted_and_done(forgotten: int, late: int) -> None:
    gate = DeltaGate(1_000)
    door = Door(gate, frontier=100)
    door.window.forgotten = forgotten
    door.enter("a", 5, 25)
    door.clock(10_000)
    assert door.entered == ["a"]
    assert (gate.early, gate.late) == (0, late)


def test_what_counts_is_how_things_are_when_the_walk_enters() -> None:
    gate = DeltaGate(1_000)
    door = Door(gate)
    door.enter("a", 5, 25)
    door.seal(3)  # in time
    door.clock(1_000)
    assert (door.entered, gate.early) == (["a"], 0)
