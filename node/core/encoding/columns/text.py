"""Text and binary: lengths packed, then the bytes; or distinct values, and which of them each row has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from node.core.encoding.columns.layout import SAMPLE_ROWS, Layout, Piece, Tag, check_range, values_of
from node.core.encoding.ints import Ints, pack_ints
from node.core.encoding.varint import decode_varint, encode_varint
from node.core.errors import PeerProtocolError

#: A dictionary is tried if every other value of a sample, or fewer, is new, and used if there are so many rows for
#: each distinct value.
_DISTINCT_SHARE = 4


def _encode_text(column: pa.Array) -> tuple[int, bytes]:
    if len(column) >= 16 and _looks_repeated(column):
        coded = column.dictionary_encode()
        if len(coded.dictionary) * _DISTINCT_SHARE <= len(column):
            distinct = _text_bytes(coded.dictionary)
            which = pack_ints(values_of(coded.indices).astype(np.int64))
            return Tag.OTHER, encode_varint(len(coded.dictionary)) + distinct + which
    return Tag.PLAIN, _text_bytes(column)


def _looks_repeated(column: pa.Array) -> bool:
    sample = column.slice(0, SAMPLE_ROWS)
    return len(sample.unique()) * 2 <= len(sample)


def _text_bytes(column: pa.Array) -> bytes:
    dtype = _offsets_dtype(column.type)
    _, offsets_buffer, data = column.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype, len(column) + 1, column.offset * dtype.itemsize).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    text = memoryview(data)[first:last] if data is not None else b""
    return b"".join((pack_ints(np.diff(offsets)), text))


def _decode_text(piece: Piece) -> tuple[pa.Array, int]:
    piece.check_tag(Tag.PLAIN, Tag.OTHER)
    if piece.tag == Tag.PLAIN:
        lengths, text, at = _text_of(piece, piece.at, piece.count)
        piece.room.charge(len(text), "a column of text")
        return _text(piece, lengths, text), at
    count, at = decode_varint(piece.data, piece.at)
    if not 0 < count <= piece.count:
        raise PeerProtocolError(f"{piece.count} values require fewer distinct ones; got {count}")
    lengths, text, at = _text_of(piece, at, count)
    which, at = piece.ints(at, piece.count)
    check_range(which, 0, count - 1, "distinct values")
    piece.room.charge(int(lengths[which].sum()), "a column of text that repeats")
    distinct = _text(replace(piece, count=count, valid=None), lengths, text)
    expanded = distinct.take(pa.array(which)).buffers()[2]
    return _text(piece, lengths[which], memoryview(expanded or b"")), at


def _text_of(piece: Piece, at: int, count: int) -> tuple[Ints, memoryview, int]:
    lengths, at = piece.ints(at, count)
    check_range(lengths, 0, len(piece.data) - at, "text")
    size = int(lengths.sum())
    return lengths, piece.bytes_at(at, size), at + size


def _text(piece: Piece, lengths: Ints, text: memoryview) -> pa.Array:
    dtype = _offsets_dtype(piece.kind)
    if len(text) > np.iinfo(dtype).max:  # type: ignore[type-var]
        raise PeerProtocolError(f"a column of type {piece.kind} requires less text; got {len(text)} bytes")
    offsets = np.zeros(piece.rows + 1, dtype)
    np.cumsum(piece.spread(lengths), out=offsets[1:])
    buffers = [piece.validity, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(piece.kind, piece.rows, buffers)


def _offsets_dtype(kind: pa.DataType) -> np.dtype[np.generic]:
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return np.dtype("<i8" if large else "<i4")


TEXT = Layout(_encode_text, _decode_text)
