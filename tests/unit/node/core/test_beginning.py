"""``--from``: a query begins where it was asked to, or with the first that all its streams still have."""

from __future__ import annotations

import random

import pytest

from node.core.effects import QueryState
from node.core.limits import Limits
from node.core.streams.ticks import TICK_END, TICK_MIN
from planner.algorithms.descriptions import Algorithm
from planner.model.beginning import DEFAULT_BEGINNING, BeginAt, Beginning
from planner.model.time_unit import TimeUnit
from tests.oracle.oracle import Window
from tests.unit.sites import TAU_MS, TIME_WINDOW, Cluster

EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))
BOTH = pytest.mark.parametrize("window", [TIME_WINDOW, ("rows", 3)], ids=["time", "count"])
START, NOW = Beginning(BeginAt.START), Beginning(BeginAt.NOW)


def at(time_ms: int) -> Beginning:
    return Beginning(BeginAt.TIME, time_ms)


def play(cluster: Cluster, begin: int, end: int, *, ended: bool = False) -> None:
    """Both streams, from one time to another; chunks are no multiple of a tick, so batches straddle."""
    rng = random.Random(begin)
    for base in range(begin, end, 25):
        for stream in ("l", "r"):
            ts = sorted(rng.randrange(base, min(base + 25, end)) for _ in range(rng.randrange(1, 5)))
            cluster.arrive(stream, *ts, keys=[rng.randrange(3) for _ in ts], ended=ended and base + 25 >= end)
            cluster.settle()


def played(
    window: Window = TIME_WINDOW,
    algorithm: Algorithm = Algorithm.SP_D,
    retain_ms: tuple[int, int] = (0, 0),
    *,
    keep_whole: bool = True,
    ended: bool = False,
) -> Cluster:
    """A first query has read both streams, of which everything is kept, up to 300 ms."""
    cluster = Cluster(window=window, retain_ms=retain_ms, keep_whole=keep_whole)
    cluster.issue("cam", algorithm, "q0")
    cluster.settle()
    play(cluster, 0, 300, ended=ended)
    return cluster


def first_tick(cluster: Cluster, home: str = "cam", query_id: str = "q1") -> int:
    tick = cluster.sites[home].homes[query_id].first_tick
    assert tick is not None
    return tick


def begun(cluster: Cluster, beginning: Beginning, algorithm: Algorithm = Algorithm.SP_D, sink: str = "cam") -> int:
    """The first tick of a query that is issued now."""
    cluster.issue(sink, algorithm, "q1", beginning)
    cluster.settle()
    return first_tick(cluster, sink)


def fed(cluster: Cluster) -> list[int]:
    return [cluster.sites["ash"].streams["l"].fed, cluster.sites["bow"].streams["r"].fed]


# -- where it begins --------------------------------------------------------------------------


@EVERY
@BOTH
def test_from_the_start_of_streams_that_play_it_has_all_rows(algorithm: Algorithm, window: Window) -> None:
    cluster = played(window, algorithm)
    assert begun(cluster, START, algorithm) == TICK_MIN
    at_once = cluster.results("q1")  # nothing was read since
    assert at_once
    assert set(at_once) <= set(cluster.results("q0"))
    play(cluster, 300, 400, ended=True)
    assert cluster.results("q1") == cluster.oracle() != []
    assert cluster.holds_nothing()


@EVERY
@BOTH
def test_from_the_start_of_streams_that_have_ended_it_has_all_rows(algorithm: Algorithm, window: Window) -> None:
    cluster = played(window, algorithm, ended=True)
    assert begun(cluster, START, algorithm, "bow") == TICK_MIN
    assert ("q1", QueryState.COMPLETED, "") in cluster.states
    assert cluster.results("q1") == cluster.oracle() != []


@EVERY
@pytest.mark.parametrize("time_ms", [5, 100, 125, 290])
def test_from_a_time_it_is_about_the_tuples_from_that_tick_on(algorithm: Algorithm, time_ms: int) -> None:
    cluster = played(algorithm=algorithm)
    tick = begun(cluster, at(time_ms), algorithm)
    assert tick == time_ms // TAU_MS
    play(cluster, 300, 400, ended=True)
    assert cluster.results("q1") == cluster.oracle(tick * TAU_MS) != []
    if tick:
        assert cluster.results("q1") != cluster.oracle()


@EVERY
@BOTH
def test_a_time_that_is_still_to_come_is_waited_for(algorithm: Algorithm, window: Window) -> None:
    cluster = played(window, algorithm)
    assert begun(cluster, at(350), algorithm) == 35 > max(fed(cluster))
    play(cluster, 300, 350)
    assert cluster.results("q1") == []
    play(cluster, 350, 450, ended=True)
    assert cluster.results("q1") == cluster.oracle(350) != []
    assert cluster.holds_nothing()


def test_a_time_after_the_end_of_its_streams_gives_no_rows_and_completes() -> None:
    cluster = played(ended=True)
    assert begun(cluster, at(10_000)) == 1_000
    assert ("q1", QueryState.COMPLETED, "") in cluster.states
    assert cluster.results("q1") == []


@pytest.mark.parametrize("beginning", [NOW, DEFAULT_BEGINNING], ids=["now", "default"])
def test_that_all_is_kept_does_not_move_where_a_query_begins_that_does_not_ask(beginning: Beginning) -> None:
    cluster = played()
    assert begun(cluster, beginning) == max(fed(cluster)) > 0
    cluster = played(ended=True)
    assert begun(cluster, beginning) == TICK_END
    assert cluster.state is QueryState.COMPLETED
    assert "--from start" in cluster.reason


def test_now_is_now_although_streams_retain_more() -> None:
    cluster = played(retain_ms=(100, 100), keep_whole=False)
    assert begun(cluster, DEFAULT_BEGINNING) < max(fed(cluster))
    cluster.issue("cam", Algorithm.SP_D, "q2", NOW)
    cluster.settle()
    assert first_tick(cluster, query_id="q2") == max(fed(cluster))


# -- as far as streams still have it ----------------------------------------------------------


@pytest.mark.parametrize("beginning", [START, at(0), at(-(2**61))], ids=["start", "zero", "long ago"])
def test_the_stream_that_has_least_limits_it_and_is_named(beginning: Beginning) -> None:
    cluster = played(retain_ms=(10_000, 60), keep_whole=False)
    log_begin = cluster.sites["bow"].streams["r"].log_begin
    assert begun(cluster, beginning) == log_begin > 0
    assert cluster.sites["cam"].homes["q1"].limited_by == ("r",)
    play(cluster, 300, 400, ended=True)
    assert cluster.results("q1") == cluster.oracle(log_begin * TAU_MS) != []


def test_streams_that_have_not_begun_begin_with_their_beginning() -> None:
    for beginning in (START, NOW, DEFAULT_BEGINNING):
        cluster = Cluster()
        assert begun(cluster, beginning) == TICK_MIN
    cluster = Cluster()
    assert begun(cluster, at(25)) == 2
    play(cluster, 0, 100, ended=True)
    assert cluster.results() == cluster.oracle(20) != cluster.oracle()


def test_a_time_is_that_of_ticks_whatever_units_streams_count_in() -> None:
    cluster = Cluster(units=(TimeUnit.US, TimeUnit.MS), keep_whole=True)
    cluster.issue("cam", query_id="q0")
    cluster.settle()
    for tick in range(10):
        cluster.arrive("l", tick * 10_000)
        cluster.arrive("r", tick * 10)
        cluster.settle()
    assert begun(cluster, at(34)) == 3


def test_nothing_is_kept_for_queries_to_come_unless_it_is_asked_for() -> None:
    cluster = played(keep_whole=False)
    kept = [cluster.sites["ash"].streams["l"], cluster.sites["bow"].streams["r"]]
    assert all(stream.log_begin > TICK_MIN for stream in kept)
    cluster = played()
    assert [trim.stream for trim in cluster.trims] == []


def test_at_the_quota_of_its_logs_a_site_keeps_less_and_a_query_begins_with_that() -> None:
    cluster = Cluster(Limits(news_us=0, log_bytes_max=600), keep_whole=True)
    cluster.issue("cam", query_id="q0")
    cluster.settle()
    play(cluster, 0, 300)
    begins = {site: cluster.sites[site].streams[stream].log_begin for site, stream in (("ash", "l"), ("bow", "r"))}
    assert min(begins.values()) > TICK_MIN
    assert begun(cluster, START) == max(begins.values()) < max(fed(cluster))
    play(cluster, 300, 400, ended=True)
    assert cluster.results("q1") == cluster.oracle(max(begins.values()) * TAU_MS) != []
    assert cluster.results("q0") == cluster.oracle()


# -- crashes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dead", [("cam",), ("ash",), ("ash", "bow", "cam")], ids="+".join)
@pytest.mark.parametrize("beginning", [START, at(125), at(350)], ids=["start", "past", "to come"])
def test_a_query_that_is_prepared_begins_again_where_it_was_asked_to(
    dead: tuple[str, ...], beginning: Beginning
) -> None:
    cluster = played()
    cluster.issue("cam", Algorithm.SM_D1, "q1", beginning)
    cluster.restart(*dead)  # before any site said from where on it can serve it
    cluster.settle()
    want = {START: TICK_MIN}.get(beginning, beginning.time_ms // TAU_MS)
    assert first_tick(cluster) == want
    cluster.restart(*dead)  # and once it runs
    cluster.settle()
    assert first_tick(cluster) == want
    play(cluster, 300, 450, ended=True)
    assert cluster.results("q1") == cluster.oracle(None if beginning is START else want * TAU_MS) != []


def test_home_knows_after_a_crash_which_streams_limit_a_query() -> None:
    cluster = played(retain_ms=(10_000, 60), keep_whole=False)
    begun(cluster, START)
    cluster.restart("cam")
    cluster.settle()
    assert cluster.sites["cam"].homes["q1"].limited_by == ("r",)
    assert cluster.sites["cam"].homes["q1"].beginning == START


def test_a_query_begins_with_a_log_that_an_earlier_life_wrote() -> None:
    cluster = played(ended=True)
    cluster.restart("ash", "bow", "cam")
    cluster.settle()
    assert begun(cluster, START, Algorithm.SM_S2) == TICK_MIN
    assert cluster.results("q1") == cluster.oracle() != []
