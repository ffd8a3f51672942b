"""``--format`` and ``--out``: how rows are shown, or where they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from cli.options.values import FILE, OneOf, seconds

_format = click.option(
    "--format",
    "form",
    type=OneOf(["table", "csv", "jsonl"]),
    help="how rows are printed, or written whatever the name of --out (default: table on a terminal, else csv)",
)
_out = click.option(
    "--out",
    type=FILE,
    metavar="FILE",
    help="write rows to FILE instead: .parquet, .csv, .jsonl or .arrows; it appears, or is replaced, when it is whole",
)
wait_option = click.option(
    "--wait",
    type=seconds,
    metavar="DURATION",
    help="the longest to wait, each time, while the query's home is away, or while another of its sites is and no rows "
    "come, such as 10min; then exit code 3 (default: for ever, but not for a home that never answered)",
)
reader_option = click.option(
    "--as",
    "reader",
    metavar="NAME",
    help="read under this name: each name has its own place, and rows are kept until all names have taken them",
)


def row_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Both."""
    return _format(_out(function))
