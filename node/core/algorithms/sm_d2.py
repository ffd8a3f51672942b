"""SM-D2 (Algorithm 6): keys go out, a bitmap comes back, matching rows are shipped and joined at the stream's site."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.algorithms.asking import Asking, find_matches, walk_of
from node.core.algorithms.ship import ship
from node.core.desk import Desk
from node.core.engine import KEY
from node.core.errors import PeerProtocolError
from node.core.keybook import KeyBook
from node.core.messages import AskMatches, KeyAnswer
from node.core.payload import take_batch
from node.core.rows import empty_batch
from node.core.stored import StoredWindow
from node.core.walk import StepShape, Walk


class Source:
    """At the carry's site."""

    def __init__(self, desk: Desk, step: StepShape) -> None:
        self._desk = desk
        self._step = step
        self.asking = Asking(desk, step)

    def arrive(self, walk: Walk) -> None:
        self.asking.ask(walk)

    def on_matches(self, message: KeyAnswer) -> None:
        asked = self.asking.answered(message)
        if len(message.matches) != -(-asked.keys // 8):
            raise PeerProtocolError(
                f"query {message.query_id} requires a bit for each of {asked.keys} keys; got more or fewer"
            )
        bits = np.unpackbits(np.frombuffer(message.matches, np.uint8), count=asked.keys).astype(np.bool_)
        if not bits.any():
            raise PeerProtocolError(f"query {message.query_id} requires an answer only when a key matches; got none")
        walk = asked.walk
        ship(self._desk, self._step, walk.narrowed(take_batch(walk.rows, np.flatnonzero(bits[asked.key_of]))))


class Destination:
    """At the stream's site. The tuples that were found (Temp) are kept for the rows that come for them."""

    def __init__(self, desk: Desk, step: StepShape, window: StoredWindow) -> None:
        self._desk = desk
        self._step = step
        self._window = window
        self._book = KeyBook(step.key_schema, desk.limits)
        self._temp: dict[int, pa.RecordBatch] = {}

    def __len__(self) -> int:
        return len(self._temp)

    def on_ask(self, message: AskMatches) -> None:
        find_matches(
            self._step,
            self._window,
            self._book,
            self._desk,
            message,
            lambda keys, rows: self._answer(message, keys, rows),
        )

    def _answer(self, message: AskMatches, keys: int, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            # The walk ends here; its source learns of it when the sink is done with it.
            self._desk.advance(walk_of(message, empty_batch(self._step.carry_schema)))
            return
        self._temp[message.span.first] = rows.select(self._step.window_schema.names)
        bits = np.zeros(keys, np.bool_)
        bits[rows.column(KEY).to_numpy()] = True
        answer = KeyAnswer(message.query_id, message.head, message.span, message.step, np.packbits(bits).tobytes())
        self._desk.send(self._step.source, answer)

    def arrive(self, walk: Walk) -> None:
        """The rows whose keys match."""
        temp = self._temp.pop(walk.span.first, None)
        if temp is None:
            raise PeerProtocolError(f"query {self._desk.query_id} requires keys before rows; got {walk.span} without")
        name = f"temp/{walk.head}/{walk.span.first}"
        self._window.probe_temp(temp, name, walk.rows, self._step, lambda rows: self._desk.advance(walk.joined(rows)))
