"""What a bug changes in a function, as a small edit of its syntax tree.

An edit says which spots it fits and what stands there afterwards. It must fit exactly once, or say by ``at`` which of
the spots is meant, counted from 0 in the order of the source; else it fits no longer, and that is an error.

In the text that replaces an expression ``_`` is the expression itself, ``_0``, ``_1``, ... are the arguments of a call
or the parts of a comparison, and ``_o`` is what an attribute belongs to or a method is called on.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.mutants.errors import UnfitError

_OPERATORS: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
    "is": ast.Is,
    "is not": ast.IsNot,
    "in": ast.In,
    "not in": ast.NotIn,
}
_JUMPS: dict[str, type[ast.stmt]] = {
    "raise": ast.Raise,
    "return": ast.Return,
    "break": ast.Break,
    "continue": ast.Continue,
}


@dataclass(frozen=True)
class Spot:
    """A place in a function where an edit fits: where it is in the source, and how to change it there."""

    line: int
    column: int
    change: Callable[[], None]


@dataclass(frozen=True)
class Edit:
    """A change of one spot. ``what`` says it in words."""

    what: str
    spots: Callable[[ast.AST], list[Spot]]
    at: int | None = None

    def apply(self, tree: ast.AST) -> None:
        """Change the tree; UnfitError unless it is clear where."""
        found = sorted(self.spots(tree), key=lambda spot: (spot.line, spot.column))
        if self.at is None and len(found) != 1:
            raise UnfitError(f"{self.what} requires one spot where it fits; got {len(found)}")
        if self.at is not None and self.at >= len(found):
            raise UnfitError(f"{self.what} requires spot {self.at}; got {len(found)} spots")
        found[self.at or 0].change()


# -- comparisons and conditions ---------------------------------------------------------------


def swap(old: str, new: str, at: int | None = None) -> Edit:
    """One comparison by another: ``<`` by ``<=``."""

    def spots(tree: ast.AST) -> list[Spot]:
        return [
            Spot(node.lineno, node.col_offset + place, _setter(node.ops, place, _OPERATORS[new]()))
            for node in ast.walk(tree)
            if isinstance(node, ast.Compare)
            for place, operator in enumerate(node.ops)
            if type(operator) is _OPERATORS[old]
        ]

    return Edit(f"{old} by {new}", spots, at)


def condition(about: str, becomes: str, at: int | None = None) -> Edit:
    """The condition of an if, a while or a filter, which names something."""

    def spots(tree: ast.AST) -> list[Spot]:
        found = []
        for node in ast.walk(tree):
            if isinstance(node, ast.If | ast.While | ast.IfExp) and about in _names(node.test):
                found.append(_spot(node.test, _attribute_setter(node, "test", becomes, node.test)))
            elif isinstance(node, ast.comprehension):
                for place, one in enumerate(node.ifs):
                    if about in _names(one):
                        new = _filled(becomes, one)
                        found.append(_spot(one, _setter(node.ifs, place, new)))
        return found

    return Edit(f"the condition about {about} by {becomes}", spots, at)


def without(about: str, at: int | None = None) -> Edit:
    """An and, or an or, without the operand that names something."""

    def spots(tree: ast.AST) -> list[Spot]:
        return [
            _spot(value, _setter(node.values, place, ast.Constant(isinstance(node.op, ast.And))))
            for node in ast.walk(tree)
            if isinstance(node, ast.BoolOp)
            for place, value in enumerate(node.values)
            if about in _names(value)
        ]

    return Edit(f"no operand about {about}", spots, at)


# -- expressions ------------------------------------------------------------------------------


def value(about: str, becomes: str, at: int | None = None) -> Edit:
    """An expression by another: ``name`` (also an attribute), ``name()`` a call of it, ``name[]`` a part of it.

    ``+``, ``-``, ``//``, ``&``, ``|`` and ``~`` are operations, ``and``, ``or`` and ``not`` too, ``<`` a comparison.
    """

    def spots(tree: ast.AST) -> list[Spot]:
        return [
            Spot(node.lineno, node.col_offset, _place_setter(place, _filled(becomes, node)))
            for node, place in _expressions(tree)
            if _is(node, about)
        ]

    return Edit(f"{about} by {becomes}", spots, at)


def constant(old: int | str | bool | None, new: int | str | bool | None, at: int | None = None) -> Edit:
    """One constant by another."""

    def spots(tree: ast.AST) -> list[Spot]:
        return [
            _spot(node, _value_setter(node, new))
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and type(node.value) is type(old) and node.value == old
        ]

    return Edit(f"{old!r} by {new!r}", spots, at)


def argument(call: str, number: int | str, becomes: str, at: int | None = None) -> Edit:
    """An argument of a call, by its place or its keyword."""

    def spots(tree: ast.AST) -> list[Spot]:
        found = []
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or _last_name(node.func) != call:
                continue
            if isinstance(number, int) and number < len(node.args):
                found.append(_spot(node, _setter(node.args, number, _filled(becomes, node.args[number]))))
            for keyword in node.keywords:
                if keyword.arg == number:
                    found.append(_spot(node, _attribute_setter(keyword, "value", becomes, keyword.value)))
        return found

    return Edit(f"argument {number} of {call} by {becomes}", spots, at)


def assigned(target: str, becomes: str, at: int | None = None) -> Edit:
    """What is assigned to a name or an attribute."""

    def spots(tree: ast.AST) -> list[Spot]:
        return [
            _spot(node, _attribute_setter(node, "value", becomes, node.value))
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
            and node.value is not None
            and target in _targets(node)
        ]

    return Edit(f"what is assigned to {target} by {becomes}", spots, at)


def returned(becomes: str, at: int | None = None) -> Edit:
    """What is returned."""

    def spots(tree: ast.AST) -> list[Spot]:
        return [
            _spot(node, _attribute_setter(node, "value", becomes, node.value))
            for node in ast.walk(tree)
            if isinstance(node, ast.Return) and node.value is not None
        ]

    return Edit(f"what is returned by {becomes}", spots, at)


# -- statements -------------------------------------------------------------------------------


def drop(about: str, at: int | None = None) -> Edit:
    """No statement that calls, assigns or deletes something of that name; ``raise``, ``return`` and so on too."""
    return _at_statement(f"no {about}", about, at, lambda _: [])


def instead(about: str, text: str, at: int | None = None) -> Edit:
    """Another statement."""
    return _at_statement(f"{text} instead of {about}", about, at, lambda _: ast.parse(text).body)


def then(about: str, text: str, at: int | None = None) -> Edit:
    """One more statement after it."""
    return _at_statement(f"{text} after {about}", about, at, lambda old: [old, *ast.parse(text).body])


def last(about: str, at: int | None = None) -> Edit:
    """The statement at the end of its block instead of where it is."""

    def spots(tree: ast.AST) -> list[Spot]:
        def moved(block: list[ast.stmt], place: int) -> Callable[[], None]:
            return lambda: block.append(block.pop(place))

        return [
            _spot(block[place], moved(block, place))
            for block in _blocks(tree)
            for place in range(len(block) - 1)
            if _concerns(block[place], about)
        ]

    return Edit(f"{about} last", spots, at)


def begin(text: str) -> Edit:
    """A statement before all others: ``return`` early."""

    def spots(tree: ast.AST) -> list[Spot]:
        assert isinstance(tree, ast.FunctionDef)
        return [Spot(0, 0, lambda: tree.body.__setitem__(slice(0, 0), ast.parse(text).body))]

    return Edit(f"begin with {text}", spots)


def _at_statement(what: str, about: str, at: int | None, new: Callable[[ast.stmt], list[ast.stmt]]) -> Edit:
    def spots(tree: ast.AST) -> list[Spot]:
        def changed(block: list[ast.stmt], place: int) -> Callable[[], None]:
            def change() -> None:
                block[place : place + 1] = new(block[place])
                if not block:
                    block.append(ast.Pass())

            return change

        return [
            _spot(statement, changed(block, place))
            for block in _blocks(tree)
            for place, statement in enumerate(block)
            if _concerns(statement, about)
        ]

    return Edit(what, spots, at)


# -- looking into trees -----------------------------------------------------------------------


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def _concerns(statement: ast.stmt, about: str) -> bool:
    if about in _JUMPS:
        return isinstance(statement, _JUMPS[about])
    match statement:
        case ast.Expr(value=ast.Call(func=function)):
            return _last_name(function) == about
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            return about in _targets(statement)
        case ast.Delete():
            return any(_last_name(target) == about for target in statement.targets)
    return False


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    found: list[str] = []
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        found += [_last_name(part) for part in parts]
    return found


def _names(tree: ast.AST) -> set[str]:
    return {_last_name(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)}


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=inner):
            return _last_name(inner)
    return ""


_OPERATIONS: dict[str, type[ast.AST]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "//": ast.FloorDiv,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "~": ast.Invert,
    "not": ast.Not,
    "and": ast.And,
    "or": ast.Or,
}


def _is(node: ast.expr, about: str) -> bool:
    if about in _OPERATIONS:
        return isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp) and isinstance(node.op, _OPERATIONS[about])
    if about in _OPERATORS:
        return isinstance(node, ast.Compare) and isinstance(node.ops[0], _OPERATORS[about])
    if about.endswith("()"):
        return isinstance(node, ast.Call) and _last_name(node.func) == about[:-2]
    if about.endswith("[]"):
        return isinstance(node, ast.Subscript) and _last_name(node.value) == about[:-2]
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and _last_name(node) == about


_Place = tuple[ast.AST, str, int | None]


def _expressions(tree: ast.AST) -> Iterator[tuple[ast.expr, _Place]]:
    """Every expression with where it hangs; not the functions that are called, nor annotations."""
    for parent in ast.walk(tree):
        for name, child in ast.iter_fields(parent):
            if name in ("annotation", "returns", "decorator_list") or (
                name == "func" and isinstance(parent, ast.Call) and not isinstance(child, ast.Call)
            ):
                continue
            children = child if isinstance(child, list) else [child]
            for place, node in enumerate(children):
                if isinstance(node, ast.expr):
                    yield node, (parent, name, place if isinstance(child, list) else None)


def _filled(text: str, original: ast.AST) -> ast.expr:
    """The expression of the text, with what stands for parts of the original."""
    parts: dict[str, ast.AST] = {"_": original}
    match original:
        case ast.Call(func=function, args=arguments):
            parts |= {f"_{number}": argument for number, argument in enumerate(arguments)}
            if isinstance(function, ast.Attribute):
                parts["_o"] = function.value
        case ast.Attribute(value=owner) | ast.Subscript(value=owner):
            parts["_o"] = owner
        case ast.Compare(left=left, comparators=others):
            parts |= {f"_{number}": part for number, part in enumerate([left, *others])}
        case ast.BinOp(left=left, right=right):
            parts |= {"_0": left, "_1": right}
        case ast.UnaryOp(operand=operand):
            parts["_0"] = operand
        case ast.BoolOp(values=values):
            parts |= {f"_{number}": part for number, part in enumerate(values)}

    class Filler(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return copy.deepcopy(parts[node.id]) if node.id in parts else node

    filled = Filler().visit(ast.parse(text, mode="eval")).body
    assert isinstance(filled, ast.expr)
    return filled


def _spot(node: ast.expr | ast.stmt, change: Callable[[], None]) -> Spot:
    return Spot(node.lineno, node.col_offset, change)


def _setter(items: list[Any], place: int, new: ast.AST) -> Callable[[], None]:
    return lambda: items.__setitem__(place, new)


def _attribute_setter(node: ast.AST, name: str, becomes: str, old: ast.AST) -> Callable[[], None]:
    return lambda: setattr(node, name, _filled(becomes, old))


def _value_setter(node: ast.Constant, new: int | str | bool | None) -> Callable[[], None]:
    return lambda: setattr(node, "value", new)


def _place_setter(place: _Place, new: ast.expr) -> Callable[[], None]:
    parent, name, number = place
    if number is None:
        return lambda: setattr(parent, name, new)
    return lambda: getattr(parent, name).__setitem__(number, new)
