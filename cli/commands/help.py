"""``narrows help``: what ``--help`` says, for those who ask this way."""

from __future__ import annotations

import click

from cli.command import narrows_command
from cli.narrows import COMMANDS
from cli.options.values import OneOf

_EXAMPLES = """\
examples:
  narrows help
  narrows help run
"""


@narrows_command("help", _EXAMPLES)
@click.argument("name", required=False, metavar="[COMMAND]", type=OneOf(COMMANDS))
@click.pass_context
def command(context: click.Context, name: str | None) -> int:
    """Shows the commands, or the help of one."""
    top = context.find_root()
    assert isinstance(top.command, click.Group)
    named = top.command.get_command(top, name) if name else None
    print((top if named is None else click.Context(named, top, name)).get_help())
    return 0
