"""The plans that chaos asks for are valid, and what became of a switch is known by what home says of it."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from node.rpc import control_pb2 as pb
from planner.model.plan_file import read_plan
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.chaos.load import Query, load
from tests.chaos.switches import (
    BY_A_LOSS,
    BY_HAND,
    BY_ITSELF,
    CUT,
    GIVEN_UP,
    KILLED,
    UNKNOWN,
    WENT_OVER,
    WHY,
    SwitchFigures,
    Trouble,
    any_plan,
    figures_of,
    kind_of,
    switch_lines,
    without_names,
)

GIVEN = load(1, 10)
SCHEMA = pa.schema([("seq", pa.int64()), ("ts", pa.int64()), ("k", pa.int64()), ("pad", pa.string())])


@pytest.mark.parametrize("query", [GIVEN.pair, GIVEN.triple], ids=["two", "three"])
def test_every_plan_that_is_drawn_is_one_of_the_query(query: Query) -> None:
    catalogue = {each.name: StreamInfo(each.name, each.site, SCHEMA, "ts", TimeUnit.MS) for each in query.streams}
    parsed = parse_query(query.text, catalogue)
    draw = random.Random(1)
    plans = {read_plan(any_plan(draw, parsed.aliases, "gamma"), parsed, "gamma").sequences for _ in range(200)}
    assert len(plans) > 30


@pytest.mark.parametrize(
    ("state", "reason", "kind"),
    [
        ("switched", "", WENT_OVER),
        ("switched", "site beta: the daemon was restarted and lost what it held", BY_A_LOSS),
        ("given up", "site gamma was restarted", BY_A_LOSS),
        ("given up", "another plan requires every site ready within 60 s; got no word of beta", GIVEN_UP),
    ],
)
def test_what_became_of_a_switch(state: str, reason: str, kind: str) -> None:
    assert kind_of(pb.SwitchStatus(state=state, reason=reason, ended_ms=1)) == kind
    assert kind_of(pb.SwitchStatus(state=state, reason=reason)) == UNKNOWN


def status(begun_ms: int, ended_ms: int, why: str = WHY, state: str = "switched", reason: str = "") -> pb.SwitchStatus:
    return pb.SwitchStatus(state=state, why=why, reason=reason, begun_ms=begun_ms, ended_ms=ended_ms)


def test_the_figures_say_who_began_them_what_became_of_them_and_what_happened_meanwhile() -> None:
    late = "another plan requires every site ready within 60 s; got no word of {}"
    told = [
        status(100, 200),
        status(300, 400, why="it is cheaper"),
        status(500, 600, state="given up", reason=late.format("beta")),
        status(500, 700, state="given up", reason=late.format("alpha, gamma")),
        pb.SwitchStatus(state="switching", why=WHY, begun_ms=900),
        None,
    ]
    troubles = [Trouble(CUT, 150, 320), Trouble(CUT, 160, 170), Trouble(KILLED, 650, 1_000)]
    found = figures_of(told, {"no": 7}, troubles)
    assert (found.begun(BY_HAND), found.begun(BY_ITSELF)) == (5, 1)
    assert found.counts == {
        (BY_HAND, WENT_OVER): 1,
        (BY_ITSELF, WENT_OVER): 1,
        (BY_HAND, GIVEN_UP): 2,
        (BY_HAND, UNKNOWN): 2,
    }
    assert found.meanwhile == {(BY_HAND, CUT): (1, 1), (BY_ITSELF, CUT): (1, 1), (BY_HAND, KILLED): (2, 0)}
    text = "\n".join(switch_lines(found))
    assert f"| {BY_HAND} | 5 | 1 | 2 | 0 | 2 | 1 (1) | 2 (0) |" in text
    assert f"| {BY_ITSELF} | 1 | 1 | 0 | 0 | 0 | 1 (1) | 0 (0) |" in text
    assert "| another plan requires every site ready within N s; got no word of SITE | 1 |" in text
    assert "| another plan requires every site ready within N s; got no word of SITES | 1 |" in text
    assert "| no | 7 |" in text
    assert switch_lines(SwitchFigures()) == []


def test_a_reason_is_the_same_whichever_query_it_is_about() -> None:
    text = "query {} requires for another plan that it is not going over to one; got one that is, because: {}"
    one, other = text.format("gamma-1nfvvgv-1", "x"), text.format("alpha-1nfvvg0-2~1r5wq3p0001", "y 3")
    assert without_names(one) == without_names(other)
    assert without_names("a\nsite beta is required by the query; it cannot be reached now").startswith("site SITE is")
