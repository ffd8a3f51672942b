"""Join keys as one int64 code per row.

Equal keys have equal codes whatever the width of their column's type, as long
as the types are of one family (``planner.model.key_types``). A key of one integer-like
column *is* its code, so equal codes mean equal keys. All other keys are hashed
and ``equal_keys`` must decide about rows whose codes are equal.

Nulls: the code of a row with a null in a key column means nothing. ``usable``
says which rows have none; only those may be indexed or probed. A column of which
nothing is known has Arrow's null type: none of its rows is usable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from node.core.keys.hashing import I64, U64, Bytes, combine, hash_bytes, scramble

Mask = NDArray[np.bool_]
#: Last step of the hash of a key. Tests put in one that collides.
Finish = Callable[[U64], U64]


def exact(kinds: Sequence[pa.DataType]) -> bool:
    """Whether equal codes of such keys mean equal keys."""
    return len(kinds) == 1 and is_whole(kinds[0])


def usable(columns: Sequence[pa.Array]) -> Mask | None:
    """Which rows have no null in any of the columns; None when all rows are such."""
    mask: Mask | None = None
    for column in columns:
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            mask = valid if mask is None else mask & valid
    return mask


def codes(columns: Sequence[pa.Array], finish: Finish = scramble) -> I64:
    """The code of each row's key."""
    if exact([column.type for column in columns]):
        return integers(columns[0])
    return finish(combine([_hash(column) for column in columns])).view(np.int64)


def equal_keys(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Mask:
    """Whether row i of ``left`` has the key of row i of ``right``. Assumes no nulls, and families that agree."""
    mask = _equal(left[0], right[0])
    for one, other in zip(left[1:], right[1:], strict=True):
        mask &= _equal(one, other)
    return mask


def integers(column: pa.Array) -> I64:
    """The values of an integer-like column, widened to int64 (uint64 by its bits)."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column, kind = column.cast(pa.uint8()), pa.uint8()
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    values = _buffer(column, 1, f"<{sign}{kind.bit_width // 8}", column.offset, len(column))
    widened: I64 = values.view(np.int64) if values.itemsize == 8 else values.astype(np.int64)
    return widened


def from_integers(values: I64, kind: pa.DataType) -> pa.Array:
    """The column of an integer-like type whose ``integers`` are the given ones."""
    if pa.types.is_boolean(kind):
        return pa.array(values.astype(np.bool_))
    narrowed = np.ascontiguousarray(values, dtype=f"<i{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(narrowed)])


def is_whole(kind: pa.DataType) -> bool:
    """Whether a type is integer-like: ``integers`` takes it."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_decimal32(kind)
        or types.is_decimal64(kind)
    )


def is_fixed(kind: pa.DataType) -> bool:
    """Whether values of a type are a fixed number of bytes: ``cells`` takes it if it is not integer-like."""
    return bool(pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind))


def _hash(column: pa.Array) -> U64:
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.uint64)
    if is_whole(column.type):
        return scramble(integers(column).view(np.uint64))
    if is_fixed(column.type):
        rows = cells(column)
        count, width = rows.shape
        return hash_bytes(rows.reshape(-1), np.arange(count) * width, np.full(count, width))
    data, offsets = strings(column)
    return hash_bytes(data, offsets[:-1], np.diff(offsets))


def _equal(left: pa.Array, right: pa.Array) -> Mask:
    if is_whole(left.type):
        whole: Mask = integers(left) == integers(right)
        return whole
    if is_fixed(left.type):
        same: Mask = (cells(left) == cells(right)).all(axis=1)
        return same
    if left.type != right.type:
        left, right = left.cast(pa.large_binary()), right.cast(pa.large_binary())
    mask: Mask = pc.equal(left, right).to_numpy(zero_copy_only=False)
    return mask


def cells(column: pa.Array) -> Bytes:
    """The bytes of a fixed-width column, one row each."""
    count, width = len(column), column.type.byte_width
    return _buffer(column, 1, np.uint8, column.offset * width, count * width).reshape(count, width)


def strings(column: pa.Array) -> tuple[Bytes, I64]:
    """The bytes of a string or binary column and len + 1 offsets into them."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if not len(column):
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    offset_type = np.int64 if large else np.int32
    offsets = _buffer(column, 1, offset_type, column.offset, len(column) + 1).astype(np.int64)
    data = _buffer(column, 2, np.uint8, int(offsets[0]), int(offsets[-1] - offsets[0]))
    return data, offsets - offsets[0]


def _buffer(column: pa.Array, number: int, kind: DTypeLike, start: int, count: int) -> NDArray[Any]:
    """Part of one of a column's buffers, not copied. Arrow may leave out the buffer of an empty column."""
    if not count:
        return np.empty(0, dtype=kind)
    return np.frombuffer(column.buffers()[number], dtype=kind, count=count, offset=start * np.dtype(kind).itemsize)
