"""Batches of one local stream that are sealed and not done: what look-ahead is measured by."""

from __future__ import annotations

from collections import deque

from node.core.limits import Limits


class Backlog:
    """Grows when a batch is sealed, shrinks when the sink is done with it."""

    def __init__(self, is_open: bool = False) -> None:
        """``is_open``: something else bounds it, and its source never waits for it."""
        self._is_open = is_open
        self.batches: deque[tuple[int, int]] = deque()
        self.nbytes = 0
        #: Batches of which it is not known by which plan they walk.
        self._held = 0
        self._held_bytes = 0

    def add(self, end: int, nbytes: int) -> None:
        self.batches.append((end, nbytes))
        self.nbytes += nbytes

    def hold(self, nbytes: int) -> None:
        """A batch is not walked yet."""
        self._held += 1
        self._held_bytes += nbytes

    def release(self) -> None:
        """What was held is walked by some plan now."""
        self._held = self._held_bytes = 0

    def done(self, frontier: int) -> bool:
        """What ends before a tick is over; whether there was any."""
        before = len(self.batches)
        while self.batches and self.batches[0][0] <= frontier:
            self.nbytes -= self.batches.popleft()[1]
        return len(self.batches) < before

    def full(self, limits: Limits) -> bool:
        """Whether its source has to wait."""
        nbytes, count = self.nbytes + self._held_bytes, len(self.batches) + self._held
        return not self._is_open and (nbytes >= limits.ahead_bytes_max or count >= limits.ahead_batches_max)
