"""What the layouts of columns share: the piece of bytes that one reads, and numbers that all have one size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from node.core.encoding.ints import Ints, pack_bits, unpack_ints
from node.core.encoding.room import Room
from node.core.errors import PeerProtocolError

#: So many of the first values are looked at before something is tried on all of them.
SAMPLE_ROWS = 128


class Tag(IntEnum):
    """How a column begins. Added to each but SAME: whether values are missing."""

    SAME = 0
    PLAIN = 2
    #: Text: distinct values. Floats: whole numbers, to be divided.
    OTHER = 4


MISSING = 1


@dataclass(frozen=True, slots=True)
class Layout:
    """How columns of some types are laid out. ``encode`` is not given missing values, except that of all others."""

    encode: Callable[[pa.Array], tuple[int, bytes]]
    decode: Callable[[Piece], tuple[pa.Array, int]]


@dataclass(frozen=True, slots=True)
class Piece:
    """Where the values of a column are: ``count`` of them, those that are not missing."""

    data: memoryview
    at: int
    count: int
    kind: pa.DataType
    tag: int
    valid: npt.NDArray[np.uint8] | None
    room: Room

    def ints(self, at: int, count: int) -> tuple[Ints, int]:
        return unpack_ints(self.data, at, count)

    def bytes_at(self, at: int, size: int) -> memoryview:
        if size > len(self.data) - at:
            raise PeerProtocolError(f"a column requires {size} bytes; got {len(self.data) - at}")
        return self.data[at : at + size]

    def spread(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The values where they belong, zero where none is."""
        if self.valid is None:
            return values
        out = np.zeros(len(self.valid), values.dtype)
        out[self.valid.view(np.bool_)] = values
        return out

    @property
    def validity(self) -> pa.Buffer | None:
        return None if self.valid is None else pa.py_buffer(pack_bits(self.valid))

    @property
    def rows(self) -> int:
        return self.count if self.valid is None else len(self.valid)

    def check_tag(self, *allowed: Tag) -> None:
        if self.tag not in allowed:
            raise PeerProtocolError(
                f"a column of type {self.kind} requires a tag among {list(allowed)}; got {self.tag}"
            )


def dtype_of(kind: pa.DataType) -> np.dtype[np.generic]:
    """How numbers of a type lie in memory."""
    if pa.types.is_floating(kind):
        return np.dtype(f"<f{kind.bit_width // 8}")
    return np.dtype(f"<{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}")


def values_of(column: pa.Array) -> npt.NDArray[np.generic]:
    """The numbers of a column without missing ones, where they are."""
    dtype = dtype_of(column.type)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def check_range(values: Ints, low: int, high: int, what: object) -> None:
    """Raises PeerProtocolError if a value is outside."""
    if len(values) and not (low <= int(values.min()) and int(values.max()) <= high):
        raise PeerProtocolError(f"values of {what} require numbers from {low} to {high}; got others")


def fixed(piece: Piece, values: npt.NDArray[np.generic]) -> pa.Array:
    """A column of values that all have one size."""
    buffers = [piece.validity, pa.py_buffer(np.ascontiguousarray(piece.spread(values)))]
    return pa.Array.from_buffers(piece.kind, piece.rows, buffers)


def planes(values: npt.NDArray[np.generic]) -> bytes:
    """First the first bytes of all values, then the second ones: those are alike, and compress."""
    return values.view(np.uint8).reshape(-1, values.itemsize).T.tobytes()


def from_planes(piece: Piece, dtype: np.dtype[np.generic]) -> tuple[pa.Array, int]:
    """The column whose values were cut so."""
    size = dtype.itemsize * piece.count
    cut = np.frombuffer(piece.bytes_at(piece.at, size), np.uint8).reshape(dtype.itemsize, piece.count)
    return fixed(piece, np.ascontiguousarray(cut.T).view(dtype).reshape(-1)), piece.at + size
