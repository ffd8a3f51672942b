"""Bytes and latency over event time, a row of panels for each case; needs matplotlib."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt

from bench.adaptive.cases import Case
from bench.adaptive.runs import Ran
from bench.plot_style import finish

_LINES = {"static": ":", "adaptive": "-", "clairvoyant": "--"}


def plot_adaptive(found: Sequence[tuple[Case, Mapping[str, Ran]]], path: Path) -> None:
    """What each variant sends, and the p99 latency of its rows, epoch by epoch."""
    figure, axes = plt.subplots(2, len(found), figsize=(3.6 * len(found), 5.2), squeeze=False)
    for column, (case, runs) in enumerate(found):
        sent, late = axes[0][column], axes[1][column]
        steps = round(case.length_s / case.epoch_s)
        edges = [number * case.epoch_s for number in range(steps + 1)]
        epochs = list(itertools.pairwise(edges))
        middles = [(first + last) / 2 for first, last in epochs]
        for name, ran in runs.items():
            rates = [ran.sent(first, last) / case.epoch_s / 1000 for first, last in epochs]
            p99 = [ran.latency_ms(first, last, 0.99) for first, last in epochs]
            sent.plot(middles, rates, _LINES[name], linewidth=1.2, label=name)
            late.plot(middles, p99, _LINES[name], linewidth=1.2, label=name)
        for panel in (sent, late):
            panel.set_xlim(0, case.length_s)
            panel.grid(visible=True)
            for shift_s in case.shifts_s:
                panel.axvline(shift_s, color="0.6", linewidth=0.8)
        sent.set(title=case.name, ylim=(0, None))
        late.set(xlabel="event time, s", yscale="log")
    axes[0][0].set_ylabel("kB per second of event time")
    axes[1][0].set_ylabel("p99 from batch to stored rows, ms")
    finish(figure, axes[0][0], path, len(_LINES))
