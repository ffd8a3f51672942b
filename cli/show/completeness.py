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
        return "rows are complete from the beginning of the query's streams on"
    if said.lacking:
        until = f"from {moment(said.from_ms)} on" if said.HasField("from_ms") else "once windows are full"
        less = f"there is less than a window of what was before of {', '.join(said.lacking)}"
        return f"rows come from {moment(said.begin_ms)} on, and are complete {until}: {less}"
    text, streams = f"from {begin_time(said)} on", ", ".join(said.limited_by)
    reason = f" ({_reason(said.asked)}: {streams})" if streams else ""
    if said.asked == BeginAt.TIME and said.from_ms > said.asked_ms:
        return f"rows are complete only {text}, not from {moment(said.asked_ms)} on as asked{reason}"
    return f"rows are complete {text}{reason}"


def _reason(asked: str) -> str:
    """What it is about streams that limit a query."""
    if asked == BeginAt.NOW:
        return "where these streams were"
    if asked == BeginAt.DEFAULT:
        return "where these streams were, less their retain"
    return "these streams have nothing older"
