"""How many rows a predicate between streams is taken to keep. Guesses, and shown as such: nothing measures them."""

from __future__ import annotations

from planner.model import Call, Expr

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
    name = expr.function.lower()
    if name == "and":
        kept = 1.0
        for share in shares:
            kept *= share
        return kept
    if name == "or":
        left = 1.0
        for share in shares:
            left *= 1 - share
        return 1 - left
    if name == "not":
        return 1 - shares[0]
    if name == "in":
        return min(0.5, _BY_FUNCTION["="] * max(1, len(expr.args) - 1))
    return _BY_FUNCTION.get(name, _BY_DEFAULT)
