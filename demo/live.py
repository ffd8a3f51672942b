"""One line that shows how far something is: rewritten in place on a terminal, added once a second elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time

EVERY_S_PIPE = 1.0
EVERY_S_TERMINAL = 0.2
COLUMNS_MAX = 79


class LiveLine:
    """Where progress goes. Print nothing else to standard output between ``show`` and ``clear``."""

    def __init__(self) -> None:
        self._in_place = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self.every_s = EVERY_S_TERMINAL if self._in_place else EVERY_S_PIPE
        self._shown_at = float("-inf")

    @property
    def due(self) -> bool:
        """Whether enough time has passed since the last line."""
        return time.monotonic() - self._shown_at >= self.every_s

    def show(self, text: str) -> None:
        self._shown_at = time.monotonic()
        if self._in_place:
            columns = min(COLUMNS_MAX, shutil.get_terminal_size().columns - 1)
            print(f"\r{text[:columns].ljust(columns)}", end="", flush=True)
        else:
            print(text, flush=True)

    def clear(self) -> None:
        """Make room for ordinary output."""
        if self._in_place:
            print("\r\x1b[2K", end="", flush=True)


def bar(share: float, width: int = 10) -> str:
    """A share between 0 and 1 as a bar and a percentage."""
    share = min(1.0, max(0.0, share))
    full = int(share * width)
    return f"[{'#' * full}{'.' * (width - full)}] {int(100 * share):3}%"
