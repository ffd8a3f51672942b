"""Arithmetic. Integers are checked for overflow, decimals have room by their type, doubles are IEEE."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from node.core.kernels.values import INT64_MIN, Ints, Kernel, Mask, Numbers, made, nulls, plain
from planner.model.query import Call, Literal

_DECIMAL = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "unary -": pc.negate, "abs": pc.abs}
#: Below it the product of two doubles shows that the integers' product fits for sure.
_SURELY_FITS = 2.0**62


def _add(left: Ints, right: Ints) -> tuple[Ints, Mask]:
    total = left + right
    return total, ((left ^ total) & (right ^ total)) < 0


def _subtract(left: Ints, right: Ints) -> tuple[Ints, Mask]:
    rest = left - right
    return rest, ((left ^ right) & (left ^ rest)) < 0


def _multiply(left: Ints, right: Ints) -> tuple[Ints, Mask]:
    """Where the product may not fit, it does iff dividing gives the other factor back."""
    product = left * right
    overflow = np.abs(left.astype(np.float64) * right) >= _SURELY_FITS
    doubtful = np.flatnonzero(overflow)
    if len(doubtful):
        one, other, wrapped = left[doubtful], right[doubtful], product[doubtful]
        negated = other == -1
        back = wrapped // np.where(negated, 1, other)
        overflow[doubtful] = np.where(negated, one == INT64_MIN, back != one)
    return product, overflow


_INTEGER: dict[str, Callable[[Ints, Ints], tuple[Ints, Mask]]] = {"+": _add, "-": _subtract, "*": _multiply}


def _arithmetic(call: Call, args: list[pa.Array]) -> pa.Array:
    kind = args[0].type
    if pa.types.is_decimal(kind):
        return _DECIMAL[call.function](*args).cast(call.type)
    left, right = (plain(arg) for arg in args)
    missing = nulls(*args)
    with np.errstate(all="ignore"):
        if pa.types.is_float64(kind):
            values: Numbers = {"+": np.add, "-": np.subtract, "*": np.multiply}[call.function](left, right)
            return made(values, missing, call.type)
        values, overflow = _INTEGER[call.function](left, right)
    return made(values, missing | overflow, call.type)


def _divide(call: Call, args: list[pa.Array]) -> pa.Array:
    left, right = (plain(arg) for arg in args)
    zero = right == 0
    with np.errstate(all="ignore"):
        values = left / np.where(zero, 1, right)
    return made(values, nulls(*args) | zero, call.type)


def _remainder(call: Call, args: list[pa.Array]) -> pa.Array:
    """The sign is the dividend's. By -1 it is as by 1, and the smallest integer cannot be divided by -1."""
    left, right = (plain(arg) for arg in args)
    zero = right == 0
    divisor = np.where(zero, 1, right)
    if pa.types.is_int64(call.type):
        divisor = np.where(divisor == -1, 1, divisor)
    with np.errstate(all="ignore"):
        values = np.fmod(left, divisor)
    return made(values, nulls(*args) | zero, call.type)


def _sign(call: Call, args: list[pa.Array]) -> pa.Array:
    if pa.types.is_decimal(call.type):
        return _DECIMAL[call.function](args[0])
    values, missing = plain(args[0]), nulls(args[0])
    if not pa.types.is_float64(call.type):
        missing |= values == INT64_MIN
    with np.errstate(all="ignore"):
        values = np.negative(values) if call.function == "unary -" else np.abs(values)
    return made(values, missing, call.type)


def integers(values: Numbers, missing: Mask, kind: pa.DataType) -> pa.Array:
    """Whole doubles as integers; null what does not fit."""
    fits = (values >= -(2.0**63)) & (values < 2.0**63)
    return made(np.where(fits, values, 0).astype(np.int64), missing | ~fits, kind)


def _whole(call: Call, args: list[pa.Array]) -> pa.Array:
    """FLOOR and CEIL."""
    array = args[0]
    if pa.types.is_int64(array.type):
        return array
    if pa.types.is_float64(array.type):
        values = np.floor(plain(array)) if call.function == "floor" else np.ceil(plain(array))
        return integers(values, nulls(array), call.type)
    function = pc.floor if call.function == "floor" else pc.ceil
    return function(with_room(array)).cast(call.type)


def with_room(array: pa.Array) -> pa.Array:
    """A decimal with digits to spare, as rounding up may need."""
    return array.cast(pa.decimal256(array.type.precision + 2, array.type.scale))


def _round(call: Call, args: list[pa.Array]) -> pa.Array:
    array = args[0]
    digits = _constant(call, 1) if len(call.args) > 1 else 0
    if pa.types.is_decimal(array.type):
        if call.type == array.type:
            return array
        return pc.round(with_room(array), ndigits=digits, round_mode="half_towards_infinity").cast(call.type)
    if pa.types.is_int64(array.type):
        return array
    return made(_rounded(plain(array), digits), nulls(array), call.type)


def _rounded(values: Numbers, digits: int) -> Numbers:
    """Half away from zero; a number too large to have such digits stays as it is."""
    size = 10.0**digits
    with np.errstate(all="ignore"):
        scaled = np.abs(values) * size
        whole = np.floor(scaled)
        up = whole + (scaled - whole >= 0.5)
        rounded = np.copysign(up / size, values)
    return np.where(scaled < 2.0**52, rounded, values)


def _constant(call: Call, place: int) -> int:
    constant = call.args[place]
    assert isinstance(constant, Literal)
    assert isinstance(constant.value, int)
    return constant.value


_DOUBLE: dict[str, Callable[..., Numbers]] = {"sqrt": np.sqrt, "ln": np.log, "exp": np.exp, "power": np.power}


def _function(call: Call, args: list[pa.Array]) -> pa.Array:
    """Functions of doubles: null where numbers have no such value, and for the logarithm of zero."""
    numbers = [plain(arg) for arg in args]
    with np.errstate(all="ignore"):
        values = _DOUBLE[call.function](*numbers)
    missing = nulls(*args)
    some_nan = np.any([np.isnan(number) for number in numbers], axis=0)
    missing |= np.isnan(values) & ~some_nan
    if call.function == "ln":
        missing |= numbers[0] == 0
    return made(values, missing, call.type)


KERNELS: dict[str, Kernel] = {
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "/": _divide,
    "%": _remainder,
    "unary -": _sign,
    "abs": _sign,
    "floor": _whole,
    "ceil": _whole,
    "round": _round,
    **dict.fromkeys(_DOUBLE, _function),
}
