"""From where on the rows of a query are complete, in words."""

from __future__ import annotations

from cli.show.tables import begin_time, moment
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.rpc import control_pb2 as pb
from planner.model.beginning import BeginAt


def completeness(said: pb.CompleteFrom) -> str:
    """One sentence; nothing while it is not known."""
    if not said.HasField("first_tick") or said.first_tick >= TICK_END:
        return ""  # at the end of its streams a query has no rows, and its reason says why
    if said.first_tick <= TICK_MIN:
        return "rows are complete from the beginning of its streams on"
    text, streams = f"from {begin_time(said)} on", ", ".join(said.limited_by)
    if said.asked in (BeginAt.DEFAULT, BeginAt.NOW):
        return f"rows are complete {text}" + (f" (where these streams were: {streams})" if streams else "")
    missing = f" (the streams have no more before that: {streams})" if streams else ""
    if said.asked == BeginAt.TIME and said.from_ms > said.asked_ms:
        return f"rows are complete only {text}, not from {moment(said.asked_ms)} on as asked{missing}"
    return f"rows are complete {text}{missing}"
