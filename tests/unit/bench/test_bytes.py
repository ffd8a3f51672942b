"""The benchmark of bytes: its data is as it says, and its figures add up."""

from __future__ import annotations

import numpy as np
import pytest

from bench.bytes import Cell, Measured, measure
from bench.records import KeyPlan, Stream, matches_of, pair_of_streams, plain_width, record_batch
from planner.model.query import Algorithm

CELL = Cell(1250, KeyPlan(0.05, 10_000), per_tick=60, window_ms=3_000, ticks_warm=3, ticks_counted=4)
SEMIJOINS = (Algorithm.SM_S1, Algorithm.SM_S2, Algorithm.SM_D1, Algorithm.SM_D2)


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure(CELL)


def test_bytes_by_kind_and_direction_sum_to_the_total(measured: Measured) -> None:
    for algorithm in Algorithm:
        total = measured.total(algorithm)
        assert total > 0
        assert sum(measured.by_kind(algorithm).values()) == total
        ways = {way for (way, _), size in measured.bytes_by[algorithm].items() if size}
        assert ways == {"a-b", "b-a"}


def test_semijoins_send_far_less_than_everything_when_few_wide_tuples_match(measured: Measured) -> None:
    for algorithm in SEMIJOINS:
        assert measured.relative(algorithm) < 0.2
    assert measured.relative(Algorithm.SP_D) == 1


def test_nothing_of_the_results_crosses_the_link_between_the_streams(measured: Measured) -> None:
    assert all(measured.by_kind(algorithm)["results"] == 0 for algorithm in Algorithm)


def test_shipping_everything_costs_what_its_tuples_cost_and_little_more(measured: Measured) -> None:
    assert measured.all_bytes < measured.total(Algorithm.SP_D) < 1.02 * measured.all_bytes


def test_matches_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(1)
    streams = {name: Stream(np.sort(rng.integers(0, 60, 80)), rng.integers(0, 9, 80)) for name in ("a", "b")}
    a_window, b_window = 5, 11
    pairs = [
        (i, j)
        for i, (a_ts, a_key) in enumerate(zip(streams["a"].ts, streams["a"].keys, strict=True))
        for j, (b_ts, b_key) in enumerate(zip(streams["b"].ts, streams["b"].keys, strict=True))
        if a_key == b_key and (0 <= b_ts - a_ts <= a_window or 0 < a_ts - b_ts <= b_window)
    ]
    matches = matches_of(streams, a_window, b_window)
    assert matches.rows == len(pairs)
    assert set(np.flatnonzero(matches.in_result["a"])) == {i for i, _ in pairs}
    assert set(np.flatnonzero(matches.in_result["b"])) == {j for _, j in pairs}


@pytest.mark.parametrize("rate", [0.05, 0.95])
@pytest.mark.parametrize("distinct", [100, 1_000_000])
def test_streams_match_as_often_as_wanted(rate: float, distinct: int) -> None:
    streams = pair_of_streams(KeyPlan(rate, distinct), per_tick=300, ticks=40, tau_ms=1_000, window_ms=10_000)
    matches = matches_of(streams, 10_000, 10_000)
    for name in ("a", "b"):
        assert matches.in_result[name].mean() == pytest.approx(rate, rel=0.15, abs=0.01)


@pytest.mark.parametrize("width", [50, 142, 500, 1250])
def test_tuples_are_as_wide_as_wanted(width: int) -> None:
    streams = pair_of_streams(KeyPlan(0.5, 100), per_tick=300, ticks=3, tau_ms=1_000, window_ms=1_000)
    assert plain_width(record_batch(streams["a"], width, "a")) == pytest.approx(width, rel=0.02)
