"""How far an arrangement is sealed, and who waits for it (delayed probe)."""

from __future__ import annotations

import pytest

from node.core.arrangements.progress import Progress
from node.core.errors import PeerProtocolError
from node.core.streams.ticks import TICK_END, TICK_MIN
from tests.unit.node.core.arrangements.kit import TAU, waiting


def progress(frontier: int = 0) -> Progress:
    return Progress("w", TAU, frontier)


def test_it_is_sealed_up_to_the_first_time_of_its_frontier() -> None:
    #  tau 10     sealed through tick 2 |3
    #  head               ok 15   ok 29 |30 not yet   31 not yet
    assert progress(3).sealed_ts == 30
    assert progress(-2).sealed_ts == -20


def test_what_has_not_started_has_nothing_and_what_has_ended_has_everything() -> None:
    assert progress(TICK_MIN).sealed_ts <= -(2**62)
    assert progress(TICK_END).sealed_ts > 2**62 - 1


def test_ticks_must_follow_one_another() -> None:
    state = progress(TICK_MIN)
    state.seal(TICK_MIN, 4)
    state.seal(4, 5)
    for first, end in ((4, 5), (6, 7), (TICK_MIN, 5), (3, 6), (5, 4), (5, TICK_END + 1)):
        with pytest.raises(PeerProtocolError, match=f"w requires ticks from 5 on; got {first} to {end}"):
            state.seal(first, end)
    assert state.frontier == 5
    state.seal(5, 5)  # a sync that tells only what was forgotten
    state.seal(5, TICK_END)
    assert state.frontier == TICK_END


def test_walks_leave_when_the_frontier_passes_them_oldest_first() -> None:
    #  tick      0      |1      |2
    #  waiting   9      |10  19 |20
    state = progress()
    a, b, c, d = (waiting(tick=number) for number in range(4))
    for newest_ts, walk in ((20, d), (19, c), (9, a), (10, b)):
        state.wait(newest_ts, walk)
    assert state.waiting == [a, b, c, d]
    assert state.release() == []
    state.seal(0, 1)
    assert state.release() == [a]
    assert state.release() == []
    state.seal(1, 2)
    assert state.release() == [b, c]
    assert state.waiting == [d]
    state.seal(2, TICK_END)
    assert state.release() == [d]
    assert state.waiting == []


def test_walks_that_wait_for_the_same_leave_in_the_order_they_came() -> None:
    state = progress()
    walks = [waiting(tick=number) for number in range(5)]
    for walk in walks:
        state.wait(5, walk)
    state.seal(0, 1)
    assert state.release() == walks


def test_the_walks_of_a_query_that_is_over_wait_no_more_and_all_others_do() -> None:
    state = progress()
    walks = [waiting(f"q{number % 3}", number) for number in range(20)]
    for number, walk in enumerate(walks):
        state.wait(number * 7 % 20, walk)
    state.cancel("q1")
    state.cancel("unknown")
    left = [walk for walk in walks if walk.walk.query_id != "q1"]
    assert state.waiting == sorted(left, key=lambda walk: walks.index(walk) * 7 % 20)
    state.seal(0, 1)
    assert [walks.index(walk) * 7 % 20 < 10 for walk in state.release()].count(False) == 0
