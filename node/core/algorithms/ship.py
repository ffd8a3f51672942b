"""Walks that go to the stream's site."""

from __future__ import annotations

from node.core.algorithms.desk import Desk
from node.core.algorithms.half import Half
from node.core.encoding.rows import encode_rows
from node.core.links.messages import Carry
from node.core.queries.shape import StepShape
from node.core.queries.waiting import Walk


class ShipSource(Half):
    """Ships whole walks."""

    def arrive(self, walk: Walk) -> None:
        ship(self._desk, self._step, walk)


def ship(desk: Desk, step: StepShape, walk: Walk) -> None:
    """Send a walk to the stream's site."""
    rows = encode_rows(walk.rows)
    desk.send(step.owner, Carry(desk.query_id, walk.head, walk.span, walk.step, walk.sealed_at_us, rows))
