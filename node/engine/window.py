"""A window: runs, in order of arrival, and the join of carry rows with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from node.core import keycodes as keys
from node.core import payload
from node.core.engine import KEY, TS, joined_schema
from node.core.hashing import I64
from node.engine import tiers
from node.engine.runs import Queries, Run, build, find, merge, spread, stable_order, trim

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
#: Rows found in a run: for each the asking row, and its place in the run's index.
Found = tuple[Run, I64, I64]


class Window:
    """Rows that can still be matched. Rows with a null in a key never can, and are not kept.

    Assumes checked input (``node.engine.checks``): right schemas, no null in TS.
    Every run has a row that is not expired.
    """

    def __init__(self, schema: pa.Schema, key_names: Sequence[str], finish: keys.Finish) -> None:
        self.schema = schema
        self.key_names = tuple(key_names)
        self.runs: list[Run] = []
        self._finish = finish
        self._kept = [field for field in schema if field.name != TS]
        self._names = [field.name for field in self._kept]
        # Without keys all rows have the same code, and are meant to.
        self._exact = not key_names or keys.exact([schema.field(name).type for name in key_names])
        self._before = _INT64_MIN

    @property
    def rows(self) -> int:
        """Number of kept rows that are not expired. A run of which only a part is expired is counted exactly."""
        return sum(
            len(run.ts) if run.min_ts >= self._before else int(np.count_nonzero(run.ts >= self._before))
            for run in self.runs
        )

    @property
    def nbytes(self) -> int:
        """Bytes of payload and index held, including expired rows whose run is still needed."""
        return sum(run.nbytes for run in self.runs)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch as a new run, and merge what is due."""
        batch = self._worth_keeping(batch)
        if batch.num_rows:
            codes = self._codes([batch.column(name) for name in self.key_names], batch.num_rows)
            kept = payload.plain_batch([batch.column(name) for name in self._names], self._names)
            self.runs.append(build(codes, keys.integers(batch.column(TS)), payload.owned(kept)))
            self._compact()

    def expire(self, before_ts: int) -> None:
        """Drop the runs in which all rows are older than ``before_ts``.

        While rows arrive in order of time, at most one run is partly expired, and it will soon be so
        wholly. In disorder any number may be, and one row that is far ahead would keep a run for long.
        So then those mostly expired are copied; such a copy costs less than what it frees.
        """
        self._before = max(self._before, before_ts)
        self.runs = [run for run in self.runs if run.max_ts >= self._before]
        partly = [place for place, run in enumerate(self.runs) if run.min_ts < self._before]
        if len(partly) > 1:
            for place in partly:
                if self.runs[place].half_ts < self._before:
                    self.runs[place] = trim(self.runs[place], self._before)

    def probe(
        self,
        carry: pa.RecordBatch,
        carry_keys: Sequence[str],
        position: str,
        range_length: int,
        include_ties: bool,
        lowest: int | None,
    ) -> tuple[pa.RecordBatch, I64]:
        """The joined rows, and for each of them the row of ``carry`` it comes from."""
        high = keys.integers(carry.column(position))
        low = _saturating_minus(high, range_length)
        if lowest is not None:
            low = np.maximum(low, lowest)
        found = self._search([carry.column(name) for name in carry_keys], low, high, include_ties)
        picked = _concat([asking for _, asking, _ in found])
        left = payload.take_batch(carry, picked) if found else carry.slice(0, 0)
        schema = joined_schema(carry.schema, self.schema)
        answer = pa.RecordBatch.from_arrays([*left.columns, *self._gather(found)], schema=schema)
        theirs = [left.column(carry.schema.get_field_index(name)) for name in carry_keys]
        return self._verified(answer, picked, theirs, left.num_columns)

    def find(self, wanted: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
        """The rows with low <= TS < high and a key of ``wanted``, whose row is in KEY."""
        first, last = max(low, _INT64_MIN), min(high - 1, _INT64_MAX)
        found: list[Found] = []
        if first <= last:
            count = wanted.num_rows
            found = self._search(
                wanted.columns,
                np.full(count, first, dtype=np.int64),
                np.full(count, last, dtype=np.int64),
                include_high=True,
            )
        picked = _concat([asking for _, asking, _ in found])
        columns = self._gather(found)
        columns.insert(self.schema.get_field_index(TS), pa.array(_concat([run.ts[places] for run, _, places in found])))
        answer = pa.RecordBatch.from_arrays([*columns, pa.array(picked)], schema=_found_schema(self.schema))
        if self._exact:
            return answer
        return self._verified(answer, picked, [payload.take(column, picked) for column in wanted.columns], 0)[0]

    def _worth_keeping(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows without a null in a key that are not expired already."""
        if not batch.num_rows:
            return batch
        keep = keys.usable([batch.column(name) for name in self.key_names])
        ts = keys.integers(batch.column(TS))
        if ts.min() < self._before:
            keep = ts >= self._before if keep is None else keep & (ts >= self._before)
        return batch if keep is None else payload.take_batch(batch, np.flatnonzero(keep))

    def _codes(self, key_columns: Sequence[pa.Array], count: int) -> I64:
        return keys.codes(key_columns, self._finish) if key_columns else np.zeros(count, dtype=np.int64)

    def _compact(self) -> None:
        sizes = [run.nbytes for run in self.runs]
        limit = tiers.cap(sum(sizes))
        while (due := tiers.next_merge(sizes, limit)) is not None:
            start, stop = due
            self.runs[start:stop] = [merge(self.runs[start:stop], self._before)]
            sizes[start:stop] = [self.runs[start].nbytes]

    def _search(self, key_columns: Sequence[pa.Array], low: I64, high: I64, include_high: bool) -> list[Found]:
        """Candidates, run by run: rows with the code and in the time that a row of ``key_columns`` asks for."""
        codes = self._codes(key_columns, len(low))
        usable = keys.usable(key_columns)
        # Ascending probes walk the runs' codes in order, which makes searching two to four times
        # faster. A stable order, so that the answer's order does not depend on the processor.
        order = stable_order(codes) if usable is None else _order_among(codes, np.flatnonzero(usable))
        if not order.size:
            return []
        queries = _queries(codes[order], low[order], high[order], include_high)
        found = []
        for run in self.runs:
            if not queries.misses(run) and (pairs := find(run, queries)) is not None:
                found.append((run, order[pairs[0]], pairs[1]))
        return found

    def _gather(self, found: Sequence[Found]) -> list[pa.Array]:
        """The found rows' columns but TS."""
        if not found:
            return [pa.nulls(0, field.type) for field in self._kept]
        taken = [run.payload.take(pa.array(run.rows[places])) for run, _, places in found]
        whole = taken[0] if len(taken) == 1 else pa.concat_batches(taken)
        return [payload.from_plain(whole.column(i), field.type) for i, field in enumerate(self._kept)]

    def _verified(
        self, answer: pa.RecordBatch, picked: I64, theirs: Sequence[pa.Array], base: int
    ) -> tuple[pa.RecordBatch, I64]:
        """Without the pairs that only collide. Looks at gathered rows: collisions are too rare to look before.

        ``theirs`` are the keys asked for, and from column ``base`` on are the window's columns.
        """
        if self._exact or not answer.num_rows:
            return answer, picked
        names = answer.schema.names[base:]
        mine = [answer.column(base + names.index(name)) for name in self.key_names]
        same = keys.equal_keys(theirs, mine)
        if same.all():
            return answer, picked
        return payload.take_batch(answer, np.flatnonzero(same)), picked[same]


def _found_schema(window: pa.Schema) -> pa.Schema:
    return pa.schema([*window, pa.field(KEY, pa.int64())])


def _concat(parts: Sequence[I64]) -> I64:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _order_among(codes: I64, rows: I64) -> I64:
    return rows[stable_order(codes[rows])]


def _saturating_minus(ts: I64, range_length: int) -> I64:
    """``max(ts - range_length, the least int64)``, in arithmetic modulo 2**64.

    A ts up to ``floor`` would fall below the least int64. Above it the subtraction is
    right, even where the sum of its two steps wraps around in between.
    """
    floor = min(_INT64_MIN + range_length, _INT64_MAX)
    low: I64 = np.maximum(ts, floor) - floor + _INT64_MIN
    return low


def _queries(codes: I64, low: I64, high: I64, include_high: bool) -> Queries:
    return Queries(codes, spread(codes), low, high, include_high, _ends(low), _ends(high))


def _ends(values: I64) -> tuple[int, int]:
    return int(values.min()), int(values.max())
