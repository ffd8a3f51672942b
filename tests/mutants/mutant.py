"""A mutant: the system with one bug, which is put in place while its module is imported, in a process of its own.

This module imports nothing of the system, because it must come before it.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType

from tests.mutants.edits import Edit
from tests.mutants.errors import UnfitError
from tests.mutants.functions import definition_in, module_of, path_of


@dataclass(frozen=True)
class Mutant:
    """A bug with a name: edits of functions.

    ``unnoticed`` says why no test can notice it, or why it need not, for those that none does.
    """

    name: str
    changes: tuple[tuple[str, Edit], ...]
    unnoticed: str = ""


def bug(name: str, function: str, edit: Edit, unnoticed: str = "") -> Mutant:
    """A mutant with one edit."""
    return Mutant(name, ((function, edit),), unnoticed)


def mutated(mutant: Mutant) -> dict[str, ast.Module]:
    """The syntax of the modules with the bug; UnfitError if it does not fit."""
    trees: dict[str, ast.Module] = {}
    for function, edit in mutant.changes:
        module = module_of(function)
        if module not in trees:
            trees[module] = ast.parse(path_of(module).read_text())
        definition = definition_in(trees[module], module, function)
        before = ast.dump(definition)
        try:
            edit.apply(definition)
        except UnfitError as error:
            raise UnfitError(f"{mutant.name}: in {function} {error}") from error
        if ast.dump(definition) == before:
            raise UnfitError(f"{mutant.name}: {edit.what} requires a change of {function}; got the same")
        ast.fix_missing_locations(trees[module])
    return trees


def code_of(module: str, tree: ast.Module) -> CodeType:
    """The module, compiled."""
    return compile(tree, str(path_of(module)), "exec")


def install(mutant: Mutant) -> None:
    """From now on the mutant's modules are imported with its bug."""
    trees = mutated(mutant)
    loaded = sorted(set(trees) & set(sys.modules))
    assert not loaded, f"a mutant requires modules that are not imported yet; got {loaded}"
    sys.meta_path.insert(0, _Finder({module: code_of(module, tree) for module, tree in trees.items()}))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, codes: dict[str, CodeType]) -> None:
        self._codes = codes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._codes:
            return None
        location = str(path_of(fullname))
        loader = _Loader(fullname, location, self._codes[fullname])
        return importlib.util.spec_from_file_location(fullname, location, loader=loader)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, location: str, code: CodeType) -> None:
        super().__init__(fullname, location)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code
