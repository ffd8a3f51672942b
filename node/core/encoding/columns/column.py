"""A column by its type: which layout it has, what is missing, and whether it is the same as an earlier one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.encoding.columns.cells import CELLS, DECIMALS
from node.core.encoding.columns.floats import FLOATS
from node.core.encoding.columns.layout import MISSING, Layout, Piece, Tag
from node.core.encoding.columns.other import OTHER
from node.core.encoding.columns.text import TEXT
from node.core.encoding.columns.whole import TRUTHS, WHOLE, truths
from node.core.encoding.ints import pack_bits
from node.core.encoding.room import Room
from node.core.encoding.varint import decode_varint, encode_varint
from node.core.errors import PeerProtocolError

_TEXT_TYPES = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)


def encode_column(column: pa.Array) -> bytes:
    """The column as bytes; it has at least one row."""
    layout = _layout(column.type)
    encode = layout.encode
    if layout is OTHER or not column.null_count:
        tag, data = encode(column)
        return bytes((tag,)) + data
    valid = column.is_valid()
    tag, data = encode(column.drop_null()) if column.null_count < len(column) else (Tag.PLAIN, b"")
    return bytes((tag | MISSING,)) + pack_bits(truths(valid)) + data


def same_as(number: int) -> bytes:
    """Stands for a column that has the same bytes as column ``number``."""
    return bytes((Tag.SAME,)) + encode_varint(number)


class ColumnReader:
    """Reads one column after another from the bytes of some rows.

    Every method raises PeerProtocolError if the bytes are not what they should be.
    """

    def __init__(self, data: bytes, at: int, count: int, room: Room) -> None:
        """``room`` has been charged with what each row takes whatever its value."""
        self._data = memoryview(data)
        self._count = count
        self._room = room
        self._starts: list[int] = []
        self.at = at

    def read(self, kind: pa.DataType) -> pa.Array:
        """The next column, of this type."""
        start = self.at
        if self._byte(start) == Tag.SAME:
            number, self.at = decode_varint(self._data, start + 1)
            if number >= len(self._starts):
                raise PeerProtocolError(f"column {len(self._starts)} requires an earlier one; got {number}")
            start = self._starts[number]
            column, _ = self._column(kind, start)
        else:
            column, self.at = self._column(kind, start)
        self._starts.append(start)
        return column

    def _column(self, kind: pa.DataType, at: int) -> tuple[pa.Array, int]:
        tag = self._byte(at)
        at += 1
        valid = None
        count = self._count
        if tag & MISSING:
            size = -(-count // 8)
            self._require(at, size)
            valid = np.unpackbits(np.frombuffer(self._data, np.uint8, size, at), count=count, bitorder="little")
            at += size
            count = int(np.count_nonzero(valid))
        return _layout(kind).decode(Piece(self._data, at, count, kind, tag & ~MISSING, valid, self._room))

    def _byte(self, at: int) -> int:
        self._require(at, 1)
        return self._data[at]

    def _require(self, at: int, size: int) -> None:
        if size > len(self._data) - at:
            raise PeerProtocolError(f"a column requires {size} bytes; got {len(self._data) - at}")


def rows_bytes(schema: pa.Schema, count: int) -> int:
    """What so many rows take whatever their values. Columns whose values have bytes of their own are left out."""
    return -(-count * sum(_row_bits(kind) for kind in schema.types) // 8)


def _row_bits(kind: pa.DataType) -> int:
    layout = _layout(kind)
    if layout is OTHER:
        return 0
    if layout is TEXT:
        return 64 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else 32
    return int(kind.bit_width)


def _layout(kind: pa.DataType) -> Layout:
    if pa.types.is_boolean(kind):
        return TRUTHS
    if pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)):
        return WHOLE
    if pa.types.is_floating(kind):
        return FLOATS
    if any(is_text(kind) for is_text in _TEXT_TYPES):
        return TEXT
    if pa.types.is_decimal(kind):
        return DECIMALS
    if pa.types.is_fixed_size_binary(kind) and kind.bit_width:
        return CELLS
    return OTHER
