"""Texts that must fit: names, choices, what may not be empty."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from node.config.problems import RefusedError, one_of, shown

T = TypeVar("T")


def matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    """A parser of names."""

    def parse(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise RefusedError(f"a name that matches {pattern.pattern}", shown(text))
        return text

    return parse


def choice(choices: dict[str, T]) -> Callable[[str], T]:
    """A parser of one of a few words."""

    def parse(text: str) -> T:
        if text not in choices:
            raise RefusedError(one_of(choices, text), shown(text))
        return choices[text]

    return parse


def non_empty(what: str) -> Callable[[str], str]:
    """A parser of any text but an empty one; ``what`` says what it should have been."""

    def parse(text: str) -> str:
        if not text or "\0" in text:
            raise RefusedError(what, shown(text))
        return text

    return parse
