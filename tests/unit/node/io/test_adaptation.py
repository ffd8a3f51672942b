"""When a query of this home is looked at for a better plan: one switch at a time, a rest after it, changed links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.config.values import PlannerConfig
from node.core.effects import QueryState, ReportStatistics, ReportSwitch, SwitchState
from node.core.links.link_states import LinkState
from node.core.links.messages import RunningCounts
from node.io.planning.adaptation import Adaptation, _differs, _Looked, _Watched
from node.io.planning.epochs import look_of
from node.io.planning.outcome import Forecast, Planned
from node.io.results.issued_query import IssuedQuery
from node.io.results.switch_history import PlanChange, SwitchHistory
from planner.estimate.statistics import LinkStats, Statistics
from planner.model.plans import links_of
from planner.model.query import Plan
from planner.search.choice import choose
from tests.unit.node.io.test_epochs import EPOCH, TAU_US, WINDOW_S, begun, counted, epochs
from tests.unit.planner.search.test_replanning import as_measured, triangle


def change(number: int, state: SwitchState) -> PlanChange:
    return PlanChange(number, 0, "why", "a", "b", "a", "b", "q", "q~1", 0, state=state)


def query(*changes: PlanChange) -> Any:
    history = SwitchHistory()
    for each in changes:
        history.add(each)
    return SimpleNamespace(switches=history)


def settled(watched: _Watched, tick: int, *changes: PlanChange) -> bool:
    return Adaptation._has_settled(query(*changes), watched, tick)


@pytest.mark.parametrize("state", [SwitchState.PREPARING, SwitchState.SWITCHING])
def test_a_query_that_goes_over_to_a_plan_is_not_looked_at_for_another(state: SwitchState) -> None:
    watched = _Watched(epochs())
    assert settled(watched, 5)
    assert not settled(watched, 5, change(1, state))


def test_after_a_switch_it_rests_once() -> None:
    watched = _Watched(epochs())
    first = begun(watched.epochs)
    switched = change(1, SwitchState.SWITCHED)
    assert settled(watched, first, switched)
    assert not watched.epochs.is_due(first + EPOCH, 9.0)
    assert settled(watched, first + EPOCH, switched)
    assert watched.epochs.is_due(first + WINDOW_S * 10, 9.5)


def test_after_a_switch_that_was_given_up_it_rests_longer_each_time() -> None:
    watched = _Watched(epochs())
    tick, rests = begun(watched.epochs), []
    for number in range(1, 5):
        assert settled(watched, tick, change(number, SwitchState.GIVEN_UP))
        began = tick
        while not watched.epochs.is_due(tick, 0.1 * tick):
            tick += 1
        rests.append(tick - began)
        watched.epochs.take(look_of(counted(0), tick, 0.1 * tick))
    assert rests == sorted(set(rests))
    assert rests[-1] > 4 * rests[0]
    # One that is made ends the count.
    assert settled(watched, tick, change(9, SwitchState.SWITCHED))
    assert watched.given_up == 0


class Adapting(Adaptation):
    """Looks at queries that are due always, with what a test says comes of that."""

    def __init__(self, looks: dict[str, _Looked | None], undecided: str) -> None:
        self.decided: list[str] = []
        self._looks, self._undecided = looks, undecided
        queries = {name: SimpleNamespace(query_id=name, adaptive=True, ending=False) for name in looks}
        self._queries = cast("Any", SimpleNamespace(by_id=queries))
        self._watched, self._loop = {}, asyncio.get_running_loop()

    def _is_due(self, *_: object) -> bool:
        return True

    async def _look(self, query: IssuedQuery) -> _Looked:
        looked = self._looks[query.query_id]
        if looked is None:
            raise KeyError("a stream that no query has")
        return looked

    async def _decide(self, looked: _Looked) -> None:
        if looked.query.query_id == self._undecided:
            raise ValueError("a plan that nobody can cost")
        self.decided.append(looked.query.query_id)


def test_a_query_that_cannot_be_looked_at_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    """Sites say what comes of it, each of the others' queries too."""

    def looked(name: str, badness: float) -> _Looked:
        found = SimpleNamespace(query_id=name)
        return _Looked(cast("Any", found), _Watched(epochs()), cast("Any", None), None, urgent=False, badness=badness)

    async def review() -> list[str]:
        looks = {"q1": looked("q1", 0.5), "q2": None, "q3": looked("q3", 3.0), "q4": looked("q4", 2.0)}
        adapting = Adapting(looks, undecided="q3")
        await adapting._review()
        return adapting.decided

    assert asyncio.run(review()) == ["q4", "q1"], "the worst first"
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"query {name} is not looked at for a better plan this time" for name in ("q2", "q3")]


@pytest.mark.parametrize(
    ("before", "now", "differs"),
    [
        ((50_000, 1e6), (60_000, 1.1e6), False),
        ((50_000, 1e6), (50_000, 0.4e6), True),
        ((50_000, 1e6), (50_000, 2.5e6), True),
        ((50_000, 1e6), (200_000, 1e6), True),
        ((200_000, 1e6), (50_000, 1e6), True),
        # A few milliseconds more are no reason, however many times as much that is.
        ((1_000, None), (30_000, None), False),
        ((None, None), (30_000, None), False),
        ((50_000, None), (50_000, 1e5), True),
    ],
)
def test_a_link_is_not_what_it_was_if_it_carries_less_or_takes_longer_by_a_factor(
    before: tuple[int | None, float | None], now: tuple[int | None, float | None], differs: bool
) -> None:
    assert _differs(before, now) == differs


#: The query's windows are filled first.
FIRST_LOOK_S = 11.0


class Site:
    """The home, at c, of a query over streams of a and b, and what the sites say when they are asked."""

    def __init__(self, statistics: Statistics, plan: Plan, planned: Planned | None = None) -> None:
        self.now_s = 0.0
        self.tick = 0
        self.sent_s = 0.0
        self.statistics = statistics
        self.unreached: tuple[str, ...] = ()
        #: So many times as much is sent as was.
        self.times = 1.0
        self.asked: list[bool] = []
        self.switched: list[tuple[Plan, str, bool]] = []
        sink = SimpleNamespace(frontiers=[("a", 0), ("b", 0)])
        self.home = SimpleNamespace(sink=sink, plan=plan, state=QueryState.RUNNING, catching_up=())
        links = {site: SimpleNamespace(state=LinkState.UP, rtt_us=50_000) for site in "ab"}
        bandwidths = {site: SimpleNamespace(bytes_per_s=None) for site in "ab"}
        stack = SimpleNamespace(
            site=SimpleNamespace(name="c", homes={"q": self.home}), links=links, bandwidths=bandwidths
        )
        self.query = SimpleNamespace(
            query_id="q",
            adaptive=True,
            ending=False,
            planned=planned or Planned(plan),
            switches=SwitchHistory(),
            outlook="",
        )
        runner = SimpleNamespace(stack=stack, statistics=self._statistics, replan=self._replan)
        desk = SimpleNamespace(search=self._search, beside=lambda _: self.statistics)
        config = SimpleNamespace(tau_ms=TAU_US // 1000, planner=PlannerConfig(epoch_ticks=EPOCH))
        queries = SimpleNamespace(by_id={"q": self.query})
        self.adaptation = Adaptation(*cast("tuple[Any, Any, Any, Any]", (runner, desk, queries, config)))
        self.adaptation._loop = cast("Any", SimpleNamespace(time=lambda: self.now_s))

    async def _statistics(self, _: object, __: str, *, counts_only: bool = False, past_us: int = 0) -> ReportStatistics:
        self.asked.append(counts_only)
        # A link that carries nothing makes no difference here: what was sent before it was cut was as expected.
        usual, seconds = as_measured(self.home.plan, self.statistics), self.sent_s
        counts = {
            site: RunningCounts(
                tuple((peer, round(size * seconds)) for (source, peer), size in usual.sent.items() if source == site),
                tuple((alias, round(size * seconds)) for alias, size in usual.ship_all.items() if alias == site),
                unreached=tuple(other for other in self.unreached if site != "c" and other != site),
            )
            for site in "abc"
        }
        return ReportStatistics("?", {**self.statistics.profiles}, {}, {}, (), counts)

    @staticmethod
    async def _search(work: Callable[..., object], *arguments: object) -> object:
        return work(*arguments)

    async def _replan(self, _: str, plan: Plan, why: str, __: Forecast, *, at_once: bool) -> ReportSwitch:
        self.switched.append((plan, why, at_once))
        self.query.switches.add(change(len(self.switched), SwitchState.SWITCHED))
        return ReportSwitch("q", 1, SwitchState.PREPARING, plan, why)

    async def passes(self, seconds: float, *, done: bool = True) -> None:
        """Time, and as much event time, which is done."""
        for _ in range(round(2 * seconds)):
            self.now_s += 0.5
            if done:
                self.tick += 500_000 // TAU_US
                self.sent_s += 0.5 * self.times
                self.home.sink.frontiers = [("a", self.tick), ("b", self.tick)]
            await self.adaptation._review()


def at_home(play: Callable[[Site], Any], statistics: Statistics, plan: Plan, planned: Planned | None = None) -> Site:
    async def played() -> Site:
        site = Site(statistics, plan, planned)
        await play(site)
        return site

    return asyncio.run(played())


def test_a_link_between_two_other_sites_that_is_cut_for_an_epoch_is_avoided_at_once() -> None:
    query, now = triangle()
    plan = choose(query, "c", now).plan
    assert ("a", "b") in links_of(plan)

    async def play(site: Site) -> None:
        await site.passes(FIRST_LOOK_S)
        site.unreached = ("a", "b")
        # Nothing is done any more; so it is looked at, and again when the cut has lasted.
        await site.passes(2.5, done=False)
        assert site.switched == []
        await site.passes(2.5, done=False)

    ((other, why, at_once),) = at_home(play, now, plan).switched
    assert ("a", "b") not in links_of(other)
    assert "the link a-b is cut" in why
    assert at_once


def test_a_cut_that_is_over_before_an_epoch_is_changes_nothing() -> None:
    query, now = triangle()
    plan = choose(query, "c", now).plan

    async def play(site: Site) -> None:
        await site.passes(FIRST_LOOK_S)
        site.unreached = ("a", "b")
        await site.passes(2.5, done=False)
        site.unreached = ()
        await site.passes(10)

    assert at_home(play, now, plan).switched == []


def test_a_price_that_was_changed_while_the_home_was_down_is_a_reason_to_plan_again() -> None:
    """Nobody knows then what the plan was chosen by, so streams are measured as soon as it can be."""
    query, now = triangle()
    cheap = {way: LinkStats(50_000, 1e9, 0.02) for way in now.links}
    plan = choose(query, "c", replace(now, links=cheap)).plan
    dear = {way: replace(link, price_per_gb=40.0) if set(way) == {"a", "b"} else link for way, link in cheap.items()}

    async def play(site: Site) -> None:
        await site.passes(FIRST_LOOK_S + 2 * EPOCH * TAU_US / 1e6)

    ((other, why, at_once),) = at_home(play, replace(now, links=dear), plan).switched
    assert ("a", "b") not in links_of(other)
    assert "weighed by price" in why
    assert not at_once


def test_a_bandwidth_that_has_fallen_is_looked_at_before_the_epoch_is_over() -> None:
    query, now = triangle()
    choice = choose(query, "c", now)

    async def play(site: Site) -> None:
        await site.passes(FIRST_LOOK_S)
        links, looks = site.adaptation._runner.stack.bandwidths, len(site.asked)
        await site.passes(0.5)
        assert len(site.asked) == looks
        links["a"] = cast("Any", SimpleNamespace(bytes_per_s=1_000.0))
        await site.passes(1.0)
        assert len(site.asked) > looks

    at_home(play, now, choice.plan, Planned(choice.plan, choice))


def test_what_has_just_changed_is_decided_half_an_epoch_later_when_windows_are_of_the_time_after() -> None:
    query, now = triangle()
    now = replace(now, links={})
    choice = choose(query, "c", now)
    asked: list[bool] = []

    async def play(site: Site) -> None:
        # So much that looking costs next to nothing.
        site.times = 1e4
        await site.passes(FIRST_LOOK_S + 20)
        before = len(site.asked)
        site.times = 3e4
        await site.passes(4)
        asked.extend(site.asked[before:])

    at_home(play, now, choice.plan, Planned(choice.plan, choice))
    # At each look for counts alone; and streams are measured at the second one.
    assert asked[:3] == [True, True, False]
