"""Finds what imports cannot show: wall clocks, ``hash()``, iteration over sets, in code that must be pure."""

from __future__ import annotations

import ast

#: Functions whose answer differs from run to run.
_BANNED_CALLS = ("hash", "id", "input", "open", "print")
_BANNED_ATTRIBUTES = ("now", "utcnow", "today", "time", "monotonic", "perf_counter", "urandom", "getenv")


def problems_in(source: str) -> list[str]:
    """One line per problem, with its line number."""
    finder = _Finder()
    finder.visit(ast.parse(source))
    return finder.problems


class _Finder(ast.NodeVisitor):
    def __init__(self) -> None:
        self.problems: list[str] = []

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            if node.func.id in _BANNED_CALLS:
                self._note(node, f"{node.func.id}() is not deterministic or is IO")
            if node.func.id in ("list", "tuple", "iter", "enumerate", "next") and node.args and _is_set(node.args[0]):
                self._note(node, "the order of a set is not deterministic")
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in _BANNED_ATTRIBUTES:
                self._note(node, f".{node.func.attr}() reads a clock or the environment")
            if node.func.attr == "join" and node.args and _is_set(node.args[0]):
                self._note(node, "the order of a set is not deterministic")
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._check_iterated(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._check_iterated(node.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._check_iterated(node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # A set kept in a variable could be iterated anywhere; a dict with None values keeps its order.
        if ast.unparse(node.annotation).split("[")[0] in ("set", "Set", "MutableSet"):
            self._note(node, "a set as state: use dict.fromkeys, whose order is that of insertion")
        self.generic_visit(node)

    def _check_iterated(self, node: ast.expr) -> None:
        if _is_set(node):
            self._note(node, "the order of a set is not deterministic")

    def _note(self, node: ast.AST, text: str) -> None:
        self.problems.append(f"{getattr(node, 'lineno', '?')}: {text}")


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp):
        return _is_set(node.left) or _is_set(node.right)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id in ("set", "frozenset")
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in ("union", "intersection", "difference", "symmetric_difference")
    return False
