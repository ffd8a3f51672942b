"""The rows of a local stream, or of a full copy of one, kept once for all queries, with an index per choice of keys.

Rows are known by their numbers, which rise with event time. So whatever a query's window is, what a row sees is a
range of numbers, and queries with different windows, filters and select lists share one index. What their leases
keep is the window.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa

from node.core.arrangements.lease import Lease
from node.core.arrangements.ordinals import Ordinals, Passing
from node.core.arrangements.progress import Progress
from node.core.arrangements.reach import Reach
from node.core.engine import POSITION, Append, CloseIndex, CloseTable, Expire, OpenIndex, OpenTable
from node.core.errors import invariant
from node.core.kernels.evaluation import EvaluationError
from node.core.keys.hashing import I64
from node.core.streams.ticks import TICK_END, TICK_MIN, tick_start
from node.core.streams.view import SealedRows
from node.core.work import Work
from planner.model.query import Expr


class RowTable:
    """``schema`` has the columns of the stream, or those that the copy has, by the stream's names for them."""

    def __init__(
        self, work: Work, name: str, stream: str, schema: pa.Schema, tau: int, frontier: int, first: int = 0
    ) -> None:
        self.name = name
        self.stream = stream
        self.schema = pa.schema([pa.field(field.name, field.type) for field in schema])
        #: The filter that its rows have passed; None if they are all there.
        self.filter: Expr | None = None
        self.progress = Progress(name, tau, frontier)
        self.leases: list[Lease] = []
        #: Rows before this number may be gone.
        self.kept_from = first
        self._work = work
        self._ordinals = Ordinals(first, self.progress.sealed_ts)
        #: Questions under way, and the first number that their answers may have: from there on nothing is forgotten.
        self._holds: dict[int, int] = {}
        self._passing: dict[Expr, Passing] = {}
        #: Copies may still be asked for rows from this number on, whatever leases say; None if there are none.
        self.floor: int | None = None
        self._is_new = True
        self._indexes: dict[tuple[str, ...], int] = {}

    @property
    def frontier(self) -> int:
        return self.progress.frontier

    @property
    def nbytes(self) -> int:
        """Memory beside that of the engine."""
        return self._ordinals.nbytes + sum(passing.nbytes for passing in self._passing.values())

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """The keys of its indexes."""
        return list(self._indexes)

    # -- leases -------------------------------------------------------------------------------

    def lease(self, lease: Lease) -> None:
        """Keep for a query what it can ask for from now on."""
        self.leases.append(lease)
        counted = self._counted_by(lease.reach)
        if counted is not None:
            self._passing.setdefault(counted, Passing(self.progress.sealed_ts))
        if lease.keys is None:
            return
        if not self._indexes:
            # While nobody looks, no rows are kept.
            self.kept_from = self._ordinals.end
            position = pa.field(POSITION, pa.int64())
            self._work.run(OpenTable(self.name, pa.schema([position, *self.schema])))
        if lease.keys not in self._indexes:
            self._work.run(OpenIndex(self.name, lease.keys))
        self._indexes[lease.keys] = self._indexes.get(lease.keys, 0) + 1

    def release(self, lease: Lease) -> None:
        """A query lets go."""
        self.leases.remove(lease)
        self.progress.cancel(lease.query_id)
        if lease.keys is not None:
            self._drop_index(lease.keys)
        counted = {self._counted_by(other.reach) for other in self.leases}
        self._passing = {filter_: passing for filter_, passing in self._passing.items() if filter_ in counted}

    def _drop_index(self, keys: tuple[str, ...]) -> None:
        self._indexes[keys] -= 1
        if self._indexes[keys]:
            return
        del self._indexes[keys]
        self._work.run(CloseIndex(self.name, keys) if self._indexes else CloseTable(self.name))

    def reaches_back_to(self, tick_ts: int, reach: Reach, looks: bool = True) -> bool:
        """Whether a query that sees what is from this event time on finds all of it here.

        One that does not look here only has its count window counted.
        """
        counted = self._counted_by(reach)
        if counted is not None:
            passing = self._passing.get(counted)
            if tick_ts < (self.progress.sealed_ts if passing is None else passing.known_from):
                return False
        if self._ordinals.known_from > tick_ts:
            return False
        # While nobody looks, no rows are kept.
        kept_from = self.kept_from if self._indexes else self._ordinals.end
        return not looks or kept_from <= self._ordinals.rank_one(tick_ts)

    def _counted_by(self, reach: Reach) -> Expr | None:
        """The filter behind which a count window counts, unless all rows have passed it."""
        return None if reach.count is None or reach.filter == self.filter else reach.filter

    # -- rows ---------------------------------------------------------------------------------

    def take(self, sealed: SealedRows) -> None:
        """The next batch."""
        self.progress.seal(sealed.span.first, sealed.span.end)
        if self._ordinals.end != sealed.first:
            # It was opened for ticks of the log before it was known which numbers their tuples have.
            invariant(self._is_new, f"{self.name}: batches follow one another")
            self._ordinals.begin_at(sealed.first)
            self.kept_from = sealed.first
        self._is_new = False
        first = self._ordinals.append(sealed.ts)
        for condition, passing in self._passing.items():
            # Who counts behind a filter that cannot be computed starts no walks with this batch either, and ends.
            with suppress(EvaluationError):
                passing.append(sealed.passing(condition, TICK_MIN) + first)
        if self._indexes and len(sealed):
            numbers = pa.array(np.arange(first, first + len(sealed)))
            rows = pa.RecordBatch.from_arrays(
                [numbers, *(sealed.rows.column(name) for name in self.schema.names)],
                names=[POSITION, *self.schema.names],
            )
            self._work.run(Append(self.name, rows))

    def settle(self) -> None:
        """Forget what nobody can ask for any more."""
        if any(lease.frozen for lease in self.leases):
            return
        before = self._needed_from()
        if before <= self._ordinals.first and before <= self.kept_from:
            return
        self._ordinals.forget_before(before)
        for passing in self._passing.values():
            passing.forget_before(before)
        if self._indexes and before > self.kept_from:
            self.kept_from = before
            self._work.run(Expire(self.name, before))

    def _needed_from(self) -> int:
        # Count windows are counted here also for those who see them elsewhere.
        looking = [lease for lease in self.leases if lease.keys is not None or lease.reach.count is not None]
        by_time = [lease.needed_ts(self.progress) for lease in looking if lease.reach.count is None]
        found = [self._ordinals.end]
        if by_time:
            found.append(self.number_at(min(by_time)))
        for lease in looking:
            passed = lease.passed_ts(self.progress)
            if lease.reach.count is not None and passed < TICK_END:
                at = self._ordinals.rank_one(passed)
                found.append(int(self._back(lease.reach, np.array([at], np.int64))[0]))
        if self.floor is not None:
            found.append(self.floor)
        return min([*found, *self._holds.values()])

    def hold(self, op_id: int, low: int) -> None:
        """A question is under way whose answer may have numbers from ``low`` on: they are not forgotten meanwhile."""
        self._holds[op_id] = low

    def unhold(self, op_id: int) -> None:
        """It was answered, or nobody wants the answer."""
        self._holds.pop(op_id, None)

    def begin_ts(self, lease: Lease) -> int:
        """What a query can still start walks with, or see here or in copies, is from this event time on.

        ``TICK_MIN`` if that is not known yet.
        """
        if lease.frozen:
            return TICK_MIN
        own = tick_start(lease.own_done, lease.reach.tau)
        if lease.reach.count is None:
            return min(own, lease.needed_ts(self.progress))
        passed = lease.passed_ts(self.progress)
        if passed >= TICK_END:
            return own
        number = int(self._back(lease.reach, np.array([self._ordinals.rank_one(passed)], np.int64))[0])
        oldest = self._ordinals.time_of(max(number, self._ordinals.first))
        return min(own, self.progress.sealed_ts if oldest is None else oldest)

    def number_at(self, ts: int) -> int:
        """The number of the first row from an event time on."""
        return self._ordinals.end if ts >= TICK_END else self._ordinals.rank_one(ts)

    # -- what a row sees ----------------------------------------------------------------------

    def bounds(self, lease: Lease, ts: I64, include_ties: bool) -> tuple[I64, I64]:
        """For rows at these times (query's unit) the numbers [low, high) that they see."""
        low_ts, high_ts = lease.reach.times(ts, include_ties)
        high = self._ordinals.rank(high_ts)
        if lease.reach.count is None:
            return self._ordinals.rank(np.maximum(low_ts, lease.first_ts)), high
        return np.maximum(self._back(lease.reach, high), self._ordinals.rank_one(lease.first_ts)), high

    def _back(self, reach: Reach, numbers: I64) -> I64:
        assert reach.count is not None
        counted = self._counted_by(reach)
        return numbers - reach.count if counted is None else self._passing[counted].back(numbers, reach.count)

    def visible(self, lease: Lease, low_ts: int, high_ts: int, include_ties: bool) -> tuple[int, int]:
        """Everything that rows from ``low_ts`` to ``high_ts`` (query's unit) see has a number in [low, high)."""
        low, high = self.bounds(lease, np.array([low_ts, high_ts], np.int64), include_ties)
        return int(low[0]), int(high[1])

    def has_forgotten(self, lease: Lease, low_ts: int, include_ties: bool) -> bool:
        """Whether rows at ``low_ts`` could see what is gone; possible under policy delta alone."""
        low_times, high_times = lease.reach.times(np.array([low_ts], np.int64), include_ties)
        if lease.reach.count is None:
            return max(int(low_times[0]), lease.first_ts) < self._ordinals.known_from
        if lease.first_ts >= self._ordinals.known_from:
            return False
        high = self._ordinals.rank(high_times)
        counted = self._counted_by(lease.reach)
        if counted is not None and self._passing[counted].lacks(int(high[0]), lease.reach.count):
            return True
        return int(self._back(lease.reach, high)[0]) < self.kept_from

    def where(self, lease: Lease) -> Expr | None:
        """What a query has to ask of a row that it finds here, so that only what passes its filter counts."""
        return lease.reach.where_behind(self.filter)

    def times_of(self, numbers: I64) -> I64:
        """Event times of rows that were found."""
        return self._ordinals.times(numbers)
