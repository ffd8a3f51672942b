"""Hypothesis writes the data, the queries and the plans, the simulator runs them, the oracle judges."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from node.core.limits import Limits
from tests.examples import examples
from tests.sim.check import check
from tests.sim.scenarios.multiway import random_scenario
from tests.sim.scenarios.queries import ALGORITHMS, Window
from tests.sim.scenarios.scenario import Fault, Scenario, StreamData, two_way

SITES = ("ash", "bow", "cam")

int_keys = st.none() | st.integers(-2, 3) | st.sampled_from([2**31 - 1, -(2**31)])
string_keys = st.none() | st.sampled_from(["", "a", "b", "é", "𝄞", "a\x00", "a" * 70]) | st.text(max_size=3)


@st.composite
def streams(draw: st.DrawFn, name: str, keys: st.SearchStrategy[object], key_type: str) -> StreamData:
    """Rows with many ties and some gaps; disorder within, and beyond, the lateness."""
    origin = draw(st.sampled_from([0, -1, -10_000, 1_700_000_000_000, 2**51, -(2**51)]))
    steps = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2, 9, 10, 11, 250, -3]), max_size=40))
    ts, now = [], origin
    for step in steps:
        now += step
        ts.append(now)
    rows = draw(st.lists(keys, min_size=len(ts), max_size=len(ts)))
    lateness_ms = draw(st.sampled_from([0, 0, 5, 100]))
    return StreamData(name, draw(st.sampled_from(SITES)), "ms", lateness_ms, tuple(ts), tuple(rows), key_type)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    text = draw(st.booleans())
    keys, key_type = (string_keys, "string") if text else (int_keys, "int")
    ranges: st.SearchStrategy[Window] = st.tuples(st.just("range"), st.sampled_from([0, 1, 2, 9, 10, 11, 300, 100_000]))
    windows: st.SearchStrategy[Window] = ranges | st.tuples(st.just("rows"), st.sampled_from([1, 2, 3, 10, 1000]))
    faults = st.builds(
        Fault,
        st.integers(0, 500_000),
        st.integers(1, 2_000_000),
        st.sampled_from([("ash", "bow"), ("ash", "cam"), ("bow", "cam")]),
        st.booleans(),
    )
    algorithm = st.sampled_from(ALGORITHMS)
    return two_way(
        seed=draw(st.integers(0, 2**32)),
        sites=SITES,
        streams=(draw(streams("left", keys, key_type)), draw(streams("right", keys, key_type))),
        sink=draw(st.sampled_from(SITES)),
        algorithms=(draw(algorithm), draw(algorithm)),
        tau_ms=draw(st.sampled_from([1, 10, 100])),
        windows=(draw(windows), draw(windows)),
        chunk_rows_max=draw(st.sampled_from([1, 4, 100])),
        delay_us_max=draw(st.sampled_from([0, 1_000, 100_000])),
        paced=False,
        reference_engine=draw(st.booleans()),
        faults=tuple(draw(st.lists(faults, max_size=3))),
        limits=draw(st.sampled_from([Limits(), Limits(ahead_bytes_max=1, ahead_batches_max=1)])),
    )


@examples(100)
@given(scenarios())
def test_any_two_streams_are_joined_exactly(scenario: Scenario) -> None:
    check(scenario)


@examples(30, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_any_queries_by_any_plans_give_what_the_oracle_says(choices: random.Random, seed: int) -> None:
    """Every choice of the scenario is one of hypothesis, which tries extremes and makes a failure small."""
    check(random_scenario(choices, seed))
