"""``bench/results/spark.*`` from the figures of ``bench.spark``."""

from __future__ import annotations

import csv
import json
import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.spark.engines import LOCAL, NATIVE, STANDALONE

TAUS_MS = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
#: Above this many runnable tasks per processor when a part began, the report says that it was disturbed.
LOAD_MAX = 0.5
_SPARKS = (LOCAL, STANDALONE)
Cell = dict[str, Any]


def p95(values: Sequence[float]) -> float:
    """Nearly the worst."""
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


def tau_ms(values: Sequence[float]) -> int | None:
    """The smallest tau of the usual ones that is longer than 95 % of the ticks."""
    return next((tau for tau in TAUS_MS if p95(values) < tau), None)


def write_report(folder: Path, results: Path) -> None:
    """Of the parts that were measured."""
    from bench.spark.plots import plot_spark  # noqa: PLC0415 - only who draws needs matplotlib

    parts = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    cells = parts.get("ticks", {}).get("figures", [])
    streamed = parts.get("streaming", {}).get("figures", [])
    lines = [*_head(parts), *_ticks(cells), *_six(cells), *_streaming(streamed, cells), *_long(parts.get("long"))]
    results.mkdir(parents=True, exist_ok=True)
    (results / "spark.md").write_text("\n".join(lines))
    _write_csv(results / "spark.csv", cells, streamed)
    plot_spark(cells, streamed, results / "spark.svg")
    print(f"written: {results}/spark.md, spark.csv, spark.svg")


def _head(parts: dict[str, Any]) -> list[str]:
    loads = {name: (part["load_before"][0], part["load_after"][0]) for name, part in parts.items()}
    said = ", ".join(f"{name} {before:.1f} to {after:.1f}" for name, (before, after) in loads.items())
    cores = os.cpu_count() or 1
    lines = [
        "# A tick on Spark",
        "",
        f"Made by `make bench-spark`: {cores} processors ({platform.machine()}), Python {platform.python_version()},",
        f"PySpark {version('pyspark')}. Wall time in milliseconds. Load average of the machine before and after:",
        f"{said}.",
    ]
    if any(before > LOAD_MAX * cores for before, _ in loads.values()):
        lines += [
            "**Others used the machine meanwhile**: trust ratios more than milliseconds, and p95 and tau least.",
        ]
    return [*lines, ""]


def _ticks(cells: list[Cell]) -> list[str]:
    found = _by_size(cells, "three")
    if not found:
        return []
    heads = ["window", "batch"]
    for system in ("local", "standalone"):
        heads += [f"{system}: floor", "median", "x floor", "p95", "tau"]
    heads += ["native: median", "p95", "tau"]
    lines = [
        "## Append, expire, probe: one job",
        "",
        "A tick appends a batch, expires as many rows and probes with as many, about one match each. Floor: an empty",
        "job of the same Spark, run before each tick. tau: the smallest of",
        f"{', '.join(str(tau) for tau in TAUS_MS)} ms that 95 % of the ticks are below.",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---:|' * len(heads)}",
    ]
    for (window, batch), systems in found.items():
        row = [f"{window:,}", f"{batch:,}"]
        for name in _SPARKS:
            floor, ticks = statistics.median(systems[name]["floors"]), systems[name]["ticks"]
            middle = statistics.median(ticks)
            row += [f"{floor:.0f}", f"{middle:.0f}", f"{middle / floor:.1f}", f"{p95(ticks):.0f}", _tau(ticks)]
        own = systems[NATIVE]["ticks"]
        row += [f"{statistics.median(own):.1f}", f"{p95(own):.1f}", _tau(own)]
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _six(cells: list[Cell]) -> list[str]:
    found = _by_size(cells, "six")
    if not found:
        return []
    lines = [
        "## Two windows, six operations: one job",
        "",
        "Two appends, two probes and two finds, with the expiries of both windows.",
        "",
        "| window | batch | local: floor | median | x floor | standalone: floor | median | x floor | native: median |",
        f"|{'---:|' * 9}",
    ]
    for (window, batch), systems in found.items():
        row = [f"{window:,}", f"{batch:,}"]
        for name in _SPARKS:
            floor, middle = (statistics.median(systems[name][what]) for what in ("floors", "ticks"))
            row += [f"{floor:.0f}", f"{middle:.0f}", f"{middle / floor:.1f}"]
        row.append(f"{statistics.median(systems[NATIVE]['ticks']):.1f}")
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _streaming(streamed: list[Cell], cells: list[Cell]) -> list[str]:
    if not streamed:
        return []
    ours = _by_size(cells, "three")
    lines = [
        "## Beside Structured Streaming's own join",
        "",
        "The same ticks as a stream-stream join with state in the heap, local[2], one micro-batch each. It gives the",
        "same number of rows. The two ran one after the other: on a busy machine their ratio is rough.",
        "",
        "| window | batch | micro-batch: median | max | our tick, local: median | times faster |",
        f"|{'---:|' * 6}",
    ]
    for cell in streamed:
        middle = statistics.median(cell["ms"])
        own = ours.get((cell["window"], cell["batch"]))
        beside = statistics.median(own[LOCAL]["ticks"]) if own else None
        last = ["", ""] if beside is None else [f"{beside:.0f}", f"{middle / beside:.0f}"]
        row = [f"{cell['window']:,}", f"{cell['batch']:,}", f"{middle:,.0f}", f"{max(cell['ms']):,.0f}", *last]
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _long(part: dict[str, Any] | None) -> list[str]:
    if part is None:
        return []
    figures = part["figures"]
    lines = [
        f"## {len(figures['ticks']):,} ticks in a row",
        "",
        f"Spark local[2], a window of {figures['window']:,} rows, batches of {figures['batch']:,}; each line is about",
        f"the {figures['span']} ticks before. Heap: what is used after a full collection, which this run asks for",
        "every 5 s, by the JVM's own log. Resident: by Linux.",
        "",
        "| tick | median | x floor | p99 | heap MB | JVM resident MB | Python workers resident MB |",
        f"|{'---:|' * 7}",
    ]
    memory = {taken["tick"]: taken for taken in figures["memory"]}
    for mark in figures["marks"]:
        ticks, floors = (figures[what][max(0, mark - figures["span"]) : mark] for what in ("ticks", "floors"))
        middle, taken = statistics.median(ticks), memory[mark]
        worst = sorted(ticks)[int(0.99 * (len(ticks) - 1))]
        row = [f"{mark:,}", f"{middle:.1f}", f"{middle / statistics.median(floors):.2f}", f"{worst:.0f}"]
        row += [f"{taken['heap']}", f"{taken['jvm']:.0f}", f"{taken['workers']:.0f}"]
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _by_size(cells: list[Cell], tick: str) -> dict[tuple[int, int], dict[str, Cell]]:
    found: dict[tuple[int, int], dict[str, Cell]] = {}
    for cell in cells:
        if cell["tick"] == tick:
            found.setdefault((cell["window"], cell["batch"]), {})[cell["system"]] = cell
    return found


def _tau(values: Sequence[float]) -> str:
    tau = tau_ms(values)
    return "-" if tau is None else f"{tau:,}"


def _write_csv(path: Path, cells: list[Cell], streamed: list[Cell]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["system", "tick", "window", "batch", "ticks", "median_ms", "p95_ms", "floor_ms", "tau_ms"])
        for cell in cells:
            ticks, floors = cell["ticks"], cell["floors"]
            sizes = [cell["system"], cell["tick"], cell["window"], cell["batch"], len(ticks)]
            floor = f"{statistics.median(floors):.2f}" if floors else ""
            times = [f"{statistics.median(ticks):.2f}", f"{p95(ticks):.2f}", floor]
            writer.writerow([*sizes, *times, tau_ms(ticks) or ""])
        for cell in streamed:
            times = [f"{statistics.median(cell['ms']):.2f}", f"{p95(cell['ms']):.2f}", ""]
            sizes = ["Structured Streaming", "three", cell["window"], cell["batch"], len(cell["ms"])]
            writer.writerow([*sizes, *times, tau_ms(cell["ms"]) or ""])
