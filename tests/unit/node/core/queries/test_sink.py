"""The sink: each walk once, in any order, and a done frontier that tells the truth."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.errors import PeerProtocolError
from node.core.queries.home.sink import HeadLedger, Sink
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from tests.examples import examples


def test_done_follows_walks_that_come_in_order() -> None:
    ledger = HeadLedger("a", 0)
    for span in (Span(0, 1), Span(1, 5), Span(5, TICK_END)):
        assert ledger.take(span)
        assert ledger.stored(span)
        assert ledger.done == span.end


def test_a_hole_holds_done_back_and_filling_it_lets_go() -> None:
    #  ticks   0   1   2   3   4
    #  stored      [1,2)[2,4)      done 0
    #  then  [0,1)                 done 4
    ledger = HeadLedger("a", 0)
    for span in (Span(1, 2), Span(2, 4)):
        assert ledger.take(span)
        assert not ledger.stored(span)
        assert ledger.done == 0
    assert ledger.take(Span(0, 1))
    assert ledger.stored(Span(0, 1))
    assert ledger.done == 4


def test_a_walk_that_is_taken_and_not_stored_is_not_done() -> None:
    ledger = HeadLedger("a", 0)
    ledger.take(Span(0, 1))
    ledger.take(Span(1, 2))
    assert not ledger.stored(Span(1, 2))
    assert ledger.done == 0


def test_a_walk_is_taken_once() -> None:
    ledger = HeadLedger("a", 0)
    assert ledger.take(Span(3, 4))
    assert not ledger.take(Span(3, 4))  # being stored
    ledger.stored(Span(3, 4))
    assert not ledger.take(Span(3, 4))  # stored, not yet done
    ledger.take(Span(0, 3))
    ledger.stored(Span(0, 3))
    assert ledger.done == 4
    assert not ledger.take(Span(3, 4))  # done
    assert not ledger.take(Span(0, 3))


@pytest.mark.parametrize(
    "wrong",
    [Span(3, 5), Span(5, 7), Span(4, 5), Span(3, 7), Span(4, 7), Span(TICK_MIN, TICK_END)],
    ids=["left", "right", "inside", "around", "longer", "all"],
)
def test_a_walk_that_overlaps_another_is_refused(wrong: Span) -> None:
    #  ticks   3   4   5   6   7
    #  taken       [4,     6)
    ledger = HeadLedger("a", 0)
    ledger.take(Span(4, 6))
    with pytest.raises(PeerProtocolError, match=r"head a requires walks that do not overlap; got .* beside \[4, 6\)"):
        ledger.take(wrong)


def test_walks_that_touch_do_not_overlap() -> None:
    ledger = HeadLedger("a", 0)
    assert ledger.take(Span(4, 6))
    assert ledger.take(Span(3, 4))
    assert ledger.take(Span(6, 7))


def test_a_walk_across_the_done_frontier_is_refused() -> None:
    ledger = HeadLedger("a", 5)
    with pytest.raises(PeerProtocolError, match=r"head a requires walks from tick 5 on; got \[4, 6\)"):
        ledger.take(Span(4, 6))


def test_a_walk_before_the_start_is_taken_for_a_repetition() -> None:
    assert not HeadLedger("a", 5).take(Span(3, 5))


@st.composite
def tilings(draw: st.DrawFn) -> list[Span]:
    cuts = sorted(draw(st.sets(st.integers(-50, 50), max_size=15)))
    ends = [TICK_MIN, *cuts, TICK_END]
    return [Span(first, end) for first, end in pairwise(ends)]


@given(tilings(), st.data())
@examples(200)
def test_in_any_order_with_repetitions_each_walk_is_stored_once_and_done_is_the_prefix(
    spans: list[Span], data: st.DataObject
) -> None:
    ledger = HeadLedger("a", TICK_MIN)
    arrivals = data.draw(st.permutations(spans + data.draw(st.lists(st.sampled_from(spans), max_size=10))))
    stored: set[Span] = set()
    waiting: list[Span] = []
    while arrivals or waiting:
        if arrivals and (not waiting or data.draw(st.booleans())):
            span = arrivals.pop()
            taken = ledger.take(span)
            assert taken == (span not in stored and span not in waiting)
            waiting += [span] * taken
        else:
            span = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            stored.add(span)
            before = ledger.done
            moved = ledger.stored(span)
            assert ledger.done >= before
            assert moved == (ledger.done != before)
        missing = [span.first for span in spans if span not in stored]
        assert ledger.done == min(missing, default=TICK_END)


def test_a_query_is_complete_when_every_head_is() -> None:
    sink = Sink(dict.fromkeys(("a", "b"), TICK_MIN))
    everything = Span(TICK_MIN, TICK_END)
    assert sink.frontiers == (("a", TICK_MIN), ("b", TICK_MIN))
    for head in ("a", "b"):
        assert not sink.complete
        sink.heads[head].take(everything)
        sink.heads[head].stored(everything)
    assert sink.complete
    assert sink.frontiers == (("a", TICK_END), ("b", TICK_END))


def test_a_query_that_starts_after_the_end_is_complete_at_once() -> None:
    assert Sink(dict.fromkeys(("a", "b"), TICK_END)).complete
