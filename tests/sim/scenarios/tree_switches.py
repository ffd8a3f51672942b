"""Queries that go over to plans that keep joins, from such plans, and from one such plan to another.

Drawn after all else, and by numbers of its own, so that a seed means what it meant; but queries that get such plans
have them beside those that they had.
"""

from __future__ import annotations

import random
from dataclasses import replace

from node.core.limits import Limits
from tests.sim.crashes import TREE_SWITCH_KINDS, CrashPoint
from tests.sim.scenarios.queries import QuerySpec, Replan
from tests.sim.scenarios.scenario import MS, Scenario
from tests.sim.scenarios.trees import random_tree, random_ways

#: How many of a hundred queries that could be trees go over to one, or from one.
_PERCENT = 50


def with_tree_switches(scenario: Scenario, percent: int = _PERCENT) -> Scenario:
    """The scenario; in some, queries over three streams or more get plans that keep joins, or that keep none."""
    rng = random.Random(f"tree switches {scenario.seed}")
    queries = tuple(
        _with_replans(rng, scenario, query, f"q{number}", percent) for number, query in enumerate(scenario.queries, 1)
    )
    if queries == scenario.queries:
        return scenario
    points = []
    if rng.random() < 0.5:
        down_us = rng.choice([0, 10 * MS, 1_000 * MS])
        kinds = rng.sample(TREE_SWITCH_KINDS, 2)
        points = [CrashPoint("", (kind,), rng.choice([1, 1, 2, 3]), down_us) for kind in kinds]
    return replace(
        scenario, queries=queries, crashes=(*scenario.crashes, *points), limits=_wide_enough(scenario.limits)
    )


def _wide_enough(limits: Limits) -> Limits:
    """To say such a plan takes kilobytes: a long link that takes a dozen bytes at a time has no site ready in time."""
    part, inflight = max(64, limits.part_bytes_max), max(1280, limits.inflight_bytes_max)
    return replace(limits, part_bytes_max=part, inflight_bytes_max=inflight)


def _with_replans(rng: random.Random, scenario: Scenario, query: QuerySpec, query_id: str, percent: int) -> QuerySpec:
    is_counted = any(kind == "rows" for kind, _ in (ref.window for ref in query.refs))
    if len(query.refs) < 3 or is_counted or query.policy != "frontier" or rng.randrange(100) >= percent:
        return query
    reads = sum(len(data.ts) for data in scenario.streams) * 2 // (1 + scenario.chunk_rows_max) + 1
    first = query.after_reads
    times = sorted(first + rng.randint(0, reads) for _ in range(rng.choice([1, 1, 2, 4])))
    plain = replace(query, kept=(), replans=())
    plans = [_plan(rng, scenario, plain, query_id) for _ in times]
    replans = [Replan(time, plan.ways, plan.kept) for time, plan in zip(times, plans, strict=True)]
    return replace(query, replans=tuple(sorted([*query.replans, *replans], key=lambda replan: replan.after_reads)))


def _plan(rng: random.Random, scenario: Scenario, query: QuerySpec, query_id: str) -> QuerySpec:
    """Any plan: more often than not one that keeps joins."""
    if rng.random() < 0.7:
        return random_tree(rng, scenario, query, query_id)
    return replace(query, ways=random_ways(rng, scenario, query))
