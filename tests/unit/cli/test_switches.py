"""What a person is told of a query that goes over to another plan."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cli.exit_codes import DONE, INTERRUPTED
from cli.show.diagnosis import diagnosis
from cli.show.switches import NEWS_S, progress_text, switch_notes, switch_state
from cli.tasks.replan import replan
from node.client import Client
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError

WAYS = "from l(SP-D), to l(SP-S)"


def switch(state: str, **fields: Any) -> pb.SwitchStatus:
    usual = {"number": 7, "why": "it is cheaper", "before": "l(SP-D)", "after": "l(SP-S)", "begun_ms": 1_000}
    return pb.SwitchStatus(state=state, **{**usual, **fields})


def query(last: pb.SwitchStatus | None) -> pb.QueryBrief:
    return pb.QueryBrief(query_id="q", state="running", last_switch=last)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            switch("preparing", waiting_for=["bow"]),
            "prepares for another plan: bow did not say yet that it is ready",
        ),
        (
            switch("preparing", waiting_for=["ash", "bow"], filling=True),
            "prepares for another plan: ash, bow fill what it needs there",
        ),
        (
            switch("switching", heads=["a"]),
            "goes over to another plan: a by the plan before until what is under way is done",
        ),
    ],
)
def test_what_is_under_way_says_for_whom_it_waits(status: pb.SwitchStatus, text: str) -> None:
    assert progress_text(status) == text


def test_a_site_that_is_away_is_said_with_why_if_it_is_waited_for() -> None:
    away = [pb.AwaySite(site="bow", trouble="refused"), pb.AwaySite(site="cam", trouble="refused")]
    said = progress_text(switch("preparing", waiting_for=["bow"]), away)
    assert said.endswith("; bow is away (refused)")
    assert "cam" not in said


def test_what_is_under_way_is_told_and_what_was_for_a_while() -> None:
    over = {"ended_ms": 3_000, "seconds": NEWS_S - 1}
    (now,) = switch_notes([query(switch("preparing", waiting_for=["bow"], seconds=3.0))])
    assert now.startswith("note: query q prepares for another plan: bow")
    assert now.endswith(f"; for 3 s, because: it is cheaper; {WAYS}")
    (went,) = switch_notes([query(switch("switched", **over))])
    assert went == f"note: query q went over to another plan 59 s ago, because: it is cheaper; {WAYS}"
    (stayed,) = switch_notes([query(switch("given up", reason="no word of bow", **over))])
    assert stayed == (
        "note: query q stays with its plan: another one was given up 59 s ago (no word of bow), because: it is cheaper"
    )
    assert list(switch_notes([query(switch("switched", ended_ms=3_000, seconds=NEWS_S)), query(None)])) == []


def test_the_state_says_it_in_few_words_while_it_goes_on() -> None:
    assert switch_state(query(switch("preparing"))) == "running, prepares for another plan"
    assert switch_state(query(switch("switching"))) == "running, goes over to another plan"
    assert switch_state(query(switch("switched", ended_ms=3_000))) == "running"
    assert switch_state(query(None)) == "running"


def test_it_is_no_trouble_so_all_is_well_beside_it() -> None:
    site = pb.StatusReply(site="ash", queries=[query(switch("preparing", waiting_for=["bow"]))])
    first, second = diagnosis({"ash": site}, 100)
    assert first.startswith("all is well")
    assert second.startswith("note: query q prepares for another plan")


class Home:
    """Takes a question, and then says one thing after the other."""

    def __init__(self, *said: pb.SwitchStatus | str, same: bool = False) -> None:
        self.said = list(said)
        self._same = same
        self.site = "ash"
        self.patience: object = None

    def replan(self, request: pb.ReplanRequest) -> pb.ReplanReply:
        cost = pb.PlanCost(text="l by SP-D", brief="l(SP-D)", json="{}", bytes_per_s=1_000.0)
        number = 0 if self._same or request.dry_run else 7
        return pb.ReplanReply(before=cost, after=cost, same=self._same, number=number)

    def query(self, query_id: str) -> pb.QueryInfo:
        last = self.said.pop(0)
        if isinstance(last, str):
            return pb.QueryInfo(query_id=query_id, state=last, last_switch=switch("preparing"))
        return pb.QueryInfo(query_id=query_id, state="running", last_switch=last)


def asked(home: Home, *, dry_run: bool = False, as_json: bool = False) -> int:
    request = pb.ReplanRequest(query_id="q", dry_run=dry_run)
    return replan(cast("Client", home), request, as_json=as_json, sleep=lambda _: None)


def test_it_is_watched_until_it_is_over_and_each_news_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    prepares, goes_over = switch("preparing", waiting_for=["bow"]), switch("switching")
    home = Home(prepares, prepares, goes_over, switch("switched", ended_ms=2_500))
    assert asked(home) == DONE
    said = capsys.readouterr().err
    assert said.count("prepares for another plan") == 1
    assert "query q runs by the other plan, after 1.5 s" in said
    assert home.said == []


def test_one_that_is_given_up_is_an_error_with_the_reason() -> None:
    home = Home(switch("given up", ended_ms=2_500, reason="no word of bow"))
    with pytest.raises(NarrowsError, match="query q goes on by the plan that it had: no word of bow"):
        asked(home)


def test_a_query_that_ends_or_goes_to_yet_another_plan_is_watched_no_more() -> None:
    with pytest.raises(NarrowsError, match="query q dropped, before it went over"):
        asked(Home("dropped"))
    with pytest.raises(NarrowsError, match="goes to yet another plan"):
        asked(Home(switch("preparing", number=8)))


def test_ctrl_c_stops_watching_and_says_that_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    class Pressed(Home):
        def query(self, query_id: str) -> pb.QueryInfo:
            raise KeyboardInterrupt

    assert asked(Pressed()) == INTERRUPTED
    assert "query q goes on, and to the other plan too" in capsys.readouterr().err


def test_the_same_plan_and_a_dry_run_change_nothing_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(Home(same=True)) == DONE
    assert "that is the plan that was asked for: nothing is to be done" in capsys.readouterr().out
    assert asked(Home(), dry_run=True) == DONE
    assert "nothing is changed: --dry-run" in capsys.readouterr().out
