"""How much is tried: all of it in ``make test``, a tenth of it in ``make check``."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

#: In percent. ``make check`` sets it.
_SHARE = int(os.environ.get("NARROWS_EXAMPLES", "100"))
#: Below this a test hardly says anything.
_LEAST = 5


def examples(number: int = 100, **more: Any) -> settings:
    """Hypothesis tries the same examples each time. A decorator."""
    return settings(max_examples=some_of(number), deadline=None, derandomize=True, **more)


def new_examples(number: int = 100, **more: Any) -> settings:
    """Hypothesis tries others each time. A decorator."""
    return settings(max_examples=some_of(number), deadline=None, **more)


def some_of(number: int) -> int:
    """How many of so many examples or seeds are tried."""
    return min(number, max(_LEAST, number * _SHARE // 100))
