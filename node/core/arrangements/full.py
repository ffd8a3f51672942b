"""The whole view (SP-S, and walks that start elsewhere): every batch is sent, of each tuple what somebody needs.

One copy serves all queries, whatever their filters and select lists: each adds its portion (``portions``) when it is
prepared, so that all that it can see is there when it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from node.core.arrangements.copy import ROWS_AXIS, HeldCopy, OwnedCopy, Post
from node.core.arrangements.lease import Lease
from node.core.arrangements.portions import (
    PORTIONS_MAX,
    Portion,
    Portions,
    is_in,
    numbered,
    portions_of,
    table_schema,
)
from node.core.arrangements.reach import Reach
from node.core.arrangements.table import RowTable
from node.core.messages import DropPortion, SetPortion, Sync
from node.core.status import CopyStatus
from node.core.ticks import TICK_END, Span, tick_start
from node.core.view import SealedRows
from node.core.work import Work
from planner.copies import RunningCopy
from planner.model import Expr

#: A query, and the number of one of its needs.
User = tuple[str, int]
#: How the owner tells the holder what comes from the next batch on.
Tell = Callable[[SetPortion | DropPortion], object]


class FullOwner(OwnedCopy):
    """Sends batches."""

    def __init__(self, peer: str, number: int, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(peer, number, spec, tau, tick)
        self.portions = Portions(schema)
        self._schema = schema
        self._needed: dict[User, Portion] = {}
        self._numbers: dict[Expr | None, int] = {}

    def takes(self, spec: RunningCopy) -> bool:
        """Whether it can have a portion for a query that needs this; a count window counts what passes its filter."""
        return self.spec.axis is spec.axis and (spec.axis is not ROWS_AXIS or spec.filter == self.spec.filter)

    def add(self, user: User, spec: RunningCopy, tell: Tell) -> None:
        """From the next batch on, send what a query needs."""
        self._needed[user] = Portion(spec.filter, spec.columns)
        self._renew(tell)

    def remove(self, users: set[User], tell: Tell) -> None:
        """Some do not need it any more."""
        if users & self._needed.keys():
            self._needed = {user: portion for user, portion in self._needed.items() if user not in users}
            self._renew(tell)

    @property
    def needed(self) -> dict[User, Portion]:
        """For whom something is sent, and what."""
        return dict(self._needed)

    def _renew(self, tell: Tell) -> None:
        needed = list(self._needed.values())
        self._numbers = numbered(dict.fromkeys(each.filter for each in needed), self._numbers)
        before, now = self.portions.all, portions_of(needed, self._numbers, self._schema)
        for number in before.keys() - now.keys():
            self.portions.drop(number)
            tell(DropPortion(self.number, number))
        for number, portion in now.items():
            if before.get(number) != portion:
                self.portions.set(number, portion)
                spec = replace(self.spec, filter=portion.filter, columns=portion.columns)
                tell(SetPortion(self.number, number, spec))

    @property
    def specs(self) -> list[RunningCopy]:
        """What it has, portion by portion."""
        portions = self.portions.all.items()
        return [
            replace(self.spec, filter=each.filter, columns=each.columns, share=self.portions.share_of(number))
            for number, each in portions
        ]

    def take(self, sealed: SealedRows, post: Post) -> None:
        self.progress.seal(sealed.span.first, sealed.span.end)
        data, count = self.portions.encode(sealed, self.first_ts)
        self.tuples += count
        post(Sync(self.number, sealed.span.end, 0, sealed.sealed_at_us, b"", b"", b"", data))


class FullTable(RowTable):
    """The rows of a full copy: those of one portion are what passes its filter."""

    def __init__(self, work: Work, name: str, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(work, name, spec.stream, table_schema(schema), tau, tick)
        # The portions of a count window all have the same filter.
        self.filter = spec.filter if spec.axis is ROWS_AXIS else None
        self.portions = Portions(schema)
        self._tests: dict[tuple[str, int], Expr] = {}

    def where(self, reach: Reach) -> Expr | None:
        found = super().where(reach)
        number = None if reach.filter is None or found is None else self.portions.number_of(reach.filter)
        if number is None:
            return found
        if (reach.alias, number) not in self._tests:
            self._tests[reach.alias, number] = is_in(reach.alias, number)
        return self._tests[reach.alias, number]


class FullHolder(HeldCopy):
    """The copy is a table like that of a local stream."""

    def __init__(self, work: Work, number: int, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(number, spec, tau, tick)
        self.table = FullTable(work, self.name, spec, schema, tau, tick)
        self.progress = self.table.progress
        self._schema = schema

    def lease(self, lease: Lease) -> None:
        super().lease(lease)
        self.table.lease(lease)

    def release(self, lease: Lease) -> None:
        super().release(lease)
        self.table.release(lease)

    def on_portion(self, message: SetPortion | DropPortion) -> list[str]:
        """The owner sends more, or less, from the next batch on; the queries that have thereby lost what they know.

        Without its portion it is not known which of the older tuples pass a filter. Who begins later has not seen them:
        another portion of the same filter will come in time.
        """
        portions, number = self.table.portions, message.portion
        if isinstance(message, DropPortion):
            if number not in portions.all:
                raise self.refuse("a portion that it has")
            condition = portions.all[number].filter
            portions.drop(number)
            begun = [each for each in self.leases if each.first_tick is not None and each.first_tick < self.frontier]
            return [each.query_id for each in begun if number and each.reach.filter == condition]
        spec = message.spec
        same = replace(spec, filter=self.spec.filter, columns=self.spec.columns) == self.spec
        counted = self.spec.axis is not ROWS_AXIS or spec.filter == self.spec.filter
        numbered_well = number < PORTIONS_MAX and (number == 0) == (spec.filter is None)
        if spec.filter is not None and portions.number_of(spec.filter) not in (None, number):
            raise self.refuse("one portion for a filter")
        if not same or not counted or not numbered_well or not set(spec.columns) <= set(self._schema.names):
            raise self.refuse("a portion of its stream")
        portions.set(number, Portion(spec.filter, spec.columns))
        return []

    def uncovered(self, end: int) -> list[str]:
        """The queries of which something is missing in a batch that ends at a tick: they are over at the owner."""
        has = self.table.portions.has
        concerned = [lease for lease in self.leases if lease.first_tick is not None and lease.first_tick < end]
        missing = [each for each in concerned if not has(Portion(each.reach.filter, each.columns))]
        return list(dict.fromkeys(lease.query_id for lease in missing))

    def on_sync(self, message: Sync) -> SealedRows:
        """The next batch."""
        if message.born or message.dead or message.times or not self.frontier < message.frontier <= TICK_END:
            raise self.refuse(f"a batch with tuples alone, beyond tick {self.frontier}")
        span = Span(self.frontier, message.frontier)
        came = self.table.portions.decode(message.rows)
        times = came.ts
        if len(times):
            first, end = tick_start(span.first, self.progress.tau), tick_start(span.end, self.progress.tau)
            if times[0] < first or times[-1] >= end or (times[1:] < times[:-1]).any():
                raise self.refuse(f"times within {span}, in order")
        stream, passed, sealed_at_us = self.spec.stream, self.table.filter, message.sealed_at_us
        sealed = SealedRows(stream, span, came.rows, times, self.tuples, sealed_at_us, passed, came.passing)
        self.tuples += len(times)
        self.table.take(sealed)
        return sealed

    def settle(self) -> None:
        self.table.settle()

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        return super().status(0, self.table.nbytes)
