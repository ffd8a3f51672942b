"""A query that had failed at one site alone was given wrong rows until its home heard of it.

The owner of r gives q1 up. It tells q1's home, and the holder of its full copy that q1's portion ends. The holder heard
first, knew no longer which of its tuples pass q1's filter, and computed it itself, from columns that had never been
sent. Their nulls passed ``IS NULL``. Now who loses its portion ends at once.
"""

from __future__ import annotations

from node.core.effects import QueryState
from node.core.events import QueryIssued
from node.core.links.messages import Carry
from node.core.streams.ticks import Span
from planner.algorithms.descriptions import Algorithm
from planner.model.plans import forced_plan
from planner.sql.parser import parse_query
from tests.unit.sites import Cluster


def issue(cluster: Cluster, query_id: str, where: str) -> None:
    text = f"SELECT a.n AS an, b.key AS bn FROM l [RANGE 1 S] AS a JOIN r [RANGE 1 S] AS b ON a.key = b.key {where}"
    plan = forced_plan(parse_query(text, cluster.sites["cam"].catalogue), "cam", Algorithm.SP_S)
    cluster.give("cam", QueryIssued(query_id, plan))
    cluster.settle()


def test_a_query_that_lost_its_portion_is_given_no_row_that_does_not_pass() -> None:
    cluster = Cluster()
    issue(cluster, "q2", "")
    issue(cluster, "q1", "WHERE b.n IS NULL")
    cluster.arrive("r", 1, 2, 100)
    cluster.settle()
    cluster.say("ash", "bow", Carry("q1", "a", Span(0, 1), 7, 0, b"not of this query"))
    cluster.deliver("bow", "ash")
    cluster.arrive("l", 20, 50)
    cluster.settle_but(("bow", "cam"))
    assert cluster.results("q1") == [], "n is never null"
    assert cluster.results("q2")
    cluster.settle()
    assert [state for query_id, state, _ in cluster.states if query_id == "q1"][-1] is QueryState.FAILED
