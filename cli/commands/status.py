"""``narrows status``: what is going on, in words and tables, or as JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click

from cli.asking import ask_all
from cli.command import narrows_command
from cli.exit_codes import DONE, FAILED
from cli.options.common import json_option
from cli.options.config import config_option, read_cluster
from cli.options.values import seconds
from cli.show.console import table_console
from cli.show.diagnosis import diagnosis
from cli.show.json_out import status_json
from cli.show.tables import show_status, show_words
from cli.sites import client_of
from node.rpc import control_pb2 as pb

_EXAMPLES = """\
examples:
  narrows status
  narrows status --json
  narrows status --wait 1min                        in a script that has started the daemons

A site that does not answer is shown as such; if none answers, the exit code is 1.
"""
_LOOK_EVERY_S = 0.2


@narrows_command("status", _EXAMPLES)
@config_option
@json_option
@click.option(
    "--wait",
    type=seconds,
    metavar="DURATION",
    help="first wait until all sites answer and have their links, at most so long; exit code 1 if they do not",
)
def command(config: Path | None, as_json: bool, wait: float | None) -> int:
    """Says in words what is going on, then shows sites, streams, links, windows, copies and queries."""
    cluster = read_cluster(config)
    clients = {site.name: client_of(cluster, site.name) for site in cluster.sites}
    statuses = ask_all(clients)
    deadline = time.monotonic() + (wait or 0.0)
    while not _all_up(statuses) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        statuses = ask_all(clients)
    for client in clients.values():
        client.close()
    words = diagnosis(statuses, cluster.tau_ms)
    if as_json:
        print(status_json(cluster, statuses, words))
    else:
        console = table_console()
        show_words(console, "What is going on", words)
        show_status(console, cluster.tau_ms, statuses)
    if wait is not None:
        return DONE if _all_up(statuses) else FAILED
    return DONE if any(not isinstance(status, str) for status in statuses.values()) else FAILED


def _all_up(statuses: Mapping[str, pb.StatusReply | str]) -> bool:
    """Whether every site answers and has all its links."""
    return all(
        not isinstance(status, str) and all(link.state == "up" for link in status.links) for status in statuses.values()
    )
