"""V: the distinct keys of a view's window (SM-D1).

The owner counts the tuples by key. What changes is sent with each batch: keys that were born (v_J), and of the counts
(v_C) only what the holder can use, the keys whose count fell to zero. Both halves number keys alike, by
``KeyTable``'s rule, so a key that dies is named by its slot.

A tick's births come before its deaths (Algorithm 9), so a key whose last tuple expires in the tick in which a new one
arrives lives on. What a query with a shorter window or a stronger filter finds in V is too much, never too little:
the join decides.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.arrangements.copies.copy import (
    ROWS_AXIS,
    HeldCopy,
    OwnedCopy,
    Post,
    columns_schema,
    needed_number,
)
from node.core.arrangements.lease import Lease
from node.core.arrangements.ordinals import Ordinals
from node.core.encoding.ints import decode_ints, encode_ints
from node.core.encoding.payload import take, take_batch
from node.core.encoding.rows import decode_rows, encode_rows
from node.core.keys.fifo import Fifo
from node.core.keys.hashing import I64
from node.core.keys.keystore import with_room
from node.core.keys.keytable import KeyTable, distinct
from node.core.links.messages import Sync
from node.core.status import CopyStatus
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.core.streams.view import SealedRows
from planner.model.copies import RunningCopy

NO_SLOTS: I64 = np.empty(0, np.int64)


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
        if not len(gone):
            return NO_SLOTS
        slots, counts = np.unique(gone[gone >= 0].astype(np.int64), return_counts=True)
        self._counts[slots] -= counts
        dead: I64 = slots[self._counts[slots] == 0]
        self.table.remove(dead)
        return dead


class CountedCopy(OwnedCopy):
    """The owner's half of V and of M: which keys the view's window has, and which tuples are still in it."""

    def __init__(self, peer: str, number: int, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(peer, number, spec, tau, tick)
        self.key_schema = columns_schema(schema, spec.keys)
        self.counts = KeyCounts(self.key_schema)
        self.ordinals = Ordinals(0, self.progress.sealed_ts)

    def dead(self) -> I64:
        """Forget the tuples that no lease can ask for; the slots of the keys that died."""
        number = needed_number(self.leases, self.progress, self.ordinals)
        oldest = None if number is None else self.ordinals.time_of(number)
        if oldest is not None and self.spec.axis is not ROWS_AXIS:
            # A count window may begin amid tuples of one time; what is gone is told as a time.
            number = self.ordinals.rank_one(oldest)
        if number is None or number <= self.ordinals.first:
            return NO_SLOTS
        self.ordinals.forget_before(number)
        return self.counts.forget_before(self.ordinals.first)

    @property
    def before(self) -> int:
        """What is before this position is gone: a number in the view, or an event time."""
        if self.spec.axis == ROWS_AXIS:
            return self.ordinals.first
        return max(TICK_MIN, self.ordinals.known_from)

    @property
    def is_over(self) -> bool:
        """No batch will come any more that could bring news of what was forgotten."""
        return self.frontier == TICK_END


class KeysOwner(CountedCopy):
    """Keeps the holder's V like the window."""

    def take(self, sealed: SealedRows, post: Post) -> None:
        self.progress.seal(sealed.span.first, sealed.span.end)
        rows, ts = sealed.select(self.spec.filter, self.first_ts, self.spec.keys)
        born = b""
        if rows.num_rows:
            self.ordinals.append(ts)
            places, _ = self.counts.add(rows.columns)
            born = encode_rows(take_batch(rows, places))
        self._send(born, self.dead(), post)

    def settle(self, post: Post) -> None:
        """Leases moved on. While batches come, they bring the news."""
        if self.is_over and len(dead := self.dead()):
            self._send(b"", dead, post)

    def _send(self, born: bytes, dead: I64, post: Post) -> None:
        post(Sync(self.number, self.frontier, self.before, 0, b"", born, encode_ints(dead), b""))

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        return super().status(len(self.counts.table), self.counts.nbytes + self.ordinals.nbytes)


class KeysHolder(HeldCopy):
    """V at the other site."""

    def __init__(self, number: int, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(number, spec, tau, tick)
        self.kept_from = TICK_MIN if spec.axis != ROWS_AXIS else 0
        self._schema = columns_schema(schema, spec.keys)
        self.table = KeyTable(self._schema.types)

    def on_sync(self, message: Sync) -> None:
        """The next tick of the window."""
        if message.times or message.rows:
            raise self.refuse("keys only")
        check_progress(self, message)
        apply_keys(self, self.table, *decode_keys(self.table, message, self._schema))
        self.progress.seal(self.frontier, message.frontier)
        self.kept_from = message.before

    def has_forgotten(self, lease: Lease, low_ts: int, include_ties: bool) -> bool:
        """V of a window that goes by the clock is not told the tuples' times, so it cannot say."""
        return False

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        return super().status(len(self.table), self.table.nbytes)


def check_progress(held: HeldCopy, message: Sync) -> None:
    """A sync never goes back."""
    if not held.frontier <= message.frontier <= TICK_END or message.before < held.kept_from:
        raise held.refuse(f"a sync from {held.frontier} on that keeps at most what is after {held.kept_from}")


def decode_keys(table: KeyTable, message: Sync, schema: pa.Schema) -> tuple[pa.RecordBatch, I64]:
    """The keys that were born, and the slots of those that died: no more than there are keys."""
    born = decode_rows(message.born, schema)
    return born, decode_ints(message.dead, len(table) + born.num_rows)


def apply_keys(held: HeldCopy, table: KeyTable, born: pa.RecordBatch, dead: I64) -> I64:
    """Keys that were born and that died at a peer's; the slots of the former. Nothing changes if one is wrong."""
    columns = born.columns
    rows, inverse = distinct(columns)
    if len(rows) != born.num_rows or (inverse < 0).any() or (table.find(columns) >= 0).any():
        raise held.refuse("new keys, each once")
    live = table.is_live(dead) | np.isin(dead, table.next_slots(born.num_rows))
    if (dead[1:] <= dead[:-1]).any() or not live.all():
        raise held.refuse("living keys to die, in order")
    slots = table.add(columns) if born.num_rows else NO_SLOTS
    if len(dead):
        table.remove(dead)
    return slots
