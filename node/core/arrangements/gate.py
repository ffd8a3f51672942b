"""When a walk may look at an arrangement: the two policies of DESIGN section 3.

``frontier`` waits for exactly what is needed, so no delay can make it wrong. ``delta`` is the paper's. It goes by the
clock: event time runs with it, and clocks agree. A walk that looks at a copy does so ``delta`` after its batch was
sealed (Algorithm 1, line 3; 4, line 3; 5, line 3): the tuples of that time are on their way. At the stream's own site
nothing waits by the clock (Algorithms 2, 3 and 6; 5, line 5). There the paper has a batch in its window in the moment
in which its tick ends; ours is in when it is sealed and logged, and a walk that was faster waits for that, as long as
it would have to wait for a copy.

Under delta a lease lets a tuple go twice ``delta`` after it left its window: the paper says once, but SM-D1 looks at V
at t + delta and only then ships, so its rows are later than that at the stream's site. When a delay exceeds delta the
rows can be wrong, and each look at which that was possible is counted.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Protocol

from node.core.arrangements.lease import Lease
from node.core.arrangements.progress import Progress
from node.core.queries.waiting import Waiting

#: Where a walk of a query waits: its head, first tick and step, and whether with its rows.
_Place = tuple[str, int, int, bool]


class Arrangement(Protocol):
    """What can be looked at."""

    @property
    def progress(self) -> Progress:
        """How far it is sealed."""
        ...

    def has_forgotten(self, lease: Lease, low_ts: int, include_ties: bool) -> bool:
        """Whether rows at ``low_ts`` (query's unit) could see what is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Paced:
    """An arrangement that may be looked at only when something else is sealed as far."""

    progress: Progress
    arrangement: Arrangement

    def has_forgotten(self, lease: Lease, low_ts: int, include_ties: bool) -> bool:
        """Whether rows at ``low_ts`` (query's unit) could see what is gone."""
        return self.arrangement.has_forgotten(lease, low_ts, include_ties)


@dataclass(frozen=True, slots=True)
class Look:
    """Rows from ``low_ts`` to ``high_ts`` (query's unit) want to look at an arrangement."""

    arrangement: Arrangement
    lease: Lease
    low_ts: int
    high_ts: int
    include_ties: bool
    #: It is a copy, of which the rows' own tick is on its way from the stream's site.
    at_copy: bool = False

    @property
    def is_early(self) -> bool:
        """Whether there may be tuples that they could see and that have not come."""
        return self.lease.reach.newest(self.high_ts) >= self.arrangement.progress.sealed_ts


class FrontierGate:
    """Waits for frontiers. Exact under any delay."""

    delta_us = 0
    early = 0
    late = 0

    def enter(self, look: Look, waiting: Waiting) -> bool:
        """Whether the walk may look now; if not, it waits."""
        if not look.is_early:
            return True
        look.arrangement.progress.wait(look.lease.reach.newest(look.high_ts), waiting)
        return False

    def passed(self, waiting: Waiting) -> None:
        """What a walk looks at is sealed far enough."""

    def due(self, now_us: int) -> list[Waiting]:
        """Walks that may look now because of the clock."""
        return []

    @property
    def waiting(self) -> list[Waiting]:
        """Walks that wait for the clock."""
        return []


class DeltaGate:
    """Goes by the clock."""

    def __init__(self, delta_us: int) -> None:
        self.delta_us = delta_us
        self.early = 0
        self.late = 0
        self._due: list[tuple[int, int, Look, Waiting]] = []
        self._count = 0
        #: Walks that wait for a stream's own site to seal what they look at.
        self._unsealed: dict[_Place, Look] = {}

    def enter(self, look: Look, waiting: Waiting) -> bool:
        """As for frontiers."""
        due_us = waiting.walk.sealed_at_us + self.delta_us
        is_due = due_us <= waiting.since_us
        if is_due or not (look.at_copy or look.is_early):
            self._note(look)
            return True
        if not look.at_copy:
            self._unsealed[_place_of(waiting)] = look
            look.arrangement.progress.wait(look.lease.reach.newest(look.high_ts), waiting)
        heapq.heappush(self._due, (due_us, self._count, look, waiting))
        self._count += 1
        return False

    def passed(self, waiting: Waiting) -> None:
        self._note(self._unsealed.pop(_place_of(waiting)))

    def due(self, now_us: int) -> list[Waiting]:
        found = []
        while self._due and self._due[0][0] <= now_us:
            _, _, look, waiting = heapq.heappop(self._due)
            if not look.at_copy:
                if self._unsealed.pop(_place_of(waiting), None) is None:
                    # It was sealed in time.
                    continue
                look.arrangement.progress.withdraw(waiting)
            self._note(look)
            found.append(waiting)
        return found

    def _note(self, look: Look) -> None:
        """A walk looks, whatever it finds."""
        self.early += look.is_early
        self.late += look.arrangement.has_forgotten(look.lease, look.low_ts, look.include_ties)

    @property
    def waiting(self) -> list[Waiting]:
        return [entry[3] for entry in sorted(self._due, key=lambda entry: entry[:2]) if entry[2].at_copy]


def _place_of(waiting: Waiting) -> _Place:
    """At a step of SM-D2 a walk's keys come, and then its rows."""
    walk = waiting.walk
    return walk.head, walk.span.first, walk.step, waiting.detail is None


Gate = FrontierGate | DeltaGate
