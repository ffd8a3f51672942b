"""Where the queries of a scenario are asked to begin: at the start, now, or at an event time, past or to come.

Of those that say nothing some look back.

Drawn after all else, and by numbers of its own, so that a seed means what it meant.
"""

from __future__ import annotations

import random
from dataclasses import replace

from planner.model.beginning import AT_ONCE, DEFAULT_BEGINNING, BeginAt, Beginning
from tests.sim.scenarios.scenario import Scenario, StreamData

#: How many of a hundred scenarios have queries that say where they begin, and that look back.
_PERCENT = 40
_LOOK_BACK_PERCENT = 50


def with_beginnings(scenario: Scenario) -> Scenario:
    """The scenario; in some the logs of some streams keep all, and queries ask for some of that."""
    rng = random.Random(f"beginnings {scenario.seed}")
    if rng.randrange(100) >= _PERCENT:
        return scenario
    streams = tuple(replace(data, keep_whole=rng.random() < 0.6) for data in scenario.streams)
    queries = tuple(
        replace(query, beginning=_beginning(rng, [scenario.data(ref.stream) for ref in query.refs], scenario.tau_ms))
        for query in scenario.queries
    )
    return replace(scenario, streams=streams, queries=queries)


def _beginning(rng: random.Random, streams: list[StreamData], tau_ms: int) -> Beginning:
    match rng.choice(["default", "start", "start", "start", "now", "time", "time"]):
        case "start":
            return Beginning(BeginAt.START)
        case "now":
            return Beginning(BeginAt.NOW)
        case "time":
            data = rng.choice(streams)
            times = [ts // (1000 if data.unit == "us" else 1) for ts in data.ts if ts is not None] or [0]
            return Beginning(BeginAt.TIME, rng.choice(times) + rng.randint(-2 * tau_ms, 2 * tau_ms))
    return DEFAULT_BEGINNING


def with_look_backs(scenario: Scenario) -> Scenario:
    """The scenario; in some, queries that do not say where they begin have what their windows show then."""
    rng = random.Random(f"look back {scenario.seed}")
    if rng.randrange(100) >= _LOOK_BACK_PERCENT:
        return scenario
    queries = tuple(
        replace(query, beginning=AT_ONCE) if query.beginning == DEFAULT_BEGINNING and rng.random() < 0.8 else query
        for query in scenario.queries
    )
    return replace(scenario, queries=queries)
