"""Arrays of value types, to NumPy and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from planner.model.query import Call
from planner.model.types import value_type

Kernel = Callable[[Call, list[pa.Array]], pa.Array]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Numbers = NDArray[Any]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_DAY_MS = 86_400_000


def as_values(array: pa.Array) -> pa.Array:
    """The column in the type that is computed with; types that nothing is computed from stay as they are."""
    kind = array.type
    value = value_type(kind)
    if value is None or value == kind:
        return array
    if pa.types.is_dictionary(kind):
        return as_values(array.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return array.view(value)
    if pa.types.is_date64(kind):
        days = np.floor_divide(plain(array), _DAY_MS)
        return made(days.astype(np.int32), nulls(array), value)
    if pa.types.is_decimal(kind) and pa.types.is_float64(value):
        return nearest(array)
    return array.cast(value, safe=False)


def nearest(decimals: pa.Array) -> pa.Array:
    """The doubles nearest to decimals. By their digits, because Arrow's own cast is off by a bit for many."""
    return decimals.cast(pa.string()).cast(pa.float64())


def plain(array: pa.Array) -> Numbers:
    """The values as numbers, something harmless where they are null; times are whole units."""
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.view(pa.int64())
    values: Numbers = pc.fill_null(array, False if pa.types.is_boolean(array.type) else 0).to_numpy(
        zero_copy_only=False
    )
    return values


def nulls(*arrays: pa.Array) -> Mask:
    """Where at least one of the arrays is null."""
    masks = [array.is_null().to_numpy(zero_copy_only=False) for array in arrays]
    return reduce(np.logical_or, masks)


def made(values: Numbers, missing: Mask, kind: pa.DataType) -> pa.Array:
    """An array of these values, null where they are missing."""
    if pa.types.is_temporal(kind):
        stored = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        return pa.array(values, stored, mask=missing).view(kind)
    return pa.array(values, kind, mask=missing)


def where(condition: Mask, array: pa.Array) -> pa.Array:
    """The array, null where the condition does not hold."""
    return pc.if_else(pa.array(condition), array, pa.scalar(None, array.type))
