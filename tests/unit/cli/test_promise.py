"""A query's ID is given to somebody who leaves only when a crash cannot undo the query."""

from __future__ import annotations

from typing import cast

import pytest

from cli.tasks.delivery import await_promise
from node.client import Client
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError


class Home:
    """Says one state after the other."""

    def __init__(self, *states: QueryState) -> None:
        self.left = list(states)

    def query(self, query_id: str) -> pb.QueryInfo:
        return pb.QueryInfo(query_id=query_id, state=self.left.pop(0), reason="the disk burns")


@pytest.mark.parametrize("then", [QueryState.RUNNING, QueryState.COMPLETED, QueryState.RECOVERING])
def test_it_is_waited_for_while_it_is_prepared(then: QueryState) -> None:
    home = Home(QueryState.PREPARING, QueryState.PREPARING, then)
    await_promise(cast("Client", home), "cam-1-1")
    assert home.left == []


@pytest.mark.parametrize("then", [QueryState.FAILED, QueryState.DROPPED])
def test_a_query_that_comes_to_nothing_is_an_error_with_its_reason(then: QueryState) -> None:
    with pytest.raises(NarrowsError, match=f"query cam-1-1 {then}: the disk burns"):
        await_promise(cast("Client", Home(QueryState.PREPARING, then)), "cam-1-1")
