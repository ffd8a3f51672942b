"""W': the tuples shipped so far (SM-S1).

The owner remembers one bit per tuple and copy (Algorithm 7): a tuple that was shipped is not shipped again. Algorithm
8 has the owner tell each tick how many shipped tuples expired. Here the holder decides what it forgets, by its own
leases; a lease that reaches before that opens another copy, with bits of its own. So a time window needs no sync
at all. In a count window the holder must know how many tuples are before a row, so it is sent the event times of
all tuples of the view.
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
    decode_times,
    encode_times,
    needed_number,
    timed_schema,
)
from node.core.arrangements.lease import Lease
from node.core.arrangements.ordinals import Ordinals
from node.core.arrangements.table import RowTable
from node.core.encoding.rows import decode_rows
from node.core.engine import POSITION, TS, Append, CloseTable, Expire, OpenIndex, OpenTable
from node.core.errors import invariant
from node.core.keys.bits import Bits, Mask
from node.core.keys.fifo import Fifo
from node.core.keys.hashing import I64
from node.core.links.messages import Sync
from node.core.status import CopyStatus
from node.core.streams.ticks import TICK_MIN
from node.core.streams.view import SealedRows
from node.core.work import Work
from planner.model.copies import RunningCopy


class ReducedOwner(OwnedCopy):
    """Which tuples the holder has, by their numbers in the stream."""

    def __init__(self, peer: str, number: int, spec: RunningCopy, tau: int, tick: int) -> None:
        super().__init__(peer, number, spec, tau, tick)
        self._sent = Bits()
        #: The number of the first tuple that has a bit.
        self._first = 0
        #: Count windows: the numbers in the stream of the view's tuples, and how many were forgotten.
        self._numbers = Fifo(np.int64)
        self._gone = 0

    def take(self, sealed: SealedRows, post: Post) -> None:
        self.progress.seal(sealed.span.first, sealed.span.end)
        if self.spec.axis != ROWS_AXIS:
            return
        places = sealed.passing(self.spec.filter, self.first_ts)
        self._numbers.append(places + sealed.first)
        post(Sync(self.number, sealed.span.end, 0, 0, encode_times(sealed.ts[places]), b"", b"", b""))

    def forget_before(self, number: int) -> None:
        """The stream's tables forgot the tuples before that one: they will not be found again.

        Not so for a query whose start is not known: it may get a table of the past.
        """
        if number > self._first and not any(lease.frozen for lease in self.leases):
            self._sent.drop_first(min(number - self._first, len(self._sent)))
            self._first = number
            self._gone += len(self._numbers.pop(int(np.searchsorted(self._numbers.values, number))))

    def unsent(self, numbers: I64) -> Mask:
        """Which of these tuples the holder does not have."""
        return ~self._sent.get(self._places(numbers))

    def sent(self, numbers: I64) -> None:
        """These tuples have left for the holder, which did not have them."""
        self._sent.set(self._places(numbers))
        self.tuples += len(numbers)

    def _places(self, numbers: I64) -> I64:
        """Where the bits of these tuples are."""
        places: I64 = numbers - self._first
        invariant(not len(places) or places.min() >= 0, "copy: a tuple that was looked for has its bit")
        if len(places):
            self._sent.grow(int(places.max()) + 1)
        return places

    def positions(self, numbers: I64, table: RowTable) -> I64:
        """Where these tuples lie on the copy's axis: their times, or their numbers in the view."""
        if self.spec.axis != ROWS_AXIS:
            return table.times_of(numbers)
        found: I64 = np.searchsorted(self._numbers.values, numbers) + self._gone
        return found

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        return super().status(0, self._sent.nbytes + self._numbers.nbytes)


class ReducedHolder(HeldCopy):
    """The shipped tuples, as a table of the engine."""

    def __init__(self, work: Work, number: int, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(number, spec, tau, tick)
        self.kept_from = TICK_MIN if spec.axis != ROWS_AXIS else 0
        self._work = work
        self._schema = timed_schema(schema, spec.columns)
        self._ordinals = Ordinals(0, self.progress.sealed_ts)
        position = pa.field(POSITION, pa.int64())
        work.run(OpenTable(self.name, pa.schema([position, *columns_schema(schema, spec.columns)])))
        work.run(OpenIndex(self.name, spec.keys))

    def on_sync(self, message: Sync) -> None:
        """Event times of a count window."""
        if self.spec.axis != ROWS_AXIS or message.born or message.dead or message.rows:
            raise self.refuse("times, of a count window")
        times = decode_times(self, message.times, message.frontier)
        self.progress.seal(self.frontier, message.frontier)
        self._ordinals.append(times)

    def decode(self, data: bytes) -> pa.RecordBatch:
        """Tuples from the owner's bytes."""
        rows = decode_rows(data, self._schema)
        if rows.column(TS).null_count:
            raise self.refuse("tuples with positions")
        return rows

    def take(self, rows: pa.RecordBatch) -> None:
        """Tuples were shipped."""
        if rows.num_rows:
            self.tuples += rows.num_rows
            self._work.run(Append(self.name, rows.rename_columns([POSITION, *self.spec.columns])))

    def reaches_back_to(self, tick_ts: int) -> bool:
        """Whether a query that sees what is from this event time on misses nothing that was forgotten here."""
        if self.spec.axis != ROWS_AXIS:
            return self.kept_from <= tick_ts
        return self._ordinals.known_from <= tick_ts and self.kept_from <= self._ordinals.rank_one(tick_ts)

    def settle(self) -> None:
        before = self._needed_from()
        if before is None or before <= self.kept_from:
            return
        self.kept_from = before
        self._work.run(Expire(self.name, before))
        if self.spec.axis == ROWS_AXIS:
            self._ordinals.forget_before(before)

    def _needed_from(self) -> int | None:
        if self.spec.axis == ROWS_AXIS:
            return needed_number(self.leases, self.progress, self._ordinals)
        if not self.leases or any(lease.frozen for lease in self.leases):
            return None
        return min(lease.needed_ts(self.progress) for lease in self.leases)

    def bounds(self, lease: Lease, ts: I64, include_ties: bool) -> tuple[I64, I64]:
        """For rows at these times (query's unit) the positions [low, high) that they see."""
        return bounds_on_axis(self._ordinals, lease, ts, include_ties)

    def has_forgotten(self, lease: Lease, low_ts: int, include_ties: bool) -> bool:
        """Whether rows at ``low_ts`` could see what is gone; possible under policy delta alone."""
        return is_gone_on_axis(self._ordinals, self.kept_from, lease, low_ts, include_ties)

    def close(self) -> None:
        self._work.run(CloseTable(self.name))

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        return super().status(0, self._ordinals.nbytes)


def bounds_on_axis(ordinals: Ordinals, lease: Lease, ts: I64, include_ties: bool) -> tuple[I64, I64]:
    """Positions [low, high) that rows see where a tuple's position is its time, or its number in the view."""
    low_ts, high_ts = lease.reach.times(ts, include_ties)
    if lease.reach.count is None:
        return np.maximum(low_ts, lease.first_ts), high_ts
    high = ordinals.rank(high_ts)
    return np.maximum(high - lease.reach.count, ordinals.rank_one(lease.first_ts)), high


def is_gone_on_axis(ordinals: Ordinals, kept_from: int, lease: Lease, low_ts: int, include_ties: bool) -> bool:
    """Whether rows at ``low_ts`` could see what is before ``kept_from``."""
    if lease.reach.count is None:
        low, _ = bounds_on_axis(ordinals, lease, np.array([low_ts], np.int64), include_ties)
        return int(low[0]) < kept_from
    # The rank of a time that is forgotten is too high, that of the query's first time too.
    _, high_ts = lease.reach.times(np.array([low_ts], np.int64), include_ties)
    return lease.first_ts < ordinals.known_from and int(ordinals.rank(high_ts)[0]) - lease.reach.count < kept_from
