"""What a restart costs: windows of a million rows, kill -9 of a site that has one, and the time to the first new row.

``python -m bench.restart`` starts three sites, native. Streams at ash and bow come with 1,000 tuples a second in ticks
of 100 ms; the query's home is cam. Windows are filled at many times that speed; then all daemons are started again at
speed 1, as in real life. Then ash is killed again and again and started with the same command. Measured from the start
of its process, by asking it and the home all the time: when it serves, when its links are up, when the query runs
again, when home has stored the first new row, and when it has caught up. Medians go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.commit import commit
from demo.ports import free_ports
from node.client import Client
from node.core.streams.ticks import TICK_END
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError

KILLED, OTHER, HOME = SITES = ("ash", "bow", "cam")
TAU_MS = 100
PER_S = 1_000
#: A row finds a tenth of a partner in a window of a million.
KEYS = 10_000_000
START_MS = 1_760_000_000_000
PAD_BYTES = 40
LOAD_SPEED = 25
PATIENCE_S = 600.0
POLL_S = 0.02
CALM_S = 4.0
ALGORITHMS = ("SP-S", "SP-D", "SM-S1")
RESULTS = Path(__file__).parent / "results" / "restart.md"
NARROWS = (sys.executable, "-m", "cli.main")
#: In the order in which they happen.
PHASES = ("listens", "serves", "links up", "query runs", "first new row", "caught up")


@dataclass(frozen=True)
class Wanted:
    """What to run."""

    rows: int
    runs: int
    keys: int = KEYS


class Cluster:
    """Three daemons."""

    def __init__(self, folder: Path, wanted: Wanted, retain: str = "") -> None:
        """``retain``: how much of their past its streams keep for queries that come later."""
        self.folder = folder
        self._ports = dict(zip(SITES, free_ports(len(SITES)), strict=True))
        self.config = folder / "cluster.toml"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.clients = {site: Client(site, f"127.0.0.1:{port}") for site, port in self._ports.items()}
        lines = ['cluster = "restart"', f'tau = "{TAU_MS}ms"', 'engine = "native"']
        for number, site in enumerate(SITES):
            lines += ["", f"[site.{site}]", f'listen = "127.0.0.1:{self._ports[site]}"']
            if site != HOME:
                _write_stream(folder / f"{site}.parquet", wanted, number)
                lines += ["", f"[site.{site}.stream.s_{site}]", f'path = "{site}.parquet"', 'ts = "ts"', 'unit = "ms"']
                lines += [f'retain = "{retain}"'] if retain else []
        self.config.write_text("\n".join(lines) + "\n")

    def start(self, site: str, speed: float) -> float:
        """When its process was started."""
        command = [*NARROWS, "node", "--config", str(self.config), "--site", site, "--speed", str(speed)]
        began_s = time.monotonic()
        with (self.folder / f"{site}.err").open("ab") as err:
            self._processes[site] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        return began_s

    def end(self, site: str, number: signal.Signals) -> None:
        self._processes[site].send_signal(number)
        self._processes[site].wait(60)

    def close(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def status(self, site: str) -> pb.StatusReply | None:
        try:
            return self.clients[site].status()
        except NarrowsError:
            return None

    def linked(self) -> bool:
        statuses = [self.status(site) for site in SITES]
        return all(status is not None and all(link.state == "up" for link in status.links) for status in statuses)

    def query(self) -> pb.QueryBrief | None:
        """The one query, as its home has it."""
        status = self.status(HOME)
        return next(iter(status.queries), None) if status is not None else None

    def frontier(self, site: str) -> int:
        status = self.status(site)
        return status.streams[0].frontier if status is not None else 0


def _write_stream(path: Path, wanted: Wanted, seed: int) -> None:
    """Its window, and what comes while it is measured."""
    rows = wanted.rows + PER_S * (600 + 60 * wanted.runs)
    random = np.random.default_rng(seed)
    ts = START_MS + np.arange(rows) * 1_000 // PER_S
    pad = pa.array([f"{number:0{PAD_BYTES}d}" for number in range(rows)])
    keys = random.integers(0, wanted.keys, rows)
    pq.write_table(pa.table({"seq": np.arange(rows), "ts": ts, "k": keys, "pad": pad}), path)


def until(what: str, ask: Callable[[], object]) -> float:
    """When it was so."""
    deadline = time.monotonic() + PATIENCE_S
    while not ask():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(POLL_S)
    return time.monotonic()


def _listens(client: Client) -> bool:
    try:
        client.readiness()
    except NarrowsError:
        return False
    return True


def measure(wanted: Wanted, algorithm: str, say: Callable[[str], None]) -> list[dict[str, float]]:
    """For each run, by phase, the seconds since the start of the process."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = Cluster(Path(folder), wanted)
        stack.callback(cluster.close)
        _load(cluster, wanted, algorithm, say)
        return [_restart(cluster, algorithm, say) for _ in range(wanted.runs)]


def _load(cluster: Cluster, wanted: Wanted, algorithm: str, say: Callable[[str], None]) -> None:
    for site in SITES:
        cluster.start(site, LOAD_SPEED)
    until("the sites have their links", cluster.linked)
    window = f"[RANGE {wanted.rows // PER_S} SECONDS]"
    text = (
        f"SELECT a.seq AS a, b.seq AS b, a.pad AS pa, b.pad AS pb FROM s_{KILLED} {window} AS a "
        f"JOIN s_{OTHER} {window} AS b ON a.k = b.k"
    )
    words = ["query", "--config", str(cluster.config), "--at", HOME, "--detach", "--algorithm", algorithm, text]
    subprocess.run([*NARROWS, *words], check=True, capture_output=True)
    full_tick = START_MS // TAU_MS + wanted.rows // PER_S * 1_000 // TAU_MS

    def full() -> bool:
        query = cluster.query()
        return query is not None and query.done_tick >= full_tick

    until("the windows are full", full)
    for site in SITES:
        cluster.end(site, signal.SIGTERM)
    for site in SITES:
        cluster.start(site, 1)
    until("the query runs again", lambda: (query := cluster.query()) is not None and query.state == "running")
    rows = cluster.clients[HOME].queries()[0].rows
    until("rows come again", lambda: (query := cluster.query()) is not None and query.rows > rows)
    say(f"{algorithm}: the windows are full, with {rows:,} rows stored")


def _restart(cluster: Cluster, algorithm: str, say: Callable[[str], None]) -> dict[str, float]:
    until("it keeps up", lambda: _keeps_up(cluster))
    time.sleep(CALM_S)
    cluster.end(KILLED, signal.SIGKILL)
    # What was under way elsewhere comes to its end.
    time.sleep(1)
    before = cluster.query()
    assert before is not None
    began_s = cluster.start(KILLED, 1)
    at: dict[str, float] = {"listens": until("it listens", lambda: _listens(cluster.clients[KILLED])) - began_s}
    seen = _phases(cluster, before)

    def all_seen() -> bool:
        for phase in seen():
            at.setdefault(phase, time.monotonic() - began_s)
        return len(at) == len(PHASES)

    until("it has caught up", all_seen)
    say(f"{algorithm}: " + ", ".join(f"{phase} {at[phase]:.2f} s" for phase in PHASES))
    return at


def _phases(cluster: Cluster, before: pb.QueryBrief) -> Callable[[], Iterator[str]]:
    """Those that are reached."""

    def seen() -> Iterator[str]:
        killed, query = cluster.status(KILLED), cluster.query()
        if killed is None or query is None:
            return
        yield "serves"
        if all(link.state == "up" for link in killed.links):
            yield "links up"
            if query.state == "running":
                yield "query runs"
        if query.rows > before.rows:
            yield "query runs"
            yield "first new row"
            if _keeps_up(cluster):
                yield "caught up"

    return seen


def _keeps_up(cluster: Cluster) -> bool:
    """Whether all that came until a second ago is done. The stream that was not killed is ahead."""
    query, frontier = cluster.query(), min(cluster.frontier(KILLED), cluster.frontier(OTHER))
    return query is not None and query.state == "running" and frontier - 1_000 // TAU_MS <= query.done_tick < TICK_END


def report(wanted: Wanted, results: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """As Markdown."""
    lines = [
        "# What a restart costs, written by make bench-restart",
        "",
        f"Commit {commit()}, Python {platform.python_version()}, {os.cpu_count()} cores, engine native.",
        f"Windows of {wanted.rows:,} rows at two sites, {PER_S:,} tuples a second each, ticks of {TAU_MS} ms.",
        "One of the two is killed with -9 and started again with the same command. Seconds from the start of its",
        f"process, medians of {wanted.runs} (longest).",
        "",
        f"| algorithm | {' | '.join(PHASES)} |",
        f"|---|{'---:|' * len(PHASES)}",
    ]
    for algorithm, runs in results.items():
        cells = [
            f"{statistics.median(times):.2f} ({max(times):.2f})"
            for times in ([run[phase] for run in runs] for phase in PHASES)
        ]
        lines.append(f"| {algorithm} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run it, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.restart", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each window (default: 1,000,000)")
    parser.add_argument("--runs", type=int, default=5, help="restarts by each algorithm (default: 5)")
    parser.add_argument("--algorithm", action="append", help=f"one of several (default: {' '.join(ALGORITHMS)})")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    wanted = Wanted(options.rows, options.runs)
    algorithms = options.algorithm or ALGORITHMS
    results = {each: measure(wanted, each, lambda text: print(text, flush=True)) for each in algorithms}
    options.out.write_text(report(wanted, results))
    print(options.out.read_text())


if __name__ == "__main__":
    main()
