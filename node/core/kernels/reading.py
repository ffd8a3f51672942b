"""What strings say: numbers, truth and times; null if nothing of the kind."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from node.core.kernels.values import Ints, Mask, made, nulls, where
from planner.model.types import UNITS

_DAY_S = 86_400
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_INTEGER = r"\A(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,19})\z"
_DOUBLE = r"\A[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_DECIMAL = r"\A[+-]?([0-9]{1,38}(\.[0-9]{0,38})?|\.[0-9]{1,38})\z"
_INSTANT = (
    r"\A(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[ T](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r" ?(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?\z"
)
_MAX_DIGITS, _MIN_DIGITS = str(2**63 - 1), str(2**63)
#: Digits before the point, and behind it, that _DECIMAL lets pass.
_DECIMAL_DIGITS = 38


def _trimmed(array: pa.Array) -> pa.Array:
    return pc.utf8_trim(array, characters=" ")


def _matching(array: pa.Array, pattern: str) -> Mask:
    mask: Mask = pc.match_substring_regex(array, pattern=pattern).fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def integers(array: pa.Array) -> pa.Array:
    """Bigints; digits of the same number compare as text."""
    found = pc.extract_regex(_trimmed(array), pattern=_INTEGER)
    sign, digits = found.field("sign"), found.field("digits")
    negative = pc.equal(sign, "-")
    limit = pc.if_else(negative, _MIN_DIGITS, _MAX_DIGITS)
    fits = pc.or_(pc.less(pc.utf8_length(digits), 19), pc.less_equal(digits, limit))
    fits = pc.and_(fits, found.is_valid()).fill_null(False).to_numpy(zero_copy_only=False)
    text = pc.binary_join_element_wise(pc.if_else(negative, "-", ""), digits, "")
    return where(fits, text).cast(pa.int64())


def doubles(array: pa.Array) -> pa.Array:
    """Doubles; what is beyond them is infinite."""
    trimmed = _trimmed(array)
    known = _matching(trimmed, _DOUBLE)
    values = where(known, trimmed).fill_null("0").to_numpy(zero_copy_only=False).astype(np.float64)
    return made(values, ~known, pa.float64())


def decimals(array: pa.Array, scale: int) -> pa.Array:
    """Decimals, rounded half up to ``scale`` digits behind the point.

    They are rounded as text: of numbers with twice as many digits as a decimal has Arrow rounds some wrongly, such as
    37 nines before the point and one behind it.
    """
    trimmed = _trimmed(array)
    parts = rf"\A(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<kept>[0-9]{{0,{scale}}})(?P<next>[0-9]?)[0-9]*)?\z"
    found = pc.extract_regex(where(_matching(trimmed, _DECIMAL), trimmed), pattern=parts)
    sign, digits = found.field("sign"), pc.binary_join_element_wise("0", found.field("whole"), "")
    text = pc.binary_join_element_wise(sign, digits, ".", found.field("kept").fill_null(""), "")
    kept = where(~nulls(found), text).cast(pa.decimal256(_DECIMAL_DIGITS + scale, scale))
    if scale == _DECIMAL_DIGITS:
        return kept
    step = Decimal(f"1e-{scale}")
    up = pc.greater_equal(found.field("next"), "5").fill_null(False)
    steps = pc.if_else(up, pc.if_else(pc.equal(sign, "-"), -step, step), Decimal(0))
    return pc.add(kept, steps)


def booleans(array: pa.Array) -> pa.Array:
    """Truth, in the words that databases read."""
    word = pc.utf8_lower(_trimmed(array))
    true = pc.is_in(word, value_set=pa.array(_TRUE))
    known = pc.or_(true, pc.is_in(word, value_set=pa.array(_FALSE)))
    return where(known.to_numpy(zero_copy_only=False), true)


def instants(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Dates and timestamps of the calendar; a zone has a meaning only for timestamps that have one."""
    found = pc.extract_regex(_trimmed(array), pattern=_INSTANT)
    year, month, day, hour, minute, second = (
        _number(found.field(name)) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    date = pa.types.is_date32(target)
    zone = found.field("zone").fill_null("")
    ok = ~nulls(found) & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60)
    ok &= second < 60
    if date or target.tz is None:
        ok &= pc.equal(zone, "").to_numpy(zero_copy_only=False)
    months = (year - 1970) * 12 + np.where(ok, month - 1, 0)
    first = months.astype("datetime64[M]")
    days = first.astype("datetime64[D]").astype(np.int64) + day - 1
    ok &= days < (first + 1).astype("datetime64[D]").astype(np.int64)
    if date:
        return made(np.where(ok, days, 0).astype(np.int32), ~ok, target)
    seconds = days * _DAY_S + hour * 3_600 + minute * 60 + second - _offset_s(zone)
    fraction = _number(pc.utf8_slice_codeunits(pc.utf8_rpad(found.field("fraction").fill_null(""), 9, "0"), 0, 9))
    size = UNITS[target.unit]
    values = seconds * size + fraction // (UNITS["ns"] // size)
    return made(np.where(ok, values, 0), ~ok, target)


def _number(digits: pa.Array) -> Ints:
    """Digits as integers; none are zero."""
    filled = pc.if_else(pc.equal(digits, "").fill_null(True), "0", digits)
    numbers: Ints = filled.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _offset_s(zone: pa.Array) -> Ints:
    """Seconds east of Greenwich."""
    numeric = pc.match_substring_regex(zone, pattern=r"\A[+-]")
    plain = pc.if_else(numeric, pc.replace_substring(zone, ":", ""), "+0000")
    minutes = _number(pc.utf8_slice_codeunits(plain, 1, 3)) * 60 + _number(pc.utf8_slice_codeunits(plain, 3, 5))
    sign = np.where(pc.starts_with(plain, "-").to_numpy(zero_copy_only=False), -60, 60)
    return np.asarray(sign * minutes, np.int64)
