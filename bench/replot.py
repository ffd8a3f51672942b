"""``python -m bench.replot``: the plots drawn once more from the figures that are stored; nothing is measured."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.bytes import RESULTS, Cell, Measured
from bench.halves import Cost
from bench.plots import plot_bytes, plot_halves
from bench.records import KeyPlan
from bench.spark.plots import plot_spark
from planner.model.query import Algorithm

_STREAMING = "Structured Streaming"


def main() -> None:
    """Those of bytes, halves and Spark; of the planner's only the plots themselves are stored."""
    plot_bytes(_bytes(RESULTS / "bytes.csv"), RESULTS / "bytes.svg")
    plot_halves(_halves(RESULTS / "halves.csv"), RESULTS / "halves.svg")
    plot_spark(*_spark(RESULTS / "spark.csv"), RESULTS / "spark.svg")


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _bytes(path: Path) -> list[Measured]:
    found: dict[tuple[str, str, str], Measured] = {}
    for row in _rows(path):
        if row["table"] != "grid":
            continue
        key = row["width"], row["distinct"], row["match"]
        if key not in found:
            cell = Cell(int(row["width"]), KeyPlan(float(row["match"]), int(row["distinct"])))
            found[key] = Measured(cell, rate=float(row["realised"]), bound_bytes=int(row["bound_bytes"]))
        sizes = found[key].bytes_by.setdefault(row["algorithm"], {})
        sizes[row["direction"], row["kind"]] = int(row["bytes"])
    return list(found.values())


def _halves(path: Path) -> list[Cost]:
    found: dict[tuple[str, int], dict[tuple[str, str], float]] = defaultdict(dict)
    for row in _rows(path):
        found[row["algorithm"], int(row["window"])][row["site"], row["part"]] = float(row["ms"])
    return [Cost(Algorithm(name), window, ms, {}, {}) for (name, window), ms in found.items()]


def _spark(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Cells as ``bench.spark`` has them; of each only the median is stored, so it stands for all."""
    cells, streamed = [], []
    for row in _rows(path):
        cell: dict[str, Any] = {"window": int(row["window"]), "batch": int(row["batch"])}
        if row["system"] == _STREAMING:
            streamed.append(cell | {"ms": [float(row["median_ms"])]})
        else:
            floors = [float(row["floor_ms"])] if row["floor_ms"] else []
            what = {"system": row["system"], "tick": row["tick"], "ticks": [float(row["median_ms"])], "floors": floors}
            cells.append(cell | what)
    return cells, streamed


if __name__ == "__main__":
    main()
