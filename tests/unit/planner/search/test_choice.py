"""Choosing: never worse than shipping everything, the same from wherever it is asked, and by what is to be small."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from bench.planner.cases import TOPOLOGIES, WireCase, wire_case
from planner.algorithms.kinds import Kind
from planner.cost.estimates import Objective
from planner.estimate.statistics import LinkStats, Statistics
from planner.model.plans import checked_plan, forced_plan, ship_all_plan
from planner.model.query import Algorithm
from planner.search.choice import Model, Options, Search, choose, estimate_plan
from tests.unit.streams import Made, made, query_of, range_s, statistics_of


def _cases() -> list[WireCase]:
    return [
        wire_case(np.random.default_rng(seed), topology, streams, sites=3 if seed % 2 else None)
        for seed, (topology, streams) in enumerate(itertools.product(TOPOLOGIES, (2, 3, 4)))
    ]


@pytest.mark.parametrize("case", _cases())
def test_the_choice_is_a_plan_that_costs_no_more_than_others(case: WireCase) -> None:
    choice = choose(case.query, case.sink, case.statistics)
    checked_plan(choice.plan)
    assert choice.estimate.cost <= choice.ship_all.cost
    assert all(choice.estimate.cost <= other.estimate.cost for other in choice.alternatives)
    assert estimate_plan(choice.plan, case.statistics).cost == pytest.approx(choice.estimate.cost)
    greedily = choose(case.query, case.sink, case.statistics, Options(search=Search.GREEDY))
    assert greedily.estimate.cost >= choice.estimate.cost - 1e-6
    assert greedily.estimate.cost <= choice.ship_all.cost


@pytest.mark.parametrize("case", _cases()[:6])
def test_exhaustive_and_optimal_choose_equally_good_plans(case: WireCase) -> None:
    costs = [
        choose(case.query, case.sink, case.statistics, Options(search=search)).estimate.cost
        for search in (Search.EXHAUSTIVE, Search.OPTIMAL)
    ]
    assert costs[0] == pytest.approx(costs[1], rel=0.02)


@pytest.mark.parametrize("search", [Search.GREEDY, Search.EXHAUSTIVE, Search.OPTIMAL])
def test_the_papers_costs_choose_too(search: Search) -> None:
    case = _cases()[5]
    options = Options(Model.PAPER, search)
    choice = choose(case.query, case.sink, case.statistics, options)
    checked_plan(choice.plan)
    assert choice.estimate.cost <= choice.ship_all.cost
    assert estimate_plan(choice.plan, case.statistics, options).cost == pytest.approx(choice.estimate.cost)
    # Bytes are ours in any case.
    assert choice.estimate.bytes_per_s == pytest.approx(estimate_plan(choice.plan, case.statistics).bytes_per_s)


def test_ship_all_can_be_asked_for() -> None:
    case = _cases()[4]
    choice = choose(case.query, case.sink, case.statistics, Options(search=Search.SHIP_ALL))
    assert choice.plan == ship_all_plan(case.query, case.sink)


def _pair(match: bool, value_bytes: float) -> tuple[dict[str, Made], float]:
    random = np.random.default_rng(4)
    low = 0 if match else 9_900
    return {
        "a": made(random, 4_000, {"k": (0, 20 if match else 10_000)}),
        "b": made(random, 4_000, {"k": (low, low + (20 if match else 10_000))}),
    }, value_bytes


@pytest.mark.parametrize(("match", "ships"), [(True, True), (False, False)])
def test_wide_tuples_that_rarely_match_stay_where_they_are(match: bool, ships: bool) -> None:
    streams, value_bytes = _pair(match, 300.0)
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    choice = choose(query, "c", statistics_of(query, streams, value_bytes=value_bytes))
    share = choice.estimate.bytes_per_s / choice.ship_all.bytes_per_s
    assert share > 0.9 if ships else share < 0.3


def test_everything_of_one_site_costs_only_the_way_to_the_sink() -> None:
    streams, value_bytes = _pair(True, 20.0)
    sites = dict.fromkeys("ab", "here")
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")], sites)
    statistics = statistics_of(query, streams, value_bytes=value_bytes)
    local = choose(query, "here", statistics)
    assert local.estimate.bytes_per_s == 0
    assert all(step.bytes_per_s == 0 for head in local.estimate.heads for step in head.steps)


def test_a_copy_that_several_heads_use_is_paid_once() -> None:
    """Two heads at one site both join the third stream by a full copy of it."""
    random = np.random.default_rng(4)
    streams = {name: made(random, 1_000, {"k": (0, 50)}) for name in "abc"}
    edges = [("a.k", "b.k"), ("b.k", "c.k")]
    query = query_of(streams, dict.fromkeys("abc", range_s(10)), edges, {"a": "n", "b": "n", "c": "m"})
    estimate = estimate_plan(forced_plan(query, "n", Algorithm.SP_S), statistics_of(query, streams))
    copies = [each for each in estimate.copies if each.copy.alias == "c"]
    assert len(copies) == 1
    assert copies[0].users == ("a", "b")
    # Once all tuples of c, and no more.
    tuples = copies[0].flows[0]
    assert (tuples.source, tuples.target, tuples.kind) == ("m", "n", Kind.SYNC)
    assert tuples.bytes_per_s == pytest.approx(5.0 * (1 + 20 + 3) + 17, rel=0.01)


def test_flows_add_up_to_the_cost_in_bytes() -> None:
    for case in _cases()[3:7]:
        for algorithm in Algorithm:
            estimate = estimate_plan(forced_plan(case.query, case.sink, algorithm), case.statistics)
            assert estimate.cost == pytest.approx(estimate.bytes_per_s, rel=1e-3, abs=1.0)
            assert sum(estimate.by_link.values()) == pytest.approx(estimate.bytes_per_s)
            assert sum(estimate.by_kind.values()) == pytest.approx(estimate.bytes_per_s)
            assert all(flow.source != flow.target for flow in estimate.flows)


def test_a_dear_link_is_avoided() -> None:
    """The sink is next to b; the way between a and b costs much, the way over the sink's site nothing."""
    streams, value_bytes = _pair(True, 100.0)
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    prices = {
        ("a", "b"): 100.0,
        ("b", "a"): 100.0,
        ("a", "c"): 0.01,
        ("b", "c"): 0.01,
        ("c", "a"): 0.01,
        ("c", "b"): 0.01,
    }
    links = {link: LinkStats(10_000, 1e6, price) for link, price in prices.items()}
    statistics = statistics_of(query, streams, links=links, value_bytes=value_bytes)
    for objective in (Objective.BYTES, Objective.MONEY):
        choice = choose(query, "c", statistics, Options(objective=objective))
        carried = choice.estimate.by_link
        assert carried.get(("a", "b"), 0.0) + carried.get(("b", "a"), 0.0) < 0.01 * choice.estimate.bytes_per_s
        assert choice.estimate.money_per_month is not None
        assert choice.ship_all.money_per_month is not None
        assert choice.estimate.money_per_month <= choice.ship_all.money_per_month * 1.001
    free = choose(query, "c", replace(statistics, links={}))
    assert free.estimate.money_per_month is None


def test_time_prefers_fewer_waits() -> None:
    streams, value_bytes = _pair(False, 50.0)
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    links = {link: LinkStats(200_000, 1e7) for link in itertools.permutations("abc", 2)}
    statistics = statistics_of(query, streams, links=links, value_bytes=value_bytes)
    slow, fast = (
        choose(query, "c", statistics, Options(objective=objective)).estimate
        for objective in (Objective.BYTES, Objective.TIME)
    )
    assert fast.delay_s <= slow.delay_s
    assert slow.bytes_per_s <= fast.bytes_per_s


def test_the_lower_bound_is_below_shipping_everything() -> None:
    for case in _cases()[:6]:
        choice = choose(case.query, case.sink, case.statistics)
        assert 0 <= choice.estimate.lower_bound_bytes_per_s <= choice.ship_all.bytes_per_s


def test_streams_without_rows_can_be_planned() -> None:
    streams = {
        "a": Made(np.empty(0, np.int64), {"k": np.empty(0, np.int64)}),
        "b": made(np.random.default_rng(1), 50, {"k": (0, 9)}),
    }
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    statistics: Statistics = statistics_of(query, streams)
    choice = choose(query, "c", statistics)
    assert choice.estimate.cost <= choice.ship_all.cost
