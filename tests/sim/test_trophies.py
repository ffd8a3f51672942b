"""What seeds have found, each as small as it became: it stays found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from node.core.effects import QueryState
from tests.sim.check import check
from tests.sim.crashes import CrashPoint
from tests.sim.scenarios.beginnings import with_beginnings
from tests.sim.scenarios.crowd import crowd_of
from tests.sim.scenarios.queries import QuerySpec, Window, two_way_query
from tests.sim.scenarios.scenario import LONG_US, MS, Scenario, StreamData

_WINDOW: Window = ("range", 1_000)
_STREAMS = tuple(
    StreamData(name, site, "ms", 0, (10, 20, 30), (1, 2, 1), "int") for name, site in (("west", "ash"), ("east", "bow"))
)


def _query(sink: str) -> QuerySpec:
    return two_way_query(("west", "east"), (_WINDOW, _WINDOW), sink, ("SP-D", "SM-S1"), "frontier")


def _scenario(query: QuerySpec, crash: CrashPoint) -> Scenario:
    return Scenario(
        seed=2,
        sites=("ash", "bow"),
        streams=_STREAMS,
        queries=(query,),
        tau_ms=1,
        chunk_rows_max=10,
        delay_us_max=0,
        paced=False,
        reference_engine=True,
        crashes=(crash,),
    )


@pytest.mark.parametrize("moment", ["before send Start", "durable keep home"])
def test_home_that_was_away_for_long_before_its_start_left_goes_on(moment: str) -> None:
    """Seeds 299, 411, 428, 487, 508, 737, 769, 964: the other site had let go of its pin after two minutes."""
    occurrence = 2 if moment == "durable keep home" else 1
    outcome = check(_scenario(_query("bow"), CrashPoint("bow", (moment,), occurrence, LONG_US)))
    assert outcome.queries[0].state is QueryState.COMPLETED
    assert outcome.virtual_us >= LONG_US


def test_who_gave_a_query_up_may_die_before_it_can_say_so() -> None:
    """Seed 298: home says that it heard no word of the site, and the judge wanted to hear why that gave up."""
    query = replace(_query("bow"), given_up=("ash", 10))
    crash = CrashPoint("ash", ("before send Prepared",), 1, LONG_US)
    outcome = check(replace(_scenario(query, crash), sync_us=1_000 * MS))
    assert outcome.queries[0].gave_up
    assert "got no word of ash" in outcome.queries[0].reason


def test_a_copy_that_was_opened_for_a_query_that_is_over_is_counted_as_its_owner_began_it() -> None:
    """Seed 841: the owner's log began later than the copy, so its numbers were not those of the judge's view."""
    outcome = check(with_beginnings(crowd_of(841)))
    assert outcome.counts["copy checks"] > 0
