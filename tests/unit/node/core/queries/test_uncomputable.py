"""An expression that cannot be computed for some rows ends its query, with the reason, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from node.core.effects import QueryState
from node.core.events import QueryIssued
from node.core.kernels import KERNELS
from planner.model.plans import forced_plan
from planner.model.query import Algorithm, Call
from planner.sql.parser import parse_query
from tests.unit.sites import Cluster


def text_of(window: str, selected: str = "a.n", where: str = "") -> str:
    joined = f"l [{window}] AS a JOIN r [{window}] AS b ON a.key = b.key"
    return f"SELECT {selected} AS an, b.n AS bn FROM {joined}{where}"


TEXTS = {
    "a filter": text_of("RANGE 30 MS", where=" WHERE ABS(a.n) < 100"),
    "what a count window counts": text_of("ROWS 3", where=" WHERE ABS(a.n) < 100"),
    "a select list": text_of("RANGE 30 MS", "ABS(a.n)"),
}


def no_threes(_call: Call, args: list[pa.Array]) -> pa.Array:
    if 3 in args[0].to_pylist():
        raise pa.ArrowInvalid("three is too much")
    return pc.abs(args[0])


@pytest.mark.parametrize("what", list(TEXTS))
@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("sink", ["ash", "cam"])
def test_what_a_kernel_raises_ends_its_query_alone(
    what: str, algorithm: Algorithm, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KERNELS, "abs", no_threes)
    cluster = Cluster()
    query = parse_query(TEXTS[what], cluster.sites[sink].catalogue)
    cluster.give(sink, QueryIssued("q1", forced_plan(query, sink, algorithm)))
    cluster.issue("cam", algorithm, "q2")
    cluster.settle()
    cluster.arrive("l", 1, 2, 15)
    cluster.arrive("r", 3, 16)
    cluster.settle()
    assert [state for query_id, state, _ in cluster.states if query_id == "q1"] == [QueryState.RUNNING]
    cluster.arrive("l", 17, 35, ended=True)
    cluster.arrive("r", 18, 36, ended=True)
    cluster.settle()
    ends = {query_id: (state, reason) for query_id, state, reason in cluster.states}
    assert ends["q1"][0] is QueryState.FAILED
    assert "cannot be computed: ArrowInvalid('three is too much')" in ends["q1"][1]
    assert cluster.blamed == []
    assert ends["q2"] == (QueryState.COMPLETED, "")
    assert cluster.results("q2") == cluster.oracle() != []
    assert cluster.leftovers() == []
