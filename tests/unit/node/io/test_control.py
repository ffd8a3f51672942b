"""What a daemon answers to who wants another plan for a query."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import grpc
import pytest

from node.core.effects import QueryState, ReportSwitch, SwitchState
from node.core.links.link_states import LinkState
from node.io.control import Control
from node.io.planning.outcome import Forecast, Planned
from node.io.results.issued_queries import Queries
from node.rpc import control_pb2 as pb
from planner.model.query import Algorithm, Plan, Policy, PolicyName
from tests.unit.files import AtOnce
from tests.unit.sites import Cluster

PLAN = Cluster().plan("cam")
OTHER = Cluster().plan("cam", Algorithm.SM_S1)


class AbortedError(Exception):
    """The call was refused."""


class Context:
    async def abort(self, code: grpc.StatusCode, text: str) -> NoReturn:
        raise AbortedError(code, text)


class Desk:
    """Finds one plan, and knows no costs."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def replan(self, _: Plan, __: pb.IssueRequest) -> tuple[Planned, None]:
        return Planned(self._plan), None


class Daemon:
    def __init__(self, folder: Path, found: Plan = OTHER, runs_by: Plan = PLAN) -> None:
        self.asked: list[tuple[str, Plan, str]] = []
        self.refusal = ""
        site = SimpleNamespace(name="cam", homes={})
        links = {name: SimpleNamespace(state=LinkState.UP) for name in ("ash", "bow")}
        stack = SimpleNamespace(site=site, links=links, tau_ms=100)
        runner = SimpleNamespace(stack=stack, replan=self._replan)
        nothing = cast("Any", None)
        self.queries = Queries("cam", folder, AtOnce())
        self.query = self.queries.new(Planned(runs_by))
        self.queries.report(self.query.query_id, QueryState.RUNNING, "")
        desk = cast("Any", Desk(found))
        transport = cast("Any", SimpleNamespace(trouble={}))
        self.control = Control(cast("Any", runner), transport, nothing, nothing, self.queries, desk, lambda: None)

    async def _replan(self, query_id: str, plan: Plan, why: str, _: Forecast) -> ReportSwitch:
        self.asked.append((query_id, plan, why))
        state = SwitchState.GIVEN_UP if self.refusal else SwitchState.PREPARING
        return ReportSwitch(query_id, 7, state, plan, why, self.refusal)

    def replan(self, query_id: str = "cam-1-1", **fields: Any) -> pb.ReplanReply:
        request = pb.ReplanRequest(query_id=query_id, **fields)
        return asyncio.run(self.control.Replan(request, cast("Any", Context())))

    def refused(self, query_id: str = "cam-1-1") -> tuple[grpc.StatusCode, str]:
        with pytest.raises(AbortedError) as raised:
            self.replan(query_id)
        code, text = raised.value.args
        return code, text


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    return Daemon(tmp_path)


def test_another_plan_is_asked_for_with_the_reason_and_has_a_number(daemon: Daemon) -> None:
    reply = daemon.replan(why="it is night")
    assert (reply.number, reply.same, reply.before.text != reply.after.text) == (7, False, True)
    daemon.replan()
    assert daemon.asked == [("cam-1-1", OTHER, "it is night"), ("cam-1-1", OTHER, "asked for by a user")]


def test_a_dry_run_and_the_same_plan_ask_for_nothing(daemon: Daemon, tmp_path: Path) -> None:
    assert daemon.replan(dry_run=True).number == 0
    same = Daemon(tmp_path / "same", found=PLAN)
    assert (same.replan().same, same.asked, daemon.asked) == (True, [], [])


def test_a_query_that_has_ended_is_refused(daemon: Daemon) -> None:
    daemon.queries.report("cam-1-1", QueryState.COMPLETED, "")
    code, text = daemon.refused()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "requires for another plan that it runs; got one that has completed" in text


def test_what_the_core_refuses_is_refused_with_its_reason(daemon: Daemon) -> None:
    daemon.refusal = "it goes over already"
    assert daemon.refused() == (grpc.StatusCode.FAILED_PRECONDITION, "it goes over already")


def test_policy_delta_is_not_right(daemon: Daemon, tmp_path: Path) -> None:
    by_clock = Plan(PLAN.query, PLAN.sink, PLAN.sequences, Policy(PolicyName.DELTA, 1_000))
    code, text = Daemon(tmp_path / "delta", runs_by=by_clock).refused()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "policy frontier" in text


def test_a_query_of_another_home_says_which_and_an_unknown_one_which_there_are(daemon: Daemon) -> None:
    assert daemon.refused("bow-1-1") == (
        grpc.StatusCode.NOT_FOUND,
        "query bow-1-1 requires its home, which is bow; got site cam",
    )
    assert "required one of cam-1-1" in daemon.refused("cam-1-9")[1]


@pytest.mark.parametrize(
    ("before", "plan", "after"),
    [
        (True, pb.IssueRequest(), True),
        (True, pb.IssueRequest(algorithm="SM-S1"), False),
        (True, pb.IssueRequest(algorithm="SM-S1", adaptive=True), True),
        (False, pb.IssueRequest(), False),
        (False, pb.IssueRequest(adaptive=True), True),
        (True, pb.IssueRequest(adaptive=False), False),
    ],
)
@pytest.mark.parametrize("found", [OTHER, PLAN], ids=["another plan", "the same plan"])
def test_a_query_keeps_a_plan_that_is_named_unless_somebody_says_otherwise(
    tmp_path: Path, before: bool, plan: pb.IssueRequest, after: bool, found: Plan
) -> None:
    daemon = Daemon(tmp_path, found)
    query = daemon.query
    query.may_adapt(before)
    daemon.replan(plan=plan, dry_run=True)
    assert query.adaptive == before
    daemon.replan(plan=plan)
    assert query.adaptive == after
