"""Bugs in the native engine: runs, orders, and questions that are answered together."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, condition, constant, drop, returned, swap, value
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "": "test_native_engine",
}
MEMORY = "only memory grows, or time is lost"

MUTANTS = (
    bug("an index does not find what was there before it", "Table.open_index", drop("runs")),
    bug("expired rows are appended", "Table.append", condition("min", "False")),
    bug("a run goes with its first expired row", "Table.expire", value("greatest", "run.least")),
    bug("rows with a null key are found", "Table._order", condition("usable", "True")),
    bug("colliding codes are taken for equal keys", "Table.open_index", assigned("indexes", "True")),
    bug("positions of merged runs are taken to be in order", "runs.merge", assigned("in_order", "True")),
    bug("rows of a trimmed run are one off", "runs.trim", assigned("moved", "np.cumsum(alive, dtype=np.int32)")),
    bug("a position at the low bound is not found", "orders._partition_point", swap("<", "<=", at=2)),
    bug("codes that a filter has are missed", "orders._make_filter", constant(True, False)),
    bug("equal codes are in no order", "orders._in_position", returned("order", at=1)),
    bug("a live row goes with the expired", "orders.live", swap(">=", ">")),
    bug("questions before an expiry are answered after it", "NativeEngine.run", condition("op", "False", at=1)),
    bug(
        "one question's failure is that of all",
        "NativeEngine._answer",
        assigned("answers", "[error] * len(part)", at=1),
    ),
    bug(
        "answers go to the next question",
        "fusion._put",
        argument("searchsorted", 1, "[end - 1 for end in askers.ends]"),
    ),
    bug(
        "numbers of asking rows are those in the group",
        "fusion._numbers",
        assigned("numbers", "np.arange(counts.sum())"),
    ),
    bug("collisions are not looked at", "fusion._verified", condition("indexes", "True")),
    bug("answers are in the order of the runs", "fusion.answer", condition("ops", "False")),
    bug("columns that come late are those of other rows", "fusion._completed", condition("order", "False", at=1)),
    bug("a find sees one position too many", "fusion._bounds", value("-", "find.high", at=0)),
)
