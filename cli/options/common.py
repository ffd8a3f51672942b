"""Small options and arguments that several commands have."""

from __future__ import annotations

import click

from cli.options.config import complete_sites
from cli.options.values import factor

at_option = click.option(
    "--at",
    metavar="SITE",
    shell_complete=complete_sites,
    help="the query's home: rows are collected there (default: the first site)",
)
json_option = click.option("--json", "as_json", is_flag=True, help="print JSON, for scripts")
speed_option = click.option(
    "--speed",
    type=factor,
    metavar="FACTOR",
    help="files are replayed at this multiple of the time in them, 1 for real time (default: as fast as the cluster "
    "keeps up); streams that Spark reads come as they come",
)
query_id_argument = click.argument("query_id", metavar="ID", help="of the query, as narrows queries shows it")
