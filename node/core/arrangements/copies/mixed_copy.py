"""M: all keys of a view's window, and the full tuples of those keys that were asked for (SM-S2, Algorithm 9).

To V's births and deaths come s_F, the new tuples of keys that the holder has in full, and Fetch, by which it asks for
all tuples of keys that it has only as keys. Expired tuples are not counted out one by one: they are those before
a position that each sync tells.

A Fetch names slots. It may cross a sync in which a key died and its slot was given to another, so it says how many
syncs the holder had seen; a slot that was born later is not what was meant. Both halves apply that rule, so they agree
on what is full at every place in the stream of messages.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from node.core.arrangements.copies.copy import (
    ROWS_AXIS,
    HeldCopy,
    Post,
    columns_schema,
    decode_times,
    encode_times,
    timed_schema,
    with_times,
)
from node.core.arrangements.copies.key_copy import CountedCopy, apply_keys, check_progress, decode_keys
from node.core.arrangements.copies.reduced_copy import bounds_on_axis, is_gone_on_axis
from node.core.arrangements.lease import Lease
from node.core.arrangements.ordinals import Ordinals
from node.core.encoding.ints import decode_ints, encode_ints
from node.core.encoding.payload import take_batch
from node.core.encoding.rows import decode_rows, encode_rows
from node.core.engine import POSITION, TS, Append, CloseTable, Expire, Find, OpenIndex, OpenTable
from node.core.errors import PeerProtocolError
from node.core.keys.bits import Bits, Mask
from node.core.keys.fifo import Fifo
from node.core.keys.hashing import I64
from node.core.keys.keystore import with_room
from node.core.keys.keytable import KeyTable
from node.core.links.messages import Fetch, Fetched, Sync
from node.core.queries.waiting import Waiting
from node.core.status import CopyStatus
from node.core.streams.ticks import TICK_MIN
from node.core.streams.view import SealedRows
from node.core.work import Work
from planner.model.copies import RunningCopy


@dataclass(frozen=True, slots=True)
class Sought:
    """Tuples that a holder of M wants: those with these keys, numbered ``low`` to ``high`` in the stream."""

    spec: RunningCopy
    wanted: pa.RecordBatch
    low: int
    high: int

    def find_in(self, table: str, low: int) -> Find:
        """The question for the engine, of what is from the number ``low`` on."""
        spec = self.spec
        return Find(table, spec.keys, self.wanted, low, self.high, spec.stream, spec.filter, spec.columns)


class MixedOwner(CountedCopy):
    """V with counts and bits: which keys the holder has in full."""

    def __init__(self, peer: str, number: int, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(peer, number, spec, schema, tau, tick)
        self._sent = Bits()
        self._born_at = np.zeros(0, np.int64)
        self._syncs = 0
        #: How often tuples were fetched, how many of these were answered, and answers that wait for earlier ones.
        self._fetches = 0
        self._told = 0
        self._answers: dict[int, Fetched] = {}
        #: The numbers in the stream of the view's tuples that are in the window.
        self._numbers = Fifo(np.int64)
        self._first_number = 0

    def take(self, sealed: SealedRows, post: Post) -> None:
        self.progress.seal(sealed.span.first, sealed.span.end)
        spec = self.spec
        rows, ts = sealed.select(spec.filter, self.first_ts, spec.columns)
        first = self.ordinals.append(ts)
        self._numbers.append(sealed.passing(spec.filter, self.first_ts) + sealed.first)
        born, slots = self.counts.add([rows.column(name) for name in spec.keys])
        capacity = self.counts.table.capacity
        self._sent.grow(capacity)
        self._born_at = with_room(self._born_at, capacity)
        self._born_at[slots[born]] = self._syncs + 1
        full = np.flatnonzero(slots >= 0)
        full = full[self._sent.get(slots[full])]
        counted = spec.axis == ROWS_AXIS
        positions = np.arange(first, first + len(ts)) if counted else ts
        pushed = with_times(positions[full], take_batch(rows, full))
        times = encode_times(ts) if counted else b""
        self._send(times, encode_rows(take_batch(rows.select(list(spec.keys)), born)), self.dead(), pushed, post)

    @property
    def first_live(self) -> int | None:
        """The number in the stream of the oldest tuple that a Fetch may ask for."""
        return int(self._numbers.values[0]) if len(self._numbers) else None

    def dead(self) -> I64:
        dead = super().dead()
        gone = self._numbers.pop(self.ordinals.first - self._first_number)
        self._first_number += len(gone)
        return dead

    def settle(self, post: Post) -> None:
        """Leases moved on. While batches come, they bring the news.

        Told even if no key died: tuples of full keys are gone too.
        """
        before = self.before
        if self.is_over:
            dead = self.dead()
            if len(dead) or self.before > before:
                self._send(b"", b"", dead, None, post)

    def _send(self, times: bytes, born: bytes, dead: I64, full: pa.RecordBatch | None, post: Post) -> None:
        self._sent.clear(dead)
        self._syncs += 1
        tuples = b""
        if full is not None and full.num_rows:
            self.tuples += full.num_rows
            tuples = encode_rows(full)
        post(Sync(self.number, self.frontier, self.before, 0, times, born, encode_ints(dead), tuples))

    def find(self, message: Fetch) -> Sought | None:
        """What the engine is to find for a holder that wants all tuples of some keys; None if there is nothing.

        From now on new tuples of these keys go with the syncs.
        """
        slots = self._meant(decode_ints(message.slots, self.counts.table.capacity), message.seen)
        self._sent.set(slots)
        numbers = self._numbers.values
        if not len(numbers) or not len(slots):
            return None
        wanted = pa.RecordBatch.from_arrays(self.counts.table.keys(slots), schema=self.key_schema)
        spec = self.spec
        low, high = int(numbers[0]), int(numbers[-1]) + 1
        return Sought(spec, wanted, low, high)

    def _meant(self, slots: I64, seen: int) -> I64:
        table = self.counts.table
        known = len(slots) and (slots[1:] > slots[:-1]).all() and slots[0] >= 0 and slots[-1] < table.capacity
        if not known or not 0 <= seen <= self._syncs:
            raise PeerProtocolError(f"{self.progress.name} requires keys that it was told of; got others")
        same: I64 = slots[table.is_live(slots) & (self._born_at[slots] <= seen)]
        if self._sent.get(same).any():
            raise PeerProtocolError(f"{self.progress.name} requires keys not yet sent in full; got one again")
        return same

    def begin_fetch(self) -> int:
        """A Fetch is to be answered; its number."""
        self._fetches += 1
        return self._fetches

    def answered(self, fetch: int, answer: Fetched) -> list[Fetched]:
        """The answers that may be sent, now that this one is known: they go in the order of the questions."""
        self._answers[fetch] = answer
        ready = []
        while self._told + 1 in self._answers:
            self._told += 1
            ready.append(self._answers.pop(self._told))
        return ready

    def found(self, rows: pa.RecordBatch | None) -> Fetched:
        """The answer to a Fetch, from what the engine found. What was forgotten meanwhile is gone at the holder too."""
        if rows is None:
            return Fetched(self.number, b"")
        numbers = rows.column(POSITION).to_numpy()
        live = np.flatnonzero(numbers >= (self._numbers.values[0] if len(self._numbers) else 2**62))
        tuples = take_batch(rows.select(list(self.spec.columns)), live)
        places = np.searchsorted(self._numbers.values, numbers[live]) + self._first_number
        positions = places if self.spec.axis == ROWS_AXIS else self.ordinals.times(places)
        self.tuples += tuples.num_rows
        return Fetched(self.number, encode_rows(with_times(positions, tuples)) if tuples.num_rows else b"")

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        own = (
            self.counts.nbytes + self.ordinals.nbytes + self._sent.nbytes + self._born_at.nbytes + self._numbers.nbytes
        )
        return super().status(len(self.counts.table), own)


class MixedHolder(HeldCopy):
    """M: which keys are only keys, which were asked for, which are here in full."""

    def __init__(self, work: Work, number: int, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(number, spec, tau, tick)
        self.kept_from = TICK_MIN if spec.axis != ROWS_AXIS else 0
        self._work = work
        self._schema = timed_schema(schema, spec.columns)
        self._key_schema = columns_schema(schema, spec.keys)
        self.table = KeyTable(self._key_schema.types)
        self._ordinals = Ordinals(0, self.progress.sealed_ts)
        self._full = Bits()
        self._born_at = np.zeros(0, np.int64)
        #: Number of the Fetch that asked for a key; 0 if none did.
        self._asked = np.zeros(0, np.int64)
        self._syncs = 0
        self._fetches: deque[tuple[I64, int]] = deque()
        self._fetch_count = 0
        self._waiting: deque[tuple[int, Waiting]] = deque()
        position = pa.field(POSITION, pa.int64())
        work.run(OpenTable(self.name, pa.schema([position, *columns_schema(schema, spec.columns)])))
        work.run(OpenIndex(self.name, spec.keys))

    def on_sync(self, message: Sync) -> None:
        """The next tick of the window."""
        check_progress(self, message)
        full = self._rows(message.rows)
        times = decode_times(self, message.times, message.frontier)
        new, dead = decode_keys(self.table, message, self._key_schema)
        born = apply_keys(self, self.table, new, dead)
        self._syncs += 1
        self._full.grow(self.table.capacity)
        self._asked = with_room(self._asked, self.table.capacity)
        self._born_at = with_room(self._born_at, self.table.capacity)
        self._born_at[born] = self._syncs
        self._full.clear(dead)
        self._asked[dead] = 0
        self._ordinals.append(times)
        self._take(full)
        if message.before > self.kept_from:
            self.kept_from = message.before
            self._work.run(Expire(self.name, message.before))
            if self.spec.axis == ROWS_AXIS:
                # A row that still comes is newer than its window's tuples from there on.
                self._ordinals.forget_before(message.before)
        self.progress.seal(self.frontier, message.frontier)

    def _rows(self, data: bytes) -> pa.RecordBatch:
        rows = decode_rows(data, self._schema)
        if any(rows.column(name).null_count for name in (TS, *self.spec.keys)):
            raise self.refuse("tuples with a time and keys")
        return rows

    def _take(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self.tuples += rows.num_rows
            self._work.run(Append(self.name, rows.rename_columns([POSITION, *self.spec.columns])))

    def slots_of(self, columns: list[pa.Array]) -> tuple[I64, Mask]:
        """The slot of each row's key, -1 where the window has no such key; and where its tuples are here."""
        slots = self.table.find(columns)
        full = slots >= 0
        full[full] = self._full.get(slots[full])
        return slots, full

    def fetch(self, slots: I64, waiting: Waiting) -> Fetch | None:
        """Wake this once the tuples of these keys are here; what to ask of the owner, if nobody asked yet."""
        wanted = np.unique(slots)
        unasked = wanted[self._asked[wanted] == 0]
        message = None
        if len(unasked):
            self._fetch_count += 1
            self._asked[unasked] = self._fetch_count
            self._fetches.append((unasked, self._syncs))
            message = Fetch(self.number, self._syncs, encode_ints(unasked))
        # The answers come in the order of the questions, so the last one will do.
        self._waiting.append((int(self._asked[wanted].max()), waiting))
        return message

    def on_fetched(self, message: Fetched) -> list[Waiting]:
        """The answer to the oldest Fetch under way; who waited for it."""
        if not self._fetches:
            raise self.refuse("a question before an answer")
        self._take(self._rows(message.rows))
        slots, seen = self._fetches.popleft()
        # A slot that was given to another key meanwhile is not what was asked for; the owner knows that too.
        self._full.set(slots[self.table.is_live(slots) & (self._born_at[slots] <= seen)])
        answered = self._fetch_count - len(self._fetches)
        ready = [waiting for number, waiting in self._waiting if number <= answered]
        self._waiting = deque(item for item in self._waiting if item[0] > answered)
        return ready

    @property
    def fetching(self) -> list[Waiting]:
        """Who waits for tuples, for those who look on."""
        return [waiting for _, waiting in self._waiting]

    def release(self, lease: Lease) -> None:
        super().release(lease)
        self._waiting = deque(item for item in self._waiting if item[1].walk.query_id != lease.query_id)

    def bounds(self, lease: Lease, ts: I64, include_ties: bool) -> tuple[I64, I64]:
        """For rows at these times (query's unit) the positions [low, high) that they see."""
        return bounds_on_axis(self._ordinals, lease, ts, include_ties)

    def has_forgotten(self, lease: Lease, low_ts: int, include_ties: bool) -> bool:
        """Whether rows at ``low_ts`` could see what is gone; possible under policy delta alone."""
        return is_gone_on_axis(self._ordinals, self.kept_from, lease, low_ts, include_ties)

    def close(self) -> None:
        self._work.run(CloseTable(self.name))

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        own = self.table.nbytes + self._full.nbytes + self._born_at.nbytes + self._asked.nbytes + self._ordinals.nbytes
        return super().status(len(self.table), own)
