"""Quotas for the logs of streams: of some scenarios, small enough to be reached."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.sim.scenarios.scenario import Scenario


def with_quota(scenario: Scenario) -> Scenario:
    """The scenario with a quota, in a quarter of those that can have one.

    A query may need more than that. Then somebody starts its sites again with a larger one, and queries must go on
    after that: not those by policy delta.
    """
    rng = random.Random(f"quota {scenario.seed}")
    goes_on = all(query.policy == "frontier" for query in scenario.queries)
    if not goes_on or rng.random() > 0.25:
        return scenario
    return replace(scenario, limits=replace(scenario.limits, log_bytes_max=rng.choice([1, 3_000, 10_000, 40_000])))
