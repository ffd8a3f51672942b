"""Plans in files: what is written can be read back, and what is wrong is said where it is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.planner_cases import wire_case
from planner.errors import PlanError
from planner.model import Algorithm
from planner.plan_file import read_plan
from planner.plans import forced_plan, plan_dict, ship_all_plan

CASE = wire_case(np.random.default_rng(3), "chain", 3)
QUERY = CASE.query
SINK = QUERY.ref("s1").stream.site


@pytest.mark.parametrize("algorithm", tuple(Algorithm))
def test_what_plan_dict_writes_is_read_back(algorithm: Algorithm) -> None:
    plan = forced_plan(QUERY, SINK, algorithm)
    assert read_plan(json.dumps(plan_dict(plan)), QUERY, SINK) == plan


def test_a_plan_that_starts_elsewhere_is_read_back() -> None:
    plan = ship_all_plan(QUERY, SINK)
    read = read_plan(json.dumps(plan_dict(plan)), QUERY, SINK)
    assert plan_dict(read) == plan_dict(plan)
    assert read.sequence("s0").start == SINK


def test_toml_may_leave_out_what_follows_from_the_query_and_order_of_heads() -> None:
    text = "\n".join(
        f'[[sequences]]\nhead = "{head}"\nsteps = [{", ".join(steps)}]'
        for head, steps in {
            "s2": ['{alias = "s1", algorithm = "sm-d1"}', '{alias = "s0", algorithm = "SP-S"}'],
            "s0": ['{alias = "s1", algorithm = "SM-S1"}', '{alias = "s2", algorithm = "SP-D"}'],
            "s1": ['{alias = "s2", algorithm = "SP-D"}', '{alias = "s0", algorithm = "SP-D"}'],
        }.items()
    )
    plan = read_plan(text, QUERY, SINK)
    assert [sequence.head for sequence in plan.sequences] == ["s0", "s1", "s2"]
    assert plan.sequence("s2").steps[0].algorithm is Algorithm.SM_D1
    assert plan.sequence("s2").start is None


def _changed(**changes: object) -> str:
    document = plan_dict(forced_plan(QUERY, SINK, Algorithm.SP_D))
    sequences = document["sequences"]
    assert isinstance(sequences, list)
    first = sequences[0]
    for name, value in changes.items():
        if name == "step":
            first["steps"][0] |= value
        elif name in ("sink", "sequences"):
            document[name] = value
        else:
            first[name] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "JSON that cannot be read"),
        ("[1, 2]", "not a table but [1, 2]"),
        ("heads = ", "TOML that cannot be read"),
        (_changed(sequences=None), "required sequences, a list of tables, got nothing"),
        (_changed(sequences=[]), 'got none for "s0"'),
        (_changed(sink="mars"), 'required the sink "n1"'),
        (_changed(head="x"), 'sequence 1: required a head out of s0, s1, s2, got "x"'),
        (_changed(head="s1"), 'several for "s1"'),
        (_changed(start=7), "required the name of a site as start, got 7"),
        (_changed(start="mars"), 'required a start at the sink or at a stream\'s site, got "mars"'),
        (_changed(steps="s1"), "required steps, a list of tables"),
        (_changed(step={"alias": 3}), "step 1: required the alias of a stream, got 3"),
        (_changed(step={"alias": "s2"}), 'head "s0"'),
        (_changed(step={"algorithm": "SP-X"}), "step 1: required an algorithm out of SP-S, SP-D"),
        (_changed(step={"site": "mars"}), 'required that "s1" is joined at n1'),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(PlanError) as raised:
        read_plan(text, QUERY, SINK)
    assert said in str(raised.value)
