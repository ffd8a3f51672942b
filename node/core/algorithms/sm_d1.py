"""SM-D1 (Algorithm 5): V at the source tells which rows can match; those are shipped, join at the stream's site."""

from __future__ import annotations

import numpy as np

from node.core.algorithms.half import Half
from node.core.algorithms.probe import CarriedProbe as Destination
from node.core.algorithms.ship import ship
from node.core.arrangements.copies.key_copy import KeysHolder
from node.core.encoding.payload import take_batch
from node.core.queries.waiting import Waiting, Walk

__all__ = ["Destination", "Source"]


class Source(Half):
    """At the carry's site, with V."""

    def arrive(self, walk: Walk) -> None:
        self.enter(walk, self._keys)

    def opened(self, waiting: Waiting) -> None:
        walk = waiting.walk
        found = np.flatnonzero(self._keys.table.find(self._step.keys_of(walk.rows)) >= 0)
        reduced = walk.narrowed(take_batch(walk.rows, found))
        if len(found):
            ship(self._desk, self._step, reduced)
        else:
            self._desk.advance(reduced)

    @property
    def _keys(self) -> KeysHolder:
        assert isinstance(self._site.window, KeysHolder)
        return self._site.window
