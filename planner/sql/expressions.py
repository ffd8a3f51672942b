"""Reads expressions: operators by how tightly they bind, and the few functions with a grammar of their own.

    OR < AND < NOT < comparisons, IS, BETWEEN, IN, LIKE < + - || < * / % < unary - + < ::

Each token is looked at once, so time is in proportion to the text, and every node knows where it stands.
"""

from __future__ import annotations

from planner.model.types import TIME_FIELDS
from planner.sql.cursor import Cursor
from planner.sql.text import quote
from planner.sql.tokens import TokenKind
from planner.sql.tree import ApplyNode, CastNode, ColumnNode, ConstantNode, Node
from planner.sql.type_names import type_name

#: How deep parentheses and the like may be, and how deep the tree, which grows with each operator of a long sum.
NESTING_MAX = 64
DEPTH_MAX = 100

_OR, _AND, _NOT, _PREDICATE, _SUM, _PRODUCT, _SIGN = range(1, 8)
_BINARY = {
    **dict.fromkeys(("=", "<>", "!=", "<", "<=", ">", ">="), _PREDICATE),
    **dict.fromkeys(("+", "-", "||"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_LISTS = {"OR": _OR, "AND": _AND}
_TYPED = ("DATE", "TIMESTAMP")
_FIELDS = tuple(name.upper() for name in TIME_FIELDS)


class ExpressionParser:
    """Reads one expression after another from a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._nesting = 0

    def expression(self, level: int = _OR) -> Node:
        """The expression that comes next, of operators that bind at least as tightly as ``level``."""
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise self._cursor.source.error(
                f"nested too deeply: required at most {NESTING_MAX} levels, got more", self._cursor.at
            )
        node = self._prefix()
        while True:
            word = self._cursor.word()
            if word in _LISTS and _LISTS[word] >= level:
                node = self._list(word, node)
            elif word in _BINARY and _BINARY[word] >= level:
                self._cursor.take()
                right = self.expression(_BINARY[word] + 1)
                node = self._apply(node.at, "<>" if word == "!=" else word, node, right)
            elif level <= _PREDICATE and word in ("IS", "NOT", "BETWEEN", "IN", "LIKE", "ILIKE"):
                node = self._predicate(node)
            elif word == "::":
                self._cursor.take()
                node = self._cast(node.at, node)
            else:
                break
        self._nesting -= 1
        return node

    def _apply(self, at: int, name: str, *args: Node) -> ApplyNode:
        """A node, unless the tree gets too deep for those who walk it."""
        return ApplyNode(at, name, args, self._depth(at, *args))

    def _cast(self, at: int, node: Node) -> CastNode:
        return CastNode(at, node, type_name(self._cursor), self._depth(at, node))

    def _depth(self, at: int, *args: Node) -> int:
        depth = 1 + max((arg.depth for arg in args), default=0)
        if depth > DEPTH_MAX:
            message = f"nested too deeply: required at most {DEPTH_MAX} operators upon one another, got {depth}"
            raise self._cursor.source.error(message, at)
        return depth

    def _list(self, word: str, first: Node) -> Node:
        """Terms between the same word are one list: a chain of any length is not deep."""
        terms: list[Node] = []
        node: Node | None = first
        while node is not None:
            inner = node.args if isinstance(node, ApplyNode) and node.name == word else (node,)
            terms += inner
            node = self.expression(_LISTS[word] + 1) if self._cursor.accept(word) else None
        return self._apply(first.at, word, *terms)

    def _prefix(self) -> Node:
        at = self._cursor.at
        if self._cursor.accept("NOT"):
            return self._apply(at, "NOT", self.expression(_PREDICATE))
        if self._cursor.accept("+"):
            return self._apply(at, "UNARY +", self.expression(_SIGN))
        if self._cursor.accept("-"):
            operand = self.expression(_SIGN)
            if isinstance(operand, ConstantNode) and operand.kind == "NUMBER" and not operand.text.startswith("-"):
                return ConstantNode(at, "NUMBER", f"-{operand.text}")
            return self._apply(at, "UNARY -", operand)
        return self._primary()

    def _predicate(self, left: Node) -> Node:
        """What follows the operand of IS, BETWEEN, IN or LIKE."""
        cursor = self._cursor
        if cursor.accept("IS"):
            negated = cursor.accept("NOT")
            node = self._is(left)
        else:
            negated = cursor.accept("NOT")
            if cursor.accept("BETWEEN"):
                low = self.expression(_SUM)
                cursor.expect("AND", "after BETWEEN and its lower bound")
                node = self._apply(left.at, "BETWEEN", left, low, self.expression(_SUM))
            elif cursor.accept("IN"):
                cursor.expect("(", "and a list of values after IN")
                node = self._apply(left.at, "IN", left, *self._arguments(")"))
            elif cursor.word() in ("LIKE", "ILIKE"):
                word = cursor.word()
                cursor.take()
                pattern = self.expression(_SUM)
                escape = (self.expression(_SUM),) if cursor.accept("ESCAPE") else ()
                node = self._apply(left.at, word, left, pattern, *escape)
            else:
                raise cursor.error("required BETWEEN, IN, LIKE or ILIKE after NOT")
        return self._apply(left.at, "NOT", node) if negated else node

    def _is(self, left: Node) -> Node:
        cursor = self._cursor
        for word in ("NULL", "TRUE", "FALSE"):
            if cursor.accept(word):
                return self._apply(left.at, f"IS {word}", left)
        if cursor.accept("DISTINCT", "FROM"):
            return self._apply(left.at, "IS DISTINCT", left, self.expression(_SUM))
        raise cursor.error("required NULL, TRUE, FALSE or DISTINCT FROM after IS")

    def _primary(self) -> Node:
        cursor = self._cursor
        at, word = cursor.at, cursor.word()
        if cursor.is_kind(TokenKind.NUMBER) or (word == "." and self._number_follows()):
            return self._number()
        if cursor.is_kind(TokenKind.STRING):
            return ConstantNode(at, "STRING", cursor.take().text)
        if word in ("TRUE", "FALSE", "NULL"):
            cursor.take()
            return ConstantNode(at, word, word)
        if word == "(":
            return self._parenthesis()
        if word == "CASE":
            return self._case()
        token = cursor.peek(1)
        if word == "INTERVAL" and token is not None and token.kind in (TokenKind.STRING, TokenKind.NUMBER):
            return self._interval()
        if word in _TYPED and token is not None and token.kind is TokenKind.STRING:
            cursor.take()
            return ConstantNode(at, word, cursor.take().text)
        if cursor.word(1) == "(" and (word == "CAST" or cursor.is_name()):
            return self._function()
        if word in ("SELECT", "WITH", "EXISTS"):
            raise cursor.source.error("subqueries are not supported yet: required one SELECT", at)
        return self._column()

    def _number_follows(self) -> bool:
        token, dot = self._cursor.peek(1), self._cursor.peek()
        return (
            token is not None
            and dot is not None
            and token.kind is TokenKind.NUMBER
            and token.start == dot.end + 1
            and token.text[:1].isdecimal()
        )

    def _number(self) -> ConstantNode:
        at = self._cursor.at
        lead = "0." if self._cursor.accept(".") else ""
        text = lead + self._cursor.take().text
        if self._cursor.touches() and (self._cursor.is_name() or self._cursor.word() == "."):
            got = quote(text + self._cursor.source.written(self._cursor.take()))
            message = f"cannot read this number: required digits such as 10, 0.5 or 1e3, and a space, got {got}"
            raise self._cursor.source.error(message, at)
        return ConstantNode(at, "NUMBER", text)

    def _parenthesis(self) -> Node:
        cursor = self._cursor
        cursor.take()
        if cursor.word() in ("SELECT", "WITH"):
            raise cursor.source.error("subqueries are not supported yet: required one SELECT", cursor.at)
        node = self.expression()
        cursor.expect(")", "to close the parenthesis")
        return node

    def _case(self) -> Node:
        """Both forms as conditions and values in turn, the value without a condition last."""
        cursor = self._cursor
        at = cursor.at
        cursor.take()
        subject = None if cursor.word() == "WHEN" else self.expression()
        args: list[Node] = []
        while cursor.accept("WHEN"):
            condition = self.expression()
            cursor.expect("THEN", "after the condition of WHEN")
            if subject is not None:
                condition = self._apply(condition.at, "=", subject, condition)
            args += [condition, self.expression()]
        if not args:
            raise cursor.error("required WHEN ... THEN ... after CASE")
        args.append(self.expression() if cursor.accept("ELSE") else ConstantNode(at, "NULL", "NULL"))
        cursor.expect("END", "to close CASE")
        return self._apply(at, "CASE", *args)

    def _interval(self) -> ConstantNode:
        """``INTERVAL '5 seconds'``, ``INTERVAL '5' SECOND`` or ``INTERVAL 5 SECONDS``."""
        cursor = self._cursor
        at = cursor.at
        cursor.take()
        text = cursor.take().text
        if text.replace(".", "").isdecimal():
            text += f" {cursor.name('a unit of time after the number').text}"
        return ConstantNode(at, "INTERVAL", text)

    def _function(self) -> Node:
        cursor = self._cursor
        at, token = cursor.at, cursor.peek()
        if token is not None and token.kind is TokenKind.NAME:
            raise cursor.source.error(f"{quote(token.text)} is not a function: a function's name has no quotes", at)
        word = cursor.word()
        cursor.take()
        cursor.take()
        if word in ("CAST", "TRY_CAST"):
            node = self.expression()
            cursor.expect("AS", f"and a type in {word}")
            cast = self._cast(at, node)
            cursor.expect(")", f"to close {word}")
            return cast
        if word == "EXTRACT":
            return self._extract(at)
        if word == "SUBSTRING":
            return self._substring(at)
        node = self._apply(at, word, *self._arguments(")"))
        if cursor.word() in ("OVER", "FILTER", "WITHIN"):
            raise cursor.source.error(f"{cursor.word()} is not supported yet: required functions of one row", cursor.at)
        return node

    def _extract(self, at: int) -> Node:
        cursor = self._cursor
        field = cursor.word()
        if field not in _FIELDS:
            raise cursor.error(f"required one of {', '.join(_FIELDS)} in EXTRACT")
        cursor.take()
        cursor.expect("FROM", f"after {field} in EXTRACT")
        node = self.expression()
        cursor.expect(")", "to close EXTRACT")
        return self._apply(at, field, node)

    def _substring(self, at: int) -> Node:
        """With commas, or with FROM and FOR."""
        cursor = self._cursor
        args = [self.expression()]
        if cursor.accept("FROM"):
            args.append(self.expression())
            if cursor.accept("FOR"):
                args.append(self.expression())
            cursor.expect(")", "to close SUBSTRING")
        elif cursor.accept(","):
            args += self._arguments(")")
        else:
            cursor.expect(")", "to close SUBSTRING")
        return self._apply(at, "SUBSTRING", *args)

    def _arguments(self, closing: str) -> list[Node]:
        cursor = self._cursor
        found: list[Node] = []
        if cursor.accept(closing):
            return found
        while True:
            if cursor.word() in ("*", "DISTINCT"):
                raise cursor.source.error(
                    f"{cursor.word()} is not supported yet here, nor are aggregates such as COUNT: required values",
                    cursor.at,
                )
            found.append(self.expression())
            if cursor.accept(closing):
                return found
            cursor.expect(",", f"or {closing} after a value")

    def _column(self) -> ColumnNode:
        cursor = self._cursor
        first = cursor.name("a column, a constant or an expression")
        if not cursor.accept("."):
            return ColumnNode(first.at, None, first)
        second = cursor.name("a column's name after the dot", after_dot=True)
        if cursor.word() == ".":
            raise cursor.source.error("this is not supported yet: required stream.column", first.at)
        return ColumnNode(first.at, first, second)
