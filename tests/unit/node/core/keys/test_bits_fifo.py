"""Bits and queues of numbers, against what Python's own lists say."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from node.core.keys.bits import Bits
from node.core.keys.fifo import Fifo
from tests.examples import examples

PLACES = st.lists(st.integers(0, 10**6), max_size=30)
BITS_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(0, 40)),
        st.tuples(st.just("drop"), st.integers(0, 40)),
        st.tuples(st.sampled_from(["set", "clear", "get"]), PLACES),
    ),
    max_size=40,
)


def places_in(places: list[int], size: int) -> list[int]:
    return [place % size for place in places] if size else []


def as_array(places: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(places, np.int64)


@given(BITS_STEPS)
@examples(400)
def test_bits_are_a_list_of_truth_values(steps: list[tuple[str, Any]]) -> None:
    bits, model = Bits(), list[bool]()
    for name, what in steps:
        if name == "grow":
            bits.grow(len(model) + what)
            model += [False] * what
        elif name == "drop":
            count = min(what, len(model))
            assert bits.drop_first(count) == sum(model[:count])
            del model[:count]
        else:
            places = places_in(what, len(model))  # in any order, and some of them twice
            if name == "get":
                assert bits.get(as_array(places)).tolist() == [model[place] for place in places]
            for place in places if name in ("set", "clear") else []:
                model[place] = name == "set"
            if name == "set":
                bits.set(as_array(places))
            elif name == "clear":
                bits.clear(as_array(places))
        assert (len(bits), bits.count) == (len(model), sum(model))
        assert bits.get(np.arange(len(model))).tolist() == model
    assert bits.nbytes >= len(model) // 8


def test_bits_never_shrink_by_growing() -> None:
    bits = Bits()
    bits.grow(9)
    bits.set(as_array([8]))
    bits.grow(3)
    assert (len(bits), bits.count) == (9, 1)


def test_new_bits_are_zero_even_where_others_were() -> None:
    bits = Bits()
    bits.grow(64)
    bits.set(np.arange(64))
    assert bits.drop_first(61) == 61
    bits.grow(64)
    assert bits.get(np.arange(64)).tolist() == [True] * 3 + [False] * 61


FIFO_STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "pop"]), st.one_of(st.integers(0, 20), st.integers(0, 300))), max_size=40
)


@given(FIFO_STEPS, st.sampled_from([np.int32, np.int64]))
@examples(300)
def test_a_fifo_is_a_list_that_grows_at_one_end_and_shrinks_at_the_other(
    steps: list[tuple[str, int]], dtype: type[np.signedinteger[Any]]
) -> None:
    fifo, model, next_value = Fifo(dtype), list[int](), 0
    popped: list[tuple[np.ndarray[Any, Any], list[int]]] = []
    for name, count in steps:
        if name == "append":
            values = list(range(next_value, next_value + count))
            next_value += count
            fifo.append(np.array(values, dtype))
            model += values
        else:
            gone, model = model[:count], model[count:]
            popped.append((fifo.pop(count), gone))
        assert fifo.values.tolist() == model
        assert fifo.values.dtype == dtype
        assert len(fifo) == len(model)
    for got, gone in popped:
        assert got.tolist() == gone, "what was popped must not change when the room is used again"


def test_a_fifo_that_is_short_stays_small_however_much_went_through() -> None:
    fifo = Fifo(np.int64)
    for _ in range(2_000):
        fifo.append(np.arange(50))
        fifo.pop(50)
    assert fifo.nbytes < 8 * 1_000
    fifo.append(np.arange(100_000))
    fifo.pop(100_000)
    for _ in range(5_000):
        fifo.append(np.arange(50))
        fifo.pop(50)
    assert fifo.nbytes < 8 * 1_000, "room that one burst needed is given back"
