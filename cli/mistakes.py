"""A command line that is not right, answered in one line: who, what was required, what came."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import click


def mistake(error: click.UsageError) -> str:
    """The line."""
    who = "narrows" if error.ctx is None else error.ctx.command_path
    return f"{who}: {_what(error)}; {who} --help says more"


def required_one_of(known: Sequence[str], got: str) -> str:
    """That a word is none of those known, and which one may have been meant."""
    near = difflib.get_close_matches(got, known, n=1)
    return f"required one of {', '.join(known)}{_did_you_mean(near)}; got {got!r}"


def _what(error: click.UsageError) -> str:
    context = error.ctx
    if isinstance(error, click.NoSuchCommand) and context is not None and isinstance(context.command, click.Group):
        return f"command: {required_one_of(context.command.list_commands(context), error.command_name)}"
    if isinstance(error, click.NoSuchOption):
        return f"unknown: {error.option_name}{_did_you_mean(error.possibilities or [])}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"required {_name(error.param)}{_choices(error.param)}; got none"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_name(error.param)}: {error.message}"
    text = error.format_message().rstrip(".")
    return f"{text[:1].lower()}{text[1:]}"


def _did_you_mean(near: Sequence[str]) -> str:
    """The nearest comes first."""
    return f" (did you mean {near[0]}?)" if near else ""


def _name(parameter: click.Parameter) -> str:
    """As it is typed, or as the help calls it."""
    return parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name.strip("[]")


def _choices(parameter: click.Parameter) -> str:
    return f", one of {', '.join(parameter.type.choices)}" if isinstance(parameter.type, click.Choice) else ""
