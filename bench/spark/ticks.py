"""The work of ``bench.spark``: ticks on a window of some size, the same for every engine, timed one after the other.

A tick appends a batch, expires as many rows, and probes with a batch of the same size, about one match for each row:
one call of the engine, and one job where the engine is Spark's. The tick of six operations has two windows: two
appends, two probes and two finds, with their expiries. Rows have about 100 bytes, and one arrives per unit of time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from node.core.engine import (
    HIGH,
    LOW,
    POSITION,
    TS,
    Append,
    CloseTable,
    Expire,
    Find,
    Op,
    OpenIndex,
    OpenTable,
    Outcome,
    Probe,
)

KEY = "key"
COLUMNS = (KEY, "a", "b", "text")
TEXT_BYTES = 64
#: Rows of one append while a window is filled.
FILL_ROWS = 50_000


class BenchError(Exception):
    """An engine gave other rows than the others."""


class Runs(Protocol):
    """As much of an engine as is measured."""

    def run(self, ops: list[Op]) -> list[Outcome]:
        """Perform the operations; for each of them what became of it."""
        ...


@dataclass(frozen=True)
class System:
    """An engine under test, and the floor beneath it: an empty job of the same Spark; None if it is no Spark."""

    name: str
    engine: Runs
    empty_job: Callable[[], None] | None = None


@dataclass
class Times:
    """Milliseconds of the ticks of one system, and of the empty jobs that ran between them."""

    ticks: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)


def rows_of(random: np.random.Generator, first: int, count: int, distinct: int) -> pa.RecordBatch:
    """Rows of a stream: position, key, two numbers, text."""
    text = pa.py_buffer(random.integers(97, 123, TEXT_BYTES * count, dtype=np.uint8))
    ends = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * TEXT_BYTES)
    return pa.record_batch(
        {
            POSITION: pa.array(np.arange(first, first + count)),
            KEY: pa.array(random.integers(0, distinct, count)),
            "a": pa.array(random.random(count)),
            "b": pa.array(random.integers(0, 1000, count)),
            "text": pa.Array.from_buffers(pa.string(), count, [None, ends, text]),
        }
    )


def carry_of(random: np.random.Generator, now: int, count: int, distinct: int, reach: int) -> pa.RecordBatch:
    """Rows that ask what they match, all at one time, in the ``reach`` units before it."""
    return pa.record_batch(
        {
            TS: pa.array(np.full(count, now)),
            "c.key": pa.array(random.integers(0, distinct, count)),
            "c.id": pa.array(np.arange(count)),
            LOW: pa.array(np.full(count, now - reach)),
            HIGH: pa.array(np.full(count, now)),
        }
    )


def probe_of(table: str, carry: pa.RecordBatch) -> Probe:
    """A probe that keeps everything."""
    columns = (TS, "c.key", "c.id", *(f"s.{name}" for name in COLUMNS))
    return Probe(table, (KEY,), carry, ("c.key",), "s", None, columns)


def answers_of(outcomes: list[Outcome]) -> list[pa.RecordBatch]:
    """The answers of the questions; whatever failed is raised."""
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return [outcome for outcome in outcomes if outcome is not None]


class Workload:
    """Windows of one size in all systems, with the same rows in each."""

    def __init__(self, systems: list[System], window: int, windows: int = 2) -> None:
        self._systems = systems
        self._window = window
        self._random = np.random.default_rng(window)
        self._now = 0
        self._names = ("w", "v")[:windows]
        schema = rows_of(self._random, 0, 1, 1).schema
        for name in self._names:
            self._all([OpenTable(name, schema), OpenIndex(name, (KEY,))])

    def fill(self) -> None:
        """Bring the windows to their size."""
        while self._now < self._window:
            count = min(FILL_ROWS, self._window - self._now)
            rows = [rows_of(self._random, self._now, count, self._window) for _ in self._names]
            self._now += count
            # A question makes sure that every append is where it belongs before the next comes.
            nobody = carry_of(self._random, 0, 1, 1, 0)
            appends = [Append(name, part) for name, part in zip(self._names, rows, strict=True)]
            self._all([*appends, *(probe_of(name, nobody) for name in self._names)])

    def close(self) -> None:
        """Give the windows back."""
        nobody = carry_of(self._random, 0, 1, 1, 0)
        self._all([probe_of("w", nobody), *(CloseTable(name) for name in self._names)])

    def tick(self, batch: int) -> list[Op]:
        """The operations of the next tick on one window."""
        rows = rows_of(self._random, self._now, batch, self._window)
        self._now += batch
        carry = carry_of(self._random, self._now, batch, self._window, self._window)
        return [Append("w", rows), Expire("w", self._now - self._window), probe_of("w", carry)]

    def tick_of_six(self, batch: int) -> list[Op]:
        """The operations of the next tick on both windows."""
        ops: list[Op] = []
        fresh = [rows_of(self._random, self._now, batch, self._window) for _ in self._names]
        self._now += batch
        for name, rows in zip(self._names, fresh, strict=True):
            ops += [Append(name, rows), Expire(name, self._now - self._window)]
        for name in self._names:
            carry = carry_of(self._random, self._now, batch, self._window, self._window)
            wanted = pa.record_batch({"key": pa.array(np.unique(np.asarray(carry["c.key"])))})
            ops.append(probe_of(name, carry))
            ops.append(Find(name, (KEY,), wanted, self._now - batch, self._now, "s", None, COLUMNS))
        return ops

    def measure(self, next_tick: Callable[[int], list[Op]], batch: int, ticks: int, settle: int) -> dict[str, Times]:
        """Time ticks, each in all systems before the next; the first ones do not count.

        Raises BenchError if the systems do not find the same.
        """
        times = {system.name: Times() for system in self._systems}
        for number in range(settle + ticks):
            ops = next_tick(batch)
            found = {}
            # In turn: who comes first finds the caches cold.
            first = number % len(self._systems)
            for system in self._systems[first:] + self._systems[:first]:
                floor = None if system.empty_job is None else timed_ms(system.empty_job)
                began = time.perf_counter()
                answers = answers_of(system.engine.run(ops))
                took = 1e3 * (time.perf_counter() - began)
                found[system.name] = fingerprint(answers)
                if number >= settle:
                    times[system.name].ticks.append(took)
                    times[system.name].floors += [] if floor is None else [floor]
            check_same(found)
        return times

    def _all(self, ops: list[Op]) -> None:
        for system in self._systems:
            answers_of(system.engine.run(ops))


def timed_ms(work: Callable[[], None]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - began)


def fingerprint(answers: list[pa.RecordBatch]) -> list[tuple[int, ...]]:
    """How many rows each answer has, and sums over its whole numbers, which do not depend on their order."""
    return [(rows.num_rows, *_sums(rows)) for rows in answers]


def _sums(rows: pa.RecordBatch) -> Iterator[int]:
    for column in rows.columns:
        if pa.types.is_int64(column.type):
            yield pc.sum(column).as_py() or 0


def check_same(found: Mapping[str, object]) -> None:
    """Raises BenchError unless all have found the same."""
    names = list(found)
    for name in names[1:]:
        if found[name] != found[names[0]]:
            raise BenchError(f"{name} requires the answers of {names[0]}, {found[names[0]]}; got {found[name]}")
