"""A stream of rows that a kept join made: a tuple for each, at the time of its newest component.

It has no source. The site's sink of the join appends a batch as soon as every head of the join has been walked through
its ticks, and the queries that follow the stream can take more: so it has a frontier, a log and pins like any stream,
and what is not appended is not done, which holds back the sources of the join as far as needed.

A stream that stands still for a query does so with those that feed it. That cannot deadlock either: a derived stream's
frontier is no higher than those of its components, so of the streams that stand still the lowest frontier is one of a
source, or of a derived stream whose followers wait for none that is lower.
"""

from __future__ import annotations

import pyarrow as pa

from node.core.limits import Limits
from node.core.streams.log_extent import LogExtent
from node.core.streams.sealer import Batch, Times
from node.core.streams.stream import LocalStream, StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from planner.model.beginning import Beginning
from planner.model.query import StreamInfo


class DerivedStream(StreamState):
    """A stream that is kept for one query."""

    is_kept = True

    def __init__(self, info: StreamInfo, tau_ms: int, logged: LogExtent | None = None, begin: int = TICK_MIN) -> None:
        """``begin``: nobody wants what is before this tick, and it is not made."""
        super().__init__(LocalStream(info, logged=logged), tau_ms)
        self.begin = begin
        if logged is None:
            self.fed = begin
        self._appended = begin if logged is None else logged.end
        self._rows = 0 if logged is None else logged.next_tuple
        #: It has all results of its join from this tick on; None while that is not known.
        self.first_tick: int | None = None

    @property
    def frontier(self) -> int:
        return self._appended

    def begin_of(self, wanted: Beginning) -> int:
        """Where its join begins."""
        assert self.first_tick is not None, "a query is not ready before the joins that are kept for it are"
        return self.first_tick

    def wants_more(self, limits: Limits, logs_full: bool = False) -> bool:
        """It has no source that could be read."""
        return False

    def takes_more(self, limits: Limits, logs_full: bool) -> bool:
        """Whether those who follow it can take another batch."""
        return super().wants_more(limits, logs_full)

    def append(self, end: int, rows: pa.RecordBatch, ts: Times, now_us: int) -> Batch:
        """The next batch, up to a tick; it is to be logged."""
        batch = Batch(Span(self._appended, end), rows, ts, self._rows, int(ts[-1]) if len(ts) else None)
        self._appended = end
        self._rows += len(ts)
        self.ended = end == TICK_END
        self.rows_arrived = self._rows
        self.sealed(batch, now_us)
        return batch
