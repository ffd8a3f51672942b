"""Functions by their names, wherever they are: a bug stays where it belongs when its function moves.

A name is the end of a dotted path, as much of it as makes it the only one: ``RowTable.settle`` or, where there are
several classes of one name, ``sm_d1.Source.opened``. Constants of modules and classes have such names too.
"""

from __future__ import annotations

import ast
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
    found = [(path, module) for path, module in _places() if f".{path}".endswith(f".{name}")]
    if len(found) != 1:
        raise UnfitError(f"{name} requires one function of that name; got {[path for path, _ in found]}")
    return found[0][1]


@cache
def _places() -> tuple[tuple[str, str], ...]:
    """The path of every function and constant, with its module."""
    found: list[tuple[str, str]] = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found += [(name, module) for name, _ in _definitions(ast.parse(path.read_text()), module)]
    return tuple(found)


def definition_in(tree: ast.Module, module: str, name: str) -> ast.stmt:
    """The function or constant of that name in its module."""
    return next(node for path, node in _definitions(tree, module) if f".{path}".endswith(f".{name}"))


def _definitions(tree: ast.Module | ast.ClassDef, path: str) -> list[tuple[str, ast.stmt]]:
    found: list[tuple[str, ast.stmt]] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found.append((f"{path}.{node.name}", node))
        elif isinstance(node, ast.ClassDef):
            found += _definitions(node, f"{path}.{node.name}")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                found.append((f"{path}.{target.id}", node))
    return found
