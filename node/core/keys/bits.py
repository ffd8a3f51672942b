"""Many bits, read and written by arrays of places."""

from __future__ import annotations

import numpy as np
from bitarray import bitarray
from numpy.typing import NDArray

from node.core.keys.hashing import I64

Mask = NDArray[np.bool_]


class Bits:
    """Bits that are 0 until they are set."""

    def __init__(self) -> None:
        self._bits = bitarray(endian="big")

    def __len__(self) -> int:
        return len(self._bits)

    @property
    def nbytes(self) -> int:
        return self._bits.nbytes

    @property
    def count(self) -> int:
        """How many are set."""
        return self._bits.count()

    def grow(self, size: int) -> None:
        """Have at least ``size`` bits."""
        if size > len(self._bits):
            self._bits.extend(bitarray(size - len(self._bits)))

    def drop_first(self, count: int) -> int:
        """Forget the first ``count`` bits; how many of them were set."""
        were_set = self._bits.count(1, 0, count)
        del self._bits[:count]
        return were_set

    def get(self, places: I64) -> Mask:
        if not len(places):
            return np.empty(0, np.bool_)
        found: Mask = (self._bytes()[places >> 3] & _mask(places)) != 0
        return found

    def set(self, places: I64) -> None:
        if len(places):
            np.bitwise_or.at(self._bytes(), places >> 3, _mask(places))

    def clear(self, places: I64) -> None:
        if len(places):
            np.bitwise_and.at(self._bytes(), places >> 3, ~_mask(places))

    def _bytes(self) -> NDArray[np.uint8]:
        """The bits' memory. They cannot grow while this is held, so nobody keeps it."""
        return np.frombuffer(memoryview(self._bits), np.uint8)


def _mask(places: I64) -> NDArray[np.uint8]:
    masks: NDArray[np.uint8] = np.uint8(0x80) >> (places & 7).astype(np.uint8)
    return masks
