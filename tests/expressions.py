"""What an expression means, one row at a time in plain Python: the second opinion on the vectorised kernels.

It is written from ``planner.model.functions``' text and shares no code with what computes. Values are Python's own;
dates, timestamps and intervals are whole units of their type, as in literals.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from planner.model.query import Call, ColumnRef, Expr, Literal

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TYPES = pa.types


def values_of(expr: Expr, rows: pa.RecordBatch) -> list[Any]:
    """The expression's value for each row."""
    types = {field.name: field.type for field in rows.schema}
    columns = {name: python_values(rows.column(name)) for name in sorted(_names(expr))}
    with decimal.localcontext(prec=200):
        return [
            _value(expr, {name: column[number] for name, column in columns.items()}, types)
            for number in range(rows.num_rows)
        ]


def _names(expr: Expr) -> set[str]:
    if isinstance(expr, ColumnRef):
        return {str(expr)}
    return set() if isinstance(expr, Literal) else {name for arg in expr.args for name in _names(arg)}


def rows_that_hold(expr: Expr, rows: pa.RecordBatch) -> list[bool]:
    """For which rows the condition is true: not false, and not null."""
    return [value is True for value in values_of(expr, rows)]


def python_values(column: pa.Array) -> list[Any]:
    """The values of an array, times as whole units."""
    kind = column.type
    if _TYPES.is_dictionary(kind):
        return python_values(column.dictionary_decode())
    if _TYPES.is_date32(kind):
        return list(column.cast(pa.int32()).to_pylist())
    if _TYPES.is_date64(kind):
        return [None if ms is None else ms // 86_400_000 for ms in column.cast(pa.int64()).to_pylist()]
    if _TYPES.is_timestamp(kind) or _TYPES.is_duration(kind):
        return list(column.cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def _value(expr: Expr, row: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> Any:
    if isinstance(expr, ColumnRef):
        return row[str(expr)]
    if isinstance(expr, Literal):
        return expr.value
    args = [_value(arg, row, types) for arg in expr.args]
    if expr.function == "cast":
        source = expr.args[0]
        kind = types[str(source)] if isinstance(source, ColumnRef) else source.type
        return None if args[0] is None else _cast(args[0], kind, expr.type)
    if expr.function in _OF_NULLS:
        return _OF_NULLS[expr.function](args)
    if None in args:
        return None
    if expr.function in ("year", "month", "day", "hour", "minute", "second", "epoch"):
        source = expr.args[0]
        kind = types[str(source)] if isinstance(source, ColumnRef) else source.type
        return _part(expr.function, args[0], kind)
    return _settled(_STRICT[expr.function](expr, args), expr.type)


def _settled(value: Any, kind: pa.DataType) -> Any:
    """Integers, and times which are integers, are null beyond 64 bits."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return value if _TYPES.is_decimal(kind) else None
    return value


# Functions that look at nulls.


def _and(args: Sequence[Any]) -> Any:
    return False if False in args else None if None in args else True


def _or(args: Sequence[Any]) -> Any:
    return True if True in args else None if None in args else False


def _in(args: Sequence[Any]) -> Any:
    return _or([None if None in (args[0], other) else _same(args[0], other) for other in args[1:]])


def _between(args: Sequence[Any]) -> Any:
    subject, low, high = args
    above = None if None in (subject, low) else not _less(subject, low)
    below = None if None in (subject, high) else not _less(high, subject)
    return _and([above, below])


def _case(args: Sequence[Any]) -> Any:
    pending = list(args)
    while len(pending) > 1:
        condition, value, *pending = pending
        if condition is True:
            return value
    return pending[0]


def _extreme(args: Sequence[Any], better: Callable[[Any, Any], bool]) -> Any:
    best = None
    for arg in args:
        if arg is not None and (best is None or better(arg, best)):
            best = arg
    return best


def _nullif(args: Sequence[Any]) -> Any:
    return None if None not in args and _same(*args) else args[0]


_OF_NULLS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "and": _and,
    "or": _or,
    "is null": lambda args: args[0] is None,
    "is distinct": lambda args: (args[0] is None) != (args[1] is None) if None in args else not _same(*args),
    "in": _in,
    "between": _between,
    "case": _case,
    "coalesce": lambda args: next((arg for arg in args if arg is not None), None),
    "nullif": _nullif,
    "greatest": lambda args: _extreme(args, lambda one, other: _less(other, one)),
    "least": lambda args: _extreme(args, _less),
}


# Order.


def _nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or (_nan(one) and _nan(other))


def _less(one: Any, other: Any) -> bool:
    return not _nan(one) if _nan(other) else bool(one < other)


# Functions of which a null gives null.


def _divided(_call: Call, args: Sequence[Any]) -> Any:
    if args[1] == 0:
        return None
    # IEEE overflows where Python raises.
    try:
        return args[0] / args[1]
    except OverflowError:
        return math.copysign(math.inf, args[0]) * math.copysign(1, args[1])


def _remainder(_call: Call, args: Sequence[Any]) -> Any:
    left, right = args
    if right == 0:
        return None
    if isinstance(left, int):
        return int(math.copysign(1, left)) * (abs(left) % abs(right))
    return math.nan if math.isinf(left) or _nan(left) or _nan(right) else math.fmod(left, right)


def _rounded(call: Call, args: Sequence[Any]) -> Any:
    value, digits = args[0], args[1] if len(args) > 1 else 0
    if isinstance(value, int):
        return value
    if isinstance(value, Decimal):
        step = Decimal(1).scaleb(-min(digits, call.type.scale))
        return value.quantize(step, decimal.ROUND_HALF_UP)
    if math.isnan(value) or math.isinf(value):
        return value
    size = 10.0**digits
    scaled = abs(value) * size
    if scaled >= 2.0**52:
        return value
    whole = math.floor(scaled)
    return math.copysign((whole + (1 if scaled - whole >= 0.5 else 0)) / size, value)


def _floor(_call: Call, args: Sequence[Any]) -> Any:
    return _whole(args[0], math.floor)


def _ceil(_call: Call, args: Sequence[Any]) -> Any:
    return _whole(args[0], math.ceil)


def _whole(value: Any, function: Callable[[Any], int]) -> Any:
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        return None
    return Decimal(function(value)) if isinstance(value, Decimal) else function(value)


def _power(_call: Call, args: Sequence[Any]) -> Any:
    try:
        return math.pow(*args)
    except OverflowError:
        negative = args[0] < 0 and args[1] % 2 == 1
        return -math.inf if negative else math.inf
    except ValueError:
        if args[0] == 0:
            odd = args[1] % 2 == 1
            return math.copysign(math.inf, args[0]) if odd else math.inf
        return None


def _exp(_call: Call, args: Sequence[Any]) -> Any:
    try:
        return math.exp(args[0])
    except OverflowError:
        return math.inf


def _substring(_call: Call, args: Sequence[Any]) -> str:
    """Positions are counted from one; a negative start counts from the end, and may lie before the beginning."""
    text, start, *rest = args
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = len(text) if not rest else first + rest[0]
    return "".join(letter for place, letter in enumerate(text) if first <= place < last)


def _like(_call: Call, args: Sequence[Any]) -> bool:
    """By trying: what can be left of the text after each part of the pattern."""
    text, pattern = args
    places, letters = {0}, iter(pattern)
    for letter in letters:
        if letter == "%":
            places = {end for place in places for end in range(place, len(text) + 1)}
            continue
        wanted = next(letters) if letter == "\\" else letter
        free = letter == "_"
        places = {place + 1 for place in places if place < len(text) and (free or text[place] == wanted)}
    return len(text) in places


_STRICT: dict[str, Callable[[Call, Sequence[Any]], Any]] = {
    "=": lambda _, args: _same(*args),
    "<>": lambda _, args: not _same(*args),
    "<": lambda _, args: _less(*args),
    "<=": lambda _, args: not _less(args[1], args[0]),
    ">": lambda _, args: _less(args[1], args[0]),
    ">=": lambda _, args: not _less(*args),
    "not": lambda _, args: not args[0],
    "+": lambda _, args: args[0] + args[1],
    "-": lambda _, args: args[0] - args[1],
    "*": lambda _, args: args[0] * args[1],
    "/": _divided,
    "%": _remainder,
    "unary -": lambda _, args: -args[0],
    "abs": lambda _, args: abs(args[0]),
    "round": _rounded,
    "floor": _floor,
    "ceil": _ceil,
    "sqrt": lambda _, args: math.sqrt(args[0]) if args[0] >= 0 or _nan(args[0]) else None,
    "ln": lambda _, args: math.log(args[0]) if args[0] > 0 or _nan(args[0]) else None,
    "exp": _exp,
    "power": _power,
    "||": lambda _, args: "".join(args),
    "lower": lambda _, args: args[0].lower(),
    "upper": lambda _, args: args[0].upper(),
    "trim": lambda _, args: args[0].strip(" "),
    "ltrim": lambda _, args: args[0].lstrip(" "),
    "rtrim": lambda _, args: args[0].rstrip(" "),
    "length": lambda _, args: len(args[0]),
    "substring": _substring,
    "replace": lambda _, args: args[0].replace(args[1], args[2]) if args[1] else args[0],
    "starts_with": lambda _, args: args[0].startswith(args[1]),
    "ends_with": lambda _, args: args[0].endswith(args[1]),
    "contains": lambda _, args: args[1] in args[0],
    "like": _like,
}


# Times.


def _part(name: str, value: int, kind: pa.DataType) -> Any:
    seconds = Fraction(value * 86_400) if _TYPES.is_date(kind) else Fraction(value, _PER_SECOND[kind.unit])
    if name == "epoch":
        return float(value) / _PER_SECOND[kind.unit] if not _TYPES.is_date(kind) else float(seconds)
    day, second = divmod(math.floor(seconds), 86_400)
    date = _date(day)
    if date is None:
        return None
    parts = {"hour": second // 3600, "minute": second // 60 % 60, "second": second % 60}
    return parts[name] if name in parts else getattr(date, name)


def _date(day: int) -> datetime.date | None:
    ordinal = day + datetime.date(1970, 1, 1).toordinal()
    return datetime.date.fromordinal(ordinal) if 1 <= ordinal <= datetime.date.max.toordinal() else None


# Casts.


def _cast(value: Any, kind: pa.DataType, target: pa.DataType) -> Any:
    if _TYPES.is_integer(target):
        whole = _to_int(value)
        bound = 2 ** (target.bit_width - 1)
        return whole if whole is not None and -bound <= whole < bound else None
    if _TYPES.is_floating(target):
        number = _to_float(value)
        return number if number is None or _TYPES.is_float64(target) else _single(number)
    if _TYPES.is_decimal(target):
        return _to_decimal(value, target)
    if _TYPES.is_boolean(target):
        return _to_bool(value)
    if _TYPES.is_string(target):
        return _to_text(value, kind)
    if isinstance(value, str):
        return _read_instant(value, target)
    return _to_time(value, kind, target)


def _to_int(value: Any) -> int | None:
    if isinstance(value, str):
        return int(value.strip(" ")) if re.fullmatch("[+-]?[0-9]+", value.strip(" ")) else None
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        return None
    return int(value)


def _to_float(value: Any) -> float | None:
    if isinstance(value, str):
        text = value.strip(" ")
        return float(text) if re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", text) else None
    return float(value)


def _single(number: float) -> float:
    return float(pa.array([number]).cast(pa.float32(), safe=False)[0].as_py())


def _to_decimal(value: Any, target: pa.DataType) -> Decimal | None:
    if isinstance(value, str):
        text = value.strip(" ")
        if not re.fullmatch(r"[+-]?([0-9]{1,38}(\.[0-9]{0,38})?|\.[0-9]{1,38})", text):
            return None
        value = Decimal(text)
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-target.scale), decimal.ROUND_HALF_UP)
    return rounded if abs(rounded) < 10 ** (target.precision - target.scale) else None


def _to_bool(value: Any) -> bool | None:
    if isinstance(value, str):
        word = value.strip(" ").lower()
        known = {**dict.fromkeys(("t", "true", "y", "yes", "1"), True)}
        known |= dict.fromkeys(("f", "false", "n", "no", "0"), False)
        return known.get(word)
    return bool(value != 0)


def _to_text(value: Any, kind: pa.DataType) -> str | None:
    if _TYPES.is_date(kind):
        date = _date(value)
        return None if date is None else f"{date.year:04}-{date.month:02}-{date.day:02}"
    return str(value).lower() if isinstance(value, bool) else str(value)


_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})([ T]([0-9]{2}):([0-9]{2})(:([0-9]{2})(\.([0-9]{1,9}))?)?"
    r" ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?",
    re.ASCII,
)


def _read_instant(text: str, target: pa.DataType) -> int | None:
    found = _INSTANT.fullmatch(text.strip(" "))
    if found is None:
        return None
    zone = found[9] or ""
    try:
        day = datetime.date.fromisoformat(found[1]).toordinal() - datetime.date(1970, 1, 1).toordinal()
        clock = datetime.time(int(found[3] or 0), int(found[4] or 0), int(found[6] or 0))
    except ValueError:
        return None
    if zone and (_TYPES.is_date(target) or target.tz is None):
        return None
    if _TYPES.is_date(target):
        return day
    offset = 0
    if zone not in ("", "Z", "UTC"):
        digits = zone[1:].replace(":", "")
        offset = (1 if zone[0] == "+" else -1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)
    seconds = day * 86_400 + clock.hour * 3600 + clock.minute * 60 + clock.second - offset
    return math.floor((seconds + Fraction(f"0.{found[8] or 0}")) * _PER_SECOND[target.unit])


def _to_time(value: int, kind: pa.DataType, target: pa.DataType) -> int | None:
    if _TYPES.is_date(kind) and _TYPES.is_date(target):
        return value
    seconds = Fraction(value * 86_400) if _TYPES.is_date(kind) else Fraction(value, _PER_SECOND[kind.unit])
    if _TYPES.is_date(target):
        day = math.floor(seconds / 86_400)
        return None if _date(day) is None else day
    units = math.floor(seconds * _PER_SECOND[target.unit])
    return units if -(2**63) <= units < 2**63 else None
