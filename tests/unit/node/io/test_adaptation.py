"""When a query of this home is looked at for a better plan: one switch at a time, a rest after it, changed links."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.core.effects import SwitchState
from node.io.planning.adaptation import Adaptation, _differs, _Looked, _Watched
from node.io.planning.epochs import look_of
from node.io.results.issued_query import IssuedQuery
from node.io.results.switch_history import PlanChange, SwitchHistory
from tests.unit.node.io.test_epochs import EPOCH, WINDOW_S, begun, counted, epochs


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
