"""The share of rows that a predicate is taken to keep, from its form alone.

Guesses, for predicates of which nothing is measured: those between streams that are not equalities, and filters of
copies of which no share was counted (``planner.model.copies``). Explain says which guesses a plan rests on.
"""

from __future__ import annotations

from math import prod

from planner.model.query import Call, Expr

_COMPARED = 1 / 3
_BY_FUNCTION = {
    "=": 0.1,
    "<>": 0.9,
    "<": _COMPARED,
    "<=": _COMPARED,
    ">": _COMPARED,
    ">=": _COMPARED,
    "between": 0.25,
    "like": 0.1,
    "starts_with": 0.1,
    "ends_with": 0.1,
    "contains": 0.1,
    "is null": 0.05,
    "is distinct": 0.9,
}
_BY_DEFAULT = _COMPARED


def selectivity(expr: Expr) -> float:
    """The share of rows for which the predicate is taken to hold."""
    if not isinstance(expr, Call):
        return _BY_DEFAULT
    shares = [selectivity(arg) for arg in expr.args]
    match expr.function:
        case "and":
            return prod(shares)
        case "or":
            return 1 - prod(1 - share for share in shares)
        case "not":
            return 1 - shares[0]
        case "in":
            return min(0.5, _BY_FUNCTION["="] * max(1, len(expr.args) - 1))
        case name:
            return _BY_FUNCTION.get(name, _BY_DEFAULT)
