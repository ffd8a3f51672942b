"""One line that says how far things are: rewritten on a terminal, repeated elsewhere, at most once a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

_EVERY_S = 1.0


def rows_text(rows: int) -> str:
    """So many rows, as people say it."""
    return "1 row" if rows == 1 else f"{rows:,} rows"


class LiveLine:
    """The line, on standard error."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._shown_at = self._began
        self._open = False

    def show(self, text_of: Callable[[], str]) -> None:
        """Show what ``text_of`` says, if it is time; it is not asked otherwise."""
        now = time.monotonic()
        if self._console.quiet or now - self._shown_at < _EVERY_S:
            return
        self._shown_at = now
        line = f"{now - self._began:5.0f} s  {text_of()}"
        if not self._console.is_terminal:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            return
        width = max(1, self._console.width - 1)
        self._console.file.write("\r" + line[:width].ljust(width))
        self._console.file.flush()
        self._open = True

    def end(self) -> None:
        """Leave the line, so that what follows starts on its own."""
        if self._open:
            self._console.file.write("\n")
            self._open = False
