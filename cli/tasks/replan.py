"""A query goes over to another plan, and somebody watches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from cli.exit_codes import DONE, INTERRUPTED
from cli.show.json_out import values
from cli.show.switches import is_over, progress_text
from cli.tasks.notices import patience, say
from node.client import Client
from node.core.effects import QueryState, SwitchState
from node.rpc import control_pb2 as pb
from planner.explain.text import rate_text
from planner.model.errors import NarrowsError

_POLL_S = 0.1


def replan(
    client: Client, request: pb.ReplanRequest, *, as_json: bool, sleep: Callable[[float], None] = time.sleep
) -> int:
    """The exit code. Raises NarrowsError if the query does not go over to another plan."""
    reply = client.replan(request)
    for warning in reply.warnings:
        say(warning)
    if request.dry_run or reply.same:
        print(_json(request, reply, None) if as_json else "\n".join(_text(request, reply)))
        return DONE
    for line in _costs(reply):
        say(line)
    try:
        over = _watch(client, request.query_id, reply.number, sleep)
    except KeyboardInterrupt:
        hint = f"narrows status shows how far it is, narrows explain {request.query_id} what became of it"
        say(f"query {request.query_id} goes on, and to the other plan too: {hint}")
        return INTERRUPTED
    if as_json:
        print(_json(request, reply, over))
    if over.state != SwitchState.SWITCHED:
        raise NarrowsError(f"query {request.query_id} goes on by the plan that it had: {over.reason}")
    why = f" ({over.reason})" if over.reason else ""
    say(f"query {request.query_id} runs by the other plan, after {(over.ended_ms - over.begun_ms) / 1000:.1f} s{why}")
    return DONE


def _watch(client: Client, query_id: str, number: int, sleep: Callable[[float], None]) -> pb.SwitchStatus:
    """Until it is over. A home that is away is waited for."""
    client.patience = patience(None)
    said = ""
    while True:
        info = client.query(query_id)
        status = info.last_switch
        if status.number != number:
            raise NarrowsError(f"query {query_id} goes to yet another plan: narrows explain {query_id} tells of all")
        if is_over(status):
            return status
        if QueryState(info.state).ended:
            raise NarrowsError(f"query {query_id} {info.state}, before it went over to another plan: {info.reason}")
        if (text := progress_text(status, info.away)) != said:
            said = text
            say(f"query {query_id} {text}")
        sleep(_POLL_S)


def _costs(reply: pb.ReplanReply) -> list[str]:
    return [
        f"from  {reply.before.brief}: {_cost_text(reply.before)}",
        f"to    {reply.after.brief}: {_cost_text(reply.after)}",
    ]


def _cost_text(cost: pb.PlanCost) -> str:
    return f"{rate_text(cost.bytes_per_s)} expected" if cost.HasField("bytes_per_s") else "nobody knows what it costs"


def _text(request: pb.ReplanRequest, reply: pb.ReplanReply) -> list[str]:
    """What is said where nothing is done."""
    runs = f"query {request.query_id} runs by this plan: {_cost_text(reply.before)}"
    if reply.same:
        return [runs, reply.before.text, "", "that is the plan that was asked for: nothing is to be done"]
    other = f"it would go over to this one: {_cost_text(reply.after)}"
    return [runs, reply.before.text, "", other, reply.after.text, "", "nothing is changed: --dry-run"]


def _json(request: pb.ReplanRequest, reply: pb.ReplanReply, over: pb.SwitchStatus | None) -> str:
    document: dict[str, Any] = {"query_id": request.query_id, "dry_run": request.dry_run, "same": reply.same}
    for name, cost in (("from", reply.before), ("to", reply.after)):
        expected = cost.bytes_per_s if cost.HasField("bytes_per_s") else None
        document[name] = {"plan": json.loads(cost.json), "expected_bytes_per_s": expected}
    document["switch"] = None if over is None else values(over)
    document["warnings"] = list(reply.warnings)
    return json.dumps(document, indent=2, ensure_ascii=False)
