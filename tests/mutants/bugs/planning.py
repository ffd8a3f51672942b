"""Bugs in what planner and core ask together: which copies serve a query, and what links its streams."""

from __future__ import annotations

from tests.mutants.edits import condition, returned, value, without
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "planner": "model/test_copies",
    "copy_of": "model/test_copies",
    "_Comparison": "test_implication",
    "implication": "test_implication",
    "link_of": "test_graph",
    "needed_after": "test_graph",
    "": "test_implication",
}

MUTANTS = (
    bug("a count window uses a wider copy", "planner.model.copies.serves", without("ROWS")),
    bug("copies with a narrower filter serve", "planner.model.copies.serves", without("implies")),
    bug("a copy without the filter's columns serves", "planner.model.copies.serves", condition("tuples", "False")),
    bug(
        "the loosest copy serves",
        "planner.model.copies.serving",
        value("min()", "max(_0, key=lambda copy: looseness(copy, needed), default=None)"),
    ),
    # -- implication
    bug("either part of an AND is enough", "_Comparison._implies", value("all()", "any(_0)", at=0)),
    bug("NaN is ordered", "_ordered", returned("value is not None")),
    bug("0.0 is -0.0", "Literal.__post_init__", value("repr()", "repr(_0 + 0.0 if isinstance(_0, float) else _0)")),
    # -- the join graph
)
