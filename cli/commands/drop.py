"""``narrows drop``: the end of a query."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cli.command import narrows_command
from cli.options.common import query_id_argument
from cli.options.config import complete_sites, config_option, read_cluster
from cli.sites import client_of, home_site
from node.client import DaemonUnreachableError
from node.config import ClusterConfig

_EXAMPLES = """\
examples:
  narrows drop frankfurt-1mhqyjj-1
  narrows drop frankfurt-1mhqyjj-1 --at virginia      Frankfurt is gone for good

A site keeps what a query needs to go on until its home says that it is over. If the home is gone for good, --at has
one of the other sites forget it. Rows that nobody had taken are at the home, and stay there.
"""


@narrows_command("drop", _EXAMPLES)
@query_id_argument
@config_option
@click.option(
    "--at",
    metavar="SITE",
    shell_complete=complete_sites,
    help="end it at this site, because its home is gone (default: at its home, and so everywhere)",
)
def command(query_id: str, config: Path | None, at: str | None) -> int:
    """Ends a query everywhere, if it still runs, and forgets the rows that nobody has taken."""
    cluster = read_cluster(config)
    home = home_site(cluster, query_id)
    if at is None or at == home:
        _drop_everywhere(cluster, query_id, home)
    else:
        _drop_at(cluster, query_id, home, at)
    return 0


def _drop_everywhere(cluster: ClusterConfig, query_id: str, home: str) -> None:
    try:
        _ask(cluster, query_id, home)
    except DaemonUnreachableError as error:
        hint = (
            f"if {home} is gone for good: narrows drop {query_id} --at SITE, for each site that keeps something for it"
        )
        raise type(error)(f"{error}\n{hint}", home) from None
    _say(f"query {query_id} is dropped")


def _drop_at(cluster: ClusterConfig, query_id: str, home: str, site: str) -> None:
    answers = _answers(cluster, home)
    if not answers:
        _say(
            f"home {home} of query {query_id} does not answer: the query is ended at {site} alone, for good. Rows that "
            f"nobody has taken stay at {home}; if it comes back, the query ends there as failed, and so at all sites. "
            f"Until then other sites keep what they have for it: narrows drop {query_id} --at each of them"
        )
    _ask(cluster, query_id, site)
    everywhere = f"; its home {home} is told, and ends it everywhere" if answers else ""
    _say(f"query {query_id} is dropped at {site}{everywhere}")


def _ask(cluster: ClusterConfig, query_id: str, site: str) -> None:
    with client_of(cluster, site) as client:
        client.drop(query_id)


def _answers(cluster: ClusterConfig, site: str) -> bool:
    with client_of(cluster, site) as client:
        try:
            client.readiness()
        except DaemonUnreachableError:
            return False
    return True


def _say(text: str) -> None:
    print(text, file=sys.stderr)
