"""Values that options take. What is wrong with one is said as: required this; got that."""

from __future__ import annotations

from pathlib import Path

import click

from cli.mistakes import required_one_of
from planner.model.durations import duration_us

#: A file that may be there or not: whoever opens it knows better what is wrong with it.
FILE = click.Path(path_type=Path, readable=False)


class OneOf(click.Choice[str]):
    """A word of a list."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        return required_one_of(self.choices, str(value))


def seconds(text: str) -> float:
    """A duration above 0, in seconds."""
    length_us = duration_us(text)
    if not length_us:
        raise ValueError(f"required a duration above 0 such as 30s or 2min; got {text!r}")
    return length_us / 1e6


def factor(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"required a number above 0, such as 1 or 0.5; got {text!r}")
    return value


def count(text: str) -> int:
    """A whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"required a whole number above 0; got {text!r}")
    return int(text)
