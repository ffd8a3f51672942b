"""What the links of the emulated network are like, as a table."""

from __future__ import annotations

import time
from collections.abc import Collection

from rich.console import Console
from rich.table import Table
from rich.text import Text

from netsim.proxies import Way
from netsim.state import Running


def show_network(running: Running, ways: Collection[Way], only: Collection[tuple[str, str]] | None = None) -> None:
    """All links, or those that were changed."""
    shown = [way for way in ways if only is None or (way.source, way.target) in only]
    columns = ["from", "to", "state", "since", "latency", "bandwidth", "bytes*"]
    if not any(way.cut for way in shown):
        columns.remove("since")
    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(
            column, no_wrap=True, justify="left" if column in ("from", "to", "state", "since") else "right"
        )
    now = time.time()
    for way in shown:
        cells = _cells(way, now)
        table.add_row(*(cells[column] for column in columns))
    console = Console(highlight=False)
    console.print(table)
    if only is None:
        server = f"Toxiproxy: process {running.pid}, up since {_clock(running.up_at)} ({_age(now - running.up_at)})"
        console.print(f"* of connections that have ended. {server}", style="dim", soft_wrap=True)


def _cells(way: Way, now: float) -> dict[str, Text | str]:
    shape = way.shape
    return {
        "from": way.source,
        "to": way.target,
        "state": Text("refused" if way.refused else "cut", "red") if way.cut else Text("up", "green"),
        "since": "" if way.cut_at is None else f"{_clock(way.cut_at)} ({_age(now - way.cut_at)})",
        "latency": f"{shape.latency_ms}{f' ±{shape.jitter_ms}' if shape.jitter_ms else ''} ms",
        "bandwidth": "unlimited" if shape.bytes_per_s is None else f"{shape.bytes_per_s * 8 / 1000:,.0f} kbit/s",
        "bytes*": f"{way.nbytes:,}",
    }


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _age(seconds: float) -> str:
    """How long that is, as one says it."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
