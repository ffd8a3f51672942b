"""Bugs in the algorithms' halves, in gates, in views, and in the books of keys."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, begin, condition, drop, returned, swap, value
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "SealedRows": "test_view",
    "View": "test_view",
    "KeyBook": "test_keybook",
    "FrontierGate": "test_gate",
    "Look": "test_gate",
    "DeltaGate": "test_gate",
    "": "algorithms/test_halves test_site",
}
BYTES = "only bytes are wasted: the join at the stream's site finds nothing for those rows"

MUTANTS = (
    # -- questions and answers
    bug(
        "known keys are not put first",
        "_known_first",
        returned("np.argsort(~new, kind='stable'), len(numbers) - int(new.sum())"),
    ),
    bug(
        "rows go by the order of keys before they were numbered",
        "AskingSource.ask",
        value("argsort()", "np.arange(len(order))"),
    ),
    bug("walks that ended elsewhere are remembered", "AskingSource.on_done", begin("return")),
    bug("a question holds nothing while the engine looks", "FindingDestination.find", drop("hold")),
    bug("questions are answered without the filter", "FindingDestination.find", argument("Find", 6, "None")),
    bug("what delta forgot is found by chance", "FindingDestination.find", drop("low", at=1)),
    # -- the algorithms
    bug("rows with a match are not shipped", "sm_d1.Source.opened", swap(">=", ">")),
    bug(
        "rows without a match are shipped",
        "sm_d1.Source.opened",
        assigned("found", "np.arange(walk.rows.num_rows)"),
        BYTES,
    ),
    bug("the bitmap is one off", "sm_d2.Destination.answered", value("to_numpy()", "_ - 1")),
    bug(
        "a key that matches once is enough for all",
        "sm_d2.Source.on_message",
        argument("flatnonzero", 0, "_ | True"),
        BYTES,
    ),
    bug("walks without a match are not ended", "sm_d2.Destination.answered", drop("advance", at=1)),
    bug(
        "W' of a count window does not wait for its times",
        "sm_s1.Destination.on_message",
        argument("seek", 1, "self.table"),
    ),
    bug(
        "rows whose keys are here in part are not joined", "sm_s2.Source.opened", value("flatnonzero()", "_[:0]", at=0)
    ),
    bug("a join in two parts ends with its first", "sm_s2.Source.answered", condition("missing", "True")),
    bug("tuples are filtered by no one", "Half.condition", assigned("where", "None")),
    bug("M and V are looked at without waiting", "Half.enter", argument("pass_gate", 2, "low_ts - 10 ** 12")),
    # -- gates
    bug("probe without waiting", "FrontierGate.enter", condition("is_early", "True")),
    bug("probe one time unit early", "Look.is_early", swap(">=", ">")),
    bug("walks wait for their oldest row", "FrontierGate.enter", value("high_ts", "look.low_ts")),
    bug("delta does not count what was early", "DeltaGate.due", drop("early")),
    bug("delta looks at once", "DeltaGate.enter", value("delta_us", "0")),
    # -- views
    bug("a view is not trimmed to the start", "SealedRows.passing", assigned("skip", "0")),
    bug("filters are not applied", "SealedRows.passing", condition("passed", "True")),
    bug("a batch is cut one tuple late", "SealedRows.after", assigned("skip", "_ + 1")),
    bug("coarse times are not scaled", "View._scaled", returned("ts", at=1)),
    # -- books
    bug("a key is crossed out though it was asked about again", "KeyBook.note", value("oldest[]", "oldest")),
    bug("new keys are known at once at one end", "KeyBook.read", drop("note")),
    bug("a null passes a filter", "holds", value("fill_null()", "_o.fill_null(True)")),
)
