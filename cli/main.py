"""The ``narrows`` command: what it can do, and how it says that something is wrong.

Exit codes: 0 done, 1 something failed while running, 2 the command, configuration or query is not right.
"""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
from importlib.metadata import version
from pathlib import Path

import shtab
from rich.console import Console

from cli.client import Client, DaemonRefusedError, DaemonUnreachableError
from cli.engine_option import add_engine_option, with_engine
from cli.explain import Explaining, explain
from cli.follow import OnInfo, follow
from cli.init import init
from cli.output import OutputNameError, check_out
from cli.plan_options import add_plan_options, plan_request
from cli.progress import LiveLine
from cli.run import RunOptions, run
from cli.tables import show_queries, show_status
from cli.top import top
from cli.wan import add_wan, wan
from node.config import ClusterConfig, ConfigError, load_cluster
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb
from planner.durations import duration_us
from planner.errors import NarrowsError, PlanError, QueryError
from planner.model import Algorithm
from spark_jobs.java import NoJavaError

EXAMPLES = """\
examples:
  narrows node --config cluster.toml --site frankfurt
  narrows query --config cluster.toml --at frankfurt \\
      "SELECT * FROM orders [RANGE 10 SECONDS] AS o JOIN payments [RANGE 5 SECONDS] AS p ON o.id = p.order_id"
  narrows status --config cluster.toml
  narrows run cluster.toml --query "SELECT ..." --out rows.parquet --stats stats.json

A recording (a stream that replays a file) starts when the first query that reads it starts.
"""

#: One line each: what crosses the link when the rows of the head ("here") look for the other stream ("there").
ALGORITHMS = {
    Algorithm.SP_S: "keep a full copy of the window here, join here",
    Algorithm.SP_D: "ship the rows there, join there",
    Algorithm.SM_S1: "ship keys, get back matching tuples not shipped before, join here",
    Algorithm.SM_S2: "keep all keys here, fetch the tuples of keys that match, join here",
    Algorithm.SM_D1: "keep all keys here, ship only rows that can match, join there",
    Algorithm.SM_D2: "ship keys, get back which match, ship those rows, join there",
}
_CHOICES = "\n".join(f"  {algorithm.value:6} {what}" for algorithm, what in ALGORITHMS.items())
PLAN_CHOICES = f"""\
algorithms: a tuple of one stream, here, looks for tuples of the other, there:
{_CHOICES}

policies:
  frontier     wait for what is needed: exact under any delay
  delta        go by the clock: a delay beyond delta, which is measured on the
               links, can make rows wrong; narrows status counts how often
  delta=250ms  the same with this delta
"""


EXPLAIN_EXAMPLES = """\
examples:
  narrows explain --config cluster.toml --at frankfurt "SELECT ..."          running daemons plan it
  narrows explain --config cluster.toml --start "SELECT ..."                 daemons are started for this, and stopped
  narrows explain --config cluster.toml --start analyze "SELECT ..."         and the query is run to its end
  narrows explain --config cluster.toml frankfurt-1                          a query that runs: expected and measured

"""


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="narrows",
        description="Joins data streams that live at different sites while shipping as little as possible.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"narrows {version('narrows-middleware')}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    node = commands.add_parser("node", help="run the daemon of one site until it is stopped")
    _config_option(node)
    node.add_argument("--site", required=True, help="which site of the configuration this is")
    _speed_option(node)
    add_engine_option(node)
    node.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    node.add_argument("--verbose", action="store_true", help="say more")

    query = commands.add_parser(
        "query",
        help="issue a query at a site and follow its rows",
        epilog=PLAN_CHOICES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _config_option(query)
    query.add_argument("--at", required=True, metavar="SITE", help="the query's home: rows are collected there")
    add_plan_options(query)
    _output_options(query)
    query.add_argument("--keep", action="store_true", help="rows stay readable after they were taken, until drop")
    query.add_argument("--detach", action="store_true", help="do not follow: print the query's ID and leave its rows")
    query.add_argument("text", help="the query")

    again = commands.add_parser("follow", help="follow the rows of a query that is already there")
    _config_option(again)
    _output_options(again)
    again.add_argument("query_id", metavar="ID", help="as shown by narrows queries")

    _explain_command(commands)
    add_wan(commands)

    start = commands.add_parser("init", help="write a commented cluster.toml to start from")
    start.add_argument("path", type=Path, nargs="?", default=Path("cluster.toml"), metavar="FILE")

    words = commands.add_parser("completion", help='print completion for a shell: eval "$(narrows completion bash)"')
    words.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)

    queries = commands.add_parser("queries", help="list the queries of all sites")
    _config_option(queries)

    drop = commands.add_parser("drop", help="end a query and forget its rows")
    _config_option(drop)
    drop.add_argument("query_id", metavar="ID", help="as shown by narrows queries")

    status = commands.add_parser("status", help="sites, streams, links, windows and replicas of a running cluster")
    _config_option(status)

    live = commands.add_parser("top", help="the same, live: what sites, links and queries do right now")
    _config_option(live)
    live.add_argument("--every", type=_seconds, default=1.0, metavar="DURATION", help="how often to look (default: 1s)")
    live.add_argument("--times", type=int, metavar="N", help="end after so many looks (default: with Ctrl-C)")

    whole = commands.add_parser(
        "run",
        help="start all sites here, run one query over all of the data, stop",
        description="Starts each site as a process of this machine, replays the streams from the first tuple to\n"
        "the last, waits until every row of the query is delivered, and stops what it started.",
        epilog=PLAN_CHOICES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("config", type=Path, help="the cluster's configuration (TOML)")
    whole.add_argument("--query", required=True, help="the query")
    whole.add_argument("--at", metavar="SITE", help="the query's home (default: the first site)")
    add_plan_options(whole)
    whole.add_argument("--out", type=Path, metavar="FILE", help="write the rows: .parquet, .csv or .jsonl")
    whole.add_argument("--stats", type=Path, metavar="FILE", help="write figures about the run as JSON")
    whole.add_argument("--quiet", action="store_true", help="no progress, only errors")
    _speed_option(whole)
    add_engine_option(whole)
    return top


def _explain_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "explain",
        help="show the plan of a query, what it should cost and why; with analyze, what it did cost",
        description="Shows for every head the sites, algorithms, rows, bytes and time of each step, the alternatives,\n"
        "and the total beside shipping everything. Nothing is installed and no stream is read on.\n"
        "With analyze the query runs, to the end of its streams or for a while, and what was measured\n"
        "is shown beside what was expected.",
        epilog=EXPLAIN_EXAMPLES + PLAN_CHOICES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _config_option(command)
    command.add_argument("--at", metavar="SITE", help="the query's home (default: the first site)")
    command.add_argument(
        "--start", action="store_true", help="the cluster does not run: start all sites here, and stop them afterwards"
    )
    add_plan_options(command)
    command.add_argument("--for", dest="seconds", type=_seconds, metavar="DURATION", help="analyze: end the query then")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--picture", type=Path, metavar="FILE", help="draw the plan: .svg or .dot")
    _speed_option(command)
    add_engine_option(command)
    command.add_argument("words", nargs="+", metavar="[analyze] QUERY", help="the query, or the ID of one that runs")


def _seconds(text: str) -> float:
    length_us = duration_us(text)
    if not length_us:
        raise argparse.ArgumentTypeError(f"required a duration above 0 such as 30s or 2min; got {text}")
    return length_us / 1e6


def _config_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="the cluster's configuration (TOML)"
    )


def _speed_option(command: argparse.ArgumentParser) -> None:
    text = "replay at this multiple of real time, e.g. 1.0 (default: as fast as the cluster keeps up)"
    command.add_argument("--speed", type=_speed, metavar="FACTOR", help=text)


def _speed(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"required a number above 0; got {text}")
    return value


def _output_options(command: argparse.ArgumentParser) -> None:
    text = "how rows are printed (default: table on a terminal, else csv)"
    command.add_argument("--format", choices=["table", "csv", "jsonl"], help=text)
    command.add_argument("--out", type=Path, metavar="FILE", help="write rows to FILE: .parquet, .csv or .jsonl")


def main(arguments: list[str] | None = None) -> int:
    """Entry point; errors of ours become one clear text on standard error, never a stack trace."""
    options = parser().parse_args(arguments)
    # Like Ctrl-C, so that what was started is stopped; the daemon has its own way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return _COMMANDS[options.command](options)
    except (ConfigError, QueryError, PlanError, OutputNameError, NoJavaError) as error:
        return _complain(error, 2)
    except NarrowsError as error:
        return _complain(error, 1)
    except BrokenPipeError:
        # Whoever read our rows has gone; python would complain again when it closes standard output.
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130


def _complain(error: NarrowsError, code: int) -> int:
    print(f"narrows: {error}", file=sys.stderr)
    return code


def _node(options: argparse.Namespace) -> int:
    from node.daemon import serve  # noqa: PLC0415 - only this command needs a server

    config = with_engine(load_cluster(options.config), options.engine)
    config.site(options.site)
    level = logging.DEBUG if options.verbose else logging.INFO
    logging.basicConfig(level=level, format=f"%(asctime)s {options.site} %(levelname)s %(message)s", stream=sys.stderr)
    serve(config, options.site, options.speed, options.with_parent)
    return 0


def _query(options: argparse.Namespace) -> int:
    config = load_cluster(options.config)
    check_out(options.out, options.format)
    if options.detach and (options.out or options.format):
        raise QueryError("--detach: required no --out and no --format, since no rows are taken; got one")
    request = plan_request(options, options.text)
    request.keep = options.keep
    with _client(config, options.at) as client:
        try:
            issued = client.install(request)
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
    try:
        followed = follow(client, query_id, options.out, options.format, _on_info(options.out))
    except NarrowsError as error:
        hint = f"query {query_id} keeps its rows: narrows follow {query_id} takes them, narrows drop {query_id} ends it"
        raise error if isinstance(error, DaemonUnreachableError) else NarrowsError(f"{error}\n{hint}") from None
    if followed.detached:
        again = f"narrows follow {query_id}, narrows drop {query_id}"
        print(f"detached after {followed.rows:,} rows; {query_id} goes on ({again})", file=sys.stderr)
        return 0
    if followed.info.state != QueryState.COMPLETED:
        raise NarrowsError(f"query {query_id} {followed.info.state}: {followed.info.reason}")
    reason = f": {followed.info.reason}" if followed.info.reason else ""
    print(f"{followed.rows:,} rows, all that there are{reason}", file=sys.stderr)
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
    config = load_cluster(options.config)
    for site in config.sites:
        with _client(config, site.name) as client:
            try:
                found += client.queries()
            except DaemonUnreachableError as error:
                print(f"narrows: {error}", file=sys.stderr)
    show_queries(Console(), found)
    return 0


def _drop(options: argparse.Namespace) -> int:
    config = load_cluster(options.config)
    with _client(config, _home_of(config, options.query_id)) as client:
        client.drop(options.query_id)
    print(f"query {options.query_id} is dropped", file=sys.stderr)
    return 0


def _status(options: argparse.Namespace) -> int:
    config = load_cluster(options.config)
    statuses: dict[str, pb.StatusReply | str] = {}
    for site in config.sites:
        with _client(config, site.name) as client:
            try:
                statuses[site.name] = client.status()
            except NarrowsError as error:
                statuses[site.name] = str(error)
    show_status(Console(), config.tau_ms, statuses)
    return 0 if any(not isinstance(status, str) for status in statuses.values()) else 1


def _run(options: argparse.Namespace) -> int:
    return run(
        RunOptions(
            config=options.config,
            request=plan_request(options, options.query),
            at=options.at,
            out=options.out,
            stats=options.stats,
            speed=options.speed,
            quiet=options.quiet,
            engine=options.engine,
        )
    )


def _client(config: ClusterConfig, site: str) -> Client:
    return Client(site, config.site(site).address)


def _home_of(config: ClusterConfig, query_id: str) -> str:
    """A query's id starts with its home: frankfurt-1."""
    site = query_id.rpartition("-")[0]
    if site not in [known.name for known in config.sites]:
        raise QueryError(f"a query id requires the form SITE-NUMBER, as narrows queries shows; got {query_id!r}")
    return site


def _completion(options: argparse.Namespace) -> int:
    print(shtab.complete(parser(), options.shell))
    return 0


def _top(options: argparse.Namespace) -> int:
    return top(load_cluster(options.config), options.every, options.times)


_COMMANDS = {
    "node": _node,
    "query": _query,
    "follow": _follow,
    "explain": _explain,
    "queries": _queries,
    "drop": _drop,
    "status": _status,
    "top": _top,
    "run": _run,
    "wan": wan,
    "init": lambda options: init(options.path),
    "completion": _completion,
}

if __name__ == "__main__":
    sys.exit(main())
