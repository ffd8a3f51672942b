"""A query's ID is given to somebody who leaves only when a crash cannot undo the query."""

from __future__ import annotations

from typing import cast

import pytest

from cli.exit_codes import FAILED
from cli.failures import said
from cli.tasks.delivery import await_promise
from node.client import AwayTooLongError, Client, UnknownQueryError
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError


class Home:
    """Says one state after the other, and that a site is away."""

    def __init__(self, *states: QueryState, away_s: float = 0.0) -> None:
        self.left = list(states)
        self._away = [pb.AwaySite(site="bow", trouble="refused", seconds=away_s)] if away_s else []

    def query(self, query_id: str) -> pb.QueryInfo:
        return pb.QueryInfo(query_id=query_id, state=self.left.pop(0), reason="the disk burns", away=self._away)


class Lost:
    def query(self, query_id: str) -> pb.QueryInfo:
        raise UnknownQueryError(f"it knows no {query_id}")


@pytest.mark.parametrize("then", [QueryState.RUNNING, QueryState.COMPLETED, QueryState.RECOVERING])
def test_it_is_waited_for_while_it_is_prepared(then: QueryState) -> None:
    home = Home(QueryState.PREPARING, QueryState.PREPARING, then)
    await_promise(cast("Client", home), "cam-1-1")
    assert home.left == []


@pytest.mark.parametrize("then", [QueryState.FAILED, QueryState.DROPPED])
def test_a_query_that_comes_to_nothing_is_an_error_with_its_reason(then: QueryState) -> None:
    with pytest.raises(NarrowsError, match=f"query cam-1-1 {then}: the disk burns"):
        await_promise(cast("Client", Home(QueryState.PREPARING, then)), "cam-1-1")


def test_a_query_that_its_home_forgot_was_not_asked_for_wrongly() -> None:
    with pytest.raises(NarrowsError, match="query cam-1-1 is gone, before it was prepared") as raised:
        await_promise(cast("Client", Lost()), "cam-1-1")
    assert said(raised.value)[1] == FAILED


def test_a_home_is_asked_less_and_less_often_while_a_query_is_prepared() -> None:
    pauses: list[float] = []
    states = [QueryState.PREPARING] * 10
    await_promise(cast("Client", Home(*states, QueryState.RUNNING)), "cam-1-1", sleep=pauses.append)
    assert pauses[:3] == [0.02, 0.04, 0.08]
    assert max(pauses) == 0.5


def test_a_site_that_is_away_is_waited_for_as_long_as_was_asked_for() -> None:
    home = Home(*[QueryState.PREPARING] * 100, away_s=60)
    with pytest.raises(AwayTooLongError, match=r"(?s)site bow is away .* is still being prepared: narrows queries"):
        await_promise(cast("Client", home), "cam-1-1", 0.05)
    assert home.left
