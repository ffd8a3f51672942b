"""Lives rise with every start, whatever the clock and the folder say; names of queries are made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.links.lives import next_life
from node.core.queries.query_id import home_of, new_query_id
from tests.examples import examples


@pytest.mark.parametrize(
    ("last", "clock_s", "life"),
    [
        (None, 1_763_441_234, 1_763_441_234),
        (1_763_441_234, 1_763_441_300, 1_763_441_300),
        # Started twice in a second, and with a clock that was set back.
        (1_763_441_234, 1_763_441_234, 1_763_441_235),
        (1_763_441_234, 5, 1_763_441_235),
        # A clock that was never set.
        (None, 0, 1),
        (None, -3, 1),
    ],
)
def test_a_life_is_later_than_the_last_one_and_than_the_clock(last: int | None, clock_s: int, life: int) -> None:
    assert next_life(last, clock_s) == life


def test_a_folder_that_was_emptied_begins_no_life_again() -> None:
    #  starts at seconds 100, 100, 101; the folder is lost; 103
    life = None
    lives = []
    for clock_s in (100, 100, 101):
        life = next_life(life, clock_s)
        lives.append(life)
    assert [*lives, next_life(None, 103)] == [100, 101, 102, 103]


def test_the_name_of_a_query_is_short_and_says_its_home() -> None:
    assert new_query_id("frankfurt", 1_763_441_234, 1) == "frankfurt-1mhqyjj-1"
    assert home_of("frankfurt-1mhqyjj-1") == "frankfurt"
    assert home_of(new_query_id("east-1", 7, 12)) == "east-1"
    assert [home_of(other) for other in ("", "frankfurt", "frankfurt-1")] == ["", "", ""]


@given(st.lists(st.tuples(st.sampled_from(["a", "a-1", "a-1-1"]), st.integers(1, 1 << 40), st.integers(1, 99))))
@examples()
def test_no_two_queries_have_one_name(made: list[tuple[str, int, int]]) -> None:
    assert len({new_query_id(*one) for one in made}) == len(set(made))
