"""The judge of an engine: a brute force over Python values, and an engine that is fed the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from node.core.engine import (
    HIGH,
    LOW,
    POSITION,
    TS,
    Append,
    Find,
    Op,
    OpenIndex,
    OpenTable,
    Outcome,
    Probe,
    SiteEngine,
    find_schema,
    joined_schema,
    probe_schema,
)
from node.core.keys import hashing
from node.core.keys import keycodes as keys
from node.core.keys.hashing import U64

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Engines(Protocol):
    """Makes an engine without tables. The one made before may be of no use any more."""

    def __call__(self, finish: keys.Finish = hashing.scramble) -> SiteEngine: ...


def done(outcomes: Sequence[Outcome]) -> list[pa.RecordBatch]:
    """The answers of the questions; whatever failed is raised."""
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return [outcome for outcome in outcomes if outcome is not None]


# --- the brute force ---------------------------------------------------------------------------------


def values_of(column: pa.Array) -> list[Any]:
    """Python values; instants and durations as integers, for want of nanoseconds in Python."""
    kind = column.type
    whole = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    values: list[Any] = (column.cast(pa.int64()) if whole else column).to_pylist()
    return values


def key_values(batch: pa.RecordBatch, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    if not names:
        return [()] * batch.num_rows
    return list(zip(*[values_of(batch.column(name)) for name in names], strict=True))


def brute_force(table: pa.RecordBatch, probe: Probe) -> Counter[str]:
    """The definition in node.core.engine, pair by pair, of a probe without a condition that keeps all columns."""
    kept = [name for name in table.schema.names if name != POSITION]
    positions = table[POSITION].to_pylist()
    mine = list(zip(key_values(table, probe.keys), positions, cells(table.select(kept)), strict=True))
    carry = probe.rows.drop_columns([LOW, HIGH])
    bounds = zip(probe.rows[LOW].to_pylist(), probe.rows[HIGH].to_pylist(), strict=True)
    rows: Counter[str] = Counter()
    for key, (low, high), cell in zip(key_values(probe.rows, probe.carry_keys), bounds, cells(carry), strict=True):
        for other, position, other_cell in mine:
            if low <= position < high and None not in key and key == other:
                rows[repr(cell + other_cell)] += 1
    return rows


def brute_find(table: pa.RecordBatch, find: Find) -> Counter[str]:
    """The definition of Find, pair by pair, of one without a condition."""
    given = table.select([POSITION, *find.columns])
    mine = list(zip(key_values(table, find.keys), table[POSITION].to_pylist(), cells(given), strict=True))
    rows: Counter[str] = Counter()
    for number, key in enumerate(zip(*[values_of(column) for column in find.wanted.columns], strict=True)):
        for other, position, cell in mine:
            if find.low <= position < find.high and None not in key and key == other:
                rows[repr((*cell, repr(number)))] += 1
    return rows


def cells(batch: pa.RecordBatch) -> list[tuple[str, ...]]:
    if not batch.num_columns:
        return [()] * batch.num_rows
    return list(zip(*[[repr(value) for value in values_of(column)] for column in batch.columns], strict=True))


def as_counter(answer: pa.RecordBatch) -> Counter[str]:
    return Counter(repr(row) for row in cells(answer))


def bounded(carry: pa.RecordBatch, reach: int, ties: bool) -> pa.RecordBatch:
    """The carry with the bounds of a window of this reach before each row's TS."""
    times = carry[TS].to_pylist()
    low = pa.array([min(max(ts - reach, INT64_MIN), INT64_MAX) for ts in times], pa.int64())
    high = pa.array([min(ts + int(ties), INT64_MAX) for ts in times], pa.int64())
    return carry.append_column(LOW, low).append_column(HIGH, high)


def whole_probe(
    carry: pa.RecordBatch, carry_keys: tuple[str, ...], schema: pa.Schema, table_keys: tuple[str, ...]
) -> Probe:
    """A probe of table ``t`` that keeps all columns."""
    names = joined_schema(carry.schema, schema, "t").names
    return Probe("t", table_keys, carry, carry_keys, "t", None, tuple(names))


class Judge:
    """Feeds an engine and a plain list of batches alike, and compares every answer."""

    def __init__(
        self,
        engines: Engines,
        schema: pa.Schema,
        table_keys: tuple[str, ...],
        finish: keys.Finish = hashing.scramble,
    ) -> None:
        self.engine = engines(finish)
        self.schema, self.table_keys = schema, table_keys
        self.batches = [pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)]
        self.run(OpenTable("t", schema), OpenIndex("t", table_keys))

    def run(self, *ops: Op) -> list[pa.RecordBatch]:
        return done(self.engine.run(ops))

    def append(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.run(Append("t", batch))

    def check(
        self, carries: list[pa.RecordBatch], carry_keys: tuple[str, ...], reach: int, ties: bool
    ) -> list[pa.RecordBatch]:
        return self.check_bounds([bounded(carry, reach, ties) for carry in carries], carry_keys)

    def check_bounds(self, carries: list[pa.RecordBatch], carry_keys: tuple[str, ...]) -> list[pa.RecordBatch]:
        table = pa.concat_batches(self.batches)
        probes = [whole_probe(carry, carry_keys, self.schema, self.table_keys) for carry in carries]
        answers = self.run(*probes)
        assert len(answers) == len(probes)
        for answer, probe in zip(answers, probes, strict=True):
            answer.validate(full=True)
            assert answer.schema.equals(probe_schema(probe, self.schema))
            assert as_counter(answer) == brute_force(table, probe)
        return answers

    def find(self, wanted: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
        names = tuple(name for name in self.schema.names if name != POSITION)
        find = Find("t", self.table_keys, wanted, low, high, "t", None, names)
        (answer,) = self.run(find)
        answer.validate(full=True)
        assert answer.schema.equals(find_schema(find, self.schema))
        assert as_counter(answer) == brute_find(pa.concat_batches(self.batches), find)
        return answer


def rows_of(positions: Sequence[int | None], **columns: pa.Array) -> pa.RecordBatch:
    """Rows of a table."""
    return pa.record_batch({POSITION: pa.array(positions, pa.int64()), **columns})


def batch_of(ts: list[int], **columns: pa.Array) -> pa.RecordBatch:
    """A carry without bounds."""
    return pa.record_batch({TS: pa.array(ts, pa.int64()), **columns})


def sliced(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, but at offset 3 of a longer batch."""
    if not batch.num_rows:
        return batch
    rows = [batch.num_rows - 1, 0, 0, *range(batch.num_rows), 0]
    return pa.RecordBatch.from_arrays([c.take(pa.array(rows)) for c in batch.columns], schema=batch.schema).slice(
        3, batch.num_rows
    )


# --- hashes that collide -----------------------------------------------------------------------------


def all_collide(words: U64) -> U64:
    return np.zeros_like(words)


def most_collide(words: U64) -> U64:
    return hashing.scramble(words) & np.uint64(3)


FINISHES = [hashing.scramble, most_collide, all_collide]
