"""Both ends of a step note the same questions and have the same book; what a peer asks about is checked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.errors import PeerProtocolError
from node.core.keys.keybook import KeyBook
from node.core.limits import Limits
from tests.examples import examples

SCHEMA = pa.schema([("k", pa.int64())])


def batch(*keys: int | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(keys, pa.int64())], schema=SCHEMA)


def ask(book: KeyBook, keys: list[int]) -> tuple[list[int], list[int]]:
    """What a source would send about distinct keys: numbers of those in the book, and the others."""
    numbers = book.numbers_of(batch(*keys))
    known = sorted(int(number) for number in numbers if number >= 0)
    new = [key for key, number in zip(keys, numbers, strict=True) if number < 0]
    book.note(np.array(known, np.int64), batch(*new))
    return known, new


def read(book: KeyBook, known: list[int], new: list[int | None]) -> list[int]:
    return book.read(np.array(known, np.int64), batch(*new)).column(0).to_pylist()  # type: ignore[no-any-return]


@examples(300)
@given(st.lists(st.sets(st.integers(0, 12), min_size=1, max_size=6), max_size=25), st.integers(1, 4), st.integers(0, 8))
def test_a_question_is_read_as_it_was_asked(questions: list[set[int]], kept: int, keys_max: int) -> None:
    limits = Limits(book_questions_max=kept, book_keys_max=keys_max)
    source, destination = KeyBook(SCHEMA, limits), KeyBook(SCHEMA, limits)
    before: list[set[int]] = []
    for keys in questions:
        known, new = ask(source, sorted(keys))
        assert sorted(read(destination, known, list(new))) == sorted(keys)
        lately = set().union(*before[-kept:]) if before else set()
        # Never known if it was not asked about lately; always, if there was room for all.
        assert keys - set(new) <= lately
        if len(lately) <= keys_max:
            assert keys - set(new) == keys & lately
        before.append(keys)
        assert len(source) == len(destination) <= max(keys_max, 0)


def test_a_key_asked_about_again_costs_a_number() -> None:
    book = KeyBook(SCHEMA, Limits())
    assert ask(book, [5, 7]) == ([], [5, 7])
    assert ask(book, [5, 6, 7]) == ([0, 1], [6])


@pytest.mark.parametrize(
    ("known", "new"),
    [([2], []), ([-1], []), ([1, 0], []), ([0, 0], []), ([], [5]), ([], [8, 8]), ([], [None]), ([0], [8, 9, 8])],
    ids=str,
)
def test_a_wrong_question_is_refused_and_not_noted(known: list[int], new: list[int | None]) -> None:
    book = KeyBook(SCHEMA, Limits())
    ask(book, [5, 7])
    with pytest.raises(PeerProtocolError):
        read(book, known, new)
    assert read(book, [0, 1], [6]) == [5, 7, 6]


def test_a_book_does_not_grow_without_end() -> None:
    book = KeyBook(SCHEMA, Limits(book_questions_max=10))
    sizes = []
    for question in range(2_000):
        ask(book, list(range(30 * question, 30 * question + 30)))
        sizes.append(book.nbytes)
    assert len(book) == 300
    assert sizes[-1] <= 2 * sizes[100]
