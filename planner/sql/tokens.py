"""Cuts a text into tokens, in time proportional to its length.

White space and comments (``-- to the end of the line``, ``/* nested */``) separate tokens. Strings are in single
quotes and names may be in double ones; a doubled quote inside stands for one. Whatever is none of these is a sign:
what it means, if anything, is the parser's matter, so that its errors can say what was expected there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto


class TokenKind(Enum):
    """What a token is."""

    WORD = auto()
    #: In double quotes.
    NAME = auto()
    STRING = auto()
    NUMBER = auto()
    SIGN = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """``text`` is without quotes; ``start`` and ``end`` are the offsets of its first and its last character."""

    kind: TokenKind
    text: str
    start: int
    end: int


def is_sign(token: Token, sign: str) -> bool:
    """Whether the token is that sign, and not a name or a string that reads like it."""
    return token.kind is TokenKind.SIGN and token.text == sign


class OpenTokenError(ValueError):
    """Something is opened and never closed."""

    def __init__(self, what: str, closing: str, start: int) -> None:
        super().__init__(f"the {what} that opens here is not closed: required a closing {closing}")
        self.start = start


#: Pairs of words that mean something only together, so that neither is taken for a name.
_PAIRS = {
    **dict.fromkeys(("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "CONNECT"), "BY"),
    "DOUBLE": "PRECISION",
}
_SPACE = re.compile(r"(?:\s|--[^\n]*)+")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_SIGN = re.compile(r"<=>|<>|!=|<=|>=|==|\|\||::|:=|->|=>|.", re.DOTALL)
_COMMENT_ENDS = re.compile(r"/\*|\*/")


def tokenize(text: str) -> list[Token]:
    """The tokens of a text. Raises OpenTokenError for a quote or a comment that is not closed."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if space := _SPACE.match(text, at):
            at = space.end()
        elif text.startswith("/*", at):
            at = _comment_end(text, at)
        else:
            token = _token(text, at)
            at = token.end + 1
            if tokens and _is_pair(tokens[-1], token):
                first = tokens.pop()
                token = Token(TokenKind.WORD, f"{first.text} {token.text}", first.start, token.end)
            tokens.append(token)
    return tokens


def _comment_end(text: str, start: int) -> int:
    """Where a comment ends; there may be comments in it."""
    depth, at = 1, start + 2
    while depth:
        found = _COMMENT_ENDS.search(text, at)
        if found is None:
            raise OpenTokenError("comment", "*/", start)
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return at


def _token(text: str, at: int) -> Token:
    char = text[at]
    if char in "'\"":
        return _quoted(text, at, TokenKind.STRING if char == "'" else TokenKind.NAME)
    if number := _NUMBER.match(text, at):
        return Token(TokenKind.NUMBER, number[0], at, number.end() - 1)
    if char.isidentifier():
        end = at + 1
        while end < len(text) and _continues(text[end]):
            end += 1
        return Token(TokenKind.WORD, text[at:end], at, end - 1)
    sign = _SIGN.match(text, at)
    assert sign is not None
    return Token(TokenKind.SIGN, sign[0], at, sign.end() - 1)


def _continues(char: str) -> bool:
    """Whether a word may go on with this."""
    return f"_{char}".isidentifier()


def _quoted(text: str, start: int, kind: TokenKind) -> Token:
    quote = text[start]
    at = start + 1
    parts: list[str] = []
    while True:
        end = text.find(quote, at)
        if end < 0:
            raise OpenTokenError("quote", quote, start)
        parts.append(text[at:end])
        if not text.startswith(quote, end + 1):
            return Token(kind, quote.join(parts), start, end)
        at = end + 2


def _is_pair(first: Token, second: Token) -> bool:
    if first.kind is not TokenKind.WORD or second.kind is not TokenKind.WORD:
        return False
    return _PAIRS.get(first.text.upper()) == second.text.upper()
