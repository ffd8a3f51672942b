"""What the log of a stream holds when its site starts: all that the stream needs to go on where it was."""

from __future__ import annotations

from dataclasses import dataclass

from node.core.streams.position import SourcePlace
from node.core.streams.ticks import Span


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A batch that the log has."""

    first: int
    end: int
    rows: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class LogExtent:
    """The batches that a log has, at least one, and how things stood when the last of them was sealed."""

    batches: tuple[LoggedBatch, ...]
    #: The number that the next tuple gets.
    next_tuple: int
    #: The newest event time that had arrived; None while none had.
    newest_ts: int | None
    #: How far the source was read; None if it cannot say, and so cannot be read on.
    place: SourcePlace | None
    #: Ticks whose tuples were damaged on disk, and were given up.
    lost: tuple[Span, ...] = ()

    @property
    def begin(self) -> int:
        """The first tick that the log has."""
        return self.batches[0].first

    @property
    def end(self) -> int:
        """Every tick before this one is logged."""
        return self.batches[-1].end
