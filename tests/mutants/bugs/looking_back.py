"""Bugs in what a query sees that looks back: how far, and that it stays so."""

from __future__ import annotations

from tests.mutants.edits import argument, begin, drop, returned, value
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "complete_from": "test_completeness test_looking_back",
    "LoggedBatches": "test_logged_batches",
    "CopyOpenings": "test_looking_back test_opening",
    "": "test_looking_back",
}

MUTANTS = (
    bug("a query that looks back begins with empty windows", "HomeQuery.is_to_look_back", begin("return False")),
    bug("a window lacks its oldest tick", "look_back.seen_from", value("before()", "_ + reach.tau")),
    bug("it sees what its sites have not", "look_back.seen_from", value("max()", "_1")),
    bug("the count window of a short log is said to be there", "StreamState.last_rows_from", returned("TICK_MIN")),
    bug("the last tuples are one too few", "LoggedBatches.first_of_last", value("count", "_ - 1")),
    bug("what it sees is forgotten at a crash of its home", "HomeQuery.recovered", drop("begins")),
    bug("what it sees is forgotten at any loss", "Resumption.begin_of", returned("self.first_tick")),
    bug(
        "sites forget before its home knows where it begins", "Participant.prepare", argument("keep", 2, "begins", at=1)
    ),
    bug("keys are shared that lack what is seen", "held_copies._is_right_again", value("kept_from", "-(2**62)", at=0)),
    bug("what no holder can open is remembered", "CopyOpenings.fenced", begin("return")),
    bug("a window that is not whole is said to be", "complete_from._whole_from", begin("return first_tick")),
)
