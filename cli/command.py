"""What all commands have in common: their help ends with lines to copy and the exit codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from cli.exit_codes import EXIT_CODES


class Command(click.Command):
    """A command that is named in every mistake that is made with it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            # Of an option without its value, click does not say whose it is.
            error.ctx = error.ctx or ctx
            raise


def narrows_command(name: str, *ending: str, usage: str = "[OPTIONS]") -> Callable[[Callable[..., int]], Command]:
    """Make a function a command. Its docstring is the help, its result the exit code; ``ending`` is what to copy.

    ``usage`` is what can come before the arguments.
    """
    settings: dict[str, Any] = {"options_metavar": usage, "epilog": verbatim(*ending, EXIT_CODES)}
    return click.command(name, cls=Command, **settings)


def verbatim(*texts: str) -> str:
    """Texts of which click keeps the lines as they are."""
    return "\n\n".join(f"\b\n{part}" for text in texts for part in text.strip("\n").split("\n\n"))
