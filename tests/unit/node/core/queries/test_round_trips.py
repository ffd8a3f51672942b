"""What homes are told of round trips, and when."""

from __future__ import annotations

import pytest

from node.core.effects import QueryState
from node.core.errors import PeerProtocolError
from node.core.events import ClockAdvanced, LinkMeasured
from node.core.limits import Limits
from node.core.links.messages import Delta, RoundTrips
from node.core.queries.home.delta import has_changed
from node.core.queries.participation.round_trips import RoundTripMeter
from planner.algorithms.descriptions import Algorithm
from planner.model.query import Policy, PolicyName
from tests.unit.sites import Cluster

EPOCH_US = Limits().delta_epoch_us
MEASURED = Policy(PolicyName.DELTA)


def meter(told_us: int = 40_000) -> RoundTripMeter:
    made = RoundTripMeter(Limits())
    made.measured("bow", told_us)
    assert made.tell("q1", ("ash", "bow")) == (("bow", told_us),)
    return made


@pytest.mark.parametrize(
    ("before_us", "now_us", "changed"),
    [
        (40_000, 49_999, False),
        (40_000, 50_000, True),
        (50_000, 40_001, False),
        (50_000, 40_000, True),
        (1_000, 2_999, False),
        (1_000, 3_000, True),
        (0, 2_000, True),
    ],
)
def test_what_changed_by_a_quarter_and_by_more_than_turns_take_is_another_round_trip(
    before_us: int, now_us: int, changed: bool
) -> None:
    assert has_changed(before_us, now_us) is changed


def test_the_longest_of_an_epoch_is_told_once() -> None:
    made = meter()
    for rtt_us in (41_000, 90_000, 39_000):
        made.measured("bow", rtt_us)
    assert made.news("q1", ("ash", "bow", "cam")) == (("bow", 90_000),)
    assert made.news("q1", ("ash", "bow", "cam")) == ()


def test_of_other_sites_than_its_own_a_query_is_told_nothing() -> None:
    made = meter()
    made.measured("cam", 90_000)
    assert made.news("q1", ("ash", "bow")) == ()
    assert made.tell("q2", ("ash", "cam")) == (("cam", 90_000),)


# -- sites ------------------------------------------------------------------------------------


def running(policy: Policy) -> Cluster:
    cluster = Cluster(policy=policy)
    for site in cluster.sites:
        cluster.give(site, ClockAdvanced())
    cluster.give("ash", LinkMeasured("bow", 400_000))
    cluster.issue("cam", Algorithm.SP_D)
    cluster.settle()
    assert cluster.state is QueryState.RUNNING
    return cluster


def pass_epoch(cluster: Cluster) -> None:
    cluster.now_us += EPOCH_US
    for site in cluster.sites:
        cluster.give(site, ClockAdvanced())
    cluster.settle()


def deltas(cluster: Cluster) -> set[int]:
    return {count.delta_us for site in cluster.sites.values() for count in site.probe_counts()}


def lingering(cluster: Cluster) -> set[int | None]:
    return {
        lease.linger
        for site in cluster.sites.values()
        for table in site.arrangements.local.all
        for lease in table.leases
    }


def test_delta_follows_the_links_while_a_query_runs() -> None:
    cluster = running(MEASURED)
    assert deltas(cluster) == {400_000}
    cluster.give("ash", LinkMeasured("bow", 800_000))
    assert deltas(cluster) == {400_000}, "the epoch is not over"
    pass_epoch(cluster)
    assert deltas(cluster) == {800_000}
    assert lingering(cluster) == {1_600}, "twice that, in milliseconds"
    cluster.give("ash", LinkMeasured("bow", 410_000))
    pass_epoch(cluster)
    assert deltas(cluster) == {410_000}


def test_what_hardly_changes_is_not_told() -> None:
    cluster = running(MEASURED)
    cluster.effects.clear()
    cluster.give("ash", LinkMeasured("bow", 420_000))
    pass_epoch(cluster)
    told = [getattr(effect, "message", None) for _, effect in cluster.effects]
    assert not any(isinstance(message, RoundTrips | Delta) for message in told)


@pytest.mark.parametrize("policy", [Policy(), Policy(PolicyName.DELTA, 5_000)], ids=["frontier", "delta=5ms"])
def test_a_delta_that_is_given_stays_and_frontiers_have_none(policy: Policy) -> None:
    cluster = running(policy)
    before = deltas(cluster)
    cluster.give("ash", LinkMeasured("bow", 800_000))
    pass_epoch(cluster)
    assert deltas(cluster) == before == {policy.delta_us or 0}
    (run,) = cluster.sites["bow"].runs.values()
    with pytest.raises(PeerProtocolError, match="requires policy delta, without a delta that was given, and a start"):
        run.on_delta(7)


def test_only_home_says_what_delta_is() -> None:
    cluster = running(MEASURED)
    cluster.say("ash", "bow", Delta("q1", 7))
    assert any("requires its delta from its home, cam; got ash" in reason for _, reason in cluster.blamed)


def test_who_is_no_site_of_a_query_changes_nothing() -> None:
    cluster = running(MEASURED)
    home = cluster.sites["cam"].homes["q1"]
    assert home.measured("dee", (("bow", 9_000_000),)) is None
    assert home.measured("ash", (("bow", 9_000_000),)) == 9_000_000


def test_what_a_site_says_of_others_than_those_of_a_query_is_not_kept() -> None:
    """It would be for as long as the query runs, however many names come."""
    cluster = running(MEASURED)
    home = cluster.sites["cam"].homes["q1"]
    before = dict(home._rtt_us)
    for number in range(100):
        cluster.say("ash", "cam", RoundTrips("q1", ((f"site{number}", 9_000_000),)))
    assert home._rtt_us == before
