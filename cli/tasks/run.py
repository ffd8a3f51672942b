"""``narrows run``: start every site, run one query over all of the data, stop what was started."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cli.cluster import LocalCluster
from cli.cluster_file import load_cluster, wan_of
from cli.options.engine import with_engine
from cli.show.progress import LiveLine, rows_text
from cli.spark_check import check_spark
from cli.tasks.caveats import caveats, say
from cli.tasks.follow import follow
from cli.tasks.output import OutputError, check_file, check_out
from cli.tasks.stats import run_stats
from node.config import ClusterConfig
from node.core.effects import QueryState
from node.io.sources.recordings import check_sources
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError
from planner.model.plan_file import read_plan
from planner.model.plans import parse_algorithm, parse_policy
from planner.sql.parser import parse_query


class RunError(NarrowsError):
    """The run did not deliver."""


@dataclass(frozen=True)
class RunOptions:
    """What the user asked for."""

    config: Path
    #: The query, and the plan that it is to have.
    request: pb.IssueRequest
    at: str | None
    out: Path | None
    #: How rows are printed, or written whatever the name of ``out``; None: as the name or the terminal says.
    form: str | None
    stats: Path | None
    speed: float | None
    quiet: bool
    #: Instead of what the cluster file says.
    engine: str | None = None


def run(options: RunOptions) -> int:
    """Everything in one go. Raises NarrowsError before anything starts if the input is not right."""
    config = with_engine(load_cluster(options.config), options.engine)
    home = config.site(options.at).name if options.at else config.sites[0].name
    _check(config, options, home)
    console = Console(stderr=True, quiet=options.quiet)
    try:
        return _run(config, home, options, console)
    except KeyboardInterrupt:
        _say(console, "stopped by Ctrl-C before every row was delivered")
        raise


def _run(config: ClusterConfig, home: str, options: RunOptions, console: Console) -> int:
    with LocalCluster(config, options.speed, lambda news: _say(console, news), options.engine) as cluster:
        client = cluster.clients[home]
        began = time.monotonic()
        issued = client.install(options.request)
        _say(console, issued.plan_text)
        for warning in issued.warnings:
            _say(console, f"narrows: {warning}")
        line = LiveLine(console if options.out is not None or not sys.stdout.isatty() else Console(quiet=True))

        def watch(_: pb.QueryInfo, rows: int) -> None:
            # Without this, the query would wait for ever for a site that has died.
            cluster.check()
            line.show(lambda: _progress(cluster, rows))

        try:
            followed = follow(client, issued.query_id, options.out, options.form, watch, whole=True)
        except NarrowsError:
            cluster.blame()
            raise
        finally:
            line.end()
        seconds = time.monotonic() - began
        if followed.detached:
            raise KeyboardInterrupt
        if followed.info.state != QueryState.COMPLETED:
            raise RunError(f"the query {followed.info.state}: {followed.info.reason}")
        statuses = {site: other.status() for site, other in cluster.clients.items()}
        stats = run_stats(issued.plan_json, followed.info, followed.rows, seconds, statuses, issued.warnings)
    if wan_of(config) is not None:
        stats["proxies"] = [
            {"from": source, "to": target, "bytes": nbytes}
            for (source, target), nbytes in sorted(cluster.proxied.items())
        ]
    if options.stats is not None:
        _write_stats(options.stats, stats)
    console.print(f"{rows_text(followed.rows)} in {seconds:.2f} s")
    say(caveats(followed.info, statuses))
    return 0


def _say(console: Console, text: str) -> None:
    """As it is: windows are written in brackets, and so are masters of Spark, which are not markup here."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _check(config: ClusterConfig, options: RunOptions, home: str) -> None:
    """All that can be wrong, before the first process starts."""
    check_request(config, options.request, home)
    check_out(options.out, options.form)
    check_file("--stats", options.stats)


def check_request(config: ClusterConfig, request: pb.IssueRequest, home: str) -> None:
    """Whether the query and the plan asked for can be had from the streams, and Spark, as they are on this machine."""
    check_spark(config.sites)
    known = check_sources(config, [site.name for site in config.sites])
    if any(stream.spark is not None for site in config.sites for stream in site.streams):
        return  # what Spark reads only Spark knows, so the query's home checks the rest
    query = parse_query(request.text, known)
    policy = parse_policy(request.policy)
    if request.algorithm:
        parse_algorithm(request.algorithm, query)
    if request.plan_file:
        read_plan(request.plan_file, query, home, policy)


def _write_stats(path: Path, stats: dict[str, object]) -> None:
    try:
        path.write_text(json.dumps(stats, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None


def _progress(cluster: LocalCluster, rows: int) -> str:
    streams = []
    for site, client in cluster.clients.items():
        try:
            status = client.status()
        except NarrowsError:
            # Busy, or about to be found dead; for a line that says how far things are, neither is an error.
            streams.append(f"{site} does not say")
            continue
        streams += [f"{each.name} {each.rows:,} ({each.state})" for each in status.streams if each.state != "held"]
    return f"{rows:,} rows   tuples read: {', '.join(streams)}"
