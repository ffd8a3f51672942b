"""From where on the rows of a query are complete, for those who ask."""

from __future__ import annotations

from node.core.queries.home.home_query import HomeQuery
from node.core.streams.ticks import TICK_END, TICK_MIN
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
        said.from_ms = home.first_tick * tau_ms
    if not _is_as_asked(said):
        said.limited_by.extend(home.limited_by)
    return said


def _is_as_asked(said: pb.CompleteFrom) -> bool:
    """Whether no stream is the reason that it begins no earlier."""
    return said.first_tick == TICK_MIN or (said.asked == BeginAt.TIME and said.from_ms <= said.asked_ms)
