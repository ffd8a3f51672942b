"""How far an arrangement is sealed, and which walks wait for it to be sealed further.

Delayed probe (Constraint 1): a walk may use an arrangement once that is sealed beyond the walk's newest row.
"""

from __future__ import annotations

import heapq

from node.core.errors import PeerProtocolError
from node.core.queries.waiting import Waiting
from node.core.streams.ticks import TICK_END, tick_start


class Progress:
    """``tau`` and times are in the stream's unit."""

    def __init__(self, name: str, tau: int, frontier: int) -> None:
        self.name = name
        self.tau = tau
        self.frontier = frontier
        self._waiting: list[tuple[int, int, Waiting]] = []
        self._count = 0

    def seal(self, first: int, end: int) -> None:
        """It now has the ticks from ``first`` to ``end``.

        Raises PeerProtocolError unless they follow those it had.
        """
        if first != self.frontier or not first <= end <= TICK_END:
            raise PeerProtocolError(f"{self.name} requires ticks from {self.frontier} on; got {first} to {end}")
        self.frontier = end

    @property
    def sealed_ts(self) -> int:
        """Every tuple with an event time before this has arrived."""
        return tick_start(self.frontier, self.tau)

    def wait(self, newest_ts: int, waiting: Waiting) -> None:
        """Wake this once every tuple up to ``newest_ts`` has arrived."""
        heapq.heappush(self._waiting, (newest_ts, self._count, waiting))
        self._count += 1

    def release(self) -> list[Waiting]:
        """Those that wait no longer, oldest first."""
        woken = []
        while self._waiting and self._waiting[0][0] < self.sealed_ts:
            woken.append(heapq.heappop(self._waiting)[2])
        return woken

    def withdraw(self, waiting: Waiting) -> None:
        """Somebody waits no longer, though what it waited for has not come."""
        self._waiting = [entry for entry in self._waiting if entry[2] is not waiting]
        heapq.heapify(self._waiting)

    def cancel(self, query_id: str) -> None:
        """A query is over: its walks wait no more."""
        if any(waiting.walk.query_id == query_id for _, _, waiting in self._waiting):
            self._waiting = [entry for entry in self._waiting if entry[2].walk.query_id != query_id]
            heapq.heapify(self._waiting)

    @property
    def waiting(self) -> list[Waiting]:
        """Who waits, for reports."""
        return [waiting for _, _, waiting in sorted(self._waiting, key=lambda entry: entry[:2])]
