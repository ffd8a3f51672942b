"""What it takes to join streams that run: the time to the first complete row, and the bytes that are sent for it.

``python -m bench.joining`` starts three sites, native, whose streams at ash and bow come with 1,000 tuples a second in
ticks of 100 ms, at speed 1; the home is cam. One query runs until its windows are full. Then the same is issued again
and again, each time in one of these ways:

- ``now``: it begins with what comes now, so its windows are empty;
- ``log``: it asks to begin a window ago (``--from``); the logs of recordings have that;
- ``retain``: the streams retain a window for queries that come later, and it asks for nothing.

``cold`` is beside them: nobody reads the streams before it.

A row is **complete** if its newest tuple is a whole window behind the first tuple that the query sees: its windows are
full then. Measured from the call that issues the query, by asking its home all the time. Bytes are all that sites sent
for the query until then, and what a second of it costs when it has joined. A copy that is shared is counted for the
query that has used it for longest.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.commit import commit
from bench.restart import HOME, KILLED, OTHER, PER_S, SITES, START_MS, TAU_MS, Cluster, Wanted, until
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.rpc import control_pb2 as pb

WAYS = ("cold", "now", "log", "retain")
ALGORITHMS = ("SP-S", "SP-D", "SM-S1", "SM-D1")
#: How long what a second costs is measured.
STEADY_S = 5.0
RESULTS = Path(__file__).parent / "results" / "joining.md"


@dataclass(frozen=True)
class Joined:
    """One query that joined."""

    running_s: float
    complete_s: float
    nbytes: int
    bytes_per_s: float


@dataclass(frozen=True)
class Figures:
    """What home says of a query."""

    info: pb.QueryInfo
    done_tick: int

    @property
    def first_tick(self) -> int | None:
        """The query sees all tuples from this tick on; None while that is not known."""
        said = self.info.complete_from
        if not said.HasField("first_tick"):
            return None
        # One that is first begins where the recordings do.
        return max(said.first_tick, START_MS // TAU_MS)


def _text(window_s: int) -> str:
    window = f"[RANGE {window_s} SECONDS]"
    return (
        f"SELECT a.seq AS a, b.seq AS b, b.pad AS pad FROM s_{KILLED} {window} AS a "
        f"JOIN s_{OTHER} {window} AS b ON a.k = b.k"
    )


def _look(cluster: Cluster, query_id: str) -> Figures:
    info = cluster.clients[HOME].query(query_id)
    return Figures(info, min((head.done_tick for head in info.heads), default=TICK_MIN))


def _nbytes(cluster: Cluster, query_id: str) -> int:
    """All that was sent for a query, at all sites, but for planning it."""
    flows = [flow for site in SITES for flow in cluster.clients[site].status().traffic if flow.query_id == query_id]
    return round(sum(flow.bytes + flow.framing_bytes for flow in flows))


def _begin(cluster: Cluster, way: str, window_s: int) -> str:
    """What is asked for."""
    if way == "now":
        return "now"
    if way != "log":
        return ""
    ms = max(cluster.frontier(KILLED), cluster.frontier(OTHER)) * TAU_MS - 1_000 * window_s
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def join(cluster: Cluster, way: str, algorithm: str, window_s: int) -> Joined:
    """Issue a query, wait until its rows are complete, see what it costs from then on, and drop it."""
    request = pb.IssueRequest(text=_text(window_s), algorithm=algorithm, begin=_begin(cluster, way, window_s))
    began_s = time.monotonic()
    query_id = cluster.clients[HOME].install(request).query_id
    running_s = until("the query runs", lambda: _look(cluster, query_id).info.state == "running") - began_s
    complete_s = until("its rows are complete", _is_complete(cluster, query_id, window_s)) - began_s
    nbytes, at_s = _nbytes(cluster, query_id), time.monotonic()
    time.sleep(STEADY_S)
    bytes_per_s = (_nbytes(cluster, query_id) - nbytes) / (time.monotonic() - at_s)
    cluster.clients[HOME].drop(query_id)
    return Joined(running_s, complete_s, nbytes, bytes_per_s)


def _is_complete(cluster: Cluster, query_id: str, window_s: int) -> Callable[[], bool]:
    """Whether home has a row of a tick from which on the windows are full."""
    rows_before = 0

    def is_so() -> bool:
        nonlocal rows_before
        figures = _look(cluster, query_id)
        if figures.first_tick is None:
            return False
        if not figures.first_tick + 1_000 * window_s // TAU_MS < figures.done_tick < TICK_END:
            rows_before = figures.info.rows
            return False
        return figures.info.rows > rows_before

    return is_so


def measure(way: str, algorithm: str, window_s: int, runs: int, say: Callable[[str], None]) -> list[Joined]:
    """Several queries that join one after the other; of the cold ones each has daemons of its own."""
    if way == "cold":
        return [_with_cluster(way, algorithm, window_s, 1, say)[0] for _ in range(runs)]
    return _with_cluster(way, algorithm, window_s, runs, say)


def _with_cluster(way: str, algorithm: str, window_s: int, runs: int, say: Callable[[str], None]) -> list[Joined]:
    found = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        retain = f"{window_s + 5}s" if way == "retain" else ""
        cluster = Cluster(Path(folder), Wanted(window_s * PER_S, runs + window_s // 30), retain)
        stack.callback(cluster.close)
        for site in SITES:
            cluster.start(site, 1)
        until("the sites have their links", cluster.linked)
        if way != "cold":
            first = cluster.clients[HOME].install(pb.IssueRequest(text=_text(window_s), algorithm=algorithm))
            until("the windows are full", _is_complete(cluster, first.query_id, window_s))
        for _ in range(runs):
            joined = join(cluster, way, algorithm, window_s)
            say(f"{algorithm}, {way}: {joined}")
            found.append(joined)
    return found


def report(window_s: int, runs: int, results: Mapping[tuple[str, str], Sequence[Joined]]) -> str:
    """As Markdown."""
    lines = [
        "# What it takes to join streams that run, written by make bench-joining",
        "",
        f"Commit {commit()}, Python {platform.python_version()}, {os.cpu_count()} cores, engine native.",
        f"Windows of {window_s} s at two sites, {PER_S:,} tuples a second each, ticks of {TAU_MS} ms, home at a third.",
        f"Seconds from issuing the query, and bytes that sites send for it; medians of {runs} (longest).",
        "",
        "| algorithm | way | runs | first complete row | bytes until then | bytes a second from then on |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (algorithm, way), joined in results.items():
        cells = [
            f"{statistics.median(times):.2f} ({max(times):.2f})"
            for times in ([one.running_s for one in joined], [one.complete_s for one in joined])
        ]
        cells += [
            f"{statistics.median(sizes):,.0f}"
            for sizes in ([one.nbytes for one in joined], [one.bytes_per_s for one in joined])
        ]
        lines.append(f"| {algorithm} | {way} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run it, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.joining", description=__doc__)
    parser.add_argument("--window", type=int, default=60, help="seconds (default: 60)")
    parser.add_argument("--runs", type=int, default=5, help="of each way by each algorithm (default: 5)")
    parser.add_argument("--algorithm", action="append", help=f"one of several (default: {' '.join(ALGORITHMS)})")
    parser.add_argument("--way", action="append", choices=WAYS, help=f"one of several (default: {' '.join(WAYS)})")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = {
        (algorithm, way): measure(way, algorithm, options.window, options.runs, lambda text: print(text, flush=True))
        for algorithm in options.algorithm or ALGORITHMS
        for way in options.way or WAYS
    }
    options.out.write_text(report(options.window, options.runs, results))
    print(options.out.read_text())


if __name__ == "__main__":
    main()
