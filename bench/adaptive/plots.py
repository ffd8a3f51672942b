"""Bytes and latency over event time, a column of panels for each case; needs matplotlib."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

from bench.adaptive.report import ADAPTIVE, CLAIRVOYANT, STATIC, Found, epochs
from bench.plot_style import finish

_LINES = {STATIC: ":", ADAPTIVE: "-", CLAIRVOYANT: "--"}
_LATENCIES = (("p50", 0.5), ("p99", 0.99))


def plot_adaptive(found: Found, path: Path) -> None:
    """What each variant sends, and the median and p99 latency of its rows, epoch by epoch."""
    rows = 1 + len(_LATENCIES)
    figure, axes = plt.subplots(rows, len(found), figsize=(3.6 * len(found), 2.4 * rows), squeeze=False)
    for column, (case, runs) in enumerate(found):
        panels = [axes[row][column] for row in range(rows)]
        spans = epochs(case)
        middles = [(first + last) / 2 for first, last in spans]
        for name, line in _LINES.items():
            style = {"linestyle": line, "linewidth": 1.2, "label": name}
            rates = [runs[name].sent(first, last) / case.epoch_s / 1000 for first, last in spans]
            panels[0].plot(middles, rates, **style)
            for panel, (_, share) in zip(panels[1:], _LATENCIES, strict=True):
                panel.plot(middles, [runs[name].latency_ms(*span, share) for span in spans], **style)
        for panel in panels:
            panel.set_xlim(0, case.length_s)
            panel.grid(visible=True)
            for shift_s in case.shifts_s:
                panel.axvline(shift_s, color="0.6", linewidth=0.8)
            for switch in [each for each in runs[ADAPTIVE].switches if each.made]:
                panel.axvline(switch.live_s, color="C1", linewidth=0.8)
        panels[0].set(title=case.name, ylim=(0, None))
        for panel in panels[1:]:
            panel.set_yscale("log")
        panels[-1].set_xlabel("event time, s; grey: a shift, orange: another plan")
    axes[0][0].set_ylabel("kB a second")
    for row, (name, _) in enumerate(_LATENCIES, 1):
        axes[row][0].set_ylabel(f"{name}, batch to stored rows, ms")
    finish(figure, axes[0][0], path, len(_LINES))
