"""The types that expressions compute with, and which of them are comparable.

A column keeps its own type while it only travels. As soon as something is computed from it, it is taken
as one of few value types, so that a function has one meaning and not one per width and encoding:

    boolean, bigint (every integer but uint64), double (every float), decimal(p, s), string (every kind of
    string), binary, date, timestamp(unit) with or without a zone (which is always UTC), interval(unit)

uint64 is decimal(20, 0), which holds all of it. Dictionaries are what they hold. Everything else (lists,
structs, times of day) can be selected and asked for null, and not computed with.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

DECIMAL_DIGITS_MAX = 38
INTEGER_DIGITS = 19
#: Units of Arrow's times, coarse to fine, with how many make a second.
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
#: What can be taken out of a time: EXTRACT(YEAR FROM t), YEAR(t).
TIME_FIELDS = ("year", "month", "day", "hour", "minute", "second", "epoch")

_types = pa.types


def value_type(kind: pa.DataType) -> pa.DataType | None:
    """The type that values of this type are computed in, or None if nothing can be computed from them."""
    if _types.is_dictionary(kind):
        return value_type(kind.value_type)
    if _types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if _types.is_integer(kind):
        return pa.int64()
    if _types.is_floating(kind):
        return pa.float64()
    if _types.is_decimal(kind):
        return decimal_or_double(kind.precision, kind.scale)
    if _types.is_timestamp(kind):
        return pa.timestamp(kind.unit, None if kind.tz is None else "UTC")
    for same, value in _SAME:
        if same(kind):
            return value
    return kind if _types.is_boolean(kind) or _types.is_duration(kind) or _types.is_null(kind) else None


_SAME = (
    (_types.is_string, pa.string()),
    (_types.is_large_string, pa.string()),
    (_types.is_string_view, pa.string()),
    (_types.is_binary, pa.binary()),
    (_types.is_large_binary, pa.binary()),
    (_types.is_binary_view, pa.binary()),
    (_types.is_fixed_size_binary, pa.binary()),
    (_types.is_date, pa.date32()),
)


def decimal_or_double(precision: int, scale: int) -> pa.DataType:
    """The decimal of these digits if there is one, else a double."""
    if scale < 0 or precision > DECIMAL_DIGITS_MAX or scale > precision:
        return pa.float64()
    return pa.decimal128(max(precision, 1), scale)


def is_number(kind: pa.DataType) -> bool:
    """Whether the value type can be added up."""
    return bool(_types.is_int64(kind) or _types.is_float64(kind) or _types.is_decimal128(kind))


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """The decimal that holds every bigint, or the decimal itself."""
    return pa.decimal128(INTEGER_DIGITS, 0) if _types.is_int64(kind) else kind


def common_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The value type that all these value types can be brought to without a cast, or None if there is none."""
    found = pa.null()
    for kind in kinds:
        wider = _wider(found, kind)
        if wider is None:
            return None
        found = wider
    return found


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one == other or _types.is_null(other):
        return one
    if _types.is_null(one):
        return other
    if is_number(one) and is_number(other):
        if _types.is_float64(one) or _types.is_float64(other):
            return pa.float64()
        left, right = as_decimal(one), as_decimal(other)
        scale = max(left.scale, right.scale)
        return decimal_or_double(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    if _types.is_duration(one) and _types.is_duration(other):
        return pa.duration(finer(one.unit, other.unit))
    if is_instant(one) and is_instant(other):
        left, right = as_timestamp(one), as_timestamp(other)
        return pa.timestamp(finer(left.unit, right.unit), left.tz) if left.tz == right.tz else None
    return None


def is_instant(kind: pa.DataType) -> bool:
    """Whether the value type is a point in time."""
    return bool(_types.is_timestamp(kind) or _types.is_date32(kind))


def as_timestamp(kind: pa.DataType) -> pa.DataType:
    """A date is the instant at which it begins."""
    return pa.timestamp("s") if _types.is_date32(kind) else kind


def finer(one: str, other: str) -> str:
    """The finer of two units of time."""
    return max(one, other, key=list(UNITS).index)
