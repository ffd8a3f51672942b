"""The plot of ``bench.spark``."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from bench.plot_style import finish, plain
from bench.spark.engines import LOCAL, NATIVE, STANDALONE

MARKS = {LOCAL: "s", STANDALONE: "o", NATIVE: "x"}


def plot_spark(cells: list[dict[str, Any]], streamed: list[dict[str, Any]], path: Path) -> None:
    """Median time of a tick over the window, a panel for each batch."""
    own = [cell for cell in cells if cell["tick"] == "three"]
    batches = sorted({cell["batch"] for cell in own}) or [0]
    figure, axes = plt.subplots(1, len(batches), figsize=(13, 4), sharex=True, sharey=True, squeeze=False)
    for panel, batch in zip(axes[0], batches, strict=True):
        for name, mark in MARKS.items():
            mine = sorted((c for c in own if (c["system"], c["batch"]) == (name, batch)), key=lambda c: c["window"])
            windows = [cell["window"] for cell in mine]
            panel.plot(windows, [statistics.median(c["ticks"]) for c in mine], marker=mark, markersize=4, label=name)
            if name == LOCAL:
                floors = [statistics.median(cell["floors"]) for cell in mine]
                panel.plot(windows, floors, "k--", linewidth=1, label="empty Spark job")
        theirs = sorted((cell for cell in streamed if cell["batch"] == batch), key=lambda cell: cell["window"])
        times = [statistics.median(cell["ms"]) for cell in theirs]
        panel.plot([c["window"] for c in theirs], times, "r^-", markersize=4, label="Structured Streaming")
        panel.set(xscale="log", yscale="log", title=f"batches of {batch:,}", xlabel="rows in the window")
        panel.grid(visible=True)
    plain(axes[0][0].xaxis)
    plain(axes[0][0].yaxis, (1.0,))
    axes[0][0].set_ylabel("ms a tick, median")
    finish(figure, axes[0][0], path, len(MARKS) + 2)
