"""SP-D's half at the source: the walk goes to the stream's site as it is."""

from __future__ import annotations

from node.core.desk import Desk
from node.core.messages import Carry
from node.core.rows import encode_rows
from node.core.walk import StepShape, Walk


class ShipSource:
    """Ships whole walks."""

    def __init__(self, desk: Desk, step: StepShape) -> None:
        self._desk = desk
        self._step = step

    def arrive(self, walk: Walk) -> None:
        ship(self._desk, self._step, walk)


def ship(desk: Desk, step: StepShape, walk: Walk) -> None:
    """Send a walk to the stream's site."""
    rows = encode_rows(walk.rows)
    desk.send(step.owner, Carry(desk.query_id, walk.head, walk.span, walk.step, walk.sealed_at_us, rows))
