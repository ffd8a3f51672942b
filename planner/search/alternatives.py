"""What else could have been chosen, and what it would have cost: for whoever wants to know why it was not."""

from __future__ import annotations

from dataclasses import dataclass

from planner.algorithms.descriptions import Algorithm
from planner.cost.estimates import PlanEstimate
from planner.search.choice import Choice, Costs, Model
from planner.search.refinement import changes
from planner.search.trees import Tree, best_tree

#: With more streams there are more plans that differ in one step than anyone reads.
_STEPS_STREAMS_MAX = 6
_TREE_STREAMS_MAX = 8


@dataclass(frozen=True, slots=True)
class OtherStep:
    """The whole plan's figures if one step were done by another algorithm, and nothing else were different."""

    head: str
    number: int
    algorithm: Algorithm
    cost: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Compared:
    """All that was compared with a plan. Steps are in the order of the plan."""

    steps: tuple[OtherStep, ...]
    #: None when there are too many streams, or costs are not ours.
    tree: Tree | None


def compared(choice: Choice) -> Compared:
    """Compare the chosen plan with those that differ in one step, and with the best tree."""
    plan = choice.plan
    costs = Costs(plan.query, plan.sink, choice.statistics, choice.options, plan.policy)
    streams = len(plan.query.aliases)
    steps = tuple(_other_steps(costs, choice.estimate)) if streams <= _STEPS_STREAMS_MAX else ()
    with_tree = 2 < streams <= _TREE_STREAMS_MAX and choice.options.model is Model.WIRE
    return Compared(steps, best_tree(costs.wire) if with_tree else None)


def _other_steps(costs: Costs, estimate: PlanEstimate) -> list[OtherStep]:
    found = []
    for change in changes(estimate):
        other = costs.estimate(change.plan)
        found.append(OtherStep(change.head, change.number, change.algorithm, other.cost, other.bytes_per_s))
    return found
