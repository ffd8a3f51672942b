"""The planner's front door: choose a plan by cost, or say what a given one costs."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.estimates import PlanEstimate
from planner.estimate.statistics import Statistics
from planner.model.query import FRONTIER_POLICY, JoinQuery, Plan, Policy
from planner.search.costs import Alternative, Costs, Model, Options, Search
from planner.search.trees import TREE_GAIN_MIN, TreeCosts, best_tree, saves_enough

__all__ = [
    "SEQUENCES",
    "TREE",
    "TREE_GAIN_MIN",
    "Alternative",
    "Choice",
    "Costs",
    "Model",
    "Options",
    "Search",
    "choose",
    "estimate_plan",
]

#: What the best plan that keeps a join is called among alternatives, and the best that keeps none.
TREE, SEQUENCES = "tree", "sequences"


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan that was chosen, what it is expected to cost, and what others would."""

    plan: Plan
    estimate: PlanEstimate
    ship_all: PlanEstimate
    options: Options
    #: What it was chosen by: the streams of the query as it was asked.
    statistics: Statistics
    alternatives: tuple[Alternative, ...] = ()


def choose(
    query: JoinQuery,
    sink: str,
    statistics: Statistics,
    options: Options | None = None,
    policy: Policy = FRONTIER_POLICY,
) -> Choice:
    """The cheapest plan that the search finds; never one that is expected to cost more than shipping everything.

    One that keeps joins is taken only if it saves TREE_GAIN_MIN. Raises PlanError if the search would take too long
    for this query.
    """
    options = options or Options()
    costs = Costs(query, sink, statistics, options, policy)
    costs.check_search()
    best, compared = costs.best()
    others = [item for item in compared if item is not best]
    tree = best_tree(costs)
    if tree is not None:
        if saves_enough(tree, best.estimate):
            others.append(Alternative(SEQUENCES, best.estimate))
            best = Alternative(TREE, tree)
        else:
            others.append(Alternative(TREE, tree))
    return Choice(best.estimate.plan, best.estimate, compared[0].estimate, options, statistics, tuple(others))


def estimate_plan(plan: Plan, statistics: Statistics, options: Options | None = None) -> PlanEstimate:
    """What a plan is expected to cost, wherever it comes from; ``statistics`` are of the query as it was asked."""
    options = options or Options()
    costs = Costs(plan.asked, plan.sink, statistics, options, plan.policy)
    return TreeCosts(costs, plan.kept).estimate(plan) if plan.kept else costs.estimate(plan)
