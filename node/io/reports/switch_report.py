"""What is told of the switches of a query: how far one is that is under way, and the history of the last ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from node.core.effects import SwitchState
from node.core.links.causes import Purpose
from node.core.queries.home.home_query import HomeQuery
from node.io.results.issued_query import IssuedQuery
from node.io.results.switch_history import PlanChange
from node.rpc import control_pb2 as pb
from planner.explain.text import rate_text


def switch_status(query: IssuedQuery, home: HomeQuery | None, now_ms: int) -> pb.SwitchStatus | None:
    """The last switch of a query; None if it never began one."""
    change = query.switches.last
    if change is None:
        return None
    since_ms = change.begun_ms if change.ended_ms is None else change.ended_ms
    status = pb.SwitchStatus(
        number=change.number,
        state=change.state,
        why=change.why,
        reason=change.reason,
        before=change.before_brief,
        after=change.after_brief,
        begun_ms=change.begun_ms,
        switching_ms=change.switching_ms,
        ended_ms=change.ended_ms,
        seconds=max(0, now_ms - since_ms) / 1000,
    )
    under_way = None if home is None else home.switch
    if home is None or under_way is None or change.state.ended:
        return status
    if under_way.state is SwitchState.PREPARING:
        status.waiting_for.extend(under_way.waiting_for)
        status.filling = under_way.started_us is not None
    elif home.sink is not None:
        status.heads.extend(under_way.unfinished(home.sink.frontiers))
    return status


def measured_rate(run_id: str, statuses: Iterable[pb.StatusReply]) -> float | None:
    """Bytes that a plan took in a second of event time, its snapshots included and without control, if that is known.

    What is done is told for the query, whichever its plan is.
    """
    statuses = list(statuses)
    views = [view for status in statuses for view in status.views if run_of(view) == run_id]
    seconds = max((view.span_us for view in views), default=0) / 1e6
    if seconds <= 0:
        return None
    sent = [sent for status in statuses for sent in status.traffic if sent.query_id == run_id]
    return sum(each.bytes + each.framing_bytes for each in sent if each.purpose != Purpose.CONTROL) / seconds


def run_of(view: pb.ViewStatus) -> str:
    """By which a site has counted; daemons of the version before this one had no other runs than the query."""
    return view.run or view.query_id


def history_dicts(changes: Iterable[PlanChange], statuses: Sequence[pb.StatusReply]) -> list[dict[str, Any]]:
    """The switches as values that become JSON, oldest first."""
    return [
        {
            "number": change.number,
            "state": change.state.value,
            "why": change.why,
            "reason": change.reason,
            "begun_ms": change.begun_ms,
            "switching_ms": change.switching_ms,
            "ended_ms": change.ended_ms,
            "from": change.before,
            "to": change.after,
            "expected_bytes_per_s": {"from": change.expected_before, "to": change.expected_after},
            "measured_bytes_per_s": {
                "from": measured_rate(change.run_before, statuses),
                "to": measured_rate(change.run_after, statuses),
            },
            "rows": {"from": change.rows_before, "to": change.rows_after},
        }
        for change in changes
    ]


def history_lines(changes: Sequence[PlanChange], statuses: Sequence[pb.StatusReply]) -> list[str]:
    """The switches in words, newest first; nothing without any."""
    if not changes:
        return []
    lines = ["plans that it went over to, or was to, newest first"]
    for change in reversed(changes):
        reason = f" ({change.reason})" if change.reason else ""
        lines += [
            f"  {_moment(change.begun_ms)}  {_state(change)}{reason}: {change.why}",
            f"    from      {change.before_brief}",
            f"    to        {change.after_brief}",
        ]
        for word, before, after in (
            ("expected", change.expected_before, change.expected_after),
            ("measured", measured_rate(change.run_before, statuses), measured_rate(change.run_after, statuses)),
        ):
            if before is not None or after is not None:
                lines.append(f"    {word}  {_rate(before)} before, {_rate(after)} after")
    return lines


def _state(change: PlanChange) -> str:
    if change.ended_ms is None:
        return str(change.state)
    return f"{change.state} after {(change.ended_ms - change.begun_ms) / 1000:.1f} s"


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _rate(bytes_per_s: float | None) -> str:
    return "unknown" if bytes_per_s is None else rate_text(bytes_per_s)
