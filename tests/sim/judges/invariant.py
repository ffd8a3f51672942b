"""What is raised when something that must always be true is not."""

from __future__ import annotations


class InvariantError(AssertionError):
    """An invariant does not hold; the text begins with its number."""


def broken(number: int, what: str) -> InvariantError:
    return InvariantError(f"invariant {number}: {what}")
