"""From epoch to epoch: what was measured between two looks, when to look, and that looking costs little."""

from __future__ import annotations

import numpy as np
import pytest

from node.core.effects import ReportStatistics
from node.core.links.messages import RunningCounts
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.io.planning.epochs import COUNTS_SHARE, STILL_S_MIN, SURVEY_SHARE, Epochs, look_of, survey_bytes
from planner.estimate.statistics import HASH_END, KeySketch, StreamProfile
from planner.model.query import JoinQuery
from tests.unit.streams import made, query_of, range_s

TAU_US = 100_000
EPOCH = 20
WINDOW_S = 3
SKETCH = KeySketch(np.arange(100, dtype=np.uint64), np.ones(100, np.int64), HASH_END)
PROFILE = StreamProfile(100, 1_000_000, 1.0, {"v": 20.0}, {("k",): SKETCH})
PROFILED = ReportStatistics("?", {"a": PROFILE, "b": PROFILE}, {}, {})


def query() -> JoinQuery:
    streams = {name: made(np.random.default_rng(1), 10, {"k": (0, 9)}) for name in "ab"}
    return query_of(streams, dict.fromkeys("ab", range_s(WINDOW_S)), [("a.k", "b.k")])


def epochs() -> Epochs:
    return Epochs(query(), "c", EPOCH, TAU_US)


def counted(sent: int, shipped: int = 0, sealed: int | None = None) -> ReportStatistics:
    """``sealed``: up to where stream a is, if that is not where the query is."""
    frontiers = () if sealed is None else (("a", sealed),)
    a = RunningCounts((("c", sent),), (("a", shipped),), frontiers)
    counts = {"a": a, "b": RunningCounts((("c", 0),), (("b", 0),))}
    return ReportStatistics("?", {}, {}, {}, (), counts)


def begun(found: Epochs, tick: int = 0, at_s: float = 0.0) -> int:
    """Up to the first look; the tick of it."""
    assert not found.is_due(tick, at_s)
    first = tick + WINDOW_S * 10
    assert not found.is_due(first - 1, at_s + 2.9)
    assert found.is_due(first, at_s + 3)
    assert found.take(look_of(counted(0), first, at_s + 3)) is None
    return first


def test_a_query_is_looked_at_once_in_an_epoch_of_what_is_done_and_not_while_it_is_nowhere() -> None:
    found = epochs()
    assert not found.is_due(TICK_MIN, 0.0)
    first = begun(found)
    assert not found.is_due(first + EPOCH - 1, 5.0)
    assert found.is_due(first + EPOCH, 5.1)
    # An epoch that is over within a moment is not looked at for each of them.
    assert not found.is_due(first + EPOCH, 3.5)
    assert not found.is_due(TICK_END, 9.0)


def test_what_is_measured_is_the_difference_of_two_looks_in_event_time() -> None:
    found = epochs()
    first = begun(found)
    measured = found.take(look_of(counted(60_000, 40_000), first + EPOCH, 4.0))
    assert measured is not None
    # Two seconds of event time in one of the clock.
    assert measured.sent == {("a", "c"): 30_000, ("b", "c"): 0}
    assert measured.ship_all == {"a": 20_000, "b": 0}
    assert measured.pace == pytest.approx(2.0)
    assert found.length_s == pytest.approx(1.0)
    # A site that was restarted counts anew.
    assert found.take(look_of(counted(10, 5), first + 2 * EPOCH, 5.0)) is None
    assert found.take(look_of(counted(210, 5), first + 3 * EPOCH, 6.0)) is not None


def test_what_shipping_everything_would_send_goes_by_what_is_sealed_and_nothing_by_streams_that_end() -> None:
    found = epochs()
    first = begun(found)
    found.take(look_of(counted(0, 0, first + 10), first, 3.5))
    behind = found.take(look_of(counted(60_000, 40_000, first + 50), first + EPOCH, 4.5))
    assert behind is not None
    # What is sealed was sent, whether it is done or not.
    assert behind.sent["a", "c"] == 15_000
    assert behind.ship_all["a"] == 10_000
    assert found.take(look_of(counted(90_000, 40_000, TICK_END), first + 2 * EPOCH, 5.5)) is None


def test_who_stands_still_is_looked_at_less_and_less_often() -> None:
    found = epochs()
    first = begun(found)
    at_s, looks = 3.0, []
    while at_s < 3600:
        at_s += 0.5
        if found.is_due(first, at_s):
            looks.append(at_s)
            found.take(look_of(counted(0), first, at_s))
    gaps = np.diff(looks)
    assert gaps[0] >= 2 * STILL_S_MIN
    assert len(looks) < 20
    assert gaps.max() == 600


def test_after_a_switch_it_rests_until_windows_are_those_of_the_new_plan() -> None:
    found = epochs()
    first = begun(found)
    found.begin_plan(first + 5)
    assert not found.is_due(first + 5 + EPOCH, 8.0)
    tick = first + 5 + WINDOW_S * 10
    assert found.is_due(tick, 9.0)
    # Whether it is as expected is known after half an epoch; then epochs are whole again.
    for at_s, ticks in ((11.0, EPOCH // 2), (13.0, EPOCH)):
        found.take(look_of(counted(10_000 * tick), tick, at_s - 1.0))
        assert not found.is_due(tick + ticks - 1, at_s)
        tick += ticks
        assert found.is_due(tick, at_s)


def test_what_is_sent_has_changed_if_it_is_not_what_it_was_when_streams_were_measured() -> None:
    found = epochs()
    first = begun(found)
    sent = 0
    for epoch, more in enumerate((60_000, 80_000, 80_000, 100_000, 100_000, 60_000), 1):
        assert not found.has_changed
        sent += more
        found.take(look_of(counted(sent), first + epoch * EPOCH, 3.0 + 2.0 * epoch))
        changed = found.has_changed
        # 60 of the first epoch are as good as 80 of others, and not as 100.
        assert changed == (epoch in (4, 6))
        if changed or epoch == 1:
            found.surveyed(PROFILED)
    found.rest(first + 6 * EPOCH)
    assert not found.has_changed


def test_who_falls_behind_its_streams_is_looked_at_by_the_clock_and_has_changed() -> None:
    found = epochs()
    first = begun(found)
    found.take(look_of(counted(60_000, 0, first + EPOCH + 2), first + EPOCH, 5.0))
    found.surveyed(PROFILED)
    assert found.length_s == pytest.approx(2.0)
    tick = first + EPOCH + EPOCH // 2
    assert not found.is_due(tick, 7.0)
    assert found.is_due(tick, 8.0)
    found.take(look_of(counted(99_000, 0, tick + EPOCH // 4), tick, 8.0))
    assert not found.has_changed
    found.take(look_of(counted(204_000, 0, tick + 2 * EPOCH), tick + EPOCH // 2, 11.0))
    assert found.has_changed


def test_streams_are_measured_by_an_epoch_and_what_its_tuples_see_or_by_half_of_one_that_has_changed() -> None:
    found = epochs()
    assert found.past_us(lately=False) == (EPOCH + WINDOW_S * 10) * TAU_US
    assert found.past_us(lately=True) == (EPOCH // 2 + WINDOW_S * 10) * TAU_US


def test_without_a_reason_a_survey_is_left_over_for_when_there_is_one() -> None:
    found = epochs()
    first = begun(found)
    found.surveyed(PROFILED)
    assert not found.may_survey(urgent=False)
    found.take(look_of(counted(100_000_000), first + EPOCH, 5.0))
    surveys = 0
    while found.may_survey(urgent=False):
        surveys += 1
        found.surveyed(PROFILED)
    assert surveys == 2
    assert found.may_survey(urgent=True)


@pytest.mark.parametrize("bytes_per_epoch", [0, 300, 5_000, 1_000_000])
def test_looking_costs_a_small_share_of_what_the_query_sends(bytes_per_epoch: int) -> None:
    found = epochs()
    tick = begun(found)
    survey = survey_bytes(PROFILED, query(), "c")
    assert survey > 1_000
    sent = spent = looks = surveys = 0.0
    for epoch in range(1, 2_001):
        tick, now_s = tick + EPOCH, 3.0 + 2.0 * epoch
        sent += bytes_per_epoch
        if not found.is_due(tick, now_s):
            continue
        looks += 1
        found.take(look_of(counted(round(sent)), tick, now_s))
        if found.may_survey(urgent=False):
            surveys += 1
            spent += survey
            found.surveyed(PROFILED)
    assert spent <= SURVEY_SHARE * sent
    assert looks * 300 <= max(1.2 * COUNTS_SHARE * sent, 300 * (2 + 2_000 / 60))
    assert (surveys > 0) == (bytes_per_epoch > 0)


def test_what_is_urgent_runs_into_debt_but_not_without_end() -> None:
    found = epochs()
    begun(found)
    found.surveyed(PROFILED)
    surveys = 0
    while found.may_survey(urgent=True):
        surveys += 1
        found.surveyed(PROFILED)
    assert 1 <= surveys < 5
    assert not found.may_survey(urgent=False)
