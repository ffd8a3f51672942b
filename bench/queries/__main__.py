"""Many queries over the same streams: the first release and this tree, side by side in one run.

``python -m bench.queries`` unpacks the first release from the clone's history and lets both trees do the same work in
turns, three times each (forced algorithms, long select lists and memory once), on real daemons on loopback with the
native engine:

- 1, then 10, then 20 queries at 300 tuples/s a stream, tau 100 ms, planned and with forced algorithms:
  processor time of both daemons and bytes on the link.
- 100 queries, tau 250 ms: emit latency.
- 1 query and 100 over a window of a million rows: memory of the site that has it.
- one query over 2 x 1M tuples, as fast as they can be read: seconds and bytes.
- one query at 10,000 tuples/s a stream, with the durable log and without (this tree only).

Rows of every query are compared with an exact count. Writes ``queries.md`` and ``queries.json`` into ``--folder``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from bench.generate import write_pair
from bench.pair import StreamsEndedError
from bench.queries.data import burst_streams, steady_streams
from bench.queries.query_set import (
    LONG_LISTS,
    SHORT_LISTS,
    WINDOW_MS,
    Query,
    make_dashboard,
    make_queries,
    needed_bytes,
)
from bench.queries.report import write_report
from bench.queries.results import DASHBOARD, DURABLE, FORCED, LONG, NULL_LOG, PLANNED, Results
from bench.queries.runs import Climb, Pace, climb, full_speed, hold
from bench.releases import NOW, Release, ReleaseError, commit_of, first_release, now
from bench.sites import BenchError
from bench.throughput import MATCH_RATE, PAYLOAD_BYTES, ROWS_PER_SECOND, expected_join
from demo.ports import free_ports
from planner.model.errors import NarrowsError

FOLDER = Path(__file__).resolve().parents[1] / "results"
#: Makes a daemon keep no log.
NULL_LOG_OPTIONS = ("--no-log",)
RATE, LIVE_RATE = 300, 10_000
TAU_MS, MANY_TAU_MS, MEMORY_TAU_MS = 100, 250, 250
COUNTS = (1, 10, 20)
#: Over so much of the streams is looked what queries need.
NEEDED_S = 60
#: A query that takes longer than this to be issued, on average, is given up.
ISSUE_S_MAX = 1.0
#: All of the burst is in every window, whichever it is.
MEMORY_WINDOW_MS = (400_000, 800_000)
MEASURES = ("climbs", "many", "memory", "full-speed", "durable")

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much is done."""

    repeat: int
    pace: Pace
    many: int
    memory_rows: int
    memory_queries: int
    #: The burst, and quiet time after it to look at the memory in.
    burst_s: int
    hold_s: int
    full_rows: int


FULL = Scale(3, Pace(WINDOW_MS[1] // 1_000, 5, 15, 0.2), 100, 1_000_000, 100, 20, 15, 1_000_000)
QUICK = Scale(1, Pace(3, 1, 3, 0.15), 30, 100_000, 10, 5, 6, 100_000)


@dataclass
class Bench:
    """Runs what is asked for, and says how far it is."""

    scale: Scale
    folder: Path
    releases: Sequence[Release]
    results: Results
    began_s: float = field(default_factory=time.monotonic)
    runs: int = 0

    def in_turns(self, what: str, run: Callable[[Release, Path], T], once: bool = False) -> list[tuple[str, T]]:
        """Both releases, one after the other: as often as the scale says, or once."""
        repeat = 1 if once else self.scale.repeat
        return [
            (release.name, found)
            for number in range(repeat)
            for release in self.releases
            for found in self.attempt(f"{what}, {release.name}, {number + 1} of {repeat}", release, run)
        ]

    def attempt(self, what: str, release: Release, run: Callable[[Release, Path], T]) -> list[T]:
        """One run, in a folder of its own; nothing if it fails, which the report says."""
        self.runs += 1
        print(f"{time.monotonic() - self.began_s:6.0f} s  run {self.runs}: {what}", file=sys.stderr, flush=True)
        try:
            return [run(release, self.folder / f"run-{self.runs}")]
        except (BenchError, NarrowsError) as error:
            self.results.failures.append(f"{what}: {error}")
            print(f"          failed: {error}", file=sys.stderr, flush=True)
            return []

    def climbs(self) -> None:
        """1, 10 and 20 queries, by each plan."""
        pace = self.scale.pace
        tables = steady_streams(RATE, pace.seconds(COUNTS), TAU_MS)
        for plan in (PLANNED, DASHBOARD, LONG, *FORCED):
            algorithm = plan if plan in FORCED else ""
            queries = _queries_of(plan)
            if plan not in FORCED:
                self.results.needed[plan] = _needed(queries)
            found = self.in_turns(
                f"{' to '.join(map(str, COUNTS))} queries, {plan}",
                lambda release, folder, algorithm=algorithm, queries=queries: climb(  # type: ignore[misc]
                    release, folder, tables, TAU_MS, queries, COUNTS, pace, algorithm
                ),
                once=plan not in (PLANNED, DASHBOARD),
            )
            for side, one in found:
                self.results.climbs.setdefault((side, plan), []).append(one)

    def many(self) -> None:
        """100 queries at once."""
        issue_s = dict.fromkeys((release.name for release in self.releases), self.scale.pace.issue_s)
        found = self.in_turns(
            f"{self.scale.many} queries, {PLANNED}", lambda release, folder: self._many(release, folder, issue_s)
        )
        for side, one in found:
            self.results.many.setdefault(side, []).append(one)

    def _many(self, release: Release, folder: Path, issue_s: dict[str, float]) -> Climb:
        """Once more with longer streams if they ended before all was issued: busy daemons take their time."""
        count = self.scale.many
        queries = make_queries(count)
        while True:
            pace = replace(self.scale.pace, issue_s=issue_s[release.name])
            seconds = pace.seconds((count,))
            if pace.issue_s > ISSUE_S_MAX:
                self.results.too_slow[release.name] = f"too slow: {count} queries did not run within {seconds // 2} s"
                raise BenchError(self.results.too_slow[release.name])
            try:
                tables = steady_streams(RATE, seconds, MANY_TAU_MS)
                return climb(release, folder / f"{seconds}s", tables, MANY_TAU_MS, queries, (count,), pace)
            except StreamsEndedError as error:
                print(f"          once more with longer streams: {error}", file=sys.stderr, flush=True)
                issue_s[release.name] = 2 * pace.issue_s

    def memory(self) -> None:
        """1 query and many over a large window."""
        scale = self.scale
        lead_s = round(5 + scale.memory_queries * scale.pace.issue_s)
        burst = burst_streams(scale.memory_rows, lead_s, scale.burst_s, scale.hold_s)
        queries = make_queries(scale.memory_queries, MEMORY_WINDOW_MS)
        for count in (1, scale.memory_queries):
            found = self.in_turns(
                f"memory of {count} queries" if count > 1 else "memory of one query",
                lambda release, folder, count=count: hold(  # type: ignore[misc]
                    release, folder, burst, MEMORY_TAU_MS, queries[:count]
                ),
                once=True,
            )
            for side, held in found:
                self.results.held.setdefault(side, []).append(held)

    def full_speed(self) -> None:
        """One query, as fast as it can."""
        data, (first, second) = self.folder / "full-speed", free_ports(2)
        cluster = write_pair(
            data, self.scale.full_rows, ROWS_PER_SECOND, MATCH_RATE, PAYLOAD_BYTES, ports=(first, second)
        )
        expected = expected_join(data)
        found = self.in_turns("full speed", lambda release, folder: full_speed(release, folder, cluster, expected))
        for side, one in found:
            self.results.full_speed.setdefault(side, []).append(one)

    def durable(self) -> None:
        """One fast query, with the log and without."""
        pace, queries = self.scale.pace, make_queries(1)
        tables = steady_streams(LIVE_RATE, pace.seconds((1,)), TAU_MS)
        here = next(release for release in self.releases if release.name == NOW)
        for number in range(self.scale.repeat):
            for log, options in ((DURABLE, ()), (NULL_LOG, NULL_LOG_OPTIONS)):
                found = self.attempt(
                    f"{LIVE_RATE:,} tuples/s, {log}, {number + 1} of {self.scale.repeat}",
                    here,
                    lambda release, folder, options=options: climb(  # type: ignore[misc]
                        release, folder, tables, TAU_MS, queries, (1,), pace, options=options
                    ),
                )
                self.results.durable.setdefault(log, []).extend(found)


def _queries_of(plan: str) -> list[Query]:
    if plan == DASHBOARD:
        return make_dashboard(COUNTS[-1])
    return make_queries(COUNTS[-1], lists_of=LONG_LISTS if plan == LONG else SHORT_LISTS)


def _needed(queries: Sequence[Query]) -> dict[int, tuple[float, float]]:
    """By number of queries: what they need of stream b in a second, of tuples in results, and of all that pass."""
    tables, per_tick = steady_streams(RATE, NEEDED_S, TAU_MS), RATE * TAU_MS // 1_000
    found = {count: needed_bytes(queries[:count], tables, "b", per_tick) for count in COUNTS}
    return {count: (matching / NEEDED_S, passing / NEEDED_S) for count, (matching, passing) in found.items()}


def main() -> int:
    """Measure and write; 1 if this tree failed or was wrong somewhere."""
    given = _parser().parse_args()
    load = os.getloadavg()[0]
    scale = QUICK if given.quick else FULL
    results = Results(given.quick, load, scale.many, scale.memory_queries, scale.memory_rows, scale.full_rows)
    with tempfile.TemporaryDirectory(prefix="narrows-queries-") as name:
        try:
            releases = (first_release(Path(name) / "first"), now())
            for release in releases:
                release.check()
        except ReleaseError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        bench = Bench(scale, Path(name), releases, results)
        for measure in given.only or MEASURES:
            getattr(bench, measure.replace("-", "_"))()
        results.seconds = time.monotonic() - bench.began_s
        commits = {release.name: commit_of(release) for release in releases}
    print(write_report(given.folder, commits, results))
    print(f"took {results.seconds:,.0f} s in {bench.runs} runs; written: {given.folder}/queries.md, queries.json")
    return 1 if results.wrong_now() else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run of everything: only whether it works")
    parser.add_argument("--only", nargs="+", choices=MEASURES, help="some of the measures")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the report is written")
    return parser


if __name__ == "__main__":
    sys.exit(main())
