"""How all plots look: plain numbers on the axes, one legend for all panels, the same file for the same figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

mpl.use("Agg")
# Ids in the file follow from this and not from chance: the same figures give the same file. Text stays text.
mpl.rcParams.update(
    {
        "svg.hashsalt": "narrows",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10,
        "grid.linewidth": 0.3,
        "xtick.minor.size": 0,
        "ytick.minor.size": 0,
    }
)


def plain(axis: Any, subs: Sequence[float] = (1.0,)) -> None:
    """Numbers as people write them on a logarithmic axis, at these multiples of powers of ten."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    axis.set_minor_formatter(NullFormatter())


def at(axis: Any, values: Sequence[float]) -> None:
    """Ticks at the values that were measured, and nowhere else."""
    axis.set_ticks(list(values), [_number(value) for value in values])
    axis.set_minor_formatter(NullFormatter())


def finish(figure: Any, panel: Any, path: Path, columns: int) -> None:
    """The legend of one panel below all of them, and the file."""
    handles, labels = panel.get_legend_handles_labels()
    inches = 0.32
    figure.tight_layout(rect=(0, inches / figure.get_figheight(), 1, 1))
    figure.legend(handles, labels, loc="lower center", ncols=columns, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _number(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
