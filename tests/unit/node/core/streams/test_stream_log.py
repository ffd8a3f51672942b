"""A local stream and its log: nothing is used before it is logged, and what is retained or needed stays."""

from __future__ import annotations

import numpy as np
import pytest

from node.core.limits import Limits
from node.core.streams.backlog import Backlog
from node.core.streams.log_extent import LogExtent, LoggedBatch
from node.core.streams.sealer import Batch
from node.core.streams.stream import LocalStream, StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from planner.model.errors import NarrowsError
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from tests.unit.node.core.arrangements.kit import SCHEMA, rows_of

INFO = StreamInfo("r", "bow", SCHEMA, "ts", TimeUnit.MS)


def batch(first: int, end: int, *ts: int, number: int = 0) -> Batch:
    return Batch(Span(first, end), rows_of([(one, 1) for one in ts], number), np.array(ts, np.int64), number)


def stream(retain_ms: int = 0) -> StreamState:
    return StreamState(LocalStream(INFO, retain_ms=retain_ms), 10)


def feed(state: StreamState, *batches: Batch) -> None:
    """Batches are sealed, logged and given to all who want them; what may go from the log goes."""
    for one in batches:
        state.sealed(one, 7)
        for rows in state.logged(one.span.end):
            state.feed(rows)
        state.trim(TICK_END)


class Running:
    """A query that keeps up."""

    started = True
    early_batches = 0

    def __init__(self) -> None:
        self.query_id = "q1"
        self.backlogs = {"b": Backlog()}

    def is_behind(self, alias: str) -> bool:
        return False

    def filled_table(self, alias: str) -> None:
        return None


def test_who_needs_ticks_that_were_given_up_is_told_which_and_nobody_else_is() -> None:
    """The log had [0, 9), of which [3, 5) was damaged and all before is gone with it."""
    logged = tuple(LoggedBatch(first, first + 1, 1, 10) for first in range(5, 9))
    extent = LogExtent(logged, 9, 80, None, (Span(3, 5),))
    state = StreamState(LocalStream(INFO, retain_ms=1_000, logged=extent), 10)
    state.check_log(5, 9, 5)
    for begin in (0, 3, 4):
        with pytest.raises(NarrowsError) as refused:
            state.check_log(begin, 9, begin)
        assert str(refused.value) == (
            "data loss: stream r requires its log; got one without ticks [3, 5), which were damaged and given up"
        )
    # A count of tuples that may reach further back than the log does.
    with pytest.raises(NarrowsError, match=r"without ticks \[3, 5\)"):
        state.check_log(5, 9, 2)
    assert state.earliest == 5


def test_a_query_does_not_begin_with_a_tick_that_was_given_up() -> None:
    """The end of a log was damaged: what is left of it only says where the stream goes on."""
    extent = LogExtent((LoggedBatch(8, 9, 0, 10),), 9, 80, None, (Span(6, 9),))
    state = StreamState(LocalStream(INFO, retain_ms=1_000, logged=extent), 10)
    assert (state.earliest, state.fed) == (9, 9)


# -- logged before it is used -----------------------------------------------------------------


def test_a_sealed_batch_may_be_used_when_it_is_logged_and_not_before() -> None:
    state = stream()
    state.sealed(batch(TICK_MIN, 2, 5, 15), 100)
    state.sealed(batch(2, 3, 25, number=2), 200)
    state.sealed(batch(3, 4), 300)
    assert state.logged(TICK_MIN) == []
    assert state.fed == TICK_MIN
    first, second = state.logged(3)
    assert (first.span, first.ts.tolist(), first.first, first.sealed_at_us) == (Span(TICK_MIN, 2), [5, 15], 0, 100)
    assert (second.span, second.first, second.sealed_at_us) == (Span(2, 3), 2, 200)
    assert [rows.span for rows in state.logged(4)] == [Span(3, 4)]


def test_fed_counts_what_was_given_to_all() -> None:
    state = stream(retain_ms=1_000)
    feed(state, batch(TICK_MIN, 2, 5, 15), batch(2, 4, 25, number=2))
    assert (state.fed, state.fed_rows) == (4, 3)
    assert state.logged_rows == 3
    assert state.logged_bytes > 0


def test_a_source_is_not_read_on_while_too_much_waits_for_the_log() -> None:
    state, limits = stream(), Limits(ahead_batches_max=2)
    state.followers.append(("b", Running()))
    assert state.wants_more(limits)
    state.sealed(batch(TICK_MIN, 2, 5), 0)
    state.sealed(batch(2, 3), 0)
    assert not state.wants_more(limits)
    state.logged(2)
    assert state.wants_more(limits)


def test_who_reads_the_log_to_catch_up_stops_nobody_else() -> None:
    class CatchingUp(Running):
        def is_behind(self, alias: str) -> bool:
            return True

    state, limits = stream(), Limits(ahead_batches_max=2)
    behind = CatchingUp()
    state.followers += [("b", Running()), ("b", behind)]
    for tick in range(3):
        behind.backlogs["b"].add(tick, 1)
    assert behind.backlogs["b"].full(limits)
    assert state.wants_more(limits)
    state.followers.pop(0)
    assert not state.wants_more(limits), "nobody else wants what would be read"


# -- what is retained -------------------------------------------------------------------------


def test_a_stream_that_retains_nothing_serves_from_now_on() -> None:
    state = stream()
    feed(state, batch(TICK_MIN, 5, 1, 2))
    assert state.earliest == 5
    assert state.logged_rows == 0


def test_a_batch_goes_when_all_of_it_is_older_than_what_is_retained() -> None:
    #  tau 10, retain 30     [.., 2)   [2, 4)   [4, 7)  -> front 70, kept from 40 on
    state = stream(30)
    feed(state, batch(TICK_MIN, 2, 5, 15), batch(2, 4, 21, 39))
    assert state.earliest == TICK_MIN  # 15 is within 30 of 40: and so is all that was ever sealed
    feed(state, batch(4, 7, 41))
    assert state.earliest == 4
    assert state.logged_rows == 1
    feed(state, batch(7, 8))
    assert state.earliest == 4  # of [4, 7) the last 20 ms are still young enough


def test_a_gap_longer_than_what_is_retained_leaves_only_what_is_after_it() -> None:
    state = stream(30)
    feed(state, batch(TICK_MIN, 2, 5), batch(2, 100, 990))
    assert state.earliest == 2
    assert state.logged_rows == 1


def test_a_stream_that_ended_is_measured_from_its_newest_tuple() -> None:
    #  newest 45, so what ended at 20 is not within 25 of it
    state = stream(25)
    feed(state, batch(TICK_MIN, 2, 5), batch(2, 4, 25), batch(4, TICK_END, 45))
    assert state.earliest == 2
    assert state.logged_rows == 2


def test_an_end_without_a_tuple_lets_nothing_go() -> None:
    state = stream(30)
    feed(state, batch(TICK_MIN, 4, 5, 35), batch(4, TICK_END))
    assert state.logged_rows == 2


def test_a_unit_finer_than_milliseconds_is_retained_as_long() -> None:
    info = StreamInfo("r", "bow", SCHEMA, "ts", TimeUnit.US)
    state = StreamState(LocalStream(info, retain_ms=30), 10)
    feed(state, *(batch(tick, tick + 1, tick * 10_000) for tick in range(10)))
    assert state.earliest == 7
    assert state.logged_rows == 3


# -- what is needed ---------------------------------------------------------------------------


def test_the_log_keeps_every_batch_with_something_that_is_needed() -> None:
    state = stream()
    state.sealed(batch(TICK_MIN, 2, 5, 15), 0)
    state.sealed(batch(2, 4, 25), 0)
    state.sealed(batch(4, 5, 45), 0)
    for rows in state.logged(5):
        state.feed(rows)
    assert state.trim(TICK_MIN) is None
    assert state.trim(19) is None
    assert state.trim(20) == 2
    assert state.trim(39) is None, "told once"
    assert state.trim(TICK_END) == 5
    assert state.trim(TICK_END) is None


def test_what_is_retained_stays_although_nobody_needs_it() -> None:
    state = stream(30)
    feed(state, batch(TICK_MIN, 2, 5), batch(2, 4, 25))
    assert state.trim(TICK_END) is None
    assert state.logged_rows == 2
