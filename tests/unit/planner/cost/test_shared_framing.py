"""Messages that leave together share what frames them, and a plan is improved by what it costs as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.planner.cases import wire_case
from node.core.limits import Limits
from planner.algorithms.framing import NEWS_HELD, NEWS_S, SHIPMENT_BYTES, Mail, posted
from planner.algorithms.http2 import WINDOW_UPDATE_BYTES, Framing
from planner.algorithms.kinds import Kind
from planner.cost.estimates import PlanEstimate, sum_of
from planner.model.plans import forced_plan, ship_all_plan
from planner.model.query import FRONTIER_POLICY, Algorithm, Plan, RowsWindow, Window
from planner.search.choice import Costs, Options, choose, estimate_plan
from planner.search.refinement import changes, refined
from tests.unit.streams import made, query_of, range_s, statistics_of

TICK_S = 0.5
BOTH_WAYS = SHIPMENT_BYTES + WINDOW_UPDATE_BYTES


def framing(*mails: Mail) -> list[float]:
    return [found.framing_bytes for found in posted(mails, TICK_S)]


def own(alias: str, source: str, target: str, per_s: float = 2.0) -> Mail:
    return Mail(source, target, per_s, alias, (source,))


# What is shared.


def test_the_model_knows_what_the_node_does() -> None:
    limits, direction = Limits(), Framing()
    assert direction.went(100) == SHIPMENT_BYTES
    direction.came_back()
    assert direction.went(100) == BOTH_WAYS
    assert (limits.news_held, limits.news_us / 1e6) == (NEWS_HELD, NEWS_S)


def test_alone_a_message_pays_for_its_shipment_and_more_if_something_comes_back() -> None:
    assert framing(own("a", "x", "y")) == pytest.approx([2 * SHIPMENT_BYTES])
    assert framing(own("a", "x", "y"), own("b", "y", "x")) == pytest.approx([2 * BOTH_WAYS] * 2)
    # One in four is answered: three of four shipments give nothing back, and each answer does.
    rarely = framing(own("a", "x", "y"), own("b", "y", "x", 0.5))
    assert rarely == pytest.approx([2 * (SHIPMENT_BYTES + WINDOW_UPDATE_BYTES / 4), 0.5 * BOTH_WAYS])


def test_what_one_batch_makes_a_site_send_to_another_is_one_shipment() -> None:
    three = framing(*(own("a", "x", "y") for _ in range(3)))
    assert three == pytest.approx([2 * SHIPMENT_BYTES / 3] * 3)
    assert framing(own("a", "x", "y"), own("a", "x", "z")) == pytest.approx([2 * SHIPMENT_BYTES] * 2)


def test_batches_of_two_streams_leave_together_sometimes_and_answers_later() -> None:
    alone, two = 2 * SHIPMENT_BYTES, sum(framing(own("a", "x", "y"), own("b", "x", "y")))
    assert alone < two < 2 * alone
    answer = Mail("x", "y", 2.0, "a", ("x", "y", "x"))
    assert sum(framing(own("a", "x", "y"), answer)) == pytest.approx(2 * alone)


def test_news_rides_on_messages_and_leaves_alone_only_if_there_are_none() -> None:
    news = Mail("x", "y", 4.0, news=True)
    assert sum(framing(own("a", "x", "y"), news)) == pytest.approx(2 * SHIPMENT_BYTES)
    assert framing(news) == pytest.approx([SHIPMENT_BYTES / NEWS_S])
    much = replace(news, per_s=10.0 * NEWS_HELD)
    (found,) = posted([much], TICK_S)
    assert found.framing_bytes == pytest.approx(10 * SHIPMENT_BYTES)
    assert found.messages == pytest.approx(10, rel=1e-3)


def test_messages_that_hardly_ever_come_do_no_harm() -> None:
    assert framing(own("a", "x", "y", 0.0)) == [0.0]
    tiny = framing(own("a", "x", "y", 1e-30), own("b", "x", "y", 1e-30))
    assert tiny == pytest.approx([1e-30 * SHIPMENT_BYTES] * 2)


# In a plan.


def _framing_of(estimate: PlanEstimate) -> float:
    return sum_of(flow for flow in estimate.flows if flow.kind is Kind.FRAMING)


def test_a_second_copy_from_the_same_site_costs_no_framing() -> None:
    """A star by two keys of its hub: one copy of the keys by each, and both leave with the hub's batches."""
    random = np.random.default_rng(3)
    streams = {"a": made(random, 4_000, {"k": (0, 500), "l": (0, 500)})}
    streams |= {"b": made(random, 4_000, {"k": (0, 500)}), "c": made(random, 4_000, {"l": (0, 500)})}
    sites = {"a": "x", "b": "y", "c": "y"}
    query = query_of(streams, dict.fromkeys("abc", range_s(10)), [("a.k", "b.k"), ("a.l", "c.l")], sites)
    plan = forced_plan(query, "y", Algorithm.SM_D1)
    estimate = estimate_plan(plan, statistics_of(query, streams))
    copies = [each for each in estimate.copies if each.owner == "x"]
    assert len(copies) == 2
    sizes = [sum_of(flow for flow in each.flows if flow.kind is Kind.FRAMING) for each in copies]
    assert sizes[0] == pytest.approx(sizes[1])
    # A batch a second; the walks of a, whose rows leave with it, have their share too.
    assert sum(sizes) <= BOTH_WAYS


def test_times_of_a_count_window_are_new_to_a_site_once() -> None:
    random = np.random.default_rng(3)
    streams = {"a": made(random, 4_000, {"k": (0, 500), "l": (0, 500)})}
    streams |= {"b": made(random, 4_000, {"k": (0, 500)}), "c": made(random, 4_000, {"l": (0, 500)})}
    windows: dict[str, Window] = {"a": RowsWindow(200), "b": range_s(10), "c": range_s(10)}
    sites = {"a": "x", "b": "y", "c": "y"}
    query = query_of(streams, windows, [("a.k", "b.k"), ("a.l", "c.l")], sites)
    statistics = statistics_of(query, streams)
    copies = [each for each in estimate_plan(forced_plan(query, "y", Algorithm.SM_S1), statistics).copies if each.flows]
    first, second = (sum_of(flow for flow in each.flows if flow.kind is Kind.SYNC) for each in copies)
    assert first - second == pytest.approx(20 * statistics.profiles["a"].column_bytes["__ts"])


def test_a_walk_that_ends_early_tells_the_sink_from_where_it_ended() -> None:
    random = np.random.default_rng(3)
    streams = {"a": made(random, 4_000, {"k": (0, 500)}), "b": made(random, 4_000, {"k": (500, 1_000)})}
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    statistics = statistics_of(query, streams)
    ways = {}
    for algorithm in (Algorithm.SP_D, Algorithm.SM_D1, Algorithm.SM_D2):
        estimate = estimate_plan(forced_plan(query, "c", algorithm), statistics)
        (of_a,) = [head for head in estimate.heads if head.head == "a"]
        told = {flow.source: flow.bytes_per_s for flow in of_a.results if flow.kind is Kind.RESULTS}
        ways[algorithm] = max(told, key=lambda site: told[site])
    assert ways == {Algorithm.SP_D: "b", Algorithm.SM_D1: "a", Algorithm.SM_D2: "b"}


def test_sharing_shows_in_the_whole_and_flows_still_add_up() -> None:
    case = wire_case(np.random.default_rng(5), "clique", 4, sites=3)
    for plan in (ship_all_plan(case.query, case.sink), forced_plan(case.query, case.sink, Algorithm.SM_D1)):
        estimate = estimate_plan(plan, case.statistics)
        parts = [sum_of(step.flows) for head in estimate.heads for step in head.steps]
        parts += [sum_of(head.results) for head in estimate.heads] + [sum_of(each.flows) for each in estimate.copies]
        assert sum(parts) + sum_of(estimate.control) == pytest.approx(estimate.bytes_per_s)
        assert 0 < _framing_of(estimate) < estimate.bytes_per_s


# Plans as a whole.


def test_changes_are_all_plans_that_differ_in_one_step() -> None:
    case = wire_case(np.random.default_rng(4), "chain", 3)
    plan = forced_plan(case.query, case.sink, Algorithm.SP_D)
    estimate = estimate_plan(plan, case.statistics)
    remote = sum(step.source != step.owner for head in estimate.heads for step in head.steps)
    found = list(changes(estimate))
    assert len(found) == len({change.plan for change in found}) == remote * (len(Algorithm) - 1)
    assert all(change.plan != plan for change in found)


def test_no_change_of_one_step_makes_a_refined_plan_cheaper() -> None:
    case = wire_case(np.random.default_rng(4), "star", 3)
    costs = Costs(case.query, case.sink, case.statistics, Options(), FRONTIER_POLICY)
    begun = costs.estimate(forced_plan(case.query, case.sink, Algorithm.SP_D))
    better = refined(begun, costs.estimate)
    assert better.cost < begun.cost
    assert all(costs.estimate(change.plan).cost >= better.cost * (1 - 1e-6) for change in changes(better))


def test_what_cannot_be_improved_stays_as_it_is() -> None:
    case = wire_case(np.random.default_rng(4), "chain", 3)
    choice = choose(case.query, case.sink, case.statistics)
    tried: list[Plan] = []

    def estimated(plan: Plan) -> PlanEstimate:
        tried.append(plan)
        return estimate_plan(plan, case.statistics)

    assert refined(choice.estimate, estimated) is choice.estimate
    assert len(tried) == len(list(changes(choice.estimate)))
