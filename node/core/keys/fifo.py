"""A queue of numbers as one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_FIRST_SIZE = 64


class Fifo:
    """Append at the end, drop at the front; both cost O(numbers given), amortised."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._room: NDArray[Any] = np.empty(_FIRST_SIZE, dtype)
        self._start = 0
        self._end = 0

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def values(self) -> NDArray[Any]:
        """What is queued, oldest first; valid until the next change."""
        return self._room[self._start : self._end]

    @property
    def nbytes(self) -> int:
        return self._room.nbytes

    def append(self, values: NDArray[Any]) -> None:
        if self._end + len(values) > len(self._room):
            self._make_room(len(values))
        self._room[self._end : self._end + len(values)] = values
        self._end += len(values)

    def pop(self, count: int) -> NDArray[Any]:
        """The ``count`` oldest, which are dropped."""
        gone = self.values[:count].copy()
        self._start += len(gone)
        return gone

    def _make_room(self, more: int) -> None:
        live = self.values
        size = max(_FIRST_SIZE, 2 * (len(live) + more))
        room = np.empty(size, self._room.dtype)
        room[: len(live)] = live
        self._room, self._start, self._end = room, 0, len(live)
