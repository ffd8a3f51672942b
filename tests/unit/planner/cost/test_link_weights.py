"""What is to be small decides, and what breaks ties only breaks ties."""

from __future__ import annotations

import itertools

import pytest

from planner.cost.estimates import Objective
from planner.cost.link_weights import Links
from planner.estimate.statistics import LinkStats, Statistics


def links(objective: Objective, prices: dict[tuple[str, str], float | None]) -> Links:
    return Links(
        Statistics(500_000, {}, {way: LinkStats(50_000, 1e6, price) for way, price in prices.items()}), objective
    )


def test_without_prices_every_byte_counts_one() -> None:
    found = links(Objective.BYTES, {("a", "c"): None, ("b", "c"): None})
    assert found.even
    assert [found.weight(*way) for way in (("a", "c"), ("c", "b"), ("a", "b"), ("a", "a"))] == [1, 1, 1, 0]


def test_bytes_count_by_the_price_of_their_link() -> None:
    found = links(Objective.BYTES, {("a", "c"): 5.0, ("b", "c"): 10.0, ("a", "b"): 15.0, ("c", "d"): None})
    assert not found.even
    weights = [found.weight(*way) for way in (("a", "c"), ("b", "c"), ("a", "b"))]
    assert weights == pytest.approx([0.5, 1.0, 1.5], abs=1e-3)
    assert found.weight("c", "d") == 1, "a link without a price is as dear as the average"


def test_bytes_on_a_link_that_costs_nothing_count_a_little_and_more_than_delay() -> None:
    found = links(Objective.BYTES, {("a", "c"): 0.0, ("b", "c"): 10.0})
    free, paid = found.weight("a", "c"), found.weight("b", "c")
    assert 0 < free < paid / 1000
    # A second less of waiting, or of processor time, is not worth ten bytes a second.
    assert 10 * free > 1.0 * found.delay_weight
    assert 10 * free > 1.0 * found.cpu_weight


def test_where_all_links_cost_nothing_bytes_are_as_without_prices() -> None:
    found = links(Objective.BYTES, {("a", "c"): 0.0, ("b", "c"): 0.0})
    assert [found.weight("a", "c"), found.weight("b", "c")] == [1, 1]


def test_money_decides_before_bytes_and_bytes_before_delay() -> None:
    found = links(Objective.MONEY, {("a", "c"): 0.01, ("b", "c"): None})
    # A cheap gigabyte a month is a few hundred bytes a second: worth more than megabytes on a link without a price.
    assert 400 * found.weight("a", "c") > 1e6 * found.weight("b", "c")
    assert found.weight("b", "c") > 0
    # Where no money is at stake: a second of delay is not worth ten bytes a second.
    assert 10 * found.weight("b", "c") > 1.0 * found.delay_weight > 0
    assert 10 * found.weight("b", "c") > 1.0 * found.cpu_weight > 0


def test_delay_decides_before_bytes_where_time_is_to_be_small() -> None:
    found = links(Objective.TIME, {("a", "c"): 10.0})
    assert 0.001 * found.delay_weight > 100_000 * found.weight("a", "c") > 0


@pytest.mark.parametrize("objective", Objective)
def test_nothing_within_a_site_counts(objective: Objective) -> None:
    found = links(objective, {("a", "c"): 3.0})
    assert [found.weight(site, site) for site in "ac"] == [0, 0]
    assert [found.delay_s(*way) for way in itertools.product("ac", "ac")] == [0, 0.025, 0.025, 0]
