"""Bugs in the native engine: runs, orders, and questions that are answered together."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, constant, drop, returned, swap, test, value, without
from tests.mutants.mutant import bug

#: Where a unit test should notice them.
TESTS = ("tests/unit/test_native_engine.py",)
MEMORY = "only memory grows, or time is lost"

MUTANTS = (
    bug("an index does not find what was there before it", "Table.open_index", drop("runs")),
    bug("expired rows are appended", "Table.append", test("min", "False")),
    bug("a run goes with its first expired row", "Table.expire", value("greatest", "run.least")),
    bug("what is expired comes back", "Table.expire", value("max()", "_1")),
    bug("the last run of a table is not searched", "Table.search", value("runs", "_[:-1] or _")),
    bug("rows with a null key are found", "Table._order", test("usable", "True")),
    bug("rows with a null key ask", "Table.search", test("usable", "True")),
    bug("colliding codes are taken for equal keys", "Table.open_index", assigned("indexes", "True")),
    bug("a merge keeps expired rows", "runs.merge", value("trim()", "_0", at=0), MEMORY),
    bug("rows of merged runs are those of the first", "runs.merge", assigned("bases", "[0] * len(_)")),
    bug("positions of merged runs are taken to be in order", "runs.merge", assigned("in_order", "True")),
    bug("rows of a trimmed run are one off", "runs.trim", assigned("moved", "np.cumsum(alive, dtype=np.int32)")),
    bug("a position at the low bound is not found", "orders._partition_point", swap("<", "<=", at=2)),
    bug("a position at the high bound is found", "orders.find", value("include_high", "True")),
    bug("an order skips bounds that it thinks it is within", "orders.find", swap(">=", ">")),
    bug("the last row of a code is not found", "orders.find", assigned("last", "np.searchsorted(order.codes, asked.codes[hits])", at=0)),
    bug("codes that a filter has are missed", "orders._make_filter", constant(True, False)),
    bug("equal codes are in no order", "orders._in_position", returned("order", at=1)),
    bug("a filter of a few rows is asked", "orders._make_filter", test("size", "codes.size < 2"), "equivalent: a filter says only where a code cannot be; it costs more than it saves"),
    bug("a live row goes with the expired", "orders.live", swap(">=", ">")),
    bug("questions before an expiry are answered after it", "NativeEngine.run", test("op", "False", at=1)),
    bug("one question's failure is that of all", "NativeEngine._answer", assigned("answers", "[error] * len(part)", at=1)),
    bug("answers go to the next question", "fusion._put", argument("searchsorted", 1, "[end - 1 for end in askers.ends]")),
    bug("the conditions of one question are those of the group", "fusion._holding", value("begins[]", "0")),
    bug("numbers of asking rows are those in the group", "fusion._numbers", assigned("numbers", "np.arange(counts.sum())")),
    bug("collisions are not looked at", "fusion._verified", test("indexes", "True")),
    bug("answers are in the order of the runs", "fusion.answer", test("ops", "False")),
    bug("columns that come late are those of other rows", "fusion._completed", test("order", "False", at=1)),
    bug("a find sees one position too many", "fusion._bounds", value("-", "find.high", at=0)),
    bug("parts of a group are lost", "native._parts", drop("append")),
)
