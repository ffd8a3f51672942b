"""``narrows node``: the daemon of one site."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from cli.command import narrows_command
from cli.errors import CommandError
from cli.loading import loading
from cli.options.common import speed_option
from cli.options.config import complete_sites, config_option, read_cluster
from cli.options.engine import engine_option, with_engine

_EXAMPLES = """\
examples:
  narrows node --site frankfurt
  narrows node --site frankfurt --config /etc/narrows/cluster.toml --speed 1
"""


@narrows_command("node", _EXAMPLES)
@click.option(
    "--site",
    required=True,
    metavar="SITE",
    shell_complete=complete_sites,
    help="which site of the configuration this is",
)
@config_option
@speed_option
@engine_option()
@click.option("--no-log", is_flag=True, help="keep no log of the streams: for runs that nobody continues")
@click.option(
    "--fresh",
    is_flag=True,
    help="forget what an earlier run of the site has left in state_dir, after saying what that is, and begin anew",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="go on without what is damaged, which is put aside: files of the streams' logs, and whole folders of queries "
    "that were issued there, with their rows; queries that need it end",
)
@click.option("--with-parent", is_flag=True, hidden=True)
@click.option("--verbose", is_flag=True, help="say more")
def command(
    site: str,
    config: Path | None,
    speed: float | None,
    engine: str | None,
    no_log: bool,
    fresh: bool,
    accept_data_loss: bool,
    with_parent: bool,
    verbose: bool,
) -> int:
    """Runs the daemon of one site in the foreground, until Ctrl-C or SIGTERM. A recording (a stream that replays a
    file) starts when the first query that reads it starts. Started again, the site goes on where it was. On a disk so
    full that it cannot begin it says so and waits, until there is room or it is stopped.
    """
    if no_log and fresh:
        raise CommandError("narrows node requires --fresh or --no-log; got both, and without a log nothing is kept")
    cluster = with_engine(read_cluster(config), engine)
    with loading():
        from cli.daemon import serve_site  # noqa: PLC0415 - only who runs it needs a server
        from cli.spark_check import check_spark  # noqa: PLC0415
        from node.daemon import ServeOptions  # noqa: PLC0415
    check_spark([cluster.site(site)])
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, format=f"%(asctime)s {site} %(levelname)s %(message)s", stream=sys.stderr)
    options = ServeOptions(speed, with_parent, logged=not no_log, fresh=fresh, accept_loss=accept_data_loss)
    serve_site(cluster, site, options)
    return 0
