"""A stream that keeps its past: a new query is exactly one that was started there, and answers at once."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from node.core.effects import QueryState
from node.core.events import QueryIssued
from node.core.limits import Limits
from planner.algorithms.descriptions import Algorithm
from planner.model.plans import forced_plan
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.oracle.oracle import Window
from tests.unit.sites import TAU_MS, TIME_WINDOW, Cluster

EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))
BOTH = pytest.mark.parametrize("window", [TIME_WINDOW, ("rows", 3)], ids=["time", "count"])


# -- a query over the past --------------------------------------------------------------------


def played(window: Window, retain_ms: tuple[int, int], algorithm: Algorithm, sink: str = "cam") -> Cluster:
    """A first query has read both streams up to about 300 ms."""
    cluster = Cluster(window=window, retain_ms=retain_ms)
    cluster.issue(sink, algorithm, "q0")
    cluster.settle()
    rng = random.Random(4)
    for base in range(0, 300, 25):  # chunks that are no multiple of a tick: batches straddle
        for stream in ("l", "r"):
            ts = sorted(rng.randrange(base, base + 25) for _ in range(rng.randrange(5)))
            cluster.arrive(stream, *ts, keys=[rng.randrange(3) for _ in ts] or None)
            cluster.settle()
    return cluster


def first_tick(cluster: Cluster, query_id: str = "q1") -> int:
    return next(site.runs[query_id].first_tick for site in cluster.sites.values() if query_id in site.runs)


@EVERY
@BOTH
@pytest.mark.parametrize("retain_ms", [(100, 100), (60, 150), (150, 0), (0, 0), (10_000, 10_000)])
def test_a_new_query_is_one_that_began_where_every_stream_can_serve(
    algorithm: Algorithm, window: Window, retain_ms: tuple[int, int]
) -> None:
    cluster = played(window, retain_ms, algorithm)
    earliest = [stream.earliest for name in ("ash", "bow") for stream in cluster.sites[name].streams.values()]
    cluster.issue("bow", algorithm, "q1")
    cluster.settle()
    tick = first_tick(cluster)
    assert tick == max(earliest)
    if min(retain_ms) >= 60:
        assert tick <= 300 // TAU_MS - min(retain_ms) // TAU_MS + 1
        assert cluster.results("q1")  # at once: nothing was read since
    for stream in ("l", "r"):
        cluster.arrive(stream, 310, 320, ended=True)
        cluster.settle()
    for query_id, from_ts in (("q0", None), ("q1", tick * TAU_MS)):
        assert cluster.results(query_id) == cluster.oracle(from_ts) != []
    assert cluster.holds_nothing()


@EVERY
@BOTH
def test_streams_that_ended_serve_what_they_retained(algorithm: Algorithm, window: Window) -> None:
    cluster = played(window, (120, 80), algorithm)
    for stream in ("l", "r"):
        cluster.arrive(stream, 301, 305, ended=True)
        cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    earliest = max(stream.earliest for name in ("ash", "bow") for stream in cluster.sites[name].streams.values())
    assert earliest < 300 // TAU_MS
    for query_id in ("q1", "q2"):  # two at once
        cluster.issue("cam", algorithm, query_id)
    cluster.settle()
    for query_id in ("q1", "q2"):
        assert (query_id, QueryState.COMPLETED, "") in cluster.states
        assert cluster.results(query_id) == cluster.oracle(earliest * TAU_MS) != []
    assert cluster.holds_nothing()


def test_a_batch_that_straddles_the_first_tick_is_cut() -> None:
    #  r keeps all from tick 2 on; l has one batch [.., 9), of which the query takes [2, 9)
    cluster = Cluster(retain_ms=(1_000, 60))
    cluster.issue("cam", query_id="q0")
    cluster.settle()
    cluster.arrive("l", 5, 15, 25, 35, 90)
    cluster.arrive("r", 5, 16, 20)
    cluster.arrive("r", 26, 36, 90)
    cluster.settle()
    cluster.issue("cam", query_id="q1")
    cluster.settle()
    assert first_tick(cluster) == 2
    for stream in ("l", "r"):
        cluster.arrive(stream, 91, ended=True)
    cluster.settle()
    assert cluster.results("q1") == cluster.oracle(20) != cluster.oracle()


@BOTH
def test_a_filter_acts_on_the_past_as_on_what_follows(window: Window) -> None:
    kind, size = window
    text = f"RANGE {size // 1000} MS" if kind == "range" else f"ROWS {size}"
    filtered = (
        f"SELECT a.n AS an, b.n AS bn FROM l [{text}] AS a JOIN r [{text}] AS b ON a.key = b.key "
        f"WHERE a.key <> 1 AND b.n > 4"
    )
    cluster = played(window, (150, 150), Algorithm.SM_D1)
    query = parse_query(filtered, cluster.sites["cam"].catalogue)
    cluster.give("cam", QueryIssued("q1", forced_plan(query, "cam", Algorithm.SM_D1)))
    cluster.settle()
    tick = first_tick(cluster)
    for stream in ("l", "r"):
        cluster.arrive(stream, 301, ended=True, key=2)
        cluster.settle()
    kept = {"l": "key", "r": "n"}
    for stream, column in kept.items():
        cluster.rows[stream] = [
            rows.filter(_passes(rows.column(column).to_pylist(), column)) for rows in cluster.rows[stream]
        ]
    assert cluster.results("q1") == cluster.oracle(tick * TAU_MS) != []


def _passes(values: list[int | None], column: str) -> pa.BooleanArray:
    passed = [value is not None and (value != 1 if column == "key" else value > 4) for value in values]
    return pa.array(passed, pa.bool_())


def test_a_unit_finer_than_milliseconds_is_retained_as_long() -> None:
    cluster = Cluster(units=(TimeUnit.US, TimeUnit.MS), retain_ms=(30, 30))
    cluster.issue("cam", query_id="q0")
    cluster.settle()
    for tick in range(10):
        cluster.arrive("l", tick * 10_000)
        cluster.arrive("r", tick * 10)
        cluster.settle()
    streams = [*cluster.sites["ash"].streams.values(), *cluster.sites["bow"].streams.values()]
    assert [stream.earliest for stream in streams] == [6, 6]


def test_the_past_does_not_count_as_what_waits_for_the_start() -> None:
    #  More batches are retained than a source may be ahead; a query that is being prepared stops no reading.
    limits = Limits(ahead_batches_max=2)
    cluster = Cluster(limits, retain_ms=(1_000, 1_000))
    cluster.issue("cam", query_id="q0")
    cluster.settle()
    for tick in range(20):
        for stream in ("l", "r"):
            cluster.arrive(stream, tick * 10)
            cluster.settle()
    cluster.issue("cam", query_id="q1")
    cluster.deliver("cam", "ash")
    assert cluster.sites["ash"].runs["q1"].early_batches == 0
    cluster.arrive("l", 200)
    assert cluster.sites["ash"].runs["q1"].early_batches == 1
    cluster.settle()
    while "r" in cluster.reads and "l" not in cluster.reads:
        cluster.arrive("r", 201)
        cluster.settle()
    for ts in range(210, 400, 10):  # both queries go on, though the past was more than may be ahead
        for stream in ("l", "r"):
            assert stream in cluster.reads
            cluster.arrive(stream, ts)
            cluster.settle()
    for stream in ("l", "r"):
        cluster.arrive(stream, 400, ended=True)
        cluster.settle()
    assert cluster.results("q0") == cluster.results("q1") == cluster.oracle() != []


def test_a_query_that_is_refused_gives_the_past_back() -> None:
    cluster = played(TIME_WINDOW, (100, 100), Algorithm.SP_D)
    cluster.sites["bow"].streams["r"].failed = "disk on fire"
    cluster.issue("cam", query_id="q1")
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert "q1" not in cluster.sites["ash"].runs
    assert cluster.sites["ash"].streams["l"].logged_rows > 0
