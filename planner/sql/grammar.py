"""Reads a whole query: the select list, FROM with its joins, WHERE; whatever else SQL knows is refused by name."""

from __future__ import annotations

from planner.sql.cursor import Cursor
from planner.sql.expressions import ExpressionParser
from planner.sql.text import WINDOW_FORM, QueryText, quote
from planner.sql.tree import ApplyNode, ItemNode, Name, Node, SelectNode, StarNode, TableNode

FORM = "SELECT columns FROM stream [RANGE 10 SECONDS] AS a JOIN stream [RANGE 10 SECONDS] AS b ON a.key = b.key"
#: Planning looks at sets of streams, so that more are not practical.
STREAMS_MAX = 16

_SET_OPERATIONS = ("UNION", "EXCEPT", "INTERSECT")
_CLAUSES = (
    *("GROUP BY", "HAVING", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "LIMIT", "OFFSET", "FETCH"),
    *("QUALIFY", "WINDOW", "TABLESAMPLE", "PIVOT", "UNPIVOT", "INTO", "LATERAL", "CONNECT BY", "FOR"),
)
_JOIN_WORDS = (
    *("LEFT", "RIGHT", "FULL", "OUTER", "INNER", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF", "STRAIGHT_JOIN", "JOIN"),
)


def parse(source: QueryText) -> SelectNode:
    """The query as it is written."""
    return _QueryParser(Cursor(source)).query()


class _QueryParser:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._source = cursor.source
        self._expressions = ExpressionParser(cursor)

    def query(self) -> SelectNode:
        cursor = self._cursor
        start, word = cursor.at, cursor.word()
        if word == "WITH":
            raise self._source.error("WITH is not supported yet: required a query that starts with SELECT", start)
        if not cursor.accept("SELECT"):
            written = quote(self._source.written(self._source.tokens[0]))
            raise self._source.error(f"required a query that starts with SELECT, got {written}", start)
        items = self._items()
        if cursor.peek() is None:
            raise self._source.error(f"the query has no FROM: required {FORM}", start)
        if not cursor.accept("FROM"):
            raise self._rest()
        tables, terms = self._tables()
        if cursor.accept("WHERE"):
            terms += self._condition("WHERE")
        if cursor.peek() is not None:
            raise self._rest()
        return SelectNode(items, tuple(tables), tuple(terms))

    def _rest(self) -> Exception:
        """Why what comes next cannot stand here."""
        word = self._cursor.word()
        if word in _SET_OPERATIONS:
            message = "UNION, EXCEPT and INTERSECT are not supported yet: required one SELECT"
            return self._source.error(message, self._cursor.at)
        if word in _CLAUSES:
            return self._source.error(f"{word} is not supported yet: required {FORM}", self._cursor.at)
        return self._cursor.error(f"required {FORM}")

    # The select list.

    def _items(self) -> tuple[ItemNode, ...]:
        if self._cursor.word() in ("DISTINCT", "ALL"):
            raise self._source.error(f"{self._cursor.word()} is not supported yet: required {FORM}", self._cursor.at)
        items = [self._item()]
        while self._cursor.accept(","):
            items.append(self._item())
        return tuple(items)

    def _item(self) -> ItemNode:
        cursor = self._cursor
        at = cursor.at
        if cursor.accept("*"):
            return ItemNode(at, StarNode(at, None), None)
        if cursor.is_name() and cursor.word(1) == "." and cursor.word(2) == "*":
            stream = cursor.name("a stream")
            cursor.take()
            cursor.take()
            return ItemNode(at, StarNode(at, stream), None)
        if cursor.word() in ("FROM", "WHERE", "JOIN", ",", ""):
            self._missing_item()
        value = self._expressions.expression()
        return ItemNode(at, value, self._alias("a name after AS"))

    def _missing_item(self) -> None:
        """Nothing where something must be selected: the word before is what to point at."""
        token = self._cursor.peek()
        if token is None or self._cursor.word():
            before = self._cursor.before()
            what = quote(self._source.written(before))
            message = f"a column or an expression is missing after {what}: required one"
            raise self._source.error(message, before.start)

    def _alias(self, what: str) -> Name | None:
        cursor = self._cursor
        if cursor.accept("AS"):
            return cursor.name(what)
        return cursor.name(what) if cursor.is_name() else None

    # FROM.

    def _tables(self) -> tuple[list[TableNode], list[Node]]:
        tables = [self._table()]
        terms: list[Node] = []
        while True:
            cursor = self._cursor
            at, word = cursor.at, cursor.word()
            if cursor.accept(","):
                tables.append(self._table())
            elif cursor.accept("CROSS", "JOIN"):
                tables.append(self._table(crossed=True))
            elif cursor.accept("JOIN") or cursor.accept("INNER", "JOIN"):
                table = self._table()
                using, terms_here = self._join_condition(at)
                tables.append(TableNode(table.name, table.alias, False, using))
                terms += terms_here
            elif word in _JOIN_WORDS:
                raise self._unknown_join()
            else:
                return tables, terms
            if len(tables) > STREAMS_MAX:
                message = f"too many streams: required at most {STREAMS_MAX} in one query, got more"
                raise self._source.error(message, tables[-1].name.at)

    def _unknown_join(self) -> Exception:
        at, words = self._cursor.at, []
        while self._cursor.word() in _JOIN_WORDS:
            words.append(self._cursor.word())
            self._cursor.take()
        return self._source.error(f"{' '.join(words)} is not supported yet: required JOIN ... ON ...", at)

    def _table(self, crossed: bool = False) -> TableNode:
        cursor = self._cursor
        at, word = cursor.at, cursor.word()
        if word == "(" and cursor.word(1) in ("SELECT", "WITH"):
            message = "subqueries are not supported yet: required one SELECT"
            following = cursor.peek(1)
            raise self._source.error(message, at if following is None else following.start)
        # A stream may be called "left": what stands before AS cannot be a clause.
        name = cursor.name("a stream's name", after_dot=cursor.word(1) == "AS")
        if cursor.word() == ".":
            raise self._source.error("a stream's name has no dots: required its plain name", at)
        if cursor.word() == "(":
            message = "only stream names are supported yet in FROM and JOIN: required a stream's name"
            raise self._source.error(message, at)
        alias = self._alias("an alias after AS")
        if alias is not None and cursor.word() == "(":
            message = f"a list of columns after an alias is not supported yet: required stream {WINDOW_FORM} AS alias"
            raise self._source.error(message, cursor.at)
        return TableNode(name, alias, crossed)

    def _join_condition(self, join_at: int) -> tuple[tuple[Name, ...], list[Node]]:
        cursor = self._cursor
        if cursor.accept("ON"):
            return (), self._condition("ON")
        if not cursor.accept("USING"):
            raise self._source.error("JOIN without a condition: required ON a.key = b.key", join_at)
        cursor.expect("(", "and columns after USING")
        names: dict[str, Name] = {}
        while not names or cursor.accept(","):
            name = cursor.name("a column's name in USING")
            if name.text.casefold() in names:
                raise self._source.error(f"column {quote(name.text)} is in USING twice: required once", name.at)
            names[name.text.casefold()] = name
        cursor.expect(")", "to close USING")
        return tuple(names.values()), []

    def _condition(self, word: str) -> list[Node]:
        """The terms of a condition, all of which must hold."""
        if self._cursor.peek() is None:
            message = f"a condition is missing after {word}: required one such as a.key = b.key"
            raise self._source.error(message, self._cursor.before().start)
        condition = self._expressions.expression()
        # Chains and parentheses of AND are one list already.
        if isinstance(condition, ApplyNode) and condition.name == "AND":
            return list(condition.args)
        return [condition]
