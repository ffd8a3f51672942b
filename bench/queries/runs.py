"""One run of each kind that ``bench.queries`` needs, on one release."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.generate import QUERY
from bench.pair import Pair, Stretch, between
from bench.queries.data import Burst
from bench.queries.query_set import START_MS, Query
from bench.releases import Release
from bench.sites import BenchError
from tests.oracle.compare import same_rows

#: After its streams are over a query may take so long to come to its end.
END_S_MAX = 120.0
#: The burst may take so long to be joined.
JOIN_S_MAX = 600.0
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the parts of a run take."""

    #: Until the longest window is full.
    fill_s: int
    #: Between issuing queries and measuring.
    settle_s: int
    stretch_s: int
    #: For issuing one query.
    issue_s: float

    def seconds(self, counts: Sequence[int]) -> int:
        """How long streams must go on for a climb."""
        return round(self.fill_s + counts[-1] * self.issue_s + len(counts) * (self.settle_s + self.stretch_s)) + 2


@dataclass(frozen=True, slots=True)
class Climb:
    """More and more queries on the same two daemons."""

    stretches: tuple[Stretch, ...]
    #: How many queries run by each plan, at the end.
    plans: Mapping[str, int]
    engine: str
    rows: int
    #: What is wrong with the rows, if something is.
    trouble: str
    issue_s: float

    def at(self, queries: int) -> Stretch:
        return next(stretch for stretch in self.stretches if stretch.queries == queries)


def climb(
    release: Release,
    folder: Path,
    tables: Mapping[str, pa.Table],
    tau_ms: int,
    queries: Sequence[Query],
    counts: Sequence[int],
    pace: Pace,
    algorithm: str = "",
    options: Sequence[str] = (),
) -> Climb:
    """Measure with the first of ``counts`` queries, add more, measure again, and count the rows at the end.

    ``options`` are further ones of ``narrows node``.
    """
    with Pair(release, folder, tables, tau_ms, options=options) as pair:
        stretches, issue_s = [], 0.0
        for step, (before, count) in enumerate(zip((0, *counts), counts, strict=False)):
            began_s = time.monotonic()
            pair.issue(queries[before:count], algorithm)
            issue_s += time.monotonic() - began_s
            time.sleep(pace.settle_s + (0 if step else pace.fill_s))
            first = pair.sample()
            time.sleep(pace.stretch_s)
            stretches.append(between(first, pair.sample()))
        plans, engine = pair.plans(), pair.engine()
        trouble = _trouble(pair, tables, tau_ms)
        return Climb(tuple(stretches), plans, engine, sum(pair.rows().values()), trouble, issue_s)


def _trouble(pair: Pair, tables: Mapping[str, pa.Table], tau_ms: int) -> str:
    """Let the streams end; in what the rows are not as they must be.

    A query begins with some tick between its being issued and its running: its rows must be those from one of them on.
    """
    try:
        pair.wait("queries to complete", pair.all_completed, END_S_MAX)
    except BenchError as error:
        pair.check()
        return str(error)
    rows = pair.rows()
    for query_id, query in pair.queries.items():
        first_ms, last_ms = pair.began_ms[query_id]
        wanted = [query.rows(_from(tables, begin_ms)) for begin_ms in range(first_ms, last_ms + 1, tau_ms)]
        if not wanted[0]:
            return f"a query that gives rows is required; none match {query.text}"
        if rows[query_id] not in wanted:
            return f"{wanted[-1]:,} to {wanted[0]:,} rows are required, got {rows[query_id]:,}, of {query.text}"
    return ""


def _from(tables: Mapping[str, pa.Table], begin_ms: int) -> dict[str, pa.Table]:
    return {name: table.filter(pc.field("ts") >= begin_ms) for name, table in tables.items()}


@dataclass(frozen=True, slots=True)
class Held:
    """The memory of the site that holds a large window."""

    queries: int
    idle_bytes: int
    rss_bytes: int
    rss_peak_bytes: int
    plans: Mapping[str, int]
    trouble: str


def hold(release: Release, folder: Path, burst: Burst, tau_ms: int, queries: Sequence[Query]) -> Held:
    """Issue the queries, let the burst come, and look at the memory of b's site while the window is full.

    Queries are issued there, so that it is not the copy at another site that is large.
    """
    with Pair(release, folder, burst.tables, tau_ms, home="b") as pair:
        idle = pair.rss_bytes("b")
        pair.issue(queries)
        if max(pair.sample().sealed_ms.values()) >= START_MS + burst.lead_ms:
            raise BenchError(
                f"{release.name} requires to issue {len(queries)} queries before the burst; it was too slow"
            )
        plans = pair.plans()
        before: list[int] = []
        pair.wait("the burst to be joined", lambda: _joined(pair, burst, before), JOIN_S_MAX)
        after = []
        while not pair.all_completed():
            after.append(pair.rss_bytes("b"))
            time.sleep(_LOOK_S)
        # Who is late with the burst may be at the end of the streams at once: then the last look must do.
        rss = sorted(after)[len(after) // 2] if after else before[-1]
        peak = pair.rss_peak_bytes("b")
        trouble = _trouble(pair, burst.tables, tau_ms)
    return Held(len(queries), idle, rss, peak, plans, trouble)


def _joined(pair: Pair, burst: Burst, looks: list[int]) -> bool:
    """Whether the burst is joined; until then the memory is noted."""
    joined = pair.all_done_before(burst.end_ms)
    if not joined or not looks:
        looks.append(pair.rss_bytes("b"))
    return joined


@dataclass(frozen=True, slots=True)
class FullSpeed:
    """Both streams as fast as they can be read, one query, planned."""

    seconds: float
    nbytes: int
    by_kind: Mapping[str, int]
    cpu_s: float
    p50_ms: float | None
    rows: int


def full_speed(release: Release, folder: Path, cluster: Path, expected: pa.Table) -> FullSpeed:
    """``narrows run`` over the streams of ``bench.generate``. Raises BenchError if its rows are not the oracle's."""
    folder.mkdir(parents=True)
    rows, stats = folder / "rows.parquet", folder / "stats.json"
    arguments = ["run", str(cluster), "--query", QUERY, "--quiet", "--out", str(rows), "--stats", str(stats)]
    done = subprocess.run(
        release.command(*arguments),
        cwd=release.folder,
        env=release.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"narrows run ({release.name}) ended with exit code {done.returncode}: {done.stderr.strip()}")
    difference = same_rows(pq.read_table(rows), expected)
    if difference is not None:
        raise BenchError(f"narrows run ({release.name}) requires the oracle's rows; {difference}")
    figures = json.loads(stats.read_text())
    by_kind: dict[str, int] = {}
    for link in figures["links"]:
        for kind, nbytes in link["bytes_by_kind"].items():
            by_kind[kind] = by_kind.get(kind, 0) + nbytes
    cpu_s = sum(site["cpu_seconds"] for site in figures["sites"].values())
    latency = figures["emit_latency_ms"]["p50"]
    return FullSpeed(figures["seconds"], sum(by_kind.values()), by_kind, cpu_s, latency, figures["rows"])
