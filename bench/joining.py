"""What it takes to join streams that run: the time to the first complete row, and the bytes that are sent for it.

``python -m bench.joining`` starts three sites, native, whose streams at ash and bow come with 1,000 tuples a second in
ticks of 100 ms, at speed 1; the home is cam. One query runs until its windows are full. Then the same is issued again
and again, each time in one of these ways:

- ``at once``: it asks for nothing, and nothing is retained: its windows have what the first one's need;
- ``now``: it begins with what comes now (``--from now``), so its windows are empty;
- ``log``: it asks to begin a window ago (``--from``); the logs of recordings have that;
- ``retain``: it asks for nothing, and the streams retain a window and five seconds for queries that come later.

``cold`` is beside them: nobody reads the streams before it. It takes a window, and is done once.

A row is **complete** if its windows are full: its newest tuple is from where home says so of a query that asks for
nothing, else a whole window behind the first tuple that the query sees. Measured from the call that issues the query,
by asking its home all the time. Bytes are all that sites sent for the query until then, and what a second of it costs
when it has joined. A copy that is shared is counted for the query that has used it for longest.

Windows are of 10 s unless more is asked for, so that all of it takes ten minutes: what is empty at first fills in that
time, and what is sent for a window grows with it, so both are to be read as multiples of a window. In any window a
tuple finds a tenth of a partner.
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
from functools import partial
from pathlib import Path

from bench.commit import commit
from bench.restart import HOME, KILLED, OTHER, PER_S, SITES, START_MS, TAU_MS, Cluster, Wanted, until
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.rpc import control_pb2 as pb

WAYS = ("cold", "now", "log", "retain", "at once")
#: Those that one cluster does one after the other, and what its streams retain: nothing, all that they had, or so much.
TOGETHER = ((("at once", "now"), "0ms"), (("log",), ""), (("retain",), "{}s"))
ALGORITHMS = ("SP-S", "SP-D", "SM-S1", "SM-D1")
#: How long what a second costs is measured.
STEADY_S = 3.0
#: How much more than a window is retained.
RETAIN_MORE_S = 5
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

    def whole_from(self, window_s: int) -> int | None:
        """The windows of a head are full from this tick on; None while that is not known."""
        said = self.info.complete_from
        if not said.HasField("first_tick"):
            return None
        if said.first_tick > TICK_MIN and not said.asked:
            return said.from_ms // TAU_MS
        # One that is first begins where the recordings do.
        return max(said.first_tick, START_MS // TAU_MS) + 1_000 * window_s // TAU_MS


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
        whole_from = figures.whole_from(window_s)
        if whole_from is None:
            return False
        if not whole_from < figures.done_tick < TICK_END:
            rows_before = figures.info.rows
            return False
        return figures.info.rows > rows_before

    return is_so


def measure(
    ways: Sequence[str], algorithm: str, window_s: int, runs: int, say: Callable[[str], None]
) -> dict[str, list[Joined]]:
    """By way, queries that join one after the other."""
    found: dict[str, list[Joined]] = {}
    if "cold" in ways:
        found |= _with_cluster(("cold",), "0ms", algorithm, window_s, 1, say)
    for together, retain in TOGETHER:
        if wanted := [way for way in together if way in ways]:
            found |= _with_cluster(wanted, retain.format(window_s + RETAIN_MORE_S), algorithm, window_s, runs, say)
    return {way: found[way] for way in ways}


def _with_cluster(
    ways: Sequence[str], retain: str, algorithm: str, window_s: int, runs: int, say: Callable[[str], None]
) -> dict[str, list[Joined]]:
    found: dict[str, list[Joined]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        rows = window_s * PER_S
        wanted = Wanted(rows, runs * len(ways) * (1 + window_s // 30), 10 * rows)
        cluster = Cluster(Path(folder), wanted, retain)
        stack.callback(cluster.close)
        for site in SITES:
            cluster.start(site, 1)
        until("the sites have their links", cluster.linked)
        if "cold" not in ways:
            first = cluster.clients[HOME].install(pb.IssueRequest(text=_text(window_s), algorithm=algorithm))
            until("the windows are full", _is_complete(cluster, first.query_id, window_s))
        for way in ways:
            for _ in range(runs):
                joined = join(cluster, way, algorithm, window_s)
                say(f"{algorithm}, {way}: {joined}")
                found[way].append(joined)
    return found


def report(window_s: int, runs: int, results: Mapping[tuple[str, str], Sequence[Joined]]) -> str:
    """As Markdown."""
    lines = [
        "# What it takes to join streams that run, written by make bench-joining",
        "",
        f"Commit {commit()}, Python {platform.python_version()}, {os.cpu_count()} cores, engine native.",
        f"Windows of {window_s} s at two sites, {PER_S:,} tuples a second each, ticks of {TAU_MS} ms, home at a third.",
        f"Seconds from issuing the query, and bytes that sites send for it; medians of {runs} (longest), cold of one.",
        "",
        "| algorithm | way | query runs | first complete row | bytes until then | bytes a second from then on |",
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
    parser.add_argument("--window", type=int, default=10, help="seconds (default: 10)")
    parser.add_argument("--runs", type=int, default=3, help="of each way by each algorithm (default: 3)")
    parser.add_argument("--algorithm", action="append", help=f"one of several (default: {' '.join(ALGORITHMS)})")
    parser.add_argument("--way", action="append", choices=WAYS, help=f"one of several (default: {' '.join(WAYS)})")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    results: dict[tuple[str, str], list[Joined]] = {}
    for algorithm in options.algorithm or ALGORITHMS:
        say = partial(print, flush=True)
        joined = measure(options.way or WAYS, algorithm, options.window, options.runs, say)
        results |= {(algorithm, way): found for way, found in joined.items()}
    options.out.write_text(report(options.window, options.runs, results))
    print(options.out.read_text())


if __name__ == "__main__":
    main()
