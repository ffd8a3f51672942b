"""M: all keys of a window, and the full tuples of those keys that were asked for (SM-S2, Algorithm 9).

To V's births and deaths come s_F, the new tuples of keys that the holder has in full, and Fetch,
by which it asks for all tuples of keys that it has only as keys. Expired tuples are not counted out
per key: a sync says before which position everything is gone, and tuples carry their positions.

A Fetch names slots. It may cross a sync in which a key died and its slot was given to another, so
it says how many syncs the holder had seen; a slot that was born later is not what was meant. Both
halves apply that rule, so they agree on what is full at every place in the stream of messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from node.core.axis import CountAxis
from node.core.bits import Bits, Mask
from node.core.desk import Desk
from node.core.errors import PeerProtocolError
from node.core.hashing import I64
from node.core.ints import decode_ints, encode_ints
from node.core.keystore import with_room
from node.core.keytable import KeyTable
from node.core.messages import Fetch, Fetched, ReplicaSync
from node.core.payload import take_batch
from node.core.replicas.half import NUMBERS_MAX, decode_times, half_status
from node.core.replicas.keys import (
    KeyCounts,
    advance,
    apply_births,
    apply_deaths,
    check_progress,
    key_schema,
)
from node.core.rows import decode_rows, empty_batch, encode_rows
from node.core.status import ReplicaRole, ReplicaStatus
from node.core.stored import StoredWindow
from node.core.ticks import TICK_END, Span
from node.core.walk import ReplicaShape


class MixedOwner:
    """V with counts and bits: which keys the holder has in full."""

    def __init__(self, desk: Desk, shape: ReplicaShape, window: StoredWindow, schema: pa.Schema) -> None:
        self._desk = desk
        self._shape = shape
        self._window = window
        self._state = window.state
        self._schema = schema
        self._keys = KeyCounts(key_schema(schema, shape.keys))
        self._sent = Bits()
        self._born_at = np.zeros(0, np.int64)
        self._syncs = 0
        self._shipped = 0

    def on_batch(self, span: Span, rows: pa.RecordBatch, first: int, times: I64) -> None:
        """The window has the tuples number ``first`` on; what it forgot before is told too."""
        columns = [rows.column(name) for name in self._shape.keys]
        born, slots = self._keys.add(columns)
        self._sent.grow(self._keys.table.capacity)
        self._born_at = with_room(self._born_at, self._keys.table.capacity)
        self._born_at[slots[born]] = self._syncs + 1
        full = np.flatnonzero(slots >= 0)
        full = full[self._sent.get(slots[full])]
        placed = self._state.axis.positions(rows, first)
        born_rows = take_batch(rows.select(self._shape.keys), born)
        times_sent = encode_ints(times) if isinstance(self._state.axis, CountAxis) else b""
        self._send(times_sent, encode_rows(born_rows), self._dead(), take_batch(placed, full))

    def on_forgotten(self) -> None:
        """The window forgot tuples and gets no more batches that could tell it.

        Told even if no key died: tuples of full keys are gone too.
        """
        self._send(b"", b"", self._dead(), empty_batch(self._schema))

    def _dead(self) -> I64:
        return self._keys.forget_before(self._state.axis.first_live(self._state.kept_from))

    def _send(self, times: bytes, born: bytes, dead: I64, full: pa.RecordBatch) -> None:
        self._sent.clear(dead)
        self._syncs += 1
        self._shipped += full.num_rows
        shape, state = self._shape, self._state
        sync = ReplicaSync(
            self._desk.query_id,
            shape.number,
            state.frontier,
            state.kept_from,
            times,
            born,
            encode_ints(dead),
            encode_rows(full),
        )
        self._desk.send(shape.holder, sync)

    def on_fetch(self, message: Fetch) -> None:
        """The holder wants all tuples of some keys. From now on new tuples of these go with the syncs."""
        slots = self._meant(decode_ints(message.slots, NUMBERS_MAX), message.seen)
        self._sent.set(slots)
        keys = self._keys.table.keys(slots)
        wanted = pa.RecordBatch.from_arrays(keys, schema=key_schema(self._schema, self._shape.keys))
        self._window.find(wanted, self._state.kept_from, TICK_END, self._answer)

    def _meant(self, slots: I64, seen: int) -> I64:
        table = self._keys.table
        known = len(slots) and (slots[1:] > slots[:-1]).all() and slots[0] >= 0 and slots[-1] < table.capacity
        if not known or not 0 <= seen <= self._syncs:
            raise PeerProtocolError(f"replica {self._shape.name} requires keys that it was told of; got others")
        same: I64 = slots[table.is_live(slots) & (self._born_at[slots] <= seen)]
        if self._sent.get(same).any():
            raise PeerProtocolError(f"replica {self._shape.name} requires keys not yet sent in full; got one again")
        return same

    def _answer(self, rows: pa.RecordBatch) -> None:
        self._shipped += rows.num_rows
        shipped = rows.select(self._schema.names)
        self._desk.send(self._shape.holder, Fetched(self._desk.query_id, self._shape.number, encode_rows(shipped)))

    def status(self) -> ReplicaStatus:
        keys = self._keys
        nbytes = keys.nbytes + self._sent.nbytes + self._born_at.nbytes
        return half_status(
            self._desk.query_id,
            self._shape,
            ReplicaRole.OWNER,
            self._state.frontier,
            len(keys.table),
            self._shipped,
            nbytes,
        )


class MixedHolder:
    """M: which keys are only keys, which were asked for, which are here in full."""

    def __init__(self, desk: Desk, shape: ReplicaShape, window: StoredWindow, schema: pa.Schema) -> None:
        self._desk = desk
        self._shape = shape
        self.window = window
        self._schema = schema
        self._key_schema = key_schema(schema, shape.keys)
        self.table = KeyTable(self._key_schema.types)
        self._full = Bits()
        self._born_at = np.zeros(0, np.int64)
        #: Number of the Fetch that asked for a key; 0 if none did.
        self._asked = np.zeros(0, np.int64)
        self._syncs = 0
        self._fetches: deque[tuple[I64, int]] = deque()
        self._fetch_count = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._tuples = 0

    def on_sync(self, message: ReplicaSync) -> None:
        """The next tick of the window."""
        state = self.window.state
        check_progress(self._shape, state, message)
        full = self._rows(message.full)
        times = decode_times(self._shape, state, message.times, message.frontier)
        self._syncs += 1
        born = apply_births(self._shape, self.table, decode_rows(message.born, self._key_schema))
        self._full.grow(self.table.capacity)
        self._asked = with_room(self._asked, self.table.capacity)
        self._born_at = with_room(self._born_at, self.table.capacity)
        self._born_at[born] = self._syncs
        dead = decode_ints(message.dead, NUMBERS_MAX)
        apply_deaths(self._shape, self.table, dead)
        self._full.clear(dead)
        self._asked[dead] = 0
        state.axis.ordinals.append(times)
        self._take(full)
        self.window.expire(message.before)
        advance(state, message)
        state.release()

    def _rows(self, data: bytes) -> pa.RecordBatch:
        rows = decode_rows(data, self._schema)
        if any(rows.column(name).null_count for name in (self._schema.names[0], *self._shape.keys)):
            raise PeerProtocolError(f"replica {self._shape.name} requires tuples with a time and keys; got nulls")
        return rows

    def _take(self, rows: pa.RecordBatch) -> None:
        self._tuples += rows.num_rows
        self.window.append(rows)

    def slots_of(self, columns: list[pa.Array]) -> tuple[I64, Mask]:
        """The slot of each row's key, -1 where the window has no such key; and where its tuples are here."""
        slots = self.table.find(columns)
        full = slots >= 0
        full[full] = self._full.get(slots[full])
        return slots, full

    def fetch(self, slots: I64, then: Callable[[], None]) -> None:
        """Do ``then`` once the tuples of these keys are here; asks for those that nobody asked for."""
        wanted = np.unique(slots)
        unasked = wanted[self._asked[wanted] == 0]
        if len(unasked):
            self._fetch_count += 1
            self._asked[unasked] = self._fetch_count
            self._fetches.append((unasked, self._syncs))
            fetch = Fetch(self._desk.query_id, self._shape.number, self._syncs, encode_ints(unasked))
            self._desk.send(self._shape.owner, fetch)
        # The answers come in the order of the questions, so the last one will do.
        self._waiting.append((int(self._asked[wanted].max()), then))

    def on_fetched(self, message: Fetched) -> None:
        """The answer to the oldest Fetch under way."""
        if not self._fetches:
            raise PeerProtocolError(f"replica {self._shape.name} requires a question before an answer; got none")
        rows = self._rows(message.rows)
        self._take(rows)
        slots, seen = self._fetches.popleft()
        # A slot that was given to another key meanwhile is not what was asked for; the owner knows that too.
        self._full.set(slots[self.table.is_live(slots) & (self._born_at[slots] <= seen)])
        answered = self._fetch_count - len(self._fetches)
        ready = [then for number, then in self._waiting if number <= answered]
        self._waiting = deque(item for item in self._waiting if item[0] > answered)
        for then in ready:
            then()

    def status(self) -> ReplicaStatus:
        table = self.table
        nbytes = table.nbytes + self._full.nbytes + self._born_at.nbytes + self._asked.nbytes
        return half_status(
            self._desk.query_id,
            self._shape,
            ReplicaRole.HOLDER,
            self.window.state.frontier,
            len(table),
            self._tuples,
            nbytes,
        )
