"""The batches that the log of a stream has: a day of half seconds is 172,800 of them, which no turn may walk over."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from node.core.streams.log_extent import LoggedBatch
from node.core.streams.ticks import tick_start


class LoggedBatches:
    """In order; the oldest go first. What is from a time on is found by halving."""

    def __init__(self, tau: int) -> None:
        self._tau = tau
        #: The first ``_gone`` of them are forgotten; the list is cut now and then.
        self._batches: list[LoggedBatch] = []
        self._gone = 0
        #: Bytes, and tuples, of all that came before each of them, and before the next one.
        self._bytes_before = [0]
        self._rows_before = [0]

    def __len__(self) -> int:
        return len(self._batches) - self._gone

    def __getitem__(self, place: int) -> LoggedBatch:
        return self._batches[self._gone + place]

    def __iter__(self) -> Iterator[LoggedBatch]:
        return iter(self._batches[self._gone :])

    @property
    def nbytes(self) -> int:
        return self._bytes_before[-1] - self._bytes_before[self._gone]

    @property
    def rows(self) -> int:
        return self._rows_before[-1] - self._rows_before[self._gone]

    def append(self, batch: LoggedBatch) -> None:
        """The next one."""
        self._batches.append(batch)
        self._bytes_before.append(self._bytes_before[-1] + batch.nbytes)
        self._rows_before.append(self._rows_before[-1] + batch.rows)

    def extend(self, batches: Iterable[LoggedBatch]) -> None:
        """The next ones."""
        for batch in batches:
            self.append(batch)

    def popleft(self) -> LoggedBatch:
        """Forget the oldest."""
        oldest = self[0]
        self._gone += 1
        if 2 * self._gone >= len(self._batches):
            del self._batches[: self._gone], self._bytes_before[: self._gone], self._rows_before[: self._gone]
            self._gone = 0
        return oldest

    def first_after(self, ts: int) -> LoggedBatch | None:
        """The oldest that may have something after an event time: it ends after that."""
        place = self._place_after(ts)
        return self._batches[place] if place < len(self._batches) else None

    def first_of_last(self, count: int, tick: int) -> int | None:
        """From this tick on there are so many tuples before ``tick``; None if there are fewer."""
        end = bisect_right(self._batches, tick, lo=self._gone, key=lambda batch: batch.end)
        wanted = self._rows_before[end] - count
        if wanted < self._rows_before[self._gone]:
            return None
        return self._batches[bisect_right(self._rows_before, wanted, lo=self._gone, hi=end) - 1].first

    def bytes_after(self, ts: int) -> int:
        """How much there is of those that end after an event time."""
        return self._bytes_before[-1] - self._bytes_before[self._place_after(ts)]

    def _place_after(self, ts: int) -> int:
        return bisect_right(self._batches, ts, lo=self._gone, key=lambda batch: tick_start(batch.end, self._tau))
