"""Walks come for a step in any order, each of their ticks once, and none that is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.algorithms.span_ledger import SpanLedger
from node.core.errors import PeerProtocolError
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from tests.examples import examples


def ledger(*came: Span, done: int = TICK_MIN) -> SpanLedger:
    made = SpanLedger("head 'a'")
    made.done(done)
    for span in came:
        made.take(span)
    return made


def test_walks_come_in_any_order() -> None:
    made = ledger(Span(5, 7), Span(TICK_MIN, 2), Span(9, TICK_END), Span(2, 5), Span(7, 9))
    assert len(made) == 5


@pytest.mark.parametrize(
    "wrong",
    [Span(5, 7), Span(4, 6), Span(6, 8), Span(4, 8), Span(5, 6), Span(6, 7), Span(3, 10), Span(9, 11), Span(0, 4)],
    ids=str,
)
def test_a_walk_of_ticks_that_came_before_is_refused(wrong: Span) -> None:
    #  ticks     3   4   5   6   7   8   9   10
    #  came    [ 2, 4)  [  5, 7 )       [9, 10)
    made = ledger(Span(5, 7), Span(2, 4), Span(9, 10))
    with pytest.raises(PeerProtocolError, match="head 'a' requires walks of ticks from start on, each once; got"):
        made.take(wrong)
    assert len(made) == 3


def test_a_walk_that_is_done_is_refused_and_no_more_remembered() -> None:
    made = ledger(Span(0, 3), Span(3, 5), Span(8, 9))
    made.done(5)
    assert len(made) == 1
    for span in (Span(0, 3), Span(4, 6)):
        with pytest.raises(PeerProtocolError, match=r"ticks from 5 on, each once; got \[[04], [36]\)"):
            made.take(span)
    made.take(Span(5, 8))
    made.done(TICK_END)
    assert len(made) == 0


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4), st.booleans()), max_size=20))
@examples()
def test_what_is_taken_is_what_touches_nothing_that_came(events: list[tuple[int, int, bool]]) -> None:
    made, ticks, done = ledger(done=0), set[int](), 0
    for first, length, moves in events:
        span = Span(first, first + length)
        fresh = first >= done and ticks.isdisjoint(range(span.first, span.end))
        if fresh:
            made.take(span)
            ticks.update(range(span.first, span.end))
        else:
            with pytest.raises(PeerProtocolError):
                made.take(span)
        if moves:
            while done in ticks:
                done += 1
            made.done(done)
