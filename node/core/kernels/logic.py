"""Comparisons, logic of three values, and choices."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from node.core.kernels.values import Kernel, made, nulls, plain
from planner.model.query import Call, Literal

_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def compare(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """A comparison; among doubles NaN equals NaN and is greater than all others."""
    if pa.types.is_null(left.type):
        return pa.nulls(len(left), pa.bool_())
    if not pa.types.is_float64(left.type):
        return _COMPARE[name](left, right)
    one, other = plain(left), plain(right)
    one_nan, other_nan = np.isnan(one), np.isnan(other)
    equal = (one == other) | (one_nan & other_nan)
    less = (one < other) | (~one_nan & other_nan)
    values = {"=": equal, "<>": ~equal, "<": less, "<=": less | equal, ">": ~(less | equal), ">=": ~less}[name]
    return made(values, nulls(left, right), pa.bool_())


def _comparison(call: Call, args: list[pa.Array]) -> pa.Array:
    return compare(call.function, *args)


def _and(_call: Call, args: list[pa.Array]) -> pa.Array:
    return reduce(pc.and_kleene, args)


def _or(_call: Call, args: list[pa.Array]) -> pa.Array:
    return reduce(pc.or_kleene, args)


def _not(_call: Call, args: list[pa.Array]) -> pa.Array:
    return pc.invert(args[0])


def _is_null(_call: Call, args: list[pa.Array]) -> pa.Array:
    return args[0].is_null()


def _in(call: Call, args: list[pa.Array]) -> pa.Array:
    """Constants are looked up together, other values compared one by one; doubles too, because of NaN and -0.0."""
    subject, *values = args
    together: list[Literal] = []
    found = pa.repeat(pa.scalar(False), len(subject))
    for arg, array in zip(call.args[1:], values, strict=True):
        if isinstance(arg, Literal) and arg.value is not None and not pa.types.is_float64(subject.type):
            together.append(arg)
        else:
            found = pc.or_kleene(found, compare("=", subject, array))
    if together:
        listed = pa.array([constant.value for constant in together], subject.type)
        known = pc.is_in(subject, value_set=listed)
        found = pc.or_kleene(found, pc.if_else(subject.is_valid(), known, pa.scalar(None, pa.bool_())))
    return found


def _between(_call: Call, args: list[pa.Array]) -> pa.Array:
    subject, low, high = args
    return pc.and_kleene(compare(">=", subject, low), compare("<=", subject, high))


def _is_distinct(_call: Call, args: list[pa.Array]) -> pa.Array:
    """Null is distinct from all but null."""
    left, right = args
    return pc.coalesce(compare("<>", left, right), pc.xor(left.is_null(), right.is_null()))


def _case(_call: Call, args: list[pa.Array]) -> pa.Array:
    """Conditions and values in turn, then the value of all other rows."""
    chosen = args[-1]
    for condition, value in zip(args[-3::-2], args[-2::-2], strict=True):
        chosen = pc.if_else(condition.fill_null(False), value, chosen)
    return chosen


def _coalesce(_call: Call, args: list[pa.Array]) -> pa.Array:
    return pc.coalesce(*args)


def _nullif(_call: Call, args: list[pa.Array]) -> pa.Array:
    same = compare("=", *args).fill_null(False)
    return pc.if_else(same, pa.scalar(None, args[0].type), args[0])


def _extreme(call: Call, args: list[pa.Array]) -> pa.Array:
    return reduce(_greater if call.function == "greatest" else _lesser, args)


def _greater(one: pa.Array, other: pa.Array) -> pa.Array:
    return _better(one, other, ">=")


def _lesser(one: pa.Array, other: pa.Array) -> pa.Array:
    return _better(one, other, "<=")


def _better(one: pa.Array, other: pa.Array, name: str) -> pa.Array:
    """The first where it compares so, or where the other is null."""
    first = pc.and_(one.is_valid(), pc.or_(other.is_null(), compare(name, one, other).fill_null(False)))
    return pc.if_else(first, one, other)


KERNELS: dict[str, Kernel] = {
    **dict.fromkeys(_COMPARE, _comparison),
    "and": _and,
    "or": _or,
    "not": _not,
    "is null": _is_null,
    "in": _in,
    "between": _between,
    "is distinct": _is_distinct,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "greatest": _extreme,
    "least": _extreme,
}
