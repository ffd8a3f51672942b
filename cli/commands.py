"""What each command does, given its options."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from cli.asking import ask_all
from cli.client import (
    Client,
    DaemonRefusedError,
    DaemonUnreachableError,
    NotNowError,
    UnknownQueryError,
)
from cli.cluster import check_spark
from cli.completion import completion
from cli.diagnosis import diagnosis
from cli.engine_option import with_engine
from cli.errors import CommandError
from cli.explain import Explaining, explain
from cli.follow import OnInfo, follow
from cli.init import init
from cli.json_out import queries_json, status_json
from cli.output import check_out
from cli.parser import parser
from cli.plan_options import plan_request
from cli.progress import LiveLine, rows_text
from cli.run import RunOptions, run
from cli.tables import show_queries, show_status, show_words
from cli.top import top
from cli.walks import WalksOptions, walks
from cli.wan import wan
from node.config import ClusterConfig, load_cluster
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb
from planner.errors import NarrowsError, QueryError

_ENDED_BY_CTRL_C = 130
_LOOK_EVERY_S = 0.2
_WIDTH_MIN, _WIDTH_PIPED = 80, 160


def _node(options: argparse.Namespace) -> int:
    from node.daemon import ServeOptions, serve  # noqa: PLC0415 - only this command needs a server

    config = with_engine(load_cluster(options.config), options.engine)
    check_spark([config.site(options.site)])
    level = logging.DEBUG if options.verbose else logging.INFO
    logging.basicConfig(level=level, format=f"%(asctime)s {options.site} %(levelname)s %(message)s", stream=sys.stderr)
    serve(config, options.site, ServeOptions(options.speed, options.with_parent, logged=not options.no_log))
    return 0


def _query(options: argparse.Namespace) -> int:
    config = load_cluster(options.config)
    if options.detach and (options.out or options.format):
        raise QueryError("--detach: required no --out and no --format, since no rows are taken; got one")
    check_out(options.out, options.format)
    request = plan_request(options, options.text)
    request.keep = options.keep
    with _client(config, options.at or config.sites[0].name) as client:
        try:
            issued = client.install(request)
        except NotNowError:
            raise
        except DaemonRefusedError as error:
            raise QueryError(str(error)) from None
        print(f"query {issued.query_id}\n{issued.plan_text}", file=sys.stderr)
        for warning in issued.warnings:
            print(f"narrows: {warning}", file=sys.stderr)
        if options.detach:
            print(issued.query_id)
            return 0
        return _follow_until_end(client, issued.query_id, options)


def _follow(options: argparse.Namespace) -> int:
    config = load_cluster(options.config)
    check_out(options.out, options.format)
    with _client(config, _home_of(config, options.query_id)) as client:
        return _follow_until_end(client, options.query_id, options)


def _follow_until_end(client: Client, query_id: str, options: argparse.Namespace) -> int:
    again = f"narrows follow {query_id} takes them, narrows drop {query_id} ends it"
    try:
        followed = follow(client, query_id, options.out, options.format, _on_info(options.out))
    except UnknownQueryError as error:
        raise CommandError(str(error)) from None
    except DaemonUnreachableError:
        raise
    except NarrowsError as error:
        raise NarrowsError(f"{error}\nquery {query_id} keeps its rows: {again}") from None
    except BrokenPipeError:
        print(f"narrows: nobody reads on; query {query_id} keeps the other rows: {again}", file=sys.stderr)
        raise
    if followed.detached:
        print(f"detached after {rows_text(followed.rows)}; {query_id} goes on: {again}", file=sys.stderr)
        return _ENDED_BY_CTRL_C
    if followed.info.state != QueryState.COMPLETED:
        raise NarrowsError(f"query {query_id} {followed.info.state}: {followed.info.reason}")
    reason = f": {followed.info.reason}" if followed.info.reason else ""
    print(f"{rows_text(followed.rows)}, all that there are{reason}", file=sys.stderr)
    return 0


def _on_info(out: Path | None) -> OnInfo:
    """Rows that go to a file are not seen, so a line on the terminal says how many there are."""
    console = Console(stderr=True)
    console.quiet = out is None or not console.is_terminal
    line = LiveLine(console)

    def show(info: pb.QueryInfo, rows: int) -> None:
        line.show(lambda: f"{rows:,} rows in {out}; the query is {info.state}")
        if QueryState(info.state).ended:
            line.end()

    return show


def _explain(options: argparse.Namespace) -> int:
    analyze = options.words[0] == "analyze"
    words = options.words[1:] if analyze else options.words
    if not words:
        raise QueryError("narrows explain analyze requires a query; got none")
    if options.seconds is not None and not analyze:
        raise QueryError("--for requires narrows explain analyze; got narrows explain, which runs nothing")
    text = " ".join(words)
    return explain(
        Explaining(
            config=options.config,
            request=plan_request(options, text, explained=True),
            query_id=text if _is_query_id(text) else "",
            at=options.at,
            start=options.start,
            analyze=analyze,
            seconds=options.seconds,
            json=options.json,
            picture=options.picture,
            speed=options.speed,
            engine=options.engine,
        )
    )


def _is_query_id(text: str) -> bool:
    return re.fullmatch(r"[a-z0-9][a-z0-9_-]*-[0-9]+", text) is not None


def _queries(options: argparse.Namespace) -> int:
    found: list[pb.QueryInfo] = []
    silent: dict[str, str] = {}
    config = load_cluster(options.config)
    for site in config.sites:
        with _client(config, site.name) as client:
            try:
                found += client.queries()
            except DaemonUnreachableError as error:
                silent[site.name] = str(error)
    for text in silent.values():
        print(f"narrows: {text}", file=sys.stderr)
    if options.json:
        print(queries_json(found, silent))
    elif found:
        show_queries(_console(), found)
    elif len(silent) < len(config.sites):
        print("no queries", file=sys.stderr)
    return 1 if len(silent) == len(config.sites) else 0


def _drop(options: argparse.Namespace) -> int:
    config = load_cluster(options.config)
    with _client(config, _home_of(config, options.query_id)) as client:
        try:
            client.drop(options.query_id)
        except UnknownQueryError as error:
            raise CommandError(str(error)) from None
    print(f"query {options.query_id} is dropped", file=sys.stderr)
    return 0


def _status(options: argparse.Namespace) -> int:
    config = load_cluster(options.config)
    clients = {site.name: _client(config, site.name) for site in config.sites}
    statuses = ask_all(clients)
    deadline = time.monotonic() + (options.wait or 0.0)
    while not _all_up(statuses) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        statuses = ask_all(clients)
    for client in clients.values():
        client.close()
    words = diagnosis(statuses, config.tau_ms)
    if options.json:
        print(status_json(config, statuses, words))
    else:
        console = _console()
        show_words(console, "What is going on", words)
        show_status(console, config.tau_ms, statuses)
    if options.wait is not None:
        return 0 if _all_up(statuses) else 1
    return 0 if any(not isinstance(status, str) for status in statuses.values()) else 1


def _all_up(statuses: Mapping[str, pb.StatusReply | str]) -> bool:
    """Whether every site answers and has all its links."""
    return all(
        not isinstance(status, str) and all(link.state == "up" for link in status.links) for status in statuses.values()
    )


def _run(options: argparse.Namespace) -> int:
    return run(
        RunOptions(
            config=options.config,
            request=plan_request(options, options.query),
            at=options.at,
            out=options.out,
            form=options.format,
            stats=options.stats,
            speed=options.speed,
            quiet=options.quiet,
            engine=options.engine,
        )
    )


def _console() -> Console:
    """For tables: a pipe takes any width, and on a tiny terminal lines that break are better than columns cut away."""
    console = Console()
    if "COLUMNS" not in os.environ:
        console.width = max(console.width, _WIDTH_MIN if console.is_terminal else _WIDTH_PIPED)
    return console


def _client(config: ClusterConfig, site: str) -> Client:
    return Client(site, config.site(site).address)


def _home_of(config: ClusterConfig, query_id: str) -> str:
    """A query's id starts with its home: frankfurt-1."""
    site = query_id.rpartition("-")[0]
    if site not in [known.name for known in config.sites]:
        raise QueryError(f"a query id requires the form SITE-NUMBER, as narrows queries shows; got {query_id!r}")
    return site


def _completion(options: argparse.Namespace) -> int:
    print(completion(parser(), options.shell))
    return 0


def _help(options: argparse.Namespace) -> int:
    print(parser().command_help([options.names] if options.names else []), end="")
    return 0


def _top(options: argparse.Namespace) -> int:
    return top(load_cluster(options.config), options.every, options.times)


def _walks(options: argparse.Namespace) -> int:
    return walks(WalksOptions(options.config, options.query_id, options.at, options.json), _console())


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "node": _node,
    "query": _query,
    "follow": _follow,
    "explain": _explain,
    "queries": _queries,
    "drop": _drop,
    "status": _status,
    "top": _top,
    "walks": _walks,
    "run": _run,
    "wan": wan,
    "init": lambda options: init(options.path, options.engine),
    "completion": _completion,
    "help": _help,
}
