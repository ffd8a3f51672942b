"""The newest batches of a stream, kept so that it can be measured without being read again."""

from __future__ import annotations

from collections import deque

from node.core.streams.sealer import Batch

#: Enough to know a stream by, little enough to hold for every stream of a site.
SAMPLE_ROWS_MAX = 2**17
SAMPLE_BYTES_MAX = 16 * 1024 * 1024


class RecentBatches:
    """Batches with rows, newest last, up to a bound; the newest one stays however large it is."""

    def __init__(self, rows_max: int = SAMPLE_ROWS_MAX, bytes_max: int = SAMPLE_BYTES_MAX) -> None:
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._rows = 0
        self._bytes = 0
        self._batches: deque[tuple[Batch, int]] = deque()

    def add(self, batch: Batch) -> None:
        if not batch.rows.num_rows:
            return
        nbytes = batch.rows.nbytes
        self._batches.append((batch, nbytes))
        self._rows += batch.rows.num_rows
        self._bytes += nbytes
        while len(self._batches) > 1 and (self._rows > self._rows_max or self._bytes > self._bytes_max):
            oldest, freed = self._batches.popleft()
            self._rows -= oldest.rows.num_rows
            self._bytes -= freed

    def batches(self) -> tuple[Batch, ...]:
        """All that are kept, oldest first."""
        return tuple(batch for batch, _ in self._batches)
