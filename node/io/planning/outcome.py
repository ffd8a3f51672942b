"""The outcome of planning, which an issued query keeps so that it can be explained later."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.estimates import PlanEstimate
from planner.model.query import Plan
from planner.search.choice import Choice


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, what it is expected to cost if that was asked or needed, and what the user should know about it."""

    plan: Plan
    choice: Choice | None = None
    #: What was taken from the configuration instead of being measured.
    declared: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the plan by which a query runs and another one are expected to cost, by the same statistics, if known."""

    before: PlanEstimate | None = None
    after: Choice | None = None


NO_FORECAST = Forecast()
