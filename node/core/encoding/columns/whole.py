"""Whole numbers, dates and times, and truth values: packed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from node.core.encoding.columns.layout import Layout, Piece, Tag, check_range, dtype_of, fixed, values_of
from node.core.encoding.ints import pack_bits, pack_ints


def _encode_whole(column: pa.Array) -> tuple[int, bytes]:
    values = values_of(column)
    return Tag.PLAIN, pack_ints(values.view(np.int64) if values.itemsize == 8 else values.astype(np.int64))


def _decode_whole(piece: Piece) -> tuple[pa.Array, int]:
    piece.check_tag(Tag.PLAIN)
    values, at = piece.ints(piece.at, piece.count)
    dtype = dtype_of(piece.kind)
    if dtype.itemsize < 8:
        check_range(values, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), piece.kind)  # type: ignore[type-var]
        narrow: npt.NDArray[np.generic] = values.astype(dtype)
    else:
        narrow = values.view(dtype)
    return fixed(piece, narrow), at


def truths(column: pa.Array) -> npt.NDArray[np.uint8]:
    """A byte for each truth value."""
    packed = np.frombuffer(column.buffers()[1], np.uint8)
    return np.unpackbits(packed, count=column.offset + len(column), bitorder="little")[column.offset :]


def _encode_truths(column: pa.Array) -> tuple[int, bytes]:
    return Tag.PLAIN, pack_ints(truths(column).astype(np.int64))


def _decode_truths(piece: Piece) -> tuple[pa.Array, int]:
    piece.check_tag(Tag.PLAIN)
    values, at = piece.ints(piece.at, piece.count)
    check_range(values, 0, 1, piece.kind)
    buffers = [piece.validity, pa.py_buffer(pack_bits(piece.spread(values.astype(np.uint8))))]
    return pa.Array.from_buffers(piece.kind, piece.rows, buffers), at


WHOLE = Layout(_encode_whole, _decode_whole)
TRUTHS = Layout(_encode_truths, _decode_truths)
