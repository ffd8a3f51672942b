"""A query is dropped where it was not issued: it ends there for good, and everywhere once its home hears of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.core.effects import KeepRecord, QueryState, RemoveRecord, ReportDropped, Send
from node.core.events import DropRequested
from node.core.links.messages import Done, Drop, Failed, Message
from node.core.query_records import HomeRecord, PinRecord, RecordKind
from tests.unit.sites import Cluster

DROPPED = "dropped at ash by a user"
LOST = "site ash refused: data loss: stream l requires its log; got one without ticks "
NOT_KEPT = "it was dropped here by a user, or had failed here, or the site began anew"


def running() -> Cluster:
    cluster = Cluster()
    cluster.issue("cam")
    cluster.settle()
    feed(cluster, 0)
    return cluster


def feed(cluster: Cluster, first: int) -> None:
    cluster.arrive("l", first, first + 4, first + 11, keys=[1, 2, 1])
    cluster.arrive("r", first + 2, first + 4, first + 13, keys=[1, 2, 2])
    cluster.settle()


def test_home_hears_of_it_and_ends_it_everywhere() -> None:
    cluster = running()
    cluster.give("ash", DropRequested("q1"))
    assert cluster.mail["ash", "cam"][-1] == Failed("q1", DROPPED)
    assert cluster.sites["ash"].pins == ()
    cluster.settle()
    assert (cluster.state, cluster.reason) == (QueryState.FAILED, DROPPED)
    assert cluster.leftovers() == []


def test_nothing_is_kept_when_it_is_said_to_be_dropped() -> None:
    """What follows on the removal of the pin waits until that is durable."""
    cluster = running()
    cluster.effects.clear()
    cluster.give("ash", DropRequested("q1"))
    said = [effect for _, effect in cluster.effects if isinstance(effect, RemoveRecord | ReportDropped)]
    assert said == [RemoveRecord(RecordKind.PIN, "q1"), ReportDropped("q1")]


def test_a_query_that_is_not_there_any_more_is_said_to_be_dropped() -> None:
    cluster = running()
    cluster.give("ash", DropRequested("q7"))
    assert cluster.effects[-1] == ("ash", ReportDropped("q7"))
    assert cluster.sites["ash"].pins == ("q1",)


def test_a_home_that_was_away_and_returns_is_refused() -> None:
    cluster = running()
    cluster.give("ash", DropRequested("q1"))
    cluster.mail["ash", "cam"].clear()
    cluster.restart("cam")
    cluster.settle()
    lost = f"{LOST}-2 to 1, which results are still to be found with: {NOT_KEPT}"
    assert (cluster.state, cluster.reason) == (QueryState.FAILED, lost)
    assert cluster.leftovers() == []
    assert all(RecordKind.PIN not in {kind for kind, _ in records} for records in cluster.records.values())


def test_a_query_without_a_pin_is_refused_although_the_log_has_what_it_seems_to_need() -> None:
    """Nobody knows what was cut from it."""
    cluster = Cluster(retain_ms=(10_000, 0))
    cluster.issue("cam")
    cluster.settle()
    feed(cluster, 0)
    cluster.give("ash", DropRequested("q1"))
    cluster.mail["ash", "cam"].clear()
    cluster.restart("cam")
    cluster.settle()
    required = "site ash refused: data loss: site ash requires what it kept for query q1; got nothing"
    assert (cluster.state, cluster.reason) == (QueryState.FAILED, f"{required}: {NOT_KEPT}")
    assert cluster.leftovers() == []


def test_a_site_that_only_keeps_the_pin_drops_it_too_and_knows_so_after_a_restart() -> None:
    cluster = running()
    cluster.restart("ash")
    cluster.mail["ash", "cam"].clear()
    cluster.mail["cam", "ash"].clear()
    assert (cluster.sites["ash"].pins, list(cluster.sites["ash"].runs)) == (("q1",), [])
    cluster.give("ash", DropRequested("q1"))
    assert cluster.mail["ash", "cam"][-1] == Failed("q1", DROPPED)
    assert cluster.sites["ash"].pins == ()
    cluster.mail["ash", "cam"].clear()
    cluster.restart("ash", "cam")
    cluster.settle()
    lost = f"{LOST}start to 1, of which results were delivered: {NOT_KEPT}"
    assert (cluster.state, cluster.reason) == (QueryState.FAILED, lost)
    assert cluster.leftovers() == []


def test_others_keep_what_they_have_until_home_is_back() -> None:
    cluster = running()
    cluster.give("ash", DropRequested("q1"))
    cluster.settle_but(("ash", "cam"))
    assert "q1" in cluster.sites["bow"].pins
    cluster.settle()
    assert "q1" not in cluster.sites["bow"].pins


def test_a_site_without_streams_of_the_query_may_begin_anew() -> None:
    """Nothing was kept there that the query needs: home itself is such a site here, and has its own record."""
    cluster = running()
    del cluster.records["cam"][RecordKind.PIN, "q1"]
    cluster.restart("cam")
    cluster.settle()
    assert cluster.state is QueryState.RUNNING


def complete(cluster: Cluster) -> None:
    cluster.arrive("l", 90, ended=True)
    cluster.arrive("r", 91, ended=True)
    cluster.settle()


def drop(cluster: Cluster) -> None:
    cluster.give("cam", DropRequested("q1"))


@pytest.mark.parametrize(("end", "told"), [(complete, Done), (drop, Drop)])
def test_the_end_is_kept_before_sites_hear_of_it(end: Callable[[Cluster], None], told: type[Message]) -> None:
    """They remove their pins then, without which the query could not begin again if home died."""
    cluster = running()
    cluster.effects.clear()
    end(cluster)
    effects = [effect for site, effect in cluster.effects if site == "cam"]
    kept = [
        place
        for place, effect in enumerate(effects)
        if isinstance(effect, KeepRecord) and isinstance(effect.record, HomeRecord) and effect.record.state.ended
    ]
    sent = [
        place for place, effect in enumerate(effects) if isinstance(effect, Send) and isinstance(effect.message, told)
    ]
    assert len(kept) == 1
    assert len([place for place in sent if place > kept[0]]) == 2, "one for each of the others"
    if told is Drop:
        assert min(sent) > kept[0]


def test_a_pin_of_a_stream_that_left_the_configuration_does_no_harm() -> None:
    cluster = running()
    cluster.records["ash"][RecordKind.PIN, "q1"] = PinRecord("q1", "cam", ("l", "gone"))
    cluster.restart("ash")
    assert [kept.stream for kept in cluster.sites["ash"].kept_for] == ["l"]
    cluster.settle()
    assert cluster.state is QueryState.RUNNING
