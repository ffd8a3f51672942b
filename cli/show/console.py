"""Where tables are printed."""

from __future__ import annotations

import os

from rich.console import Console

_WIDTH_MIN, _WIDTH_PIPED = 80, 160


def table_console() -> Console:
    """A pipe takes any width, and on a tiny terminal lines that break are better than columns cut away."""
    console = Console()
    if "COLUMNS" not in os.environ:
        console.width = max(console.width, _WIDTH_MIN if console.is_terminal else _WIDTH_PIPED)
    return console
