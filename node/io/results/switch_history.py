"""The last switches of a query from one plan to another, for people; they are told after a restart of the site too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from node.core.effects import ReportSwitch, SwitchState
from node.io.planning.outcome import Forecast
from node.io.results.journal import Facts
from planner.model.plans import brief, describe
from planner.model.query import Plan

#: So many are kept of a query.
SWITCHES_MAX = 20


@dataclass(slots=True)
class PlanChange:
    """A switch of a query, as far as it has got. Times are milliseconds since 1970."""

    #: The same in all reports about it; they rise.
    number: int
    begun_ms: int
    why: str
    #: The plan that ran, and the one to which it was to go, in words, and in one line.
    before: str
    after: str
    before_brief: str
    after_brief: str
    #: The runs by which the sites count what each plan takes.
    run_before: str
    run_after: str
    #: Result rows that there were when it began.
    rows_before: int
    #: Bytes in a second of event time, by the same statistics, if anybody estimated them.
    expected_before: float | None = None
    expected_after: float | None = None
    state: SwitchState = SwitchState.PREPARING
    #: Why it was given up, or what came in between.
    reason: str = ""
    #: When heads began to go over, and when it was over; and the rows that there were then.
    switching_ms: int | None = None
    ended_ms: int | None = None
    rows_after: int | None = None

    def facts(self) -> dict[str, Any]:
        """To be written down."""
        facts = asdict(self)
        # What a journal has of one of several things begins with its name. Its state is not that of the query.
        return {"switch": facts.pop("number"), "stands": facts.pop("state").value, **facts}


def noted_change(facts: Mapping[str, Any]) -> PlanChange:
    """As it was written down."""
    rest = {name: value for name, value in facts.items() if name not in ("switch", "stands")}
    return PlanChange(number=facts["switch"], state=SwitchState(facts["stands"]), **rest)


class SwitchHistory:
    """The last ones, oldest first; at most the last is not over."""

    def __init__(self) -> None:
        self._changes: list[PlanChange] = []

    def __iter__(self) -> Iterator[PlanChange]:
        return iter(self._changes)

    @property
    def last(self) -> PlanChange | None:
        return self._changes[-1] if self._changes else None

    @property
    def under_way(self) -> PlanChange | None:
        """The one that is not over."""
        last = self.last
        return None if last is None or last.state.ended else last

    @property
    def has_switched(self) -> bool:
        """Whether the query ever went over to another plan, as far as is remembered."""
        return any(change.state is SwitchState.SWITCHED for change in self._changes)

    def known(self, number: int) -> PlanChange | None:
        """The one with this number."""
        return next((change for change in self._changes if change.number == number), None)

    def add(self, change: PlanChange) -> list[Facts]:
        """Another one; what is to be noted."""
        self._changes.append(change)
        forgotten, self._changes = self._changes[:-SWITCHES_MAX], self._changes[-SWITCHES_MAX:]
        return [*({"switch forgotten": gone.number} for gone in forgotten), change.facts()]

    def take_noted(self, change: PlanChange) -> None:
        """One of an earlier life."""
        self._changes.append(change)


def change_of(
    report: ReportSwitch, plan: Plan, forecast: Forecast, runs: tuple[str, str], rows: int, now_ms: int
) -> PlanChange:
    """What is told of a switch first; ``plan`` is the one that runs."""
    return PlanChange(
        number=report.number,
        begun_ms=now_ms,
        why=report.why,
        before=describe(plan),
        after=describe(report.plan),
        before_brief=brief(plan),
        after_brief=brief(report.plan),
        run_before=runs[0],
        run_after=runs[1],
        rows_before=rows,
        expected_before=None if forecast.before is None else forecast.before.bytes_per_s,
        expected_after=None if forecast.after is None else forecast.after.estimate.bytes_per_s,
    )
