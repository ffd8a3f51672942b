"""What the native engine costs: per tick (append, expire, probe), and rows per second of a symmetric join.

python -m bench.engine            # everything, a few minutes
python -m bench.engine --quick    # windows up to 300k rows
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.core.engine import HIGH, LOW, POSITION, TS, Append, Expire, Find, Op, OpenIndex, OpenTable, Outcome, Probe
from node.engine.native import NativeEngine
from planner.model.query import Call, ColumnRef, Expr, Literal

WINDOWS = (1_000, 30_000, 300_000, 1_000_000, 5_000_000)
BATCHES = (30, 1_000, 10_000)
KINDS = ("int", "string")
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Cost:
    """Milliseconds of one tick and what it produced."""

    p50: float
    cpu: float
    mean: float
    worst: float
    pairs: float
    runs: int


def _keys(kind: str, values: I64) -> pa.Array:
    whole = pa.array(values)
    if kind == "int":
        return whole
    return pa.compute.binary_join_element_wise("key-", whole.cast(pa.string()), "")


def _batch(kind: str, generator: np.random.Generator, first_ts: int, count: int, distinct: int) -> pa.RecordBatch:
    """About 100 bytes a row: time, key, two numbers, 64 bytes of text. One row per unit of time."""
    text = pa.py_buffer(generator.integers(97, 123, 64 * count, dtype=np.uint8))
    columns = {
        POSITION: pa.array(np.arange(first_ts, first_ts + count)),
        "key": _keys(kind, generator.integers(0, distinct, count)),
        "a": pa.array(generator.random(count)),
        "b": pa.array(generator.integers(0, 1000, count)),
        "text": pa.Array.from_buffers(
            pa.string(), count, [None, pa.py_buffer(np.arange(count + 1, dtype=np.int32) * 64), text]
        ),
    }
    return pa.record_batch(columns)


def _delayed(rows: pa.RecordBatch, generator: np.random.Generator, late: int) -> pa.RecordBatch:
    if not late:
        return rows
    positions = rows[POSITION].to_numpy() - generator.integers(0, late, rows.num_rows)
    return rows.set_column(0, POSITION, pa.array(positions))


def _carry(kind: str, generator: np.random.Generator, ts: int, count: int, distinct: int, reach: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            TS: pa.array(np.full(count, ts)),
            "c.key": _keys(kind, generator.integers(0, distinct, count)),
            "c.id": pa.array(np.arange(count)),
            LOW: pa.array(np.full(count, ts - reach)),
            HIGH: pa.array(np.full(count, ts)),
        }
    )


def _probe(carry: pa.RecordBatch, table: str = "t", alias: str = "s", condition: Expr | None = None) -> Probe:
    """A probe by the key that keeps everything."""
    (key,) = [name for name in carry.schema.names if name.endswith(".key")]
    own = [name for name in carry.schema.names if name not in (LOW, HIGH)]
    theirs = [f"{alias}.{name}" for name in ("key", "a", "b", "text")]
    return Probe(table, ("key",), carry, (key,), alias, condition, (*own, *theirs))


def _answers(outcomes: Sequence[Outcome]) -> list[pa.RecordBatch]:
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failed:
        raise failed[0]
    return [outcome for outcome in outcomes if isinstance(outcome, pa.RecordBatch)]


def _filled(kind: str, window: int, batch: int, generator: np.random.Generator) -> NativeEngine:
    """A window that has grown to ``window`` rows: most of it in large steps, to save time, the newest by batches."""
    engine = NativeEngine()
    step = max(batch, window // 500)
    schema = _batch(kind, generator, 0, 1, 1).schema
    engine.run([OpenTable("t", schema), OpenIndex("t", ("key",))])
    for first in range(0, window, step):
        rows = _batch(kind, generator, first, min(step, window - first), window)
        size = batch if first + 5 * step >= window else step
        _answers(engine.run([Append("t", rows.slice(at, size)) for at in range(0, rows.num_rows, size)]))
    return engine


def tick_cost(kind: str, window: int, batch: int, ticks: int) -> Cost:
    """Each tick appends ``batch`` rows, expires as many, and probes with ``batch`` rows: about one match each."""
    generator = np.random.default_rng(1)
    engine = _filled(kind, window, batch, generator)
    times, cpu, pairs, now = [], [], 0, window
    for _ in range(ticks):
        rows = _batch(kind, generator, now, batch, window)
        now += batch
        carry = _carry(kind, generator, now, batch, window, window)
        ops: list[Op] = [Append("t", rows), Expire("t", now - window), _probe(carry)]
        start, cpu_start = time.perf_counter(), time.process_time()
        (answer,) = _answers(engine.run(ops))
        cpu.append(1e3 * (time.process_time() - cpu_start))
        times.append(1e3 * (time.perf_counter() - start))
        pairs += answer.num_rows
    runs = len(engine._tables["t"].runs)
    return Cost(
        statistics.median(times), statistics.median(cpu), statistics.mean(times), max(times), pairs / ticks, runs
    )


def throughput(kind: str, rows: int, batch: int, late: int = 0) -> tuple[float, float, int]:
    """A symmetric join of two windows that grow to ``rows`` each: rows per second, per CPU second; pairs found.

    Rows arrive up to ``late`` units of time after their turn.
    """
    generator = np.random.default_rng(2)
    sides = [
        [_delayed(_batch(kind, generator, at, batch, rows), generator, late) for at in range(0, rows, batch)]
        for _ in range(2)
    ]
    engine = NativeEngine()
    for side in "01":
        engine.run([OpenTable(side, sides[0][0].schema), OpenIndex(side, ("key",))])
    pairs = 0
    start, cpu_start = time.perf_counter(), time.process_time()
    for left, right in zip(*sides, strict=True):
        ops: list[Op] = [Append("0", left), Append("1", right)]
        ops += [_probe(_as_carry(left, "l", rows, False), "1"), _probe(_as_carry(right, "r", rows, True), "0")]
        pairs += sum(answer.num_rows for answer in _answers(engine.run(ops)))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    return 2 * rows / seconds, 2 * rows / cpu, pairs


def _as_carry(rows: pa.RecordBatch, alias: str, reach: int, ties: bool) -> pa.RecordBatch:
    positions = rows[POSITION].to_numpy()
    own = {TS: rows[POSITION], **{f"{alias}.{name}": rows[name] for name in ("key", "a", "b", "text")}}
    return pa.record_batch({**own, LOW: pa.array(positions - reach), HIGH: pa.array(positions + int(ties))})


def fusing(probes: int, size: int, window: int, queries: int) -> tuple[float, float]:
    """Milliseconds of many small probes of some queries, each with a condition, handed over together and one by one."""
    generator = np.random.default_rng(3)
    engine = _filled("string", window, 1000, generator)
    conditions = [
        Call("<", (ColumnRef(f"s{query}", "b"), Literal(500 + query, pa.int64())), pa.bool_())
        for query in range(queries)
    ]
    ops = []
    for number in range(probes):
        carry = _carry("string", generator, window, size, window, window)
        ops.append(_probe(carry, "t", f"s{number % queries}", conditions[number % queries]))
    together = _median(lambda: engine.run(ops))
    return together, _median(lambda: [engine.run([op]) for op in ops])


def finding(kind: str, count: int, window: int) -> tuple[float, int]:
    """Milliseconds to find the newer half of the rows of ``count`` keys, and how many those are."""
    generator = np.random.default_rng(4)
    engine = _filled(kind, window, 1000, generator)
    wanted = pa.record_batch({"key": _keys(kind, generator.choice(window, count, replace=False))})
    op = Find("t", ("key",), wanted, window // 2, window, "s", None, ("key", "a", "b", "text"))
    (answer,) = _answers(engine.run([op]))
    return _median(lambda: engine.run([op])), answer.num_rows


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(7):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    print("| key | W | B | ms p50 | CPU ms p50 | ms mean | ms worst | pairs | runs |")
    print("|---" * 9 + "|")
    for kind in KINDS:
        for window in WINDOWS[:3] if quick else WINDOWS:
            for batch in BATCHES:
                cost = tick_cost(kind, window, batch, 60 if batch == 10_000 else 200)
                print(
                    f"| {kind} | {window:,} | {batch:,} | {cost.p50:.2f} | {cost.cpu:.2f} | {cost.mean:.2f} "
                    f"| {cost.worst:.2f} | {cost.pairs:.0f} | {cost.runs} |",
                    flush=True,
                )
                gc.collect()
    for kind in KINDS:
        for late in (0, 50_000):
            wall, cpu, pairs = throughput(kind, 100_000 if quick else 1_000_000, 8192, late)
            print(
                f"symmetric join, {kind} keys, rows up to {late:,} late: {wall:,.0f} rows/s, "
                f"{cpu:,.0f} rows per CPU second, {pairs:,} pairs"
            )
    for probes, size in ((50, 10), (50, 30), (50, 100), (20, 1000), (4, 10_000)):
        for queries in (1, probes):
            together, apart = fusing(probes, size, 100_000, queries)
            print(
                f"{probes} probes of {size} rows of {queries} queries: fused {together:.2f} ms "
                f"({1e3 * together / probes:.0f} us each), one by one {apart:.2f} ms"
            )
    for kind in KINDS:
        for count in (10, 1_000, 30_000):
            spent, rows = finding(kind, count, 300_000)
            print(f"find of {count:,} {kind} keys in 300,000 rows: {spent:.2f} ms, {rows:,} rows")


if __name__ == "__main__":
    main()
