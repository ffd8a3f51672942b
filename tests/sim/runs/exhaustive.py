"""Two sites, five ticks, and a daemon that dies at every single step; then two deaths, the second at any step after.

A run without a crash says which steps there are. Each is tried alone; the run with that crash says which steps come
after it, recovery included, and each of those is tried too. Of the second ones those are left out that nobody can tell
from the one before: the same turn of the same site, and nothing has left it or reached its disk in between.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tests.sim.check import check_world
from tests.sim.crashes import CrashPoint, Step
from tests.sim.runs.record import record
from tests.sim.scenarios.predicates import Col
from tests.sim.scenarios.queries import Kept, QuerySpec, Ref, Replan, Way, Window
from tests.sim.scenarios.scenario import Scenario, StreamData, two_way
from tests.sim.world import World

SITES = ("ash", "bow")
TICK_MS = 10
_RANGE: Window = ("range", 25)
_ROWS: Window = ("rows", 4)


@dataclass(frozen=True)
class Run:
    """Algorithms of both heads, their windows, and the algorithms of a plan that it goes over to."""

    algorithms: tuple[str, str]
    window: Window
    later: tuple[str, str] | None = None


@dataclass(frozen=True)
class TreeRun:
    """Three streams, by a plan that keeps the join of two of them or by none, and then by the other."""

    is_tree_first: bool


PLANS: dict[str, Run | TreeRun] = {
    "SP-S": Run(("SP-S", "SP-S"), _RANGE),
    "SP-D": Run(("SP-D", "SP-D"), _RANGE),
    "SM-S1": Run(("SM-S1", "SM-S1"), _RANGE),
    "SM-S2": Run(("SM-S2", "SM-S2"), _RANGE),
    "SM-D1": Run(("SM-D1", "SM-D1"), _RANGE),
    "SM-D2": Run(("SM-D2", "SM-D2"), _RANGE),
    "SM-S1 and SM-D1 with count windows": Run(("SM-S1", "SM-D1"), _ROWS),
    "SP-S and SM-S2 with count windows": Run(("SP-S", "SM-S2"), _ROWS),
    "SP-S, then SM-S1": Run(("SP-S", "SP-S"), _RANGE, ("SM-S1", "SM-S1")),
    "SP-D and SM-D1, then SM-S2 with count windows": Run(("SP-D", "SM-D1"), _ROWS, ("SM-S2", "SM-S2")),
    "SP-D, then a tree": TreeRun(is_tree_first=False),
    "a tree, then SP-D": TreeRun(is_tree_first=True),
}


@dataclass(frozen=True)
class Tried:
    """What came of some runs."""

    runs: int
    hits: Counter[str]
    wrong: tuple[str, ...]


def scenario_of(plan: str) -> Scenario:
    """Few rows, which match here and there, and a home that has one of the two streams."""
    run = PLANS[plan]
    left = StreamData("left", "ash", "ms", 0, (1, 12, 14, 33, 41), (1, 2, 1, 1, 2), "int")
    right = StreamData("right", "bow", "ms", 0, (3, 11, 25, 34, 42), (1, 1, 2, 1, 3), "int")
    if isinstance(run, TreeRun):
        return _tree_scenario(run, left, right)
    scenario = two_way(
        seed=2,
        sites=SITES,
        streams=(left, right),
        sink="bow",
        algorithms=run.algorithms,
        tau_ms=TICK_MS,
        windows=(run.window, run.window),
        chunk_rows_max=3,
        delay_us_max=300,
        paced=False,
        reference_engine=False,
    )
    if run.later is None:
        return scenario
    (query,) = scenario.queries
    first, second = (
        replace(way, steps=((way.steps[0][0], name),)) for way, name in zip(query.ways, run.later, strict=True)
    )
    return replace(scenario, queries=(replace(query, replans=(Replan(2, (first, second)),)),))


def _tree_scenario(run: TreeRun, left: StreamData, right: StreamData) -> Scenario:
    third = StreamData("third", "ash", "ms", 0, (2, 12, 25, 33, 43), (1, 1, 2, 1, 1), "int")
    names = {"a": "left", "b": "right", "c": "third"}
    sequences = tuple(_way(head, *(other for other in names if other != head)) for head in names)
    kept = (Kept("pairs", ("a", "b"), "ash", (_way("a", "b"), _way("b", "a"))),)
    tree = _way("pairs", "c"), _way("c", "pairs")
    (ways, first), (later, then) = (
        ((tree, kept), (sequences, ())) if run.is_tree_first else ((sequences, ()), (tree, kept))
    )
    query = QuerySpec(
        refs=tuple(Ref(alias, stream, _RANGE) for alias, stream in names.items()),
        edges=((("a", "key"), ("b", "key")), (("b", "key"), ("c", "key"))),
        outputs=tuple((f"{alias}_n", Col(alias, "n")) for alias in names),
        sink="bow",
        ways=ways,
        replans=(Replan(3, later, then),),
        kept=first,
    )
    return Scenario(2, SITES, (left, right, third), (query,), TICK_MS, 2, 300, True, False)


def _way(head: str, *others: str) -> Way:
    return Way(head, tuple((other, "SP-D") for other in others))


def steps_of(scenario: Scenario) -> list[Step]:
    """Every step of a run that gives the oracle's rows."""
    world = World(scenario)
    world.crashes.trace = []
    check_world(world)
    return world.crashes.trace


def points(steps: Sequence[Step], after: int = 0, distinct: bool = False) -> Iterator[CrashPoint]:
    """A crash at each of the steps from one on; each site counts its own."""
    counts: Counter[str] = Counter()
    for before, step in pairwise([None, *steps[after:]]):
        assert step is not None
        counts[step.site] += 1
        if not distinct or before is None or not _is_same(before, step):
            yield CrashPoint(step.site, (), counts[step.site], down_us=1_000)


def _is_same(before: Step, step: Step) -> bool:
    """Whether nobody can tell a crash at a step from one at the step before."""
    is_soft = not before.kind.startswith(("after send", "after keep", "after remove", "durable", "torn", "trimmed"))
    return (before.turn, before.site) == (step.turn, step.site) and is_soft


def try_single(plan: str, distinct: bool = False) -> Tried:
    """A crash at every step of a run; or at every one that others, or a disk, can tell from the one before."""
    scenario = scenario_of(plan)
    return _try([replace(scenario, crashes=(point,)) for point in points(steps_of(scenario), distinct=distinct)])


def try_pairs(plan: str, first: CrashPoint) -> Tried:
    """After a crash another one, at every step that follows."""
    scenario = replace(scenario_of(plan), crashes=(first,))
    world = World(scenario)
    world.crashes.trace = []
    check_world(world)
    at = next(number for number, step in enumerate(world.crashes.trace, 1) if step.died)
    return _try(
        [
            # The counts of a site begin anew where it died; the other's go on from the beginning.
            replace(scenario, crashes=_pair(first, point, world.crashes.trace[:at]))
            for point in points(world.crashes.trace, at, distinct=True)
        ]
    )


def _pair(first: CrashPoint, second: CrashPoint, before: Sequence[Step]) -> tuple[CrashPoint, CrashPoint]:
    if second.site == first.site:
        return first, second
    passed = sum(step.site == second.site for step in before)
    return first, replace(second, occurrence=passed + second.occurrence)


def _try(scenarios: Sequence[Scenario]) -> Tried:
    hits: Counter[str] = Counter()
    wrong = []
    for scenario in scenarios:
        world = World(scenario)
        try:
            check_world(world)
            if world.crashes.crashes != len(scenario.crashes):
                raise AssertionError(f"required {len(scenario.crashes)} crashes; got {world.crashes.crashes}")
        except Exception as error:
            wrong.append(f"{scenario.crashes}: {type(error).__name__}: {error}")
        hits.update(world.crashes.hits)
    return Tried(len(scenarios), hits, tuple(wrong))


def run_exhaustive(workers: int | None = None, recorded: bool = False) -> int:
    """All plans, every crash and every pair of crashes, on all cores; prints what came of it."""
    began = time.monotonic()
    lines = ["| plan | steps, each with a crash | pairs of crashes | wrong |", "|---|---:|---:|---:|"]
    failed = runs = 0
    with multiprocessing.get_context("spawn").Pool(workers or os.cpu_count()) as pool:
        for plan in PLANS:
            single = pool.apply_async(try_single, (plan,))
            firsts = list(points(steps_of(scenario_of(plan)), distinct=True))
            jobs = [pool.apply_async(try_pairs, (plan, first)) for first in firsts]
            tried = [single.get(), *(job.get() for job in jobs)]
            wrong = [text for each in tried for text in each.wrong]
            pairs = sum(each.runs for each in tried[1:])
            failed, runs = failed + len(wrong), runs + tried[0].runs + pairs
            lines.append(f"| {plan} | {tried[0].runs:,} | {pairs:,} | {len(wrong)} |")
            print("\n".join([lines[-1], *wrong[:5]]), flush=True)
    lines += ["", f"{runs:,} runs, {failed} wrong, in {time.monotonic() - began:.0f} s."]
    print(lines[-1])
    if recorded:
        record("Every crash, and every two", lines)
    return 1 if failed else 0
