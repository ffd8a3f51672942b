from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from node.io.planning.plan_desk import OPTIMAL_STREAMS_MAX, SEARCHES_MAX, PlanDesk, _options
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


def test_long_searches_keep_no_thread_from_rows_status_and_queries_that_need_none() -> None:
    """As many as would take every thread that asyncio has for all."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    catalogue = {name: StreamInfo(name, "ash", schema, "ts", TimeUnit.MS) for name in ("l", "r")}
    runner = SimpleNamespace(stack=SimpleNamespace(site=SimpleNamespace(name="ash", catalogue=catalogue)))
    text = "SELECT a.k FROM l [RANGE 1 S] AS a JOIN r [RANGE 1 S] AS b ON a.k = b.k"
    over, begun = threading.Event(), threading.Semaphore(0)

    def search() -> str:
        begun.release()
        over.wait()
        return "found"

    async def ask() -> None:
        desk = PlanDesk(cast("Any", runner), cast("Any", None))
        searches = [asyncio.create_task(desk.search(search)) for _ in range(100)]
        try:
            for _ in range(SEARCHES_MAX):
                await asyncio.to_thread(begun.acquire)
            request = pb.IssueRequest(text=text, algorithm="SP-D")
            planned = await desk.plan(request, lambda _: None, explained=False)
            assert planned.plan.sink == "ash"
            assert await asyncio.to_thread(lambda: "rows") == "rows"
            assert not any(search.done() for search in searches)
        finally:
            over.set()
        assert await asyncio.gather(*searches) == ["found"] * 100
        desk.close()

    asyncio.run(ask())
