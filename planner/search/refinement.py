"""Improves a plan by what it costs as a whole: messages that leave together share their framing.

A search adds up steps that know nothing of each other, so it can miss that a step is nearly free on a link that is
used anyway. Here one step at a time is done by another algorithm, as long as the plan as a whole gets cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from planner.algorithms.descriptions import PRODUCT_ALGORITHMS, Algorithm
from planner.cost.estimates import PlanEstimate
from planner.model.graph import is_linked
from planner.model.query import Plan, Step

#: More rounds than it usually takes.
_ROUNDS_MAX = 4
_NEARLY_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Changed:
    """A plan that differs from another in the algorithm of one step between sites."""

    head: str
    number: int
    algorithm: Algorithm
    plan: Plan


def changes(estimate: PlanEstimate) -> Iterator[Changed]:
    """All plans that differ from this one in the algorithm of one step, in the order of the plan."""
    for head in estimate.heads:
        for number, step in enumerate(head.steps):
            if step.source == step.owner:
                continue
            before = (head.head, *(earlier.alias for earlier in head.steps[:number]))
            linked = is_linked(estimate.plan.query, step.alias, before)
            for algorithm in tuple(Algorithm) if linked else PRODUCT_ALGORITHMS:
                if algorithm is not step.algorithm:
                    yield Changed(head.head, number, algorithm, _with_step(estimate.plan, head.head, number, algorithm))


def refined(estimate: PlanEstimate, estimated: Callable[[Plan], PlanEstimate]) -> PlanEstimate:
    """The plan after changes of single steps, each of which made it cheaper, until none does."""
    for _ in range(_ROUNDS_MAX):
        begun = estimate
        for place in [(change.head, change.number, change.algorithm) for change in changes(begun)]:
            tried = estimated(_with_step(estimate.plan, *place))
            if tried.cost < estimate.cost - _NEARLY_EQUAL * abs(estimate.cost):
                estimate = tried
        if estimate is begun:
            break
    return estimate


def _with_step(plan: Plan, head: str, number: int, algorithm: Algorithm) -> Plan:
    sequences = []
    for sequence in plan.sequences:
        steps = list(sequence.steps)
        if sequence.head == head:
            steps[number] = Step(steps[number].alias, algorithm)
        sequences.append(replace(sequence, steps=tuple(steps)))
    return replace(plan, sequences=tuple(sequences))
