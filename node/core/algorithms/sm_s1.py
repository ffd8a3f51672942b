"""SM-S1 (Algorithm 3): keys go out, matching tuples that were not shipped before come back, join at the source."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.algorithms.questions import AskingSource, FindingDestination
from node.core.arrangements.copies.copy import ROWS_AXIS, with_times
from node.core.arrangements.copies.reduced_copy import ReducedHolder, ReducedOwner
from node.core.arrangements.gate import Paced
from node.core.encoding.payload import take_batch
from node.core.encoding.rows import encode_rows
from node.core.engine import POSITION
from node.core.errors import PeerProtocolError
from node.core.links.messages import AskMatches, StepMessage, TupleAnswer
from node.core.queries.waiting import Sought, Waiting, Walk


class Source(AskingSource):
    """At the carry's site, with W'."""

    def arrive(self, walk: Walk) -> None:
        self.ask(walk, self._copy.number)

    def on_message(self, peer: str, message: StepMessage) -> None:
        """The tuples of an answer are in W' already."""
        if not isinstance(message, TupleAnswer):
            super().on_message(peer, message)
            return
        walk = self.take_waiting(message).walk
        self.probe(walk, walk.rows, self._copy)

    def answered(self, waiting: Waiting, rows: pa.RecordBatch) -> None:
        self._desk.advance(waiting.walk.joined(rows))

    @property
    def _copy(self) -> ReducedHolder:
        assert isinstance(self._site.window, ReducedHolder)
        return self._site.window


class Destination(FindingDestination):
    """At the stream's site."""

    def on_message(self, peer: str, message: StepMessage) -> None:
        if not isinstance(message, AskMatches):
            super().on_message(peer, message)
            return
        self._desk.check_times(message)
        owner = self._desk.reduced_owner(peer, message.copy)
        if owner is None or not self._is_ours(owner):
            raise PeerProtocolError(
                f"query {message.query_id} requires a reduced copy of its own that is open; got {message.copy}"
            )
        # Of a count window the holder must have been told the times of all that it is sent.
        self.seek(message, Paced(owner.progress, self.table) if owner.spec.axis is ROWS_AXIS else self.table)

    def _is_ours(self, owner: ReducedOwner) -> bool:
        """Whether a copy is one that the query uses for this step."""
        spec = owner.spec
        return self._desk.query_id in owner.users and (spec.stream, spec.keys) == (self.table.stream, self._step.keys)

    def opened(self, waiting: Waiting) -> None:
        owner = self._owner(waiting)
        if owner is not None:
            self.find(waiting, owner.spec.columns)

    def answered(self, waiting: Waiting, rows: pa.RecordBatch) -> None:
        owner = self._owner(waiting)
        if owner is None:
            return
        found = take_batch(rows, np.flatnonzero(owner.unsent(rows.column(POSITION).to_numpy())))
        numbers = found.column(POSITION).to_numpy()
        positions = owner.positions(numbers, self.table)
        tuples = encode_rows(with_times(positions, found.select(list(owner.spec.columns)))) if len(numbers) else b""
        walk = waiting.walk
        answer = TupleAnswer(walk.query_id, walk.head, walk.span, walk.step, owner.number, tuples)
        self._desk.send(self._step.source, answer)
        # Not before: if the answer is too large to be sent, only its query ends, and others of this copy go on.
        owner.sent(numbers)

    def _owner(self, waiting: Waiting) -> ReducedOwner | None:
        """The copy that was asked for. Its holder may have closed it since: then nobody wants the answer."""
        assert isinstance(waiting.detail, Sought)
        return self._desk.reduced_owner(self._step.source, waiting.detail.copy)
