"""A query that does not say where it begins has at once what its windows show: as far as its sites still have it."""

from __future__ import annotations

import random

import pytest

from node.core.effects import QueryState
from node.core.events import DropRequested
from node.core.links.messages import LeaseCopy, OpenCopy, Prepare, Start
from node.core.queries.home.home_query import HomeQuery
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.io.reports.complete_from import complete_from
from planner.algorithms.descriptions import Algorithm
from planner.model.beginning import AT_ONCE, BeginAt, Beginning
from planner.model.query import Policy, PolicyName
from tests.oracle.oracle import Window
from tests.unit.sites import TAU_MS, TIME_WINDOW, WINDOW_MS, Cluster

EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))
BOTH = pytest.mark.parametrize("window", [TIME_WINDOW, ("rows", 3)], ids=["time", "count"])
DEATHS = pytest.mark.parametrize("dead", [("ash",), ("bow",), ("cam",), ("ash", "bow", "cam")], ids="+".join)


def play(cluster: Cluster, begin: int, end: int, *, ended: bool = False) -> None:
    """Both streams, from one time to another; chunks are no multiple of a tick, so batches straddle."""
    rng = random.Random(begin)
    for base in range(begin, end, 25):
        for stream in ("l", "r"):
            ts = sorted(rng.randrange(base, min(base + 25, end)) for _ in range(rng.randrange(2, 7)))
            cluster.arrive(stream, *ts, keys=[rng.randrange(2) for _ in ts], ended=ended and base + 25 >= end)
            cluster.settle()


def read_by_another(
    algorithm: Algorithm, window: Window = TIME_WINDOW, retain_ms: tuple[int, int] = (0, 0), keep_whole: bool = False
) -> Cluster:
    """A first query has read both streams up to 300 ms; nothing is kept but what it needs, unless that is asked for."""
    cluster = Cluster(window=window, retain_ms=retain_ms, keep_whole=keep_whole)
    cluster.issue("cam", algorithm, "q0")
    cluster.settle()
    play(cluster, 0, 300)
    return cluster


def home_of(cluster: Cluster, query_id: str = "q1") -> HomeQuery:
    return next(site.homes[query_id] for site in cluster.sites.values() if query_id in site.homes)


def begun(cluster: Cluster, algorithm: Algorithm, beginning: Beginning = AT_ONCE, sink: str = "cam") -> int:
    """The tick with which the rows of a query begin that is issued now."""
    cluster.issue(sink, algorithm, "q1", beginning)
    cluster.settle()
    tick = home_of(cluster).first_tick
    assert tick is not None
    return tick


def fed(cluster: Cluster) -> int:
    return max(cluster.sites["ash"].streams["l"].fed, cluster.sites["bow"].streams["r"].fed)


def arrangements(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """By site: how many tables of its own streams it has, and how many copies of others'."""
    sites = {name: site.arrangements for name, site in cluster.sites.items()}
    return {name: (len(found.local.all), len(found.held.all)) for name, found in sites.items()}


# -- what is there ----------------------------------------------------------------------------


@EVERY
@BOTH
@pytest.mark.parametrize("sink", ["ash", "cam"])
def test_what_another_query_reads_is_there_whole_without_retain(
    algorithm: Algorithm, window: Window, sink: str
) -> None:
    cluster = read_by_another(algorithm, window)
    tick = begun(cluster, algorithm, sink=sink)
    assert tick == fed(cluster)
    said = complete_from(home_of(cluster), TAU_MS)
    assert (said.from_ms, said.begin_ms, list(said.lacking)) == (tick * TAU_MS, tick * TAU_MS, [])
    play(cluster, 300, 400, ended=True)
    whole, alone = cluster.oracle(None, tick * TAU_MS), cluster.oracle(tick * TAU_MS)
    assert cluster.results("q1") == whole
    assert set(alone) < set(whole), "what was there is part of it"
    assert cluster.results("q0") == cluster.oracle()
    assert cluster.holds_nothing()
    assert not any(site._participant.openings._unopened for site in cluster.sites.values())


@EVERY
def test_its_rows_are_those_of_the_other_one_from_its_first_tick_on(algorithm: Algorithm) -> None:
    cluster = read_by_another(algorithm)
    before = set(cluster.results("q0"))
    begun(cluster, algorithm)
    play(cluster, 300, 400, ended=True)
    assert cluster.results("q1") == sorted(set(cluster.results("q0")) - before) != []


@EVERY
def test_it_shares_all_tables_and_copies_of_the_other_one(algorithm: Algorithm) -> None:
    cluster = read_by_another(algorithm)
    before, opened = arrangements(cluster), cluster.sent(OpenCopy)
    begun(cluster, algorithm)
    assert arrangements(cluster) == before
    assert cluster.sent(OpenCopy) == opened
    assert len(cluster.sent(LeaseCopy)) == len(opened)
    play(cluster, 300, 350)
    assert arrangements(cluster) == before


def test_walks_that_start_elsewhere_share_the_copies_with_which_they_start() -> None:
    cluster = read_by_another(Algorithm.SP_S)
    opened = cluster.sent(OpenCopy)
    tick = begun(cluster, Algorithm.SP_S, sink="ash")
    assert len(cluster.sent(OpenCopy)) == len(opened)
    play(cluster, 300, 350, ended=True)
    assert cluster.results("q1") == cluster.oracle(None, tick * TAU_MS) != []


@EVERY
def test_without_another_reader_its_windows_are_empty_when_it_begins(algorithm: Algorithm) -> None:
    cluster = read_by_another(algorithm)
    cluster.give("cam", DropRequested("q0"))
    cluster.settle()
    tick = begun(cluster, algorithm)
    assert home_of(cluster).begins == (("a", cluster.sites["ash"].streams["l"].fed), ("b", fed(cluster)))
    said = complete_from(home_of(cluster), TAU_MS)
    assert said.from_ms > said.begin_ms == tick * TAU_MS
    play(cluster, 300, 400, ended=True)
    begins = dict(home_of(cluster).begins)
    assert cluster.results("q1") == cluster.oracle(min(begins.values()) * TAU_MS, tick * TAU_MS) != []


@EVERY
@BOTH
def test_of_a_recording_that_is_kept_it_has_everything_without_another_reader(
    algorithm: Algorithm, window: Window
) -> None:
    cluster = read_by_another(algorithm, window, keep_whole=True)
    cluster.give("cam", DropRequested("q0"))
    cluster.settle()
    tick = begun(cluster, algorithm)
    play(cluster, 300, 400, ended=True)
    assert cluster.results("q1") == cluster.oracle(None, tick * TAU_MS) != cluster.oracle(tick * TAU_MS)


@EVERY
def test_a_longer_window_than_the_other_one_has_is_there_as_far_as_logs_have_it(algorithm: Algorithm) -> None:
    cluster = read_by_another(algorithm)
    cluster.window = ("range", 4 * WINDOW_MS * 1000)
    tick = begun(cluster, algorithm)
    begins = dict(home_of(cluster).begins)
    assert tick - 4 * WINDOW_MS // TAU_MS < min(begins.values()) <= tick - WINDOW_MS // TAU_MS
    said = complete_from(home_of(cluster), TAU_MS)
    assert said.from_ms == (max(begins.values()) * TAU_MS + 4 * WINDOW_MS) > said.begin_ms
    assert list(said.lacking) == ["l", "r"]
    play(cluster, 300, 500, ended=True)
    own, whole = cluster.results("q1"), cluster.oracle(None, tick * TAU_MS)
    assert set(own) < set(whole)
    assert set(cluster.oracle(max(begins.values()) * TAU_MS, tick * TAU_MS)) <= set(own)
    assert set(cluster.oracle(None, said.from_ms)) <= set(own), "from there on none is missing"


@EVERY
def test_what_another_one_has_forgotten_is_not_shared_but_filled_from_logs(algorithm: Algorithm) -> None:
    cluster = read_by_another(algorithm, keep_whole=True)
    cluster.window = ("range", 4 * WINDOW_MS * 1000)
    tick = begun(cluster, algorithm)
    play(cluster, 300, 400, ended=True)
    assert cluster.results("q1") == cluster.oracle(None, tick * TAU_MS) != cluster.oracle(tick * TAU_MS)
    assert cluster.holds_nothing()


def test_a_count_window_that_is_not_there_as_a_whole_begins_empty() -> None:
    cluster = read_by_another(Algorithm.SP_D, ("rows", 3))
    cluster.window = ("rows", 300)
    tick = begun(cluster, Algorithm.SP_D)
    assert set(dict(home_of(cluster).begins).values()) <= {tick, tick - 1}
    said = complete_from(home_of(cluster), TAU_MS)
    assert not said.HasField("from_ms")
    assert list(said.lacking) == ["l", "r"]


def test_with_what_is_retained_its_rows_begin_earlier_and_see_what_is_before_that() -> None:
    cluster = read_by_another(Algorithm.SP_D, retain_ms=(100, 100))
    tick = begun(cluster, Algorithm.SP_D)
    assert tick < fed(cluster) - 5
    begins = dict(home_of(cluster).begins)
    play(cluster, 300, 400, ended=True)
    got = cluster.results("q1")
    assert set(cluster.oracle(max(begins.values()) * TAU_MS, tick * TAU_MS)) <= set(got)
    assert set(got) <= set(cluster.oracle(min(begins.values()) * TAU_MS, tick * TAU_MS))


# -- who does not look back -------------------------------------------------------------------


@pytest.mark.parametrize("beginning", [Beginning(BeginAt.NOW), Beginning(BeginAt.TIME, 290)], ids=["now", "time"])
def test_one_that_says_where_it_begins_sees_nothing_before(beginning: Beginning) -> None:
    cluster = read_by_another(Algorithm.SP_D, keep_whole=True)
    tick = begun(cluster, Algorithm.SP_D, beginning)
    play(cluster, 300, 400, ended=True)
    assert home_of(cluster).begins == ()
    assert cluster.results("q1") == cluster.oracle(tick * TAU_MS) != cluster.oracle(None, tick * TAU_MS)


def test_streams_that_have_not_begun_are_there_from_their_beginning() -> None:
    cluster = Cluster()
    assert begun(cluster, Algorithm.SP_D) == TICK_MIN
    assert len(cluster.sent(Prepare)) == 2, "nobody is asked twice"
    play(cluster, 0, 100, ended=True)
    assert cluster.results("q1") == cluster.oracle() != []


def test_of_streams_that_have_ended_there_is_nothing_to_join() -> None:
    cluster = Cluster(keep_whole=True)
    cluster.issue("cam", Algorithm.SP_D, "q0")
    cluster.settle()
    play(cluster, 0, 100, ended=True)
    assert begun(cluster, Algorithm.SP_D) == TICK_END
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results("q1") == []


def test_by_the_clock_it_begins_with_what_comes_now() -> None:
    cluster = read_by_another(Algorithm.SP_D)
    cluster.policy = Policy(PolicyName.DELTA, 1_000)
    tick = begun(cluster, Algorithm.SP_D)
    assert tick == fed(cluster)
    assert home_of(cluster).begins == ()
    assert home_of(cluster).state is QueryState.RUNNING


# -- crashes ----------------------------------------------------------------------------------


@EVERY
@DEATHS
def test_what_it_sees_stays_what_it_was_after_a_crash(algorithm: Algorithm, dead: tuple[str, ...]) -> None:
    cluster = read_by_another(algorithm)
    tick = begun(cluster, algorithm)
    begins = home_of(cluster).begins
    for end in (350, 400):
        cluster.restart(*dead)
        cluster.settle()
        assert (home_of(cluster).first_tick, home_of(cluster).begins) == (tick, begins)
        play(cluster, end - 50, end, ended=end == 400)
    assert cluster.results("q1") == cluster.oracle(None, tick * TAU_MS) != []
    assert cluster.results("q0") == cluster.oracle()
    assert cluster.holds_nothing()


@EVERY
@DEATHS
@pytest.mark.parametrize("step", [2, 5, 8])
def test_a_crash_while_its_sites_are_asked_lets_it_begin_anew(
    algorithm: Algorithm, dead: tuple[str, ...], step: int
) -> None:
    cluster = read_by_another(algorithm)
    cluster.issue("cam", algorithm, "q1", AT_ONCE)
    for _ in range(step):
        pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
        if pair is not None:
            cluster.deliver(*pair)
    cluster.restart(*dead)
    cluster.settle()
    tick = home_of(cluster).first_tick
    assert tick == fed(cluster)
    play(cluster, 300, 400, ended=True)
    assert cluster.results("q1") == cluster.oracle(None, tick * TAU_MS) != []
    assert cluster.results("q0") == cluster.oracle()
    assert cluster.holds_nothing()


def test_nothing_is_forgotten_by_where_it_is_to_begin_before_its_home_knows_that_for_good() -> None:
    """All are asked how far back they have its windows; its home, which has kept nothing of that, dies."""
    cluster = read_by_another(Algorithm.SM_D1, keep_whole=False)
    cluster.issue("cam", Algorithm.SM_D1, "q1", AT_ONCE)
    cluster.settle_but(("ash", "cam"))
    while not any(message.resumed for message in cluster.sent(Prepare) if isinstance(message, Prepare)):
        cluster.deliver("ash", "cam")
    cluster.settle_but(("ash", "cam"))
    assert not [message for message in cluster.sent(Start) if message.query_id == "q1"]  # type: ignore[union-attr]
    for site in ("ash", "bow"):
        pinned = [kept for kept in cluster.sites[site].kept_for if kept.query_id == "q1"]
        assert [kept.since for kept in pinned] == [stream.log_begin for stream in cluster.sites[site].streams.values()]
    cluster.restart("cam")
    cluster.settle()
    tick = home_of(cluster).first_tick
    assert tick is not None
    play(cluster, 300, 400, ended=True)
    assert cluster.results("q1") == cluster.oracle(None, tick * TAU_MS) != []
