"""Two plans of the same query give the same rows: every plan of two streams, and every way of three.

A plan of m streams has a way for each head: an order of the others, an algorithm for each step, and a start. With two
streams all of these are run together with all others. With three, each head has 2 orders * 36 pairs of algorithms * 4
starts = 288 ways; all three heads take theirs at once, each in an order of its own, so that 288 runs take every way of
every head, beside ever different ways of the others. Always run are 72, which take every order with every pair of
algorithms, for each head; NARROWS_ALL_PLANS=1 runs all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import permutations, product
from multiprocessing import get_context

import pytest

from node.core.effects import QueryState
from tests.oracle.compare import same_rows
from tests.sim.judges.expectation import expected_rows
from tests.sim.scenarios.predicates import Col
from tests.sim.scenarios.queries import ALGORITHMS, Edge, QuerySpec, Ref, Way, Window
from tests.sim.scenarios.scenario import Extra, Scenario, StreamData
from tests.sim.world import World

SITES = ("ash", "bow", "cam", "dew")
SINK = "dew"
WINDOWS: tuple[Window, ...] = (("range", 12), ("rows", 7), ("range", 25))
ON_J: Edge = (("b", "j"), ("c", "j"))
ON_KEY: Edge = (("b", "key"), ("c", "key"))


def streams(count: int) -> tuple[StreamData, ...]:
    """Each at a site of its own, none at the sink: ties, few keys that come and go."""
    rng = random.Random(11)
    found = []
    for name, site in list(zip("xyz", SITES, strict=False))[:count]:
        rows = 14
        ts = tuple(sorted(rng.randrange(60) for _ in range(rows)))
        keys = tuple(rng.randrange(2) + row // 8 for row in range(rows))
        js = Extra("j", "int", tuple(rng.randrange(2) for _ in range(rows)))
        found.append(StreamData(name, site, "ms", 0, ts, keys, "int", (js,)))
    return tuple(found)


def ways(head: str, aliases: str) -> list[Way]:
    """Every way of a head, from every site there is."""
    others = [alias for alias in aliases if alias != head]
    starts = [None, *(site for alias, site in zip(aliases, SITES, strict=False) if alias != head), SINK]
    return [
        Way(head, tuple(zip(order, algorithms, strict=True)), start)
        for order in permutations(others)
        for algorithms in product(ALGORITHMS, repeat=len(others))
        for start in starts
    ]


def scenario(aliases: str, edges: tuple[Edge, ...], plan: tuple[Way, ...]) -> Scenario:
    refs = tuple(Ref(*ref) for ref in zip(aliases, "xyz", WINDOWS, strict=False))
    outputs = tuple((f"{alias}_n", Col(alias, "n")) for alias in aliases)
    return Scenario(
        seed=1,
        sites=SITES,
        streams=streams(len(aliases)),
        queries=(QuerySpec(refs, edges, outputs, SINK, plan),),
        tau_ms=20,
        chunk_rows_max=10,
        delay_us_max=1_000,
        paced=False,
        reference_engine=False,
    )


def wrong_rows(aliases: str, edges: tuple[Edge, ...], plans: Sequence[tuple[Way, ...]], rows_min: int) -> list[str]:
    """The plans that do not give the oracle's rows, and how they differ."""
    want, found = None, []
    for plan in plans:
        case = scenario(aliases, edges, plan)
        (query,) = World(case).run().queries
        if query.state is not QueryState.COMPLETED or query.first_tick is None:
            found.append(f"{plan}: {query.state} {query.reason}")
            continue
        if want is None:
            want = expected_rows(case, query.spec, query.first_tick, query.rows.schema)
            assert want.num_rows >= rows_min, f"required {rows_min} rows to compare, got {want.num_rows}"
        wrong = same_rows(query.rows, want)
        found += [f"{plan}: {wrong}"] if wrong else []
    return found


def assert_all_alike(aliases: str, edges: tuple[Edge, ...], plans: Sequence[tuple[Way, ...]], rows_min: int) -> None:
    """On all cores, because there are many."""
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        parts = [pool.submit(wrong_rows, aliases, edges, plans[core::cores], rows_min) for core in range(cores)]
        wrong = [text for part in parts for text in part.result()]
    assert not wrong, "\n".join(wrong[:5])


def test_every_plan_of_two_streams_gives_the_same_rows() -> None:
    """6 algorithms and 3 starts for each head: 18 * 18 plans."""
    plans = list(product(ways("a", "ab"), ways("b", "ab")))
    assert len(plans) == 324
    assert_all_alike("ab", ((("a", "key"), ("b", "key")),), plans, 25)


@pytest.mark.parametrize("closing", [ON_J, ON_KEY], ids=["two keys", "one key"])
def test_every_way_of_three_streams_gives_the_same_rows(closing: Edge) -> None:
    """With one key every stream is linked with every other; with two, c is a product for walks that go there first."""
    edges = ((("a", "key"), ("b", "key")), closing)
    rng = random.Random(3)
    columns = []
    for head in "abc":
        own = [way for way in ways(head, "abc") if closing is ON_KEY or _allowed(way)]
        columns.append(rng.sample(own, len(own)))
        if not os.environ.get("NARROWS_ALL_PLANS"):
            # One start for each order with each pair of algorithms.
            columns[-1] = list({way.steps: way for way in columns[-1]}.values())
    most = max(map(len, columns))
    assert most == (288 if os.environ.get("NARROWS_ALL_PLANS") else 72)
    plans = [tuple(column[number % len(column)] for column in columns) for number in range(most)]
    assert_all_alike("abc", edges, plans, 25)


def _allowed(way: Way) -> bool:
    """Nothing links a with c until b is there: only SP-S and SP-D can go from one to the other."""
    first, algorithm = way.steps[0]
    return {way.head, first} != {"a", "c"} or algorithm in ("SP-S", "SP-D")
