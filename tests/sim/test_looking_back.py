"""A query that comes later has at once what its windows show, of streams that another one reads and nobody retains."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from node.core.streams.ticks import TICK_MIN
from planner.model.beginning import AT_ONCE
from tests.oracle.compare import same_rows
from tests.sim.check import check
from tests.sim.judges.expectation import expected_rows
from tests.sim.scenarios.queries import ALGORITHMS, QuerySpec, Window, two_way_query
from tests.sim.scenarios.scenario import MS, Restart, Scenario, random_restarts, random_stream
from tests.sim.world import Delivered

SEEDS = range(12)
TAU_MS = 100
STREAMS = ("west", "east")


def scenario_of(seed: int, of_first: Window, of_second: Window, restarts: tuple[Restart, ...] = ()) -> Scenario:
    """Two queries over two streams, which have a stretch behind them when the second one comes."""
    rng = random.Random(f"looking back {seed}")
    sites = ("ash", "bow", "cam")
    streams = tuple(
        random_stream(rng, name, site, TAU_MS, 40, "int", 0, (60,), (1,))
        for name, site in zip(STREAMS, rng.sample(sites, 2), strict=True)
    )
    algorithms = rng.choice(ALGORITHMS), rng.choice(ALGORITHMS)
    others = algorithms if rng.random() < 0.5 else (rng.choice(ALGORITHMS), rng.choice(ALGORITHMS))

    def query(window: Window, algorithms: tuple[str, str], **more: object) -> QuerySpec:
        made = two_way_query(STREAMS, (window, window), rng.choice(sites), algorithms, "frontier")
        return replace(made, **more)  # type: ignore[arg-type]

    return Scenario(
        seed=2 * seed,
        sites=sites,
        streams=streams,
        queries=(query(of_first, algorithms), query(of_second, others, beginning=AT_ONCE, after_reads=30)),
        tau_ms=TAU_MS,
        chunk_rows_max=2,
        delay_us_max=rng.choice([0, 100, 20 * MS, 500 * MS]),
        paced=rng.random() < 0.5,
        reference_engine=False,
        restarts=restarts,
    )


def later(scenario: Scenario) -> Delivered:
    """The second query, whose rows are the oracle's for what it says that it saw."""
    found = check(scenario).queries[1]
    assert found.first_tick is not None
    return found


def lacks(scenario: Scenario, query: Delivered) -> str | None:
    """How its rows differ from those of a query that has always run, from its first tick on."""
    assert query.first_tick is not None
    whole = dict.fromkeys(query.spec.aliases, TICK_MIN)
    want = expected_rows(scenario, query.spec, query.first_tick, query.rows.schema, whole)
    return same_rows(query.rows, want)


@pytest.mark.parametrize("window", [("range", 500), ("rows", 4)], ids=["time", "count"])
@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_complete_from_its_first_tick_on(seed: int, window: Window) -> None:
    scenario = scenario_of(seed, window, window)
    found = later(scenario)
    assert lacks(scenario, found) is None
    assert found.first_tick is not None
    assert all(tick < found.first_tick for tick in found.begins.values())


def test_many_of_them_begin_in_the_middle_and_see_what_was_before() -> None:
    more = 0
    for seed in SEEDS[:6]:
        scenario = scenario_of(seed, ("range", 500), ("range", 500))
        query = later(scenario)
        assert query.first_tick is not None
        alone = expected_rows(scenario, query.spec, query.first_tick, query.rows.schema)
        more += bool(query.begins) and alone.num_rows < query.rows.num_rows
    assert more > 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_longer_window_than_others_have_is_exact_as_far_as_it_is_there(seed: int) -> None:
    later(scenario_of(seed, ("range", 100), ("range", 800)))


def test_in_some_runs_a_longer_window_lacks_something() -> None:
    scenarios = [scenario_of(seed, ("range", 100), ("range", 800)) for seed in SEEDS]
    assert any(lacks(scenario, later(scenario)) for scenario in scenarios)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crash_does_not_change_what_it_sees(seed: int) -> None:
    rng = random.Random(f"crashes {seed}")
    restarts = tuple(restart for restart in random_restarts(rng, ("ash", "bow", "cam")) if not restart.fresh)
    later(scenario_of(seed, ("range", 500), ("range", 500), restarts))
