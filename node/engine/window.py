"""A window: runs, oldest first, and the join of carry rows with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from node.core import keycodes as keys
from node.core.engine import TS, joined_schema
from node.core.hashing import I64
from node.engine import payload, tiers
from node.engine.runs import Queries, Rows, Run, build, find, merge, spread, stable_order

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Window:
    """Rows that can still be matched. Rows with a null in a key never can, and are not kept.

    Assumes checked input (``node.engine.checks``): right schemas, no null in TS, time not going back.
    """

    def __init__(self, schema: pa.Schema, key_names: Sequence[str], finish: keys.Finish) -> None:
        self.schema = schema
        self.key_names = tuple(key_names)
        self.newest = _INT64_MIN
        self.runs: list[Run] = []
        self._finish = finish
        self._kept = [field for field in schema if field.name != TS]
        self._names = [field.name for field in self._kept]
        self._exact = keys.exact([schema.field(name).type for name in key_names])
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
        if not batch.num_rows:
            return
        self.newest = int(batch.column(TS)[-1].as_py())
        usable = keys.usable([batch.column(name) for name in self.key_names])
        if usable is not None:
            batch = payload.take_batch(batch, np.flatnonzero(usable))
        if batch.num_rows:
            codes = keys.codes([batch.column(name) for name in self.key_names], self._finish)
            kept = payload.plain_batch([batch.column(name) for name in self._names], self._names)
            self.runs.append(build(codes, keys.integers(batch.column(TS)), payload.owned(kept)))
            self._compact()

    def expire(self, before_ts: int) -> None:
        """Drop the runs in which all rows are older than ``before_ts``."""
        self._before = max(self._before, before_ts)
        dead = 0
        while dead < len(self.runs) and self.runs[dead].max_ts < before_ts:
            dead += 1
        del self.runs[:dead]

    def probe(
        self, carry: pa.RecordBatch, carry_keys: Sequence[str], range_length: int, include_ties: bool
    ) -> tuple[pa.RecordBatch, I64]:
        """The joined rows, and for each of them the row of ``carry`` it comes from."""
        key_columns = [carry.column(name) for name in carry_keys]
        found = self._find(carry, key_columns, range_length, include_ties)
        picked = _concat([carry_rows for _, carry_rows, _ in found])
        answer = self._join(carry, picked, [(run, rows) for run, _, rows in found])
        if self._exact or not answer.num_rows:
            return answer, picked
        return self._verified(answer, picked, [carry.schema.get_field_index(name) for name in carry_keys])

    def _compact(self) -> None:
        sizes = [run.nbytes for run in self.runs]
        limit = tiers.cap(sum(sizes))
        while (due := tiers.next_merge(sizes, limit)) is not None:
            start, stop = due
            self.runs[start:stop] = [merge(self.runs[start:stop])]
            sizes[start:stop] = [self.runs[start].nbytes]

    def _find(
        self, carry: pa.RecordBatch, key_columns: Sequence[pa.Array], range_length: int, include_ties: bool
    ) -> list[tuple[Run, I64, Rows]]:
        """Candidate pairs by run: (run, rows of carry, rows of the run's payload)."""
        codes = keys.codes(key_columns, self._finish)
        usable = keys.usable(key_columns)
        # Ascending probes walk the runs' codes in order, which makes searching two to four times
        # faster. A stable order, so that the answer's order does not depend on the processor.
        order = stable_order(codes) if usable is None else _order_among(codes, np.flatnonzero(usable))
        if not order.size:
            return []
        queries = _queries(codes[order], keys.integers(carry.column(TS))[order], range_length, include_ties)
        found = []
        for run in self.runs:
            if not queries.misses(run) and (pairs := find(run, queries)) is not None:
                found.append((run, order[pairs[0]], pairs[1]))
        return found

    def _join(self, carry: pa.RecordBatch, picked: I64, pieces: Sequence[tuple[Run, Rows]]) -> pa.RecordBatch:
        schema = joined_schema(carry.schema, self.schema)
        left = payload.take_batch(carry, picked) if pieces else carry.slice(0, 0)
        return pa.RecordBatch.from_arrays([*left.columns, *self._gather(pieces)], schema=schema)

    def _gather(self, pieces: Sequence[tuple[Run, Rows]]) -> list[pa.Array]:
        if not pieces:
            return [pa.nulls(0, field.type) for field in self._kept]
        taken = [run.payload.take(pa.array(rows)) for run, rows in pieces]
        whole = taken[0] if len(taken) == 1 else pa.concat_batches(taken)
        return [payload.from_plain(whole.column(i), field.type) for i, field in enumerate(self._kept)]

    def _verified(self, answer: pa.RecordBatch, picked: I64, carry_places: Sequence[int]) -> tuple[pa.RecordBatch, I64]:
        """Without the pairs that only collide. Looks at gathered rows: collisions are too rare to look before."""
        base = answer.num_columns - len(self._names)
        mine = [answer.column(base + self._names.index(name)) for name in self.key_names]
        same = keys.equal_keys([answer.column(place) for place in carry_places], mine)
        if same.all():
            return answer, picked
        return payload.take_batch(answer, np.flatnonzero(same)), picked[same]


def _concat(parts: Sequence[I64]) -> I64:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _order_among(codes: I64, rows: I64) -> I64:
    return rows[stable_order(codes[rows])]


def _queries(codes: I64, ts: I64, range_length: int, include_ties: bool) -> Queries:
    """Bounds in time: max(ts - range_length, the least int64), in arithmetic modulo 2**64.

    A ts up to ``floor`` would fall below the least int64. Above it the subtraction is
    right, even where the sum of its two steps wraps around in between.
    """
    floor = min(_INT64_MIN + range_length, _INT64_MAX)
    low = np.maximum(ts, floor) - floor + _INT64_MIN
    return Queries(codes, spread(codes), low, ts, include_ties, _ends(low), _ends(ts))


def _ends(values: I64) -> tuple[int, int]:
    return int(values.min()), int(values.max())
