"""SM-S1 (Algorithm 3): keys go out, matching tuples that were not shipped before come back, join at the source."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.algorithms.asking import Asking, find_matches
from node.core.desk import Desk
from node.core.engine import TS
from node.core.errors import PeerProtocolError
from node.core.keybook import KeyBook
from node.core.messages import AskMatches, TupleAnswer
from node.core.payload import take_batch
from node.core.replicas.reduced import ReducedHolder, ReducedOwner
from node.core.rows import decode_rows, encode_rows
from node.core.stored import StoredWindow
from node.core.walk import StepShape, Walk


class Source:
    """At the carry's site, with W'."""

    def __init__(self, desk: Desk, step: StepShape, replica: ReducedHolder) -> None:
        self._desk = desk
        self._step = step
        self._replica = replica
        self.asking = Asking(desk, step)

    def arrive(self, walk: Walk) -> None:
        self.asking.ask(walk)

    def on_tuples(self, message: TupleAnswer) -> None:
        rows = decode_rows(message.rows, self._step.window_schema)
        if rows.column(TS).null_count:
            raise PeerProtocolError(f"query {message.query_id} requires tuples with positions; got some without")
        walk = self.asking.answered(message).walk
        self._replica.take(rows)
        self._replica.window.probe(walk.rows, self._step, lambda joined: self._desk.advance(walk.joined(joined)))


class Destination:
    """At the stream's site."""

    def __init__(self, desk: Desk, step: StepShape, window: StoredWindow, replica: ReducedOwner) -> None:
        self._desk = desk
        self._step = step
        self._window = window
        self._book = KeyBook(step.key_schema, desk.limits)
        self._replica = replica

    def on_ask(self, message: AskMatches) -> None:
        find_matches(
            self._step,
            self._window,
            self._book,
            self._desk,
            message,
            lambda _, rows: self._answer(message, rows),
            looking=self._replica.looking,
        )

    def _answer(self, message: AskMatches, rows: pa.RecordBatch) -> None:
        fresh = self._replica.unsent(self._window.numbers(rows))
        tuples = take_batch(rows.select(self._step.window_schema.names), np.flatnonzero(fresh))
        answer = TupleAnswer(message.query_id, message.head, message.span, message.step, encode_rows(tuples))
        self._desk.send(self._step.source, answer)
