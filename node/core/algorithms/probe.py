"""Local joins: a step within one site, SP-S on a full copy, and SP-D's and SM-D1's join at the stream's site."""

from __future__ import annotations

import pyarrow as pa

from node.core.algorithms.half import Half
from node.core.arrangements.table import RowTable
from node.core.links.messages import Carry, StepMessage
from node.core.queries.waiting import Waiting, Walk


class LocalProbe(Half):
    """Joins walks with a table that is here, once it is sealed far enough."""

    def arrive(self, walk: Walk) -> None:
        self.enter(walk, self._table)

    def opened(self, waiting: Waiting) -> None:
        self.probe(waiting.walk, waiting.walk.rows, self._table)

    def answered(self, waiting: Waiting, rows: pa.RecordBatch) -> None:
        self._desk.advance(waiting.walk.joined(rows))

    @property
    def _table(self) -> RowTable:
        assert isinstance(self._site.window, RowTable)
        return self._site.window


class CarriedProbe(LocalProbe):
    """The same for walks that come from another site."""

    def on_message(self, peer: str, message: StepMessage) -> None:
        if not isinstance(message, Carry):
            super().on_message(peer, message)
            return
        walk = self._desk.carried(message, self._step)
        self._came.take(walk.span)
        self.arrive(walk)
