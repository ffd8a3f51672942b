"""Plans that keep joins and plans of sequences compete by cost: each wins where it should, and never by a little."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from bench.planner.cases import TOPOLOGIES, WireCase, wire_case
from planner.cost.estimates import Objective, PlanEstimate
from planner.estimate.statistics import Statistics
from planner.model.kept import inner_plan
from planner.model.plan_file import read_plan
from planner.model.plans import checked_plan, plan_dict
from planner.model.query import FRONTIER_POLICY, JoinQuery, Plan, Policy, PolicyName, RowsWindow
from planner.search import trees
from planner.search.alternatives import compared
from planner.search.choice import (
    SEQUENCES,
    TREE,
    TREE_GAIN_MIN,
    Choice,
    Costs,
    Model,
    Options,
    Search,
    choose,
    estimate_plan,
)
from planner.search.replanning import Rules, Running, decide
from planner.search.trees import SUBSETS_MAX, light_sets
from tests.unit.streams import Made, made, query_of, range_s, statistics_of

KEEPING = Options(storage_bytes=256e6)
SITES = {"a": "x", "b": "y", "c": "z"}


def few_pairs(windows_s: float = 10) -> tuple[JoinQuery, Statistics]:
    """Few of a have a partner in b, while each of c has many in b: together a and b are next to nothing."""
    random = np.random.default_rng(3)
    streams = {
        "a": made(random, 6_000, {"k": (0, 100_000)}),
        "b": made(random, 6_000, {"k": (0, 100_000), "j": (0, 60)}),
        "c": made(random, 6_000, {"j": (0, 60)}),
    }
    query = query_of(streams, dict.fromkeys("abc", range_s(windows_s)), [("a.k", "b.k"), ("b.j", "c.j")], SITES)
    return query, statistics_of(query, streams, value_bytes=100.0)


def many_pairs() -> tuple[JoinQuery, Statistics]:
    """All pairs have many partners: what is kept would be far more than the streams."""
    random = np.random.default_rng(3)
    streams: dict[str, Made] = {
        "a": made(random, 2_000, {"k": (0, 10)}),
        "b": made(random, 2_000, {"k": (0, 10), "j": (0, 10)}),
        "c": made(random, 2_000, {"j": (0, 10)}),
    }
    query = query_of(streams, dict.fromkeys("abc", range_s(10)), [("a.k", "b.k"), ("b.j", "c.j")], SITES)
    return query, statistics_of(query, streams, value_bytes=100.0)


def cost_of(choice: Choice, name: str) -> float:
    return next(item.estimate.cost for item in choice.alternatives if item.name == name)


def test_a_join_is_kept_where_that_saves_much() -> None:
    query, statistics = few_pairs()
    choice = choose(query, "home", statistics, KEEPING)
    (join,) = choice.plan.kept
    assert join.aliases == ("a", "b")
    without = choose(query, "home", statistics)
    assert not without.plan.kept
    assert cost_of(choice, SEQUENCES) == without.estimate.cost
    assert choice.estimate.cost < 0.7 * without.estimate.cost
    assert choice.ship_all.cost == without.ship_all.cost
    assert estimate_plan(choice.plan, statistics, KEEPING).cost == choice.estimate.cost


def test_sequences_stay_where_the_join_would_be_much() -> None:
    query, statistics = many_pairs()
    choice = choose(query, "home", statistics, KEEPING)
    assert not choice.plan.kept
    assert choice.plan == choose(query, "home", statistics).plan
    assert cost_of(choice, TREE) > choice.estimate.cost


def test_what_does_not_fit_is_not_kept() -> None:
    query, statistics = few_pairs()
    (kept,) = choose(query, "home", statistics, KEEPING).estimate.kept
    enough, little = (Options(storage_bytes=factor * kept.rows.stored_bytes) for factor in (1.01, 0.5))
    assert choose(query, "home", statistics, enough).plan.kept
    small = choose(query, "home", statistics, little)
    assert not any(join.aliases == kept.join.aliases for join in small.plan.kept)
    # What is kept for others counts, at its site alone.
    full = replace(statistics, stored={kept.join.site: kept.rows.stored_bytes})
    elsewhere = choose(query, "home", full, enough)
    assert all(join.site != kept.join.site for join in elsewhere.plan.kept)
    everywhere = replace(statistics, stored=dict.fromkeys(("x", "y", "z", "home"), 1e9))
    assert not choose(query, "home", everywhere, KEEPING).plan.kept
    assert TREE not in [item.name for item in choose(query, "home", everywhere, KEEPING).alternatives]


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        (Options(), FRONTIER_POLICY),
        (replace(KEEPING, model=Model.PAPER), FRONTIER_POLICY),
        (replace(KEEPING, objective=Objective.TIME), FRONTIER_POLICY),
        (replace(KEEPING, search=Search.SHIP_ALL), FRONTIER_POLICY),
        (KEEPING, Policy(PolicyName.DELTA)),
    ],
)
def test_nothing_is_kept_by_a_clock_by_other_costs_or_without_storage(options: Options, policy: Policy) -> None:
    query, statistics = few_pairs()
    choice = choose(query, "home", statistics, options, policy)
    assert not choice.plan.kept
    assert {TREE, SEQUENCES}.isdisjoint(item.name for item in choice.alternatives)


def test_nothing_is_kept_of_two_streams_or_of_a_window_that_counts() -> None:
    query, statistics = few_pairs()
    counted = replace(query.streams[2], window=RowsWindow(100))
    counts = replace(query, streams=(*query.streams[:2], counted))
    pair = replace(query, streams=query.streams[:2], edges=query.edges[:1], outputs=query.outputs[:2])
    for other in (counts, pair):
        choice = choose(other, "home", statistics, KEEPING)
        assert not choice.plan.kept
        assert TREE not in [item.name for item in choice.alternatives]


def test_a_plan_that_is_as_good_does_not_win() -> None:
    """Everything is at one site: no plan sends anything."""
    query, statistics = few_pairs()
    streams = tuple(replace(ref, stream=replace(ref.stream, site="home")) for ref in query.streams)
    choice = choose(replace(query, streams=streams), "home", statistics, KEEPING)
    assert choice.estimate.bytes_per_s == 0
    assert not choice.plan.kept


def _cases() -> list[WireCase]:
    return [
        wire_case(np.random.default_rng([seed, 9]), topology, streams, sites=3 if seed % 2 else None)
        for seed, (topology, streams) in enumerate(itertools.product(TOPOLOGIES, (3, 4)))
    ]


@pytest.mark.parametrize("case", _cases())
def test_the_choice_is_never_dearer_than_the_best_sequences(case: WireCase) -> None:
    choice = choose(case.query, case.sink, case.statistics, KEEPING)
    without = choose(case.query, case.sink, case.statistics)
    if choice.plan.kept:
        assert choice.estimate.cost < (1 - TREE_GAIN_MIN) * without.estimate.cost
    else:
        assert choice.plan == without.plan
        tree = next((item.estimate for item in choice.alternatives if item.name == TREE), None)
        assert tree is None or tree.cost >= (1 - TREE_GAIN_MIN) * choice.estimate.cost
    again = choose(case.query, case.sink, case.statistics, KEEPING)
    assert (again.plan, again.estimate.cost) == (choice.plan, choice.estimate.cost)


@pytest.mark.parametrize("case", _cases()[::3])
def test_whatever_is_looked_at_can_run(case: WireCase, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[PlanEstimate] = []
    estimate = trees.TreeCosts.estimate

    def noted(self: trees.TreeCosts, plan: Plan) -> PlanEstimate:
        looked_at.append(estimate(self, plan))
        return looked_at[-1]

    monkeypatch.setattr(trees.TreeCosts, "estimate", noted)
    choose(case.query, case.sink, case.statistics, KEEPING)
    assert looked_at
    for found in looked_at:
        plan = checked_plan(found.plan)
        for join in plan.kept:
            inner_plan(plan.asked, join)
        assert read_plan(json.dumps(plan_dict(plan)), case.query, case.sink) == plan
        assert found.bytes_per_s == pytest.approx(sum(part.bytes_per_s for part in _alone(found)))
        assert found.cost == pytest.approx(found.bytes_per_s, rel=1e-3, abs=1.0)
        assert sum(found.by_link.values()) == pytest.approx(found.bytes_per_s)


def _alone(found: PlanEstimate) -> tuple[PlanEstimate, ...]:
    return tuple(replace(part, kept=()) for part in found.parts)


def test_a_second_join_is_kept_beside_the_first_if_that_is_cheaper_still() -> None:
    """A chain of four: at both ends there are few pairs, between them everything matches."""
    random = np.random.default_rng(5)
    streams = {
        "a": made(random, 6_000, {"k": (0, 3_000)}),
        "b": made(random, 6_000, {"k": (0, 3_000), "j": (0, 20)}),
        "c": made(random, 6_000, {"j": (0, 20), "i": (0, 3_000)}),
        "d": made(random, 6_000, {"i": (0, 3_000)}),
    }
    edges = [("a.k", "b.k"), ("b.j", "c.j"), ("c.i", "d.i")]
    query = query_of(streams, dict.fromkeys("abcd", range_s(10)), edges)
    statistics = statistics_of(query, streams, value_bytes=100.0)
    choice = choose(query, "home", statistics, KEEPING)
    assert sorted(join.aliases for join in choice.plan.kept) == [("a", "b"), ("c", "d")]
    assert len({join.name for join in choice.plan.kept}) == 2
    (first, *_) = choice.estimate.kept
    full = Options(storage_bytes=1.5 * first.rows.stored_bytes)
    stored = dict.fromkeys((*"abcd", "home"), 0.6 * first.rows.stored_bytes)
    one = choose(query, "home", replace(statistics, stored=stored), full)
    assert choice.estimate.cost < one.estimate.cost


def test_only_the_lightest_joins_are_looked_at_however_many_there_are() -> None:
    case = wire_case(np.random.default_rng(2), "clique", 6, shared=True)
    costs = Costs(case.query, case.sink, case.statistics, KEEPING, FRONTIER_POLICY)
    sets = light_sets(costs)
    assert len(sets) == SUBSETS_MAX / 2
    assert all(2 <= len(aliases) < 6 for aliases in sets)
    chain = wire_case(np.random.default_rng(2), "chain", 4)
    costs = Costs(chain.query, chain.sink, chain.statistics, KEEPING, FRONTIER_POLICY)
    linked = {("s0", "s1"), ("s1", "s2"), ("s2", "s3"), ("s0", "s1", "s2"), ("s1", "s2", "s3")}
    assert set(light_sets(costs)) == linked, "what no equality links is not kept"


def test_a_query_that_runs_goes_over_to_no_plan_that_keeps_joins() -> None:
    query, statistics = few_pairs()
    plan = choose(query, "home", statistics).plan
    decision = decide(Running(plan), statistics, KEEPING, Rules(gain_share=0.0, gain_min=0.0))
    assert decision.plan is None
    assert choose(query, "home", statistics, KEEPING).plan.kept, "although it would save much"


def test_steps_of_what_makes_a_kept_join_are_compared_too() -> None:
    query, statistics = few_pairs()
    choice = choose(query, "home", statistics, KEEPING)
    steps = compared(choice).steps
    assert {step.head for step in steps} >= {head.head for part in choice.estimate.parts for head in part.heads}
    assert all(step.cost >= 0.98 * choice.estimate.cost for step in steps)
