from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from node.core.effects import QueryState, ReportStatistics
from node.core.queries.shape import shape_of
from node.io.planning.outcome import Planned
from node.io.planning.plan_desk import OPTIMAL_STREAMS_MAX, SEARCHES_MAX, PlanDesk, _options
from node.rpc import control_pb2 as pb
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import RunningCopy, copy_of
from planner.model.errors import PlanError
from planner.model.kept import inner_query, outer_query, tree_plan
from planner.model.plans import forced_plan
from planner.model.query import (
    Algorithm,
    JoinQuery,
    KeptJoin,
    Plan,
    Policy,
    PolicyName,
    RangeWindow,
    StreamInfo,
    StreamRef,
)
from planner.model.time_unit import TimeUnit
from planner.search.choice import Model, Search
from planner.sql.parser import parse_query
from tests.unit.sites import Cluster

SITES = ("ash", "bow", "cam")


def query(streams: int) -> JoinQuery:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    infos = [StreamInfo(f"s{place}", "ash", schema, "ts", TimeUnit.MS) for place in range(streams)]
    return JoinQuery("", tuple(StreamRef(info.name, info, RangeWindow(1)) for info in infos), (), ())


def test_many_streams_are_planned_greedily_unless_a_search_is_asked_for() -> None:
    nothing = pb.IssueRequest(text="")
    assert _options(nothing, query(OPTIMAL_STREAMS_MAX)).search is Search.OPTIMAL
    assert _options(nothing, query(OPTIMAL_STREAMS_MAX + 1)).search is Search.GREEDY
    asked = pb.IssueRequest(text="", search="exhaustive", cost="paper")
    options = _options(asked, query(OPTIMAL_STREAMS_MAX + 1))
    assert (options.search, options.model) == (Search.EXHAUSTIVE, Model.PAPER)


def test_long_searches_keep_no_thread_from_rows_status_and_queries_that_need_none() -> None:
    """As many as would take every thread that asyncio has for all."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    catalogue = {name: StreamInfo(name, "ash", schema, "ts", TimeUnit.MS) for name in ("l", "r")}
    runner = SimpleNamespace(stack=SimpleNamespace(site=SimpleNamespace(name="ash", catalogue=catalogue)))
    text = "SELECT a.k FROM l [RANGE 1 S] AS a JOIN r [RANGE 1 S] AS b ON a.k = b.k"
    over, begun = threading.Event(), threading.Semaphore(0)

    def search() -> str:
        begun.release()
        over.wait()
        return "found"

    async def ask() -> None:
        desk = PlanDesk(cast("Any", runner), cast("Any", None))
        searches = [asyncio.create_task(desk.search(search)) for _ in range(100)]
        try:
            for _ in range(SEARCHES_MAX):
                await asyncio.to_thread(begun.acquire)
            request = pb.IssueRequest(text=text, algorithm="SP-D")
            planned = await desk.plan(request, lambda _: None, explained=False)
            assert planned.plan.sink == "ash"
            assert await asyncio.to_thread(lambda: "rows") == "rows"
            assert not any(search.done() for search in searches)
        finally:
            over.set()
        assert await asyncio.gather(*searches) == ["found"] * 100
        desk.close()

    asyncio.run(ask())


class Asked:
    """What a desk asks of its runner; every site says the same."""

    def __init__(self, missing: dict[str, str], copies: tuple[RunningCopy, ...]) -> None:
        self.stack = SimpleNamespace(site=SimpleNamespace(name="cam"))
        self._found = ReportStatistics("r", {}, {}, missing, copies)

    async def statistics(self, _: JoinQuery) -> ReportStatistics:
        return self._found


def desk(missing: dict[str, str], copies: tuple[RunningCopy, ...] = ()) -> PlanDesk:
    config = SimpleNamespace(links=(), sites=(), tau_ms=100)
    return PlanDesk(cast("Any", Asked(missing, copies)), cast("Any", config))


def test_copies_of_a_query_that_runs_are_not_taken_for_copies_that_cost_nothing() -> None:
    plan = Cluster().plan("cam", Algorithm.SM_D1)
    own = tuple(copy_of(plan.query, need.kind, need.alias, need.keys, need.holder) for need in shape_of(plan).needs)
    other = copy_of(plan.query, CopyKind.FULL, "a", (), "bow")
    assert len(own) == 2
    asked = desk({}, (*own, other))
    statistics, _, _ = asyncio.run(asked._measured(plan.query, plan))
    assert statistics.copies == (other,)
    statistics, _, _ = asyncio.run(asked._measured(plan.query))
    assert statistics.copies == (*own, other), "of another query they would be there anyway"


def test_a_query_that_does_not_go_over_to_other_plans_is_not_looked_at_for_one_whoever_asks() -> None:
    desk = PlanDesk(cast("Any", None), cast("Any", None))
    asked, plan = pb.IssueRequest(adaptive=True), Cluster().plan("cam")
    assert desk.is_adaptive(asked, Planned(plan))
    assert not desk.is_adaptive(asked, Planned(replace(plan, policy=Policy(PolicyName.DELTA))))
    assert not desk.is_adaptive(asked, Planned(replace(plan, kept=(KeptJoin("pairs", ("a", "b"), "ash", ()),))))
    desk.close()


def test_without_what_streams_are_like_another_plan_can_be_given_but_not_chosen() -> None:
    plan = Cluster().plan("cam", Algorithm.SM_D1)
    asked = desk({"b": "site bow did not answer within 5 s"})
    planned, before = asyncio.run(asked.replan(plan, pb.IssueRequest(algorithm="SP-S")))
    assert planned.plan == Cluster().plan("cam", Algorithm.SP_S)
    assert (planned.choice, before) == (None, None)
    assert planned.warnings == ('stream "b": site bow did not answer within 5 s',)
    with pytest.raises(PlanError, match="chosen by cost requires what its streams are like"):
        asyncio.run(asked.replan(plan, pb.IssueRequest()))


def tree() -> Plan:
    """Three streams, two of which are joined and kept."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    catalogue = {
        name: StreamInfo(name, site, schema, "ts", TimeUnit.MS) for name, site in zip("lmr", SITES, strict=True)
    }
    text = (
        "SELECT a.k FROM l [RANGE 1 S] AS a JOIN m [RANGE 1 S] AS b ON a.k = b.k JOIN r [RANGE 1 S] AS c ON b.k = c.k"
    )
    asked = parse_query(text, catalogue)
    join = KeptJoin("a_b", ("a", "b"), "bow", ())
    made = replace(join, sequences=forced_plan(inner_query(asked, join), "bow", Algorithm.SM_D1).sequences)
    return tree_plan(asked, "cam", forced_plan(outer_query(asked, (made,)), "cam", Algorithm.SM_S1).sequences, (made,))


def test_a_query_by_a_tree_keeps_its_plan_by_itself_even_if_it_was_to_be_adaptive() -> None:
    planned, plain = Planned(tree()), Planned(Cluster().plan("cam", Algorithm.SM_D1))
    asked = pb.IssueRequest(adaptive=True)
    assert not desk({}).is_adaptive(asked, planned)
    assert desk({}).is_adaptive(asked, plain)
    query = SimpleNamespace(state=QueryState.RUNNING, adaptive=False, planned=planned)
    assert desk({}).outlook(cast("Any", query)) == "no, a plan that keeps joins changes by hand alone"


def test_copies_of_what_makes_a_kept_join_are_the_querys_own_too() -> None:
    plan = tree()
    (inner,) = plan.inners
    own = copy_of(inner.query, CopyKind.KEYS, "b", ("k",), "ash")
    other = copy_of(inner.query, CopyKind.FULL, "a", (), "bow")
    statistics, _, _ = asyncio.run(desk({}, (own, other))._measured(plan.asked, plan))
    assert statistics.copies == (other,)
