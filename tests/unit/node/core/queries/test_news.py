"""Walks that end without rows, and done frontiers, cost no message of their own; and holding them stalls nobody."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.effects import QueryState, Send
from node.core.events import ClockAdvanced, QueryIssued
from node.core.limits import Limits
from node.core.links.messages import Done, Rows
from node.core.queries.home.sink import HeadLedger
from node.core.queries.news import Ending, Endings, HeldNews
from node.core.queries.waiting import Walk
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from planner.model.plans import forced_plan
from planner.model.query import Algorithm
from planner.sql.parser import parse_query
from tests.examples import examples
from tests.unit.sites import Cluster

EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))
LATER = Limits(news_us=500_000)


def walk(head: str, first: int, end: int, sealed_at_us: int = 0) -> Walk:
    rows = pa.RecordBatch.from_pylist([], schema=pa.schema([]))
    return Walk("q1", 1, head, Span(first, end), sealed_at_us, 0, rows)


def test_spans_that_touch_are_told_as_one_and_others_are_not() -> None:
    #  a   [0,1)      [2,5)[5,6)
    #  b   [0,1)[1,2)
    endings = Endings()
    for head, first, end in (("a", 2, 5), ("b", 0, 1), ("a", 5, 6), ("b", 1, 2), ("a", 0, 1)):
        endings.add(walk(head, first, end, sealed_at_us=first), now_us=0)
    assert endings.heads() == ("a", "b")
    assert endings.take() == [Ending("a", Span(0, 1), 0), Ending("a", Span(2, 6), 5), Ending("b", Span(0, 2), 1)]
    assert not endings
    assert endings.take() == []


def test_news_is_due_when_there_is_enough_of_it_or_the_oldest_waited_long_enough() -> None:
    limits = Limits(news_held_max=3, news_us=100)
    held = HeldNews()
    assert not held.due(limits, 10**9)  # there is none
    held.add(50)
    held.add(140)
    assert not held.due(limits, 149)
    assert held.due(limits, 150)
    held.add(141)
    assert held.due(limits, 141)


def test_the_end_of_a_stream_is_due_at_once() -> None:
    endings = Endings()
    endings.add(walk("a", 3, TICK_END), now_us=0)
    assert endings.due(LATER, now_us=0)


@pytest.mark.parametrize(("ahead", "held"), [(1, 1), (7, 1), (8, 2), (127, 31), (128, 32), (10_000, 32)])
def test_what_is_held_is_a_small_part_of_what_may_be_ahead(ahead: int, held: int) -> None:
    assert Limits(ahead_batches_max=ahead).news_held == held


@given(st.lists(st.integers(1, 3), min_size=1, max_size=12), st.data())
@examples(100)
def test_however_walks_are_merged_the_sink_takes_each_tick_once(lengths: list[int], data: st.DataObject) -> None:
    ends = [sum(lengths[: place + 1]) for place in range(len(lengths))]
    walks = [walk("a", end - length, end) for length, end in zip(lengths, ends, strict=True)]
    ledger, endings = HeadLedger("a", 0), [Endings(), Endings()]
    for one in data.draw(st.permutations(walks)):
        place = data.draw(st.sampled_from(endings))  # walks of a head end at several sites
        place.add(one, 0)
        if data.draw(st.booleans()):
            _tell(ledger, place)
    for place in endings:
        _tell(ledger, place)
    assert ledger.done == ends[-1]


def _tell(ledger: HeadLedger, endings: Endings) -> None:
    for ending in endings.take():
        assert ledger.take(ending.span)
        ledger.stored(ending.span)


# -- among sites ------------------------------------------------------------------------------


def running(algorithm: Algorithm, limits: Limits) -> Cluster:
    cluster = Cluster(limits)
    cluster.issue("cam", algorithm)
    cluster.settle()
    return cluster


def flow(cluster: Cluster) -> None:
    """Messages and answers arrive; no time passes."""
    while any(cluster.mail.values()) or any(cluster.answers.values()):
        cluster.settle_mail()
        for site, answers in cluster.answers.items():
            if answers:
                cluster.answer(site)


@EVERY
def test_walks_without_rows_are_told_a_few_at_a_time(algorithm: Algorithm) -> None:
    cluster = running(algorithm, LATER)
    dones = len(cluster.sent(Done))
    for tick in range(80):  # keys that never meet
        cluster.arrive("l", tick * 10, key=tick)
        cluster.arrive("r", tick * 10, key=tick + 1000)
        flow(cluster)
    told = cluster.sent(Rows)
    assert 0 < len(told) <= 160 // 16
    assert all(isinstance(rows, Rows) and rows.rows == b"" for rows in told)
    # One to each of two sites for at least sixteen walks; the sink told them of the start before.
    assert len(cluster.sent(Done)) - dones <= 2 * 160 // 16
    cluster.arrive("l", 1_000, ended=True)
    cluster.arrive("r", 1_001, ended=True)
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results() == cluster.oracle() != []
    assert cluster.holds_nothing()


def test_an_ending_leaves_with_the_next_rows() -> None:
    cluster = running(Algorithm.SP_S, LATER)
    cluster.arrive("l", 5, 50, key=1)
    cluster.arrive("r", 15, 25, key=2)
    cluster.arrive("r", 35, key=1)
    flow(cluster)
    assert cluster.sent(Rows) == []  # 15 and 25 met nobody
    assert cluster.sites["bow"].runs["q1"].has_endings
    cluster.arrive("r", 45, key=1)
    flow(cluster)
    told = [(rows.span, rows.rows != b"") for rows in cluster.sent(Rows, site="bow") if isinstance(rows, Rows)]
    assert told == [(Span(3, 4), True), (Span(TICK_MIN, 3), False)]  # 35 met 5
    assert not cluster.sites["bow"].runs["q1"].has_endings


@EVERY
@pytest.mark.parametrize("limits", [Limits(ahead_batches_max=1), Limits(ahead_batches_max=2)], ids=["1", "2"])
def test_a_source_that_may_not_run_ahead_never_waits_for_the_clock(algorithm: Algorithm, limits: Limits) -> None:
    cluster = running(algorithm, limits)
    for tick in range(30):
        for stream in ("l", "r"):
            if stream in cluster.reads:
                cluster.arrive(stream, tick * 10, key=tick + 1000 * (stream == "r"))
                flow(cluster)
    assert sum(batch.num_rows for batch in cluster.rows["l"]) == 30
    assert sum(batch.num_rows for batch in cluster.rows["r"]) >= 29


def test_a_backlog_full_of_bytes_lets_endings_of_its_own_head_go() -> None:
    cluster = running(Algorithm.SP_S, Limits(ahead_bytes_max=1, news_us=500_000))
    cluster.arrive("r", 5, 100, key=2)
    flow(cluster)
    cluster.arrive("l", 5, 25, key=1)  # ends here: the copy of r is far ahead
    flow(cluster)
    assert not cluster.sites["ash"].runs["q1"].has_endings
    cluster.arrive("l", 26, key=1)  # it was read once more while the batch was being logged
    assert "l" not in cluster.reads  # what the sink is done with is told when the clock says so
    cluster.now_us += 500_000
    cluster.give("cam", ClockAdvanced())
    flow(cluster)
    assert "l" in cluster.reads


def test_nothing_is_held_back_when_time_is_up() -> None:
    cluster = running(Algorithm.SP_S, LATER)
    cluster.arrive("r", 5, 100, key=2)
    cluster.arrive("l", 5, 25, key=1)
    flow(cluster)
    for site, kind in (("ash", Rows), ("cam", Done)):
        before = len(cluster.sent(kind, site=site))
        cluster.give(site, ClockAdvanced())
        assert len(cluster.sent(kind, site=site)) == before
        cluster.now_us += 500_000
        cluster.give(site, ClockAdvanced())
        assert len(cluster.sent(kind, site=site)) > before
        flow(cluster)


# -- of several queries -----------------------------------------------------------------------


def told_in_a_turn(cluster: Cluster, site: str, now_us: int) -> dict[str, set[str]]:
    """The clock comes to a site: which queries it tells the others of, by peer."""
    cluster.now_us = now_us
    before = len(cluster.effects)
    cluster.give(site, ClockAdvanced())
    told: dict[str, set[str]] = {}
    for _, effect in cluster.effects[before:]:
        if isinstance(effect, Send) and isinstance(effect.message, Rows | Done):
            told.setdefault(effect.peer, set()).add(effect.message.query_id)
    return told


def of_three_queries() -> Cluster:
    """q1 and q2 at ash and bow, q3 at bow alone; cam is home of all, and what happens is as it says.

    So what comes is news for the sites, and when it came is known.
    """
    cluster = running(Algorithm.SP_S, LATER)
    cluster.issue("cam", Algorithm.SP_S, "q2")
    text = "SELECT a.n AS an, b.n AS bn FROM r [RANGE 30 MS] AS a JOIN r [RANGE 30 MS] AS b ON a.key = b.key"
    plan = forced_plan(parse_query(text, cluster.sites["cam"].catalogue), "cam", Algorithm.SP_D)
    cluster.give("cam", QueryIssued("q3", plan))
    cluster.settle()
    return cluster


def walked(cluster: Cluster, query_id: str, at_us: int) -> None:
    """The sink hears that the first walk of a query's head is over."""
    cluster.now_us = at_us
    cluster.say("bow", "cam", Rows(query_id, "b", Span(TICK_MIN, 1), 0, b""))


def test_done_frontiers_of_all_queries_for_a_site_leave_with_the_first_that_are_due() -> None:
    cluster = of_three_queries()
    begin = cluster.now_us
    for query_id, at_us in (("q1", 0), ("q2", 300_000), ("q3", 499_999)):
        walked(cluster, query_id, begin + at_us)
    assert told_in_a_turn(cluster, "cam", begin + 499_999) == {}
    assert told_in_a_turn(cluster, "cam", begin + 500_000) == {"ash": {"q1", "q2"}, "bow": {"q1", "q2", "q3"}}
    assert not cluster.holds_news("cam")
    assert told_in_a_turn(cluster, "cam", begin + 1_000_000) == {}


def test_what_is_due_for_one_site_takes_nothing_to_another() -> None:
    cluster = of_three_queries()
    begin = cluster.now_us
    for query_id, at_us in (("q3", 0), ("q1", 300_000)):
        walked(cluster, query_id, begin + at_us)
    assert told_in_a_turn(cluster, "cam", begin + 500_000) == {"bow": {"q3", "q1"}}
    assert told_in_a_turn(cluster, "cam", begin + 799_999) == {}
    assert told_in_a_turn(cluster, "cam", begin + 800_000) == {"ash": {"q1"}}


def test_as_much_news_as_may_be_held_takes_that_of_other_queries_along() -> None:
    cluster = of_three_queries()
    walked(cluster, "q2", cluster.now_us)
    dones = len(cluster.sent(Done))
    for tick in range(1, LATER.news_held):
        span = Span(tick - 1 if tick > 1 else TICK_MIN, tick)
        cluster.say("bow", "cam", Rows("q1", "b", span, 0, b""))
    assert len(cluster.sent(Done)) == dones
    cluster.say("bow", "cam", Rows("q1", "b", Span(LATER.news_held - 1, LATER.news_held), 0, b""))
    told = [message.query_id for message in cluster.sent(Done)[dones:] if isinstance(message, Done)]
    assert sorted(told) == ["q1", "q1", "q2", "q2"]  # ash and bow


def test_endings_of_all_queries_with_a_sink_leave_with_the_first_that_are_due() -> None:
    cluster = running(Algorithm.SP_S, LATER)
    cluster.issue("cam", Algorithm.SP_S, "q2")
    cluster.settle()
    cluster.arrive("r", 5, 100, key=2)
    flow(cluster)
    cluster.settle()
    begin = cluster.now_us
    cluster.arrive("l", 5, 25, key=1)
    asking = list(cluster.answers["ash"])
    assert len(asking) == 2  # both queries look for what meets 5, and nothing does
    for at_us in (0, 300_000):
        cluster.now_us = begin + at_us
        cluster.answer("ash")
    assert [run.has_endings for run in cluster.sites["ash"].runs.values()] == [True, True]
    assert told_in_a_turn(cluster, "ash", begin + 499_999) == {}
    assert told_in_a_turn(cluster, "ash", begin + 500_000) == {"cam": {"q1", "q2"}}


def test_a_query_whose_streams_end_is_complete_without_waiting() -> None:
    cluster = running(Algorithm.SP_S, LATER)
    cluster.arrive("l", 5, ended=True)
    cluster.arrive("r", 7, ended=True)
    flow(cluster)
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results() == [(0, 0)]
