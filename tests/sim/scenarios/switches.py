"""Queries that go over to other plans while they run, and daemons that die while they do.

Drawn after all else, and by numbers of its own, so that a seed means what it meant.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.sim.crashes import SWITCH_KINDS, CrashPoint
from tests.sim.scenarios.multiway import random_way, shipped_way
from tests.sim.scenarios.queries import QuerySpec, Replan, Way
from tests.sim.scenarios.scenario import MS, Scenario

#: How many of a hundred scenarios have queries that change their plans.
_PERCENT = 50


def with_switches(scenario: Scenario) -> Scenario:
    """The scenario; in some, queries get other plans at any time, alone or together."""
    rng = random.Random(f"switches {scenario.seed}")
    if rng.randrange(100) >= _PERCENT:
        return scenario
    queries = tuple(_with_replans(rng, scenario, query) for query in scenario.queries)
    points = []
    if any(query.replans for query in queries) and rng.random() < 0.5:
        down_us = rng.choice([0, 10 * MS, 1_000 * MS])
        points = [CrashPoint("", (kind,), rng.choice([1, 1, 2]), down_us) for kind in rng.sample(SWITCH_KINDS, 2)]
    return replace(scenario, queries=queries, crashes=(*scenario.crashes, *points))


def _with_replans(rng: random.Random, scenario: Scenario, query: QuerySpec) -> QuerySpec:
    if query.policy != "frontier" or rng.random() < 0.2:
        return query
    reads = sum(len(data.ts) for data in scenario.streams) * 2 // (1 + scenario.chunk_rows_max) + 1
    first = query.after_reads
    times = sorted(first + rng.randint(0, reads) for _ in range(rng.choice([1, 1, 2, 4])))
    replans = [Replan(time, _ways(rng, scenario, query)) for time in times]
    hurried = random.Random(f"at once {scenario.seed} {query.after_reads} {times}")
    return replace(query, replans=tuple(replace(each, at_once=hurried.random() < 0.15) for each in replans))


def _ways(rng: random.Random, scenario: Scenario, query: QuerySpec) -> tuple[Way, ...]:
    """Any plan; now and then one that has most in common with the first."""
    places = sorted({query.sink, *(scenario.data(ref.stream).site for ref in query.refs)})
    match rng.choice(["any"] * 5 + ["one head", "one head", "shipped", "first"]):
        case "shipped":
            return tuple(shipped_way(query, head) for head in query.aliases)
        case "first":
            return query.ways
        case "one head":
            changed = rng.choice(query.aliases)
            return tuple(random_way(rng, query, way.head, places) if way.head == changed else way for way in query.ways)
    return tuple(random_way(rng, query, head, places) for head in query.aliases)
