"""What is told of a query that goes over to another plan: how far it is, for whom it waits, and what it took."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from node.core.effects import ReportSwitch, SwitchState
from node.io.planning.outcome import NO_FORECAST, Planned
from node.io.reports.explanation import explained
from node.io.reports.switch_report import history_dicts, history_lines, measured_rate, switch_status
from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.rpc import control_pb2 as pb
from planner.model.query import Algorithm
from tests.unit.files import AtOnce
from tests.unit.sites import Cluster

#: 2026-11-19 04:26:40 UTC.
BEGUN_MS = 1_795_062_400_000


class Going:
    """A query of real sites that goes over to another plan, message by message, and what its home's daemon keeps."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster()
        self.cluster.issue("cam", Algorithm.SP_D)
        self.cluster.settle()
        self.queries = Queries("cam", folder, AtOnce())
        self.query: IssuedQuery = self.queries.new(Planned(self.cluster.plan("cam")))
        self.home = self.cluster.sites["cam"].homes["q1"]

    def replan(self) -> None:
        self.cluster.replan("cam", Algorithm.SP_S)
        self.tell(SwitchState.PREPARING, 0)

    def tell(self, state: SwitchState, later_ms: int, reason: str = "") -> None:
        plan = self.cluster.plan("cam", Algorithm.SP_S)
        report = ReportSwitch(self.query.query_id, 7, state, plan, "it is cheaper", reason)
        self.query.report_switch(report, NO_FORECAST, BEGUN_MS + later_ms)

    def until(self, happened: Callable[[], bool]) -> None:
        """What is on its way arrives, one thing after the other, until something has happened."""
        while not happened():
            pair = next((pair for pair, mail in self.cluster.mail.items() if mail), None)
            if pair is not None:
                self.cluster.deliver(*pair)
            else:
                self.cluster.answer(next(site for site, answers in self.cluster.answers.items() if answers))

    def status(self, later_ms: int = 0) -> pb.SwitchStatus:
        found = switch_status(self.query, self.home, BEGUN_MS + later_ms)
        assert found is not None
        return found


@pytest.fixture
def going(tmp_path: Path) -> Going:
    return Going(tmp_path)


def test_a_query_that_never_went_over_says_nothing(going: Going) -> None:
    assert switch_status(going.query, going.home, BEGUN_MS) is None


def test_while_it_prepares_the_sites_are_named_that_are_waited_for(going: Going) -> None:
    going.replan()
    status = going.status(2_500)
    assert (status.state, status.why, status.seconds) == ("preparing", "it is cheaper", 2.5)
    assert (list(status.waiting_for), status.filling) == (["ash", "bow"], False)
    assert (status.before != status.after, status.HasField("ended_ms")) == (True, False)
    going.until(lambda: len(going.status().waiting_for) == 1)
    assert not going.status().filling
    going.until(lambda: going.status().filling)
    assert list(going.status().waiting_for) == ["ash", "bow"]
    going.until(lambda: len(going.status().waiting_for) == 1)


def test_while_it_goes_over_the_heads_are_named_that_the_plan_before_has_yet_to_end(going: Going) -> None:
    going.cluster.arrive("l", 3, 5)
    going.cluster.settle()
    going.replan()
    switch = going.home.switch
    assert switch is not None
    going.until(lambda: switch.state is SwitchState.SWITCHING)
    going.tell(SwitchState.SWITCHING, 100)
    assert list(going.status().heads) == ["a", "b"]
    assert list(going.status().waiting_for) == []
    going.cluster.settle()
    assert going.home.switch is None
    going.tell(SwitchState.SWITCHED, 1_200)
    status = going.status(3_200)
    assert (status.state, status.seconds, status.ended_ms - status.begun_ms) == ("switched", 2.0, 1_200)
    assert list(status.heads) == []


def counted(run: str, nbytes: int, purpose: str = "step") -> pb.TrafficStatus:
    return pb.TrafficStatus(query_id=run, purpose=purpose, name="a", number=0, bytes=nbytes, kind="tuples", peer="bow")


def test_what_each_plan_took_is_measured_by_its_own_run() -> None:
    ash = pb.StatusReply(
        site="ash",
        traffic=[counted("q", 400), counted("q~2", 30), counted("q", 1_000_000, "control"), counted("r", 5_000)],
        views=[
            pb.ViewStatus(query_id="q", run="q", alias="a", span_us=4_000_000),
            pb.ViewStatus(query_id="q", run="q~2", alias="a", span_us=1_000_000),
        ],
    )
    bow = pb.StatusReply(site="bow", traffic=[counted("q~2", 20)])
    assert measured_rate("q", [ash, bow]) == 100.0
    assert measured_rate("q~2", [ash, bow]) == 50.0
    assert measured_rate("q~9", [ash, bow]) is None


def test_a_daemon_of_the_version_before_counts_for_the_query() -> None:
    old = pb.StatusReply(
        site="ash", traffic=[counted("q", 60)], views=[pb.ViewStatus(query_id="q", alias="a", span_us=2_000_000)]
    )
    assert measured_rate("q", [old]) == 30.0


def test_the_history_says_when_from_what_to_what_why_and_what_it_took(going: Going) -> None:
    going.replan()
    going.tell(SwitchState.SWITCHING, 100)
    going.tell(SwitchState.SWITCHED, 1_500)
    (change,) = going.query.switches
    change.expected_before, change.expected_after = 1_000.0, 250.0
    views = [pb.ViewStatus(query_id="q", run=change.run_before, alias="a", span_us=1_000_000)]
    status = pb.StatusReply(site="ash", traffic=[counted(change.run_before, 900)], views=views)
    text = history_lines([change], [status])
    assert text == [
        "plans that it went over to, or was to, newest first",
        "  2026-11-19 04:26:40 UTC  switched after 1.5 s: it is cheaper",
        f"    from      {change.before_brief}",
        f"    to        {change.after_brief}",
        "    expected  1,000 bytes/s before, 250 bytes/s after",
        "    measured  900 bytes/s before, unknown after",
    ]
    (told,) = history_dicts([change], [status])
    assert (told["from"], told["to"], told["why"]) == (change.before, change.after, "it is cheaper")
    assert told["measured_bytes_per_s"] == {"from": 900.0, "to": None}
    assert told["expected_bytes_per_s"] == {"from": 1_000.0, "to": 250.0}


def test_explain_has_the_history_and_the_warning_that_figures_are_of_two_plans(going: Going) -> None:
    going.replan()
    going.tell(SwitchState.GIVEN_UP, 300, "no word of bow")
    assert going.query.planned is not None
    mixed = ["what was measured is of both plans"]
    reply = explained(going.query.planned, None, "cam-1-1", [], mixed, changes=[*going.query.switches])
    assert "given up after 0.3 s (no word of bow): it is cheaper" in reply.text
    assert "warning: what was measured is of both plans" in reply.text
