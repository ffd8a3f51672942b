"""What else could have been chosen, and what it would have cost: for whoever wants to know why it was not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from planner.algorithms.descriptions import Algorithm
from planner.cost.estimates import PlanEstimate
from planner.model.kept import tree_plan
from planner.model.query import Plan
from planner.search.choice import Choice, Costs
from planner.search.refinement import Changed, changes
from planner.search.trees import TreeCosts

#: With more streams there are more plans that differ in one step than anyone reads.
_STEPS_STREAMS_MAX = 6


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
    """All that was compared with a plan. Steps are in the order of the plan, those of kept joins first."""

    steps: tuple[OtherStep, ...]


def compared(choice: Choice) -> Compared:
    """Compare the chosen plan with those that differ in one step."""
    plan = choice.plan
    if len(plan.asked.aliases) > _STEPS_STREAMS_MAX:
        return Compared(())
    costs = Costs(plan.asked, plan.sink, choice.statistics, choice.options, plan.policy)
    estimate = TreeCosts(costs, plan.kept).estimate if plan.kept else costs.estimate
    return Compared(tuple(_other_steps(choice.estimate, estimate)))


def _other_steps(estimate: PlanEstimate, estimated: Callable[[Plan], PlanEstimate]) -> Iterator[OtherStep]:
    for part in estimate.parts:
        for change in changes(part):
            other = estimated(_whole(estimate.plan, change))
            yield OtherStep(change.head, change.number, change.algorithm, other.cost, other.bytes_per_s)


def _whole(plan: Plan, change: Changed) -> Plan:
    """The plan, if what has changed makes a join that it keeps."""
    part = change.plan.part
    if not part:
        return change.plan
    kept = tuple(replace(join, sequences=change.plan.sequences) if join.name == part else join for join in plan.kept)
    return tree_plan(plan.asked, plan.sink, plan.sequences, kept, plan.policy)
