"""The time that the core is told."""

from __future__ import annotations

import time


class Clock:
    """Microseconds since 1970 at the start, and steady from then on: it never jumps or runs backwards."""

    def __init__(self) -> None:
        self._offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000

    def now_us(self) -> int:
        return self._offset_us + time.monotonic_ns() // 1000
