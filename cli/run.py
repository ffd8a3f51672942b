"""``narrows run``: start every site, run one query over all of the data, stop what was started."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cli.cluster import LocalCluster
from cli.follow import follow
from cli.output import FILE_FORMATS, OutputError
from cli.stats import run_stats
from node.config import ClusterConfig, load_cluster
from node.core.effects import QueryState
from node.io.sources import check_sources
from node.rpc import control_pb2 as pb
from planner.errors import NarrowsError
from planner.plans import parse_algorithm
from planner.sql import parse_query

_PROGRESS_EVERY_S = 1.0


class RunError(NarrowsError):
    """The run did not deliver."""


@dataclass(frozen=True)
class RunOptions:
    """What the user asked for."""

    config: Path
    query: str
    at: str | None
    algorithm: str
    out: Path | None
    stats: Path | None
    speed: float | None
    quiet: bool


def run(options: RunOptions) -> int:
    """Everything in one go. Raises NarrowsError before anything starts if the input is not right."""
    config = load_cluster(options.config)
    home = config.site(options.at).name if options.at else config.sites[0].name
    _check(config, options)
    console = Console(stderr=True, quiet=options.quiet)
    with LocalCluster(config, options.speed) as cluster:
        client = cluster.clients[home]
        began = time.monotonic()
        issued = client.issue(options.query, options.algorithm)
        console.print(issued.plan_text, highlight=False, soft_wrap=True)
        progress = _Progress(console, cluster, began)
        try:
            followed = follow(
                client, issued.query_id, options.out, "none" if options.out is None else None, progress.show
            )
        except NarrowsError:
            cluster.check()
            raise
        seconds = time.monotonic() - began
        if followed.detached:
            raise RunError("stopped by Ctrl-C before every row was delivered")
        if followed.info.state != QueryState.COMPLETED:
            raise RunError(f"the query {followed.info.state}: {followed.info.reason}")
        statuses = {site: other.status() for site, other in cluster.clients.items()}
        stats = run_stats(issued.plan_json, followed.info, followed.rows, seconds, statuses)
    if options.stats is not None:
        _write_stats(options.stats, stats)
    console.print(f"{followed.rows:,} rows in {seconds:.2f} s")
    _warn_aside(console, statuses)
    return 0


def _check(config: ClusterConfig, options: RunOptions) -> None:
    """All that can be wrong, before the first process starts."""
    query = parse_query(options.query, check_sources(config, [site.name for site in config.sites]))
    parse_algorithm(options.algorithm, query)
    for flag, path in (("--out", options.out), ("--stats", options.stats)):
        if path is not None and not path.absolute().parent.is_dir():
            raise OutputError(f"{flag} requires an existing folder; got {str(path)!r}")
        if path is not None and path.is_dir():
            raise OutputError(f"{flag} requires a file; got the folder {str(path)!r}")
    if options.out is not None and options.out.suffix not in FILE_FORMATS:
        raise OutputError(f"--out requires a name ending in {', '.join(FILE_FORMATS)}; got {str(options.out)!r}")


def _write_stats(path: Path, stats: dict[str, object]) -> None:
    try:
        path.write_text(json.dumps(stats, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None


def _warn_aside(console: Console, statuses: dict[str, pb.StatusReply]) -> None:
    for site, status in statuses.items():
        for stream in status.streams:
            if stream.aside:
                console.print(
                    f"{stream.aside:,} tuples of {stream.name} at {site} were late or without event time "
                    f"and took no part: see late_dir, or raise the stream's lateness",
                    highlight=False,
                )


class _Progress:
    """A line a second on a terminal it overwrites, elsewhere it adds to."""

    def __init__(self, console: Console, cluster: LocalCluster, began: float) -> None:
        self._console = console
        self._cluster = cluster
        self._began = began
        self._shown_at = began

    def show(self, _: pb.QueryInfo, rows: int) -> None:
        now = time.monotonic()
        if now - self._shown_at < _PROGRESS_EVERY_S or self._console.quiet:
            return
        self._shown_at = now
        self._cluster.check()
        streams = [
            f"{stream.name} {stream.rows:,} ({stream.state})"
            for client in self._cluster.clients.values()
            for stream in client.status().streams
            if stream.state != "held"
        ]
        end = "\r" if self._console.is_terminal else "\n"
        line = f"{now - self._began:5.0f} s  {rows:,} rows   tuples read: {', '.join(streams)}"
        print(line.ljust(100) if end == "\r" else line, end=end, file=sys.stderr, flush=True)
