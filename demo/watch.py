"""Runs a ``narrows query`` command beside the demo and shows what the cluster does meanwhile."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pyarrow as pa
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table

from cli.cluster import LocalCluster
from cli.show.look import Change, look
from cli.show.screen import brief, drawn, in_place
from node.client import Client
from planner.model.errors import NarrowsError

LOOK_EVERY_S = 1.0
POLL_S = 0.05
STOP_S_MAX = 5.0
LOG_COLUMNS = 79
NEWEST_ROWS = 3


class QueryFailedError(NarrowsError):
    """The query command ended with an error."""


@dataclass(frozen=True)
class Watched:
    """What there is to see."""

    cluster: LocalCluster
    #: Of the daemon where the query's rows are collected.
    address: str
    tau_ms: int
    #: Of the newest rows, those that are shown.
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Seen:
    """How it ended."""

    seconds: float
    query_id: str


def watch(console: Console, arguments: list[str], log: Path, watched: Watched) -> Seen:
    """Run ``narrows`` with ``arguments`` to its end, passing on what it says, and show the cluster meanwhile.

    Raises NarrowsError if the query or a daemon fails.
    """
    began = time.monotonic()
    query_id = ""
    with (
        log.open("w") as out,
        log.open() as said,
        _started(arguments, out) as query,
        _screen(console, watched.tau_ms) as show,
    ):
        with Client.at(watched.address) as home:
            first = before = look(watched.cluster.clients)
            newest: list[dict[str, object]] = []
            while query.poll() is None:
                _pass_on(said, console)
                watched.cluster.check()
                if time.monotonic() - before.at_s >= LOOK_EVERY_S:
                    now = look(watched.cluster.clients)
                    query_id = next(iter(now.rows), query_id)
                    newest = _newest(home, query_id, watched.columns) or newest
                    if now.rows:
                        show(f"{now.at_s - first.at_s:3.0f} s", Change(before, now), newest)
                    before = now
                time.sleep(POLL_S)
        _pass_on(said, console)
    watched.cluster.check()
    if query.returncode:
        raise QueryFailedError(f"narrows query ended with exit code {query.returncode}")
    return Seen(time.monotonic() - began, query_id)


Show = Callable[[str, Change, list[dict[str, object]]], None]


@contextmanager
def _screen(console: Console, tau_ms: int) -> Iterator[Show]:
    """In place on a terminal; elsewhere a line for each look."""
    if not in_place(console):
        yield lambda at, change, _: console.print(f"{at}  {brief(change)}", markup=False, soft_wrap=True)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda at, change, rows: live.update(drawn(f"live, {at}", change, tau_ms, "", _rows(rows)), refresh=True)


def _rows(rows: list[dict[str, object]]) -> RenderableType:
    """The newest rows, as many lines as there can be, so that the picture keeps its height."""
    out = Table(box=None, header_style="dim", pad_edge=False, title="newest rows", title_justify="left")
    for name in rows[0] if rows else ():
        out.add_column(name, no_wrap=True, overflow="crop")
    for row in rows:
        out.add_row(*(str(value) for value in row.values()))
    for _ in range(NEWEST_ROWS - len(rows)):
        out.add_row("")
    return out


def _newest(home: Client, query_id: str, columns: tuple[str, ...]) -> list[dict[str, object]]:
    """The newest rows at the query's home. Looking at them changes nothing; there may be none."""
    if not query_id:
        return []
    # The query may end, and its rows be taken, at any moment.
    with suppress(NarrowsError):
        extent = home.extent(query_id)
        first = max(extent.first, extent.end - NEWEST_ROWS)
        if first < extent.end:
            batches = list(home.rows(query_id, extent.run, first, extent.end, columns))
            rows: list[dict[str, object]] = pa.Table.from_batches(batches).select(list(columns)).to_pylist()
            return rows
    return []


@contextmanager
def _started(arguments: list[str], out: TextIO) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a session of its own: Ctrl-C is for us, and we stop it."""
    command = [sys.executable, "-m", "cli.main", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _pass_on(said: TextIO, console: Console) -> None:
    """Print what the command has said since the last call; above the picture, if there is one."""
    for part in said.read().splitlines():
        text = textwrap.fill(part, LOG_COLUMNS, initial_indent="  | ", subsequent_indent="  |   ")
        console.print(text, markup=False, soft_wrap=True)
