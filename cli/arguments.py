"""Command lines that explain in one line what is wrong with them, and values that options take."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from planner.durations import duration_us


class Parser(argparse.ArgumentParser):
    """Like argparse's, without a screen full of usage before the one line that matters."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help says more\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        required = f"required one of {', '.join(known)}{_did_you_mean(str(value), known)}; got {str(value)!r}"
        raise argparse.ArgumentError(None if action.metavar == "COMMAND" else action, required)


class TopParser(Parser):
    """The parser of ``narrows`` itself: its help shows commands by what one wants to do."""

    def __init__(self, groups: dict[str, tuple[str, ...]], **settings: Any) -> None:
        super().__init__(**settings)
        self._groups = groups

    def format_help(self) -> str:
        helps = {command.dest: command.help or "" for command in self._commands()._choices_actions}
        lines = [f"usage: {self.prog} COMMAND [OPTION ...]", "", self.description or "", ""]
        for title, names in self._groups.items():
            for place, name in enumerate(names):
                lines.append(f"{title if not place else '':9}{name:12}{helps[name]}")
        return "\n".join([*lines, "", (self.epilog or "").rstrip(), ""])

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Like ``parse_args``; words that nobody knows are blamed on the command that they were given to."""
        options, unknown = self.parse_known_args(arguments)
        if hasattr(options, "words") and not any(word.startswith("-") for word in unknown):
            # argparse takes words only from one place, but they may stand on both sides of an option.
            options.words += unknown
        elif unknown:
            self._refuse(options, unknown)
        return options

    def _refuse(self, options: argparse.Namespace, unknown: list[str]) -> NoReturn:
        command = self._command(options)
        if options.command == "query" and not unknown[0].startswith("-"):
            command.error(f"required the query as one text in quotes; got also {' '.join(unknown)!r}")
        known = [name for action in command._actions for name in action.option_strings]
        command.error(f"unknown: {' '.join(unknown)}{_did_you_mean(unknown[0].partition('=')[0], known)}")

    def _command(self, options: argparse.Namespace) -> argparse.ArgumentParser:
        """The innermost command that was named: of ``narrows wan cut`` it is cut."""
        found: argparse.ArgumentParser = self
        while deeper := [action for action in found._actions if isinstance(action, argparse._SubParsersAction)]:
            found = deeper[0].choices[getattr(options, deeper[0].dest)]
        return found

    def command_help(self, names: Iterable[str]) -> str:
        """What ``--help`` says: of this, or of the command of that name."""
        found: argparse.ArgumentParser = self
        for name in names:
            found = self._commands().choices[name]
        return found.format_help()

    def _commands(self) -> argparse._SubParsersAction[argparse.ArgumentParser]:
        return next(action for action in self._actions if isinstance(action, argparse._SubParsersAction))


def _did_you_mean(got: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(got, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def seconds(text: str) -> float:
    """A duration above 0, in seconds."""
    length_us = duration_us(text)
    if not length_us:
        raise argparse.ArgumentTypeError(f"required a duration above 0 such as 30s or 2min; got {text!r}")
    return length_us / 1e6


def speed(text: str) -> float:
    """A factor above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"required a number above 0, such as 1 or 0.5; got {text!r}")
    return value


def times(text: str) -> int:
    """A whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"required a whole number above 0; got {text!r}")
    return int(text)
