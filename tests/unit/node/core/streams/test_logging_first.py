"""A batch is logged before anything of it is used, and forgotten when nobody can ask for it any more."""

from __future__ import annotations

import pytest

from node.core.effects import AppendBatch, QueryState, ReadSource
from node.core.engine import Append
from node.core.events import BatchLogged, DropRequested, LogFailed
from node.core.limits import Limits
from node.core.links.messages import AskMatches, Carry, Rows, Sync, payload_bytes
from planner.model.query import Algorithm
from tests.unit.sites import Cluster

EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))


def running(algorithm: Algorithm, sink: str = "cam", limits: Limits | None = None) -> Cluster:
    cluster = Cluster(limits)
    cluster.issue(sink, algorithm)
    cluster.settle()
    cluster.hold_logs = True
    return cluster


@EVERY
@pytest.mark.parametrize("sink", ["ash", "cam"])
def test_nothing_of_a_batch_is_used_before_it_is_logged(algorithm: Algorithm, sink: str) -> None:
    cluster = running(algorithm, sink)
    before = len(cluster.effects)
    cluster.arrive("l", 1, 2, 25)
    cluster.arrive("r", 1, 3, 26)
    cluster.arrive("l", ended=True)
    cluster.arrive("r", ended=True)
    cluster.settle()
    assert {type(effect) for _, effect in cluster.effects[before:]} == {AppendBatch, ReadSource}
    for site in ("ash", "bow"):
        assert [type(news) for news in cluster.log_news[site]] == [BatchLogged, BatchLogged]
        assert [stream.fed for stream in cluster.sites[site].streams.values()] == [-(2**62)]
    cluster.hear_logs()
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results() == cluster.oracle() != []
    assert cluster.leftovers() == []


@EVERY
def test_batches_are_used_up_to_the_tick_that_is_logged_and_no_further(algorithm: Algorithm) -> None:
    cluster = running(algorithm)
    cluster.arrive("l", 1, 2, 15)
    cluster.arrive("l", 25, 36)
    first, second = cluster.log_news["ash"]
    assert (first, second) == (BatchLogged("l", 1), BatchLogged("l", 3))
    cluster.give("ash", first)
    assert cluster.sites["ash"].streams["l"].fed == 1
    assert sum(op.rows.num_rows for op in cluster.ops(Append, "ash")) in (0, 2)
    told = [message for message in cluster.sent(Carry, AskMatches, Sync, Rows) if payload_bytes(message)]
    assert all(message.span.end == 1 for message in told if isinstance(message, Carry | AskMatches | Rows))
    assert all(message.frontier == 1 for message in told if isinstance(message, Sync))
    cluster.give("ash", second)
    assert cluster.sites["ash"].streams["l"].fed == 3


def test_one_word_of_the_log_may_be_about_several_batches() -> None:
    cluster = running(Algorithm.SP_D)
    cluster.arrive("l", 1, 15)
    cluster.arrive("l", 25, 36)
    cluster.log_news["ash"].clear()
    cluster.give("ash", BatchLogged("l", 3))
    assert [message.span.end for message in cluster.sent(Carry) if isinstance(message, Carry)] == [1, 3]


def test_a_source_is_not_read_on_while_too_much_of_it_is_not_logged() -> None:
    cluster = running(Algorithm.SP_D, limits=Limits(ahead_batches_max=3))
    ticks = 0
    while "l" in cluster.reads:
        ticks += 1
        cluster.arrive("l", 10 * ticks)
    assert ticks == 3
    cluster.give("ash", cluster.log_news["ash"].popleft())
    assert "l" in cluster.reads


def test_a_log_that_fails_ends_the_queries_of_its_stream_and_nothing_of_the_batch_is_used() -> None:
    cluster = running(Algorithm.SP_D)
    cluster.arrive("l", 1, 15)
    cluster.log_news["ash"].clear()
    cluster.give("ash", LogFailed("l", "disk full"))
    cluster.settle()
    assert cluster.states[-1] == ("q1", QueryState.FAILED, "stream l at ash: disk full")
    assert cluster.sent(Carry) == []
    assert cluster.leftovers() == []
    assert cluster.sites["ash"].streams["l"].state == "failed"


# -- forgetting -------------------------------------------------------------------------------


def feed(cluster: Cluster, first: int, end: int) -> None:
    for base in range(first, end, 10):
        for stream in ("l", "r"):
            cluster.arrive(stream, base + 1, watermark=base + 10)
            cluster.settle()


@EVERY
def test_a_log_keeps_what_a_query_may_ask_for_and_little_more(algorithm: Algorithm) -> None:
    #  windows of 30; both heads done up to 200: what is from 170 on is needed, but where copies alone are looked at
    cluster = Cluster()
    cluster.issue("cam", algorithm)
    cluster.settle()
    feed(cluster, 0, 200)
    for stream in ("l", "r"):
        last = max(trim.tick for trim in cluster.trims if trim.stream == stream)
        state = cluster.sites[cluster.infos[stream].site].streams[stream]
        assert 13 <= last <= (20 if algorithm is Algorithm.SP_S else 17)
        assert state.logged_rows == 20 - last


@EVERY
def test_a_log_is_kept_whole_for_a_query_of_which_nothing_is_done(algorithm: Algorithm) -> None:
    cluster = Cluster()
    cluster.issue("cam", algorithm)
    cluster.settle()
    for base in range(0, 100, 10):  # r is silent, so no walk of l can end
        cluster.arrive("l", base + 1, watermark=base + 10)
        cluster.settle()
    assert [trim for trim in cluster.trims if trim.stream == "l" and trim.tick > 0] == []
    assert cluster.sites["ash"].streams["l"].logged_rows == 10


def test_a_log_keeps_what_is_to_be_retained_whether_there_are_queries_or_not() -> None:
    cluster = Cluster(retain_ms=(50, 0))
    cluster.issue("cam")
    cluster.settle()
    feed(cluster, 0, 200)
    left, right = cluster.sites["ash"].streams["l"], cluster.sites["bow"].streams["r"]
    assert (left.logged_rows, left.earliest) == (5, 15)
    assert right.earliest == right.fed == 20
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    assert (left.logged_rows, right.logged_rows) == (5, 0)
