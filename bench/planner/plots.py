"""The plots of ``bench.planner``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

from bench.plot_style import finish, plain

if TYPE_CHECKING:
    from bench.planner.__main__ import Timed


def plot_ratios(ratios: Mapping[str, Sequence[float]], path: Path) -> None:
    """Fig. 8: how often greedy costs how much more, a panel for each topology."""
    largest = max(max(values) for values in ratios.values())
    edges = [0.95 + 0.1 * step for step in range(round((largest - 0.95) / 0.1) + 2)]
    figure, axes = plt.subplots(1, len(ratios), figsize=(12, 3), sharex=True, sharey=True)
    for panel, (topology, values) in zip(axes, ratios.items(), strict=True):
        panel.hist(values, bins=edges, edgecolor="white")
        panel.set(title=topology, xlabel="cost of greedy / exhaustive")
    axes[0].set_ylabel("queries")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot_times(times: Sequence[Timed], path: Path) -> None:
    """Time to plan over the number of streams, a panel for each model and topology."""
    panels = list(dict.fromkeys((item.model, item.topology) for item in times))
    searches = list(dict.fromkeys(item.search for item in times))
    figure, axes = plt.subplots(1, len(panels), figsize=(12, 3.8), sharex=True, sharey=True)
    for panel, (model, topology) in zip(axes, panels, strict=True):
        for search, mark in zip(searches, "osv", strict=False):
            own = [item for item in times if (item.model, item.topology, item.search) == (model, topology, search)]
            panel.plot(
                [item.streams for item in own], [item.seconds for item in own], marker=mark, markersize=4, label=search
            )
        panel.set(yscale="log", title=f"{model} cost, {topology}", xlabel="streams")
        panel.grid(visible=True)
    plain(axes[0].yaxis)
    axes[0].set_ylabel("processor time, s")
    finish(figure, axes[0], path, len(searches))
