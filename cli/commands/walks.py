"""``narrows walks``: what each batch that is under way waits for, at the sites where it is."""

from __future__ import annotations

from pathlib import Path

import click

from cli.asking import ask_each
from cli.command import narrows_command
from cli.exit_codes import DONE, FAILED
from cli.options.common import json_option
from cli.options.config import complete_sites, config_option, read_cluster
from cli.show.console import table_console
from cli.show.json_out import walks_json
from cli.show.walks import show_walks
from cli.sites import client_of

_EXAMPLES = """\
examples:
  narrows walks
  narrows walks frankfurt-1mhqyjj-1 --at virginia
  narrows walks --json
"""


@narrows_command("walks", _EXAMPLES)
@click.argument(
    "query_id", required=False, metavar="[ID]", help="only walks of this query, as narrows queries shows it"
)
@config_option
@click.option("--at", metavar="SITE", shell_complete=complete_sites, help="only walks that are at this site")
@json_option
def command(query_id: str | None, config: Path | None, at: str | None, as_json: bool) -> int:
    """Shows every walk that is under way: a batch of a stream, with what was joined to it so far; the step of the
    query's plan that comes next; what it waits for, and how long. A walk that travels between two sites is at neither:
    narrows status shows what a link has still to send.
    """
    cluster = read_cluster(config)
    asked = [cluster.site(at)] if at else cluster.sites
    clients = {site.name: client_of(cluster, site.name) for site in asked}
    found = ask_each(clients, lambda client: client.walks(query_id or ""))
    for client in clients.values():
        client.close()
    if as_json:
        print(walks_json(cluster, found))
    else:
        show_walks(table_console(), cluster.tau_ms, found, query_id or "")
    return DONE if any(not isinstance(answer, str) for answer in found.values()) else FAILED
