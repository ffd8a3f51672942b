"""The life of a query at a site: what may happen when, and what is kept until it starts."""

from __future__ import annotations

import pytest

from node.core.effects import QueryState
from node.core.engine import Append, Expire
from node.core.errors import PeerProtocolError
from node.core.events import DropRequested
from node.core.links.messages import Done, Drop, OpenCopy, Prepare, Prepared, Start
from node.core.queries.life import TABLE, Life, Reaction, RunEvent, RunState
from node.core.streams.ticks import TICK_MIN
from planner.model.query import Algorithm
from tests.oracle.oracle import Window
from tests.unit.sites import QUERY, TAU_MS, TIME_WINDOW, Cluster

EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))
WINDOWS: list[Window] = [TIME_WINDOW, ("rows", 3)]
BOTH = pytest.mark.parametrize("window", WINDOWS, ids=["time", "count"])

#: How each state is reached.
WAYS: dict[RunState, tuple[RunEvent, ...]] = {
    RunState.PREPARED: (),
    RunState.RUNNING: (RunEvent.START,),
    RunState.OVER: (RunEvent.START, RunEvent.END),
}


@pytest.mark.parametrize("event", RunEvent)
@pytest.mark.parametrize("state", RunState)
def test_every_pair_of_state_and_event_is_in_the_table_or_refused(state: RunState, event: RunEvent) -> None:
    life = Life("q1")
    for before in WAYS[state]:
        life.on(before)
    assert life.state is state
    if (state, event) in TABLE:
        assert (life.on(event), life.state) == TABLE[state, event]
        return
    with pytest.raises(PeerProtocolError, match=f"query q1 is {state}, which requires no {event}; got one"):
        life.on(event)
    assert life.state is state


def test_a_life_begins_once_and_ends_for_good() -> None:
    assert [state for (state, _), (reaction, _) in TABLE.items() if reaction is Reaction.BEGIN] == [RunState.PREPARED]
    assert not [event for state, event in TABLE if state is RunState.OVER]
    ends = {state for (state, event), (_, after) in TABLE.items() if event is RunEvent.END and after is RunState.OVER}
    assert ends == {RunState.PREPARED, RunState.RUNNING}


# -- between Prepare and Start ----------------------------------------------------------------


def prepared(algorithm: Algorithm, window: Window = TIME_WINDOW) -> Cluster:
    """Query q1 runs and has seen four ticks; q2 is prepared at ash and bow, and its home has not heard that."""
    cluster = Cluster(window=window)
    cluster.issue("cam", algorithm)
    cluster.settle()
    for base in range(0, 40, 10):
        for stream in ("l", "r"):
            cluster.arrive(stream, base + 1, base + 5, watermark=base + 10)
            cluster.settle()
    cluster.issue("bow", algorithm, "q2")
    assert isinstance(cluster.deliver("bow", "ash"), Prepare)
    return cluster


def settle_without_q2(cluster: Cluster) -> None:
    """Everything arrives but what ash says to q2's home first: that it is prepared."""
    held = cluster.mail["ash", "bow"].popleft()
    assert isinstance(held, Prepared)
    cluster.settle()
    cluster.mail["ash", "bow"].append(held)


def own_expired(cluster: Cluster) -> int:
    """How often the streams' own tables were told to forget."""
    return len([op for op in cluster.ops(Expire) if op.table in ("l/1", "r/1")])


@EVERY
@BOTH
def test_a_prepared_query_freezes_what_is_kept_until_it_is_over_or_starts(algorithm: Algorithm, window: Window) -> None:
    cluster = prepared(algorithm, window)
    before, trims = own_expired(cluster), len(cluster.trims)
    for base in range(40, 100, 10):
        for stream in ("l", "r"):
            cluster.arrive(stream, base + 1, base + 5, watermark=base + 10)
            settle_without_q2(cluster)
    assert own_expired(cluster) == before
    assert cluster.trims[trims:] == []
    cluster.give("bow", DropRequested("q2"))
    cluster.settle()
    for stream in ("l", "r"):
        cluster.arrive(stream, 101, 110, ended=False)
        cluster.settle()
    assert {trim.stream for trim in cluster.trims[trims:]} == {"l", "r"}
    if algorithm is not Algorithm.SP_S:  # there the streams' own tables are only looked at through copies
        assert own_expired(cluster) > before


@EVERY
@BOTH
@pytest.mark.parametrize("ticks", [0, 1, 3])
def test_what_was_sealed_between_prepare_and_start_is_the_querys_own(
    algorithm: Algorithm, window: Window, ticks: int
) -> None:
    cluster = prepared(algorithm, window)
    for base in range(40, 40 + 10 * ticks, 10):
        for stream in ("l", "r"):
            cluster.arrive(stream, base + 1, base + 5, watermark=base + 10)
            settle_without_q2(cluster)
    # With SP-S also those of the copy that is there already, which may be the query's own.
    kept = 2 * ticks if algorithm is Algorithm.SP_S else ticks
    assert cluster.sites["ash"].runs["q2"].early_batches == kept
    cluster.settle()
    assert cluster.sites["ash"].runs["q2"].early_batches == 0
    for stream in ("l", "r"):
        cluster.arrive(stream, 101, 102, ended=True)
        cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results("q1") == cluster.oracle()
    assert cluster.results("q2") == cluster.oracle(from_ts=40) != []
    assert cluster.leftovers() == []


@EVERY
def test_a_step_message_waits_for_the_start_and_is_then_answered(algorithm: Algorithm) -> None:
    #  cam -- Start --> ash -- OpenCopy, Carry, AskMatches --> bow, which hears of the start last
    cluster = Cluster()
    cluster.issue("cam", algorithm)
    for site in ("ash", "bow"):
        cluster.deliver("cam", site)
        cluster.deliver(site, "cam")
    cluster.deliver("cam", "ash", 2)
    for ts in (1, 12, 23):
        cluster.arrive("l", ts, watermark=ts + 9)
    while cluster.mail["ash", "bow"]:
        cluster.deliver("ash", "bow")
    assert cluster.ops(Append, "bow") == []
    assert not cluster.answers["bow"]  # nothing was asked of the engine
    assert isinstance(cluster.deliver("cam", "bow"), Start)
    cluster.settle()
    cluster.arrive("r", 2, 13, 24, ended=True)
    cluster.arrive("l", ended=True)
    cluster.settle()
    assert cluster.results() == cluster.oracle() != []
    assert cluster.leftovers() == []


def test_done_before_the_start_is_wrong() -> None:
    cluster = Cluster()
    cluster.issue("cam")
    cluster.deliver("cam", "bow")
    cluster.say("cam", "bow", Done("q1", (("a", 3),)))
    cluster.settle()
    assert cluster.reason == "site cam broke the protocol: query q1 is prepared, which requires no done; got one"
    assert cluster.leftovers() == []


@pytest.mark.parametrize("started", [False, True], ids=["prepared", "running"])
def test_a_query_that_is_over_leaves_no_claim_and_no_lease(started: bool) -> None:
    cluster = Cluster()
    plan = cluster.plan("cam", Algorithm.SM_S2)
    cluster.say("cam", "ash", Prepare("q9", QUERY, "cam", plan.sequences, tuple(cluster.infos.values())))
    arrangements = cluster.sites["ash"].arrangements
    assert [claim.lease.frozen for claim in arrangements.owned.claims] == [True]
    if started:
        cluster.say("cam", "ash", Start("q9", TICK_MIN, None))
        assert [claim.lease.frozen for claim in arrangements.owned.claims] == [False]
        assert [type(message) for message in cluster.mail["ash", "bow"]] == [OpenCopy]
    assert arrangements.in_use
    cluster.say("cam", "ash", Drop("q9"))
    assert not arrangements.in_use


# -- a query that begins in the past ----------------------------------------------------------


@EVERY
@BOTH
def test_a_query_that_begins_in_the_past_has_a_table_of_its_own_out_of_the_log(
    algorithm: Algorithm, window: Window
) -> None:
    cluster = Cluster(window=window, retain_ms=(50, 1_000))
    cluster.issue("cam", algorithm)
    cluster.settle()
    for base in range(0, 100, 10):
        for stream in ("l", "r"):
            cluster.arrive(stream, base + 1, base + 5, watermark=base + 10)
            cluster.settle()
    cluster.issue("cam", algorithm, "q2")
    cluster.settle()
    (start,) = {
        message.tick for message in cluster.sent(Start) if isinstance(message, Start) and message.query_id == "q2"
    }
    assert start == 5
    own = {table.name: table.users for table in cluster.sites["ash"].table_statuses() if table.stream == "l"}
    if algorithm is not Algorithm.SP_S:
        assert own == {"l/1": ("q1",), "l/2": ("q2",)}
    for stream in ("l", "r"):
        cluster.arrive(stream, 101, 102, ended=True)
        cluster.settle()
    assert cluster.results("q1") == cluster.oracle() != []
    assert cluster.results("q2") == cluster.oracle(from_ts=start * TAU_MS) != []
    assert cluster.leftovers() == []
