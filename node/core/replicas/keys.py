"""V: the distinct keys of a window (SM-D1).

The owner counts the window's tuples by key. What changes is sent each tick: keys that were born
(v_J), and of the counts (v_C) only what the holder can use, the keys whose count fell to zero. Both
halves number keys alike, by ``KeyTable``'s rule, so a key that dies is named by its slot.

A tick's births come before its deaths (Algorithm 9), so a key whose last tuple expires in the
tick in which a new one arrives lives on.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.axis import CountAxis
from node.core.desk import Desk
from node.core.errors import PeerProtocolError
from node.core.fifo import Fifo
from node.core.hashing import I64
from node.core.ints import decode_ints, encode_ints
from node.core.keystore import with_room
from node.core.keytable import KeyTable, distinct
from node.core.messages import ReplicaSync
from node.core.payload import take, take_batch
from node.core.replicas.half import NUMBERS_MAX, half_status
from node.core.rows import decode_rows, encode_rows
from node.core.status import ReplicaRole, ReplicaStatus
from node.core.ticks import Span
from node.core.walk import ReplicaShape, StepShape, Walk
from node.core.window import Action, WindowState

NO_SLOTS: I64 = np.empty(0, np.int64)


def key_schema(window: pa.Schema, keys: tuple[str, ...]) -> pa.Schema:
    """The columns of keys that are born."""
    return pa.schema([window.field(name) for name in keys])


class KeyCounts:
    """How many tuples of a window have each key, and which keys come and go."""

    def __init__(self, schema: pa.Schema) -> None:
        self.table = KeyTable(schema.types)
        self._counts = np.zeros(0, np.int64)
        #: The slot of each tuple's key, oldest tuple first; -1 where a key is null.
        self._slots = Fifo(np.int32)
        self._first = 0

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self._counts.nbytes + self._slots.nbytes

    def add(self, columns: list[pa.Array]) -> tuple[I64, I64]:
        """Tuples arrived; the rows of keys that are born thereby, and the slot of each tuple's key (-1: null)."""
        rows, inverse = distinct(columns)
        slots = self.table.find([take(column, rows) for column in columns])
        new = slots < 0
        born = rows[new]
        if len(born):
            slots[new] = self.table.add([take(column, born) for column in columns])
            self._counts = with_room(self._counts, self.table.capacity)
        self._counts[slots] += np.bincount(inverse[inverse >= 0], minlength=len(rows))
        of_tuples = np.append(slots, -1)[inverse]
        self._slots.append(of_tuples)
        return born, of_tuples

    def forget_before(self, number: int) -> I64:
        """Tuples before that one expired; the slots of the keys that died, which are free again."""
        gone = self._slots.pop(max(0, number - self._first))
        self._first += len(gone)
        slots, counts = np.unique(gone[gone >= 0].astype(np.int64), return_counts=True)
        self._counts[slots] -= counts
        dead: I64 = slots[self._counts[slots] == 0]
        self.table.remove(dead)
        return dead


class KeysOwner:
    """Keeps the holder's V like the window."""

    def __init__(self, desk: Desk, shape: ReplicaShape, state: WindowState, schema: pa.Schema) -> None:
        self._desk = desk
        self._shape = shape
        self._state = state
        self._schema = key_schema(schema, shape.keys)
        self._keys = KeyCounts(self._schema)

    def on_batch(self, span: Span, rows: pa.RecordBatch, first: int, times: I64) -> None:
        """The window has the tuples number ``first`` on; what it forgot before is told too."""
        columns = [rows.column(name) for name in self._shape.keys]
        born, _ = self._keys.add(columns)
        self._send(encode_rows(take_batch(rows.select(self._shape.keys), born)), self._dead())

    def on_forgotten(self) -> None:
        """The window forgot tuples and gets no more batches that could tell it."""
        dead = self._dead()
        if len(dead):
            self._send(b"", dead)

    def _dead(self) -> I64:
        return self._keys.forget_before(self._state.axis.first_live(self._state.kept_from))

    def _send(self, born: bytes, dead: I64) -> None:
        shape, state = self._shape, self._state
        sync = ReplicaSync(
            self._desk.query_id, shape.number, state.frontier, state.kept_from, b"", born, encode_ints(dead), b""
        )
        self._desk.send(shape.holder, sync)

    def status(self) -> ReplicaStatus:
        keys = self._keys
        return half_status(
            self._desk.query_id,
            self._shape,
            ReplicaRole.OWNER,
            self._state.frontier,
            len(keys.table),
            0,
            keys.nbytes,
        )


class KeysHolder:
    """V at the other site."""

    def __init__(self, desk: Desk, shape: ReplicaShape, state: WindowState, schema: pa.Schema) -> None:
        self._desk = desk
        self._shape = shape
        self.state = state
        self.state.knows_times = not isinstance(state.axis, CountAxis)
        self._schema = key_schema(schema, shape.keys)
        self.table = KeyTable(self._schema.types)

    def on_sync(self, message: ReplicaSync) -> None:
        if message.times or message.full:
            raise PeerProtocolError(f"replica {self._shape.name} requires keys only; got times or tuples")
        check_progress(self._shape, self.state, message)
        apply_births(self._shape, self.table, decode_rows(message.born, self._schema))
        apply_deaths(self._shape, self.table, decode_ints(message.dead, NUMBERS_MAX))
        advance(self.state, message)
        self.state.release()

    def enter(self, desk: Desk, walk: Walk, step: StepShape, action: Action) -> None:
        """Do ``action`` when the walk may use the keys."""
        desk.gate.enter(self.state, *walk.times, step.include_ties, walk.sealed_at_us, action)

    def status(self) -> ReplicaStatus:
        table = self.table
        return half_status(
            self._desk.query_id, self._shape, ReplicaRole.HOLDER, self.state.frontier, len(table), 0, table.nbytes
        )


def check_progress(shape: ReplicaShape, state: WindowState, message: ReplicaSync) -> None:
    """A sync never goes back."""
    if message.frontier < state.frontier or message.before < state.kept_from:
        raise PeerProtocolError(
            f"replica {shape.name} requires a sync from {state.frontier} on that keeps at most what is after "
            f"{state.kept_from}; got {message.frontier} and {message.before}"
        )


def advance(state: WindowState, message: ReplicaSync) -> None:
    """The copy is now as its window was at the sync."""
    state.sealed(state.frontier, message.frontier)
    state.forget_before(message.before)
    if isinstance(state.axis, CountAxis):
        # A row that still comes is newer than ``length`` tuples from there on.
        state.axis.ordinals.forget_before(message.before)


def apply_births(shape: ReplicaShape, table: KeyTable, born: pa.RecordBatch) -> I64:
    """New keys of a peer's; their slots. Nothing changes if they are not new."""
    if not born.num_rows:
        return NO_SLOTS
    columns = born.columns
    rows, inverse = distinct(columns)
    if len(rows) != born.num_rows or (inverse < 0).any() or (table.find(columns) >= 0).any():
        raise PeerProtocolError(f"replica {shape.name} requires new keys, each once; got others")
    return table.add(columns)


def apply_deaths(shape: ReplicaShape, table: KeyTable, dead: I64) -> None:
    """Keys that died at a peer's."""
    if not len(dead):
        return
    if (dead[1:] <= dead[:-1]).any() or not table.is_live(dead).all():
        raise PeerProtocolError(f"replica {shape.name} requires living keys to die, in order; got others")
    table.remove(dead)
