"""Tests that notice no bugs prove nothing: planted ones must be noticed. All must fit the source; a few are tried.

``python -m tests.mutants`` tries all of them and prints who notices each.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.mutants.edits import (
    Edit,
    argument,
    assigned,
    begin,
    condition,
    constant,
    drop,
    returned,
    swap,
    value,
    without,
)
from tests.mutants.errors import UnfitError
from tests.mutants.functions import ROOT
from tests.mutants.mutant import Mutant, bug, edited
from tests.mutants.mutants import MUTANTS, files_of, named
from tests.mutants.verdict import NO_BUG, verdicts

#: Noticed by a unit test, each in a fraction of a second.
BY_UNIT_TESTS = {
    "a link acknowledges one too far": ("tests/unit/node/core/links/test_link.py",),
    "complete when one head is": ("tests/unit/node/core/queries/test_sink.py",),
}
#: Noticed by one of the first seeds.
BY_SEEDS = ("no freeze between Prepare and Start", "W' does not say what it forgot")


def test_every_mutant_fits_the_source() -> None:
    unfit = []
    for mutant in MUTANTS:
        try:
            for function, changed in edited(mutant).items():
                compile(ast.Module([changed], []), function, "exec")
        except UnfitError as error:
            unfit.append(str(error))
    assert unfit == []


def test_names_are_unique_and_unit_tests_are_there() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    files = {file for mutant in MUTANTS for file in files_of(mutant)}
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []


def test_a_mutant_whose_function_is_gone_is_an_error() -> None:
    with pytest.raises(UnfitError, match="requires one function of that name"):
        edited(bug("of nothing", "RowTable.no_such_method", begin("return")))


def test_a_mutant_that_changes_nothing_is_an_error() -> None:
    with pytest.raises(UnfitError, match="requires a change"):
        edited(bug("the same", "Progress.release", swap("<", "<")))


SOURCE = """
def function(self, a, b):
    if a < b and self.is_open:
        self.close(a, key=1)
    found = max(a, b)
    return found
"""


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (swap("<", "<="), "a < b", "a <= b"),
        (condition("is_open", "False"), "a < b and self.is_open", "False"),
        (condition("is_open", "not _"), "a < b and self.is_open", "not (a < b and self.is_open)"),
        (without("is_open"), "self.is_open", "True"),
        (value("max()", "_1"), "max(a, b)", "b"),
        (value("is_open", "_o.is_shut"), "self.is_open", "self.is_shut"),
        (constant(1, 2), "1", "2"),
        (argument("close", 0, "_ + 1"), "close(a", "close(a + 1"),
        (argument("close", "key", "None"), "1", "None"),
        (assigned("found", "-_"), "max(a, b)", "-max(a, b)"),
        (returned("None"), "return found", "return None"),
        (drop("close"), "self.close(a, key=1)", "pass"),
        (drop("found"), "    found = max(a, b)\n", ""),
    ],
    ids=lambda case: case.what if isinstance(case, Edit) else "",
)
def test_an_edit_changes_one_spot(edit: Edit, old: str, new: str) -> None:
    tree = ast.parse(SOURCE).body[0]
    edit.apply(tree)
    assert ast.unparse(tree) == ast.unparse(ast.parse(SOURCE.replace(old, new)).body[0])


@pytest.mark.parametrize(
    "edit", [swap(">", "<"), value("a", "b"), value("a", "b", at=3), drop("open")], ids=lambda e: e.what
)
def test_an_edit_that_fits_nowhere_or_twice_is_an_error(edit: Edit) -> None:
    with pytest.raises(UnfitError):
        edit.apply(ast.parse(SOURCE).body[0])


def _noticed(mutants: Sequence[Mutant], tests: Mapping[str, tuple[str, ...]], seeds: int) -> dict[str, str]:
    return {verdict.mutant: verdict.by for verdict in verdicts(mutants, tests, seeds, 2)}


@pytest.mark.parametrize(
    ("run", "by"),
    [
        (lambda: _noticed([named(name) for name in BY_UNIT_TESTS], BY_UNIT_TESTS, 0), "unit"),
        (lambda: _noticed([named(name) for name in BY_SEEDS], {}, 3), "sim"),
        (lambda: _noticed([NO_BUG], {NO_BUG.name: ("tests/unit/node/core/queries/test_sink.py",)}, 3), ""),
    ],
    ids=["by unit tests", "by the simulator", "without a bug by none"],
)
def test_planted_bugs_are_noticed(run: Callable[[], dict[str, str]], by: str) -> None:
    assert set(run().values()) == {by}
