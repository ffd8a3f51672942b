"""Tokens: nothing of a text is lost, quotes and comments end where they should, and what is open is pointed at."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.sql.tokens import OpenTokenError, TokenKind, tokenize
from tests.examples import new_examples

PIECES = [
    "a",
    "É",
    "नमस्ते",
    "_x9",
    "12",
    "1.5e3",
    ".",
    "..",
    "'it''s'",
    '"a ""b"""',
    "<=",
    "<>",
    "||",
    "::",
    "[",
    "`",
    "“",
    "€",
]
GAPS = [" ", "\n", "\t", "/* x /* y */ 'z */", "-- 'open\n", " \r\n "]


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(GAPS)), max_size=20))
@new_examples()
def test_tokens_and_what_is_between_them_are_the_text(pairs: list[tuple[str, str]]) -> None:
    text = "".join(piece + gap for piece, gap in pairs)
    tokens = tokenize(text)
    written = [text[token.start : token.end + 1] for token in tokens]
    assert "".join(written) == "".join(piece for piece, _ in pairs)
    assert all(one.end < other.start for one, other in pairwise(tokens))


@given(st.text(max_size=50))
@new_examples()
def test_any_text_is_cut_or_something_in_it_is_open(text: str) -> None:
    opened, tokens = "'", []
    try:
        tokens = tokenize(text)
    except OpenTokenError as error:
        opened = text[error.start]
    assert opened in "'\"/"
    assert all(text[token.start : token.end + 1].strip() for token in tokens)


@pytest.mark.parametrize(
    ("text", "kinds", "texts"),
    [
        ("SELECT a.b", [TokenKind.WORD, TokenKind.WORD, TokenKind.SIGN, TokenKind.WORD], ["SELECT", "a", ".", "b"]),
        ("'it''s' \"a\"\"b\"", [TokenKind.STRING, TokenKind.NAME], ["it's", 'a"b']),
        ("1.5e-3x", [TokenKind.NUMBER, TokenKind.WORD], ["1.5e-3", "x"]),
        (
            "a<=>b!=c",
            [TokenKind.WORD, TokenKind.SIGN, TokenKind.WORD, TokenKind.SIGN, TokenKind.WORD],
            ["a", "<=>", "b", "!=", "c"],
        ),
        ("group /* by */ By x", [TokenKind.WORD, TokenKind.WORD], ["group By", "x"]),
        ("by group", [TokenKind.WORD, TokenKind.WORD], ["by", "group"]),
        ("-- all of it", [], []),
    ],
)
def test_a_text_is_cut(text: str, kinds: list[TokenKind], texts: list[str]) -> None:
    tokens = tokenize(text)
    assert [token.kind for token in tokens] == kinds
    assert [token.text for token in tokens] == texts


@pytest.mark.parametrize(("text", "closing", "start"), [("a 'b", "'", 2), ('"b""', '"', 0), ("x /* /* */", "*/", 2)])
def test_what_is_open_is_pointed_at(text: str, closing: str, start: int) -> None:
    with pytest.raises(OpenTokenError) as caught:
        tokenize(text)
    assert str(caught.value).endswith(f"a closing {closing}")
    assert caught.value.start == start
