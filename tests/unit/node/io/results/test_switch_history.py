"""What is told of a query that goes from one plan to another: which plan it runs by, and its last switches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from node.core.effects import QueryState, ReportSwitch, StoreRows, SwitchState
from node.core.streams.ticks import Span
from node.io.planning.outcome import NO_FORECAST, Planned
from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.results.switch_history import SWITCHES_MAX
from planner.model.plans import describe
from planner.model.query import Algorithm, Plan
from tests.unit.files import AtOnce
from tests.unit.sites import Cluster

ROWS = pa.RecordBatch.from_pydict({"n": list(range(10))})
AFTER = Cluster().plan("cam", Algorithm.SM_S1)


def walk(query: IssuedQuery, tick: int) -> StoreRows:
    return StoreRows(query.query_id, "a", Span(tick, tick + 1), 0, ROWS)


def went(query: IssuedQuery, number: int, *states: SwitchState, reason: str = "") -> None:
    for at, state in enumerate(states):
        report = ReportSwitch(query.query_id, number, state, AFTER, f"reason {number}", reason)
        query.report_switch(report, NO_FORECAST, 1000 * number + at)


def begun(tmp_path: Path) -> tuple[Queries, IssuedQuery]:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = queries.new(Planned(Cluster().plan("cam")))
    query.note(lambda _: None, *query.facts())
    return queries, query


def test_what_is_told_of_a_query_follows_the_plan_that_runs(tmp_path: Path) -> None:
    queries, query = begun(tmp_path)
    before = query.about
    queries.store([walk(query, 1)], lambda: 0, lambda _: None)
    went(query, 1, SwitchState.PREPARING, SwitchState.SWITCHING)
    assert (query.about, query.counted_as) == (before, "cam-1-1")
    queries.store([walk(query, 2)], lambda: 0, lambda _: None)
    went(query, 1, SwitchState.SWITCHED)
    assert query.planned is not None
    assert (query.planned.plan, query.counted_as) == (AFTER, "cam-1-1~1")
    assert (query.about.plan_text, query.about.text) == (describe(AFTER), before.text)
    (change,) = query.switches
    assert (change.before, change.after) == (before.plan_text, describe(AFTER))
    assert (change.rows_before, change.rows_after) == (10, 20)
    assert (change.run_before, change.run_after) == ("cam-1-1", "cam-1-1~1")
    queries.report(query.query_id, QueryState.RECOVERING, "a site was restarted")
    assert (query.counted_as, query.is_mixed) == ("cam-1-1", True)


def test_the_history_of_switches_is_that_of_the_last_ones_and_outlives_the_daemon(tmp_path: Path) -> None:
    queries, query = begun(tmp_path)
    for number in range(1, 2 * SWITCHES_MAX):
        went(query, number, SwitchState.PREPARING)
        went(query, number, SwitchState.GIVEN_UP, reason="no luck")
    went(query, 90, SwitchState.PREPARING, SwitchState.SWITCHING, SwitchState.SWITCHED)
    kept = [*query.switches]
    assert [change.number for change in kept] == [*range(SWITCHES_MAX + 1, 2 * SWITCHES_MAX), 90]
    queries.close()
    again = Queries("cam", tmp_path, AtOnce(), life=2, durable=True)
    again.recover()
    found = again.by_id["cam-1-1"]
    assert [*found.switches] == kept
    assert found.about.plan_text == describe(AFTER)


@pytest.mark.parametrize(
    ("plan", "state"), [(AFTER, SwitchState.SWITCHED), (Cluster().plan("cam"), SwitchState.GIVEN_UP)]
)
def test_a_switch_that_a_crash_ended_is_told_by_the_plan_that_the_home_goes_on_with(
    plan: Plan, state: SwitchState, tmp_path: Path
) -> None:
    queries, query = begun(tmp_path)
    went(query, 1, SwitchState.PREPARING, SwitchState.SWITCHING)
    queries.close()
    again = Queries("cam", tmp_path, AtOnce(), life=2, durable=True)
    again.recover()
    again.go_on("cam-1-1", plan, 9000)
    found = again.by_id["cam-1-1"]
    (change,) = found.switches
    assert (change.state, change.reason, change.ended_ms) == (state, "site cam was restarted", 9000)
    assert found.planned == Planned(plan)
    assert found.about.plan_text == describe(plan)


def test_a_query_that_ends_amid_a_switch_ends_the_switch(tmp_path: Path) -> None:
    queries, query = begun(tmp_path)
    went(query, 1, SwitchState.PREPARING)
    queries.end_switch(query.query_id, "the query was dropped", 9000)
    assert query.switches.under_way is None
    (change,) = query.switches
    assert (change.state, change.reason) == (SwitchState.GIVEN_UP, "the query was dropped")


def test_a_switch_that_is_refused_as_it_is_asked_for_is_no_history(tmp_path: Path) -> None:
    _, query = begun(tmp_path)
    went(query, 1, SwitchState.GIVEN_UP, reason="it is that plan already")
    assert list(query.switches) == []


@pytest.mark.parametrize("adaptive", [True, False])
def test_whether_a_query_may_change_its_plan_by_itself_outlives_the_daemon(tmp_path: Path, adaptive: bool) -> None:
    queries, query = begun(tmp_path)
    query.may_adapt(not adaptive)
    query.may_adapt(adaptive)
    queries.close()
    again = Queries("cam", tmp_path, AtOnce(), life=2, durable=True)
    again.recover()
    assert again.by_id["cam-1-1"].adaptive == adaptive
