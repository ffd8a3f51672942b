from __future__ import annotations

import pyarrow as pa

from node.io.planning.plan_desk import OPTIMAL_STREAMS_MAX, _options
from node.rpc import control_pb2 as pb
from planner.model.query import JoinQuery, RangeWindow, StreamInfo, StreamRef
from planner.model.time_unit import TimeUnit
from planner.search.choice import Model, Search


def query(streams: int) -> JoinQuery:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    infos = [StreamInfo(f"s{place}", "ash", schema, "ts", TimeUnit.MS) for place in range(streams)]
    return JoinQuery("", tuple(StreamRef(info.name, info, RangeWindow(1)) for info in infos), (), ())


def test_many_streams_are_planned_greedily_unless_a_search_is_asked_for() -> None:
    nothing = pb.IssueRequest(text="")
    assert _options(nothing, query(OPTIMAL_STREAMS_MAX)).search is Search.OPTIMAL
    assert _options(nothing, query(OPTIMAL_STREAMS_MAX + 1)).search is Search.GREEDY
    asked = pb.IssueRequest(text="", search="exhaustive", cost="paper")
    options = _options(asked, query(OPTIMAL_STREAMS_MAX + 1))
    assert (options.search, options.model) == (Search.EXHAUSTIVE, Model.PAPER)
