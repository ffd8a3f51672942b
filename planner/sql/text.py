"""The text of a query: its tokens, its windows in brackets, and errors that point into it.

SQL has no ``[RANGE ...]`` or ``[ROWS ...]`` after a table name, so the brackets are cut out of the
tokens before the grammar sees them. Tokens keep their offsets into the
user's text, so every later error can still point at what the user wrote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from planner.model.durations import DAYS_MAX, DURATION_US_MAX, NUMBER, NUMBER_CHARACTERS_MAX, UNIT_NAMES, UNITS_US
from planner.model.errors import QueryError
from planner.model.query import RangeWindow, RowsWindow, Window
from planner.sql.tokens import OpenTokenError, Token, is_sign, tokenize

# Far above any real query. Reading takes time in proportion to the text, so these bound that time too.
CHARACTERS_MAX = 65_536
TOKENS_MAX = 20_000

ROWS_MAX = 2**40
WINDOW_FORM = "[RANGE 10 SECONDS]"
WINDOW_FORMS = f"{WINDOW_FORM} or [ROWS 100]"

_DIGITS = re.compile("[0-9]+")
_EXCERPT = 100


def printable(text: str) -> str:
    """The text with one visible character per character: nothing a user types can steer a terminal."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


def shown(text: str) -> str:
    """A text as it appears in messages: printable, and cut if it is long."""
    visible = printable(text)
    return visible if len(visible) <= _EXCERPT else f"{visible[:_EXCERPT]}..."


def quote(name: str) -> str:
    """A name as it appears in messages."""
    return f'"{shown(name)}"'


@dataclass(frozen=True, slots=True)
class Bracket:
    """A ``[...]`` cut out of the query: what it follows, where it starts, what is inside."""

    after: int
    start: int
    body: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query cut into tokens, without its brackets."""

    text: str
    tokens: tuple[Token, ...]
    brackets: tuple[Bracket, ...]

    def error(self, message: str, at: int) -> QueryError:
        """An error that shows the line of offset ``at`` with a caret under it."""
        return error_at(self.text, message, at)

    def written(self, token: Token) -> str:
        """The token as the user wrote it, quotes included."""
        return self.text[token.start : token.end + 1]

    def bracket_after(self, end: int) -> Bracket | None:
        """The bracket that directly follows the token that ends at ``end``."""
        return next((bracket for bracket in self.brackets if bracket.after == end), None)


def error_at(text: str, message: str, at: int) -> QueryError:
    """A ``QueryError`` with the line of offset ``at`` and a caret; long lines are cut around the caret."""
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = printable(text[begin:] if end < 0 else text[begin:end]).rstrip()
    caret = at - begin
    if caret > _EXCERPT * 3 // 4:
        cut = caret - _EXCERPT // 2
        line, caret = "..." + line[cut:], caret - cut + len("...")
    if len(line) > _EXCERPT + len("..."):
        line = line[:_EXCERPT] + "..."
    return QueryError(f"{message}\n  {line}\n  {' ' * caret}^")


def lex(text: str) -> QueryText:
    """Cut a query into tokens and brackets; exactly one statement, the final semicolon is optional."""
    if len(text) > CHARACTERS_MAX:
        raise QueryError(f"the query is too long: required at most {CHARACTERS_MAX} characters, got {len(text)}")
    tokens = _one_statement(text, _tokenize(text))
    if len(tokens) > TOKENS_MAX:
        message = f"the query is too long: required at most {TOKENS_MAX} words and signs, got {len(tokens)}"
        raise error_at(text, message, tokens[TOKENS_MAX].start)
    return _cut_brackets(text, tokens)


def _tokenize(text: str) -> list[Token]:
    try:
        return tokenize(text)
    except OpenTokenError as error:
        raise error_at(text, str(error), error.start) from None


def _one_statement(text: str, tokens: list[Token]) -> list[Token]:
    end = len(tokens)
    while end and is_sign(tokens[end - 1], ";"):
        end -= 1
    tokens = tokens[:end]
    if not tokens:
        raise QueryError("the query is empty: required SELECT ... FROM ... JOIN ... ON ...")
    for token in tokens:
        if is_sign(token, ";"):
            raise error_at(text, "more than one statement: required one query at a time", token.start)
    return tokens


def _cut_brackets(text: str, tokens: list[Token]) -> QueryText:
    kept: list[Token] = []
    brackets: list[Bracket] = []
    opened: Token | None = None
    body: list[Token] = []
    end = -1
    after = -1
    for token in tokens:
        if opened is None and not is_sign(token, "["):
            kept.append(token)
        elif opened is None:
            opened, body, after = token, [], end
        elif is_sign(token, "]"):
            brackets.append(Bracket(after, opened.start, tuple(body)))
            opened = None
        elif is_sign(token, "["):
            break
        else:
            body.append(token)
        end = token.end
    if opened is not None:
        raise error_at(text, f"the bracket that opens here is not closed: required {WINDOW_FORMS}", opened.start)
    if not kept:
        raise error_at(
            text, "a window without a query: required SELECT ... FROM ... JOIN ... ON ...", brackets[0].start
        )
    return QueryText(text, tuple(kept), tuple(brackets))


def is_window(bracket: Bracket) -> bool:
    """Whether the bracket was meant as a window, wherever it stands."""
    return bool(bracket.body) and bracket.body[0].text.upper() in ("RANGE", "ROWS")


def window_of(source: QueryText, bracket: Bracket) -> Window:
    """The window that a bracket after a stream's name says."""
    words = [source.written(token).upper() for token in bracket.body]
    if len(words) >= 3 and words[0] == "RANGE":
        return _range_window(source, bracket)
    if len(words) >= 2 and words[0] == "ROWS":
        return _rows_window(source, bracket)
    message = f"cannot read this window: required [RANGE n unit] or [ROWS n], such as {WINDOW_FORMS}"
    raise source.error(message, bracket.start)


def _range_window(source: QueryText, bracket: Bracket) -> RangeWindow:
    first, last, unit = bracket.body[1], bracket.body[-2], bracket.body[-1]
    amount = _amount(source, source.text[first.start : last.end + 1], first.start)
    unit_us = UNITS_US.get(source.written(unit).upper())
    if unit_us is None:
        message = f"unknown unit of time {quote(source.written(unit))}: required {UNIT_NAMES}"
        raise source.error(message, unit.start)
    return RangeWindow(_whole_us(source, amount * unit_us, bracket))


def _amount(source: QueryText, number: str, at: int) -> Fraction:
    if number.startswith("-"):
        raise source.error(f"a window cannot be negative: required zero or more, got {quote(number)}", at)
    if len(number) > NUMBER_CHARACTERS_MAX or not NUMBER.fullmatch(number):
        raise source.error(
            f"cannot read the window's length: required a number such as 10 or 0.5, got {quote(number)}", at
        )
    return Fraction(number)


def _whole_us(source: QueryText, length: Fraction, bracket: Bracket) -> int:
    first, last = bracket.body[1], bracket.body[-1]
    got = quote(source.text[first.start : last.end + 1])
    if length > DURATION_US_MAX:
        raise source.error(f"the window is too long: required at most {DAYS_MAX} days, got {got}", first.start)
    if length.denominator != 1:
        message = f"the window is too fine: required a whole number of microseconds, got {got}"
        raise source.error(message, first.start)
    return length.numerator


def _rows_window(source: QueryText, bracket: Bracket) -> RowsWindow:
    first, last = bracket.body[1], bracket.body[-1]
    written = source.text[first.start : last.end + 1]
    # Leading zeros mean nothing, so they neither make a number too long nor a zero acceptable.
    digits = written.lstrip("0")
    if not _DIGITS.fullmatch(digits):
        message = f"a window holds a whole number of tuples: required 1 or more, got {quote(written)}"
        raise source.error(message, first.start)
    if len(digits) > NUMBER_CHARACTERS_MAX or int(digits) > ROWS_MAX:
        message = f"the window is too long: required at most {ROWS_MAX} tuples, got {quote(written)}"
        raise source.error(message, first.start)
    return RowsWindow(int(digits))
