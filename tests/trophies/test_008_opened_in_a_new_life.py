"""Found by seeds 3733 and 4784 of the simulator.

ash restarts while its link with bow is cut, and takes part in q1 in its new life. bow prepares q1, then hears of the
restart and ends q1. The OpenCopy of ash's new life for q1 is honest; bow blamed ash for it, because what was still
to be opened for ash had been forgotten with its old life.
"""

from __future__ import annotations

from dataclasses import replace

from tests.sim.check import check
from tests.sim.scenarios.scenario import Fault, Restart, StreamData, two_way


def test_a_copy_that_a_new_life_opens_is_expected() -> None:
    west = StreamData("west", "ash", "ms", 0, (1699,), (7,), "int")
    east = StreamData("east", "bow", "us", 21, (106_627,), (7,), "int")
    scenario = two_way(
        seed=3733,
        sites=("ash", "bow", "cam"),
        streams=(west, east),
        sink="cam",
        algorithms=("SM-D1", "SM-D1"),
        tau_ms=7,
        windows=(("range", 0), ("range", 0)),
        chunk_rows_max=1,
        delay_us_max=10,
        paced=False,
        reference_engine=True,
        faults=(Fault(88_518, 5_000_000, ("ash", "cam"), False), Fault(1_555_283, 5_000_000, ("ash", "bow"), False)),
    )
    queries = tuple(replace(query, after_reads=27) for query in scenario.queries)
    check(replace(scenario, queries=queries, restarts=(Restart(2_384_365, "ash", fresh=True),)))
