"""A place in the tokens of a query, and what may be asked about what comes next."""

from __future__ import annotations

from planner.model.errors import QueryError
from planner.sql.text import QueryText, quote
from planner.sql.tokens import Token, TokenKind
from planner.sql.tree import Name

#: Words that end an expression or begin a clause; a column of such a name needs quotes or its stream's name.
RESERVED = (
    *("ALL", "AND", "ANTI", "ANY", "AS", "ASOF", "BETWEEN", "CASE", "CAST", "CROSS", "DISTINCT", "ELSE"),
    *("END", "EXCEPT", "EXISTS", "FALSE", "FETCH", "FROM", "FULL", "HAVING", "ILIKE", "IN", "INNER", "INTERSECT"),
    *("INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "NATURAL", "NOT", "NULL", "OFFSET", "ON"),
    *("OR", "OUTER", "OVER", "PIVOT", "QUALIFY", "RIGHT", "SELECT", "SEMI", "SOME", "STRAIGHT_JOIN", "TABLESAMPLE"),
    *("THEN", "TRUE", "UNION", "UNPIVOT", "USING", "WHEN", "WHERE", "WINDOW", "WITH"),
)
_NOT_WORDS = (TokenKind.STRING, TokenKind.NUMBER, TokenKind.NAME)

#: What somebody who wrote this probably meant.
_HINTS = {
    "==": "; equality is written with one =",
    "`": '; a name is quoted as in "name"',
    "\u201c": "; quotes are straight, not typographic",
    "\u2018": "; quotes are straight, not typographic",
}


class Cursor:
    """Reads tokens from left to right; it never goes back, so reading takes time in proportion to the text."""

    def __init__(self, source: QueryText) -> None:
        self.source = source
        self._tokens = source.tokens
        self._words = [self._word_of(token) for token in source.tokens]
        self._place = 0

    def peek(self, ahead: int = 0) -> Token | None:
        """The token that comes next, or one after it."""
        place = self._place + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def word(self, ahead: int = 0) -> str:
        """The next token as a keyword or a symbol, in upper case; empty for literals, quoted names and the end."""
        place = self._place + ahead
        return self._words[place] if place < len(self._words) else ""

    def _word_of(self, token: Token) -> str:
        if token.kind in _NOT_WORDS:
            return ""
        return token.text.upper()

    @property
    def at(self) -> int:
        """Offset of the next token, or of the last one's end."""
        token = self.peek()
        return int(self._tokens[-1].end) if token is None else int(token.start)

    def take(self) -> Token:
        """The next token, which there must be."""
        token = self._tokens[self._place]
        self._place += 1
        return token

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        for ahead, word in enumerate(words):
            if self.word(ahead) != word:
                return False
        self._place += len(words)
        return True

    def expect(self, word: str, what: str) -> None:
        """Take this word, which must come next."""
        if not self.accept(word):
            raise self.error(f"required {word} {what}")

    def is_kind(self, kind: TokenKind) -> bool:
        """Whether the next token is of this kind."""
        token = self.peek()
        return token is not None and token.kind is kind

    def is_name(self, ahead: int = 0) -> bool:
        """Whether the next token can be a name: quoted, or a word that is not reserved."""
        token = self.peek(ahead)
        if token is None:
            return False
        return token.kind is TokenKind.NAME or (self._wordlike(token) and self.word(ahead) not in RESERVED)

    def name(self, what: str, after_dot: bool = False) -> Name:
        """A name, which must come next; after a dot any word is one."""
        token = self.peek()
        if token is not None and (self.is_name() or (after_dot and self._wordlike(token))):
            self._place += 1
            return Name(token.start, token.end, token.text, token.kind is TokenKind.NAME)
        raise self.error(f"required {what}")

    def before(self, back: int = 1) -> Token:
        """A token that was taken already."""
        return self._tokens[self._place - back]

    def touches(self) -> bool:
        """Whether the next token follows the one before without a space."""
        token = self.peek()
        return token is not None and self._place > 0 and token.start == self._tokens[self._place - 1].end + 1

    def error(self, required: str) -> QueryError:
        """What comes next is not what is required."""
        token = self.peek()
        if token is None:
            return self.source.error(f"the query ends too early: {required}", self.at)
        written = self.source.written(token)
        hint = next((hint for start, hint in _HINTS.items() if written.startswith(start)), "")
        return self.source.error(f"cannot read the query near {quote(written)}: {required}{hint}", self.at)

    @staticmethod
    def _wordlike(token: Token) -> bool:
        return token.kind is TokenKind.WORD and token.text.isidentifier()
