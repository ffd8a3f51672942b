"""One copy of a window at this site: how far it is sealed, who waits for it, what may be forgotten.

The rows themselves live in the engine. Delayed probe (Constraint 1): a walk may
probe once the window is sealed beyond its newest row. Delayed removal
(Constraint 2): a tuple stays until no walk that can see it is left.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from node.core.errors import PeerProtocolError
from node.core.ticks import TICK_END, TICK_MIN, Span, tick_start

W = TypeVar("W")


@dataclass
class WindowState(Generic[W]):
    """Progress of one window copy. ``tau`` and ``length`` are in the query's time unit."""

    window_id: str
    alias: str
    tau: int
    length: int
    frontier: int
    #: Rows with an event time before this may be gone.
    kept_from_ts: int = TICK_MIN
    _parked: list[tuple[int, int, W]] = field(default_factory=list)
    _parked_count: int = 0

    def sealed(self, span: Span) -> None:
        """The window now has the batch of ``span``.

        Raises PeerProtocolError unless the batch follows the last one.
        """
        if span.first != self.frontier:
            raise PeerProtocolError(f"window {self.window_id} requires the batch from {self.frontier}; got {span}")
        self.frontier = span.end

    def covers(self, newest_ts: int) -> bool:
        """Whether every tuple that a row at ``newest_ts`` can see has arrived."""
        return newest_ts < tick_start(self.frontier, self.tau)

    def park(self, newest_ts: int, walk: W) -> None:
        """Keep a walk until the window covers it."""
        heapq.heappush(self._parked, (newest_ts, self._parked_count, walk))
        self._parked_count += 1

    def release(self) -> list[W]:
        """The parked walks that can go on, oldest first."""
        ready = []
        while self._parked and self.covers(self._parked[0][0]):
            ready.append(heapq.heappop(self._parked)[2])
        return ready

    @property
    def waiting(self) -> int:
        """How many walks wait for this window to be sealed further."""
        return len(self._parked)

    def expire_before(self, done: int) -> int | None:
        """The event time before which nothing is needed once every other head is done up to ``done``.

        None when that is no news.
        """
        if done <= TICK_MIN:
            return None
        before = TICK_END if done >= TICK_END else tick_start(done, self.tau) - self.length
        if before <= self.kept_from_ts:
            return None
        self.kept_from_ts = before
        return before
