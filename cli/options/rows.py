"""``--format`` and ``--out``: how rows are shown, or where they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from cli.options.values import FILE, OneOf

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
    help="write rows to FILE instead: .parquet, .csv or .jsonl; it appears, or is replaced, when it is whole",
)


def row_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Both."""
    return _format(_out(function))
