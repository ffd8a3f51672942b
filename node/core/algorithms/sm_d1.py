"""SM-D1 (Algorithm 5): V at the source tells which rows can match; those are shipped, join at the stream's site."""

from __future__ import annotations

import numpy as np

from node.core.algorithms.ship import ship
from node.core.borrowed import BorrowedKeys
from node.core.desk import Desk
from node.core.payload import take_batch
from node.core.replicas.keys import KeysHolder
from node.core.walk import StepShape, Walk


class Source:
    """At the carry's site, with V. The other half is a ``LocalProbe``."""

    def __init__(self, desk: Desk, step: StepShape, replica: KeysHolder) -> None:
        self._desk = desk
        self._step = step
        self._replica: KeysHolder | BorrowedKeys = replica

    def arrive(self, walk: Walk) -> None:
        self._replica.enter(self._desk, walk, self._step, lambda: self._filter(walk))

    def borrow(self, replica: BorrowedKeys) -> None:
        """From now on use another query's V."""
        self._replica = replica

    def _filter(self, walk: Walk) -> None:
        found = np.flatnonzero(self._replica.table.find(self._step.keys_of(walk.rows)) >= 0)
        reduced = walk.narrowed(take_batch(walk.rows, found))
        if len(found):
            ship(self._desk, self._step, reduced)
        else:
            self._desk.advance(reduced)
