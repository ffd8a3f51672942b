"""All mutants: plausible slips in the protocol, in the engine and in the storage, each with the tests to try first."""

from __future__ import annotations

from collections.abc import Mapping

from tests.mutants.bugs import (
    copies,
    engine,
    links,
    looking_back,
    planning,
    queries,
    recovery,
    results,
    retention,
    storage,
    streams,
    switching,
    tables,
    tree_switching,
    trees,
    walks,
)
from tests.mutants.errors import UnfitError
from tests.mutants.functions import ROOT
from tests.mutants.mutant import Mutant

#: By the name of the part: its bugs, and the files of unit tests by the first part of a function's name.
PARTS: Mapping[str, tuple[tuple[Mutant, ...], Mapping[str, str]]] = {
    part.__name__.rsplit(".", 1)[-1]: (part.MUTANTS, part.TESTS)
    for part in (
        tables,
        copies,
        queries,
        recovery,
        retention,
        switching,
        looking_back,
        trees,
        tree_switching,
        walks,
        streams,
        links,
        engine,
        storage,
        results,
        planning,
    )
}
MUTANTS: tuple[Mutant, ...] = tuple(mutant for mutants, _ in PARTS.values() for mutant in mutants)


def named(name: str) -> Mutant:
    """The mutant of that name."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def files_of(mutant: Mutant) -> tuple[str, ...]:
    """The files of unit tests in which one should notice it."""
    tests = next(tests for mutants, tests in PARTS.values() if mutant in mutants)
    stem = mutant.changes[0][0].split(".", 1)[0]
    return tuple(_file(name) for name in [*tests.get(stem, tests[""]).split(), "core/test_noticed"])


def _file(name: str) -> str:
    """The file of tests whose path ends so."""
    found = sorted((ROOT / "tests" / "unit").rglob(f"{name}.py"))
    if len(found) != 1:
        raise UnfitError(f"one file of unit tests is required that ends in {name}.py; got {len(found)}")
    return found[0].relative_to(ROOT).as_posix()
