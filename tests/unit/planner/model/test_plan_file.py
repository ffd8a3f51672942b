"""Plans in files: what is written can be read back, and what is wrong is said where it is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.planner.cases import wire_case
from planner.algorithms.descriptions import Algorithm
from planner.model.errors import PlanError
from planner.model.plan_file import read_plan
from planner.model.plans import forced_plan, plan_dict, ship_all_plan
from planner.model.query import FRONTIER_POLICY, Policy, PolicyName

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
    assert read == plan
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


DELTA, MEASURED = Policy(PolicyName.DELTA, 250_000), Policy(PolicyName.DELTA)


@pytest.mark.parametrize("policy", [FRONTIER_POLICY, DELTA, MEASURED])
def test_a_plan_keeps_the_policy_it_was_written_with(policy: Policy) -> None:
    plan = forced_plan(QUERY, SINK, Algorithm.SM_D1, policy)
    text = json.dumps(plan_dict(plan))
    assert read_plan(text, QUERY, SINK) == plan
    assert read_plan(text, QUERY, SINK, policy) == plan


def test_a_plan_without_a_policy_has_the_one_that_is_asked_for() -> None:
    document = plan_dict(forced_plan(QUERY, SINK, Algorithm.SP_D, DELTA))
    del document["policy"]
    text = json.dumps(document)
    assert read_plan(text, QUERY, SINK).policy == FRONTIER_POLICY
    assert read_plan(text, QUERY, SINK, DELTA).policy == DELTA


@pytest.mark.parametrize("asked", [DELTA, MEASURED])
@pytest.mark.parametrize("written", [DELTA, MEASURED])
def test_a_delta_that_only_one_of_file_and_asker_knows_counts(written: Policy, asked: Policy) -> None:
    text = json.dumps(plan_dict(forced_plan(QUERY, SINK, Algorithm.SP_D, written)))
    assert read_plan(text, QUERY, SINK, asked).policy == (MEASURED if written == asked == MEASURED else DELTA)


@pytest.mark.parametrize(
    ("written", "asked", "said"),
    [
        (
            DELTA,
            FRONTIER_POLICY,
            "required the policy that is asked for, frontier, got delta=250 ms: ask for --policy delta=250ms",
        ),
        (
            FRONTIER_POLICY,
            MEASURED,
            "required the policy that is asked for, delta, got frontier: ask for --policy frontier",
        ),
        (DELTA, Policy(PolicyName.DELTA, 1), "required the policy that is asked for, delta=1 us, got delta=250 ms"),
    ],
)
def test_a_policy_that_contradicts_the_one_asked_for_is_refused(written: Policy, asked: Policy, said: str) -> None:
    text = json.dumps(plan_dict(forced_plan(QUERY, SINK, Algorithm.SP_D, written)))
    with pytest.raises(PlanError) as raised:
        read_plan(text, QUERY, SINK, asked)
    assert said in str(raised.value)


def _changed(**changes: object) -> str:
    document = plan_dict(forced_plan(QUERY, SINK, Algorithm.SP_D))
    sequences = document["sequences"]
    assert isinstance(sequences, list)
    first = sequences[0]
    for name, value in changes.items():
        if name == "step":
            first["steps"][0] |= value
        elif name in ("sink", "sequences", "policy", "policies"):
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
        (_changed(step={"algorithm": "SP-X"}), "step 1, algorithm: required one of SP-S, SP-D"),
        (_changed(step={"site": "mars"}), 'required that "s1" is joined at n1'),
        (_changed(step={"algorithm": 7}), "step 1: required the name of an algorithm, got 7"),
        (_changed(policies=1), "plan file: required no keys but sequences, sink, policy, "),
        (_changed(policies=1), 'got "policies"; did you mean policy?'),
        (
            _changed(starts="n1"),
            'head "s0": required no keys but head, start, steps, got "starts"; did you mean start?',
        ),
        (_changed(step={"by": "SP-S"}), 'head "s0", step 1: required no keys but alias, algorithm, site, got "by"'),
        (_changed(policy="delta"), 'required a policy with a name out of frontier, delta, got "delta"'),
        (_changed(policy={"name": "fast"}), 'with a name out of frontier, delta, got {"name": "fast"}'),
        (_changed(policy={"name": "frontier", "delta_us": 1}), 'policy: required no keys but name, got "delta_us"'),
        (_changed(policy={"name": "delta", "delta_us": 0.5}), "required whole microseconds as delta_us, got 0.5"),
        (_changed(policy={"name": "delta", "delta_us": 0}), "required a delta above 0"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(PlanError) as raised:
        read_plan(text, QUERY, SINK)
    assert said in str(raised.value)
