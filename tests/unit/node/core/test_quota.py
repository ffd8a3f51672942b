"""What logs keep, and for whom: by what somebody can still need, up to a quota, and never by the clock."""

from __future__ import annotations

import pytest

from node.core.events import ClockAdvanced, PeerStateLost
from node.core.limits import Limits
from node.core.streams.ticks import TICK_MIN
from tests.unit.sites import Cluster, rows_of

#: What a batch of one row takes in the memory's log.
ROW = rows_of([0]).nbytes + 8
HOUR_US = 3_600_000_000


def bounded(rows: int, **options: object) -> Cluster:
    """Logs may hold so many batches of a row."""
    return Cluster(limits=Limits(news_us=0, log_bytes_max=rows * ROW), **options)  # type: ignore[arg-type]


def feed(cluster: Cluster, first: int, end: int, *streams: str) -> None:
    """A row every 10 ms, each the only one of its batch; what follows from it happens."""
    for ts in range(first, end, 10):
        for stream in streams or ("l", "r"):
            cluster.arrive(stream, ts)
            cluster.settle()


def feed_what_is_read(cluster: Cluster, first: int, end: int) -> None:
    for ts in range(first, end, 10):
        for stream in [stream for stream in ("l", "r") if stream in cluster.reads]:
            cluster.arrive(stream, ts)
            cluster.settle()


def lose_home(cluster: Cluster, home: str = "cam") -> None:
    """A home is gone, and will not come back: what is sent there goes nowhere."""
    others = [site for site in cluster.sites if site != home]
    for site in others:
        cluster.give(site, PeerStateLost(home, "gone"))
        cluster.mail[site, home].clear()


def held(cluster: Cluster, site: str) -> int:
    return sum(stream.logged_bytes for stream in cluster.sites[site].streams.values())


def with_a_lost_home(quota: int) -> Cluster:
    """Two queries over the same streams; the home of the first is gone, that of the second is where ``r`` is."""
    cluster = bounded(quota)
    cluster.issue("cam", query_id="q1")
    cluster.issue("bow", query_id="q2")
    cluster.settle()
    feed(cluster, 0, 50)
    lose_home(cluster)
    return cluster


# -- at the quota -----------------------------------------------------------------------------


def test_a_query_whose_home_is_gone_fills_the_logs_up_to_the_quota_and_then_nothing_is_read() -> None:
    cluster = with_a_lost_home(20)
    feed_what_is_read(cluster, 50, 1_000)
    assert cluster.reads == {}
    # What was being read when the last batch went to the log came too.
    assert all(held(cluster, site) == 21 * ROW for site in ("ash", "bow"))
    assert {stream.state for site in ("ash", "bow") for stream in cluster.sites[site].streams.values()} == {"paused"}
    (kept, other) = cluster.sites["ash"].kept_for
    assert (kept.query_id, kept.home, kept.stream, kept.runs) == ("q1", "cam", "l", False)
    assert kept.nbytes == 21 * ROW
    assert (other.query_id, other.home, other.runs) == ("q2", "bow", True)
    assert other.nbytes < 10 * ROW
    assert kept.since < other.since


def test_when_less_is_needed_sources_are_read_on_by_themselves() -> None:
    cluster = with_a_lost_home(20)
    feed_what_is_read(cluster, 50, 1_000)
    assert cluster.reads == {}
    # The home comes back after all, and knows nothing of the query.
    cluster.empty_disk("cam")
    cluster.restart("cam")
    cluster.settle()
    assert held(cluster, "ash") < 10 * ROW
    assert cluster.reads.keys() == {"l", "r"}
    for stream in ("l", "r"):
        cluster.arrive(stream, 1_000, ended=True)
        cluster.settle()
    assert cluster.results("q2") == cluster.oracle() != []


def test_what_a_read_under_way_brings_at_the_quota_is_taken() -> None:
    cluster = bounded(3)
    cluster.issue("cam")
    cluster.settle()
    assert cluster.reads.keys() == {"l", "r"}
    for ts in (0, 10, 20, 30, 40):
        cluster.arrive("l", ts)
    assert held(cluster, "ash") == 4 * ROW
    assert "l" not in cluster.reads
    assert "r" in cluster.reads, "another site has a quota of its own"


def test_all_streams_of_a_site_share_its_quota() -> None:
    cluster = bounded(4, left="ash", right="ash")
    cluster.issue("cam")
    cluster.settle()
    for ts in range(0, 60, 10):
        cluster.arrive("l", ts)
    assert cluster.reads.keys() == {"r"}, "it was asked for before"
    cluster.arrive("r", 0)
    assert cluster.reads == {}


# -- what gives way ---------------------------------------------------------------------------


def test_what_is_only_retained_gives_way_before_anything_pauses() -> None:
    cluster = bounded(20, retain_ms=(10_000, 10_000))
    cluster.issue("cam")
    cluster.settle()
    feed(cluster, 0, 1_000)
    assert cluster.reads.keys() == {"l", "r"}
    assert all(19 * ROW <= held(cluster, site) < 20 * ROW for site in ("ash", "bow"))
    stream = cluster.sites["ash"].streams["l"]
    assert stream.earliest == stream.log_begin > TICK_MIN
    assert cluster.stream_logs["l"].nbytes == held(cluster, "ash"), "the log was cut too"
    # A query that comes now begins with what is still there.
    cluster.issue("bow", query_id="q2")
    cluster.settle()
    assert cluster.sites["ash"].runs["q2"].first_tick == stream.log_begin


def test_what_is_pinned_does_not_give_way_to_what_is_retained() -> None:
    cluster = bounded(20, retain_ms=(10_000, 10_000))
    cluster.issue("cam", query_id="q1")
    cluster.issue("bow", query_id="q2")
    cluster.settle()
    feed(cluster, 0, 50)
    since = cluster.sites["ash"].kept_for[0].since
    lose_home(cluster)
    feed_what_is_read(cluster, 50, 1_000)
    assert cluster.reads == {}
    stream = cluster.sites["ash"].streams["l"]
    assert stream.log_begin == since, "all that was only retained is gone, and nothing else"


def test_the_largest_log_gives_way_first() -> None:
    cluster = bounded(60, left="ash", right="ash", retain_ms=(10_000, 10_000))
    cluster.issue("cam")
    cluster.settle()
    for ts in range(0, 1_000, 10):
        feed(cluster, ts, ts + 10, "l", *(["r"] if ts % 100 == 0 else []))
    left, right = cluster.sites["ash"].streams.values()
    assert left.log_begin > right.log_begin == TICK_MIN
    assert 59 * ROW <= left.logged_bytes + right.logged_bytes < 60 * ROW


# -- after a restart --------------------------------------------------------------------------


def test_after_a_restart_a_full_site_is_as_full_as_before() -> None:
    cluster = with_a_lost_home(20)
    feed_what_is_read(cluster, 50, 1_000)
    cluster.restart("ash")
    cluster.mail["ash", "cam"].clear()
    cluster.settle_but(("ash", "cam"), ("bow", "cam"))
    assert held(cluster, "ash") == 21 * ROW
    assert "l" not in cluster.reads
    assert cluster.sites["ash"].kept_for[0].home == "cam"


def test_what_nobody_needs_after_a_restart_goes_at_once() -> None:
    """Else a site that is full of it would never read anything, and so never cut its logs."""
    cluster = bounded(5)
    cluster.issue("cam")
    cluster.settle()
    for ts in range(0, 70, 10):
        cluster.arrive("l", ts)
    assert held(cluster, "ash") == 6 * ROW
    cluster.records["ash"].clear()
    cluster.records["cam"].clear()
    cluster.restart("ash", "cam")
    assert held(cluster, "ash") == 0


# -- by need, not by the clock ----------------------------------------------------------------


@pytest.mark.parametrize("retain_ms", [(0, 0), (100, 100)])
def test_no_clock_has_a_say_in_what_logs_keep(retain_ms: tuple[int, int]) -> None:
    def trims(pause_us: int) -> list[object]:
        cluster = Cluster(retain_ms=retain_ms)
        cluster.issue("cam")
        cluster.settle()
        for ts in range(0, 300, 10):
            cluster.now_us += pause_us
            for site in cluster.sites:
                cluster.give(site, ClockAdvanced())
            feed(cluster, ts, ts + 10)
        begins = [stream.log_begin for site in ("ash", "bow") for stream in cluster.sites[site].streams.values()]
        assert min(begins) > TICK_MIN
        return [*cluster.trims, begins]

    assert trims(0) == trims(HOUR_US)


def test_a_pin_of_a_home_that_is_gone_does_not_age() -> None:
    cluster = with_a_lost_home(1_000)
    (before,) = [kept for kept in cluster.sites["ash"].kept_for if kept.query_id == "q1"]
    cluster.now_us += 10_000 * HOUR_US
    for site in cluster.sites:
        cluster.give(site, ClockAdvanced())
    cluster.settle()
    feed(cluster, 50, 300)
    (after,) = [kept for kept in cluster.sites["ash"].kept_for if kept.query_id == "q1"]
    assert (after.since, after.home) == (before.since, before.home)
    assert after.nbytes > before.nbytes
