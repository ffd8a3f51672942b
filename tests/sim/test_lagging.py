"""A site is away for minutes: queries that do not need it go on meanwhile, those that do go on when it is back."""

from __future__ import annotations

import random

import pytest

from node.core.effects import QueryState, ReportQuery
from node.core.limits import Limits
from tests.sim.check import difference
from tests.sim.scenarios.queries import ALGORITHMS, Window, two_way_query
from tests.sim.scenarios.scenario import MS, Fault, Restart, Scenario, random_stream
from tests.sim.world import START_US, World

SECOND = 1_000 * MS
AWAY_AT, AWAY_FOR = 300 * MS, 80 * SECOND
LIMITS = Limits(ahead_batches_max=2, news_us=30 * MS)
WINDOW: Window = ("range", 300)


class Watched(World):
    """Notes when queries were through."""

    def __init__(self, scenario: Scenario) -> None:
        self.completed_us: dict[str, int] = {}
        super().__init__(scenario)

    def _reported(self, site: str, report: ReportQuery) -> None:
        super()._reported(site, report)
        if report.state is QueryState.COMPLETED:
            self.completed_us[report.query_id] = self.now_us - START_US


def scenario_of(seed: int, dead: bool) -> Scenario:
    """q1 needs cam, as its home or for a stream; q2 shares a stream with it and does not."""
    rng = random.Random(f"lagging {seed}")
    streams = tuple(
        random_stream(rng, name, site, 100, 40, "int", 0, (60,), (1,))
        for name, site in (("west", "ash"), ("east", "bow"), ("third", "cam"))
    )
    algorithms = rng.choice(ALGORITHMS), rng.choice(ALGORITHMS)
    needs_home = rng.random() < 0.5
    names = ("west", "east") if needs_home else ("west", "third")
    home = "cam" if needs_home else "ash"
    queries = (
        two_way_query(names, (WINDOW, WINDOW), home, algorithms, "frontier"),
        two_way_query(("west", "east"), (WINDOW, WINDOW), rng.choice(["ash", "bow"]), algorithms, "frontier"),
    )
    cut = tuple(Fault(AWAY_AT, AWAY_FOR, (site, "cam"), silent=False) for site in ("ash", "bow"))
    return Scenario(
        seed=2 * seed,
        sites=("ash", "bow", "cam"),
        streams=streams,
        queries=queries,
        tau_ms=100,
        chunk_rows_max=2,
        delay_us_max=rng.choice([100, 20 * MS]),
        paced=True,
        reference_engine=False,
        faults=() if dead else cut,
        restarts=(Restart(AWAY_AT, "cam", AWAY_FOR),) if dead else (),
        limits=LIMITS,
    )


@pytest.mark.parametrize("dead", [False, True], ids=["cut off", "dead"])
@pytest.mark.parametrize("seed", range(4))
def test_others_go_on_while_a_site_is_away_for_long(seed: int, dead: bool) -> None:
    scenario = scenario_of(seed, dead)
    world = Watched(scenario)
    outcome = world.run()
    assert difference(scenario, outcome) is None
    q1, q2 = outcome.queries
    assert (q1.state, q2.state) == ("completed", "completed")
    # It was stopped until q1 was voided, and was through long before the site was back.
    assert AWAY_AT + LIMITS.lag_us < world.completed_us["q2"] < AWAY_AT + 2 * LIMITS.lag_us
    assert world.completed_us["q1"] > AWAY_AT + AWAY_FOR
    assert q1.rows.num_rows > 0
