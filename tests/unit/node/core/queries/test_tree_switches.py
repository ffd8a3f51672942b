"""Queries go over to plans that keep joins, and back: rows are those of the definition, and nothing is left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from node.core.effects import QueryState
from tests.sim.check import check_world
from tests.sim.crashes import CrashPoint
from tests.sim.scenarios.queries import Kept, QuerySpec, Replan, Way
from tests.sim.scenarios.scenario import Scenario
from tests.sim.world import World
from tests.unit.node.core.queries.test_kept_joins import KEPT, WAYS, query, scenario, stream

SEQUENCES = tuple(Way(head, tuple((other, "SM-S1") for other in "abc" if other != head)) for head in "abc")
SHIPPED = tuple(Way(head, tuple((other, "SP-S") for other in "abc" if other != head), "dew") for head in "abc")
OTHERS = Kept("others", ("b", "c"), "cam", (Way("b", (("c", "SP-D"),)), Way("c", (("b", "SM-D1"),))))
OTHER_WAYS = (Way("others", (("a", "SP-S"),)), Way("a", (("others", "SM-S1"),)))
#: Many tuples have equal times.
STREAMS = (stream("sa", "ash"), stream("sb", "bow", 60, 2), stream("sc", "cam", 60, 2))
PLANS = {
    "sequences": (SEQUENCES, ()),
    "shipped": (SHIPPED, ()),
    "tree": (WAYS, (KEPT,)),
    "other tree": (OTHER_WAYS, (OTHERS,)),
    # The same join, kept elsewhere.
    "moved tree": (WAYS, (replace(KEPT, site="cam"),)),
}


def going(before: str, *after: str, first: int = 14, apart: int = 20) -> QuerySpec:
    """A query that goes from one of the plans to others, one after the other."""
    ways, kept = PLANS[before]
    replans = [Replan(first + apart * number, *PLANS[name]) for number, name in enumerate(after)]
    return replace(query(kept, ways), replans=tuple(replans))


def play(spec: QuerySpec, **changed: object) -> World:
    """Run it: the judges look at every message, the oracle at the rows."""
    own: Scenario = scenario(spec, **{"streams": STREAMS, "delay_us_max": 1_000, "paced": True, **changed})
    world = World(own)
    check_world(world)
    assert world._queries[0].state is QueryState.COMPLETED
    assert world._queries[0].rows.num_rows > 100
    assert not any("." in name for node in world._nodes.values() for name in node.site.streams), "nothing is kept"
    return world


@pytest.mark.parametrize("before", list(PLANS))
@pytest.mark.parametrize("after", list(PLANS))
def test_any_plan_goes_over_to_any_other(before: str, after: str) -> None:
    if before == after or not (PLANS[before][1] or PLANS[after][1]):
        return
    world = play(going(before, after))
    assert world.counts["switches of trees switched"] == 1


def test_it_goes_over_again_and_again_and_back() -> None:
    world = play(going("sequences", "tree", "sequences", "tree", "other tree", first=8, apart=9))
    assert world.counts["switches of trees switched"] == 4


@pytest.mark.parametrize(("before", "after"), [("tree", "shipped"), ("sequences", "tree")])
def test_what_the_new_plan_finds_waits_for_the_plan_before(before: str, after: str) -> None:
    """Links are long: the one has much under way when the other finds its first rows."""
    streams = (stream("sa", "ash", 90), stream("sb", "bow", 120, 2), stream("sc", "cam", 120, 2))
    world = play(going(before, after), streams=streams, delay_us_max=40_000, chunk_rows_max=1)
    assert world.counts["switches of trees switched"] == 1
    assert world.counts["walks of another plan that wait for the one before"] > 1


@pytest.mark.parametrize(("before", "after"), [("sequences", "tree"), ("tree", "sequences"), ("tree", "other tree")])
@pytest.mark.parametrize(
    "step",
    [
        "before send Hold",
        "after send Held",
        "before send GoOver",
        "after send GoOver",
        "durable keep home",
        "before send Floor",
    ],
)
def test_a_daemon_dies_amid_it(before: str, after: str, step: str) -> None:
    """It goes on by either plan."""
    occurrence = 2 if step == "durable keep home" else 1
    world = play(going(before, after), crashes=(CrashPoint("", (step,), occurrence),), sync_us=200)
    assert world.counts["crashes"] > 0


@pytest.mark.parametrize("seed", [2, 4, 6, 8])
def test_home_dies_when_it_is_to_keep_that_a_query_went_over(seed: int) -> None:
    """Its disk has the new plan or not; and if it has, perhaps not what is done of the new plan's heads."""
    point = CrashPoint("dew", ("after keep home",), 3)
    world = play(going("sequences", "tree"), seed=seed, crashes=(point,), sync_us=200)
    assert world.counts["crashes"] == 1


def told_at(world: World, what: str) -> float:
    """When something happened in the story, in virtual seconds."""
    return next(float(line.split()[0]) for line in world.story if what in line)


def test_what_is_kept_goes_with_the_plan_and_not_with_the_query() -> None:
    world = play(going("tree", "sequences"))
    assert told_at(world, "bow forgets q1.pairs@bow") < told_at(world, "reports q1 completed") - 0.05


def test_a_kept_join_that_fails_before_the_query_goes_over_leaves_the_plan_as_it_was() -> None:
    world = World(scenario(going("sequences", "tree"), streams=STREAMS, delay_us_max=1_000, paced=True))
    join = "q1+g0001.pairs@bow"

    def fail() -> None:
        site = world._nodes["ash"].site
        if join in site.runs:
            site._participant.ends.fail(join, "no engine")
        else:
            world._at(100, fail)

    world._at(0, fail)
    check_world(world)
    assert world._queries[0].state is QueryState.COMPLETED
    assert (world.counts["switches of trees given up"], world.counts.get("recoveries begun", 0)) == (1, 0)
    assert told_at(world, f"bow forgets {join}") < told_at(world, "reports q1 completed") - 0.05
