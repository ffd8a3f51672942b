"""Places in the source of a stream: what must be known to go on reading where an earlier life of the daemon ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Positions of rows: two columns, part and row.
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A row of a source. Parts follow one another: a recording has one, of Spark each micro-batch is one."""

    part: int
    row: int


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """How far a source was read when a batch was sealed.

    Every row before ``resume`` is in a batch or was set aside, so is every row of a sealed tick before ``read_to``; the
    others before ``read_to`` were open. What is read again from ``resume`` on is therefore told apart by its tick.
    """

    resume: Position
    read_to: Position


def positions_from(start: Position, count: int) -> Positions:
    """Of so many neighbours."""
    found = np.empty((count, 2), np.int64)
    found[:, 0] = start.part
    found[:, 1] = np.arange(start.row, start.row + count)
    return found


def oldest(positions: Positions) -> Position:
    """The first of them in the order of the source; there must be one."""
    part = int(positions[:, 0].min())
    return Position(part, int(positions[positions[:, 0] == part, 1].min()))


def count_before(start: Position, count: int, end: Position) -> int:
    """How many of ``count`` neighbours from ``start`` on are before ``end``."""
    if start.part != end.part:
        return count if start.part < end.part else 0
    return max(0, min(count, end.row - start.row))
