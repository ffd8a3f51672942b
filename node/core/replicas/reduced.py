"""W': the tuples shipped so far (SM-S1).

The owner remembers one bit per tuple and receiver (Algorithm 7): a tuple that was shipped is not
shipped again. Algorithm 8 has the owner tell each tick how many shipped tuples expired. Here both
halves know that already: what may be forgotten follows from the sink's done frontiers, which reach
every site. So a time window needs no sync at all. In a count window the holder must know how many
tuples are before a row, so it is sent the event times of all tuples.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from node.core.axis import CountAxis
from node.core.bits import Bits, Mask
from node.core.desk import Desk
from node.core.errors import PeerProtocolError, invariant
from node.core.hashing import I64
from node.core.ints import encode_ints
from node.core.messages import ReplicaSync
from node.core.replicas.half import decode_times, half_status
from node.core.status import ReplicaRole, ReplicaStatus
from node.core.stored import StoredWindow
from node.core.ticks import Span
from node.core.walk import ReplicaShape
from node.core.window import WindowState


class ReducedOwner:
    """Which tuples of the window the holder has."""

    def __init__(self, desk: Desk, shape: ReplicaShape, state: WindowState) -> None:
        self._desk = desk
        self._shape = shape
        self._state = state
        self._sent = Bits()
        self._first = 0
        self._first_live = 0
        #: Under policy delta a tuple can be forgotten between question and answer. Per question: the first it may hold.
        self._looking: deque[int] = deque()
        self._shipped = 0

    def on_batch(self, span: Span, rows: pa.RecordBatch, first: int, times: I64) -> None:
        """The window has the tuples number ``first`` on."""
        self._sent.grow(first + rows.num_rows - self._first)
        if isinstance(self._state.axis, CountAxis):
            shape = self._shape
            sync = ReplicaSync(self._desk.query_id, shape.number, span.end, 0, encode_ints(times), b"", b"", b"")
            self._desk.send(shape.holder, sync)
        self.on_forgotten()

    def on_forgotten(self) -> None:
        """The window may have forgotten tuples."""
        end = self._first + len(self._sent)
        self._first_live = max(self._first_live, min(self._state.axis.first_live(self._state.kept_from), end))
        first = min([self._first_live, *list(self._looking)[:1]])
        self._sent.drop_first(first - self._first)
        self._first = first

    def looking(self) -> None:
        """Tuples are looked for; until ``unsent`` is told the answer, the bits of all that it may hold stay."""
        self._looking.append(self._first_live)

    def unsent(self, numbers: I64) -> Mask:
        """Which of these tuples the holder does not have; from now on it has them."""
        places = numbers - self._first
        invariant(not len(places) or places.min() >= 0, "replica: a tuple that was looked for has its bit")
        fresh = ~self._sent.get(places)
        self._sent.set(places)
        self._shipped += int(fresh.sum())
        self._looking.popleft()
        self.on_forgotten()
        return fresh

    def status(self) -> ReplicaStatus:
        return half_status(
            self._desk.query_id,
            self._shape,
            ReplicaRole.OWNER,
            self._state.frontier,
            0,
            self._shipped,
            self._sent.nbytes,
        )


class ReducedHolder:
    """The shipped tuples, as a window of the engine."""

    def __init__(self, desk: Desk, shape: ReplicaShape, window: StoredWindow) -> None:
        self._desk = desk
        self._shape = shape
        self.window = window
        self.alias = shape.alias
        self._tuples = 0

    def on_sync(self, message: ReplicaSync) -> None:
        axis = self.window.state.axis
        if not isinstance(axis, CountAxis) or message.born or message.dead or message.full:
            raise PeerProtocolError(f"replica {self._shape.name} requires times, of a count window; got other things")
        times = decode_times(self._shape, self.window.state, message.times, message.frontier)
        self.window.state.sealed(self.window.state.frontier, message.frontier)
        axis.ordinals.append(times)

    def take(self, rows: pa.RecordBatch) -> None:
        """Tuples were shipped."""
        self._tuples += rows.num_rows
        self.window.append(rows)

    def on_done(self, done: int) -> None:
        """The sink is done with every row before this tick that could use the copy."""
        self.window.forget_passed(done)

    def status(self) -> ReplicaStatus:
        state = self.window.state
        return half_status(
            self._desk.query_id,
            self._shape,
            ReplicaRole.HOLDER,
            state.frontier,
            0,
            self._tuples,
            state.axis.ordinals.nbytes,
        )
