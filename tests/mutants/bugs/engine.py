"""Bugs in the native engine: runs, orders, and questions that are answered together."""

from __future__ import annotations

from tests.mutants.edits import assigned, condition, constant, swap, value
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "": "test_native",
}

MUTANTS = (
    bug("expired rows are appended", "Table._alive", condition("min", "True")),
    bug("colliding codes are taken for equal keys", "Table.open_index", assigned("indexes", "True")),
    bug("positions of merged runs are taken to be in order", "runs.merge", assigned("in_order", "True")),
    bug("a position at the low bound is not found", "orders._partition_point", swap("<", "<=", at=2)),
    bug("codes that a filter has are missed", "orders._make_filter", constant(True, False)),
    bug("questions before an expiry are answered after it", "NativeEngine.run", condition("op", "False", at=1)),
    bug("columns that come late are those of other rows", "fusion._completed", condition("order", "False", at=1)),
    bug("a find sees one position too many", "fusion._bounds", value("-", "find.high", at=0)),
)
