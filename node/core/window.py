"""Progress of one copy of a window at this site: how far it is sealed, who waits for it, what it has forgotten.

Delayed probe (Constraint 1): a walk may use it once it is sealed beyond the walk's newest
row. Delayed removal (Constraint 2): a tuple stays until no walk that can see it is left.
What the copy holds, and where, is the business of whoever has this.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from node.core.axis import Axis
from node.core.errors import PeerProtocolError
from node.core.ticks import TICK_MIN, tick_start

Action = Callable[[], None]


@dataclass
class WindowState:
    """``tau`` is in the query's time unit."""

    window_id: str
    alias: str
    tau: int
    axis: Axis
    frontier: int
    #: Tuples before this position may be gone.
    kept_from: int = TICK_MIN
    #: V of a count window is not told the tuples' times, so it cannot say what a row would see of it.
    knows_times: bool = True
    _parked: list[tuple[int, int, Action]] = field(default_factory=list)
    _parked_count: int = 0

    def sealed(self, first: int, end: int) -> None:
        """The copy now has the ticks from ``first`` to ``end``.

        Raises PeerProtocolError unless they follow those it had.
        """
        if first != self.frontier or end < first:
            raise PeerProtocolError(
                f"window {self.window_id} requires ticks from {self.frontier} on; got {first} to {end}"
            )
        self.frontier = end

    @property
    def sealed_ts(self) -> int:
        """Every tuple with an event time before this has arrived."""
        return tick_start(self.frontier, self.tau)

    def park(self, newest_ts: int, action: Action) -> None:
        """Do that once every tuple that a row at ``newest_ts`` can see has arrived."""
        heapq.heappush(self._parked, (newest_ts, self._parked_count, action))
        self._parked_count += 1

    def take_parked(self) -> list[tuple[int, Action]]:
        """All that is parked, oldest first; it waits here no more."""
        parked, self._parked = sorted(self._parked, key=lambda item: item[:2]), []
        return [(newest_ts, action) for newest_ts, _, action in parked]

    def release(self) -> None:
        """Let go on what can, oldest first."""
        while self._parked and self._parked[0][0] < self.sealed_ts:
            heapq.heappop(self._parked)[2]()

    @property
    def waiting(self) -> int:
        """How many walks wait for this copy to be sealed further."""
        return len(self._parked)

    def forget_before(self, position: int) -> bool:
        """What is before the position is gone; False when that is no news."""
        if position <= self.kept_from:
            return False
        self.kept_from = position
        return True
