"""Throughput of a two-way window join: Narrows and Spark Structured Streaming, side by side in one run.

Both read the same rows from Parquet and write the joined rows to Parquet; the systems take
turns, one at a time, ``--repeat`` times. Narrows is two daemons and a client on loopback
(``narrows run``); Spark is one JVM with local[2] and no network.

Seconds count from issuing the query to the last row written, without starting processes; "with start"
is the whole command. The best of several runs is the least disturbed one, the median says how noisy the
machine was, and "others" how much of it something else used meanwhile. Writes ``throughput.json``
and ``throughput.md`` into ``--folder``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.generate import OUTPUTS, QUERY, WINDOW_MS, write_pair
from demo.ports import free_ports
from tests.oracle.compare import same_rows
from tests.oracle.oracle import OracleStream, Window, expected_pairs

ALGORITHMS = ("SP-D", "SP-S")
SPARK = "Spark"
FOLDER = Path("out/bench")
ROWS_PER_SECOND = 10_000
MATCH_RATE = 0.1
PAYLOAD_BYTES = 100
#: Above this the table says that it is not to be trusted.
OTHERS_SHARE_MAX = 0.1


class BenchError(Exception):
    """A system did not run, or gave other rows than it should."""


@dataclass(frozen=True)
class Measurement:
    """One run of one system."""

    system: str
    seconds: float
    seconds_with_start: float
    #: Of all its processes, their start included.
    cpu_seconds: float
    rows: int
    #: What everything else used of the machine's processors meanwhile, 0 to 1: above a few percent,
    #: the run was disturbed, and longer runs (Spark's) more than short ones.
    others_share: float
    #: What the system itself says about the run.
    details: dict[str, Any]


def main() -> int:
    """Measure, check, print and write; 1 if a system failed or was wrong."""
    given = _parser().parse_args()
    data = given.folder / "data"
    systems = [f"Narrows {name}" for name in ALGORITHMS] + ([] if given.skip_spark else [SPARK])
    try:
        print(f"making 2 x {given.rows:,} tuples in {data}", flush=True)
        first, second = free_ports(2)
        write_pair(data, given.rows, ROWS_PER_SECOND, MATCH_RATE, PAYLOAD_BYTES, ports=(first, second))
        expected = expected_join(data)
        print(f"the oracle expects {expected.num_rows:,} rows", flush=True)
        runs = [_measured(system, data, expected) for _ in range(given.repeat) for system in systems]
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    text = _markdown(systems, runs, 2 * given.rows)
    print(f"\n{text}")
    _write(given.folder, given.rows, runs, text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="tuples per stream")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each system")
    parser.add_argument("--skip-spark", action="store_true", help="measure Narrows alone")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    return parser


def expected_join(data: Path) -> pa.Table:
    """The rows of the join by brute force."""
    window: Window = ("range", WINDOW_MS * 1_000)
    left, right = (
        OracleStream(name[0], pq.read_table(data / f"{name}.parquet"), "ts", "ms", window) for name in ("left", "right")
    )
    return expected_pairs(left, right, [(("l", "id"), ("r", "id"))], OUTPUTS)


# -- one run ----------------------------------------------------------------------------------


def _measured(system: str, data: Path, expected: pa.Table) -> Measurement:
    run = _spark(data) if system == SPARK else _narrows(system.removeprefix("Narrows "), data, expected)
    print(
        f"{run.system:14} {run.seconds:6.2f} s, with start {run.seconds_with_start:6.2f} s, "
        f"CPU {run.cpu_seconds:5.1f} s, others {run.others_share:4.0%}",
        flush=True,
    )
    if run.rows != expected.num_rows:
        raise BenchError(f"{system} requires {expected.num_rows:,} rows; got {run.rows:,}")
    return run


def _narrows(algorithm: str, data: Path, expected: pa.Table) -> Measurement:
    rows, stats = data / "rows.parquet", data / "stats.json"
    arguments = ["run", str(data / "cluster.toml"), "--query", QUERY, "--algorithm", algorithm, "--quiet"]
    watch, before = Watch(), _children_cpu_s()
    _output([sys.executable, "-m", "cli.main", *arguments, "--out", str(rows), "--stats", str(stats)])
    whole_s, cpu_s = watch.seconds, _children_cpu_s() - before
    others = watch.others_share(cpu_s)
    difference = same_rows(pq.read_table(rows), expected)
    if difference is not None:
        raise BenchError(f"Narrows {algorithm} requires the oracle's rows; {difference}")
    figures = json.loads(stats.read_text())
    return Measurement(
        f"Narrows {algorithm}", figures["seconds"], whole_s, cpu_s, figures["rows"], others, figures["sites"]
    )


def _spark(data: Path) -> Measurement:
    watch = Watch()
    report = json.loads(
        _output([sys.executable, "-m", "bench.spark.streaming_join", str(data), "--json"]).splitlines()[-1]
    )
    # Its JVM is not always waited for, so it says itself what it used.
    whole_s, cpu_s = watch.seconds, report["cpu_seconds_with_jvm_start"]
    others = watch.others_share(cpu_s)
    if report["rows_dropped_late"]:
        raise BenchError(f"Spark requires input in order; it dropped {report['rows_dropped_late']} late rows")
    return Measurement(SPARK, report["seconds"], whole_s, cpu_s, report["rows_out"], others, report)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise BenchError(f"{' '.join(command[1:4])} ended with exit code {done.returncode}:\n{said}")
    return done.stdout


class Watch:
    """Wall time, and what the processors did in it, since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy_s = _machine_busy_s()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def others_share(self, own_cpu_s: float) -> float:
        """The part of the machine that was used by others than those who used ``own_cpu_s``."""
        others_s = _machine_busy_s() - self._busy_s - own_cpu_s
        return max(0.0, others_s / (self.seconds * (os.cpu_count() or 1)))


def _machine_busy_s() -> float:
    """Seconds that all processors together were not idle since boot, from Linux's counters."""
    user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# -- the table --------------------------------------------------------------------------------


def _markdown(systems: list[str], runs: list[Measurement], tuples: int) -> str:
    """The table: best and median of each system, and how many times Spark's tuples per second that is."""
    by_system = {system: [run for run in runs if run.system == system] for system in systems}
    spark = by_system.get(SPARK)
    lines = [
        "| system | best s | median s | tuples/s (median) | x Spark (best / median) | with start s | x Spark | CPU s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for system, own in by_system.items():
        best, median = min(run.seconds for run in own), _median([run.seconds for run in own])
        whole, cpu = _median([run.seconds_with_start for run in own]), _median([run.cpu_seconds for run in own])
        ratio = whole_ratio = ""
        if spark:
            best_ratio = min(run.seconds for run in spark) / best
            ratio = f"{best_ratio:.1f} / {_median([run.seconds for run in spark]) / median:.1f}"
            whole_ratio = f"{_median([run.seconds_with_start for run in spark]) / whole:.1f}"
        lines.append(
            f"| {system} | {best:.2f} | {median:.2f} | {tuples / median:,.0f} | {ratio} "
            f"| {whole:.2f} | {whole_ratio} | {cpu:.1f} |"
        )
    worst = max(run.others_share for run in runs)
    lines += ["", f"{_machine()}; others used up to {worst:.0%} of the machine during a run."]
    if worst > OTHERS_SHARE_MAX:
        lines += ["The runs were disturbed: do not trust the ratios, the longer runs suffered more."]
    return "\n".join(lines) + "\n"


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _machine() -> str:
    return f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}"


def _write(folder: Path, rows: int, runs: list[Measurement], text: str) -> None:
    (folder / "throughput.md").write_text(text)
    report = {
        "rows_per_stream": rows,
        "payload_bytes": PAYLOAD_BYTES,
        "match_rate": MATCH_RATE,
        "query": QUERY,
        "machine": _machine(),
        "versions": {name: version(name) for name in ("narrows-middleware", "pyarrow", "grpcio")},
        "runs": [asdict(run) for run in runs],
    }
    (folder / "throughput.json").write_text(json.dumps(report, indent=2) + "\n")
    print(f"written: {folder / 'throughput.json'}, {folder / 'throughput.md'}")


if __name__ == "__main__":
    sys.exit(main())
