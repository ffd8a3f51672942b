"""Full copies whose queries have more filters than a tuple has bits: the rest looks at all tuples, and is as right."""

from __future__ import annotations

import pytest

from node.core.arrangements.copies import portions
from tests.sim.check import check
from tests.sim.scenarios.crowd import crowd_of
from tests.sim.scenarios.scenario import Scenario


def steps_by_full_copies(scenario: Scenario) -> int:
    return sum(algorithm == "SP-S" for query in scenario.queries for way in query.ways for _, algorithm in way.steps)


SEEDS = [seed for seed in range(200) if steps_by_full_copies(crowd_of(seed)) >= 8][:8]


@pytest.mark.parametrize("seed", SEEDS)
def test_filters_without_a_bit_of_their_own_lose_and_add_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "PORTIONS_MAX", 2)
    check(crowd_of(seed))
