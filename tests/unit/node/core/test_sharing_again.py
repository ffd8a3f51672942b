"""After a crash queries that shared tables and copies share them again: nothing is shipped once for each of them."""

from __future__ import annotations

import pytest

from node.core.arrangements.lease import Lease
from node.core.effects import QueryState
from node.core.events import ClockAdvanced, PeerStateLost
from node.core.links.messages import NO_GENERATION, Fence, Fetch, Fetched, Lost, OpenCopy, Sync, payload_bytes
from planner.model.query import Algorithm
from tests.oracle.oracle import Window
from tests.unit.sites import RESTARTED, Cluster

COPYING = pytest.mark.parametrize("algorithm", [Algorithm.SP_S, Algorithm.SM_S1, Algorithm.SM_S2, Algorithm.SM_D1])
EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))
WINDOWS = pytest.mark.parametrize("window", [("range", 30_000), ("rows", 2)], ids=["time", "count"])
DEATHS = pytest.mark.parametrize("dead", [("ash",), ("bow",), ("cam",), ("ash", "bow", "cam")], ids="+".join)


def crowd(algorithm: Algorithm, count: int, window: Window) -> Cluster:
    cluster = Cluster(window=window)
    for number in range(count):
        cluster.issue("cam", algorithm, f"q{number}")
    cluster.settle()
    return cluster


def feed(cluster: Cluster, first: int) -> None:
    cluster.arrive("l", first, first + 4, first + 11, keys=[1, 2, 1])
    cluster.arrive("r", first + 2, first + 4, first + 13, keys=[1, 2, 2])
    cluster.settle()


def kept(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """By site: how many tables of its own streams it has, and how many copies of others'."""
    sites = {name: site.arrangements for name, site in cluster.sites.items()}
    return {name: (len(found.local.all), len(found.held.all)) for name, found in sites.items()}


def finish(cluster: Cluster, first: int) -> None:
    cluster.arrive("l", first, ended=True)
    cluster.arrive("r", first + 1, ended=True)
    cluster.settle()


def check_all(cluster: Cluster) -> None:
    for query_id in {query_id for query_id, _, _ in cluster.states}:
        assert cluster.results(query_id) == cluster.oracle() != []
    assert cluster.blamed == []
    assert cluster.leftovers() == []


@EVERY
@WINDOWS
@DEATHS
def test_as_many_tables_and_copies_are_there_as_before(
    algorithm: Algorithm, window: Window, dead: tuple[str, ...]
) -> None:
    cluster = crowd(algorithm, 4, window)
    for first in (0, 30, 60):
        feed(cluster, first)
    before = kept(cluster)
    cluster.restart(*dead)
    cluster.settle()
    assert kept(cluster) == before
    feed(cluster, 90)
    assert kept(cluster) == before
    finish(cluster, 120)
    check_all(cluster)


@EVERY
@WINDOWS
@DEATHS
def test_queries_that_are_done_to_different_ticks_share_again(
    algorithm: Algorithm, window: Window, dead: tuple[str, ...]
) -> None:
    """The rows of one are stored late; whichever is started first, the others find what they need."""
    for late in ("q0", "q1", "q2"):
        cluster = crowd(algorithm, 3, window)
        feed(cluster, 0)
        feed(cluster, 30)
        before = kept(cluster)
        cluster.hold_stores = True
        feed(cluster, 60)
        while others := [one for one in cluster.storing["cam"] if one.query_id != late]:
            cluster.finish_store("cam", cluster.storing["cam"].index(others[0]))
        cluster.settle()
        cluster.hold_stores = False
        cluster.restart(*dead)
        cluster.settle()
        if window[0] == "range":
            # Only its owner can tell from where on a count window is needed.
            assert kept(cluster) == before
        while cluster.storing["cam"]:
            cluster.finish_store("cam")
        cluster.settle()
        feed(cluster, 90)
        finish(cluster, 120)
        check_all(cluster)


@COPYING
@WINDOWS
def test_what_is_shipped_after_a_crash_does_not_grow_with_the_number_of_queries(
    algorithm: Algorithm, window: Window
) -> None:
    def shipped(count: int) -> int:
        cluster = crowd(algorithm, count, window)
        for first in (0, 30, 60):
            feed(cluster, first)
        cluster.effects.clear()
        cluster.restart("bow")
        cluster.settle()
        return sum(payload_bytes(message) for message in cluster.sent(Sync))

    assert shipped(8) == shipped(1)


@pytest.mark.parametrize("algorithm", [Algorithm.SM_D1, Algorithm.SM_S2])
def test_a_query_that_may_wait_for_long_holds_nothing_and_opens_its_own_copy(algorithm: Algorithm) -> None:
    cluster = crowd(algorithm, 1, ("range", 30_000))
    feed(cluster, 0)
    cluster.restart("bow")
    cluster.settle_but(("bow", "cam"), ("cam", "bow"))
    run = cluster.sites["ash"].runs["q0"]
    assert not run.started
    assert [claim.is_own for claim in cluster.sites["ash"].arrangements.owned.claims] == [False]
    cluster.now_us += cluster.limits.prepare_us
    cluster.give("cam", ClockAdvanced())
    cluster.settle_but(("bow", "cam"), ("cam", "bow"))
    assert [claim.is_own for claim in cluster.sites["ash"].arrangements.owned.claims] == [True]
    cluster.settle()
    assert cluster.state is QueryState.RUNNING
    feed(cluster, 30)
    finish(cluster, 60)
    check_all(cluster)


def test_a_query_that_waits_for_long_lets_tables_forget_what_it_will_not_fetch() -> None:
    """q0 waits for bow, which cam does not reach; q1 goes on."""
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SM_S2, "q0")
    cluster.issue("ash", Algorithm.SM_S2, "q1")
    cluster.settle()
    feed(cluster, 0)
    cut = ("bow", "cam"), ("cam", "bow")
    cluster.restart("bow")
    cluster.settle_but(*cut)
    cluster.now_us += cluster.limits.prepare_us
    cluster.give("cam", ClockAdvanced())
    for first in range(30, 240, 30):
        cluster.settle_but(*cut)
        cluster.arrive("l", first, first + 4, first + 11, keys=[1, 2, 1])
        cluster.arrive("r", first + 2, first + 4, first + 13, keys=[1, 2, 2])
    cluster.settle_but(*cut)
    ash = cluster.sites["ash"].arrangements
    assert [claim.is_own for claim in ash.owned.claims] == [True]
    (table,) = ash.local.all
    assert table.kept_from > 9
    cluster.settle()
    finish(cluster, 240)
    check_all(cluster)


def test_a_site_that_waits_too_long_for_the_start_lets_go_by_itself() -> None:
    cluster = crowd(Algorithm.SM_D1, 1, ("range", 30_000))
    feed(cluster, 0)
    cluster.restart("bow")
    cluster.settle_but(("ash", "cam"), ("bow", "cam"), ("cam", "bow"))
    assert "q0" in cluster.sites["ash"].runs
    cluster.now_us += cluster.limits.prepared_us
    cluster.give("ash", ClockAdvanced())
    assert "q0" not in cluster.sites["ash"].runs
    assert not cluster.sites["ash"].arrangements.owned.claims
    cluster.settle()
    feed(cluster, 30)
    finish(cluster, 60)
    check_all(cluster)


def test_a_start_waits_until_all_sites_were_heard_to_be_ready() -> None:
    """Before that it is not known here what the owner's halves of copies have forgotten."""
    cluster = crowd(Algorithm.SM_D1, 1, ("range", 30_000))
    feed(cluster, 0)
    cluster.restart("cam")
    cluster.settle_but(("ash", "bow"))
    run = cluster.sites["bow"].runs["q0"]
    assert (cluster.state, run.started) == (QueryState.RUNNING, False)
    assert any(isinstance(message, Fence) for message in cluster.mail["ash", "bow"])
    cluster.settle()
    assert run.started
    feed(cluster, 30)
    assert min(run.done.values()) > 1
    finish(cluster, 60)
    check_all(cluster)


def test_what_is_fetched_from_a_mixed_copy_waits_until_the_tables_of_its_queries_are_filled() -> None:
    cluster = crowd(Algorithm.SM_S2, 1, ("range", 30_000))
    feed(cluster, 0)
    cluster.restart("bow")
    cluster.settle()
    cluster.arrive("l", 30, 41, keys=[5, 5])
    cluster.settle()
    ash = cluster.sites["ash"].arrangements
    (copy,) = ash.owned.all
    reach, generation = copy.leases[0].reach, copy.leases[0].generation
    cluster.hold_logs = True
    table = ash.local.past("l", cluster.sites["ash"].streams["l"].log_begin)
    lease = Lease("q0", generation, reach, copy.spec.keys, first_tick=0)
    table.lease(lease)
    cluster.give("ash", ClockAdvanced())
    cluster.effects.clear()
    cluster.hold_logs = False
    cluster.arrive("r", 33, 45, keys=[5, 5])
    cluster.settle()
    assert cluster.sent(Fetch, site="bow")
    assert not cluster.sent(Fetched, site="ash")
    cluster.hear_logs()
    cluster.settle()
    assert len(cluster.sent(Fetched, site="ash")) == len(cluster.sent(Fetch, site="bow"))
    ash.release("l", table, lease)
    feed(cluster, 60)
    finish(cluster, 90)
    check_all(cluster)


# -- a generation that is void at one site and goes on at another ------------------------------


@EVERY
def test_a_generation_that_is_void_at_one_site_is_so_at_the_others_before_they_hear_what_that_one_forgets(
    algorithm: Algorithm,
) -> None:
    """ash lost its session with cam, the home of q1; cam and bow do not know. q2 has all that q1 shared with it."""
    cluster = Cluster()
    cluster.issue("cam", algorithm, "q1")
    cluster.issue("bow", algorithm, "q2")
    cluster.settle()
    feed(cluster, 0)
    generation = cluster.sites["bow"].runs["q1"].generation
    cluster.give("ash", PeerStateLost("cam", RESTARTED))
    assert cluster.mail["ash", "bow"][0] == Fence("q1", NO_GENERATION)
    cluster.deliver("ash", "bow")
    assert "q1" not in cluster.sites["bow"].runs
    assert "q1" in cluster.sites["bow"].pins
    (lost,) = cluster.mail["bow", "cam"]
    assert lost == Lost("q1", generation, "site ash lost what it knew")
    cluster.mail["cam", "ash"].clear()
    cluster.mail["ash", "cam"].clear()
    cluster.give("cam", PeerStateLost("ash", RESTARTED))
    cluster.settle()
    feed(cluster, 30)
    finish(cluster, 60)
    check_all(cluster)


def test_openings_are_few() -> None:
    cluster = crowd(Algorithm.SP_S, 6, ("range", 30_000))
    feed(cluster, 0)
    cluster.effects.clear()
    cluster.restart("ash")
    cluster.settle()
    assert len(cluster.sent(OpenCopy)) == 2
