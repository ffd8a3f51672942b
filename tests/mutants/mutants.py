"""All mutants: plausible slips in the protocol, in the engine and in the storage, each with the tests to try first."""

from __future__ import annotations

from tests.mutants.bugs import copies, engine, links, planning, queries, storage, streams, tables, walks
from tests.mutants.mutant import Mutant

_PARTS = (tables, copies, queries, walks, streams, links, engine, storage, planning)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for part in _PARTS for mutant in part.MUTANTS)
TESTS: dict[str, tuple[str, ...]] = {mutant.name: part.TESTS for part in _PARTS for mutant in part.MUTANTS}


def named(name: str) -> Mutant:
    """The mutant of that name."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)
