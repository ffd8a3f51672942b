"""Ticks cut the whole axis, and limits that contradict each other are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.errors import LocalProtocolError
from node.core.limits import MIB, Limits
from node.core.streams.ticks import TICK_END, TICK_MIN, Span, tick_start, tick_text
from tests.examples import examples

ticks = st.integers(TICK_MIN, TICK_END)


@given(st.integers(-(2**40), 2**40), st.integers(1, 10**6))
@examples()
def test_an_event_time_is_in_the_tick_that_starts_at_or_before_it(ts: int, tau: int) -> None:
    tick = ts // tau
    assert tick_start(tick, tau) <= ts < tick_start(tick + 1, tau)


@given(ticks, ticks, st.integers(1, 10**12))
@examples()
def test_tick_starts_rise_with_the_tick(one: int, other: int, tau: int) -> None:
    low, high = sorted((one, other))
    assert tick_start(low, tau) <= tick_start(high, tau)
    assert tick_start(low, tau) >= TICK_MIN
    assert tick_start(high, tau) <= TICK_END


def test_the_ends_of_the_axis_are_outside_every_event_time() -> None:
    # sources take only |ts| < 2**62
    assert tick_start(TICK_MIN, 1) < -(2**62) + 1
    assert tick_start(TICK_END, 1) > 2**62 - 1
    assert tick_start(TICK_MIN, 1000) == TICK_MIN
    assert tick_start(TICK_END, 1000) == TICK_END


@pytest.mark.parametrize(
    ("first", "end"), [(0, 0), (1, 0), (TICK_END, TICK_END), (TICK_MIN - 1, 0), (0, TICK_END + 1), (TICK_MIN, TICK_MIN)]
)
def test_an_empty_or_outlying_span_is_refused(first: int, end: int) -> None:
    with pytest.raises(LocalProtocolError, match="span requires first < end"):
        Span(first, end)


def test_spans_sort_by_time_and_read_well() -> None:
    assert sorted([Span(3, 5), Span(TICK_MIN, 3)]) == [Span(TICK_MIN, 3), Span(3, 5)]
    assert str(Span(TICK_MIN, 3)) == "[start, 3)"
    assert str(Span(-2, TICK_END)) == "[-2, end)"
    assert tick_text(0) == "0"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"part_bytes_max": 9 * MIB, "inflight_bytes_max": 8 * MIB}, "a part must fit in flight"),
        ({"part_bytes_max": 4 * MIB}, "a part must fit in a gRPC message"),
        ({"ack_bytes": 8 * MIB}, "acknowledge before the sender stalls"),
        ({"ping_us": 5, "silence_us": 10}, "silence must outlast two pings"),
        ({"shipment_bytes_max": 512 * MIB}, "a shipment must fit in a message"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(change: dict[str, int], text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        Limits(**change)


def test_the_default_limits_agree_with_each_other() -> None:
    limits = Limits()
    assert limits.part_bytes_max <= limits.inflight_bytes_max < limits.message_bytes_max
