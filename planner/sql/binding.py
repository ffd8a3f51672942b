"""From expressions as written to expressions with types, over columns of the query's streams."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pyarrow as pa

from planner.model.errors import QueryError
from planner.model.functions import AGGREGATES, CAST, FUNCTIONS, LISTED, SYNONYMS, castable
from planner.model.query import Call, ColumnRef, Expr, Literal
from planner.model.type_rules import Argument, TypeMismatchError
from planner.model.types import value_type
from planner.sql.literals import constant, converted
from planner.sql.names import Scope
from planner.sql.text import quote
from planner.sql.tree import ApplyNode, CastNode, ColumnNode, ConstantNode, Node

#: CASE x WHEN names x once for each WHEN, so nesting it multiplies: this bounds it.
EXPRESSIONS_MAX = 10_000
_SIGMA, _FINAL_SIGMA = "σ", "ς"


class Binder:
    """Binds the expressions of one query."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._source = scope.source
        self._columns: dict[tuple[str | None, str], ColumnRef] = {}
        self._count = 0

    def bind(self, node: Node) -> Expr:
        """The expression with its types; every error points at the part that is wrong."""
        self._count += 1
        if self._count > EXPRESSIONS_MAX:
            message = f"the query is too large: required at most {EXPRESSIONS_MAX} operations, got more"
            raise self._source.error(message, node.at)
        match node:
            case ColumnNode():
                return self._column(node)
            case ConstantNode():
                return constant(self._source, node)
            case CastNode():
                return self._cast(node)
            case ApplyNode():
                return self._apply(node)

    def condition(self, node: Node) -> Expr:
        """An expression that is true, false or null."""
        expr = self.bind(node)
        if self._argument(expr).type not in (pa.bool_(), pa.null()):
            message = f"required a condition such as a.key = b.key, got {self._argument(expr)}"
            raise self._source.error(message, node.at)
        return self._brought_to(expr, pa.bool_())

    def equality(self, at: int, left: ColumnRef, right: ColumnRef) -> Expr:
        """That two columns are equal."""
        return self._call(ApplyNode(at, "=", (), 1), "=", (left, right))

    def _column(self, node: ColumnNode) -> ColumnRef:
        spelling = (
            None if node.stream is None else self._source.text[node.stream.at : node.stream.end + 1],
            self._source.text[node.name.at : node.name.end + 1],
        )
        if spelling not in self._columns:
            self._columns[spelling] = self._scope.column(node)
        return self._columns[spelling]

    def _argument(self, expr: Expr) -> Argument:
        kind = self._scope.type_of(expr) if isinstance(expr, ColumnRef) else expr.type
        value = value_type(kind)
        return Argument(expr, kind if value is None else value, value is not None)

    def _cast(self, node: CastNode) -> Expr:
        expr = self.bind(node.arg)
        argument = self._argument(expr)
        if not argument.computable or not castable(argument.type, node.type):
            raise self._source.error(f"{argument} cannot be cast to {node.type}", node.at)
        if isinstance(expr, Literal) and expr.value is None:
            return Literal(None, node.type)
        return Call(CAST, (expr,), node.type)

    def _apply(self, node: ApplyNode) -> Expr:
        """Forms that are short for others become those; none may name an operand twice, or nesting would multiply."""
        match node.name, node.args:
            case "UNARY +", (operand,):
                return self._plus(node, operand)
            case "IS TRUE" | "IS FALSE", (operand,):
                expr = self._call(
                    node, "coalesce", (self.condition(operand), Literal(node.name == "IS FALSE", pa.bool_()))
                )
                return expr if node.name == "IS TRUE" else self._call(node, "not", (expr,))
            case "LIKE" | "ILIKE", (operand, pattern, *escape):
                return self._like(node, operand, pattern, escape)
            case "IF" | "IIF", (condition, chosen, other):
                return self._call(node, "case", tuple(map(self.bind, (condition, chosen, other))))
            case "IF" | "IIF", args:
                raise self._source.error(f"{node.name} requires 3 arguments, got {len(args)}", node.at)
        return self._call(node, node.name.lower(), tuple(self.bind(arg) for arg in node.args))

    def _plus(self, node: ApplyNode, operand: Node) -> Expr:
        expr = self.bind(operand)
        self._call(node, "unary -", (expr,))
        return expr

    def _like(self, node: ApplyNode, operand: Node, pattern: Node, escape: Sequence[Node]) -> Expr:
        """The pattern with a backslash as its escape, whichever it was written with."""
        subject, bound = self.bind(operand), self.bind(pattern)
        if escape and isinstance(bound, Literal) and isinstance(bound.value, str):
            bound = Literal(self._with_backslashes(bound.value, escape[0]), bound.type)
        if node.name == "ILIKE":
            subject, bound = self._lowered(node, subject, bound)
        return self._call(node, "like", (subject, bound))

    def _lowered(self, node: ApplyNode, subject: Expr, pattern: Expr) -> tuple[Expr, Expr]:
        """Both in lower case, by the same rule: ``str.lower`` is what the kernel of LOWER computes."""
        subject = self._call(node, "lower", (subject,))
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            return subject, pattern
        text = pattern.value.lower()
        if _SIGMA in text or _FINAL_SIGMA in text:
            # Whether a sigma ends a word is known of the subject, but not of a pattern in which anything may follow.
            sigmas = (Literal(_FINAL_SIGMA, pa.string()), Literal(_SIGMA, pa.string()))
            subject, text = self._call(node, "replace", (subject, *sigmas)), text.replace(_FINAL_SIGMA, _SIGMA)
        return subject, Literal(text, pattern.type)

    def _with_backslashes(self, pattern: str, node: Node) -> str:
        bound = self.bind(node)
        escape = bound.value if isinstance(bound, Literal) else None
        if not isinstance(escape, str) or len(escape) != 1:
            got = quote(escape) if isinstance(escape, str) else "something else"
            raise self._source.error(f"ESCAPE requires a string of one character, got {got}", node.at)
        out: list[str] = []
        characters = iter(pattern)
        for character in characters:
            if character == escape:
                out.append("\\" + next(characters, ""))
            else:
                out.append("\\\\" if character == "\\" else character)
        return "".join(out)

    def _call(self, node: ApplyNode, name: str, args: tuple[Expr, ...]) -> Expr:
        """A call of a function, its arguments brought to the types it takes."""
        function = FUNCTIONS.get(SYNONYMS.get(name, name))
        if function is None:
            raise self._unknown(node, name)
        if len(args) < function.least or (function.most is not None and len(args) > function.most):
            counts = str(function.least) if function.least == function.most else f"{function.least} or more"
            counts = f"{function.least} or {function.most}" if function.most == function.least + 1 else counts
            raise self._source.error(f"{node.name} requires {counts} arguments, got {len(args)}", node.at)
        arguments = [self._argument(arg) for arg in args]
        try:
            typing = function.rule(arguments)
        except TypeMismatchError as error:
            at = node.args[error.place].at if error.place < len(node.args) else node.at
            raise self._source.error(f"{node.name}: {error}", at) from None
        brought = tuple(
            arg if kind is None else self._brought_to(arg, kind) for arg, kind in zip(args, typing.args, strict=True)
        )
        return Call(SYNONYMS.get(name, name), brought, typing.result)

    def _brought_to(self, expr: Expr, kind: pa.DataType) -> Expr:
        if self._argument(expr).type == kind and not isinstance(expr, Literal):
            return expr
        constant_value = converted(expr, kind) if isinstance(expr, Literal) else None
        return Call(CAST, (expr,), kind) if constant_value is None else constant_value

    def _unknown(self, node: ApplyNode, name: str) -> QueryError:
        if name in AGGREGATES:
            message = f"aggregates such as {node.name} are not supported yet: required functions of one row: {LISTED}"
        else:
            near = difflib.get_close_matches(name[:100].upper(), LISTED.split(", "), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            message = f"unknown function {quote(node.name)}: required one of {LISTED}{hint}"
        return self._source.error(message, node.at)
