"""A mutant: the system with one bug, which is put in place while its module is imported, in a process of its own.

This module imports nothing of the system, because it must come before it.
"""

from __future__ import annotations

import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import marshal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType

from tests.mutants.edits import Edit
from tests.mutants.errors import UnfitError
from tests.mutants.functions import definition_of, module_of, path_of, put


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


def edited(mutant: Mutant) -> dict[str, ast.stmt]:
    """By its name each function that the bug changes, changed; UnfitError if the bug does not fit."""
    found: dict[str, ast.stmt] = {}
    for function, edit in mutant.changes:
        old = found.get(function) or definition_of(function)
        new = copy.deepcopy(old)
        try:
            edit.apply(new)
        except UnfitError as error:
            raise UnfitError(f"{mutant.name}: in {function} {error}") from error
        if ast.dump(new) == ast.dump(old):
            raise UnfitError(f"{mutant.name}: {edit.what} requires a change of {function}; got the same")
        found[function] = ast.fix_missing_locations(new)
    return found


def compiled(mutant: Mutant) -> dict[str, bytes]:
    """The modules with the bug, by name, as marshalled code: for ``install`` in another process."""
    trees: dict[str, ast.Module] = {}
    for function, changed in edited(mutant).items():
        module = module_of(function)
        trees.setdefault(module, ast.parse(path_of(module).read_text()))
        put(trees[module], module, function, changed)
    return {module: marshal.dumps(compile(tree, str(path_of(module)), "exec")) for module, tree in trees.items()}


def install(modules: Mapping[str, bytes]) -> None:
    """From now on these modules are imported with their bug."""
    loaded = sorted(set(modules) & set(sys.modules))
    assert not loaded, f"a mutant requires modules that are not imported yet; got {loaded}"
    sys.meta_path.insert(0, _Finder({module: marshal.loads(code) for module, code in modules.items()}))


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
