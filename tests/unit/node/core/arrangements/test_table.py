"""Rows kept once for all queries: each lease sees what DESIGN section 2 says, and no more is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.arrangements.lease import Lease
from node.core.arrangements.reach import Reach
from node.core.arrangements.table import RowTable
from node.core.engine import Append, CloseIndex, CloseTable, Expire, OpenIndex, OpenTable
from node.core.errors import PeerProtocolError
from node.core.streams.ticks import TICK_END, TICK_MIN
from planner.model.query import Expr
from tests.examples import examples
from tests.expressions import rows_that_hold
from tests.unit.node.core.arrangements.kit import (
    KEYS,
    SCHEMA,
    STREAM,
    TAU,
    EngineWork,
    Tuple,
    array,
    below,
    lease,
    odd,
    reach,
    rows_of,
    sealed,
    waiting,
)

REACHES = [
    reach(25),
    reach(0),
    reach(40, where=odd()),
    reach(25, scale=7),
    reach(count=3),
    reach(count=1),
    reach(count=2, where=odd()),
    reach(count=4, where=below(2)),
]


def passes(condition: Expr | None, tuples: list[Tuple]) -> list[bool]:
    rows = rows_of(tuples).rename_columns([f"{STREAM}.{name}" for name in SCHEMA.names])
    return [True] * len(tuples) if condition is None else rows_that_hold(condition, rows)


@dataclass
class Model:
    """The stream as a list: what a lease sees, and the oldest tuple that it can still ask for."""

    tuples: list[Tuple] = field(default_factory=list)

    def seen(self, of: Lease, ts: int, ties: bool) -> list[int]:
        """Numbers of the tuples in the window of a row at ``ts`` (query's unit)."""
        reach, passing = of.reach, passes(of.reach.filter, self.tuples)
        times = [at * reach.scale for at, _ in self.tuples]
        numbers = range(len(times))
        before = [n for n in numbers if passing[n] and (times[n] < ts or (ties and times[n] == ts))]
        window = before[-reach.count :] if reach.count is not None else before
        if reach.length is not None:
            window = [n for n in before if times[n] >= ts - reach.length]
        return [n for n in window if self.tuples[n][0] >= of.first_ts]

    def needed_from(self, of: Lease) -> int:
        """Of a lease that is probed: no row that comes sees a tuple before this one, leaving aside where it began."""
        end, reach = len(self.tuples), of.reach
        if of.done >= TICK_END:
            return end
        passed = of.done * TAU if of.done > TICK_MIN else TICK_MIN
        times = [at for at, _ in self.tuples]
        if reach.length is not None:
            oldest = passed - reach.length // reach.scale
            return next((n for n in range(end) if times[n] >= oldest), end)
        assert reach.count is not None
        passing = passes(reach.filter, self.tuples)
        before = [n for n in range(end) if passing[n] and times[n] < passed]
        at = next((n for n in range(end) if times[n] >= passed), end)
        first = next((n for n in range(end) if passing[n]), at)
        return before[-reach.count] if len(before) >= reach.count else min(at, first)


class Kept:
    """A table and the model beside it."""

    def __init__(self, native: bool = False) -> None:
        self.work = EngineWork(native)
        self.table = RowTable(self.work, "t", STREAM, SCHEMA, TAU, 0)
        self.model = Model()
        self.queries = 0

    def batch(self, ticks: int, *tuples: Tuple) -> None:
        begin, first = self.table.frontier, len(self.model.tuples)
        self.model.tuples += tuples
        end = TICK_END if ticks >= TICK_END else begin + ticks
        self.table.take(sealed(begin, end, tuples, first))

    def lease(self, of: Reach, begun: bool = True) -> Lease:
        self.queries += 1
        made = lease(f"q{self.queries}", of, first_tick=None)
        self.table.lease(made)
        if begun:
            self.begin(made, self.table.frontier)
        return made

    def begin(self, of: Lease, tick: int) -> None:
        of.first_tick = of.done = of.own_done = max(tick, 0)

    def contents(self) -> list[int]:
        return self.work.contents("t", self.model.tuples)

    def check(self, of: Lease) -> None:
        """Rows that may still come see what they must, all of it is there, and a probe's bounds say which it is."""
        scale = of.reach.scale
        oldest = max(of.done, 0) * TAU * scale
        newest = min(self.table.progress.sealed_ts, oldest // scale + 60) * scale
        held = set(self.contents())
        for ts in range(oldest, newest, max(1, scale // 2)):
            for ties in (False, True):
                low, high = (int(bound[0]) for bound in self.table.bounds(of, array([ts]), ties))
                passing = passes(of.reach.filter, self.model.tuples)
                seen = self.model.seen(of, ts, ties)
                assert [n for n in range(max(0, low), high) if passing[n]] == seen
                keyed = {n for n in seen if self.model.tuples[n][1] is not None}
                assert keyed <= held
                assert self.table.visible(of, ts, ts, ties) == (low, high)
                assert not self.table.has_forgotten(of, ts, ties)


TUPLES = st.lists(st.tuples(st.integers(0, 2 * TAU - 1), st.sampled_from([0, 1, 2, 3, None])), max_size=5)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(1, 2), TUPLES),
        st.tuples(st.just("batch"), st.integers(1, 2), TUPLES),
        st.tuples(st.just("lease"), st.sampled_from(REACHES), st.booleans()),
        st.tuples(st.just("begin"), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.just("done"), st.integers(0, 4), st.integers(0, 5)),
        st.tuples(st.just("release"), st.none(), st.integers(0, 5)),
        st.tuples(st.just("settle"), st.none(), st.none()),
    ),
    max_size=25,
)


@given(EVENTS, st.booleans())
@examples(250)
def test_time_windows_and_count_windows_behind_filters_see_what_they_must_in_one_table(
    events: list[tuple[str, Any, Any]], native: bool
) -> None:
    kept = Kept(native)
    leases: list[Lease] = [kept.lease(REACHES[0])]
    for name, what, which in events:
        chosen = leases[which % len(leases)] if leases and isinstance(which, int) else None
        if name == "batch":
            base, span = kept.table.frontier * TAU, what * TAU
            kept.batch(what, *sorted(((base + at % span, key) for at, key in which), key=lambda one: one[0]))
        elif name == "lease":
            leases.append(kept.lease(what, begun=which))
        elif name == "begin" and chosen is not None and chosen.frozen:
            kept.begin(chosen, kept.table.frontier + what)
        elif name == "done" and chosen is not None and not chosen.frozen:
            chosen.done += what
        elif name == "release" and chosen is not None:
            kept.table.release(chosen)
            leases.remove(chosen)
        elif name == "settle":
            kept.table.settle()
        if leases:
            for of in (of for of in leases if not of.frozen):
                kept.check(of)
        else:
            assert "t" not in getattr(kept.work.engine, "tables", [])
            leases.append(kept.lease(REACHES[4]))


@given(EVENTS)
@examples(250)
def test_after_forgetting_nothing_is_kept_that_no_lease_can_ask_for(events: list[tuple[str, Any, Any]]) -> None:
    kept = Kept()
    leases = [kept.lease(of) for of in (REACHES[0], REACHES[4], REACHES[6])]
    lowest = 0
    for name, what, which in events:
        if name == "batch":
            base, span = kept.table.frontier * TAU, what * TAU
            kept.batch(what, *sorted(((base + at % span, key) for at, key in which), key=lambda one: one[0]))
        elif name == "done":
            leases[which % 3].done += what
        kept.table.settle()
        lowest = max(lowest, min(kept.model.needed_from(of) for of in leases))
        assert kept.table.kept_from == lowest
        keyed = [n for n, (_, key) in enumerate(kept.model.tuples) if key is not None]
        assert kept.contents() == [n for n in keyed if n >= lowest]


# -- leases -----------------------------------------------------------------------------------


def test_a_frozen_lease_keeps_everything() -> None:
    kept = Kept()
    first = kept.lease(reach(0))
    frozen = kept.lease(reach(0), begun=False)
    kept.batch(1, (1, 1), (5, 2))
    kept.batch(3, (35, 3))
    first.done = 99
    kept.table.settle()
    assert kept.contents() == [0, 1, 2]
    assert kept.work.of(Expire) == []
    assert kept.table.begin_ts(frozen) == TICK_MIN
    kept.begin(frozen, 3)
    kept.table.settle()
    assert kept.contents() == [2]


def test_what_nobody_leases_is_closed_index_by_index() -> None:
    kept = Kept()
    by_key, by_both, again = lease("q1"), lease("q2", keys=("key", "n")), lease("q3")
    for one in (by_key, by_both, again):
        kept.table.lease(one)
    assert kept.work.of(OpenTable, OpenIndex) == [
        OpenTable("t", kept.work.of(OpenTable)[0].schema),
        OpenIndex("t", KEYS),
        OpenIndex("t", ("key", "n")),
    ]
    assert kept.table.keys == [KEYS, ("key", "n")]
    kept.table.release(by_key)
    assert kept.work.of(CloseIndex, CloseTable) == []
    kept.table.release(again)
    assert kept.work.of(CloseIndex, CloseTable) == [CloseIndex("t", KEYS)]
    kept.table.release(by_both)
    assert kept.work.of(CloseIndex, CloseTable) == [CloseIndex("t", KEYS), CloseTable("t")]


def test_a_lease_that_only_starts_walks_keeps_no_rows() -> None:
    kept = Kept()
    starting = lease("q1", keys=None)
    kept.table.lease(starting)
    kept.batch(1, (1, 1), (5, 2))
    kept.table.settle()
    assert kept.work.ops == []
    assert kept.table.begin_ts(starting) == TICK_MIN
    starting.done = starting.own_done = 1
    assert kept.table.begin_ts(starting) == TAU - 30, "what its walks see of it in copies counts too"
    looking = kept.lease(reach(30))
    assert kept.table.kept_from == 2, "rows that came before somebody looks are not there"
    kept.batch(1, (12, 1))
    kept.check(looking)
    assert [op.rows.column("n").to_pylist() for op in kept.work.of(Append)] == [[2]]


def test_rows_that_came_while_nobody_looked_are_not_offered_to_a_query_that_begins_before_them() -> None:
    """Also before the table had a chance to forget that it ever saw them."""
    kept = Kept()
    kept.table.lease(lease("q1", keys=None))
    kept.batch(1, (1, 1))
    assert not kept.table.reaches_back_to(0, reach(30))
    assert kept.table.reaches_back_to(TAU, reach(30))


def test_a_table_says_how_far_back_a_new_query_may_begin() -> None:
    #  number  0  1 |  2 |  3
    #  time    1  5 | 15 | 25       the only lease has passed tick 2 and looks back 5: from 15 on everything is there
    kept = Kept()
    of = kept.lease(reach(5))
    kept.batch(1, (1, 1), (5, 2))
    kept.batch(1, (15, 1))
    kept.batch(1, (25, 1))
    assert kept.table.reaches_back_to(0, reach(30))
    of.done = 2
    kept.table.settle()
    assert kept.table.kept_from == 2
    assert [ts for ts in (0, 5, 6, 15, 30) if kept.table.reaches_back_to(ts, reach(30))] == [6, 15, 30]


def test_a_count_behind_a_filter_that_nobody_counted_begins_now() -> None:
    kept = Kept()
    kept.lease(reach(30))
    kept.batch(1, (1, 1))
    counted = reach(count=2, where=odd())
    assert not kept.table.reaches_back_to(0, counted), "which of the tuples pass was not noted"
    assert kept.table.reaches_back_to(TAU, counted)
    kept.lease(counted)
    kept.batch(1, (11, 1))
    assert not kept.table.reaches_back_to(0, counted)
    assert kept.table.reaches_back_to(TAU, counted)


def test_the_rows_of_a_copy_have_passed_its_filter_so_a_count_behind_that_counts_them_all() -> None:
    work = EngineWork()
    table = RowTable(work, "t", STREAM, SCHEMA, TAU, 0)
    counted = reach(count=1, where=odd())
    table.filter = counted.filter
    of = lease("q1", counted)
    table.take(sealed(0, 1, [(1, 1), (5, 3)], passed=counted.filter))
    assert table.reaches_back_to(TAU, counted)
    table.lease(of)
    table.take(sealed(1, 2, [(11, 5), (12, 7)], first=2, passed=counted.filter))
    low, high = table.bounds(of, array([15]), include_ties=False)
    assert (low.tolist(), high.tolist()) == ([3], [4])
    assert table.nbytes == RowTable(work, "u", STREAM, SCHEMA, TAU, 0).nbytes, "nothing is noted beside their times"


def test_a_question_under_way_holds_what_its_answer_may_have() -> None:
    kept = Kept()
    of = kept.lease(reach(0))
    kept.batch(1, (1, 1), (5, 2))
    kept.batch(1, (15, 3))
    kept.table.hold(7, 1)
    of.done = 2
    kept.table.settle()
    assert kept.contents() == [1, 2]
    kept.table.unhold(7)
    kept.table.unhold(7)
    kept.table.settle()
    assert kept.contents() == []


def test_copies_that_may_be_asked_for_rows_keep_them_whatever_leases_say() -> None:
    kept = Kept()
    of = kept.lease(reach(0))
    kept.batch(1, (1, 1), (5, 2))
    of.done = 9
    kept.table.floor = 1
    kept.table.settle()
    assert kept.contents() == [1]
    kept.table.floor = None
    kept.table.settle()
    assert kept.contents() == []


def test_a_query_that_ends_waits_no_more() -> None:
    kept = Kept()
    of = kept.lease(reach(30))
    kept.lease(reach(30))
    mine, other = waiting("q1"), waiting("q2")
    kept.table.progress.wait(5, mine)
    kept.table.progress.wait(5, other)
    kept.table.release(of)
    assert kept.table.progress.waiting == [other]


# -- batches ----------------------------------------------------------------------------------


def test_batches_follow_one_another() -> None:
    kept = Kept()
    kept.batch(2, (1, 1))
    with pytest.raises(PeerProtocolError, match="t requires ticks from 2 on; got 3 to 4"):
        kept.table.take(sealed(3, 4, []))


def test_a_table_that_begins_in_the_log_takes_the_numbers_that_are_there() -> None:
    work = EngineWork()
    table = RowTable(work, "t", STREAM, SCHEMA, TAU, 5)
    of = lease("q1", reach(30), first_tick=5)
    table.lease(of)
    table.take(sealed(5, 6, [(51, 1), (55, 2)], first=40))
    table.take(sealed(6, 7, [(61, 1)], first=42))
    assert table.kept_from == 40
    low, high = table.bounds(of, array([60, 65]), include_ties=False)
    assert (low.tolist(), high.tolist()) == ([40, 40], [42, 43])
    assert table.times_of(array([41, 42])).tolist() == [55, 61]


def test_rows_have_their_number_as_position_and_only_the_columns_of_the_table() -> None:
    work = EngineWork()
    table = RowTable(work, "t", STREAM, pa.schema([SCHEMA.field("key")]), TAU, 0)
    table.lease(lease())
    table.take(sealed(0, 1, [(1, 7), (5, 8)]))
    (append,) = work.of(Append)
    assert append.rows.to_pydict() == {"__position": [0, 1], "key": [7, 8]}
    table.take(sealed(1, 2, [], first=2))
    assert len(work.of(Append)) == 1, "an empty batch is nothing to do"


# -- what the log must keep -------------------------------------------------------------------


def test_a_log_keeps_what_is_not_done_and_what_that_can_see() -> None:
    kept = Kept()
    of = kept.lease(reach(25))
    kept.batch(9, (1, 1), (45, 2), (77, 3))
    of.done, of.own_done = 6, 8
    assert kept.table.begin_ts(of) == 60 - 25
    of.own_done = 2
    assert kept.table.begin_ts(of) == 20
    of.done = of.own_done = TICK_END
    assert kept.table.begin_ts(of) == TICK_END


def test_a_log_keeps_the_tuples_that_a_count_window_keeps() -> None:
    kept = Kept()
    of = kept.lease(reach(count=2))
    kept.batch(9, (1, 1), (45, 2), (77, 3))
    of.done = of.own_done = 8
    assert kept.table.begin_ts(of) == 45
    of.own_done = 2
    assert kept.table.begin_ts(of) == 20, "walks of its own begin there"
    of.done = of.own_done = TICK_END
    assert kept.table.begin_ts(of) == TICK_END


# -- by the clock -----------------------------------------------------------------------------


@pytest.mark.parametrize(("low_ts", "late"), [(60, False), (50, False), (41, False), (40, True), (31, True), (5, True)])
def test_late_rows_of_a_count_window_are_seen_to_be_late_although_their_rank_is_forgotten(
    low_ts: int, late: bool
) -> None:
    #  number    0  1  2  3  4  5  6     the last 2; rows before 50 are taken to be done with
    #  time      0 10 20 30 40 50 60     rows from 41 to 50 see 3 and 4, but a row at 40 sees 2 and 3
    kept = Kept()
    of = kept.lease(reach(count=2))
    kept.batch(100, *((ts, 1) for ts in range(0, 70, 10)))
    of.done = 5
    kept.table.settle()
    assert kept.table.has_forgotten(of, low_ts, include_ties=False) is late


@pytest.mark.parametrize(("low_ts", "late"), [(80, False), (50, False), (36, False), (35, True), (0, True)])
def test_rows_of_a_time_window_are_late_if_they_could_see_what_is_forgotten(low_ts: int, late: bool) -> None:
    #  times  5  15  25 gone | 35  45 ...     rows before 60 are done, the window is 25
    kept = Kept()
    of = kept.lease(reach(25))
    kept.batch(100, *((ts, 1) for ts in range(5, 100, 10)))
    of.first_tick = -100
    of.done = 6
    kept.table.settle()
    assert kept.contents()[0] == 3
    assert kept.table.has_forgotten(of, low_ts + 15, include_ties=False) is late
