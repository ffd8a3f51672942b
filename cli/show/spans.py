"""Lengths of time."""

from __future__ import annotations


def span(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
