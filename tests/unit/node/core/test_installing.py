"""Several queries: all sites or none take one on, whatever happens meanwhile, and none disturbs another."""

from __future__ import annotations

import pytest

from node.core.effects import IgnoreReason, QueryState, Send
from node.core.events import ClockAdvanced, DropRequested, QueryIssued
from node.core.limits import Limits
from node.core.links.messages import FIRST_GENERATION, Drop, Prepare, Prepared, Start
from planner.model.plans import forced_plan
from planner.model.query import Algorithm
from planner.sql.parser import parse_query
from tests.unit.sites import Cluster

EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))
SELF_JOIN = "SELECT a.n AS an, b.n AS bn FROM l [RANGE 30 MS] AS a JOIN l [RANGE 30 MS] AS b ON a.key = b.key"


def state_of(cluster: Cluster, query_id: str) -> tuple[QueryState, str]:
    return [(state, reason) for name, state, reason in cluster.states if name == query_id][-1]


def traces(cluster: Cluster, query_id: str) -> list[str]:
    """Everything that any site still has of a query."""
    found = []
    for name, site in cluster.sites.items():
        found += [f"{name} runs it"] * (query_id in site.runs)
        found += [
            f"{name} {stream.info.name}"
            for stream in site.streams.values()
            for _, run in stream.followers
            if run.query_id == query_id
        ]
        found += [f"{name} table {table.name}" for table in site.table_statuses() if query_id in table.users]
        found += [f"{name} waits: {waiting}" for waiting in site.waiting() if waiting.walk.query_id == query_id]
        arrangements = site.arrangements
        found += [f"{name} claims" for claim in arrangements.owned.claims if claim.lease.query_id == query_id]
        leases = [lease for copy in (*arrangements.owned.all, *arrangements.held.all) for lease in copy.leases]
        found += [f"{name} leases {lease.reach.alias}" for lease in leases if lease.query_id == query_id]
    return found


def finish(cluster: Cluster, ts: int) -> None:
    """Both streams bring one more row and end."""
    cluster.arrive("l", ts, ended=True)
    cluster.arrive("r", ts + 1, ended=True)
    cluster.settle()


# -- two at once ------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("first", ["ash", "bow"])
def test_installs_that_race_from_two_homes_both_run(algorithm: Algorithm, first: str) -> None:
    cluster = Cluster()
    cluster.issue("ash", algorithm, "q1")
    cluster.issue("bow", algorithm, "q2")
    other = "bow" if first == "ash" else "ash"
    while cluster.mail[first, other] or cluster.mail[other, first]:  # one direction is always faster
        pair = (first, other) if cluster.mail[first, other] else (other, first)
        cluster.deliver(*pair)
    assert {state_of(cluster, query_id)[0] for query_id in ("q1", "q2")} == {QueryState.RUNNING}
    cluster.arrive("l", 3, 14, 25)
    cluster.arrive("r", 4, 15)
    cluster.settle()
    finish(cluster, 30)
    for query_id in ("q1", "q2"):
        assert state_of(cluster, query_id) == (QueryState.COMPLETED, "")
        assert cluster.results(query_id) == cluster.oracle() != []
    assert cluster.holds_nothing()


def test_a_second_query_that_was_prepared_before_the_first_started_is_about_everything() -> None:
    cluster = Cluster()
    cluster.issue("cam", query_id="q1")
    cluster.issue("cam", query_id="q2")
    cluster.deliver("cam", "ash", 2)
    cluster.deliver("cam", "bow", 1)
    cluster.deliver("ash", "cam", 2)
    cluster.deliver("bow", "cam", 1)
    assert state_of(cluster, "q1")[0] is QueryState.RUNNING
    assert cluster.sites["cam"].homes["q2"].state is QueryState.PREPARING
    cluster.deliver("cam", "ash", 2)  # Start and Done of q1
    cluster.arrive("l", 3, 14)
    cluster.arrive("l", 25)
    assert cluster.sites["ash"].runs["q2"].early_batches > 0
    cluster.settle()
    cluster.arrive("r", 4, 26)
    cluster.settle()
    finish(cluster, 30)
    assert cluster.results("q1") == cluster.results("q2") == cluster.oracle() != []


# -- all or none ------------------------------------------------------------------------------


@pytest.mark.parametrize("delivered", range(4))
def test_a_drop_while_preparing_leaves_no_trace_and_starts_nobody(delivered: int) -> None:
    cluster = Cluster()
    cluster.issue("cam")
    for pair in [("cam", "ash"), ("ash", "cam"), ("cam", "bow")][:delivered]:
        cluster.deliver(*pair)
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    assert state_of(cluster, "q1") == (QueryState.DROPPED, "dropped by a user")
    assert traces(cluster, "q1") == []
    assert cluster.reads == {}
    assert not [
        effect for _, effect in cluster.effects if isinstance(effect, Send) and isinstance(effect.message, Start)
    ]


def test_a_refusal_after_others_were_ready_leaves_no_trace_of_early_batches() -> None:
    cluster = Cluster()
    cluster.issue("cam", query_id="q1")
    cluster.settle()
    cluster.issue("cam", query_id="q2")
    cluster.deliver("cam", "ash")  # ash is ready for q2 ...
    cluster.arrive("l", 3, 14, 25)
    assert cluster.sites["ash"].runs["q2"].early_batches == 1
    cluster.sites["bow"].streams["r"].failed = "disk on fire"
    cluster.deliver("cam", "bow")  # ... and bow is not
    cluster.sites["bow"].streams["r"].failed = ""
    cluster.settle()
    assert state_of(cluster, "q2") == (
        QueryState.FAILED,
        "site bow refused: stream r cannot be read: disk on fire",
    )
    assert traces(cluster, "q2") == []
    assert "q2" not in cluster.sites["bow"].runs
    cluster.arrive("r", 4, 26)
    cluster.settle()
    finish(cluster, 30)
    assert state_of(cluster, "q1")[0] is QueryState.COMPLETED
    assert cluster.results("q1") == cluster.oracle() != []
    assert cluster.holds_nothing()


@pytest.mark.parametrize("ready", [False, True], ids=["before it answered", "after it answered"])
def test_a_site_that_dies_while_preparing_is_asked_again_and_the_query_runs(ready: bool) -> None:
    cluster = Cluster()
    cluster.issue("cam")
    cluster.deliver("cam", "bow")
    cluster.deliver("bow", "cam")
    cluster.deliver("cam", "ash")
    if ready:
        cluster.deliver("ash", "cam")  # Start is on its way
    cluster.restart("ash")
    cluster.settle()
    generation = cluster.sites["cam"].homes["q1"].generation
    assert generation != FIRST_GENERATION
    assert {site.runs["q1"].generation for site in cluster.sites.values()} == {generation}
    assert state_of(cluster, "q1") == (QueryState.RUNNING, "")
    cluster.arrive("l", 3, 14)
    cluster.arrive("r", 4, 26)
    finish(cluster, 30)
    assert state_of(cluster, "q1") == (QueryState.COMPLETED, "")
    assert cluster.results() == cluster.oracle() != []
    assert cluster.leftovers() == []


def test_home_gives_up_a_query_that_a_site_never_answers() -> None:
    cluster = Cluster(Limits(prepare_us=5_000_000, prepared_us=9_000_000))
    cluster.issue("cam")
    cluster.deliver("cam", "ash")
    cluster.deliver("ash", "cam")
    cluster.now_us += 4_999_999
    cluster.give("cam", ClockAdvanced())
    assert cluster.states == []
    cluster.now_us += 1
    cluster.give("cam", ClockAdvanced())
    assert cluster.states == [
        ("q1", QueryState.FAILED, "a query requires every site ready within 5 s; got no word of bow")
    ]
    cluster.settle()  # bow hears Prepare and Drop at last
    assert traces(cluster, "q1") == []
    assert cluster.ignored == [IgnoreReason.QUERY_ENDED]


def test_a_site_gives_up_a_query_of_which_it_hears_no_more_and_reads_on_for_the_others() -> None:
    limits = Limits(prepare_us=5_000_000, prepared_us=9_000_000, ahead_batches_max=2)
    cluster = Cluster(limits)
    cluster.issue("bow", query_id="q1")
    cluster.settle()
    cluster.issue("cam", query_id="q2")
    prepare = cluster.deliver("cam", "ash")  # and then cam is cut off
    assert isinstance(prepare, Prepare)
    for ts in range(10, 100, 10):
        for stream in ("l", "r"):
            if stream in cluster.reads:
                cluster.arrive(stream, ts)
        while cluster.mail["ash", "bow"] or cluster.mail["bow", "ash"] or any(cluster.answers.values()):
            for pair in (("ash", "bow"), ("bow", "ash")):
                if cluster.mail[pair]:
                    cluster.deliver(*pair)
            for site, answers in cluster.answers.items():
                if answers:
                    cluster.answer(site)
    assert "l" not in cluster.reads  # q2 holds it
    cluster.now_us += 9_000_000
    cluster.give("ash", ClockAdvanced())
    assert "l" in cluster.reads
    assert "q2" not in cluster.sites["ash"].runs
    assert "q2" in cluster.sites["ash"].pins  # cam may have begun it, and go on
    cluster.settle()  # cam is back
    assert state_of(cluster, "q2") == (QueryState.RUNNING, "")
    assert "q2" in cluster.sites["ash"].runs


# -- without disturbing others ----------------------------------------------------------------


def issue_self_join(cluster: Cluster, sink: str, query_id: str, algorithm: Algorithm) -> None:
    query = parse_query(SELF_JOIN, cluster.sites[sink].catalogue)
    cluster.give(sink, QueryIssued(query_id, forced_plan(query, sink, algorithm)))


@EVERY
@pytest.mark.parametrize("progress", [0, 1, 3, 7, 100])
def test_dropping_a_query_does_not_disturb_another_on_the_same_stream(algorithm: Algorithm, progress: int) -> None:
    cluster = Cluster()
    cluster.issue("cam", algorithm, "q1")
    cluster.issue("bow", algorithm, "q2")
    issue_self_join(cluster, "cam", "q3", algorithm)
    cluster.settle()
    cluster.arrive("l", 3, 14, 14, 25)
    cluster.arrive("r", 4, 15, 26)
    for _ in range(progress):  # some of what is on its way arrives
        pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
        if pair is not None:
            cluster.deliver(*pair)
    cluster.give("cam", DropRequested("q1"))
    cluster.give("cam", DropRequested("q3"))
    cluster.settle()
    assert traces(cluster, "q1") == traces(cluster, "q3") == []
    finish(cluster, 40)
    assert state_of(cluster, "q2") == (QueryState.COMPLETED, "")
    assert cluster.results("q2") == cluster.oracle() != []
    assert cluster.holds_nothing()


def test_a_home_that_dies_for_good_leaves_a_self_join_of_the_stream_running() -> None:
    cluster = Cluster()
    cluster.issue("cam", query_id="q1")
    issue_self_join(cluster, "ash", "q2", Algorithm.SP_D)
    cluster.settle()
    cluster.arrive("l", 3, 14, 25)
    cluster.empty_disk("cam")
    cluster.restart("cam")
    cluster.settle()
    assert traces(cluster, "q1") == []
    cluster.arrive("l", 26, ended=True)
    cluster.settle()
    assert state_of(cluster, "q2") == (QueryState.COMPLETED, "")
    # All within 30 ms of each other; under two names a tuple also meets itself.
    assert cluster.results("q2") == [(one, other) for one in range(4) for other in range(4)]


def test_the_status_of_many_queries_tells_them_apart() -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.issue("cam", Algorithm.SM_D1, f"q{number}")
    cluster.settle()
    cluster.arrive("l", 3, 14, 25)
    cluster.arrive("r", 4, 15, 26)
    cluster.settle()
    cluster.give("cam", DropRequested("q2"))
    cluster.settle()
    ash = cluster.sites["ash"]
    assert sorted((count.query_id, count.alias, count.rows) for count in ash.view_counts()) == [
        (f"q{number}", "a", 2) for number in range(5)
    ]
    for half in ash.copy_statuses():  # one copy each way, which all share
        assert (half.query_id, half.users) == ("q0", ("q1", "q3", "q4"))
    assert sorted(ash.runs) == ["q0", "q1", "q3", "q4"]
    assert [home.state for home in cluster.sites["cam"].homes.values()].count(QueryState.RUNNING) == 4


def test_prepared_and_drop_may_cross() -> None:
    cluster = Cluster()
    cluster.issue("cam")
    cluster.deliver("cam", "ash")
    cluster.give("cam", DropRequested("q1"))
    assert isinstance(cluster.mail["ash", "cam"][0], Prepared)
    assert isinstance(cluster.mail["cam", "ash"][0], Drop)
    cluster.settle()
    assert IgnoreReason.QUERY_ENDED in cluster.ignored
    assert cluster.holds_nothing()
