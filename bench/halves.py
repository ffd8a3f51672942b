"""What a tick costs the two sites of a one-way join, over the size of the window: ``python -m bench.halves``.

Stream a is the head and its batches look for b's tuples by each of the algorithms; the source is site a,
the destination site b. Both streams have 1,000 tuples a tick, so as many expire as arrive, and half as many
keys as b's window has tuples, so that a tick gives about 2,000 rows whatever the window. A query has two
heads: b's batches go to a by SP-D and find next to nothing in a window of one millisecond. That is in every
figure, at both sites, and does not depend on b's window.

The window is filled with large batches first. Then processor time is taken, not wall time, around the calls
into the site's core (protocol, encoding, compression) and into its engine, tick by tick. The figure is the
median of three stretches of ticks, each the mean of its ticks, so that work that is not done every tick, such
as merging runs, is in it. Rows are counted and compared with ``bench.records.matches_of``.
"""

from __future__ import annotations

import argparse
import csv
import gc
import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.records import KeyPlan, Stream, matches_of, pair_of_streams
from bench.sites import LEAD_MS, SITES, START_MS, BenchError, Chunk, Outcome, Sites
from node.engine.native import NativeEngine
from planner.algorithms.descriptions import PLAIN, Algorithm, CopyKind

RESULTS = Path("bench/results")
WINDOWS = (1_000, 10_000, 100_000, 1_000_000, 5_000_000)
TAU_MS = 100
PER_TICK = 1_000
HEAD_WINDOW_MS = 1
FILL_CHUNKS = 25
TICKS_SETTLE = 5
STRETCHES, STRETCH_TICKS = 3, 20
#: Figures: (site, part).
PARTS = (("source", "core"), ("source", "engine"), ("destination", "core"), ("destination", "engine"))
_SITES = {"source": "a", "destination": "b"}
#: Their copies hold what walks of the past asked for, so these walks have to happen.
_REMEMBERING = tuple(each for each in Algorithm if each.spec.copy in (CopyKind.REDUCED, CopyKind.MIXED))


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of processor time a tick."""

    algorithm: Algorithm
    window: int
    ms: dict[tuple[str, str], float]
    #: Of single ticks, both parts of a site together.
    ms_median: dict[str, float]
    ms_max: dict[str, float]

    def site_ms(self, site: str) -> float:
        return sum(ms for (where, _), ms in self.ms.items() if where == site)


class Data:
    """The two streams for one size of the window."""

    def __init__(self, window: int) -> None:
        self.window_ms = window // PER_TICK * TAU_MS
        self.step = max(1, window // PER_TICK // FILL_CHUNKS)
        # One chunk more than the window, so that tuples expire already.
        self.fill_ticks = (FILL_CHUNKS + 1 if self.step > 1 else window // PER_TICK + 1) * self.step
        self.ticks = self.fill_ticks + TICKS_SETTLE + STRETCHES * STRETCH_TICKS + 2
        plan = KeyPlan(1.0, window // 2, repeats=None)
        self.streams = pair_of_streams(plan, PER_TICK, self.ticks, TAU_MS, self.window_ms)

    def of(self, algorithm: Algorithm) -> dict[str, Stream]:
        """The streams; a is silent at first where its past does not matter."""
        first = 0 if algorithm in _REMEMBERING else self.fill_ticks * PER_TICK
        a = self.streams["a"]
        return {"a": Stream(a.ts[first:], a.keys[first:]), "b": self.streams["b"]}

    def chunks(self, stream: Stream) -> list[Chunk]:
        """Large ones until the window is full, then one a tick."""
        rows = _rows(stream)
        bounds = [*range(0, self.fill_ticks, self.step), *range(self.fill_ticks, self.ticks + 1)]
        places = np.searchsorted(stream.ts, np.array(bounds) * TAU_MS)
        return [
            Chunk(rows.slice(low, high - low), end - begin)
            for low, high, begin, end in zip(places, places[1:], bounds, bounds[1:], strict=False)
        ]


def _rows(stream: Stream) -> pa.RecordBatch:
    numbers = np.arange(len(stream.ts))
    columns = {"ts": stream.ts + START_MS + LEAD_MS, "key": stream.keys, "number": numbers}
    return pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})


def measure(data: Data, window: int, algorithm: Algorithm) -> Cost:
    """Run the join.

    Raises BenchError if it gives another number of rows than it should.
    """
    streams = data.of(algorithm)
    chunks = {name: data.chunks(stream) for name, stream in streams.items()}
    sites = Sites(
        TAU_MS, chunks["a"][0].rows.schema, chunks, {site: NativeEngine() for site in SITES}, time.thread_time
    )
    query = (
        f"SELECT a.number AS an, b.number AS bn FROM a [RANGE {HEAD_WINDOW_MS} MS] AS a "
        f"JOIN b [RANGE {data.window_ms} MS] AS b ON a.key = b.key"
    )
    outcome = sites.run(query, {"a": algorithm, "b": PLAIN})
    expected = matches_of(streams, HEAD_WINDOW_MS, data.window_ms).rows
    if outcome.rows != expected:
        raise BenchError(f"{algorithm} with a window of {window:,} requires {expected:,} rows; got {outcome.rows:,}")
    return _cost(algorithm, window, outcome)


def _cost(algorithm: Algorithm, window: int, outcome: Outcome) -> Cost:
    # The figures of a chunk are taken before it goes out, so the last ones are those of the end of the streams.
    figures = outcome.figures[-STRETCHES * STRETCH_TICKS - 2 : -1]
    ticks = [later.since(earlier).cpu for earlier, later in itertools.pairwise(figures)]
    ms = {}
    for site, part in PARTS:
        of_ticks = [1e3 * getattr(tick[_SITES[site]], part) for tick in ticks]
        means = [statistics.mean(of_ticks[n : n + STRETCH_TICKS]) for n in range(0, len(ticks), STRETCH_TICKS)]
        ms[site, part] = statistics.median(means)
    whole = {site: [1e3 * (tick[name].core + tick[name].engine) for tick in ticks] for site, name in _SITES.items()}
    medians = {site: statistics.median(values) for site, values in whole.items()}
    return Cost(algorithm, window, ms, medians, {site: max(values) for site, values in whole.items()})


# -- report -------------------------------------------------------------------------------------


def _markdown(costs: Sequence[Cost]) -> str:
    windows = sorted({cost.window for cost in costs})
    lines = [
        "# Processor time of a tick",
        "",
        "Made by `python -m bench.halves`: milliseconds a tick of 1,000 tuples per stream, core + engine, over the",
        f"number of tuples in the window. Means over {STRETCH_TICKS} ticks, the median of {STRETCHES} such stretches.",
        "Both sites also do, at the same cost for every window, what the query's other head needs (SP-D).",
        "",
    ]
    for site in _SITES:
        heads = ["algorithm", *(f"{window:,}" for window in windows), f"{windows[-1]:,}: median tick", "max"]
        lines += [f"## {site}", "", f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
        for algorithm in Algorithm:
            own = sorted((cost for cost in costs if cost.algorithm == algorithm), key=lambda cost: cost.window)
            if own:
                cells = [f"{cost.ms[site, 'core']:.1f} + {cost.ms[site, 'engine']:.1f}" for cost in own]
                last = own[-1]
                cells += [f"{last.ms_median[site]:.1f}", f"{last.ms_max[site]:.1f}"]
                lines.append(f"| {' | '.join([algorithm, *cells])} |")
        lines.append("")
    return "\n".join(lines)


def _write(costs: Sequence[Cost], folder: Path) -> None:
    from bench.plots import plot_halves  # noqa: PLC0415 - only who draws needs matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "halves.md").write_text(_markdown(costs))
    with (folder / "halves.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["algorithm", "window", "site", "part", "ms"])
        for cost in costs:
            writer.writerows([cost.algorithm, cost.window, *where, f"{ms:.3f}"] for where, ms in cost.ms.items())
    plot_halves(costs, folder / "halves.svg")
    print(f"written: {folder}/halves.md, halves.csv, halves.svg")


def main() -> None:
    """Measure, check, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="windows up to 100,000 tuples, nothing is written")
    given = parser.parse_args()
    costs = []
    for window in WINDOWS[:3] if given.quick else WINDOWS:
        data = Data(window)
        for algorithm in Algorithm:
            gc.collect()
            began = time.monotonic()
            cost = measure(data, window, algorithm)
            costs.append(cost)
            figures = "  ".join(f"{site} {part} {cost.ms[site, part]:6.2f}" for site, part in PARTS)
            print(f"{window:9,} {algorithm:6} {figures}  ({time.monotonic() - began:.0f} s)", flush=True)
    print(_markdown(costs))
    if not given.quick:
        _write(costs, RESULTS)


if __name__ == "__main__":
    main()
