"""Bugs in the algorithms' halves, in gates, in views, and in the books of keys."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, begin, condition, drop, returned, swap, value
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "SealedRows": "test_view",
    "View": "test_view",
    "KeyBook": "test_keybook",
    "SpanLedger": "test_span_ledger",
    "evaluation": "test_evaluation",
    "casts": "test_evaluation",
    "FrontierGate": "test_gate",
    "Look": "test_gate",
    "DeltaGate": "test_gate",
    "": "test_halves test_site",
}

MUTANTS = (
    # -- questions and answers
    bug(
        "rows go by the order of keys before they were numbered",
        "AskingSource.ask",
        value("argsort()", "np.arange(len(order))"),
    ),
    bug("a question holds nothing while the engine looks", "FindingDestination.find", drop("hold")),
    bug(
        "what delta forgot is found by chance",
        "FindingDestination.find",
        drop("low", at=1),
        "equivalent: times are forgotten with the rows, and no rank is below what is left of them",
    ),
    # -- the algorithms
    bug(
        "rows without a match are shipped",
        "sm_d1.Source.opened",
        assigned("found", "np.arange(walk.rows.num_rows)"),
    ),
    bug("walks without a match are not ended", "sm_d2.Destination.answered", drop("advance", at=1)),
    bug("rows may come for keys that do not match", "sm_d2.Destination._take_matching", begin("return")),
    bug("a walk may come twice", "SpanLedger.take", condition("span", "False")),
    bug("what is done may come again", "SpanLedger.done", drop("_done")),
    bug("what is done is remembered for ever", "SpanLedger.done", drop("_came")),
    bug(
        "W' of a count window does not wait for its times",
        "sm_s1.Destination.on_message",
        argument("seek", 1, "self.table"),
    ),
    bug("tuples are filtered by no one", "Reach.where_behind", returned("None")),
    # -- gates
    bug("probe without waiting", "FrontierGate.enter", condition("is_early", "True")),
    bug("probe one time unit early", "Look.is_early", swap(">=", ">")),
    bug("delta does not count what was early", "DeltaGate._note", drop("early")),
    bug("delta waits by the clock at a stream's own site", "Look.is_early", begin("return True")),
    # -- views
    bug("filters are not applied", "SealedRows.passing", condition("passed", "True")),
    # -- books
    bug("a key is crossed out though it was asked about again", "KeyBook.note", value("oldest[]", "oldest")),
    bug("a null passes a filter", "holds", value("fill_null()", "_o.fill_null(True)")),
    bug("what a kernel raises ends the daemon", "evaluation.evaluate", begin("return _evaluate(expr, rows)")),
    bug("a cast rounds up to more digits than there are", "casts._to_decimal", drop("limit", at=1)),
)
