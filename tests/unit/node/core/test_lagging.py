"""A query that cannot go on stops no other that reads the same streams, and returns by itself."""

from __future__ import annotations

import pytest

from node.core.effects import QueryState
from node.core.events import ClockAdvanced
from node.core.limits import Limits
from node.storage import memory_log
from planner.model.query import Algorithm
from tests.unit.sites import Cluster

LIMITS = Limits(news_us=0, ahead_batches_max=2)
EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))


def two_queries(algorithm: Algorithm = Algorithm.SP_D, homes: tuple[str, str] = ("cam", "ash")) -> Cluster:
    cluster = Cluster(LIMITS)
    for home, query_id in zip(homes, ("q1", "q2"), strict=True):
        cluster.issue(home, algorithm, query_id)
    cluster.settle()
    return cluster


def feed(cluster: Cluster, first: int, cut: tuple[tuple[str, str], ...] = ()) -> None:
    """What the sources bring as long as they are asked."""
    for stream, at in (("l", first), ("r", first + 2)):
        if stream in cluster.reads:
            cluster.arrive(stream, at, at + 11)
    cluster.settle_but(*cut)


def pass_time(cluster: Cluster, us: int) -> None:
    cluster.now_us += us
    for site in cluster.sites:
        cluster.give(site, ClockAdvanced())


def finish(cluster: Cluster, first: int) -> None:
    cluster.settle()
    cluster.arrive("l", first, ended=True)
    cluster.arrive("r", first + 1, ended=True)
    cluster.settle()
    for query_id in ("q1", "q2"):
        assert cluster.results(query_id) == cluster.oracle() != []
    assert cluster.blamed == []
    assert cluster.leftovers() == []


def cut_from_home(algorithm: Algorithm) -> tuple[Cluster, tuple[tuple[str, str], ...]]:
    """cam, the home of q1, does not hear ash and bow, and the streams wait for it."""
    cluster = two_queries(algorithm)
    feed(cluster, 0)
    cut = tuple((one, other) for one in cluster.sites for other in cluster.sites if "cam" in (one, other))
    for first in range(30, 180, 30):
        feed(cluster, first, cut)
    assert cluster.reads == {}
    return cluster, cut


@EVERY
def test_others_go_on_while_a_home_is_away_and_its_query_returns(algorithm: Algorithm) -> None:
    cluster, cut = cut_from_home(algorithm)
    before = len(cluster.results("q2"))
    pass_time(cluster, LIMITS.lag_us)
    cluster.settle_but(*cut)
    assert set(cluster.reads) == {"l", "r"}
    for site in ("ash", "bow"):
        assert "q1" not in cluster.sites[site].runs
        assert "q1" in cluster.sites[site].pins
    for first in range(180, 300, 30):
        feed(cluster, first, cut)
    assert len(cluster.results("q2")) > before + 4
    finish(cluster, 300)


def test_nobody_is_voided_before_its_time_is_over() -> None:
    cluster, cut = cut_from_home(Algorithm.SP_D)
    pass_time(cluster, LIMITS.lag_us - 1)
    cluster.settle_but(*cut)
    assert cluster.reads == {}
    assert "q1" in cluster.sites["ash"].runs
    finish(cluster, 300)


def test_a_query_that_stops_nobody_is_not_voided() -> None:
    cluster = Cluster(LIMITS)
    cluster.issue("cam")
    cluster.settle()
    cut = (("ash", "cam"), ("bow", "cam"))
    for first in range(0, 150, 30):
        feed(cluster, first, cut)
    assert cluster.reads == {}
    pass_time(cluster, 10 * LIMITS.lag_us)
    cluster.settle_but(*cut)
    assert "q1" in cluster.sites["ash"].runs
    cluster.settle()
    assert set(cluster.reads) == {"l", "r"}


def test_when_all_are_stopped_nobody_is_voided() -> None:
    """There is nobody who could go on instead, and they may only be slow."""
    cluster = two_queries(homes=("cam", "cam"))
    cut = (("ash", "cam"), ("bow", "cam"))
    for first in range(0, 150, 30):
        feed(cluster, first, cut)
    pass_time(cluster, 10 * LIMITS.lag_us)
    cluster.settle_but(*cut)
    assert {"q1", "q2"} == set(cluster.sites["ash"].runs)
    finish(cluster, 180)


def test_it_says_that_it_lags_and_no_stream_waits_for_it() -> None:
    cluster, cut = cut_from_home(Algorithm.SP_D)
    stream = cluster.sites["ash"].streams["l"]
    assert stream.full_queries(LIMITS) == ("q1",)
    pass_time(cluster, LIMITS.lag_us)
    cluster.settle_but(*cut)
    assert (stream.state, stream.full_queries(LIMITS)) == ("reading", ())
    cluster.settle()
    lags = [reason for query_id, state, reason in cluster.states if state is QueryState.RECOVERING]
    assert lags[0] == "lags at ash: nothing was done for 30 s"


def test_a_query_that_returns_reads_the_log_and_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_log, "PIECE_BYTES", 1)  # one batch at a time
    cluster, cut = cut_from_home(Algorithm.SP_D)
    pass_time(cluster, LIMITS.lag_us)
    cluster.settle_but(*cut)
    for first in range(180, 300, 30):
        feed(cluster, first, cut)
    cluster.hold_stores = True  # q1 returns, and gets on only as far as it may be ahead
    cluster.settle()
    run = cluster.sites["ash"].runs["q1"]
    assert run.started
    assert run.is_behind("a")
    assert run.backlogs["a"].full(LIMITS)
    for first in (300, 330):
        feed(cluster, first)
        while others := [one for one in cluster.storing["ash"] if one.query_id == "q2"]:
            cluster.finish_store("ash", cluster.storing["ash"].index(others[0]))
        cluster.settle()
        assert cluster.sites["ash"].streams["l"].full_queries(LIMITS) == ()
        assert set(cluster.reads) == {"l", "r"}
    assert run.is_behind("a")
    pass_time(cluster, 100 * LIMITS.lag_us)
    cluster.settle()
    assert cluster.sites["ash"].runs["q1"] is run, "what is read for it alone nobody waits for"
    cluster.hold_stores = False
    while cluster.storing["cam"]:
        cluster.finish_store("cam")
    finish(cluster, 360)


def test_a_query_whose_rows_cannot_be_stored_waits_with_its_pins_alone_until_they_are() -> None:
    cluster = two_queries()
    feed(cluster, 0)
    cluster.hold_stores = True
    for first in range(30, 300, 30):
        feed(cluster, first)
        while others := [one for one in cluster.storing["ash"] if one.query_id == "q2"]:
            cluster.finish_store("ash", cluster.storing["ash"].index(others[0]))
        cluster.settle()
    assert cluster.reads == {}
    pass_time(cluster, LIMITS.lag_us)
    cluster.settle()
    generation = cluster.sites["cam"].homes["q1"].generation
    assert cluster.states[-1][:2] == ("q1", QueryState.RECOVERING)
    assert all("q1" not in site.runs for site in cluster.sites.values())
    pass_time(cluster, LIMITS.prepare_us)
    cluster.settle()
    assert cluster.sites["cam"].homes["q1"].generation == generation
    while len(cluster.storing["cam"]) > 1:
        cluster.finish_store("cam")
    cluster.settle()
    assert all("q1" not in site.runs for site in cluster.sites.values())
    cluster.hold_stores = False
    cluster.finish_store("cam")
    for one in list(cluster.storing["ash"]):
        cluster.finish_store("ash", cluster.storing["ash"].index(one))
    cluster.settle()
    assert ("q1", QueryState.RUNNING, "") in cluster.states[-2:]
    finish(cluster, 300)


def test_a_query_that_is_only_slow_is_given_twice_as_long_each_time() -> None:
    cluster, _ = cut_from_home(Algorithm.SP_D)
    lagging = cluster.sites["ash"]._participant.lagging
    run = cluster.sites["ash"].runs["q1"]
    assert lagging.patience_us(run) == LIMITS.lag_us
    for times in (2, 4, 8):
        lagging.voided(run)
        assert lagging.patience_us(run) == times * LIMITS.lag_us
    run._done["a"] += 1
    assert lagging.patience_us(run) == LIMITS.lag_us
    lagging.voided(run)
    assert lagging.patience_us(run) == 2 * LIMITS.lag_us


def test_a_query_is_ready_to_go_on_once_its_sites_reach_each_other() -> None:
    cluster = two_queries()
    feed(cluster, 0)
    up = ["cam"]
    for site in ("ash", "bow"):
        peers = [other for other in cluster.sites if other != site]
        cluster.sites[site].watch_links(peers, lambda _: 0, lambda other: other in up)
    cluster.restart("cam")
    cluster.settle()
    assert cluster.states[-1][:2] == ("q1", QueryState.RECOVERING)
    up += ["ash", "bow"]
    pass_time(cluster, 1)
    cluster.settle()
    assert cluster.states[-1] == ("q1", QueryState.RUNNING, "")
    feed(cluster, 30)
    finish(cluster, 60)
