"""The plots of ``bench.bytes`` and ``bench.halves``; like all modules that plot, it needs matplotlib."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt

from bench.bytes import Measured
from bench.halves import Cost
from bench.plot_style import at, finish, plain
from planner.algorithms.descriptions import PLAIN, Algorithm

MARKS = dict(zip(Algorithm, "sov^DxP*<>", strict=False))


def plot_bytes(items: Sequence[Measured], path: Path) -> None:
    """Relative bytes over the match rate, a panel for each width and number of keys."""
    widths = sorted({item.cell.width for item in items})
    distincts = sorted({item.cell.keys.distinct for item in items})
    rates_wanted = sorted({100 * item.cell.keys.rate for item in items})
    figure, axes = plt.subplots(len(distincts), len(widths), figsize=(12, 9), sharex=True, sharey=True, squeeze=False)
    for (row, distinct), (column, width) in itertools.product(enumerate(distincts), enumerate(widths)):
        panel = axes[row][column]
        cells = [item for item in items if (item.cell.width, item.cell.keys.distinct) == (width, distinct)]
        rates = [100 * item.rate for item in cells]
        for name, mark in MARKS.items():
            values = [item.relative(name) for item in cells]
            # SP-S and SP-D send the same: dashes let the one below be seen.
            dashes = (0, (4, 4)) if name is PLAIN else "solid"
            panel.plot(rates, values, marker=mark, markersize=4, linewidth=1.2, linestyle=dashes, label=str(name))
        panel.plot(rates, [item.bound for item in cells], "k:", linewidth=1.2, label="lower bound")
        panel.set(xscale="log", yscale="log", title=f"{width:,} bytes, {distinct:,} keys")
        panel.grid(visible=True)
    at(axes[0][0].xaxis, rates_wanted)
    plain(axes[0][0].yaxis, (1.0, 2.0, 5.0))
    for panel in axes[-1]:
        panel.set_xlabel("tuples in some result, %")
    for panel in axes[:, 0]:
        panel.set_ylabel("bytes on the wire, SP-D = 1")
    finish(figure, axes[0][0], path, len(MARKS) + 1)


def plot_halves(costs: Sequence[Cost], path: Path) -> None:
    """Processor time of a tick over the window, a panel for each site."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), sharex=True, sharey=True)
    sites = {"source": "at the carry's site", "destination": "at the stream's site"}
    for panel, (site, title) in zip(axes, sites.items(), strict=True):
        for name, mark in MARKS.items():
            own = sorted((cost for cost in costs if cost.algorithm == name), key=lambda cost: cost.window)
            windows = [cost.window for cost in own]
            panel.plot(windows, [cost.site_ms(site) for cost in own], marker=mark, markersize=4, label=str(name))
        panel.set(xscale="log", yscale="log", title=title, xlabel="tuples in the window")
        panel.grid(visible=True)
    at(axes[0].xaxis, sorted({cost.window for cost in costs}))
    plain(axes[0].yaxis, (1.0, 2.0, 5.0))
    axes[0].set_ylabel("processor time, ms a tick of 1,000 tuples")
    finish(figure, axes[0], path, len(MARKS))
