"""Decimals, and binary of one size: as they are; decimals in planes of a byte."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from node.core.encoding.columns.layout import Layout, Piece, Tag, fixed, from_planes, planes


def _cell(kind: pa.DataType) -> np.dtype[np.generic]:
    return np.dtype(f"V{kind.bit_width // 8}")


def _cells(column: pa.Array) -> npt.NDArray[np.generic]:
    dtype = _cell(column.type)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def _encode_decimals(column: pa.Array) -> tuple[int, bytes]:
    return Tag.PLAIN, planes(_cells(column))


def _decode_decimals(piece: Piece) -> tuple[pa.Array, int]:
    piece.check_tag(Tag.PLAIN)
    return from_planes(piece, _cell(piece.kind))


def _encode_cells(column: pa.Array) -> tuple[int, bytes]:
    return Tag.PLAIN, _cells(column).tobytes()


def _decode_cells(piece: Piece) -> tuple[pa.Array, int]:
    piece.check_tag(Tag.PLAIN)
    size = _cell(piece.kind).itemsize * piece.count
    return fixed(piece, np.frombuffer(piece.bytes_at(piece.at, size), _cell(piece.kind))), piece.at + size


DECIMALS = Layout(_encode_decimals, _decode_decimals)
CELLS = Layout(_encode_cells, _decode_cells)
