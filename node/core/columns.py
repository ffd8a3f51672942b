"""One column of rows as bytes, without its type: both ends know it.

What is missing is left out and a bit for each row says where. How the rest is
laid out depends on the type alone:

    whole numbers, truth values, dates, times    packed (``ints.py``)
    floats            decimal fractions as whole numbers; others as they are, in planes of a byte
    text, binary      lengths packed, then the bytes; or distinct values, and which of them each row has
    decimals, binary of one size    as they are; decimals in planes of a byte
    all others        Arrow's own format for that column

A column that comes out as the same bytes as an earlier one is sent as its number:
event times travel twice, and so do the keys of two streams that were joined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from node.core.errors import PeerProtocolError
from node.core.ints import Ints, pack_bits, pack_ints, unpack_ints
from node.core.varint import decode_varint, encode_varint

#: More than what a column of one row group may be expanded to by a dictionary: 1 GiB.
EXPANDED_BYTES_MAX = 2**30

#: A dictionary is tried if this many values, or fewer, have at most half as many distinct ones.
_SAMPLE_ROWS = 128
#: and used if there are at most this many rows' worth of distinct values in it.
_DISTINCT_SHARE = 4

#: Powers of ten that are tried on floats, so that prices and measurements travel as whole numbers.
_SCALES = (1.0, 10.0, 100.0, 1_000.0, 10_000.0, 1_000_000.0)
#: Beyond it whole numbers have gaps among floats.
_EXACT_MAX = 2.0**53


class _Tag(IntEnum):
    """How a column begins. Added to each but SAME: whether values are missing."""

    SAME = 0
    PLAIN = 2
    #: Text: distinct values. Floats: whole numbers, to be divided.
    OTHER = 4


_MISSING = 1


def encode_column(column: pa.Array) -> bytes:
    """The column as bytes; it has at least one row."""
    layout = _layout(column.type)
    encode = layout.encode
    if layout is _OTHER or not column.null_count:
        tag, data = encode(column)
        return bytes((tag,)) + data
    valid = column.is_valid()
    tag, data = encode(column.drop_null()) if column.null_count < len(column) else (_Tag.PLAIN, b"")
    return bytes((tag | _MISSING,)) + pack_bits(_truths(valid)) + data


def same_as(number: int) -> bytes:
    """Stands for a column that has the same bytes as column ``number``."""
    return bytes((_Tag.SAME,)) + encode_varint(number)


class ColumnReader:
    """Reads one column after another from the bytes of some rows.

    Every method raises PeerProtocolError if the bytes are not what they should be.
    """

    def __init__(self, data: bytes, at: int, count: int) -> None:
        self._data = memoryview(data)
        self._count = count
        self._starts: list[int] = []
        self.at = at

    def read(self, kind: pa.DataType) -> pa.Array:
        """The next column, of this type."""
        start = self.at
        if self._byte(start) == _Tag.SAME:
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
        if tag & _MISSING:
            size = -(-count // 8)
            self._require(at, size)
            valid = np.unpackbits(np.frombuffer(self._data, np.uint8, size, at), count=count, bitorder="little")
            at += size
            count = int(np.count_nonzero(valid))
        return _layout(kind).decode(_Piece(self._data, at, count, kind, tag & ~_MISSING, valid))

    def _byte(self, at: int) -> int:
        self._require(at, 1)
        return self._data[at]

    def _require(self, at: int, size: int) -> None:
        if size > len(self._data) - at:
            raise PeerProtocolError(f"a column requires {size} bytes; got {len(self._data) - at}")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Where the values of a column are: ``count`` of them, those that are not missing."""

    data: memoryview
    at: int
    count: int
    kind: pa.DataType
    tag: int
    valid: npt.NDArray[np.uint8] | None

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

    def check_tag(self, *allowed: _Tag) -> None:
        if self.tag not in allowed:
            raise PeerProtocolError(
                f"a column of type {self.kind} requires a tag among {list(allowed)}; got {self.tag}"
            )


@dataclass(frozen=True, slots=True)
class _Layout:
    """How columns of some types are laid out. ``encode`` is not given missing values, except that of all others."""

    encode: Callable[[pa.Array], tuple[int, bytes]]
    decode: Callable[[_Piece], tuple[pa.Array, int]]


# -- whole numbers ------------------------------------------------------------------------------


def _dtype(kind: pa.DataType) -> np.dtype[np.generic]:
    if pa.types.is_floating(kind):
        return np.dtype(f"<f{kind.bit_width // 8}")
    return np.dtype(f"<{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}")


def _values(column: pa.Array) -> npt.NDArray[np.generic]:
    dtype = _dtype(column.type)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def _encode_whole(column: pa.Array) -> tuple[int, bytes]:
    values = _values(column)
    return _Tag.PLAIN, pack_ints(values.view(np.int64) if values.itemsize == 8 else values.astype(np.int64))


def _decode_whole(piece: _Piece) -> tuple[pa.Array, int]:
    piece.check_tag(_Tag.PLAIN)
    values, at = piece.ints(piece.at, piece.count)
    dtype = _dtype(piece.kind)
    if dtype.itemsize < 8:
        _check_range(values, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), piece.kind)  # type: ignore[type-var]
        narrow: npt.NDArray[np.generic] = values.astype(dtype)
    else:
        narrow = values.view(dtype)
    return _fixed(piece, narrow), at


def _check_range(values: Ints, low: int, high: int, what: object) -> None:
    if len(values) and not (low <= int(values.min()) and int(values.max()) <= high):
        raise PeerProtocolError(f"values of {what} require numbers from {low} to {high}; got others")


def _fixed(piece: _Piece, values: npt.NDArray[np.generic]) -> pa.Array:
    buffers = [piece.validity, pa.py_buffer(np.ascontiguousarray(piece.spread(values)))]
    return pa.Array.from_buffers(piece.kind, piece.rows, buffers)


def _truths(column: pa.Array) -> npt.NDArray[np.uint8]:
    packed = np.frombuffer(column.buffers()[1], np.uint8)
    return np.unpackbits(packed, count=column.offset + len(column), bitorder="little")[column.offset :]


def _encode_truths(column: pa.Array) -> tuple[int, bytes]:
    return _Tag.PLAIN, pack_ints(_truths(column).astype(np.int64))


def _decode_truths(piece: _Piece) -> tuple[pa.Array, int]:
    piece.check_tag(_Tag.PLAIN)
    values, at = piece.ints(piece.at, piece.count)
    _check_range(values, 0, 1, piece.kind)
    buffers = [piece.validity, pa.py_buffer(pack_bits(piece.spread(values.astype(np.uint8))))]
    return pa.Array.from_buffers(piece.kind, piece.rows, buffers), at


# -- floats -------------------------------------------------------------------------------------


def _encode_floats(column: pa.Array) -> tuple[int, bytes]:
    values = _values(column)
    for number, scale in enumerate(_SCALES):
        whole = _as_whole(values[:_SAMPLE_ROWS], scale)
        if whole is not None and (whole := _as_whole(values, scale)) is not None:
            return _Tag.OTHER, bytes((number,)) + pack_ints(whole)
    return _Tag.PLAIN, _planes(values)


def _planes(values: npt.NDArray[np.generic]) -> bytes:
    return values.view(np.uint8).reshape(-1, values.itemsize).T.tobytes()


def _from_planes(piece: _Piece, dtype: np.dtype[np.generic]) -> tuple[pa.Array, int]:
    size = dtype.itemsize * piece.count
    planes = np.frombuffer(piece.bytes_at(piece.at, size), np.uint8).reshape(dtype.itemsize, piece.count)
    return _fixed(piece, np.ascontiguousarray(planes.T).view(dtype).reshape(-1)), piece.at + size


def _as_whole(values: npt.NDArray[np.generic], scale: float) -> Ints | None:
    """``values`` times ``scale``, if dividing gives every bit of them back."""
    with np.errstate(all="ignore"):
        scaled = np.rint(values.astype(np.float64) * scale)
        if not (np.abs(scaled) < _EXACT_MAX).all():
            return None
        back = (scaled / scale).astype(values.dtype)
    word = f"u{values.itemsize}"
    # The bits, because minus zero equals zero.
    return scaled.astype(np.int64) if np.array_equal((back + 0.0).view(word), values.view(word)) else None


def _decode_floats(piece: _Piece) -> tuple[pa.Array, int]:
    piece.check_tag(_Tag.PLAIN, _Tag.OTHER)
    dtype = _dtype(piece.kind)
    if piece.tag == _Tag.OTHER:
        number = piece.bytes_at(piece.at, 1)[0]
        if number >= len(_SCALES):
            raise PeerProtocolError(f"floats require a scale below {len(_SCALES)}; got {number}")
        whole, at = piece.ints(piece.at + 1, piece.count)
        with np.errstate(all="ignore"):
            return _fixed(piece, (whole / _SCALES[number]).astype(dtype)), at
    return _from_planes(piece, dtype)


# -- cells of one size ----------------------------------------------------------------------------


def _cell(kind: pa.DataType) -> np.dtype[np.generic]:
    return np.dtype(f"V{kind.bit_width // 8}")


def _cells(column: pa.Array) -> npt.NDArray[np.generic]:
    dtype = _cell(column.type)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def _encode_decimals(column: pa.Array) -> tuple[int, bytes]:
    return _Tag.PLAIN, _planes(_cells(column))


def _decode_decimals(piece: _Piece) -> tuple[pa.Array, int]:
    piece.check_tag(_Tag.PLAIN)
    return _from_planes(piece, _cell(piece.kind))


def _encode_cells(column: pa.Array) -> tuple[int, bytes]:
    return _Tag.PLAIN, _cells(column).tobytes()


def _decode_cells(piece: _Piece) -> tuple[pa.Array, int]:
    piece.check_tag(_Tag.PLAIN)
    size = _cell(piece.kind).itemsize * piece.count
    return _fixed(piece, np.frombuffer(piece.bytes_at(piece.at, size), _cell(piece.kind))), piece.at + size


# -- text and binary ----------------------------------------------------------------------------


def _offsets_dtype(kind: pa.DataType) -> np.dtype[np.generic]:
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return np.dtype("<i8" if large else "<i4")


def _encode_text(column: pa.Array) -> tuple[int, bytes]:
    if len(column) >= 16 and _looks_repeated(column):
        coded = column.dictionary_encode()
        if len(coded.dictionary) * _DISTINCT_SHARE <= len(column) and column.nbytes < EXPANDED_BYTES_MAX:
            distinct = _text_bytes(coded.dictionary)
            which = pack_ints(_values(coded.indices).astype(np.int64))
            return _Tag.OTHER, encode_varint(len(coded.dictionary)) + distinct + which
    return _Tag.PLAIN, _text_bytes(column)


def _looks_repeated(column: pa.Array) -> bool:
    sample = column.slice(0, _SAMPLE_ROWS)
    return len(sample.unique()) * 2 <= len(sample)


def _text_bytes(column: pa.Array) -> bytes:
    dtype = _offsets_dtype(column.type)
    _, offsets_buffer, data = column.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype, len(column) + 1, column.offset * dtype.itemsize).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    text = memoryview(data)[first:last] if data is not None else b""
    return b"".join((pack_ints(np.diff(offsets)), text))


def _decode_text(piece: _Piece) -> tuple[pa.Array, int]:
    piece.check_tag(_Tag.PLAIN, _Tag.OTHER)
    if piece.tag == _Tag.PLAIN:
        lengths, text, at = _text_of(piece, piece.at, piece.count)
        return _text(piece, lengths, text), at
    count, at = decode_varint(piece.data, piece.at)
    if not 0 < count <= piece.count:
        raise PeerProtocolError(f"{piece.count} values require fewer distinct ones; got {count}")
    lengths, text, at = _text_of(piece, at, count)
    which, at = piece.ints(at, piece.count)
    _check_range(which, 0, count - 1, "distinct values")
    if int(lengths[which].sum()) > EXPANDED_BYTES_MAX:
        raise PeerProtocolError(f"a column requires at most {EXPANDED_BYTES_MAX} bytes; got more")
    distinct = _text(replace(piece, count=count, valid=None), lengths, text)
    expanded = distinct.take(pa.array(which)).buffers()[2]
    return _text(piece, lengths[which], memoryview(expanded or b"")), at


def _text_of(piece: _Piece, at: int, count: int) -> tuple[Ints, memoryview, int]:
    lengths, at = piece.ints(at, count)
    _check_range(lengths, 0, len(piece.data) - at, "text")
    size = int(lengths.sum())
    return lengths, piece.bytes_at(at, size), at + size


def _text(piece: _Piece, lengths: Ints, text: memoryview) -> pa.Array:
    dtype = _offsets_dtype(piece.kind)
    if len(text) > np.iinfo(dtype).max:  # type: ignore[type-var]
        raise PeerProtocolError(f"a column of type {piece.kind} requires less text; got {len(text)} bytes")
    offsets = np.zeros(piece.rows + 1, dtype)
    np.cumsum(piece.spread(lengths), out=offsets[1:])
    buffers = [piece.validity, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(piece.kind, piece.rows, buffers)


# -- all others ---------------------------------------------------------------------------------


def _schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("", kind)])


def _has_dictionary(kind: pa.DataType) -> bool:
    """Arrow keeps dictionaries apart from batches, so such columns need a whole stream."""
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(number).type) for number in range(kind.num_fields))


def _encode_other(column: pa.Array) -> tuple[int, bytes]:
    batch = pa.RecordBatch.from_arrays([column], schema=_schema(column.type))
    if _has_dictionary(column.type):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
    else:
        data = batch.serialize()
    return _Tag.PLAIN, encode_varint(data.size) + data.to_pybytes()


def _decode_other(piece: _Piece) -> tuple[pa.Array, int]:
    piece.check_tag(_Tag.PLAIN)
    if piece.valid is not None:
        raise PeerProtocolError(f"a column of type {piece.kind} requires its own marks of what is missing; got ours")
    size, at = decode_varint(piece.data, piece.at)
    data = pa.py_buffer(piece.bytes_at(at, size))
    schema = _schema(piece.kind)
    if _has_dictionary(piece.kind):
        reader = pa.ipc.open_stream(data)
        if not reader.schema.equals(schema):
            raise PeerProtocolError(f"a column requires type {piece.kind}; got {reader.schema}")
        batch = reader.read_next_batch()
    else:
        batch = pa.ipc.read_record_batch(data, schema)
    if batch.num_rows != piece.count:
        raise PeerProtocolError(f"a column requires {piece.count} rows; got {batch.num_rows}")
    return batch.column(0), at + size


_WHOLE = _Layout(_encode_whole, _decode_whole)
_TRUTHS = _Layout(_encode_truths, _decode_truths)
_FLOATS = _Layout(_encode_floats, _decode_floats)
_TEXT = _Layout(_encode_text, _decode_text)
_DECIMALS = _Layout(_encode_decimals, _decode_decimals)
_CELLS = _Layout(_encode_cells, _decode_cells)
_OTHER = _Layout(_encode_other, _decode_other)


def _layout(kind: pa.DataType) -> _Layout:
    if pa.types.is_boolean(kind):
        return _TRUTHS
    if pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)):
        return _WHOLE
    if pa.types.is_floating(kind):
        return _FLOATS
    if any(is_text(kind) for is_text in _TEXT_TYPES):
        return _TEXT
    if pa.types.is_decimal(kind):
        return _DECIMALS
    if pa.types.is_fixed_size_binary(kind) and kind.bit_width:
        return _CELLS
    return _OTHER


_TEXT_TYPES = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
