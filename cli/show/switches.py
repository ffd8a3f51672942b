"""How a query does that goes over to another plan, or how it went, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cli.show.spans import span
from node.rpc import control_pb2 as pb

#: How long it is told that a query went over to another plan, or did not.
NEWS_S = 60.0
_PREPARES, _GOES_OVER = "prepares for another plan", "goes over to another plan"


def progress_text(status: pb.SwitchStatus, away: Iterable[pb.AwaySite] = ()) -> str:
    """Of one that is not over: how far it is, and for whom it waits."""
    if status.state == "switching":
        heads = (
            f": {', '.join(status.heads)} by the plan before until what is under way is done" if status.heads else ""
        )
        return f"{_GOES_OVER}{heads}"
    waiting = list(status.waiting_for)
    sites = ", ".join(waiting)
    text = _PREPARES
    if waiting and status.filling:
        text += f": {sites} {'fills' if len(waiting) == 1 else 'fill'} what it needs there"
    elif waiting:
        text += f": {sites} did not say yet that it is ready"
    gone = [each for each in away if each.site in waiting]
    return text + "".join(f"; {each.site} is away ({each.trouble})" for each in gone)


def is_over(status: pb.SwitchStatus) -> bool:
    """Whether the query runs by one plan again."""
    return status.HasField("ended_ms")


def switch_state(query: pb.QueryInfo | pb.QueryBrief) -> str:
    """The state of a query, and that it goes over to another plan, in few words."""
    if not query.HasField("last_switch") or is_over(query.last_switch):
        return query.state
    return f"{query.state}, {_PREPARES if query.last_switch.state == 'preparing' else _GOES_OVER}"


def switch_notes(queries: Sequence[pb.QueryBrief] | Sequence[pb.QueryInfo]) -> Iterator[str]:
    """What is under way, since when and why; and what was lately."""
    for query in queries:
        if not query.HasField("last_switch"):
            continue
        status = query.last_switch
        ways = f"from {status.before}, to {status.after}"
        if not is_over(status):
            since = f"for {span(status.seconds)}"
            yield f"note: query {query.query_id} {progress_text(status)}; {since}, {_why(status)}; {ways}"
        elif status.seconds < NEWS_S:
            came = f" ({status.reason})" if status.reason else ""
            ago = f"{span(status.seconds)} ago"
            if status.state == "switched":
                yield f"note: query {query.query_id} went over to another plan {ago}{came}, {_why(status)}; {ways}"
            else:
                given_up = f"another one was given up {ago}{came}"
                yield f"note: query {query.query_id} stays with its plan: {given_up}, {_why(status)}"


def _why(status: pb.SwitchStatus) -> str:
    return f"because: {status.why}"
