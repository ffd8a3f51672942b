"""``narrows queries``: the queries of all sites."""

from __future__ import annotations

import sys
from pathlib import Path

from cli.command import narrows_command
from cli.exit_codes import DONE, FAILED
from cli.options.common import json_option
from cli.options.config import config_option, read_cluster
from cli.show.console import table_console
from cli.show.json_out import queries_json
from cli.show.tables import show_queries
from cli.sites import client_of
from node.client import DaemonUnreachableError, NotNowError
from node.rpc import control_pb2 as pb

_EXAMPLES = """\
examples:
  narrows queries
  narrows queries --json
"""


@narrows_command("queries", _EXAMPLES)
@config_option
@json_option
def command(config: Path | None, as_json: bool) -> int:
    """Lists the queries of all sites that answer, those that have ended too, until they are dropped."""
    found: list[pb.QueryInfo] = []
    silent: dict[str, str] = {}
    cluster = read_cluster(config)
    for site in cluster.sites:
        with client_of(cluster, site.name) as client:
            try:
                found += client.queries()
            except (DaemonUnreachableError, NotNowError) as error:
                silent[site.name] = str(error)
    for text in silent.values():
        print(f"narrows: {text}", file=sys.stderr)
    if as_json:
        print(queries_json(found, silent))
    elif found:
        show_queries(table_console(), found)
    elif len(silent) < len(cluster.sites):
        print("no queries", file=sys.stderr)
    return FAILED if len(silent) == len(cluster.sites) else DONE
