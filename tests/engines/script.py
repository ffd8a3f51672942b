"""Random operations on a few windows, for comparing an engine with the native one step by step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

from node.core.engine import TS, Append, CloseWindow, Expire, Find, Op, OpenWindow, Probe, SiteEngine
from node.engine.native import NativeEngine
from tests.engines.conformance import as_counter

SCHEMA = pa.schema([(TS, pa.int64()), ("w.k", pa.string()), ("w.id", pa.int64())])
#: How the windows are keyed; the last has no key, so its rows are spread and a probe of it asks every partition.
WINDOWS: dict[str, tuple[str, ...]] = {"one": ("w.k",), "two": ("w.id",), "all": ()}
_LENGTH = 60


class Script:
    """Steps that open, fill, ask, expire and close windows, by seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._now = 0
        self._expired: dict[str, int] = {}

    def step(self) -> list[Op]:
        """The operations of one turn: a few, at least one of them a question."""
        ops: list[Op] = []
        for window, keys in WINDOWS.items():
            if window not in self._expired:
                ops.append(OpenWindow(window, SCHEMA, keys))
                self._expired[window] = -(10**6)
        for _ in range(self._rng.randint(1, 6)):
            ops.append(self._any_op(self._rng.choice(list(WINDOWS))))
        ops.append(self._probe(self._rng.choice(list(WINDOWS))))
        if self._rng.random() < 0.1:
            window = self._rng.choice(list(WINDOWS))
            del self._expired[window]
            ops.append(CloseWindow(window))
        return ops

    def _any_op(self, window: str) -> Op:
        kind = self._rng.choice(["append", "append", "append", "expire", "probe", "find"])
        if kind == "append":
            return Append(window, self._rows(self._rng.choice([1, 7, 60])))
        if kind == "expire":
            self._expired[window] = max(self._expired[window], self._now - _LENGTH)
            return Expire(window, self._expired[window])
        if kind == "find" and WINDOWS[window]:
            wanted = {"k": ["a", "d", None]} if window == "one" else {"k": [3, 0, 14]}
            return Find(window, pa.record_batch(wanted), self._expired[window], self._now + self._rng.randint(-9, 9))
        return self._probe(window)

    def _rows(self, count: int) -> pa.RecordBatch:
        self._now += self._rng.randint(1, 10)
        times = [self._now - self._rng.randint(0, 12) for _ in range(count)]
        words = [self._rng.choice(["a", "b", "c", "d", "e", None]) for _ in range(count)]
        numbers = [self._rng.randint(0, 30) for _ in range(count)]
        return pa.record_batch([pa.array(times, pa.int64()), pa.array(words), pa.array(numbers)], schema=SCHEMA)

    def _probe(self, window: str) -> Probe:
        reach = self._rng.randint(0, 30)
        rows = self._rows(self._rng.choice([1, 5, 20]))
        # Never asks for what has expired.
        times = pa.array([max(ts, self._expired[window] + reach) for ts in rows[TS].to_pylist()], pa.int64())
        carry = pa.record_batch({TS: times, "c.k": rows["w.k"], "c.id": rows["w.id"]})
        keys = tuple(f"c{name[1:]}" for name in WINDOWS[window])
        return Probe(window, carry, keys, reach, self._rng.random() < 0.5)


class Pair:
    """The engine under test and the native one, told the same."""

    def __init__(self, engine: SiteEngine) -> None:
        self._engine = engine
        self._native = NativeEngine()
        self.rows = 0

    def run(self, ops: Sequence[Op]) -> None:
        answers, expected = self._engine.run(ops), self._native.run(ops)
        assert len(answers) == len(expected)
        for answer, other in zip(answers, expected, strict=True):
            answer.validate(full=True)
            assert answer.schema.equals(other.schema)
            assert as_counter(answer) == as_counter(other)
            self.rows += other.num_rows


def cut(ops: Sequence[Op], pieces: int, rng: random.Random) -> list[list[Op]]:
    """The same operations in several calls."""
    places = sorted(rng.randint(0, len(ops)) for _ in range(pieces - 1))
    return [list(ops[start:end]) for start, end in pairwise([0, *places, len(ops)])]
