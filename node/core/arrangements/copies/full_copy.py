"""The whole view (SP-S, and walks that start elsewhere): every batch is sent, of each tuple what somebody needs.

One copy serves all queries, whatever their filters and select lists: each adds its portion (``portions``) when it is
prepared, so that all that it can see is there when it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from node.core.arrangements.copies.copy import ROWS_AXIS, HeldCopy, OwnedCopy, Post
from node.core.arrangements.copies.portions import (
    PORTIONS_MAX,
    Coverage,
    Portion,
    Portions,
    is_in,
    numbered,
    portions_of,
    table_schema,
)
from node.core.arrangements.lease import Lease
from node.core.arrangements.table import RowTable
from node.core.links.messages import DropPortion, SetPortion, Sync
from node.core.status import CopyStatus
from node.core.streams.ticks import TICK_END, Span, tick_start
from node.core.streams.view import SealedRows
from node.core.work import Work
from planner.model.copies import RunningCopy, can_serve
from planner.model.query import Expr, names_in

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
                self.portions.put(number, portion)
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
    """The rows of a full copy. Each query asks of a row whether it is in its portion."""

    def __init__(self, work: Work, name: str, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(work, name, spec.stream, table_schema(schema), tau, tick)
        # The portions of a count window all have the same filter.
        self.filter = spec.filter if spec.axis is ROWS_AXIS else None
        #: What those ask whose portion has a bit.
        self._tests: dict[Lease, Expr] = {}

    def join(self, lease: Lease, number: int) -> None:
        """A query has its tuples in a portion; in 0 it has to compute its filter itself."""
        if number:
            self._tests[lease] = is_in(lease.reach.alias, number)

    def release(self, lease: Lease) -> None:
        super().release(lease)
        self._tests.pop(lease, None)

    def where(self, lease: Lease) -> Expr | None:
        found = super().where(lease)
        return found if found is None else self._tests.get(lease, found)


class FullHolder(HeldCopy):
    """The copy is a table like that of a local stream.

    A query finds its tuples in the portion of its filter; if there were too many filters, in that without one, which
    has the columns that it reads. Which it is, is settled when the first batch is there that the query sees. It stays
    so: older tuples may not have the bit of a portion that comes later.
    """

    def __init__(self, work: Work, number: int, spec: RunningCopy, schema: pa.Schema, tau: int, tick: int) -> None:
        super().__init__(number, spec, tau, tick)
        self.table = FullTable(work, self.name, spec, schema, tau, tick)
        self.progress = self.table.progress
        self.portions = Portions(schema)
        self._coverage = Coverage()
        self._schema = schema
        #: The portions of those who have begun.
        self._joined: dict[Lease, int] = {}

    def lease(self, lease: Lease) -> None:
        super().lease(lease)
        self.table.lease(lease)
        self._join_begun([lease], self.frontier)

    def release(self, lease: Lease) -> None:
        super().release(lease)
        self.table.release(lease)
        self._joined.pop(lease, None)

    def serves_from(self, lease: Lease, prepared_at: int) -> bool:
        """Whether a query finds here all that it can see.

        The owner sends what the query needs since it was prepared there, when the stream was sealed to ``prepared_at``.
        """
        assert lease.first_tick is not None
        in_time = max(self.frontier, prepared_at) <= lease.first_tick
        # A filter without a number may get one yet: then what it finds in 0 is others' and may end with them.
        is_known = self.portions.number_of(lease.reach.filter) is not None
        if not in_time and not (is_known and self._portion_for(lease) is not None):
            return False
        return self.table.reaches_back_to(lease.first_ts, lease.reach)

    def portion_of(self, lease: Lease) -> int | None:
        """In which portion a query has its tuples; None if it has not begun."""
        return self._joined.get(lease)

    def _portion_for(self, lease: Lease) -> int | None:
        """The portion of its filter; if that has none, 0. No other: what others need may end with them."""
        number = self.portions.number_of(lease.reach.filter) or 0
        return number if self._has(lease, number) else None

    def _has(self, lease: Lease, number: int) -> bool:
        """Whether a portion has had all that a query needs since it began."""
        read = () if number else names_in(lease.reach.filter)
        since = self._coverage.since(number, (*lease.columns, *read))
        return since is not None and lease.first_tick is not None and since <= lease.first_tick

    def _join_begun(self, leases: Iterable[Lease], end: int) -> list[str]:
        """Who sees a batch that ends at this tick has begun; the queries of which something is missing."""
        missing = []
        for lease in leases:
            if lease.first_tick is None or lease.first_tick >= end or lease in self._joined:
                continue
            number = self._portion_for(lease)
            if number is None:
                missing.append(lease.query_id)
            else:
                self._joined[lease] = number
                self.table.join(lease, number)
        return missing

    def on_portion(self, message: SetPortion | DropPortion) -> list[str]:
        """The owner sends more, or less, from the next batch on; the queries that thereby lost what they need."""
        number = message.portion
        if isinstance(message, DropPortion):
            if number not in self.portions.all:
                raise self.refuse("a portion that it has")
            self.portions.drop(number)
            self._coverage.drop(number)
        else:
            self._check_portion(message)
            spec = message.spec
            self.portions.put(number, Portion(spec.filter, spec.columns))
            self._coverage.put(number, spec.columns, self.frontier)
        return [lease.query_id for lease, joined in self._joined.items() if not self._has(lease, joined)]

    def _check_portion(self, message: SetPortion) -> None:
        spec, number = message.spec, message.portion
        if not can_serve(self.spec, spec) or not set(spec.columns) <= set(self._schema.names):
            raise self.refuse("a portion of its stream")
        known = {each.filter: other for other, each in self.portions.all.items()}
        is_new = spec.filter not in known and number not in known.values()
        if not 0 <= number < PORTIONS_MAX or (number == 0) != (spec.filter is None):
            raise self.refuse(f"portions below {PORTIONS_MAX}, 0 for that without a filter")
        if not is_new and known.get(spec.filter) != number:
            raise self.refuse("one number for each filter")

    def on_batch(self, message: Sync) -> list[str]:
        """A batch is about to come; the queries that see it and of which something is missing."""
        return self._join_begun(self.leases, message.frontier)

    def on_sync(self, message: Sync) -> SealedRows:
        """The next batch."""
        if message.born or message.dead or message.times or not self.frontier < message.frontier <= TICK_END:
            raise self.refuse(f"a batch with tuples alone, beyond tick {self.frontier}")
        span = Span(self.frontier, message.frontier)
        came = self.portions.decode(message.rows)
        times = came.ts
        if len(times):
            first, end = tick_start(span.first, self.progress.tau), tick_start(span.end, self.progress.tau)
            if times[0] < first or times[-1] >= end or (times[1:] < times[:-1]).any():
                raise self.refuse(f"times within {span}, in order")
        stream, passed, sealed_at_us = self.spec.stream, self.table.filter, message.sealed_at_us
        sealed = SealedRows(stream, span, came.rows, times, self.tuples, sealed_at_us, passed, came.passes)
        self.tuples += len(times)
        self.table.take(sealed)
        return sealed

    def settle(self) -> None:
        self.table.settle()

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        return super().status(0, self.table.nbytes)
