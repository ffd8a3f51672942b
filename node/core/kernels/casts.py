"""Casts: what has no value in the other type is null."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from node.core.kernels import reading
from node.core.kernels.numbers import integers, with_room
from node.core.kernels.times import FIRST_DAY, LAST_DAY, in_calendar
from node.core.kernels.values import INT64_MAX, INT64_MIN, Ints, Kernel, Mask, made, nearest, nulls, plain, where
from planner.model.query import Call
from planner.model.types import UNITS

_types = pa.types
_DAY_S = 86_400
#: Wide enough for every decimal(38, s) and every integer beside it.
_WIDE = 60


def _cast(call: Call, args: list[pa.Array]) -> pa.Array:
    array, target = args[0], call.type
    if array.type == target:
        return array
    if _types.is_null(array.type):
        return pa.nulls(len(array), target)
    if _types.is_integer(target):
        return _narrowed(_to_int64(array), target)
    if _types.is_floating(target):
        return _to_double(array).cast(target, safe=False)
    if _types.is_decimal(target):
        return _to_decimal(array, target)
    if _types.is_boolean(target):
        return reading.booleans(array) if _types.is_string(array.type) else _nonzero(array)
    if _types.is_string(target):
        return _to_string(array)
    if _types.is_string(array.type):
        return reading.instants(array, target)
    return _to_time(array, target)


def _to_double(array: pa.Array) -> pa.Array:
    if _types.is_string(array.type):
        return reading.doubles(array)
    return nearest(array) if _types.is_decimal(array.type) else array.cast(pa.float64(), safe=False)


def _to_int64(array: pa.Array) -> pa.Array:
    kind = array.type
    if _types.is_string(kind):
        return reading.integers(array)
    if _types.is_float64(kind):
        return integers(np.trunc(plain(array)), nulls(array), pa.int64())
    if _types.is_decimal(kind):
        wide = pc.trunc(array.cast(pa.decimal256(_WIDE, kind.scale)))
        return where(_within(wide, INT64_MIN, INT64_MAX), wide).cast(pa.int64())
    return array.cast(pa.int64())


def _narrowed(array: pa.Array, target: pa.DataType) -> pa.Array:
    if target == array.type:
        return array
    values = plain(array)
    bound = 2 ** (target.bit_width - 1)
    fits = (values >= -bound) & (values < bound)
    return where(fits, array).cast(target)


def _within(wide: pa.Array, low: int, high: int) -> Mask:
    """Which decimals are between two bounds; nulls count as not."""
    least, most = (pa.scalar(Decimal(bound), wide.type) for bound in (low, high))
    inside = pc.and_(pc.greater_equal(wide, least), pc.less_equal(wide, most))
    mask: Mask = inside.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Rounded half up to the digits there are; null if there are too few before the point."""
    if _types.is_string(array.type):
        wide = reading.decimals(array, target.scale)
    elif _types.is_decimal(array.type):
        wide = with_room(array)
    else:
        wide = array.cast(pa.int64()).cast(pa.decimal256(_WIDE, 0))
    scale = wide.type.scale
    limit = Decimal(10 ** (target.precision - target.scale))
    if scale > target.scale:
        # From half a step below it on values are rounded up to it, for which Arrow's 76 digits may be too few.
        limit = Decimal(f"{10 ** (target.precision + 1) - 5}e{-target.scale - 1}")
    size = pc.abs(wide.cast(pa.decimal256(76, scale)))
    fits = pc.less(size, pa.scalar(limit, size.type)).fill_null(False).to_numpy(zero_copy_only=False)
    found = where(fits, wide)
    if scale > target.scale:
        found = pc.round(found, ndigits=target.scale, round_mode="half_towards_infinity")
    return found.cast(target)


def _nonzero(array: pa.Array) -> pa.Array:
    if _types.is_decimal(array.type):
        return pc.not_equal(array, pa.scalar(Decimal(0), array.type))
    return made(plain(array) != 0, nulls(array), pa.bool_())


def _to_string(array: pa.Array) -> pa.Array:
    if _types.is_date32(array.type):
        days = plain(array)
        array = where((days >= FIRST_DAY) & (days <= LAST_DAY), array)
    return array.cast(pa.string())


def _to_time(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Between dates, timestamps and intervals: finer units are multiplied, coarser ones rounded to the past."""
    values: Ints = plain(array).astype(np.int64)
    missing = nulls(array)
    source_day = _types.is_date32(array.type)
    if _types.is_date32(target):
        days = np.floor_divide(values, _DAY_S * UNITS[array.type.unit])
        known = in_calendar(values, array.type.unit)
        return made(np.where(known, days, 0).astype(np.int32), missing | ~known, target)
    size = _DAY_S if source_day else 1
    scale = UNITS[target.unit] * size
    divisor = 1 if source_day else UNITS[array.type.unit]
    if divisor > scale:
        return made(np.floor_divide(values, divisor // scale), missing, target)
    factor = scale // divisor
    fits = np.abs(values.astype(np.float64)) * factor < 2.0**63 - 2.0**11
    exact = (values <= INT64_MAX // factor) & (values >= -(INT64_MAX // factor))
    with np.errstate(all="ignore"):
        scaled = values * factor
    return made(scaled, missing | ~(fits | exact), target)


KERNELS: dict[str, Kernel] = {"cast": _cast}
