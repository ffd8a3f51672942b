"""From the text of a query to a bound ``JoinQuery``.

Four stages, each of which can grow on its own: cut the text into tokens and
windows (``planner.sql_text``), parse it as SQL, refuse what cannot be run yet,
and bind every name to a stream or a column. Refusing works by listing what is
allowed: whatever a new version of the SQL parser learns to read is refused, not
silently ignored. Each error says what was found, what is required, and where.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from planner import keys
from planner.errors import QueryError
from planner.graph import closure
from planner.model import ColumnRef, Edge, JoinQuery, OutputColumn, StreamInfo, StreamRef, Window
from planner.sql_text import WINDOW_FORM, QueryText, is_window, lex, quote, window_of

_FORM = "SELECT columns FROM stream [RANGE 10 SECONDS] AS a JOIN stream [RANGE 10 SECONDS] AS b ON a.key = b.key"
_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
_LISTED = 20

# Clauses with a name of their own in messages, and the keyword to point at. Others are refused just the same.
_CLAUSES: dict[str, tuple[str, tuple[TokenType, ...]]] = {
    "with_": ("WITH", (TokenType.WITH,)),
    "distinct": ("DISTINCT", (TokenType.DISTINCT,)),
    "into": ("INTO", (TokenType.INTO,)),
    "where": ("WHERE", (TokenType.WHERE,)),
    "group": ("GROUP BY", (TokenType.GROUP_BY,)),
    "having": ("HAVING", (TokenType.HAVING,)),
    "qualify": ("QUALIFY", (TokenType.QUALIFY,)),
    "windows": ("WINDOW", (TokenType.WINDOW,)),
    "order": ("ORDER BY", (TokenType.ORDER_BY,)),
    "limit": ("LIMIT", (TokenType.LIMIT, TokenType.FETCH)),
    "offset": ("OFFSET", (TokenType.OFFSET,)),
    "sample": ("TABLESAMPLE", (TokenType.TABLE_SAMPLE,)),
    "pivots": ("PIVOT", (TokenType.PIVOT, TokenType.UNPIVOT)),
    "laterals": ("LATERAL", (TokenType.LATERAL,)),
}
_SET_OPERATIONS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_JOIN_KEYWORDS = frozenset({TokenType.JOIN, *Parser.JOIN_METHODS, *Parser.JOIN_SIDES, *Parser.JOIN_KINDS})
_NO_NAME = (TokenType.SELECT, TokenType.FROM, TokenType.JOIN, TokenType.ON, TokenType.WHERE, TokenType.COMMA)
_NEED_RIGHT = (TokenType.SELECT, TokenType.COMMA, TokenType.DOT, TokenType.ALIAS)
_NEED_LEFT = (TokenType.COMMA, TokenType.DOT, TokenType.ALIAS)
_BEFORE_STAR = (TokenType.SELECT, TokenType.ALL, TokenType.COMMA, TokenType.DOT)
_CONDITIONS: dict[type[exp.Expr], str] = {
    exp.Or: "OR",
    exp.Not: "NOT",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.Between: "BETWEEN",
    exp.In: "IN",
    exp.Like: "LIKE",
    exp.EQ: "an equality that is not between two columns",
}


def parse_query(text: str, catalogue: Mapping[str, StreamInfo]) -> JoinQuery:
    """Read a query over the streams of ``catalogue``; the only exception raised is ``QueryError``."""
    source = lex(text)
    select = _parse(source)
    _refuse_clauses(source, select)
    tables, conditions = _join_parts(source, select)
    scope = Scope(source, _bind_streams(source, tables, catalogue))
    edges = _bind_edges(scope, conditions)
    aliases = [ref.alias for ref in scope.streams]
    return JoinQuery(text, scope.streams, closure(edges, aliases), _bind_outputs(scope, select))


# Parse.


def _parse(source: QueryText) -> exp.Select:
    """The syntax tree, always of a single SELECT."""
    _check_before_parsing(source)
    parser = Parser(error_level=ErrorLevel.IMMEDIATE, error_message_context=len(source.text))
    try:
        trees = parser.parse(list(source.tokens), source.text)
    except ParseError as error:
        raise _syntax_error(source, error) from None
    except RecursionError:
        raise source.error("the query is nested too deeply", source.tokens[0].start) from None
    except Exception as error:
        # The parser is someone else's and the text is anyone's: whatever it trips over is a query we cannot read.
        message = f"cannot read the query ({type(error).__name__}): required {_FORM}"
        raise source.error(message, source.tokens[0].start) from error
    tree = trees[0] if len(trees) == 1 else None
    if isinstance(tree, exp.Select):
        return tree
    raise source.error(f"cannot read the query: required {_FORM}", source.tokens[0].start)


def _syntax_error(source: QueryText, error: ParseError) -> QueryError:
    """The parser's own words are about its classes, so only its position is used."""
    found = error.errors[0] if error.errors else {}
    at = len(found.get("start_context") or "")
    word = found.get("highlight") or ""
    near = f" near {quote(word)}" if word else ""
    return source.error(f"cannot read the query{near}: required {_FORM}", at)


def _check_before_parsing(source: QueryText) -> None:
    """What must be refused before the parser runs.

    It reads ``a,,b`` as ``a, b``, answers other statements with a line in the log, and
    takes exponential time on a chain of joins without ON.
    """
    first = source.tokens[0]
    if first.token_type is TokenType.WITH:
        raise source.error("WITH is not supported yet: required a query that starts with SELECT", first.start)
    if first.token_type is not TokenType.SELECT:
        raise source.error(f"required a query that starts with SELECT, got {quote(source.written(first))}", first.start)
    for token in source.keywords(TokenType.SELECT)[1:]:
        union = source.find(*_SET_OPERATIONS)
        if union is not None and union < token.start:
            raise source.error("UNION, EXCEPT and INTERSECT are not supported yet: required one SELECT", union)
        raise source.error("subqueries are not supported yet: required one SELECT", token.start)
    for token in source.keywords(TokenType.JOIN)[len(source.keywords(TokenType.ON)) :]:
        raise source.error("JOIN without a condition: required ON a.key = b.key", token.start)
    for token in source.keywords(TokenType.PIPE_GT):
        raise source.error("|> is not supported yet", token.start)
    _check_commas(source)
    _check_gaps(source)


def _check_commas(source: QueryText) -> None:
    """Streams are joined by JOIN; a comma in FROM would be a join without a condition."""
    start = source.find(TokenType.FROM)
    end = source.find(TokenType.JOIN, TokenType.ON, TokenType.WHERE, TokenType.GROUP_BY, TokenType.ORDER_BY)
    for token in source.keywords(TokenType.COMMA):
        if start is not None and start < token.start and (end is None or token.start < end):
            raise source.error("a comma between streams is not supported yet: required JOIN ... ON ...", token.start)


def _check_gaps(source: QueryText) -> None:
    """Each comma, dot, star, plus and AS stands where it means something; the parser skips some that do not."""
    neighbours = (None, *source.tokens, None)
    for before, token, after in zip(neighbours, source.tokens, neighbours[2:], strict=False):
        kind = token.token_type
        if kind in _NEED_RIGHT and (after is None or after.token_type in _NO_NAME):
            raise source.error(f"a name is missing after {quote(source.written(token))}", token.start)
        if kind in _NEED_LEFT and (before is None or before.token_type in _NO_NAME):
            raise source.error(f"a name is missing before {quote(source.written(token))}", token.start)
        if kind is TokenType.STAR and (before is None or before.token_type not in _BEFORE_STAR):
            raise source.error("* is not supported yet here: required SELECT * or SELECT alias.*", token.start)
        if kind is TokenType.PLUS:
            raise source.error("+ is not supported yet", token.start)


# Refuse what is not supported yet.


def _refuse_clauses(source: QueryText, select: exp.Select) -> None:
    """Only a select list, FROM and JOIN are supported; the leftmost other clause is reported."""
    refused: list[tuple[int, str]] = []
    for name, value in _extras(select, ("expressions", "from_", "joins")):
        label, kinds = _CLAUSES.get(name, (name.strip("_").replace("_", " ").upper(), ()))
        at = source.find(*kinds)
        refused.append((_start(value) if at is None else at, label))
    if refused:
        at, label = min(refused)
        raise source.error(f"{label} is not supported yet: required {_FORM}", at)


def _extras(node: exp.Expr, allowed: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """The parts of a syntax node that are present and not in ``allowed``."""
    for name, value in node.args.items():
        if name not in allowed and value is not None and value is not False and value != []:
            yield name, value


def _start(value: object) -> int:
    """Offset of the leftmost name in a part of the syntax tree, 0 if there is none."""
    parts: Iterable[object] = value if isinstance(value, list) else (value,)
    starts = [
        int(node.meta["start"])
        for part in parts
        if isinstance(part, exp.Expr)
        for node in part.walk()
        if "start" in node.meta
    ]
    return min(starts, default=0)


def _join_parts(source: QueryText, select: exp.Select) -> tuple[tuple[exp.Table, ...], tuple[exp.Expr, ...]]:
    """The tables of the query, in order, and the ON conditions."""
    origin = select.args.get("from_")
    if not isinstance(origin, exp.From):
        raise source.error(f"the query has no FROM: required {_FORM}", source.tokens[0].start)
    first = _table(source, origin.this)
    joins = select.args.get("joins") or []
    if not joins:
        raise source.error(f"a query over one stream is not supported yet: required {_FORM}", _start(first))
    tables = [first]
    for join in joins:
        tables.append(_table(source, join.this))
        _refuse_join(source, join, _start(tables[-1].this))
    return tuple(tables), tuple(join.args["on"] for join in joins)


def _table(source: QueryText, node: object) -> exp.Table:
    """The node, if it is a plain stream name with an optional alias."""
    keyword = source.find(TokenType.FROM) or 0
    at = _start(node) or keyword
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise source.error("only stream names are supported yet in FROM and JOIN: required a stream's name", at)
    for name, value in _extras(node, ("this", "alias")):
        if name in ("db", "catalog"):
            raise source.error("a stream's name has no dots: required its plain name", at)
        if name == "joins":
            raise source.error("three or more streams are not supported yet: required two", _start(value))
        label, _ = _CLAUSES.get(name, ("this after a stream's name", ()))
        raise source.error(f"{label} is not supported yet: required stream {WINDOW_FORM} AS alias", at)
    alias = node.args.get("alias")
    if alias is not None and (not isinstance(alias.this, exp.Identifier) or any(_extras(alias, ("this",)))):
        raise source.error("a list of columns after an alias is not supported yet", _start(alias))
    return node


def _refuse_join(source: QueryText, join: exp.Join, table_at: int) -> None:
    """Only ``[INNER] JOIN ... ON``."""
    at, words = _join_words(source, table_at)
    if words not in ("JOIN", "INNER JOIN"):
        raise source.error(f"{words or 'this join'} is not supported yet: required JOIN ... ON ...", at)
    if join.args.get("using"):
        at = source.find(TokenType.USING) or at
        raise source.error("USING is not supported yet: required ON a.key = b.key", at)
    if any(_extras(join, ("this", "on", "kind"))):
        raise source.error("this kind of join is not supported yet: required JOIN ... ON ...", at)
    if join.args.get("on") is None:
        raise source.error("JOIN without a condition: required ON a.key = b.key", at)


def _join_words(source: QueryText, table_at: int) -> tuple[int, str]:
    """The keywords that introduce a joined table, as written, and where they start."""
    words: list[Token] = []
    for token in source.before(table_at):
        if token.token_type not in _JOIN_KEYWORDS:
            break
        words.insert(0, token)
    return (words[0].start if words else table_at), " ".join(token.text.upper() for token in words)


# Bind streams.


def _bind_streams(
    source: QueryText, tables: tuple[exp.Table, ...], catalogue: Mapping[str, StreamInfo]
) -> tuple[StreamRef, ...]:
    """The streams in FROM order, each with its own alias and window."""
    refs: list[StreamRef] = []
    windows: list[int] = []
    for table in tables:
        name = _resolve(source, "stream", table.this, sorted(catalogue))
        alias = _alias(source, table, name)
        _check_alias_is_new(source, table, alias, refs)
        window, at = _window(source, table, name, alias)
        windows.append(at)
        refs.append(StreamRef(alias, catalogue[name], window))
    for bracket in source.brackets:
        if bracket.start not in windows:
            what = "a window" if is_window(bracket) else "a bracket"
            raise source.error(f"{what} is only supported once, directly after a stream's name", bracket.start)
    return tuple(refs)


def _alias(source: QueryText, table: exp.Table, name: str) -> str:
    given = table.args.get("alias")
    if given is not None:
        return _checked_name(source, "alias", given.this.name, _start(given.this))
    if not _NAME.fullmatch(name):
        raise source.error(f"stream {quote(name)} needs an alias made of letters, digits and _", _start(table.this))
    return name


def _checked_name(source: QueryText, what: str, name: str, at: int) -> str:
    if not _NAME.fullmatch(name):
        raise source.error(
            f"{what} {quote(name)} cannot be used: required letters, digits and _, "
            "starting with a letter or a single _",
            at,
        )
    return name


def _check_alias_is_new(source: QueryText, table: exp.Table, alias: str, refs: list[StreamRef]) -> None:
    """Aliases that differ only in case are one name too many for a case-insensitive language."""
    if any(ref.alias.casefold() == alias.casefold() for ref in refs):
        given = table.args.get("alias")
        at = _start(table.this if given is None else given.this)
        raise source.error(f"two streams are named {quote(alias)}: required a different alias for each, with AS", at)


def _window(source: QueryText, table: exp.Table, name: str, alias: str) -> tuple[Window, int]:
    """The window of a stream and the offset of its bracket."""
    bracket = source.bracket_after(int(table.this.meta["end"]))
    if bracket is not None:
        return window_of(source, bracket), bracket.start
    example = f"{name} {WINDOW_FORM} AS {alias}"
    given = table.args.get("alias")
    misplaced = None if given is None else source.bracket_after(int(given.this.meta["end"]))
    if misplaced is not None:
        raise source.error(f"a window goes before the alias: required {example}", misplaced.start)
    raise source.error(f"stream {quote(name)} has no window: required {example}", _start(table.this))


def _resolve(source: QueryText, what: str, name: exp.Identifier, known: list[str], owner: str = "") -> str:
    """The one of ``known`` that a name in the query means, or an error that lists them."""
    matches = _matches(name, known)
    if len(matches) == 1:
        return matches[0]
    if matches:
        message = f"{what} {quote(name.name)}{owner} is ambiguous: it can be {_listing(matches)}"
        raise source.error(message, _start(name))
    raise _unknown(source, what, name, known, owner)


def _unknown(source: QueryText, what: str, name: exp.Identifier, known: list[str], owner: str = "") -> QueryError:
    close = difflib.get_close_matches(name.name[:100].casefold(), [item.casefold() for item in known], n=1)
    guess = next((item for item in known if [item.casefold()] == close), None)
    hint = "" if guess is None else f"; did you mean {quote(guess)}?"
    message = f"unknown {what} {quote(name.name)}{owner}: required one of {_listing(known)}{hint}"
    return source.error(message, _start(name))


def _matches(name: exp.Identifier, known: Iterable[str]) -> list[str]:
    """An exact match wins; without one, an unquoted name may differ in case."""
    candidates = list(known)
    exact = [item for item in candidates if item == name.name]
    if exact or name.args.get("quoted"):
        return exact
    return [item for item in candidates if item.casefold() == name.name.casefold()]


def _listing(names: list[str]) -> str:
    if not names:
        return "(none are known)"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(quote(name)[1:-1] for name in names[:_LISTED]) + more


# Bind columns.


@dataclass(frozen=True, slots=True)
class Scope:
    """The streams whose columns an expression may use."""

    source: QueryText
    streams: tuple[StreamRef, ...]

    def stream(self, name: exp.Identifier) -> StreamRef:
        """The stream that a qualifier names."""
        alias = _resolve(self.source, "alias", name, [ref.alias for ref in self.streams])
        return next(ref for ref in self.streams if ref.alias == alias)

    def column(self, node: exp.Column) -> ColumnRef:
        """The column that a name, with or without its stream, means."""
        if not isinstance(node.this, exp.Identifier) or any(_extras(node, ("this", "table"))):
            raise self.source.error("this is not supported yet: required stream.column", _start(node))
        if node.args.get("table") is None:
            return self._unqualified(node.this)
        ref = self.stream(node.args["table"])
        owner = f" of {ref.alias}" if ref.alias == ref.stream.name else f" of {ref.alias} (stream {ref.stream.name})"
        return ColumnRef(ref.alias, _resolve(self.source, "column", node.this, list(ref.stream.schema.names), owner))

    def _unqualified(self, name: exp.Identifier) -> ColumnRef:
        """The columns of all streams compete, so an exact match in one stream beats another's case."""
        every = [ColumnRef(ref.alias, column) for ref in self.streams for column in ref.stream.schema.names]
        names = _matches(name, [column.column for column in every])
        owners = [column for column in every if column.column in names]
        if len(owners) == 1:
            return owners[0]
        if owners:
            found = " or ".join(str(column) for column in owners)
            raise self.source.error(f"column {quote(name.name)} is ambiguous: required {found}", _start(name))
        raise _unknown(self.source, "column", name, [str(column) for column in every])

    def position(self, column: ColumnRef) -> int:
        """Place of the column's stream in FROM."""
        return [ref.alias for ref in self.streams].index(column.alias)

    def kind(self, column: ColumnRef) -> str:
        """The column with its type, for messages."""
        return f"{column} ({self._type(column)})"

    def key_family(self, column: ColumnRef) -> str | None:
        """The family of values the column can be equal to."""
        return keys.key_family(self._type(column))

    def _type(self, column: ColumnRef) -> object:
        return self.streams[self.position(column)].stream.schema.field(column.column).type


def _bind_edges(scope: Scope, conditions: tuple[exp.Expr, ...]) -> tuple[Edge, ...]:
    """One edge per equality, in the order written, each once."""
    edges: list[Edge] = []
    for conjunct in (term for condition in conditions for term in _conjuncts(condition)):
        edge = _edge(scope, conjunct)
        if edge not in edges:
            edges.append(edge)
    return tuple(edges)


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The terms of an AND, left to right, without recursion: the tree is as deep as the list is long."""
    pending = [condition]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.And):
            pending += [node.expression, node.this]
        elif isinstance(node, exp.Paren):
            pending.append(node.this)
        else:
            yield node


def _edge(scope: Scope, term: exp.Expr) -> Edge:
    """An equality between columns of two streams; the stream earlier in FROM is its left side."""
    left_node, right_node = term.args.get("this"), term.args.get("expression")
    if type(term) is not exp.EQ or not isinstance(left_node, exp.Column) or not isinstance(right_node, exp.Column):
        found = _CONDITIONS.get(type(term), "this condition")
        at = _start(term) or scope.source.find(TokenType.ON) or 0
        message = f"{found} is not supported yet in ON: required equalities such as a.key = b.key, joined by AND"
        raise scope.source.error(message, at)
    left, right = scope.column(left_node), scope.column(right_node)
    if left.alias == right.alias:
        message = f"{left} = {right} compares {left.alias} with itself: required columns of two different streams"
        raise scope.source.error(message, _start(term))
    _check_key_types(scope, left, right, _start(term))
    return Edge(left, right) if scope.position(left) < scope.position(right) else Edge(right, left)


def _check_key_types(scope: Scope, left: ColumnRef, right: ColumnRef, at: int) -> None:
    for column in (left, right):
        if scope.key_family(column) is None:
            raise scope.source.error(f"{scope.kind(column)} cannot be a join key: required {keys.SUPPORTED}", at)
    if scope.key_family(left) != scope.key_family(right):
        message = f"{scope.kind(left)} and {scope.kind(right)} cannot be equal: required keys of one type"
        raise scope.source.error(message, at)


# Bind the select list.


def _bind_outputs(scope: Scope, select: exp.Select) -> tuple[OutputColumn, ...]:
    outputs: dict[str, OutputColumn] = {}
    starts = _item_starts(scope.source)
    for index, item in enumerate(select.expressions):
        at = starts[index] if index < len(starts) else _start(item)
        for output in _item_outputs(scope, item, at):
            _check_output(scope, outputs, output, at)
            outputs[output.name] = output
    if not outputs:
        raise scope.source.error(f"nothing is selected: required {_FORM}", scope.source.tokens[0].start)
    return tuple(outputs.values())


def _item_starts(source: QueryText) -> list[int]:
    """Offsets of the items of the select list: functions have no position of their own in the syntax tree."""
    starts: list[int] = []
    depth, fresh = 0, True
    for token in source.tokens[1:]:
        if fresh:
            starts.append(token.start)
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        fresh = token.token_type is TokenType.COMMA and depth == 0
        if token.token_type is TokenType.FROM:
            break
    return starts


def _item_outputs(scope: Scope, item: exp.Expr, at: int) -> Iterator[OutputColumn]:
    """The columns one item of the select list stands for."""
    if isinstance(item, exp.Star) and not any(_extras(item, ())):
        for ref in scope.streams:
            yield from _every_column(ref)
    elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        if any(_extras(item.this, ())) or any(_extras(item, ("this", "table"))):
            raise scope.source.error("only a plain * is supported yet", at)
        yield from _every_column(scope.stream(item.args["table"]))
    elif isinstance(item, exp.Column):
        column = scope.column(item)
        yield OutputColumn(column.column, column)
    elif isinstance(item, exp.Alias) and isinstance(item.this, exp.Column):
        name = item.args.get("alias")
        if not isinstance(name, exp.Identifier):
            raise scope.source.error("this is not supported yet: required column AS name", at)
        yield OutputColumn(_checked_name(scope.source, "name", name.name, _start(name)), scope.column(item.this))
    else:
        raise scope.source.error("expressions are not supported yet in SELECT: required columns or *", at)


def _every_column(ref: StreamRef) -> Iterator[OutputColumn]:
    """A star's columns carry their alias, so that the same column of two streams stays two."""
    for column in ref.stream.schema.names:
        yield OutputColumn(f"{ref.alias}_{column}", ColumnRef(ref.alias, column))


def _check_output(scope: Scope, outputs: Mapping[str, OutputColumn], output: OutputColumn, at: int) -> None:
    name, column = output.name, output.source
    assert isinstance(column, ColumnRef)
    if name.startswith("__") or not name:
        message = f"output column {quote(name)} has a reserved name: required a name without leading __, with AS"
        raise scope.source.error(message, at)
    if name in outputs:
        message = (
            f"two output columns are named {quote(name)}, {outputs[name].source} and {column}: "
            f"required different names, for example {column} AS {column.alias}_{column.column}"
        )
        raise scope.source.error(message, at)
