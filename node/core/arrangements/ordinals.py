"""Event times of a stream's tuples by their numbers: how many tuples are before a time.

Batches are sealed in order of time, so numbers rise with event time, and what lies between two times lies between
two numbers.
"""

from __future__ import annotations

import numpy as np

from node.core.keys.fifo import Fifo
from node.core.keys.hashing import I64
from node.core.streams.ticks import TICK_MIN


class Ordinals:
    """The times of the tuples from number ``first`` on."""

    def __init__(self, first: int = 0, known_from: int = TICK_MIN) -> None:
        self._times = Fifo(np.int64)
        #: Number of the oldest tuple whose time is still known.
        self.first = first
        #: Rows before this event time get wrong ranks: tuples before it are forgotten, or never came.
        self.known_from = known_from

    @property
    def end(self) -> int:
        """The number of the next tuple."""
        return self.first + len(self._times)

    @property
    def nbytes(self) -> int:
        return self._times.nbytes

    def append(self, ts: I64) -> int:
        """Tuples arrived, ascending in time; the number of the first of them."""
        first = self.end
        self._times.append(ts)
        return first

    def begin_at(self, first: int) -> None:
        """The number of the first tuple, once that is known."""
        if not len(self._times):
            self.first = first

    def rank(self, ts: I64) -> I64:
        """For each of these times the number of the first tuple that is not before it."""
        ranks: I64 = np.searchsorted(self._times.values, ts) + self.first
        return ranks

    def rank_one(self, ts: int) -> int:
        return int(np.searchsorted(self._times.values, ts)) + self.first

    def times(self, numbers: I64) -> I64:
        """The event times of these tuples."""
        found: I64 = self._times.values[numbers - self.first]
        return found

    def time_of(self, number: int) -> int | None:
        """The event time of a tuple; None if it is not known: it is to come, or was forgotten."""
        return int(self._times.values[number - self.first]) if self.first <= number < self.end else None

    def forget_before(self, number: int) -> None:
        """Nobody will ask about a time before that tuple's."""
        gone = self._times.pop(max(0, min(number, self.end) - self.first))
        self.first += len(gone)
        if len(gone):
            self.known_from = int(gone[-1]) + 1


class Passing:
    """The numbers of those tuples that pass one filter: what a count window behind that filter counts."""

    def __init__(self, known_from: int) -> None:
        self._numbers = Fifo(np.int64)
        #: Of tuples before this event time it is not known which pass.
        self.known_from = known_from
        self._has_forgotten = False

    @property
    def nbytes(self) -> int:
        return self._numbers.nbytes

    def append(self, numbers: I64) -> None:
        self._numbers.append(numbers)

    def back(self, before: I64, count: int) -> I64:
        """For each number, that of the ``count``-th passing tuple before it; the first known if there are fewer."""
        numbers = self._numbers.values
        if not len(numbers):
            return before
        places = np.searchsorted(numbers, before) - count
        found: I64 = np.where(places >= 0, numbers[np.maximum(places, 0)], np.minimum(before, numbers[0]))
        return found

    def lacks(self, before: int, count: int) -> bool:
        """Whether some of the last ``count`` before a number are forgotten."""
        return self._has_forgotten and int(np.searchsorted(self._numbers.values, before)) < count

    def forget_before(self, number: int) -> None:
        gone = self._numbers.pop(int(np.searchsorted(self._numbers.values, number)))
        self._has_forgotten |= len(gone) > 0
