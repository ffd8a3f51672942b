"""Crashes at a step: just before, or just after, a site does something, and in between where a disk is at work.

Every effect that a site's world carries out passes here. A scenario names the steps at which daemons die by site, kinds
and occurrence; without a kind it is any step, so that all steps of a run can be tried one after the other.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from node.core.links.messages import (
    AskMatches,
    Carry,
    CloseCopy,
    Cut,
    Done,
    Drop,
    DropPortion,
    Failed,
    Fence,
    Fetch,
    Fetched,
    Floor,
    GoOver,
    Held,
    Hold,
    KeyAnswer,
    LeaseCopy,
    Level,
    Lost,
    OpenCopy,
    Prepare,
    Prepared,
    Ready,
    Refused,
    Returned,
    Rows,
    SetPortion,
    Start,
    Switch,
    Sync,
    TupleAnswer,
)
from node.core.query_records import RecordKind

#: Messages of a generation after the first have a kind of their own, and those of a run that is to take over.
AGAIN = " again"
TAKING_OVER = " taking over"

_MESSAGES = (
    *(Prepare, Prepared, Refused, Start, Done, Drop, Failed, Fence, Lost, Returned),
    *(Carry, AskMatches, KeyAnswer, TupleAnswer, Rows),
    *(OpenCopy, LeaseCopy, CloseCopy, Sync, SetPortion, DropPortion, Fetch, Fetched),
)
_SENT = [
    *(f"send {message.__name__}" for message in _MESSAGES),
    *(f"send {message.__name__}{AGAIN}" for message in (Prepare, Prepared, Start)),
    *("send Hello", "send Ack"),
]
_RECORDS = [*(f"keep {kind}" for kind in RecordKind), *(f"remove {kind}" for kind in RecordKind)]
_EFFECTS = ["AppendBatch", "StoreRows", "ReadLog", "TrimLog", "RunOp", "ReadSource", "SetAside", "ReportQuery"]
#: What a disk is through with and nobody was told of yet; and what power was lost in the middle of.
_DISK = [
    *("durable batch", "durable rows", "torn batch", "torn rows", "trimmed log", "log read"),
    *(f"durable {record}" for record in _RECORDS),
    *("durable life of a peer",),
]
#: Of queries that do not change their plans.
PLAIN_KINDS: tuple[str, ...] = (
    *(f"{moment} {what}" for what in (*_SENT, *_RECORDS, *_EFFECTS, "SiteStarted") for moment in ("before", "after")),
    *_DISK,
    *("engine answered", "source read"),
)


#: Those that are in few runs: every seed waits for some of them.
_RARE = (
    *("Lost", "Failed", "Refused", "Returned", "Fence", "Drop", "KeyAnswer", "TupleAnswer", "LeaseCopy", "DropPortion"),
    *("Fetch", "Fetched", "remove home", "remove done", "SetAside", "log read", AGAIN),
)
RARE_KINDS = tuple(kind for kind in PLAIN_KINDS if kind.endswith(_RARE))

_SWITCHING = (
    *(f"send {message.__name__}{TAKING_OVER}" for message in (Prepare, Prepared, Start, Drop)),
    *(f"send {message.__name__}" for message in (Level, Ready, Switch, Cut, Floor)),
    "ReportSwitch",
)
#: While a query goes over to another plan.
SWITCH_KINDS = tuple(f"{moment} {what}" for what in _SWITCHING for moment in ("before", "after"))
_HOLDING = tuple(
    f"{moment} send {message.__name__}" for message in (Hold, Held, GoOver) for moment in ("before", "after")
)
#: While it goes over to one with other heads.
TREE_SWITCH_KINDS = (*SWITCH_KINDS, *_HOLDING)
#: Every kind of step at which seeds let a daemon die.
KINDS: tuple[str, ...] = (*PLAIN_KINDS, *TREE_SWITCH_KINDS)


@dataclass(frozen=True)
class CrashPoint:
    """A daemon dies when its site comes to a step of some kinds for the n-th time.

    Points of a site that is named come one after the other, and occurrences are counted from the one before.
    ``also``: sites that die at the same moment. All are started again after ``down_us``.
    """

    #: Without a name the site that comes to it first; without kinds any step.
    site: str
    kinds: tuple[str, ...] = ()
    occurrence: int = 1
    down_us: int = 0
    also: tuple[str, ...] = ()


@dataclass
class Step:
    """A step of a site, the how-many-th thing that happened in the world when it came to it, and whether it died."""

    site: str
    kind: str
    turn: int
    died: bool = False


class SiteDiedError(BaseException):
    """Ends what a site is at. No error that anything on the way may take for one of its own."""

    def __init__(self, point: CrashPoint, kind: str) -> None:
        super().__init__(f"{point.site} dies {kind}")
        self.point = point


class Crashes:
    """Counts the steps of all sites, and ends a site at those that were named."""

    def __init__(self, points: Iterable[CrashPoint]) -> None:
        #: What may happen next: the first point of each site that is named, and all others.
        self._due: dict[str, deque[CrashPoint]] = {}
        for number, point in enumerate(points):
            self._due.setdefault(point.site or f"any {number}", deque()).append(point)
        #: For each of those, steps of its kinds since the one before.
        self._counts: Counter[str] = Counter()
        #: How often sites came to a step, by its kind; and each step in order, for who asks for that.
        self.passed: Counter[str] = Counter()
        self.trace: list[Step] | None = None
        #: How many things have happened in the world.
        self.turn = 0
        #: How often a daemon died at a step; and by kind.
        self.crashes = 0
        self.hits: Counter[str] = Counter()
        self.armed = False

    def step(self, site: str, *kinds: str) -> None:
        """A site is at a step, which may be of several kinds. Raises SiteDiedError if it dies there."""
        if not self.armed or not kinds:
            return
        self.passed.update(kinds)
        if self.trace is not None:
            self.trace.append(Step(site, kinds[0], self.turn))
        dies_for = None
        for whose, point in self._meant(site, kinds):
            self._counts[whose] += 1
            if self._counts[whose] >= point.occurrence:
                dies_for = whose
        if dies_for is not None:
            self._hit(dies_for, site, kinds)

    def is_due(self, site: str, kind: str) -> bool:
        """Whether the next step of this kind is one at which the site dies: it has to be prepared."""
        return any(self._counts[whose] + 1 >= point.occurrence for whose, point in self._meant(site, (kind,)))

    def _meant(self, site: str, kinds: Sequence[str]) -> list[tuple[str, CrashPoint]]:
        due = [(whose, points[0]) for whose, points in self._due.items() if points] if self.armed else []
        due = [(whose, point) for whose, point in due if point.site in (site, "")]
        return [(whose, point) for whose, point in due if not point.kinds or not {*kinds}.isdisjoint(point.kinds)]

    def _hit(self, whose: str, site: str, kinds: Sequence[str]) -> NoReturn:
        point = self._due[whose].popleft()
        del self._counts[whose]
        self.hits.update(kinds)
        self.crashes += 1
        if self.trace is not None:
            self.trace[-1].died = True
        raise SiteDiedError(replace(point, site=site), ", ".join(kinds))
