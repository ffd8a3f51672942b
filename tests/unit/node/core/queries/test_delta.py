"""delta from the round trips that sites measured."""

from __future__ import annotations

import pyarrow as pa
import pytest

from node.core.links.messages import Prepared, Start
from node.core.queries.home.delta import delta_us
from node.core.queries.home.home_query import HomeQuery
from planner.algorithms.descriptions import Algorithm
from planner.model.plans import forced_plan
from planner.model.query import (
    ColumnRef,
    Edge,
    JoinQuery,
    OutputColumn,
    Plan,
    Policy,
    PolicyName,
    RangeWindow,
    StreamInfo,
    StreamRef,
)
from planner.model.time_unit import TimeUnit

SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("n", pa.int64())])


def info(name: str, site: str) -> StreamInfo:
    return StreamInfo(name, site, SCHEMA, "ts", TimeUnit.MS)


MEASURED = Policy(PolicyName.DELTA)
RTT_US = {("ash", "bow"): 400_000, ("bow", "cam"): 1_000_000}
#: How many messages one step between sites waits for, one after the other.
MESSAGES = {
    Algorithm.SP_S: 1,  # the sync of the batch
    Algorithm.SP_D: 1,  # the carry
    Algorithm.SM_S1: 2,  # keys, tuples
    Algorithm.SM_S2: 3,  # sync, fetch, tuples
    Algorithm.SM_D1: 2,  # sync, carry
    Algorithm.SM_D2: 3,  # keys, bitmap, carry
}


def chain(algorithm: Algorithm, policy: Policy = MEASURED, sites: str = "ash bow cam") -> Plan:
    """a, b, c at three sites, joined in a chain: a - b - c; the sink is at ash."""
    streams = tuple(
        StreamRef(alias, info(name, site), RangeWindow(30_000))
        for alias, name, site in zip("abc", "lrs", sites.split(), strict=True)
    )
    edges = tuple(Edge(ColumnRef(one, "key"), ColumnRef(other, "key")) for one, other in ("ab", "bc"))
    query = JoinQuery("", streams, edges, (OutputColumn("an", ColumnRef("a", "n")),))
    return forced_plan(query, "ash", algorithm, policy)


def two(algorithm: Algorithm, policy: Policy = MEASURED) -> Plan:
    streams = tuple(
        StreamRef(alias, info(name, site), RangeWindow(30_000))
        for alias, name, site in (("a", "l", "ash"), ("b", "r", "bow"))
    )
    edges = (Edge(ColumnRef("a", "key"), ColumnRef("b", "key")),)
    query = JoinQuery("", streams, edges, (OutputColumn("an", ColumnRef("a", "n")),))
    return forced_plan(query, "ash", algorithm, policy)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_step_takes_half_a_round_trip_for_each_message_and_twice_that_is_allowed(algorithm: Algorithm) -> None:
    assert delta_us(two(algorithm), RTT_US) == 2 * MESSAGES[algorithm] * 200_000


def test_delays_add_up_along_a_sequence_and_the_longest_sequence_counts() -> None:
    #  SP-D, half round trips in ms:   a: ash-bow 200, bow-cam 500 = 700   c: cam-bow 500, bow-ash 200 = 700
    #                                  b: bow-ash 200, then ash-cam, which nobody measured
    assert delta_us(chain(Algorithm.SP_D), RTT_US) == 2 * 700_000
    slow_corner = RTT_US | {("cam", "ash"): 3_000_000}
    assert delta_us(chain(Algorithm.SP_D), slow_corner) == 2 * (200_000 + 1_500_000)


def test_a_join_at_the_source_pays_every_link_from_there() -> None:
    #  SP-S: a stays at ash: bow's batch 200, cam's batch (ash-cam) 0; b stays at bow: 200 + 500
    assert delta_us(chain(Algorithm.SP_S), RTT_US) == 2 * 700_000


def test_the_longer_of_two_measurements_of_one_link_counts() -> None:
    for pair in (("ash", "bow"), ("bow", "ash")):
        rtts = {("ash", "bow"): 300_000, ("bow", "ash"): 300_000} | {pair: 900_000}
        assert delta_us(two(Algorithm.SP_D), rtts) == 900_000


def test_steps_within_a_site_cost_nothing() -> None:
    assert delta_us(chain(Algorithm.SM_D2, sites="ash ash ash"), {("ash", "ash"): 10**9}) == 100_000


def test_links_without_delay_still_need_a_little_time() -> None:
    assert delta_us(two(Algorithm.SP_D), {}) == 100_000
    assert delta_us(two(Algorithm.SP_D), {("ash", "bow"): 100}) == 100_000


def test_a_given_delta_wins_over_what_was_measured() -> None:
    assert delta_us(two(Algorithm.SM_D2, Policy(PolicyName.DELTA, 5)), RTT_US) == 5
    assert delta_us(two(Algorithm.SM_D2, Policy(PolicyName.DELTA, 10**9)), RTT_US) == 10**9


def test_frontiers_need_no_delta() -> None:
    assert delta_us(two(Algorithm.SM_D2, Policy()), RTT_US) == 0


def test_home_collects_the_round_trips_of_all_sites_and_tells_delta_with_the_start() -> None:
    home = HomeQuery("q1", two(Algorithm.SM_S1))
    assert not home.prepared("ash", Prepared("q1", 3, None, (("bow", 300_000),)))
    assert home.prepared("bow", Prepared("q1", 4, None, (("ash", 500_000), ("cam", 10**9))))
    assert home.start() == Start("q1", 4, None, 2 * 2 * 250_000)
