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
from tests.chaos.switches import BY_A_LOSS, GIVEN_UP, KINDS, WENT_OVER, any_plan, kind_of, switch_lines

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
    assert kind_of(pb.SwitchStatus(state=state, reason=reason)) == kind


def test_the_figures_say_how_many_of_each() -> None:
    text = switch_lines({kind: number for number, kind in enumerate(KINDS, 1)})[0]
    assert "asked 15 times" in text
    assert all(f"{number} {kind}" in text for number, kind in enumerate(KINDS, 1))
    assert switch_lines({}) == []
