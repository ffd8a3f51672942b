"""Rules of types: which arguments a function takes, what they are brought to, and what it gives.

A rule sees the value types of the arguments (``planner.model.types``) and, where a constant is required, the constant.
A null fits everywhere: it is of whatever type the other arguments ask for. ``planner.model.functions`` says which
function has which rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from planner.model.query import Expr, Literal
from planner.model.rendering import expr_text
from planner.model.types import as_decimal, as_timestamp, common_type, decimal_or_double, finer, is_instant, is_number

_types = pa.types
_SHOWN_MAX = 60
_ROUND_DIGITS_MAX = 15
#: RE2, which runs LIKE, has a limit on programs; this stays far below it.
_PATTERN_MAX = 1_000


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


# Any types.


def _all(kind: pa.DataType, what: str, result: pa.DataType, args: Sequence[Argument]) -> Typing:
    """Every argument is of one given type."""
    for place, arg in enumerate(args):
        if arg.type not in (kind, pa.null()):
            raise TypeMismatchError(f"required {what}, got {arg}", place)
    return Typing((kind,) * len(args), result)


#: Conditions that give a condition.
LOGIC: Rule = partial(_all, pa.bool_(), "a condition", pa.bool_())
#: Strings; what they give comes first.
TEXT: Callable[[pa.DataType, Sequence[Argument]], Typing] = partial(_all, pa.string(), "a string")


def _same(args: Sequence[Argument]) -> pa.DataType:
    """The type that all arguments can be brought to."""
    found = pa.null()
    for place, arg in enumerate(args):
        if not arg.computable:
            raise TypeMismatchError(f"{arg} cannot be compared or chosen: its type has no operations", place)
        wider = common_type([found, arg.type])
        if wider is None:
            before = next(other for other in args[:place] if not _types.is_null(other.type))
            raise TypeMismatchError(f"{before} and {arg} are not comparable: required values of one kind")
        found = wider
    return found


def comparison(args: Sequence[Argument]) -> Typing:
    """Values of one kind that give a condition."""
    return Typing((_same(args),) * len(args), pa.bool_())


def choice(args: Sequence[Argument]) -> Typing:
    """Values of one kind, of which one is given."""
    kind = _same(args)
    return Typing((kind,) * len(args), kind)


def case(args: Sequence[Argument]) -> Typing:
    """Conditions and values in turn, the value without a condition last."""
    places = [*range(1, len(args) - 1, 2), len(args) - 1]
    for place in range(0, len(args) - 1, 2):
        if args[place].type not in (pa.bool_(), pa.null()):
            raise TypeMismatchError(f"required a condition, got {args[place]}", place)
    try:
        kind = _same([args[place] for place in places])
    except TypeMismatchError as error:
        raise TypeMismatchError(str(error), places[error.place]) from None
    return Typing((*(pa.bool_(), kind) * (len(places) - 1), kind), kind)


def anything(args: Sequence[Argument]) -> Typing:
    """Whatever it is: what is told of it is a condition."""
    return Typing((None,) * len(args), pa.bool_())


# Numbers and times.


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


def sums(name: str, args: Sequence[Argument]) -> Typing:
    """Numbers, or times and intervals; ``name`` is + or -."""
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


def product(args: Sequence[Argument]) -> Typing:
    """Numbers."""
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
    known = next(kind for kind in kinds if not _types.is_null(kind))
    # A null is what makes sense beside the other: times can be subtracted, but only an interval can be added to one.
    unknown = pa.duration(known.unit) if _types.is_timestamp(known) and name == "+" else known
    one, other = (unknown if _types.is_null(kind) else kind for kind in kinds)
    times = [_types.is_timestamp(kind) for kind in (one, other)]
    spans = [_types.is_duration(kind) for kind in (one, other)]
    if all(time or span for time, span in zip(times, spans, strict=True)):
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


def doubles(args: Sequence[Argument]) -> Typing:
    """Numbers, which are taken as doubles."""
    return _doubles(len(_numbers(args)))


def remainder(args: Sequence[Argument]) -> Typing:
    """Numbers: of integers an integer, of all else a double."""
    if all(_types.is_int64(kind) for kind in _numbers(args)):
        return Typing((pa.int64(),) * 2, pa.int64())
    return _doubles(2)


def signed(args: Sequence[Argument]) -> Typing:
    """A number or an interval, which gives the same type."""
    if _types.is_duration(args[0].type):
        return Typing((args[0].type,), args[0].type)
    kind = _numbers(args)[0]
    return Typing((kind,), kind)


def whole(args: Sequence[Argument]) -> Typing:
    """FLOOR and CEIL: of a decimal a decimal without a fraction, of all else an integer."""
    kind = _numbers(args)[0]
    if _types.is_decimal128(kind):
        return Typing((kind,), pa.decimal128(max(1, min(kind.precision - kind.scale + 1, 38)), 0))
    return Typing((kind,), pa.int64())


def rounded(args: Sequence[Argument]) -> Typing:
    """A number, and a constant number of digits."""
    kind = _numbers(args[:1])[0]
    digits = _whole_constant(args, 1, 0, _ROUND_DIGITS_MAX) if len(args) > 1 else 0
    rest = (pa.int64(),) * (len(args) - 1)
    if _types.is_decimal128(kind) and digits < kind.scale:
        return Typing((kind, *rest), pa.decimal128(max(1, kind.precision - kind.scale + digits + 1), digits))
    return Typing((kind, *rest), kind)


def time_field(result: pa.DataType, args: Sequence[Argument]) -> Typing:
    """A date or a timestamp."""
    kind = args[0].type
    if _types.is_null(kind):
        return Typing((pa.timestamp("s"),), result)
    if not is_instant(kind):
        raise TypeMismatchError(f"required a date or a timestamp, got {args[0]}")
    return Typing((as_timestamp(kind),), result)


# Strings, and constants.


def _whole_constant(args: Sequence[Argument], place: int, least: int, most: int) -> int:
    """The value of an argument that must be a constant integer."""
    value = args[place].constant
    is_whole = value is not None and _types.is_int64(value.type)
    if value is not None and is_whole and isinstance(value.value, int) and least <= value.value <= most:
        return value.value
    raise TypeMismatchError(f"required a constant integer from {least} to {most}, got {args[place]}", place)


def _text_constant(args: Sequence[Argument], place: int) -> str:
    """The value of an argument that must be a constant string."""
    constant = args[place].constant
    if constant is None or not isinstance(constant.value, str):
        raise TypeMismatchError(f"required a constant string, got {args[place]}", place)
    return constant.value


def with_constant_text(result: pa.DataType, args: Sequence[Argument]) -> Typing:
    """A string, and other arguments that are constant strings."""
    for place in range(1, len(args)):
        _text_constant(args, place)
    return TEXT(result, args)


def like(args: Sequence[Argument]) -> Typing:
    """A string, and a constant pattern."""
    pattern = _text_constant(args, 1)
    if len(pattern) > _PATTERN_MAX:
        message = f"the pattern is too long: required at most {_PATTERN_MAX} characters, got {len(pattern)}"
        raise TypeMismatchError(message, 1)
    if _ends_in_escape(pattern):
        raise TypeMismatchError("the pattern ends in its escape character: required a character after it", 1)
    return TEXT(pa.bool_(), args)


def _ends_in_escape(pattern: str) -> bool:
    return (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1


def substring(args: Sequence[Argument]) -> Typing:
    """A string, and constant places in it."""
    for place in range(1, len(args)):
        _whole_constant(args, place, -(2**31), 2**31)
    typing = TEXT(pa.string(), args[:1])
    return Typing((*typing.args, *(pa.int64(),) * (len(args) - 1)), typing.result)
