"""SM-S2 (Algorithm 4): M tells at the source which keys match; tuples of those it has not are fetched, once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.borrowed import BorrowedMixed
from node.core.desk import Desk
from node.core.payload import take_batch
from node.core.replicas.mixed import MixedHolder
from node.core.walk import StepShape, Walk


class Source:
    """At the carry's site, with M. At the stream's site the replica's owner half does all there is to do."""

    def __init__(self, desk: Desk, step: StepShape, replica: MixedHolder) -> None:
        self._desk = desk
        self._step = step
        self._replica: MixedHolder | BorrowedMixed = replica

    def borrow(self, replica: BorrowedMixed) -> None:
        """From now on use another query's M."""
        self._replica = replica

    def arrive(self, walk: Walk) -> None:
        self._replica.window.enter(walk, self._step, lambda: self._join(walk))

    def _join(self, walk: Walk) -> None:
        """Rows whose tuples are here are joined now; Temp, those whose keys match only, when the tuples come."""
        slots, full = self._replica.slots_of(self._step.keys_of(walk.rows))
        temp = np.flatnonzero((slots >= 0) & ~full)
        now = np.flatnonzero(full)
        parts = _Parts(self._desk, walk, (len(now) > 0) + (len(temp) > 0))
        if len(now):
            self._probe(take_batch(walk.rows, now), parts)
        if len(temp):
            rows = take_batch(walk.rows, temp)
            self._replica.fetch(slots[temp], lambda: self._probe(rows, parts))
        if not parts.missing:
            self._desk.advance(walk.narrowed(walk.rows.slice(0, 0)))

    def _probe(self, rows: pa.RecordBatch, parts: _Parts) -> None:
        self._replica.window.probe(rows, self._step, parts.take)


class _Parts:
    """The two parts of a walk's join; the walk goes on when both are there."""

    def __init__(self, desk: Desk, walk: Walk, missing: int) -> None:
        self._desk = desk
        self._walk = walk
        self._rows: list[pa.RecordBatch] = []
        self.missing = missing

    def take(self, rows: pa.RecordBatch) -> None:
        self._rows.append(rows)
        self.missing -= 1
        if not self.missing:
            whole = self._rows[0] if len(self._rows) == 1 else pa.concat_batches(self._rows)
            self._desk.advance(self._walk.joined(whole))
