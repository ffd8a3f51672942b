"""A local stream's window, with the owner halves of the copies that other sites keep of it.

The window changes only when a batch comes: then it takes the new tuples, forgets those that no walk
can see any more, and tells its replicas both. So a replica can equal the window at every batch.
"""

from __future__ import annotations

import pyarrow as pa

from node.core.axis import CountAxis
from node.core.engine import TS
from node.core.replicas.keys import KeysOwner
from node.core.replicas.mixed import MixedOwner
from node.core.replicas.reduced import ReducedOwner
from node.core.stored import StoredWindow
from node.core.ticks import TICK_END, TICK_MIN, Span

OwnerHalf = ReducedOwner | KeysOwner | MixedOwner


class OwnedWindow:
    """The window of one stream by one choice of keys."""

    def __init__(self, window: StoredWindow) -> None:
        self.window = window
        self.replicas: list[OwnerHalf] = []
        self._tuples = 0
        self._done = TICK_MIN

    def on_batch(self, span: Span, rows: pa.RecordBatch) -> None:
        """The stream sealed a batch."""
        state = self.window.state
        times = rows.column(TS).to_numpy()
        first, self._tuples = self._tuples, self._tuples + rows.num_rows
        if self.replicas or isinstance(state.axis, CountAxis):
            state.axis.ordinals.append(times)
        self.window.take(rows, first)
        state.sealed(span.first, span.end)
        self.window.forget_passed(self._done)
        # Before walks go on: what they lead to must not overtake the sync on the link.
        for replica in self.replicas:
            replica.on_batch(span, rows, first, times)
        state.release()

    def on_done(self, done: int) -> None:
        """The sink is done with every row before this tick that could use the window."""
        self._done = done
        if self.window.state.frontier == TICK_END and self.window.forget_passed(done):
            for replica in self.replicas:
                replica.on_forgotten()
