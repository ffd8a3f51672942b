"""What each algorithm sends: ``python -m bench.bytes`` makes every table and the plot in ``bench/results``.

A two-way join of streams at two sites, rows wanted at a third (``bench.sites``). Counted is all that the
link between the two carries, both ways, by kind, as the daemon's ledger counts it: acknowledgements, pings,
gRPC and HTTP/2 included. Only the steady part is counted, from when windows and compressors are warm on.

The lower bound is every tuple that is in some result, once, in the encoding and through
the compressor that a link uses, batch by batch, without frames or anything else. It is no bound for the
``D`` algorithms in the strict sense: of a pair they send the later tuple only.

Every run is checked: it joins as many rows as ``bench.records.matches_of`` says. They are counted where they
come into being (``bench.tally``) and not sent on.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.bytes_report import report
from bench.records import KeyPlan, Matches, Stream, matches_of, pair_of_streams, plain_width, record_batch
from bench.sites import LEAD_MS, SITES, START_MS, BenchError, Chunk, Sites
from bench.tally import TallyEngine
from node.core.encoding.rows import encode_rows
from node.core.links.compression import Compressor
from planner.algorithms.descriptions import PLAIN, Algorithm

RESULTS = Path("bench/results")
RATES = (0.01, 0.05, 0.2, 0.6, 0.95)
WIDTHS = (50, 142, 500, 1250)
DISTINCTS = (100, 10_000, 1_000_000)
TICKS = 40


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting; ``table`` says in which table it is shown."""

    width: int
    keys: KeyPlan
    table: str = "grid"
    tau_ms: int = 1_000
    per_tick: int = 300
    window_ms: int = 10_000
    ticks_warm: int = 12
    ticks_counted: int = TICKS

    @property
    def ticks(self) -> int:
        """One more than are counted: with the last one the streams end, which costs other messages."""
        return self.ticks_warm + self.ticks_counted + 1

    @property
    def counted(self) -> slice:
        """The tuples of a stream that are counted."""
        return slice(self.ticks_warm * self.per_tick, (self.ticks - 1) * self.per_tick)

    @property
    def name(self) -> str:
        return f"{self.width} B, match {self.keys.rate:.0%}, {self.keys.distinct:,} keys"


@dataclass(slots=True)
class Measured:
    """What became of a cell. Bytes are those of the counted part."""

    cell: Cell
    #: Shares of counted tuples: in some result, and with a match before them.
    rate: float = 0.0
    head_rate: float = 0.0
    distinct: int = 0
    rows: int = 0
    plain_bytes: float = 0.0
    all_bytes: int = 0
    bound_bytes: int = 0
    #: By algorithm, direction and kind.
    bytes_by: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)

    @property
    def tuples(self) -> int:
        return 2 * self.cell.ticks_counted * self.cell.per_tick

    def total(self, algorithm: str) -> int:
        return sum(self.bytes_by[algorithm].values())

    def relative(self, algorithm: str) -> float:
        return self.total(algorithm) / self.total(PLAIN)

    @property
    def bound(self) -> float:
        return self.bound_bytes / self.total(PLAIN)

    def by_kind(self, algorithm: str) -> dict[str, int]:
        kinds: dict[str, int] = {}
        for (_, kind), size in self.bytes_by[algorithm].items():
            kinds[kind] = kinds.get(kind, 0) + size
        return kinds


# -- one cell -----------------------------------------------------------------------------------


def measure(cell: Cell, algorithms: Sequence[Algorithm] = tuple(Algorithm)) -> Measured:
    """Run every algorithm on the cell's data.

    Raises BenchError if one of them gives another number of rows than it should.
    """
    streams = pair_of_streams(cell.keys, cell.per_tick, cell.ticks, cell.tau_ms, cell.window_ms)
    matches = matches_of(streams, cell.window_ms, cell.window_ms)
    data = {name: record_batch(stream, cell.width, name, START_MS + LEAD_MS) for name, stream in streams.items()}
    measured = _described(cell, streams, matches, data)
    chunks = {name: _chunks(cell, rows) for name, rows in data.items()}
    for algorithm in algorithms:
        engines = {site: TallyEngine() for site in SITES}
        sites = Sites(cell.tau_ms, data["a"].schema, chunks, engines)
        outcome = sites.run(_query(cell, data["a"].schema), algorithm)
        joined = sum(engine.joined for engine in engines.values())
        if joined != matches.rows:
            raise BenchError(f"{algorithm} in {cell.name} requires {matches.rows:,} rows; got {joined:,}")
        # The figures number n are taken before the batch of tick n goes out.
        end, begin = outcome.figures[cell.ticks - 1], outcome.figures[cell.ticks_warm]
        measured.bytes_by[algorithm] = end.since(begin).bytes_by
    return measured


def _described(cell: Cell, streams: dict[str, Stream], matches: Matches, data: dict[str, pa.RecordBatch]) -> Measured:
    names, part = ("a", "b"), cell.counted
    everything = {name: np.ones(len(streams[name].ts), np.bool_) for name in names}
    return Measured(
        cell,
        rate=float(np.mean([matches.in_result[name][part].mean() for name in names])),
        head_rate=float(np.mean([matches.as_head[name][part].mean() for name in names])),
        distinct=len(np.unique(np.concatenate([streams[name].keys[part] for name in names]))),
        rows=matches.rows,
        plain_bytes=float(np.mean([plain_width(data[name]) for name in names])),
        all_bytes=sum(_packed_bytes(cell, data[name], everything[name]) for name in names),
        bound_bytes=sum(_packed_bytes(cell, data[name], matches.in_result[name]) for name in names),
    )


def _packed_bytes(cell: Cell, rows: pa.RecordBatch, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """The chosen tuples, encoded and compressed batch by batch as a link would; those of the counted part."""
    compressor, total = Compressor(), 0
    for tick in range(cell.ticks - 1):
        part = slice(tick * cell.per_tick, (tick + 1) * cell.per_tick)
        batch = rows.slice(part.start, cell.per_tick).filter(pa.array(chosen[part]))
        if batch.num_rows:
            size = len(compressor.compress(encode_rows(batch)))
            total += size if tick >= cell.ticks_warm else 0
    return total


def _chunks(cell: Cell, rows: pa.RecordBatch) -> list[Chunk]:
    return [Chunk(rows.slice(tick * cell.per_tick, cell.per_tick)) for tick in range(cell.ticks)]


def _query(cell: Cell, schema: pa.Schema) -> str:
    """All columns of both; the event time is not among the outputs, because it travels in any case."""
    names = [name for name in schema.names if name != "ts"]
    outputs = ", ".join(f"{alias}.{name} AS {alias}_{name}" for alias in ("a", "b") for name in names)
    window = f"[RANGE {cell.window_ms} MS]"
    return f"SELECT {outputs} FROM a {window} AS a JOIN b {window} AS b ON a.key = b.key"


# -- all cells ----------------------------------------------------------------------------------


def grid(ticks: int) -> list[Cell]:
    """The cells of the main table, expensive ones first."""
    return [
        Cell(width, KeyPlan(rate, distinct), ticks_counted=ticks)
        for width, rate, distinct in itertools.product(WIDTHS[::-1], RATES[::-1], DISTINCTS)
    ]


def peer_cells() -> list[Cell]:
    """Those of notes/peers.md section 6: keys evenly from d, of which a share is common to both streams.

    What is not stated there was found from its figures: 30 tuples in 100 ms and a window of 3 s for wide
    tuples, 300 tuples in 1 s and a window of 9 s for narrow ones.
    """
    wide = Cell(1250, KeyPlan(1, 10, None), "peers", 100, 30, 3_000, 40, 100)
    narrow = Cell(142, KeyPlan(1, 1_000, None), "peers", 1_000, 300, 9_000)
    kinds = [(1.0, 10), (1.0, 1_000), (0.1, 1_000), (0.02, 1_000)]
    cells = [replace(wide, keys=KeyPlan(rate, distinct, None)) for rate, distinct in kinds]
    kinds = [(1.0, 1_000), (0.1, 1_000), (1.0, 100_000), (0.1, 100_000)]
    return cells + [replace(narrow, keys=KeyPlan(rate, distinct, None)) for rate, distinct in kinds]


def quick_cells() -> list[Cell]:
    """A few."""
    cells = [cell for cell in grid(TICKS) if cell.width in (142, 1250) and cell.keys.rate in (0.05, 0.95)]
    return [cell for cell in cells if cell.keys.distinct == 10_000]


def _all_measured(cells: Sequence[Cell], processes: int) -> Iterator[Measured]:
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for count, measured in enumerate(pool.imap(measure, cells), 1):
            seconds = time.monotonic() - began
            figures = "  ".join(f"{name} {measured.relative(name):.3f}" for name in measured.bytes_by)
            print(f"{count:3}/{len(cells)} {seconds:5.0f} s  {measured.cell.name:36} {figures}", flush=True)
            yield measured


def main() -> None:
    """Measure, check, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four cells, nothing is written")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--ticks", type=int, default=TICKS, help="how many are counted in each cell of the grid")
    given = parser.parse_args()
    cells = quick_cells() if given.quick else [*peer_cells(), *grid(given.ticks)]
    report(list(_all_measured(cells, given.processes)), None if given.quick else RESULTS)


if __name__ == "__main__":
    main()
