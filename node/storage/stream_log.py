"""What the log of one stream does, wherever it is kept."""

from __future__ import annotations

from typing import Protocol

from node.core.streams.sealer import Batch

#: A reader gets about this much at once.
PIECE_BYTES = 1 << 20


class StreamLog(Protocol):
    """The sealed batches of one stream, in the order of their ticks, without a gap."""

    @property
    def frontier(self) -> int:
        """Everything before this tick is durable; TICK_MIN while nothing was logged."""

    @property
    def nbytes(self) -> int:
        """How much is kept."""

    def append(self, batch: Batch) -> None:
        """Take the next batch; it is durable after ``commit``."""

    def commit(self) -> None:
        """Make durable what was appended; raises StorageError if that cannot be had.

        Also then ``frontier`` is true. What is beyond it will never become durable: it must be appended again.
        """

    def read_from(self, tick: int) -> tuple[Batch, ...]:
        """Durable batches from the one that contains ``tick`` on: about PIECE_BYTES, at least one if there is any.

        Raises StorageError if they were forgotten or cannot be read.
        """

    def sizes_from(self, tick: int) -> tuple[int, ...]:
        """What each durable batch takes that ends after ``tick``."""

    def trim(self, tick: int) -> None:
        """Batches that end at or before ``tick`` may be forgotten."""

    def close(self) -> None: ...
