"""Queries by trees: some of their streams' joins are kept at a site, anywhere, and made by plans of their own.

Drawn after all else, and by numbers of its own, so that a seed means what it meant.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.sim.scenarios.multiway import random_way, shipped_way
from tests.sim.scenarios.queries import Kept, QuerySpec, Way
from tests.sim.scenarios.scenario import Scenario

#: How many of a hundred queries that could be trees are.
_PERCENT = 40


def with_trees(scenario: Scenario, percent: int = _PERCENT) -> Scenario:
    """The scenario; in some, queries over three streams or more keep joins. They change their plans no more then."""
    rng = random.Random(f"trees {scenario.seed}")
    queries = tuple(
        _kept(rng, scenario, query, f"q{number}", percent) for number, query in enumerate(scenario.queries, 1)
    )
    return replace(scenario, queries=queries)


def _kept(rng: random.Random, scenario: Scenario, query: QuerySpec, query_id: str, percent: int) -> QuerySpec:
    is_counted = any(kind == "rows" for kind, _ in (ref.window for ref in query.refs))
    if len(query.refs) < 3 or rng.randrange(100) >= percent or query.policy != "frontier":
        return query
    if is_counted:
        # A tree has time windows only: now and then it is made of a query that has others.
        if rng.random() < 0.5:
            return query
        windows = [rng.choice([0, scenario.tau_ms, 20 * scenario.tau_ms, 10_000 * scenario.tau_ms]) for _ in query.refs]
        refs = [
            replace(ref, window=("range", length)) if ref.window[0] == "rows" else ref
            for ref, length in zip(query.refs, windows, strict=True)
        ]
        query = replace(query, refs=tuple(refs))
    return random_tree(rng, scenario, query, query_id)


def random_tree(rng: random.Random, scenario: Scenario, query: QuerySpec, query_id: str) -> QuerySpec:
    """The query by any plan that keeps joins."""
    joins: list[Kept] = []
    rest = list(query.aliases)
    rng.shuffle(rest)
    for name in ("pairs", "others")[: rng.choice([1, 1, 1, 2])]:
        size = rng.randint(2, max(2, len(rest) - 1))
        if len(rest) >= 2 and size < len(query.aliases):
            joins.append(Kept(name, tuple(rest[:size]), rng.choice(scenario.sites), ()))
            rest = rest[size:]
    tree = replace(query, kept=tuple(joins), replans=())
    kept = tuple(replace(join, ways=random_ways(rng, scenario, tree.inner(join))) for join in joins)
    outer = replace(tree, kept=kept).outer(query_id)
    return replace(tree, kept=kept, ways=random_ways(rng, scenario, outer))


def random_ways(rng: random.Random, scenario: Scenario, query: QuerySpec) -> tuple[Way, ...]:
    """Any ways of the walks of its heads."""
    sites = {data.name: data.site for data in scenario.streams}
    places = sorted({query.sink, *(sites[ref.stream] for ref in query.refs if ref.stream in sites)})
    if rng.random() < 0.15:
        return tuple(shipped_way(query, head) for head in query.aliases)
    return tuple(random_way(rng, query, head, places) for head in query.aliases)
