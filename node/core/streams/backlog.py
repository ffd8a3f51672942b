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

    def add(self, end: int, nbytes: int) -> None:
        self.batches.append((end, nbytes))
        self.nbytes += nbytes

    def done(self, frontier: int) -> bool:
        """What ends before a tick is over; whether there was any."""
        before = len(self.batches)
        while self.batches and self.batches[0][0] <= frontier:
            self.nbytes -= self.batches.popleft()[1]
        return len(self.batches) < before

    def full(self, limits: Limits) -> bool:
        """Whether its source has to wait."""
        is_much = self.nbytes >= limits.ahead_bytes_max or len(self.batches) >= limits.ahead_batches_max
        return is_much and not self._is_open
