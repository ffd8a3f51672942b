"""The whole window (SP-S): every batch is shipped as it is."""

from __future__ import annotations

import pyarrow as pa

from node.core.axis import CountAxis
from node.core.desk import Desk
from node.core.messages import Sync
from node.core.replicas.half import half_status
from node.core.rows import encode_rows
from node.core.status import ReplicaRole, ReplicaStatus
from node.core.stored import StoredWindow
from node.core.ticks import TICK_MIN, Span
from node.core.walk import ReplicaShape


class FullOwner:
    """Ships batches."""

    def __init__(self, desk: Desk, shape: ReplicaShape, first_tick: int) -> None:
        self._desk = desk
        self._shape = shape
        self.frontier = first_tick
        self._shipped = 0

    def on_batch(self, span: Span, rows: pa.RecordBatch, sealed_at_us: int) -> None:
        self.frontier = span.end
        self._shipped += rows.num_rows
        sync = Sync(self._desk.query_id, self._shape.alias, span, sealed_at_us, encode_rows(rows))
        self._desk.send(self._shape.holder, sync)

    def status(self) -> ReplicaStatus:
        return half_status(
            self._desk.query_id, self._shape, ReplicaRole.OWNER, self.frontier, 0, self._shipped, nbytes=0
        )


class FullHolder:
    """The copy, as one window for each choice of keys by which it is probed."""

    def __init__(self, desk: Desk, shape: ReplicaShape, windows: list[StoredWindow]) -> None:
        self._desk = desk
        self._shape = shape
        self._windows = windows
        self._tuples = 0
        self._frontier = TICK_MIN
        self.alias = shape.alias

    @property
    def windows(self) -> list[StoredWindow]:
        return self._windows

    def on_sync(self, span: Span, rows: pa.RecordBatch) -> None:
        """The next batch of the window."""
        self._frontier = span.end
        first, self._tuples = self._tuples, self._tuples + rows.num_rows
        for window in self._windows:
            window.state.sealed(span.first, span.end)
            if isinstance(window.state.axis, CountAxis):
                window.state.axis.ordinals.append(rows.column(0).to_numpy())
            window.take(rows, first)
            window.state.release()

    def on_done(self, done: int) -> None:
        """The sink is done with every row before this tick that could use the copy."""
        for window in self._windows:
            # Not beyond what has come: another query may attach and need all that follows.
            window.forget_passed(min(done, window.state.frontier))

    def status(self) -> ReplicaStatus:
        tuples, frontier = self._tuples, self._frontier
        return half_status(self._desk.query_id, self._shape, ReplicaRole.HOLDER, frontier, 0, tuples, nbytes=0)
