"""What a tick costs on Spark, over the size of the window and of the batch: ``make bench-spark``.

ticks: Spark local[2], Spark standalone and the native engine do the same ticks in turn, each tick after an empty job
of the same Spark, which is the floor that no tick can be below. streaming: the same ticks as a stream-stream join of
Structured Streaming. long: 2,000 ticks in a row, their latency and what they leave in memory.

Parts write their figures into ``--folder``, and the report is made of what is there; so they can be run one by one.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.spark.engines import gc_options, heaps_mb, local_spark, memory, native, standalone_spark
from bench.spark.report import write_report
from bench.spark.ticks import BenchError, Times, Workload
from planner.model.errors import NarrowsError

FOLDER = Path("out/bench/spark")
RESULTS = Path("bench/results")
WINDOWS = (1_000, 10_000, 100_000, 1_000_000, 5_000_000)
BATCHES = (30, 1_000, 10_000, 100_000)
TICKS, TICKS_LARGE, SETTLE = 40, 20, 3
LARGE_BATCH = 100_000
#: The tick of six operations needs two windows; more rows than these do not fit beside each other three times.
SIX_WINDOW_MAX, SIX_BATCH = 1_000_000, 1_000
#: Window and batch of the ticks that Structured Streaming does too.
STREAMED = ((1_000, 30), (10_000, 1_000), (100_000, 1_000), (100_000, 10_000), (1_000_000, 10_000))
STREAMED_TICKS = 12
LONG_TICKS, LONG_WINDOW, LONG_BATCH = 2_000, 30_000, 1_000
#: What is taken for "at tick n": the ticks around it.
LONG_SPAN, LONG_MARKS = 100, (200, 1_000, 2_000)


def main() -> int:
    """Measure, check, write; 1 if an engine failed or gave other rows than the others."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=list(PARTS), help="run these parts only")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; nothing is written")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    try:
        for part in given.part or PARTS:
            before = os.getloadavg()
            figures = PARTS[part](given.quick)
            raw = {"load_before": before, "load_after": os.getloadavg(), "figures": figures}
            if not given.quick:
                (given.folder / f"{part}.json").write_text(json.dumps(raw))
    except (BenchError, NarrowsError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if not given.quick:
        write_report(given.folder, RESULTS)
    return 0


def measure_ticks(quick: bool) -> list[dict[str, Any]]:
    """All cells of the table."""
    cells: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        local, _ = stack.enter_context(local_spark(folder / "local"))
        standalone, _ = stack.enter_context(standalone_spark(folder / "standalone"))
        systems = [local, standalone, native()]
        for window in WINDOWS[:2] if quick else WINDOWS:
            six = window <= SIX_WINDOW_MAX and window >= SIX_BATCH
            load = Workload(systems, window, 2 if six else 1)
            began = time.monotonic()
            load.fill()
            print(f"windows of {window:,} rows are filled after {time.monotonic() - began:.0f} s", flush=True)
            if six:  # first, because the other ticks leave the second window behind
                ticks = 5 if quick else TICKS
                cells += _cells("six", window, SIX_BATCH, load.measure(load.tick_of_six, SIX_BATCH, ticks, SETTLE))
            for batch in (size for size in BATCHES if size <= window):
                ticks = 5 if quick else TICKS_LARGE if batch >= LARGE_BATCH else TICKS
                cells += _cells("three", window, batch, load.measure(load.tick, batch, ticks, SETTLE))
            load.close()
    return cells


def _cells(tick: str, window: int, batch: int, times: dict[str, Times]) -> list[dict[str, Any]]:
    cells = [{"tick": tick, "window": window, "batch": batch, "system": name, **asdict(t)} for name, t in times.items()]
    said = []
    for cell in cells:
        ticks, floors = sorted(cell["ticks"]), sorted(cell["floors"])
        floor = f" on {floors[len(floors) // 2]:.0f}" if floors else ""
        said.append(f"{cell['system']} {ticks[len(ticks) // 2]:.1f}{floor}")
    print(f"{window:9,} {batch:7,} {tick:5}  {'   '.join(said)}  ms", flush=True)
    return cells


def measure_streaming(quick: bool) -> list[dict[str, Any]]:
    """Structured Streaming in a process of its own for each size."""
    cells = []
    for window, batch in STREAMED[:1] if quick else STREAMED:
        ticks = 3 if quick else STREAMED_TICKS
        command = [sys.executable, "-m", "bench.spark.structured", str(window), str(batch), "--ticks", str(ticks)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"Structured Streaming ended with {done.returncode}:\n{done.stderr[-2000:]}")
        cell = json.loads(done.stdout.splitlines()[-1])
        if cell["rows"] != cell["expected"]:
            raise BenchError(f"Structured Streaming requires {cell['expected']} rows; got {cell['rows']}")
        print(f"{window:9,} {batch:7,} Structured Streaming {sorted(cell['ms'])[len(cell['ms']) // 2]} ms", flush=True)
        cells.append(cell)
    return cells


def measure_long(quick: bool) -> dict[str, Any]:
    """Many ticks in a row: how long each took, and memory now and then."""
    ticks = 40 if quick else LONG_TICKS
    marks = {ticks if mark == LONG_TICKS else mark: mark for mark in LONG_MARKS}
    report: dict[str, Any] = {"window": LONG_WINDOW, "batch": LONG_BATCH, "marks": list(marks), "span": LONG_SPAN}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        gc_log = folder / "gc.log"
        local, process = stack.enter_context(local_spark(folder / "local", gc_options(gc_log)))
        load = Workload([local, native()], LONG_WINDOW, 1)
        load.fill()
        times = Times()
        report["memory"] = []
        for number in range(1, ticks + 1):
            tick = load.measure(load.tick, LONG_BATCH, 1, 0)[local.name]
            times.ticks += tick.ticks
            times.floors += tick.floors
            if number % LONG_SPAN == 0 or number == ticks:
                heaps = heaps_mb(gc_log)
                taken = {"tick": number, **asdict(memory(process)), "heap": heaps[-1] if heaps else None}
                report["memory"].append(taken)
                print(f"tick {number}: {statistics.median(times.ticks[-LONG_SPAN:]):.1f} ms, {taken}", flush=True)
        report |= asdict(times)
    return report


PARTS = {"ticks": measure_ticks, "streaming": measure_streaming, "long": measure_long}

if __name__ == "__main__":
    sys.exit(main())
