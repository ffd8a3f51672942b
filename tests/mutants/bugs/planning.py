"""Bugs in what planner and core ask together: which copies serve a query, and what links its streams."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, condition, drop, returned, swap, value, without
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "planner": "test_copies",
    "copy_of": "test_copies",
    "_Comparison": "test_implication",
    "implication": "test_implication",
    "link_of": "test_graph",
    "needed_after": "test_graph",
    "": "test_implication",
}

MUTANTS = (
    bug("copies without a needed column serve", "planner.copies.serves", without("columns", at=0)),
    bug("copies along another axis serve", "planner.copies.serves", condition("times", "False")),
    bug("a count window uses a wider copy", "planner.copies.serves", without("ROWS")),
    bug("copies with a narrower filter serve", "planner.copies.serves", without("implies")),
    bug("a copy without the filter's columns serves", "planner.copies.serves", condition("tuples", "False")),
    bug(
        "the loosest copy serves",
        "planner.copies.serving",
        value("min()", "max(_0, key=lambda copy: looseness(copy, needed), default=None)"),
    ),
    bug("a reduced copy lacks the filter's columns", "copy_of", assigned("wanted", "columns")),
    # -- implication
    bug("either part of an AND is enough", "_Comparison._implies", value("all()", "any(_0)", at=0)),
    bug("either part of an OR implies", "_Comparison._implies", value("all()", "any(_0)", at=1)),
    bug("up to implies below", "_up_to_within", swap("<", "<=", at=0)),
    bug("constants on the left are not turned", "_comparing", value("_FLIPPED[]", "expr.function")),
    bug("NaN is ordered", "_ordered", returned("value is not None")),
    bug("constants of different types are compared", "_follows", condition("literal", "False", at=0)),
    bug("0.0 is -0.0", "implication.same", value("repr()", "_0 + 0.0 if isinstance(_0, float) else _0", at=0)),
    # -- the join graph
    bug("carry keys and window keys are in different orders", "link_of", argument("Link", 1, "tuple(reversed(keys))")),
    bug("what later keys need is dropped", "needed_after", drop("wanted", at=1)),
    bug("what residuals need is dropped", "needed_after", condition("rest", "False")),
)
