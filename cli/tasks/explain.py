"""``narrows explain``: the plan of a query and what it should cost; with analyze, beside what it did cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from cli.cluster import LocalCluster
from cli.cluster_file import load_cluster
from cli.exit_codes import DONE, INTERRUPTED
from cli.options.engine import with_engine
from cli.sites import home_site
from cli.tasks.follow import follow
from cli.tasks.output import OutputError, OutputNameError, check_file
from cli.tasks.run import check_request
from node.client import Client, DaemonUnreachableError, NotNowError
from node.config import ClusterConfig
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError, QueryError

_PICTURES = (".svg", ".dot")


@dataclass(frozen=True)
class Explaining:
    """What the user asked for."""

    config: Path
    request: pb.IssueRequest
    #: Of a query that runs; empty if the request is meant.
    query_id: str
    at: str | None
    start: bool
    analyze: bool
    seconds: float | None
    json: bool
    picture: Path | None
    speed: float | None
    #: Instead of what the cluster file says, of daemons that are started.
    engine: str | None = None


class _TimeIsUpError(KeyboardInterrupt):
    """Ends following as Ctrl-C does."""


def explain(options: Explaining) -> int:
    """Ask the daemons, started for this or running, and show what they say."""
    config = with_engine(load_cluster(options.config), options.engine)
    home = config.site(options.at).name if options.at else config.sites[0].name
    _check(options)
    with ExitStack() as stack:
        if options.start:
            check_request(config, options.request, home)
            cluster = LocalCluster(config, options.speed, lambda news: print(news, file=sys.stderr), options.engine)
            clients: Mapping[str, Client] = stack.enter_context(cluster).clients
            # Without this, a query would wait for ever for a site that has died.
            check = cluster.check
        else:
            check = _nothing
            clients = {site.name: stack.enter_context(Client(site.name, site.address)) for site in config.sites}
        reply, code = _ask(options, config, clients, home, check)
    print(reply.json if options.json else reply.text)
    if options.picture is not None:
        _draw(options.picture, reply)
    return code


def _nothing() -> None:
    """Daemons that run by themselves are looked after by others."""


def _check(options: Explaining) -> None:
    if options.picture is not None and options.picture.suffix.lower() not in _PICTURES:
        raise OutputNameError(f"--picture requires a file that ends in {' or '.join(_PICTURES)}; got {options.picture}")
    check_file("--picture", options.picture)
    if options.engine is not None and not options.start:
        raise QueryError("--engine requires --start: daemons that run have their engines")
    if options.query_id and (options.start or options.analyze):
        raise QueryError(f"{options.query_id} is a query that runs: it requires neither --start nor analyze")


def _ask(
    options: Explaining, config: ClusterConfig, clients: Mapping[str, Client], home: str, check: Callable[[], None]
) -> tuple[pb.ExplainReply, int]:
    """What is to be shown, and the exit code. Ctrl-C ends a query that is analyzed; what it did is shown."""
    if options.query_id:
        home = home_site(config, options.query_id)
        return _explain_measured(clients, home, options.query_id), DONE
    if not options.analyze:
        return clients[home].explain(pb.ExplainRequest(query=options.request)), DONE
    issued = clients[home].install(options.request)
    for warning in issued.warnings:
        print(f"narrows: {warning}", file=sys.stderr)
    try:
        code = _run(clients[home], issued.query_id, options.seconds, check)
        return _explain_measured(clients, home, issued.query_id), code
    finally:
        with suppress(NarrowsError):
            clients[home].drop(issued.query_id)


def _run(client: Client, query_id: str, seconds: float | None, check: Callable[[], None]) -> int:
    """Let the query run to its end, until the time is up or Ctrl-C; its rows are thrown away."""
    until = None if seconds is None else time.monotonic() + seconds

    def watch(_: pb.QueryInfo, __: int) -> None:
        check()
        if until is not None and time.monotonic() >= until:
            raise _TimeIsUpError

    followed = follow(client, query_id, None, "none", watch)
    if followed.info.state in (QueryState.FAILED, QueryState.DROPPED):
        raise NarrowsError(f"query {query_id} {followed.info.state}: {followed.info.reason}")
    if not followed.detached or (until is not None and time.monotonic() >= until):
        return DONE
    print("narrows: ended by Ctrl-C; what was measured until then:", file=sys.stderr)
    return INTERRUPTED


def _explain_measured(clients: Mapping[str, Client], home: str, query_id: str) -> pb.ExplainReply:
    statuses = [clients[home].status()]
    for site, client in clients.items():
        if site == home:
            continue
        try:
            statuses.append(client.status())
        except (DaemonUnreachableError, NotNowError) as error:
            print(f"narrows: what {site} measured is missing: {error}", file=sys.stderr)
    return clients[home].explain(pb.ExplainRequest(query_id=query_id, measured=statuses))


def _draw(path: Path, reply: pb.ExplainReply) -> None:
    picture = reply.dot if path.suffix.lower() == ".dot" else reply.svg
    if not picture:
        raise OutputError(f"cannot draw {path}: there is no plan that was chosen by cost")
    try:
        path.write_text(picture)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None
