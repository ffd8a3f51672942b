"""All commands of ``narrows`` and their options."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

import shtab

from cli import help_texts
from cli.arguments import Parser, TopParser, seconds, speed, times
from cli.completion import SITES
from cli.config_option import add_config_option
from cli.engine_option import add_engine_option
from cli.plan_options import add_plan_options
from cli.wan import add_wan

#: Commands by what one wants to do, in the order in which one wants it.
GROUPS = {
    "begin": ("init", "run", "explain"),
    "sites": ("node", "status", "top"),
    "queries": ("query", "follow", "queries", "walks", "drop"),
    "more": ("wan", "completion", "help"),
}
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def parser() -> TopParser:
    """The parser of the whole command line."""
    top = TopParser(GROUPS, prog="narrows", description=help_texts.WHAT_IT_IS, epilog=help_texts.NARROWS)
    top.add_argument("--version", action="version", version=f"narrows {version('narrows-middleware')}")
    kind: type[argparse.ArgumentParser] = Parser
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=kind)
    _init(commands)
    _run(commands)
    _explain(commands)
    _node(commands)
    _status(commands)
    _top(commands)
    _query(commands)
    _follow(commands)
    _queries(commands)
    _walks(commands)
    _drop(commands)
    add_wan(commands)
    _completion(commands)
    _help(commands)
    return top


def _add(commands: Commands, name: str, what: str, description: str, more: str) -> argparse.ArgumentParser:
    """A command; ``more`` is what its help ends with."""
    return commands.add_parser(
        name,
        help=what,
        description=description,
        epilog=f"{more}\n{help_texts.EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _init(commands: Commands) -> None:
    what = "write a cluster.toml to start from, with comments"
    command = _add(commands, "init", what, help_texts.INIT, help_texts.INIT_EXAMPLES)
    target = command.add_argument("path", type=Path, nargs="?", default=Path("cluster.toml"), metavar="FILE")
    target.help = "what to write (default: cluster.toml); never one that exists"
    _completed(target)
    add_engine_option(command, "what runs the joins (default: spark where there is Java for it, else native)")


def _run(commands: Commands) -> None:
    what = "start all sites here, run one query over all data, stop"
    command = _add(commands, "run", what, help_texts.RUN, help_texts.RUN_EXAMPLES + help_texts.PLAN_CHOICES)
    words = command.add_argument("words", nargs="*", metavar="QUERY", help="the query, in quotes")
    _completed(words)
    command.add_argument("--query", metavar="QUERY", help="the same; then what comes before may be the configuration")
    add_config_option(command)
    _at_option(command)
    _output_options(command)
    _completed(command.add_argument("--stats", type=Path, metavar="FILE", help="write figures about the run as JSON"))
    command.add_argument("--quiet", action="store_true", help="no plan and no progress, only rows and errors")
    _speed_option(command)
    add_engine_option(command)
    add_plan_options(command)


def _explain(commands: Commands) -> None:
    what = "the plan of a query, its cost and why; analyze: measured"
    more = help_texts.EXPLAIN_EXAMPLES + help_texts.PLAN_CHOICES
    command = _add(commands, "explain", what, help_texts.EXPLAIN, more)
    command.usage = "narrows explain [OPTION ...] [analyze] QUERY | ID"
    command.add_argument("words", nargs="+", metavar="QUERY", help="the query in quotes, or the ID of one that runs")
    add_config_option(command)
    _at_option(command)
    text = "the cluster does not run: start all sites here, and stop them afterwards"
    command.add_argument("--start", action="store_true", help=text)
    command.add_argument("--for", dest="seconds", type=seconds, metavar="DURATION", help="analyze: end the query then")
    command.add_argument("--json", action="store_true", help="print JSON")
    _completed(command.add_argument("--picture", type=Path, metavar="FILE", help="draw the plan: .svg or .dot"))
    _speed_option(command)
    add_engine_option(command)
    add_plan_options(command)


def _node(commands: Commands) -> None:
    command = _add(commands, "node", "run the daemon of one site", help_texts.NODE, help_texts.NODE_EXAMPLES)
    site = command.add_argument("--site", required=True, help="which site of the configuration this is")
    _completed(site, SITES)
    add_config_option(command)
    _speed_option(command)
    add_engine_option(command)
    text = "keep no log of the streams: for runs that nobody continues"
    command.add_argument("--no-log", action="store_true", help=text)
    command.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    command.add_argument("--verbose", action="store_true", help="say more")


def _status(commands: Commands) -> None:
    what = "what is going on: sites, streams, links, windows"
    command = _add(commands, "status", what, help_texts.STATUS, help_texts.STATUS_EXAMPLES)
    add_config_option(command)
    command.add_argument("--json", action="store_true", help="print JSON, for scripts")
    text = "first wait until all sites answer and have their links, at most so long; exit code 1 if they do not"
    command.add_argument("--wait", type=seconds, metavar="DURATION", help=text)


def _top(commands: Commands) -> None:
    command = _add(commands, "top", "the same, live", help_texts.TOP, help_texts.TOP_EXAMPLES)
    add_config_option(command)
    text = "how often to look (default: 1s)"
    command.add_argument("--every", type=seconds, default=1.0, metavar="DURATION", help=text)
    command.add_argument("--times", type=times, metavar="N", help="end after so many looks (default: with Ctrl-C)")


def _query(commands: Commands) -> None:
    what = "issue a query and follow its rows"
    command = _add(commands, "query", what, help_texts.QUERY, help_texts.QUERY_EXAMPLES + help_texts.PLAN_CHOICES)
    command.add_argument("text", metavar="QUERY", help="the query, in quotes")
    add_config_option(command)
    _at_option(command)
    _output_options(command)
    command.add_argument("--keep", action="store_true", help="rows stay readable after they were taken, until drop")
    command.add_argument("--detach", action="store_true", help="do not follow: print the query's ID and leave its rows")
    add_plan_options(command)


def _follow(commands: Commands) -> None:
    what = "follow the rows of a query that is already there"
    command = _add(commands, "follow", what, help_texts.FOLLOW, help_texts.FOLLOW_EXAMPLES)
    _id_argument(command)
    add_config_option(command)
    _output_options(command)


def _queries(commands: Commands) -> None:
    what = "list the queries of all sites"
    command = _add(commands, "queries", what, help_texts.QUERIES, help_texts.QUERIES_EXAMPLES)
    add_config_option(command)
    command.add_argument("--json", action="store_true", help="print JSON, for scripts")


def _walks(commands: Commands) -> None:
    what = "what each batch that is under way waits for"
    command = _add(commands, "walks", what, help_texts.WALKS, help_texts.WALKS_EXAMPLES)
    text = "only walks of this query, as narrows queries shows it"
    command.add_argument("query_id", metavar="ID", nargs="?", help=text)
    add_config_option(command)
    _completed(command.add_argument("--at", metavar="SITE", help="only walks that are at this site"), SITES)
    command.add_argument("--json", action="store_true", help="print JSON, for scripts")


def _drop(commands: Commands) -> None:
    what = "end a query and forget its rows"
    command = _add(commands, "drop", what, help_texts.DROP, help_texts.DROP_EXAMPLES)
    _id_argument(command)
    add_config_option(command)


def _completion(commands: Commands) -> None:
    what = "words for the Tab key of bash, zsh and others"
    command = _add(commands, "completion", what, help_texts.COMPLETION, help_texts.COMPLETION_EXAMPLES)
    command.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)


def _help(commands: Commands) -> None:
    command = commands.add_parser("help", help="this, or the help of a COMMAND")
    command.add_argument("names", nargs="?", metavar="COMMAND", choices=list(commands.choices))


def _completed(action: argparse.Action, how: dict[str, object] | None = None) -> None:
    """The Tab key offers files here, or what ``how`` says."""
    action.complete = how or shtab.FILE  # type: ignore[attr-defined]


def _id_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument("query_id", metavar="ID", help="of the query, as narrows queries shows it")


def _at_option(command: argparse.ArgumentParser) -> None:
    text = "the query's home: rows are collected there (default: the first site)"
    _completed(command.add_argument("--at", metavar="SITE", help=text), SITES)


def _speed_option(command: argparse.ArgumentParser) -> None:
    text = (
        "files are replayed at this multiple of the time in them, 1 for real time (default: as fast as the cluster "
        "keeps up); streams that Spark reads come as they come"
    )
    command.add_argument("--speed", type=speed, metavar="FACTOR", help=text)


def _output_options(command: argparse.ArgumentParser) -> None:
    text = "how rows are printed, or written whatever the name of --out (default: table on a terminal, else csv)"
    command.add_argument("--format", choices=["table", "csv", "jsonl"], help=text)
    text = "write rows to FILE instead: .parquet, .csv or .jsonl; it appears, or is replaced, when it is whole"
    _completed(command.add_argument("--out", type=Path, metavar="FILE", help=text))
