"""Local joins: a step within one site, SP-S on a full copy, and SP-D's and SM-D1's join at the stream's site."""

from __future__ import annotations

from node.core.desk import Desk
from node.core.stored import StoredWindow
from node.core.walk import StepShape, Walk


class LocalProbe:
    """Joins walks with a window that is here, once it is sealed far enough."""

    def __init__(self, desk: Desk, step: StepShape, window: StoredWindow) -> None:
        self._desk = desk
        self._step = step
        self._window = window

    def borrow(self, window: StoredWindow) -> None:
        """From now on use another query's copy."""
        self._window = window

    def arrive(self, walk: Walk) -> None:
        self._window.enter(walk, self._step, lambda: self._probe(walk))

    def _probe(self, walk: Walk) -> None:
        self._window.probe(walk.rows, self._step, lambda rows: self._desk.advance(walk.joined(rows)))
