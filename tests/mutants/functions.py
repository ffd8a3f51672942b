"""Functions by their names, wherever they are: a bug stays where it belongs when its function moves.

A name is the end of a dotted path, as much of it as makes it the only one: ``RowTable.settle`` or, where there are
several classes of one name, ``sm_d1.Source.opened``. Constants of modules and classes have such names too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.mutants.errors import UnfitError

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("node", "planner")


def path_of(module: str) -> Path:
    """The file of a module."""
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def module_of(name: str) -> str:
    """The module in which the function, or the constant, of that name is; UnfitError unless there is exactly one."""
    return _place_of(name)[0]


def definition_of(name: str) -> ast.stmt:
    """The syntax of that function; whoever changes it copies it first."""
    return _place_of(name)[1]


def put(tree: ast.Module, module: str, name: str, changed: ast.stmt) -> None:
    """Put a changed function into the syntax of its module."""
    block, place = next((block, place) for path, block, place in _definitions(tree.body, module) if _is_end(path, name))
    block[place] = changed


@cache
def _place_of(name: str) -> tuple[str, ast.stmt]:
    found = [(path, module, node) for path, module, node in _places() if _is_end(path, name)]
    if len(found) != 1:
        raise UnfitError(f"{name} requires one function of that name; got {[path for path, _, _ in found]}")
    return found[0][1], found[0][2]


def _is_end(path: str, name: str) -> bool:
    return f".{path}".endswith(f".{name}")


@cache
def _places() -> tuple[tuple[str, str, ast.stmt], ...]:
    """The path of every function and constant, with its module and its syntax."""
    found: list[tuple[str, str, ast.stmt]] = []
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            body = ast.parse(file.read_text()).body
            found += [(path, module, block[place]) for path, block, place in _definitions(body, module)]
    return tuple(found)


def _definitions(block: list[ast.stmt], path: str) -> Iterator[tuple[str, list[ast.stmt], int]]:
    """The path of each function and constant of a block, and where in which block it is."""
    for place, node in enumerate(block):
        match node:
            case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                yield f"{path}.{name}", block, place
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield f"{path}.{name}", block, place
            case ast.ClassDef(name=name):
                yield from _definitions(node.body, f"{path}.{name}")
