"""A simulator that cannot find bugs proves nothing: a few seeded ones must be found, quickly.

``python -m tests.mutants`` tries all of them and prints the score.
"""

from __future__ import annotations

import pytest

from tests.mutants.mutants import MUTANTS, Mutant, named, patched
from tests.mutants.score import NO_BUG, killed_by_unit_tests, score, scores

SEEDS = 200
REPRESENTATIVE = (
    "ties on neither side",
    "done is the newest, not the contiguous",
    "look-ahead never resumes",
    "filters are not applied",
    "every walk starts at home",
    "a borrower sees what was before its start",
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_fits_the_source(mutant: Mutant) -> None:
    for module in sorted({change.module for change in mutant.changes}):
        compile(patched([change for change in mutant.changes if change.module == module]), module, "exec")


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_simulator_kills_representative_mutants() -> None:
    survivors = [found.mutant.name for found in scores(map(named, REPRESENTATIVE), SEEDS) if not found.killed]
    assert survivors == []


def test_without_a_bug_nothing_is_killed() -> None:
    found = score(NO_BUG, 10)
    assert not found.killed, found.how


def test_unit_tests_kill_a_mutant_that_needs_a_restart() -> None:
    assert killed_by_unit_tests(NO_BUG, "link") == ""
    assert killed_by_unit_tests(named("link counts on with a restarted peer"), "link")
