"""SM-D2 (Algorithm 6): keys go out, a bitmap comes back, matching rows are shipped and joined at the stream's site.

The paper keeps the tuples that were found (Temp) for the rows that come for them. Here they are still in the stream's
table, since the walk is not done, and are joined there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.algorithms.half import HalfSite
from node.core.algorithms.questions import AskingSource, FindingDestination
from node.core.algorithms.ship import ship
from node.core.encoding.payload import take_batch
from node.core.engine import KEY
from node.core.errors import PeerProtocolError
from node.core.links.messages import AskMatches, Carry, KeyAnswer, StepMessage
from node.core.queries.shape import StepShape
from node.core.queries.waiting import Asked, Sought, Stage, Waiting, Walk
from node.core.streams.ticks import Span


class Source(AskingSource):
    """At the carry's site."""

    def arrive(self, walk: Walk) -> None:
        self.ask(walk, 0)

    def on_message(self, peer: str, message: StepMessage) -> None:
        if not isinstance(message, KeyAnswer):
            super().on_message(peer, message)
            return
        waiting = self.take_waiting(message)
        asked, walk = waiting.detail, waiting.walk
        assert isinstance(asked, Asked)
        if len(message.matches) != -(-asked.keys // 8):
            raise PeerProtocolError(
                f"query {message.query_id} requires a bit for each of {asked.keys} keys; got more or fewer"
            )
        bits = np.unpackbits(np.frombuffer(message.matches, np.uint8), count=asked.keys).astype(np.bool_)
        if not bits.any():
            raise PeerProtocolError(f"query {message.query_id} requires an answer only when a key matches; got none")
        ship(self._desk, self._step, walk.narrowed(take_batch(walk.rows, np.flatnonzero(bits[asked.key_of]))))


class Destination(FindingDestination):
    """At the stream's site."""

    def __init__(self, site: HalfSite, step: StepShape, at_source: bool) -> None:
        super().__init__(site, step, at_source)
        #: Walks of which keys match: their rows are to come.
        self._matching: dict[Span, None] = {}

    def on_message(self, peer: str, message: StepMessage) -> None:
        match message:
            case AskMatches():
                self._desk.check_times(message)
                self.seek(message, self.table)
            case Carry():
                walk = self._desk.carried(message, self._step)
                self._take_matching(walk)
                self.enter(walk, self.table)
            case _:
                super().on_message(peer, message)

    def _take_matching(self, walk: Walk) -> None:
        if walk.span not in self._matching:
            required = f"query {walk.query_id} requires rows for keys that were found to match"
            raise PeerProtocolError(f"{required}; got {walk.head!r} {walk.span}")
        del self._matching[walk.span]

    def opened(self, waiting: Waiting) -> None:
        if waiting.detail is None:
            self.probe(waiting.walk, waiting.walk.rows, self.table)
        else:
            self.find(waiting, ())

    def answered(self, waiting: Waiting, rows: pa.RecordBatch) -> None:
        walk = waiting.walk
        if waiting.stage is Stage.ENGINE:
            self._desk.advance(walk.joined(rows))
            return
        assert isinstance(waiting.detail, Sought)
        if not rows.num_rows:
            # The walk ends here; its source learns of it when the sink is done with it.
            self._desk.advance(walk)
            return
        bits = np.zeros(waiting.detail.keys.num_rows, np.bool_)
        bits[rows.column(KEY).to_numpy()] = True
        answer = KeyAnswer(walk.query_id, walk.head, walk.span, walk.step, np.packbits(bits).tobytes())
        self._desk.send(self._step.source, answer)
        self._matching[walk.span] = None
