"""Whether one filter lets pass only what another does too: for certain, if not in all cases in which it is so.

A filter lets a row pass if it is true: not false, and not null. So a comparison that holds says also that what it
compares is not null. Values are ordered as everywhere (``planner.model.functions``): NaN is the largest number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from planner.model.query import Call, Expr, Literal

#: Two filters are taken to have nothing in common if more pairs of their conditions than this would be compared.
_PAIRS_MAX = 20_000

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def implies(narrow: Expr | None, wide: Expr | None) -> bool:
    """Whether every row that passes ``narrow`` passes ``wide``. False may mean that it is not known."""
    if wide is None:
        return True
    if narrow is None:
        return False
    return narrow == wide or _Comparison().implies(_spelled_out(narrow), _spelled_out(wide))


class _TooManyError(Exception):
    """It would take too long to know."""


class _Comparison:
    """One question, with how much was looked at for it."""

    def __init__(self) -> None:
        self._pairs = 0

    def implies(self, narrow: Expr, wide: Expr) -> bool:
        try:
            return self._implies(narrow, wide)
        except _TooManyError:
            return False

    def _implies(self, narrow: Expr, wide: Expr) -> bool:
        self._pairs += 1
        if self._pairs > _PAIRS_MAX:
            raise _TooManyError
        if narrow == wide:
            return True
        if parts := _parts(wide, "and"):
            return all(self._implies(narrow, part) for part in parts)
        if parts := _parts(narrow, "or"):
            return all(self._implies(part, wide) for part in parts)
        if (parts := _parts(wide, "or")) and any(self._implies(narrow, part) for part in parts):
            return True
        if parts := _parts(narrow, "and"):
            return any(self._implies(part, wide) for part in parts)
        return _follows(narrow, wide)


def _parts(expr: Expr, function: str) -> tuple[Expr, ...]:
    """The conditions that ``function``, AND or OR, connects here; none if it does not."""
    return expr.args if isinstance(expr, Call) and expr.function == function else ()


def _spelled_out(expr: Expr) -> Expr:
    """The filter with BETWEEN as the two comparisons, and IN as the equalities, that they are short for.

    Once for each filter and not for each pair of conditions: lists may be long.
    """
    match expr:
        case Call("and" | "or", parts):
            return Call(expr.function, tuple(map(_spelled_out, parts)), expr.type)
        case Call("between", (subject, low, high)):
            return Call("and", (_compared(">=", subject, low), _compared("<=", subject, high)), pa.bool_())
        case Call("in", (subject, *others)):
            return Call("or", tuple(_compared("=", subject, other) for other in others), pa.bool_())
    return expr


def _compared(operator: str, left: Expr, right: Expr) -> Call:
    return Call(operator, (left, right), pa.bool_())


@dataclass(frozen=True, slots=True)
class _Comparing:
    """A comparison of something with a constant."""

    subject: Expr
    operator: str
    literal: Literal


def _comparing(expr: Expr) -> _Comparing | None:
    """The comparison, with the constant on the right; None if the constant is null or not a number, or not there."""
    if not isinstance(expr, Call) or expr.function not in _FLIPPED or len(expr.args) != 2:
        return None
    left, right = expr.args
    if isinstance(right, Literal) and _ordered(right):
        return _Comparing(left, expr.function, right)
    if isinstance(left, Literal) and _ordered(left):
        return _Comparing(right, _FLIPPED[expr.function], left)
    return None


def _ordered(literal: Literal) -> bool:
    value = literal.value
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _follows(narrow: Expr, wide: Expr) -> bool:
    """Whether every row for which one single condition holds meets another, as far as it can be told."""
    known = _comparing(narrow)
    if known is None:
        return False
    if (tested := _not_null(wide)) is not None:
        return known.subject == tested
    asked = _comparing(wide)
    if asked is None or known.subject != asked.subject:
        return False
    if known.literal.type != asked.literal.type or type(known.literal.value) is not type(asked.literal.value):
        return False
    return _WITHIN[known.operator](known.literal.value, asked.operator, asked.literal.value)


def _not_null(expr: Expr) -> Expr | None:
    """What this says is not null."""
    match expr:
        case Call("not", (Call("is null", (tested,)),)):
            return tested
    return None


def _equal_within(value: Any, operator: str, limit: Any) -> bool:
    return _HOLDS[operator](value, limit)


def _below_within(value: Any, operator: str, limit: Any) -> bool:
    """Whether what is below ``value`` meets the comparison with ``limit``."""
    return value <= limit if operator in ("<", "<=", "<>") else False


def _up_to_within(value: Any, operator: str, limit: Any) -> bool:
    return value < limit if operator in ("<", "<>") else operator == "<=" and value <= limit


def _above_within(value: Any, operator: str, limit: Any) -> bool:
    return value >= limit if operator in (">", ">=", "<>") else False


def _from_within(value: Any, operator: str, limit: Any) -> bool:
    return value > limit if operator in (">", "<>") else operator == ">=" and value >= limit


_HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: bool(one == other),
    "<>": lambda one, other: bool(one != other),
    "<": lambda one, other: bool(one < other),
    "<=": lambda one, other: bool(one <= other),
    ">": lambda one, other: bool(one > other),
    ">=": lambda one, other: bool(one >= other),
}
#: By the operator of what is known, given its constant: whether a comparison with another constant follows.
_WITHIN: Mapping[str, Callable[[Any, str, Any], bool]] = {
    "=": _equal_within,
    "<>": lambda value, operator, limit: operator == "<>" and bool(value == limit),
    "<": _below_within,
    "<=": _up_to_within,
    ">": _above_within,
    ">=": _from_within,
}
