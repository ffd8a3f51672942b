"""The past of a stream, kept so that a new query can begin there and not only at the frontier.

Kept are whole sealed batches: at least those with tuples of the last ``retain`` of event time before the
frontier, and of a stream that has ended, before its newest tuple. So the oldest tick that the
stream can serve in full is the first tick of the oldest batch kept.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from node.core.sealer import Batch
from node.core.ticks import TICK_END, TICK_MIN, Span, tick_start

#: Batches are handed over in pieces of about this size: each becomes a walk, and so some messages.
PIECE_BYTES = 1024 * 1024


class RetainedBatches:
    """The newest batches of one stream. ``retain`` and ``tau`` are in the stream's time unit; 0 keeps nothing."""

    def __init__(self, retain: int, tau: int) -> None:
        self._retain = retain
        self._tau = tau
        self._batches: deque[tuple[Batch, int]] = deque()
        self._newest_ts = TICK_MIN
        self.rows = 0
        self.nbytes = 0

    def add(self, batch: Batch) -> None:
        """The stream sealed a batch."""
        if not self._retain:
            return
        nbytes = batch.rows.nbytes + batch.ts.nbytes
        self._batches.append((batch, nbytes))
        self.rows += batch.rows.num_rows
        self.nbytes += nbytes
        if batch.span.end < TICK_END:
            self._newest_ts = tick_start(batch.span.end, self._tau)
        elif len(batch.ts):
            self._newest_ts = int(batch.ts[-1]) + 1
        while self._is_over(self._batches[0][0]):
            gone, freed = self._batches.popleft()
            self.rows -= gone.rows.num_rows
            self.nbytes -= freed

    def _is_over(self, batch: Batch) -> bool:
        return tick_start(batch.span.end, self._tau) <= self._newest_ts - self._retain

    def earliest(self, frontier: int) -> int:
        """The first tick from which on the stream has everything, being sealed up to ``frontier``."""
        return self._batches[0][0].span.first if self._batches else frontier

    def pieces(self) -> list[Batch]:
        """What is kept, oldest first, as few batches over the same ticks."""
        pieces: list[Batch] = []
        open_batches: list[Batch] = []
        open_bytes = 0
        for batch, nbytes in self._batches:
            if open_batches and open_bytes + nbytes > PIECE_BYTES:
                pieces.append(_joined(open_batches))
                open_batches, open_bytes = [], 0
            open_batches.append(batch)
            open_bytes += nbytes
        return [*pieces, _joined(open_batches)] if open_batches else pieces


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    span = Span(batches[0].span.first, batches[-1].span.end)
    rows = pa.concat_batches([batch.rows for batch in batches])
    return Batch(span, rows, np.concatenate([batch.ts for batch in batches]))
