"""A window, or a copy of one, whose tuples the engine holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.desk import Desk, Then
from node.core.engine import TS, Append, CloseWindow, Expire, Find, OpenWindow, Probe
from node.core.walk import StepShape, Walk
from node.core.window import Action, WindowState

#: Column with the tuple's number, in windows of which single tuples are remembered.
SEQ = "__seq"


class StoredWindow:
    """Its progress (``state``) and the operations on its tuples."""

    def __init__(
        self, desk: Desk, state: WindowState, schema: pa.Schema, keys: tuple[str, ...], numbered: bool = False
    ) -> None:
        self.state = state
        self.window_id = state.window_id
        self._desk = desk
        self._numbered = numbered
        self.schema = schema.append(pa.field(SEQ, pa.int64())) if numbered else schema
        desk.run(OpenWindow(self.window_id, self.schema, keys))

    def take(self, rows: pa.RecordBatch, first: int) -> None:
        """Add the tuples number ``first``, ``first + 1``, ..."""
        if rows.num_rows:
            if self._numbered:
                rows = rows.append_column(SEQ, pa.array(np.arange(first, first + rows.num_rows)))
            self.append(self.state.axis.positions(rows, first))

    def append(self, rows: pa.RecordBatch) -> None:
        """Add tuples that already have their positions."""
        if rows.num_rows:
            self._desk.run(Append(self.window_id, rows))

    def enter(self, walk: Walk, step: StepShape, action: Action) -> None:
        """Do ``action`` when the walk may use the window."""
        self._desk.gate.enter(self.state, *walk.times, step.include_ties, walk.sealed_at_us, action)

    def probe(self, rows: pa.RecordBatch, step: StepShape, then: Then) -> None:
        """Join carry rows with the window."""
        self._probe(self.window_id, rows, step, then)

    def probe_temp(self, tuples: pa.RecordBatch, name: str, rows: pa.RecordBatch, step: StepShape, then: Then) -> None:
        """Join carry rows with tuples that were found in the window before, by what the window knows of positions."""
        window_id = f"{self.window_id}/{name}"
        self._desk.run(OpenWindow(window_id, tuples.schema, step.window_keys))
        self._desk.run(Append(window_id, tuples))
        self._probe(window_id, rows, step, then)
        self._desk.run(CloseWindow(window_id))

    def _probe(self, window_id: str, rows: pa.RecordBatch, step: StepShape, then: Then) -> None:
        axis = self.state.axis
        placed, position, ties = axis.placed(rows, step.include_ties)
        names = tuple(step.answer_schema.names)
        probe = Probe(
            window_id, placed, step.carry_keys, axis.length, ties, position, step.residual, names, self.lowest
        )
        self._desk.ask(probe, then)

    @property
    def lowest(self) -> int | None:
        """What is before this position is none of the query's business; None if nothing is."""
        return None

    def find(self, keys: pa.RecordBatch, low: int, high: int, then: Then) -> None:
        """The tuples with these keys and a position in [low, high)."""
        self._desk.ask(Find(self.window_id, keys, low, high), then)

    def numbers(self, rows: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The numbers of found tuples."""
        return rows.column(SEQ if self._numbered else TS).to_numpy()  # type: ignore[no-any-return]

    def forget_passed(self, done: int) -> bool:
        """Forget what no row from the tick ``done`` on can see; whether there was such a thing."""
        ts = self._desk.gate.passed(self.state, done)
        if ts is None:
            return False
        axis = self.state.axis
        before = axis.before(ts)
        news = self.expire(before)
        axis.forget(before, ts)
        return news

    def expire(self, before: int) -> bool:
        """Nobody asks for a tuple before this position any more; False when that is no news."""
        if not self.state.forget_before(before):
            return False
        self._desk.run(Expire(self.window_id, before))
        return True

    def close(self) -> None:
        self._desk.run(CloseWindow(self.window_id))
