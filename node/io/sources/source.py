"""What the daemon needs of a stream's source, whoever reads it."""

from __future__ import annotations

from typing import Protocol

from node.core.events import RowsArrived, SourceFailed
from node.core.planning.profile import Sample
from node.core.streams.position import Position
from node.core.streams.stream import LocalStream
from planner.model.declarations import DeclaredStream


class Source(Protocol):
    """Where the rows of one stream come from: a file that is replayed, or Spark.

    Blocking. One worker thread at a time calls ``read``; any thread may call ``peek`` beside it.
    """

    @property
    def local(self) -> LocalStream:
        """The stream, as the core knows it."""
        ...

    @property
    def declared(self) -> DeclaredStream:
        """What the configuration says of the stream."""
        ...

    def read(self, origin_ms: int | None) -> RowsArrived | SourceFailed:
        """The next rows, after a while none. ``origin_ms`` is where the event time of a paced replay begins."""
        ...

    def peek(self) -> Sample:
        """Rows to measure the stream by; ``read`` gives them all the same. Raises SourceError if there are none."""
        ...

    def logged(self, resume: Position) -> None:
        """Every row before this one is sealed and durable, or set aside: it will never be read again. Any thread."""
        ...

    def close(self) -> None:
        """Let go of what it holds; a ``read`` that waits returns."""
        ...
