"""What one must know of a query's rows: tuples that took no part in it, and probes that could be wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

from cli.asking import ask_all
from cli.sites import client_of, home_client
from cli.tasks.stats import probe_stats
from node.config import ClusterConfig
from node.core.queries.query_id import home_of
from node.core.streams.sealer import LATE
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError


def caveats(query: pb.QueryInfo, statuses: Mapping[str, pb.StatusReply]) -> list[str]:
    """Each as a line; none if all is as it should be."""
    return [*_aside(query, statuses), *_probes(query.query_id, statuses)]


def say(lines: list[str]) -> None:
    """On standard error, however quiet the rest is."""
    for line in lines:
        print(f"narrows: {line}", file=sys.stderr)


def say_caveats(config: ClusterConfig, query_id: str) -> None:
    """The same of a query of a running cluster. A site that does not answer fails nothing: the rows are there."""
    query, silent = pb.QueryInfo(query_id=query_id), [home_of(query_id)]
    with suppress(NarrowsError), home_client(config, query_id) as home:
        # It may be dropped by now.
        query, silent = next(((info, []) for info in home.queries() if info.query_id == query_id), (query, silent))
    asked = [site.name for site in config.sites if any(stream.name in query.streams for stream in site.streams)]
    clients = {site: client_of(config, site) for site in asked}
    try:
        said = ask_all(clients)
    finally:
        for client in clients.values():
            client.close()
    say(caveats(query, {site: status for site, status in said.items() if isinstance(status, pb.StatusReply)}))
    if silent := [*silent, *(site for site, status in said.items() if isinstance(status, str))]:
        say([f"{', '.join(silent)} did not say whether tuples took no part in {query_id}"])


def _aside(query: pb.QueryInfo, statuses: Mapping[str, pb.StatusReply]) -> Iterator[str]:
    """Of the streams that the query reads."""
    for site, status in statuses.items():
        for stream in status.streams:
            if stream.aside and stream.name in query.streams:
                reasons = ", ".join(f"{rows:,} {reason}" for reason, rows in sorted(stream.aside_by_reason.items()))
                tuples = "1 tuple" if stream.aside == 1 else f"{stream.aside:,} tuples"
                where = f"; they are in {stream.aside_file}" if stream.aside_file else ""
                hint = "; a longer lateness takes those that are late" if LATE in stream.aside_by_reason else ""
                which = f"{tuples} of {stream.name} at {site}, of {stream.rows:,},"
                yield f"{which} took no part: {reasons}{where}{hint}"


def _probes(query_id: str, statuses: Mapping[str, pb.StatusReply]) -> Iterator[str]:
    probes = probe_stats(query_id, statuses)
    if probes["early"] or probes["late"]:
        yield (
            f"policy delta: rows may be wrong. A delay was longer than delta, {probes['delta_us'] / 1000:g} ms: "
            f"{probes['early']:,} probes came too early, {probes['late']:,} too late; "
            "a larger delta, or --policy frontier, which never is wrong"
        )
