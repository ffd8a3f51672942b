"""From where on the rows of a query are complete, for those who ask.

Of a query that looks back that is where no window lacks anything any more that the streams had before it began: at once
if its sites still had all of that. Of others all tuples are from where it begins, and of such rows none is missing.
"""

from __future__ import annotations

from node.core.arrangements.reach import Reach, reach_of
from node.core.queries.home.home_query import HomeQuery
from node.core.streams.ticks import TICK_END, TICK_MIN, tick_of, tick_start
from node.rpc import control_pb2 as pb
from planner.model.beginning import BeginAt


def complete_from(home: HomeQuery | None, tau_ms: int) -> pb.CompleteFrom:
    """What was asked for, and what it became; nothing of a query that the core has forgotten."""
    if home is None:
        return pb.CompleteFrom()
    said = pb.CompleteFrom(asked=home.beginning.at, first_tick=home.first_tick)
    if home.beginning.at is BeginAt.TIME:
        said.asked_ms = home.beginning.time_ms
    if home.first_tick is not None and TICK_MIN < home.first_tick < TICK_END:
        said.begin_ms = said.from_ms = home.first_tick * tau_ms
        if home.beginning.looks_back:
            _fill(said, home, home.first_tick, tau_ms)
    if not _is_as_asked(said):
        said.limited_by.extend(home.limited_by)
    return said


def _fill(said: pb.CompleteFrom, home: HomeQuery, first_tick: int, tau_ms: int) -> None:
    """The streams of which windows lack something at first, and when they do not any more."""
    query, lacking, whole_from = home.plan.asked, set(), first_tick
    for alias in query.aliases:
        reach, begin = reach_of(query, alias, tau_ms), dict(home.begins).get(alias, first_tick)
        found = _whole_from(reach, begin, first_tick)
        if found != first_tick:
            lacking.add(reach.stream)
            whole_from = max(whole_from, TICK_END if found is None else found)
    said.lacking.extend(sorted(lacking))
    if whole_from < TICK_END:
        said.from_ms = whole_from * tau_ms
    else:
        said.ClearField("from_ms")


def _whole_from(reach: Reach, begin: int, first_tick: int) -> int | None:
    """The rows of a head see their whole window of a stream from this tick on; None if nobody knows.

    ``begin``: the query sees the stream from there on.
    """
    if reach.count is not None:
        # It is there as a whole, or not at all.
        return first_tick if begin < first_tick else None
    if begin <= tick_of(reach.before(tick_start(first_tick, reach.tau)), reach.tau):
        return first_tick
    assert reach.length is not None
    return -(-(begin * reach.tau + reach.length // reach.scale) // reach.tau)


def _is_as_asked(said: pb.CompleteFrom) -> bool:
    """Whether no stream is the reason that it begins no earlier."""
    return said.first_tick == TICK_MIN or (said.asked == BeginAt.TIME and said.from_ms <= said.asked_ms)
