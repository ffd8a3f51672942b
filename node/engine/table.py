"""A table: runs, in order of arrival, each with an order of its rows for every index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from node.core.encoding import payload
from node.core.engine import POSITION
from node.core.keys import keycodes
from node.core.keys.hashing import I64
from node.engine import orders, runs, tiers
from node.engine.orders import Order
from node.engine.runs import Keys, Run

_INT64_MIN = -(2**63)


@dataclass(frozen=True, slots=True)
class Found:
    """Rows found in a run: for each the asking row, its place in the payload, and its position."""

    run: Run
    asking: I64
    rows: orders.Rows
    positions: I64


class Table:
    """Rows that may still be asked for.

    Assumes checked input (``node.engine.checks``): right schemas, no null in POSITION, indexes that are open.
    Every run has a row that is not expired.
    """

    def __init__(self, schema: pa.Schema, finish: keycodes.Finish) -> None:
        self.schema = schema
        self.runs: list[Run] = []
        #: The open indexes, and of each whether equal codes mean equal keys.
        self.indexes: dict[Keys, bool] = {}
        self._finish = finish
        self._names = [name for name in schema.names if name != POSITION]
        self._before = _INT64_MIN

    @property
    def rows(self) -> int:
        """Number of rows that are not expired. A run of which only a part is expired is counted exactly."""
        return sum(
            len(run.positions) if run.least >= self._before else int(np.count_nonzero(run.positions >= self._before))
            for run in self.runs
        )

    @property
    def nbytes(self) -> int:
        """Bytes of rows and indexes held, including expired rows whose run is still needed."""
        return sum(run.nbytes for run in self.runs)

    def open_index(self, keys: Keys) -> None:
        """Find rows by these keys, also those that are there."""
        # Without keys all rows have the same code, and are meant to.
        self.indexes[keys] = not keys or keycodes.exact([self.schema.field(name).type for name in keys])
        self.runs = [runs.with_order(run, keys, self._order(keys, run.payload, run.positions)) for run in self.runs]

    def close_index(self, keys: Keys) -> None:
        """Forget an index."""
        del self.indexes[keys]
        self.runs = [runs.without_order(run, keys) for run in self.runs]

    def append(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Add batches as one new run, and merge what is due."""
        alive = [each for each in map(self._alive, batches) if each.num_rows]
        if not alive:
            return
        positions = np.concatenate([keycodes.integers(batch.column(POSITION)) for batch in alive])
        plain = [payload.plain_batch([batch.column(name) for name in self._names], self._names) for batch in alive]
        kept = payload.owned(payload.concat(plain))
        made = {keys: self._order(keys, kept, positions) for keys in self.indexes}
        found = {keys: order for keys, order in made.items() if order is not None}
        self.runs.append(runs.make(kept, positions, found))
        self._compact()

    def _alive(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Without rows that are expired already."""
        positions = keycodes.integers(batch.column(POSITION))
        if not positions.size or positions.min() >= self._before:
            return batch
        return payload.take_batch(batch, np.flatnonzero(positions >= self._before))

    def expire(self, before: int) -> None:
        """Drop the runs in which all rows are before a position.

        While rows arrive in order of position, at most one run is partly expired, and it will soon be so
        wholly. In disorder any number may be, and one row that is far ahead would keep a run for long.
        So then those mostly expired are copied; such a copy costs less than what it frees.
        """
        self._before = max(self._before, before)
        self.runs = [run for run in self.runs if run.greatest >= self._before]
        partly = [place for place, run in enumerate(self.runs) if run.least < self._before]
        if len(partly) > 1:
            for place in partly:
                if self.runs[place].half < self._before:
                    self.runs[place] = runs.trim(self.runs[place], self._before)

    def search(self, keys: Keys, wanted: Sequence[pa.Array], low: I64, high: I64, include_high: bool) -> list[Found]:
        """Candidates, run by run: rows with the code and the position that a row of ``wanted`` asks for.

        Where equal codes do not mean equal keys, some of them may have another key.
        """
        codes = self._codes(wanted, len(low))
        usable = keycodes.usable(wanted)
        # Ascending codes walk the orders' codes in order, which makes searching two to four times
        # faster. A stable order, so that the answer's order does not depend on the processor.
        order = orders.stable_order(codes) if usable is None else _order_among(codes, np.flatnonzero(usable))
        if not order.size:
            return []
        asked = orders.queries(codes[order], low[order], high[order], include_high)
        found = []
        for run in self.runs:
            indexed = run.orders.get(keys)
            if indexed is None or asked.misses(run.least, run.greatest):
                continue
            pairs = orders.find(indexed, asked, run.least, run.greatest)
            if pairs is not None:
                places = pairs[1]
                found.append(Found(run, order[pairs[0]], indexed.rows[places], indexed.positions[places]))
        return found

    def gather(self, rows: Sequence[tuple[Run, orders.Rows]], names: Sequence[str]) -> pa.RecordBatch:
        """Columns of rows of runs, in that order. Assumes at least one row and one name."""
        kinds = [self.schema.field(name).type for name in names]
        taken = [run.payload.select(names).take(pa.array(places)) for run, places in rows]
        whole = payload.concat(taken)
        if whole.schema.types == kinds:
            return whole
        columns = [
            payload.from_plain(payload.typed(column, kind), kind)
            for column, kind in zip(whole.columns, kinds, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def _order(self, keys: Keys, rows: pa.RecordBatch, positions: I64) -> Order | None:
        """How an index finds these rows; None when it finds none."""
        columns = [rows.column(name) for name in keys]
        codes = self._codes(columns, rows.num_rows)
        usable = keycodes.usable(columns)
        if usable is None:
            return orders.build(codes, positions, None)
        places = np.flatnonzero(usable)
        return orders.build(codes[places], positions[places], places) if places.size else None

    def _codes(self, columns: Sequence[pa.Array], count: int) -> I64:
        return keycodes.codes(columns, self._finish) if columns else np.zeros(count, dtype=np.int64)

    def _compact(self) -> None:
        sizes = [run.nbytes for run in self.runs]
        limit = tiers.cap(sum(sizes))
        while (due := tiers.next_merge(sizes, limit)) is not None:
            start, stop = due
            self.runs[start:stop] = [runs.merge(self.runs[start:stop], self._before)]
            sizes[start:stop] = [self.runs[start].nbytes]


def _order_among(codes: I64, rows: I64) -> I64:
    return rows[orders.stable_order(codes[rows])]
