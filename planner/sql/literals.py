"""Constants: from their text to a value of a type, and from one type to another."""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa

from planner.model.durations import DAYS_MAX, UNIT_NAMES, duration_us
from planner.model.errors import QueryError
from planner.model.query import Literal
from planner.model.types import DECIMAL_DIGITS_MAX, UNITS
from planner.sql.text import QueryText, quote
from planner.sql.tree import ConstantNode

_INT64 = range(-(2**63), 2**63)
_DAY_S = 86_400
_DIGITS_MAX = 400
#: No zone is further from Greenwich.
_OFFSET_HOURS_MAX = 14
_PLAIN = re.compile(r"-?[0-9]*\.?[0-9]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.([0-9]{1,9}))?)?))?"
    r"\s*(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII | re.IGNORECASE,
)


def constant(source: QueryText, node: ConstantNode) -> Literal:
    """The value that a constant in a query stands for."""
    match node.kind:
        case "NUMBER":
            return _number(source, node)
        case "STRING":
            return Literal(node.text, pa.string())
        case "TRUE" | "FALSE":
            return Literal(node.kind == "TRUE", pa.bool_())
        case "DATE":
            return _date(source, node)
        case "TIMESTAMP":
            return _timestamp(source, node)
        case "INTERVAL":
            return _interval(source, node)
        case _:
            return Literal(None, pa.null())


def _number(source: QueryText, node: ConstantNode) -> Literal:
    """Digits are an integer, digits with a point a decimal, with an exponent or too many digits a double."""
    if len(node.text) > _DIGITS_MAX:
        message = f"a number has too many digits: required at most {_DIGITS_MAX}, got {len(node.text)}"
        raise source.error(message, node.at)
    try:
        value = Decimal(node.text)
    except ArithmeticError:
        raise _unreadable(source, node, "a number", "10, 0.5 or 1e3") from None
    if not _PLAIN.fullmatch(node.text):
        return Literal(float(value), pa.float64())
    digits, exponent = value.as_tuple().digits, int(value.as_tuple().exponent)
    if exponent == 0 and "." not in node.text and int(value) in _INT64:
        return Literal(int(value), pa.int64())
    precision = max(len(digits), -exponent, 1)
    if precision > DECIMAL_DIGITS_MAX:
        return Literal(float(value), pa.float64())
    return Literal(value, pa.decimal128(precision, -exponent))


def _date(source: QueryText, node: ConstantNode) -> Literal:
    if not _DATE.fullmatch(node.text.strip()):
        raise _unreadable(source, node, "a date", "DATE '2024-05-31'")
    return Literal(_instant(source, node, node.text.strip(), pa.date32()), pa.date32())


def _timestamp(source: QueryText, node: ConstantNode) -> Literal:
    """In the coarsest unit that holds its digits; with a zone, it is an instant in UTC."""
    found = _TIMESTAMP.fullmatch(node.text.strip())
    if found is None:
        raise _unreadable(source, node, "a timestamp", "TIMESTAMP '2024-05-31 12:30:00'")
    fraction = (found[3] or "").rstrip("0")
    unit = next(unit for unit, size in UNITS.items() if len(fraction) <= len(str(size)) - 1)
    clock = (found[2] or "00:00:00").partition(".")[0]
    seconds = _instant(source, node, f"{found[1]} {clock if len(clock) > 5 else clock + ':00'}", pa.timestamp("s"))
    if found[4] is not None:
        seconds -= _offset_s(source, node, found[4])
    value = seconds * UNITS[unit] + int(fraction.ljust(len(str(UNITS[unit])) - 1, "0") or 0)
    if value not in _INT64:
        raise _unreadable(source, node, "a timestamp", "one of the years 1678 to 2261 if it has nanoseconds")
    return Literal(value, pa.timestamp(unit, None if found[4] is None else "UTC"))


def _offset_s(source: QueryText, node: ConstantNode, zone: str) -> int:
    """Seconds east of Greenwich."""
    if zone.upper() in ("Z", "UTC"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if minutes > 59 or hours * 60 + minutes > _OFFSET_HOURS_MAX * 60:
        raise _unreadable(source, node, "a timestamp", f"one with a zone of at most {_OFFSET_HOURS_MAX} hours")
    return (1 if zone[0] == "+" else -1) * (hours * 60 + minutes) * 60


def _instant(source: QueryText, node: ConstantNode, text: str, kind: pa.DataType) -> int:
    try:
        return int(pa.scalar(text).cast(kind).value)
    except pa.ArrowInvalid:
        what = "date" if pa.types.is_date(kind) else "timestamp"
        raise _unreadable(source, node, f"a {what}", "one that is in the calendar") from None


def _interval(source: QueryText, node: ConstantNode) -> Literal:
    """In the coarsest unit that keeps it whole, so that times it is added to stay as coarse as they are."""
    length_us = duration_us(node.text)
    if length_us is None:
        message = (
            f"cannot read this interval: required such as INTERVAL '5 seconds', in {UNIT_NAMES}, "
            f"at most {DAYS_MAX} days, got {quote(node.text)}"
        )
        raise source.error(message, node.at)
    unit = next(unit for unit, size in UNITS.items() if length_us * size % 1_000_000 == 0)
    return Literal(length_us * UNITS[unit] // 1_000_000, pa.duration(unit))


def _unreadable(source: QueryText, node: ConstantNode, what: str, example: str) -> QueryError:
    return source.error(f"cannot read {what}: required such as {example}, got {quote(node.text)}", node.at)


def converted(literal: Literal, target: pa.DataType) -> Literal | None:
    """The constant as a value of another type, or None if that needs a cast of its own."""
    value, kind, types = literal.value, literal.type, pa.types
    if value is None or kind == target:
        return Literal(value, target)
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and types.is_float64(target):
        return Literal(float(value), target)
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and types.is_decimal128(target):
        return Literal(Decimal(value), target)
    if isinstance(value, int) and (types.is_timestamp(target) or types.is_duration(target)):
        size = _DAY_S * UNITS[target.unit] if types.is_date32(kind) else UNITS[target.unit] // UNITS[kind.unit]
        return Literal(value * size, target) if size and value * size in _INT64 else None
    return None
