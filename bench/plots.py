"""The plots of the benchmarks; the only module that needs matplotlib."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from bench.bytes import Measured
from bench.halves import Cost
from planner.model import Algorithm

MARKS = dict(zip(Algorithm, "sov^Dx", strict=True))

mpl.use("Agg")
# Ids in the file follow from this and not from chance: the same figures give the same file.
mpl.rcParams.update({"svg.hashsalt": "narrows", "font.size": 8})


def plot_bytes(items: Sequence[Measured], path: Path) -> None:
    """Relative bytes over the match rate, a panel for each width and number of keys."""
    widths = sorted({item.cell.width for item in items})
    distincts = sorted({item.cell.keys.distinct for item in items})
    figure, axes = plt.subplots(len(distincts), len(widths), figsize=(13, 9), sharex=True, sharey=True, squeeze=False)
    for (row, distinct), (column, width) in itertools.product(enumerate(distincts), enumerate(widths)):
        panel = axes[row][column]
        cells = [item for item in items if (item.cell.width, item.cell.keys.distinct) == (width, distinct)]
        rates = [100 * item.rate for item in cells]
        for name, mark in MARKS.items():
            values = [item.relative(name) for item in cells]
            panel.plot(rates, values, marker=mark, markersize=4, linewidth=1, label=str(name))
        panel.plot(rates, [item.bound for item in cells], "k--", linewidth=1, label="lower bound")
        panel.set(xscale="log", yscale="log", title=f"{width} B, {distinct:,} keys")
        panel.grid(visible=True, which="both", linewidth=0.2)
    for panel in axes[-1]:
        panel.set_xlabel("tuples in some result, %")
    for panel in axes[:, 0]:
        panel.set_ylabel("wire bytes, SP-D = 1")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot_halves(costs: Sequence[Cost], path: Path) -> None:
    """Processor time of a tick over the window, a panel for each site and part."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), sharex=True, sharey=True)
    for panel, site in zip(axes, ("source", "destination"), strict=True):
        for name, mark in MARKS.items():
            own = sorted((cost for cost in costs if cost.algorithm == name), key=lambda cost: cost.window)
            windows = [cost.window for cost in own]
            panel.plot(windows, [cost.site_ms(site) for cost in own], marker=mark, markersize=4, label=str(name))
        panel.set(xscale="log", yscale="log", title=site, xlabel="tuples in the window")
        panel.grid(visible=True, which="both", linewidth=0.2)
    axes[0].set_ylabel("processor time, ms a tick of 1,000 tuples")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
