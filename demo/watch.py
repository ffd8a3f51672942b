"""Runs a ``narrows query`` command beside the demo and shows how far the cluster is with it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from cli.client import DaemonUnreachableError
from cli.cluster import LocalCluster
from cli.tables import size_text
from demo.live import COLUMNS_MAX, LiveLine, bar
from planner.errors import NarrowsError

POLL_S = 0.05
STOP_S_MAX = 5.0


class QueryFailedError(NarrowsError):
    """The query command ended with an error."""


def watch(arguments: list[str], log: Path, cluster: LocalCluster, home: str, tuples: Mapping[str, int]) -> float:
    """Run ``narrows`` with ``arguments`` to its end, passing on what it says; returns the seconds it took.

    ``tuples`` says how many each stream of the query has. Raises NarrowsError if the query or a daemon fails.
    """
    began = time.monotonic()
    line = LiveLine()
    with log.open("w") as out, log.open() as said, _started(arguments, out) as query:
        while query.poll() is None:
            _pass_on(said, line)
            if line.due:
                line.show(f"{time.monotonic() - began:3.0f} s {_progress(cluster, home, tuples)}")
            time.sleep(POLL_S)
        _pass_on(said, line)
    line.clear()
    cluster.check()
    if query.returncode:
        raise QueryFailedError(f"narrows query ended with exit code {query.returncode}")
    return time.monotonic() - began


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


def _pass_on(said: TextIO, line: LiveLine) -> None:
    """Print what the command has said since the last call."""
    text = said.read()
    if text:
        line.clear()
        for part in text.splitlines():
            print(textwrap.fill(part, COLUMNS_MAX, initial_indent="  | ", subsequent_indent="  |   "), flush=True)


def _progress(cluster: LocalCluster, home: str, tuples: Mapping[str, int]) -> str:
    """Tuples read, rows delivered and bytes sent so far, as one line."""
    cluster.check()
    try:
        statuses = [client.status() for client in cluster.clients.values()]
        rows = sum(query.rows for query in cluster.clients[home].queries())
    except DaemonUnreachableError:
        cluster.check()
        raise
    read = {stream.name: stream.rows for status in statuses for stream in status.streams if stream.name in tuples}
    sent = sum(sum(link.sent_bytes.values()) for status in statuses for link in status.links)
    share = sum(read.values()) / max(1, sum(tuples.values()))
    counts = "  ".join(f"{name} {count:,}" for name, count in read.items())
    return f"{bar(share, 6)}  {counts}  rows {rows:,}  sent {size_text(sent)}"
