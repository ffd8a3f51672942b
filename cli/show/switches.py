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
    for query, news in switch_news(queries):
        status = query.last_switch
        ways = "" if status.state == "given up" else f"; from {status.before}, to {status.after}"
        yield f"note: {news}, because: {status.why}{ways}"


def switch_news(
    queries: Sequence[pb.QueryBrief] | Sequence[pb.QueryInfo],
) -> Iterator[tuple[pb.QueryBrief | pb.QueryInfo, str]]:
    """The queries of which there is news, and what it is without the reason and the plans."""
    for query in queries:
        if not query.HasField("last_switch"):
            continue
        status, who = query.last_switch, f"query {query.query_id}"
        if not is_over(status):
            yield query, f"{who} {progress_text(status)}; for {span(status.seconds)}"
        elif status.seconds < NEWS_S:
            came = f" ({status.reason})" if status.reason else ""
            ago = f"{span(status.seconds)} ago"
            if status.state == "switched":
                yield query, f"{who} went over to another plan {ago}{came}"
            else:
                yield query, f"{who} stays with its plan: another one was given up {ago}{came}"
