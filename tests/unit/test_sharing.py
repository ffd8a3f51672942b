"""Replicas shared by queries: synced once, exact for each query, and gone when the last one is."""

from __future__ import annotations

import random

import pytest

from node.core.effects import QueryState, RunOp, Send
from node.core.engine import Engine, OpenWindow
from node.core.events import DropRequested, EngineFailed, PeerStateLost, QueryIssued
from node.core.messages import Attach, Detach, Fetch, Message, ReplicaSync, Sync
from node.core.site import Site
from node.core.ticks import TICK_MIN
from node.engine.native import NativeEngine
from planner.model import Algorithm
from planner.plans import forced_plan
from planner.sql import parse_query
from tests.oracle.oracle import Window
from tests.sim.reference_engine import ReferenceEngine
from tests.unit.sites import TAU_MS, TIME_WINDOW, Cluster, query_text

SHARED = pytest.mark.parametrize("algorithm", [Algorithm.SP_S, Algorithm.SM_D1, Algorithm.SM_S2])
WINDOWS: list[Window] = [TIME_WINDOW, ("rows", 3)]
BOTH = pytest.mark.parametrize("window", WINDOWS, ids=["time", "count"])


def issue(cluster: Cluster, sink: str, query_id: str, algorithm: Algorithm, window: Window, where: str = "") -> None:
    query = parse_query(query_text(window) + where, cluster.sites[sink].catalogue)
    cluster.give(sink, QueryIssued(query_id, forced_plan(query, sink, algorithm)))


def sent(cluster: Cluster, *kinds: type[Message]) -> list[Message]:
    messages = [effect.message for _, effect in cluster.effects if isinstance(effect, Send)]
    return [message for message in messages if isinstance(message, kinds)]


def from_ts(cluster: Cluster, query_id: str) -> int | None:
    home = next(site.homes[query_id] for site in cluster.sites.values() if query_id in site.homes)
    return None if home._first_tick == TICK_MIN else home._first_tick * TAU_MS


def check(cluster: Cluster, query_id: str, window: Window) -> None:
    cluster.window = window
    assert cluster.results(query_id) == cluster.oracle(from_ts(cluster, query_id)), query_id


def state_of(cluster: Cluster, query_id: str) -> tuple[QueryState, str]:
    return [(state, reason) for name, state, reason in cluster.states if name == query_id][-1]


def feed(cluster: Cluster, first: int, end: int, seed: int = 1) -> None:
    rng = random.Random(seed)
    for base in range(first, end, 10):
        for stream in ("l", "r"):
            ts = sorted(rng.randrange(base, base + 10) for _ in range(rng.randrange(4)))
            cluster.arrive(stream, *ts, watermark=base + 10, keys=[rng.randrange(4) for _ in ts] or None)
            cluster.settle()


def finish(cluster: Cluster, ts: int) -> None:
    for stream in ("l", "r"):
        cluster.arrive(stream, ts, ts + 1, ended=True)
        cluster.settle()


def leaves_nothing(cluster: Cluster) -> bool:
    lingering = [site.sharing.lingering for site in cluster.sites.values()]
    bound = [site.sharing._hosts or site.sharing._users for site in cluster.sites.values()]
    return cluster.holds_nothing() and not any(lingering) and not any(bound)


# -- one copy for two -------------------------------------------------------------------------


@SHARED
@BOTH
@pytest.mark.parametrize("engine", [ReferenceEngine, NativeEngine])
def test_a_second_query_is_exact_and_costs_no_second_sync(
    algorithm: Algorithm, window: Window, engine: type[Engine]
) -> None:
    cluster = Cluster(window=window, engine=engine)
    issue(cluster, "cam", "q1", algorithm, window)
    cluster.settle()
    feed(cluster, 0, 100)
    before = {name: len(opened) for name, opened in cluster.open_windows.items()}
    issue(cluster, "ash", "q2", algorithm, window)
    cluster.settle()
    assert len(sent(cluster, Attach)) == 2  # one for each stream
    copies = {Algorithm.SP_S: 0, Algorithm.SM_D1: 1, Algorithm.SM_S2: 0}[algorithm]  # V has no tuples to join with
    for name in ("ash", "bow"):
        assert len(cluster.open_windows[name]) == before[name] + copies
    feed(cluster, 100, 200, seed=2)
    finish(cluster, 200)
    assert {message.query_id for message in sent(cluster, Sync, ReplicaSync, Fetch)} == {"q1"}
    for query_id in ("q1", "q2"):
        check(cluster, query_id, window)
        assert cluster.results(query_id)
    assert cluster.results("q1") != cluster.results("q2")
    assert leaves_nothing(cluster)


@SHARED
@BOTH
def test_a_replica_outlives_its_query_and_ends_with_its_last_user(algorithm: Algorithm, window: Window) -> None:
    cluster = Cluster(window=window)
    issue(cluster, "cam", "q1", algorithm, window)
    cluster.settle()
    feed(cluster, 0, 60)
    for query_id in ("q2", "q3"):
        issue(cluster, "bow", query_id, algorithm, window)
        cluster.settle()
        feed(cluster, 60 if query_id == "q2" else 90, 90 if query_id == "q2" else 120, seed=3)
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    assert sorted(cluster.sites["ash"].runs) == ["q2", "q3"]
    assert list(cluster.sites["ash"].sharing.lingering) == ["q1"]
    shown = [(status.query_id, status.users) for status in cluster.sites["ash"].replica_statuses()][-2:]
    assert shown == [("q1", ("q2", "q3"))] * 2  # one half each of the two copies
    feed(cluster, 120, 160, seed=4)
    issue(cluster, "cam", "q4", algorithm, window)  # attaches to what lingers
    cluster.settle()
    assert [message.host for message in sent(cluster, Attach) if isinstance(message, Attach)] == ["q1"] * 6
    cluster.give("bow", DropRequested("q2"))
    cluster.settle()
    feed(cluster, 160, 200, seed=5)
    finish(cluster, 200)
    for query_id in ("q3", "q4"):
        assert state_of(cluster, query_id) == (QueryState.COMPLETED, "")
        check(cluster, query_id, window)
        assert cluster.results(query_id)
    assert leaves_nothing(cluster)
    halves = [(status.query_id, status.role, status.users) for status in cluster.sites["ash"].replica_statuses()]
    assert len(halves) == len(set(halves)) == 2  # q1's two, as they were at the end
    ended = [(message.query_id, message.replica) for message in sent(cluster, Detach) if isinstance(message, Detach)]
    assert len(ended) == len(set(ended)) == 8


@SHARED
@pytest.mark.parametrize(
    ("window", "where"),
    [(("range", 40_000), ""), (TIME_WINDOW, " WHERE a.n > 3 AND b.n > 3"), (("rows", 7), "")],
    ids=["other length", "filter", "other kind"],
)
def test_only_what_holds_the_same_is_shared(algorithm: Algorithm, window: Window, where: str) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    feed(cluster, 0, 50)
    issue(cluster, "cam", "q2", algorithm, window, where)
    cluster.settle()
    assert sent(cluster, Attach) == []
    feed(cluster, 50, 100)
    finish(cluster, 100)
    check(cluster, "q1", TIME_WINDOW)
    if not where:
        check(cluster, "q2", window)
    assert leaves_nothing(cluster)


@pytest.mark.parametrize("algorithm", [Algorithm.SM_S1, Algorithm.SM_D2, Algorithm.SP_D])
def test_what_is_no_such_copy_is_not_shared(algorithm: Algorithm) -> None:
    cluster = Cluster()
    for query_id in ("q1", "q2"):
        issue(cluster, "cam", query_id, algorithm, TIME_WINDOW)
        cluster.settle()
    assert sent(cluster, Attach, Detach) == []


@SHARED
def test_a_query_that_begins_in_the_retained_past_has_a_copy_of_its_own(algorithm: Algorithm) -> None:
    cluster = Cluster(retain_ms=(1_000, 1_000))
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    feed(cluster, 0, 100)
    issue(cluster, "cam", "q2", algorithm, TIME_WINDOW)
    cluster.settle()
    assert sent(cluster, Attach) == []
    finish(cluster, 100)
    for query_id in ("q1", "q2"):
        assert cluster.results(query_id) == cluster.oracle() != []
    assert leaves_nothing(cluster)


def test_windows_keep_what_the_slower_of_two_queries_can_see() -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", Algorithm.SP_S, TIME_WINDOW)
    cluster.settle()
    feed(cluster, 0, 50)
    issue(cluster, "bow", "q2", Algorithm.SP_S, TIME_WINDOW)
    cluster.settle()
    done = cluster.sites["ash"].runs["q1"]._parts
    assert done is not None
    states = [window.state for window in done.windows]
    kept = [state.kept_from for state in states]
    cluster.mail["bow", "ash"].clear()  # q2's sink is cut off from ash: no Done of q2, but all of q1's
    for tick in range(50, 300, 10):
        for stream in ("l", "r"):
            if stream in cluster.reads:
                cluster.arrive(stream, tick)
        for pair in (("ash", "cam"), ("bow", "cam"), ("cam", "ash"), ("cam", "bow"), ("ash", "bow")):
            while cluster.mail[pair]:
                cluster.deliver(*pair)
    assert max(state.kept_from for state in states) <= max(kept) + 60


# -- failures ---------------------------------------------------------------------------------


@SHARED
def test_a_copy_that_fails_fails_all_who_use_it_and_nobody_else(algorithm: Algorithm) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    issue(cluster, "bow", "q2", algorithm, TIME_WINDOW)
    issue(cluster, "bow", "q3", algorithm, ("rows", 2))
    cluster.settle()
    feed(cluster, 0, 30)
    cluster.give("ash", EngineFailed("q1", "disk on fire"))
    cluster.settle()
    assert state_of(cluster, "q1") == (QueryState.FAILED, "disk on fire")
    assert state_of(cluster, "q2") == (
        QueryState.FAILED,
        "at ash: the replica that it shares with query q1 is gone",
    )
    finish(cluster, 40)
    check(cluster, "q3", ("rows", 2))
    assert leaves_nothing(cluster)


@SHARED
def test_a_lingering_copy_that_fails_fails_its_users(algorithm: Algorithm) -> None:
    cluster = Cluster()
    for query_id in ("q1", "q2"):
        issue(cluster, "cam", query_id, algorithm, TIME_WINDOW)
        cluster.settle()
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    cluster.give("bow", EngineFailed("q1", "disk on fire"))
    cluster.settle()
    assert state_of(cluster, "q2") == (QueryState.FAILED, "disk on fire")
    assert leaves_nothing(cluster)


@SHARED
def test_a_wrong_sync_fails_all_who_use_the_copy(algorithm: Algorithm) -> None:
    cluster = Cluster()
    for query_id in ("q1", "q2"):
        issue(cluster, "cam", query_id, algorithm, TIME_WINDOW)
        cluster.settle()
    wrong = ReplicaSync("q1", 0, 5, 0, b"", b"", b"", b"x")
    cluster.say("bow", "ash", wrong)
    cluster.settle()
    assert {state_of(cluster, query_id)[0] for query_id in ("q1", "q2")} == {QueryState.FAILED}
    assert leaves_nothing(cluster)


@SHARED
def test_an_attach_to_what_is_not_here_fails_the_query_that_needs_it(algorithm: Algorithm) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    cluster.say("bow", "ash", Attach("q1", 0, "zz", 0))  # replica 0 is b's, held at ash
    cluster.settle()
    reason = "at ash: a shared replica requires its host, zz; it is not here any more"
    assert state_of(cluster, "q1") == (QueryState.FAILED, reason)
    assert leaves_nothing(cluster)


@SHARED
@pytest.mark.parametrize("lost", ["ash", "bow", "cam"])
def test_a_site_that_loses_its_state_leaves_nothing_shared(algorithm: Algorithm, lost: str) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    issue(cluster, "ash", "q2", algorithm, TIME_WINDOW)
    cluster.settle()
    feed(cluster, 0, 30)
    cluster.give("ash", DropRequested("q2"))
    issue(cluster, "bow", "q3", algorithm, TIME_WINDOW)
    cluster.settle()
    own = [stream.info for stream in cluster.sites[lost].streams.values()]
    cluster.sites[lost] = Site(lost, TAU_MS, [], cluster.limits)
    cluster.open_windows[lost].clear()
    cluster.answers[lost].clear()
    for pair in list(cluster.mail):
        if lost in pair:
            cluster.mail[pair].clear()
    for name in cluster.sites:
        if name != lost:
            cluster.give(name, PeerStateLost(lost, "restarted"))
    cluster.settle()
    if lost == "cam":  # q1's home; q3 goes on with what was q1's
        assert own == []
        feed(cluster, 30, 60)
        finish(cluster, 60)
        check(cluster, "q3", TIME_WINDOW)
        assert state_of(cluster, "q3") == (QueryState.COMPLETED, "")
    assert leaves_nothing(cluster)


# -- any order --------------------------------------------------------------------------------


class Fate:
    """Random queries come and go over the same two streams, and messages arrive in any order links allow."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = Cluster(retain_ms=self.rng.choice([(0, 0), (0, 0), (40, 60)]))
        self.windows: dict[str, Window] = {}
        self.ts = 0
        self.last = {"l": 0, "r": 0}

    def step(self) -> None:
        rng, cluster = self.rng, self.cluster
        pairs = [pair for pair, mail in cluster.mail.items() if mail]
        sites = [site for site, answers in cluster.answers.items() if answers]
        dice = rng.random()
        if dice < 0.03 and len(self.windows) < 8:
            self._issue()
        elif dice < 0.04 and self.windows:
            self._drop()
        elif dice < 0.15 and cluster.reads:
            stream = rng.choice(sorted(cluster.reads))
            self.ts += rng.randrange(0, 12)
            ts = sorted(rng.randint(max(self.last[stream], self.ts - 9), self.ts) for _ in range(rng.randrange(4)))
            self.last[stream] = max([self.last[stream], *ts])  # nothing is late
            cluster.arrive(stream, *ts, keys=[rng.randrange(3) for _ in ts] or None)
        elif pairs and (dice < 0.6 or not sites):
            cluster.deliver(*rng.choice(pairs))
        elif sites:
            cluster.answer(rng.choice(sites))

    def _issue(self) -> None:
        query_id = f"q{len(self.windows)}"
        self.windows[query_id] = self.rng.choice([TIME_WINDOW, TIME_WINDOW, ("rows", 3)])
        algorithms = [Algorithm.SP_S, Algorithm.SM_D1, Algorithm.SM_S2, Algorithm.SM_S2, Algorithm.SM_S1]
        sink = self.rng.choice(["ash", "bow", "cam"])
        query = parse_query(query_text(self.windows[query_id]), self.cluster.sites[sink].catalogue)
        choice = {alias: self.rng.choice(algorithms) for alias in ("a", "b")}
        self.cluster.give(sink, QueryIssued(query_id, forced_plan(query, sink, choice)))

    def _drop(self) -> None:
        query_id = self.rng.choice(sorted(self.windows))
        home = next(site for site in self.cluster.sites.values() if query_id in site.homes)
        self.cluster.give(home.name, DropRequested(query_id))

    def end(self) -> None:
        cluster = self.cluster
        cluster.settle()
        for stream in ("l", "r"):
            if stream in cluster.reads:
                cluster.arrive(stream, self.ts + 20, self.ts + 21, ended=True)
                cluster.settle()


@pytest.mark.parametrize("seed", range(30))
def test_queries_that_come_and_go_are_exact_in_any_order_of_messages(seed: int) -> None:
    fate = Fate(seed)
    for _ in range(600):
        fate.step()
    fate.end()
    cluster = fate.cluster
    assert cluster.blamed == []
    for query_id, window in fate.windows.items():
        state, reason = state_of(cluster, query_id)
        assert state is not QueryState.FAILED, reason
        if state is QueryState.COMPLETED:
            check(cluster, query_id, window)
    assert leaves_nothing(cluster)


def test_those_fates_share_what_they_are_meant_to_share() -> None:
    attached = rows = 0
    for seed in range(10):
        fate = Fate(seed)
        for _ in range(600):
            fate.step()
        fate.end()
        attached += len(sent(fate.cluster, Attach))
        rows += sum(len(fate.cluster.results(query_id)) for query_id in fate.windows)
    assert attached > 10
    assert rows > 100


def test_a_window_is_opened_for_each_copy_once() -> None:
    cluster = Cluster()
    for number in range(3):
        issue(cluster, "cam", f"q{number}", Algorithm.SP_S, TIME_WINDOW)
        cluster.settle()
    opened = [
        effect.op.window
        for _, effect in cluster.effects
        if isinstance(effect, RunOp) and isinstance(effect.op, OpenWindow)
    ]
    assert sorted(cluster.open_windows["ash"] + cluster.open_windows["bow"]) == sorted(
        name for name in opened if name.startswith("q0/")
    )
