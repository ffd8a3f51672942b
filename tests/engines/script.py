"""Random operations on a few tables, for comparing an engine with the native one step by step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

from node.core.engine import (
    HIGH,
    LOW,
    POSITION,
    Append,
    CloseIndex,
    CloseTable,
    Expire,
    Find,
    Op,
    OpenIndex,
    OpenTable,
    Probe,
    Question,
    SiteEngine,
)
from node.engine.native import NativeEngine
from tests.engines.fused import assert_alike

SCHEMA = pa.schema([(POSITION, pa.int64()), ("k", pa.string()), ("id", pa.int64())])
TABLES = ("one", "two")
#: How rows are looked for; without a key, a probe asks every partition.
INDEXES: tuple[tuple[str, ...], ...] = (("k",), ("id",), ("id", "k"), ())
_LENGTH = 60


class Script:
    """Steps that open, fill, ask, expire and close tables and their indexes, by seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._now = 0
        self._expired: dict[str, int] = {}
        self._open: dict[str, list[tuple[str, ...]]] = {}

    def step(self) -> list[Op]:
        """The operations of one turn: first changes, then questions, at least one, then what may be closed."""
        ops: list[Op] = []
        for table in TABLES:
            if table not in self._expired:
                ops.append(OpenTable(table, SCHEMA))
                self._expired[table], self._open[table] = -(10**6), []
        for _ in range(self._rng.randint(1, 6)):
            ops.append(self._change(self._rng.choice(TABLES)))
        asked = [table for table in TABLES if self._open[table]]
        if not asked:
            ops.append(self._open_index(TABLES[0]))
            asked = [TABLES[0]]
        for _ in range(self._rng.randint(1, 6)):
            ops.append(self._question(self._rng.choice(asked)))
        if self._rng.random() < 0.3:
            table = self._rng.choice(asked)
            keys = self._open[table].pop(self._rng.randrange(len(self._open[table])))
            ops.append(CloseIndex(table, keys))
        if self._rng.random() < 0.1:
            table = self._rng.choice(TABLES)
            del self._expired[table]
            ops.append(CloseTable(table))
        return ops

    def _change(self, table: str) -> Op:
        kind = self._rng.choice(["append", "append", "append", "expire", "index"])
        if kind == "index" and len(self._open[table]) < len(INDEXES):
            return self._open_index(table)
        if kind == "expire":
            self._expired[table] = max(self._expired[table], self._now - _LENGTH)
            return Expire(table, self._expired[table])
        return Append(table, self._rows(self._rng.choice([1, 7, 60])))

    def _open_index(self, table: str) -> OpenIndex:
        keys = self._rng.choice([keys for keys in INDEXES if keys not in self._open[table]])
        self._open[table].append(keys)
        return OpenIndex(table, keys)

    def _rows(self, count: int) -> pa.RecordBatch:
        self._now += self._rng.randint(1, 10)
        positions = [self._now - self._rng.randint(0, 12) for _ in range(count)]
        words = [self._rng.choice(["a", "b", "c", "d", "e", None]) for _ in range(count)]
        numbers = [self._rng.choice([*range(30), None]) for _ in range(count)]
        return pa.record_batch([pa.array(positions, pa.int64()), pa.array(words), pa.array(numbers)], schema=SCHEMA)

    def _question(self, table: str) -> Question:
        keys = self._rng.choice(self._open[table])
        # Never asks for what has expired.
        low = max(self._expired[table], self._now - self._rng.randint(0, _LENGTH))
        if keys and self._rng.random() < 0.3:
            wanted = {"k": pa.array(["a", "d", None]), "id": pa.array([3, 0, 14])}
            columns = pa.record_batch({name: wanted[name] for name in keys})
            return Find(table, keys, columns, low, self._now + self._rng.randint(-9, 9), "w", None, ("id", "k"))
        rows = self._rows(self._rng.choice([1, 5, 20]))
        high = [low + self._rng.randint(0, 30) for _ in range(rows.num_rows)]
        carry = {"c.k": rows["k"], "c.id": rows["id"], LOW: pa.array([low] * rows.num_rows), HIGH: pa.array(high)}
        given = tuple(self._rng.sample(["c.k", "c.id", "w.k", "w.id"], 3))
        return Probe(table, keys, pa.record_batch(carry), tuple(f"c.{name}" for name in keys), "w", None, given)


class Pair:
    """The engine under test and the native one, told the same."""

    def __init__(self, engine: SiteEngine) -> None:
        self._engine = engine
        self._native = NativeEngine()
        self.rows = 0

    def run(self, ops: Sequence[Op]) -> None:
        expected = self._native.run(ops)
        assert_alike(self._engine.run(ops), expected)
        self.rows += sum(outcome.num_rows for outcome in expected if isinstance(outcome, pa.RecordBatch))


def cut(ops: Sequence[Op], pieces: int, rng: random.Random) -> list[list[Op]]:
    """The same operations in several calls."""
    places = sorted(rng.randint(0, len(ops)) for _ in range(pieces - 1))
    return [list(ops[start:end]) for start, end in pairwise([0, *places, len(ops)])]
