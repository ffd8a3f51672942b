"""A log without a disk, for a run that ends with its query."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice

from node.core.errors import invariant
from node.core.streams.sealer import Batch
from node.core.streams.ticks import TICK_MIN, tick_text
from node.storage.errors import StorageError
from node.storage.stream_log import PIECE_BYTES


class MemoryLog:
    """Keeps the batches themselves until they are trimmed."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._appended: list[Batch] = []
        self.frontier = TICK_MIN
        self.nbytes = 0
        #: Batches before this tick are forgotten.
        self._kept_from = TICK_MIN

    def append(self, batch: Batch) -> None:
        before = self._appended[-1].span.end if self._appended else self.frontier
        invariant(
            before in (batch.span.first, TICK_MIN),
            f"log requires a batch from tick {tick_text(before)} on; got {batch.span}",
        )
        self._appended.append(batch)

    def commit(self) -> None:
        for batch in self._appended:
            self._batches.append(batch)
            self.nbytes += _nbytes(batch)
            self.frontier = batch.span.end
        self._appended.clear()

    def read_from(self, tick: int) -> tuple[Batch, ...]:
        if tick < self._kept_from:
            raise StorageError(
                f"a reader required the batch of tick {tick_text(tick)}; "
                f"got a log that begins at {tick_text(self._kept_from)}"
            )
        place = bisect_right(self._batches, tick, key=_end)
        found: list[Batch] = []
        nbytes = 0
        for batch in islice(self._batches, place, None):
            if found and nbytes + _nbytes(batch) > PIECE_BYTES:
                break
            found.append(batch)
            nbytes += _nbytes(batch)
        return tuple(found)

    def sizes_from(self, tick: int) -> tuple[int, ...]:
        place = bisect_right(self._batches, tick, key=_end)
        return tuple(map(_nbytes, islice(self._batches, place, None)))

    def trim(self, tick: int) -> None:
        count = bisect_right(self._batches, tick, key=_end)
        if count:
            self._kept_from = self._batches[count - 1].span.end
            self.nbytes -= sum(map(_nbytes, self._batches[:count]))
            del self._batches[:count]

    def close(self) -> None:
        """Nothing to do: the batches go with the log."""


class MemoryLogs:
    """Makes logs that are nowhere."""

    def open(self, stream: str) -> MemoryLog:
        """A log for another stream."""
        return MemoryLog()

    def remove(self, stream: str) -> None:
        """Nothing is left of it."""


def _nbytes(batch: Batch) -> int:
    return int(batch.rows.nbytes + batch.ts.nbytes)


def _end(batch: Batch) -> int:
    return batch.span.end
