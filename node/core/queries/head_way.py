"""Which ticks of a head walk in a run: those from its first one on, up to where a successor takes over, that are not
stored already.

A batch may be cut otherwise than when it was walked before. That does no harm: a result belongs to its head's
tuple, not to the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from node.core.engine import TS
from node.core.streams.ticks import TICK_END, Span, tick_start


@dataclass(frozen=True, slots=True)
class HeadWay:
    """``tau`` is in the query's unit."""

    first: int
    #: Spans that are stored, or being stored, ascending.
    islands: tuple[Span, ...]
    tau: int
    #: From this tick on they are a successor's.
    end: int = TICK_END

    def spans(self, batch: Span) -> list[Span]:
        """What of a batch's ticks is to walk."""
        found = []
        at, end = max(batch.first, self.first), min(batch.end, self.end)
        for island in self.islands:
            if island.first >= end:
                break
            if at < island.first:
                found.append(Span(at, island.first))
            at = max(at, island.end)
        if at < end:
            found.append(Span(at, end))
        return found

    def part(self, rows: pa.RecordBatch, span: Span) -> pa.RecordBatch:
        """The rows of a batch in some of its ticks."""
        times = rows.column(TS).to_numpy()
        low, high = np.searchsorted(times, [tick_start(span.first, self.tau), tick_start(span.end, self.tau)])
        return rows if high - low == len(times) else rows.slice(low, high - low)
