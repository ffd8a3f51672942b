"""What is wrong with a configuration: a line each, that names file, key, what was required and what came."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from planner.model.errors import NarrowsError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the configuration; ``key`` is empty when the whole file is meant."""

    file: str
    key: str
    required: str
    got: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.key}" if self.key else self.file
        return _printable(f"{where}: required {self.required}; got {self.got}")


class ConfigError(NarrowsError):
    """The configuration is wrong; the text has one line per problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class RefusedError(ValueError):
    """A value that does not fit; the caller knows the key it belongs to."""

    def __init__(self, required: str, got: str) -> None:
        super().__init__(f"required {required}; got {got}")
        self.required = required
        self.got = got


def shown(value: object) -> str:
    """A TOML value as it appears in a message: on one line, and not longer than is useful."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, bool | str) else str(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def one_of(choices: Iterable[str], got: str) -> str:
    """The allowed words, and the one that was probably meant; of one or two letters nothing can be guessed."""
    known = sorted(choices)
    text = ("one of " if len(known) > 1 else "") + ", ".join(shown(choice) for choice in known)
    near = difflib.get_close_matches(got, known, n=1) if len(got) > 2 else []
    return f"{text} (did you mean {shown(near[0])}?)" if near else text


def dotted(*parts: str) -> str:
    """A key as TOML writes it; parts that are not bare words are quoted."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else shown(part) for part in parts)


def _printable(text: str) -> str:
    """One line that is safe on a terminal, whatever a file's name or content brought into it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
