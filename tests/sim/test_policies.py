"""The two policies, side by side on live streams: event time runs with the clock, the network has a delay."""

from __future__ import annotations

import random

import pytest

from tests.sim.check import check, difference
from tests.sim.scenarios.queries import ALGORITHMS, Window
from tests.sim.scenarios.scenario import MS, Scenario, StreamData, two_way
from tests.sim.world import Outcome, World

WINDOWS: list[Window] = [("range", 700), ("rows", 12)]


def live_scenario(algorithm: str, window: Window, delay_us_max: int, policy: str) -> Scenario:
    """Two streams of some seconds, a tuple every 40 ms or so, few keys, sites that are not the sink."""
    rng = random.Random(7)
    # The query must run before the first tuple comes: to install it takes some round trips.
    begin = 1_000 + 12 * delay_us_max // MS
    streams = []
    for name, site in (("left", "ash"), ("right", "bow")):
        ts = sorted(rng.randrange(begin, begin + 5_000) for _ in range(120))
        keys = [rng.randrange(6) for _ in ts]
        streams.append(StreamData(name, site, "ms", 0, tuple(ts), tuple(keys), "int"))
    return two_way(
        seed=1,
        sites=("ash", "bow", "cam"),
        streams=(streams[0], streams[1]),
        sink="cam",
        algorithms=(algorithm, algorithm),
        tau_ms=100,
        windows=(window, window),
        chunk_rows_max=10,
        delay_us_max=delay_us_max,
        paced=False,
        reference_engine=True,
        live=True,
        policy=policy,
    )


def run(scenario: Scenario) -> tuple[Outcome, str | None]:
    """What a run gave, and how that differs from the oracle's rows."""
    outcome = World(scenario).run()
    return outcome, difference(scenario, outcome)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_delta_is_exact_while_no_delay_exceeds_it(algorithm: str, window: Window) -> None:
    outcome, wrong = run(live_scenario(algorithm, window, 40 * MS, "delta=400ms"))
    assert wrong is None
    assert outcome.rows.num_rows > 100
    assert (outcome.probes_early, outcome.probes_late) == (0, 0)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_delays_beyond_delta_are_counted_and_frontier_does_not_mind(algorithm: str, window: Window) -> None:
    slow = live_scenario(algorithm, window, 3_000 * MS, "delta=20ms")
    outcome, _ = run(slow)
    assert outcome.probes_early + outcome.probes_late > 0
    check(live_scenario(algorithm, window, 3_000 * MS, "frontier"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_delay_beyond_delta_gives_wrong_rows(algorithm: str) -> None:
    """For every algorithm there is a delay at which the paper's policy is provably wrong, and says so."""
    _, wrong = run(live_scenario(algorithm, ("range", 300), 5_000 * MS, "delta=1ms"))
    assert wrong is not None


def test_nothing_is_counted_under_frontier() -> None:
    outcome, wrong = run(live_scenario("SM-S2", ("range", 300), 2_000 * MS, "frontier"))
    assert wrong is None
    assert (outcome.probes_early, outcome.probes_late) == (0, 0)


def test_delta_is_measured_from_the_links() -> None:
    outcome, wrong = run(live_scenario("SM-D1", ("range", 700), 40 * MS, "delta"))
    assert wrong is None
    assert (outcome.probes_early, outcome.probes_late) == (0, 0)
