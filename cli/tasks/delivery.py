"""Rows of a query at a running cluster: issued, and delivered until it ends or somebody presses Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from cli.exit_codes import DONE, INTERRUPTED
from cli.show.completeness import completeness
from cli.show.progress import LiveLine, rows_text
from cli.tasks.follow import Followed, OnInfo, follow
from cli.tasks.notices import Notices, patience, say
from cli.tasks.output import OutputError
from node.client import (
    AwayTooLongError,
    Client,
    DaemonUnreachableError,
    NoRoomError,
    NotNowError,
    UnknownQueryError,
)
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError

#: A query is prepared within a round trip between its sites; unless one is away, which may take long.
_PROMISE_POLL_S, _PROMISE_POLL_S_MAX = 0.02, 0.5


def issue(client: Client, request: pb.IssueRequest) -> str:
    """The query's id, once its plan and what it is warned of were said. Raises NotRightError if it is refused."""
    issued = client.install(request)
    print(f"query {issued.query_id}\n{issued.plan_text}", file=sys.stderr)
    for warning in issued.warnings:
        print(f"narrows: {warning}", file=sys.stderr)
    return issued.query_id


def await_promise(
    client: Client, query_id: str, wait_s: float | None = None, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Until a crash of its home does not end the query any more.

    Raises NarrowsError if it ended before, AwayTooLongError if a site is away for longer than ``wait_s``.
    """
    notices, pause_s = Notices(wait_s=wait_s), _PROMISE_POLL_S
    try:
        while (info := client.query(query_id)).state == QueryState.PREPARING:
            notices.note(info)
            sleep(pause_s)
            pause_s = min(2 * pause_s, _PROMISE_POLL_S_MAX)
    except UnknownQueryError as error:
        raise NarrowsError(f"query {query_id} is gone, before it was prepared: {error}") from None
    except AwayTooLongError as error:
        hint = f"narrows queries shows how it is, narrows drop {query_id} ends it"
        raise AwayTooLongError(f"{error}\nquery {query_id} is still being prepared: {hint}") from None
    if info.state in (QueryState.FAILED, QueryState.DROPPED):
        raise NarrowsError(_ended(query_id, info))
    if text := completeness(info.complete_from):
        say(text)


def wait_for(client: Client, wait_s: float | None, purpose: str) -> None:
    """From now on the client waits for its daemon: so long, or for ever.

    Somebody who never answered may have another address: that is waited for only if it was asked for.
    Raises DaemonUnreachableError, or AwayTooLongError.
    """
    client.patience = patience(wait_s)
    if wait_s is None:
        client.readiness()
    client.await_ready(client.patience, purpose)


def deliver(
    client: Client,
    query_id: str,
    out: Path | None,
    form: str | None,
    reader: str = "",
    wait_s: float | None = None,
) -> int:
    """The exit code. Raises NarrowsError if rows cannot be had or written; it says where they are then.

    AwayTooLongError: a site was away for longer than the client's patience, or another one for longer than ``wait_s``.
    """
    name = f" --as {reader}" if reader else ""
    again = f"narrows follow {query_id}{name} takes them, narrows drop {query_id} ends it"
    try:
        followed = follow(client, query_id, out, form, _on_info(out, wait_s), reader=reader)
    except DaemonUnreachableError:
        raise
    except AwayTooLongError as error:
        raise AwayTooLongError(f"{error}\nquery {query_id} keeps its rows: {again}") from None
    except (OutputError, NotNowError, NoRoomError) as error:
        raise NarrowsError(f"{error}\nquery {query_id} keeps its rows: {again}") from None
    except BrokenPipeError:
        print(f"narrows: nobody reads on; query {query_id} keeps the other rows: {again}", file=sys.stderr)
        raise
    if followed.detached:
        print(f"detached after {rows_text(followed.rows)}; {query_id} goes on: {again}", file=sys.stderr)
        _say_untold(client, followed)
        return INTERRUPTED
    if followed.info.state != QueryState.COMPLETED:
        _say_untold(client, followed)
        raise NarrowsError(_ended_early(query_id, followed, out))
    reason = f": {followed.info.reason}" if followed.info.reason else ""
    print(f"{rows_text(followed.rows)}, all that there are{reason}", file=sys.stderr)
    _say_untold(client, followed)
    return DONE


def _say_untold(client: Client, followed: Followed) -> None:
    if followed.untold:
        say(f"site {client.site} {followed.untold}; some rows will come again")


def _ended_early(query_id: str, followed: Followed, out: Path | None) -> str:
    """What is said of a query that will never have all of its rows."""
    text = _ended(query_id, followed.info)
    if followed.partial is None:
        return f"{text}\n{rows_text(followed.rows)} came before, which are not all"
    return f"{text}\n{rows_text(followed.rows)} came before and are in {followed.partial}; {out} is as it was"


def _ended(query_id: str, info: pb.QueryInfo) -> str:
    reason = f": {info.reason}" if info.reason else ""
    return f"query {query_id} {info.state or 'ended without a word'}{reason}"


def _on_info(out: Path | None, wait_s: float | None) -> OnInfo:
    """Rows that go to a file are not seen, so a line on the terminal says how many there are."""
    console = Console(stderr=True)
    console.quiet = out is None or not console.is_terminal
    line, notices = LiveLine(console), Notices(wait_s=wait_s)
    told = False

    def show(info: pb.QueryInfo, rows: int) -> None:
        nonlocal told
        text = "" if told else completeness(info.complete_from)
        if text:
            told = True
            say(text)
        notices.note(info, rows)
        line.show(lambda: f"{rows:,} rows in {out}; the query is {info.state}")
        if QueryState(info.state).ended:
            line.end()

    return show
