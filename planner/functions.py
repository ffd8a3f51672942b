"""What can be computed from one row: for each function the types it takes and the type it gives.

The meaning is that of SQL as Spark has it, made total: no row can end a stream.

- **Null.** Logic has three values. Every function of a null is null, but for AND, OR, IS, CASE,
  COALESCE, NULLIF, GREATEST and LEAST, which skip nulls (the last two are null only if all arguments are).
- **Whatever cannot be computed is null**: an integer beyond 64 bits, a division by zero (also of doubles),
  a remainder by zero, a cast of something that has no such value, the square root of a negative number,
  the logarithm of one that is not positive, a power that is no number.
- **Integers** are 64 bits; ``/`` always divides doubles; ``%`` has the sign of the dividend.
- **Doubles** are IEEE and overflow to infinity. NaN equals NaN and is greater than every other number; -0.0
  equals 0.0. An integer or decimal that meets a double becomes one, also in comparisons.
- **Decimals** are added, subtracted, multiplied and compared exactly, by digits that grow as needed; where
  they would be more than 38, and for ``/``, ``%``, POWER and the like, they are doubles. ROUND is half up
  (away from zero); FLOOR and CEIL of a double are integers.
- **Strings** are compared by code points. LENGTH and SUBSTRING count code points; SUBSTRING counts from 1, or
  from the end if its start is negative. TRIM removes spaces. LIKE knows ``%``, ``_`` and the escape ``\\``;
  ILIKE is LIKE of both in lower case.
- **Times.** A date is the instant at which it begins; zones are UTC; times of different units are compared in
  the finer one. EXTRACT knows the years 1 to 9999, SECOND is whole, EPOCH is seconds as a double.
- **Casts** to integers cut off the fraction; to coarser times, what is finer (towards the past); to decimals,
  they round half up; a double is not cast to a decimal, nor a number with a fraction or a time to a string,
  because engines write them differently. Strings are read with spaces around them removed.
- LN, EXP and POWER are the platform's: their last bit may differ between machines.

``node.core.evaluate`` has the kernel of each name here and of ``cast``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from planner.expressions import expr_text
from planner.model import Expr, Literal
from planner.values import as_decimal, as_timestamp, common_type, decimal_or_double, finer, is_instant, is_number

_types = pa.types
_SHOWN_MAX = 60
ROUND_DIGITS_MAX = 15
#: RE2, which runs LIKE, has a limit on programs; this stays far below it.
PATTERN_MAX = 1_000

CAST = "cast"


@dataclass(frozen=True, slots=True)
class Argument:
    """What a function is applied to: ``type`` is its value type, or its own if nothing can be computed from it."""

    expr: Expr
    type: pa.DataType
    computable: bool

    def __str__(self) -> str:
        text = expr_text(self.expr)
        return f"{text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + '...'} ({self.type})"

    @property
    def constant(self) -> Literal | None:
        """The argument, if it is a constant."""
        return self.expr if isinstance(self.expr, Literal) else None


class TypeMismatchError(Exception):
    """A function cannot be applied to these arguments; ``place`` is the one to point at."""

    def __init__(self, message: str, place: int = 0) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True, slots=True)
class Typing:
    """The value types that the arguments must be brought to (None leaves them), and the type of the value."""

    args: tuple[pa.DataType | None, ...]
    result: pa.DataType


Rule = Callable[[Sequence[Argument]], Typing]


@dataclass(frozen=True, slots=True)
class Function:
    """How many arguments a function takes (``most`` None: any number) and the rule of its types."""

    least: int
    most: int | None
    rule: Rule


# Rules.


def _all(kind: pa.DataType, what: str, result: pa.DataType, args: Sequence[Argument]) -> Typing:
    """Every argument is of one given type."""
    for place, arg in enumerate(args):
        if arg.type not in (kind, pa.null()):
            raise TypeMismatchError(f"required {what}, got {arg}", place)
    return Typing((kind,) * len(args), result)


def _same(args: Sequence[Argument]) -> pa.DataType:
    """The type that all arguments can be brought to."""
    found = pa.null()
    for place, arg in enumerate(args):
        if not arg.computable:
            raise TypeMismatchError(f"{arg} cannot be compared or chosen: its type has no operations", place)
        wider = common_type([found, arg.type])
        if wider is None:
            before = next(other for other in args[:place] if not pa.types.is_null(other.type))
            raise TypeMismatchError(f"{before} and {arg} are not comparable: required values of one kind")
        found = wider
    return found


def _comparison(args: Sequence[Argument]) -> Typing:
    return Typing((_same(args),) * len(args), pa.bool_())


def _choice(args: Sequence[Argument]) -> Typing:
    kind = _same(args)
    return Typing((kind,) * len(args), kind)


def _case(args: Sequence[Argument]) -> Typing:
    conditions, values = args[0:-1:2], [*args[1:-1:2], args[-1]]
    for number, condition in enumerate(conditions):
        if condition.type not in (pa.bool_(), pa.null()):
            raise TypeMismatchError(f"required a condition, got {condition}", 2 * number)
    kind = _same(values)
    return Typing((*(pa.bool_(), kind) * len(conditions), kind), kind)


def _is_null(args: Sequence[Argument]) -> Typing:
    return Typing((None,) * len(args), pa.bool_())


def _numbers(args: Sequence[Argument]) -> list[pa.DataType]:
    """The arguments' types, which must be numbers; a null is whatever the others are."""
    known = next((arg.type for arg in args if is_number(arg.type)), pa.int64())
    for place, arg in enumerate(args):
        if not is_number(arg.type) and not _types.is_null(arg.type):
            raise TypeMismatchError(f"required a number, got {arg}", place)
    return [known if _types.is_null(arg.type) else arg.type for arg in args]


def _digits(arg: Argument, kind: pa.DataType) -> pa.DataType:
    """The decimal that an argument fits in: a constant's own digits, or those of every integer."""
    constant = arg.constant
    if constant is not None and isinstance(constant.value, int) and _types.is_int64(kind):
        return pa.decimal128(len(str(abs(constant.value))), 0)
    return as_decimal(kind)


def _sum(name: str, args: Sequence[Argument]) -> Typing:
    left, right = args
    if any(is_instant(arg.type) or _types.is_duration(arg.type) for arg in args):
        return _time_sum(name, left, right)
    return _arithmetic(args, _sum_decimal)


def _sum_decimal(left: pa.DataType, right: pa.DataType) -> Typing:
    common = common_type([left, right])
    if common is None or _types.is_float64(common):
        return _doubles(2)
    result = decimal_or_double(common.precision + 1, common.scale)
    return _doubles(2) if _types.is_float64(result) else Typing((common, common), result)


def _product(args: Sequence[Argument]) -> Typing:
    return _arithmetic(args, _product_decimal)


def _product_decimal(left: pa.DataType, right: pa.DataType) -> Typing:
    result = decimal_or_double(left.precision + right.precision + 1, left.scale + right.scale)
    return _doubles(2) if _types.is_float64(result) else Typing((left, right), result)


def _arithmetic(args: Sequence[Argument], decimals: Callable[[pa.DataType, pa.DataType], Typing]) -> Typing:
    kinds = _numbers(args)
    if any(_types.is_float64(kind) for kind in kinds):
        return _doubles(2)
    if all(_types.is_int64(kind) for kind in kinds):
        return Typing((pa.int64(),) * 2, pa.int64())
    left, right = (_digits(arg, kind) for arg, kind in zip(args, kinds, strict=True))
    return decimals(left, right)


def _time_sum(name: str, left: Argument, right: Argument) -> Typing:
    """Instants and intervals: only some sums mean something."""
    kinds = [as_timestamp(arg.type) if is_instant(arg.type) else arg.type for arg in (left, right)]
    one, other = (right.type if _types.is_null(kinds[0]) else kinds[0]), kinds[1]
    other = one if _types.is_null(other) else other
    times = [_types.is_timestamp(kind) for kind in (one, other)]
    spans = [_types.is_duration(kind) for kind in (one, other)]
    if all(ok or span for ok, span in zip(times, spans, strict=True)):
        unit = finer(one.unit, other.unit)
        if all(spans):
            return Typing((pa.duration(unit),) * 2, pa.duration(unit))
        if times == [True, False]:
            return Typing((pa.timestamp(unit, one.tz), pa.duration(unit)), pa.timestamp(unit, one.tz))
        if times == [False, True] and name == "+":
            return Typing((pa.duration(unit), pa.timestamp(unit, other.tz)), pa.timestamp(unit, other.tz))
        if all(times) and name == "-" and one.tz == other.tz:
            return Typing((pa.timestamp(unit, one.tz),) * 2, pa.duration(unit))
    verb = "added to" if name == "+" else "subtracted from"
    first, second = (left, right) if name == "+" else (right, left)
    raise TypeMismatchError(f"{first} cannot be {verb} {second}: required numbers, or a time and an interval")


def _doubles(count: int) -> Typing:
    return Typing((pa.float64(),) * count, pa.float64())


def _double_function(args: Sequence[Argument]) -> Typing:
    return _doubles(len(_numbers(args)))


def _remainder(args: Sequence[Argument]) -> Typing:
    if all(_types.is_int64(kind) for kind in _numbers(args)):
        return Typing((pa.int64(),) * 2, pa.int64())
    return _doubles(2)


def _signed(args: Sequence[Argument]) -> Typing:
    if _types.is_duration(args[0].type):
        return Typing((args[0].type,), args[0].type)
    kind = _numbers(args)[0]
    return Typing((kind,), kind)


def _whole(args: Sequence[Argument]) -> Typing:
    """FLOOR and CEIL: of a decimal a decimal without a fraction, of all else an integer."""
    kind = _numbers(args)[0]
    if _types.is_decimal128(kind):
        return Typing((kind,), pa.decimal128(max(1, min(kind.precision - kind.scale + 1, 38)), 0))
    return Typing((kind,), pa.int64())


def _round(args: Sequence[Argument]) -> Typing:
    kind = _numbers(args[:1])[0]
    digits = _whole_constant(args, 1, 0, ROUND_DIGITS_MAX) if len(args) > 1 else 0
    rest = (pa.int64(),) * (len(args) - 1)
    if _types.is_decimal128(kind) and digits < kind.scale:
        return Typing((kind, *rest), pa.decimal128(max(1, kind.precision - kind.scale + digits + 1), digits))
    return Typing((kind, *rest), kind)


def _whole_constant(args: Sequence[Argument], place: int, least: int, most: int) -> int:
    """The value of an argument that must be a constant integer."""
    value = args[place].constant
    whole = value is not None and _types.is_int64(value.type)
    if value is not None and whole and isinstance(value.value, int) and least <= value.value <= most:
        return value.value
    raise TypeMismatchError(f"required a constant integer from {least} to {most}, got {args[place]}", place)


def _text_constant(args: Sequence[Argument], place: int) -> str:
    """The value of an argument that must be a constant string."""
    constant = args[place].constant
    if constant is None or not isinstance(constant.value, str):
        raise TypeMismatchError(f"required a constant string, got {args[place]}", place)
    return constant.value


_TEXT = partial(_all, pa.string(), "a string")


def _with_constant_text(result: pa.DataType, args: Sequence[Argument]) -> Typing:
    """Functions of a string whose other arguments are constant strings."""
    for place in range(1, len(args)):
        _text_constant(args, place)
    return _TEXT(result, args)


def _like(args: Sequence[Argument]) -> Typing:
    pattern = _text_constant(args, 1)
    if len(pattern) > PATTERN_MAX:
        raise TypeMismatchError(f"the pattern is too long: required at most {PATTERN_MAX} characters", 1)
    if _ends_in_escape(pattern):
        raise TypeMismatchError("the pattern ends in its escape character: required a character after it", 1)
    return _TEXT(pa.bool_(), args)


def _ends_in_escape(pattern: str) -> bool:
    return (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1


def _substring(args: Sequence[Argument]) -> Typing:
    for place in range(1, len(args)):
        _whole_constant(args, place, -(2**31), 2**31)
    typing = _TEXT(pa.string(), args[:1])
    return Typing((*typing.args, *(pa.int64(),) * (len(args) - 1)), typing.result)


def _field(result: pa.DataType, args: Sequence[Argument]) -> Typing:
    kind = args[0].type
    if _types.is_null(kind):
        return Typing((pa.timestamp("s"),), result)
    if not is_instant(kind):
        raise TypeMismatchError(f"required a date or a timestamp, got {args[0]}")
    return Typing((as_timestamp(kind),), result)


_LOGIC = partial(_all, pa.bool_(), "a condition", pa.bool_())

#: Every function by its name in a Call.
FUNCTIONS: dict[str, Function] = {
    **{name: Function(2, 2, _comparison) for name in ("=", "<>", "<", "<=", ">", ">=")},
    "and": Function(1, None, _LOGIC),
    "or": Function(1, None, _LOGIC),
    "not": Function(1, 1, _LOGIC),
    "is null": Function(1, 1, _is_null),
    "is distinct": Function(2, 2, _comparison),
    "between": Function(3, 3, _comparison),
    "in": Function(2, None, _comparison),
    "case": Function(1, None, _case),
    "coalesce": Function(1, None, _choice),
    "nullif": Function(2, 2, _choice),
    "greatest": Function(1, None, _choice),
    "least": Function(1, None, _choice),
    "+": Function(2, 2, partial(_sum, "+")),
    "-": Function(2, 2, partial(_sum, "-")),
    "*": Function(2, 2, _product),
    "/": Function(2, 2, _double_function),
    "%": Function(2, 2, _remainder),
    "unary -": Function(1, 1, _signed),
    "abs": Function(1, 1, _signed),
    "round": Function(1, 2, _round),
    "floor": Function(1, 1, _whole),
    "ceil": Function(1, 1, _whole),
    "sqrt": Function(1, 1, _double_function),
    "power": Function(2, 2, _double_function),
    "ln": Function(1, 1, _double_function),
    "exp": Function(1, 1, _double_function),
    "||": Function(1, None, partial(_TEXT, pa.string())),
    "lower": Function(1, 1, partial(_TEXT, pa.string())),
    "upper": Function(1, 1, partial(_TEXT, pa.string())),
    "trim": Function(1, 1, partial(_TEXT, pa.string())),
    "ltrim": Function(1, 1, partial(_TEXT, pa.string())),
    "rtrim": Function(1, 1, partial(_TEXT, pa.string())),
    "length": Function(1, 1, partial(_TEXT, pa.int64())),
    "substring": Function(2, 3, _substring),
    "replace": Function(3, 3, partial(_with_constant_text, pa.string())),
    "starts_with": Function(2, 2, partial(_with_constant_text, pa.bool_())),
    "ends_with": Function(2, 2, partial(_with_constant_text, pa.bool_())),
    "contains": Function(2, 2, partial(_with_constant_text, pa.bool_())),
    "like": Function(2, 2, _like),
    **{
        name: Function(1, 1, partial(_field, pa.int64()))
        for name in ("year", "month", "day", "hour", "minute", "second")
    },
    "epoch": Function(1, 1, partial(_field, pa.float64())),
}

#: Other names for them.
SYNONYMS = {
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "concat": "||",
    "endswith": "ends_with",
    "ifnull": "coalesce",
    "lcase": "lower",
    "mod": "%",
    "nvl": "coalesce",
    "pow": "power",
    "startswith": "starts_with",
    "substr": "substring",
    "ucase": "upper",
}

AGGREGATES = ("count", "sum", "avg", "min", "max", "stddev", "variance", "array_agg", "first", "last", "median")

#: What a user may call, for messages.
_OPERATORS = ("and", "or", "not", "between", "in", "case", "like")
LISTED = ", ".join(
    sorted(
        [
            *(name.upper() for name in FUNCTIONS if name.isidentifier() and name not in _OPERATORS),
            *("CAST", "CONCAT", "EXTRACT", "IF", "MOD"),
        ]
    )
)


def castable(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether a value type can be cast: where engines would write or read the same value in different ways, not."""
    value = _types
    numeric = is_number(kind) or value.is_boolean(kind)
    if value.is_null(kind) or kind == target:
        return True
    if value.is_decimal(target) and value.is_float64(kind):
        return False
    if value.is_integer(target) or value.is_floating(target) or value.is_decimal(target):
        return numeric or bool(value.is_string(kind))
    if value.is_boolean(target):
        return numeric or bool(value.is_string(kind))
    if value.is_string(target):
        return bool(value.is_int64(kind) or value.is_boolean(kind) or value.is_date32(kind))
    if value.is_timestamp(target) or value.is_date32(target):
        return is_instant(kind) or bool(value.is_string(kind))
    return bool(value.is_duration(kind) and value.is_duration(target))
