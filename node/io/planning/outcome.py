"""The outcome of planning, which an issued query keeps so that it can be explained later."""

from __future__ import annotations

from dataclasses import dataclass

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
