"""Standard error, for what is said to people beside the rows: if they do not hear it, the rows are no worse."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TextIO


class UnheardStream:
    """A stream that may be closed, full or a pipe that nobody reads any more: what cannot be written is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except (OSError, ValueError):  # the latter if it was closed
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
