"""Found by seed 9769 of the simulator, the only one of its first 10,000 that was wrong.

q2 begins in the past. Its table of east was filled, and forgot what no walk of q2 could see any more, before the holder
of q2's M had opened it. Then M was filled from the log, with keys whose oldest tuples could be fetched nowhere. q3,
prepared meanwhile, could have leased that M and would have taken such a key for complete. Now a table keeps what M may
fetch from the moment on when a query is prepared that needs an M.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from node.core.limits import Limits
from tests.sim.check import check
from tests.sim.scenarios.queries import QuerySpec, Window, two_way_query
from tests.sim.scenarios.scenario import Fault, Scenario, StreamData

WEST = StreamData("west", "ash", "ms", 0, (99, 104), (1, 1), "narrow", retain_ms=35)
TIMES = (4, 6, 9, 14, 14, 17, 18, 23, 113, 118, 121, 124)
KEYS = (0, None, 1, None, 1, 0, 2, 1, None, 10, 11, 11)
EAST = StreamData("east", "bow", "ms", 0, TIMES, KEYS, "int", retain_ms=7000)


def mixed(west: Window, east: Window, sink: str, after_reads: int) -> QuerySpec:
    """A query that holds an M of each stream at the other's site, issued when sources were read that often."""
    query = two_way_query(("west", "east"), (west, east), sink, ("SM-S2", "SM-S2"), "frontier")
    return replace(query, after_reads=after_reads)


@pytest.mark.parametrize(
    ("seed", "cut_us", "west", "east"),
    [(37, 100_000, ("range", 56), ("range", 56)), (1, 85_799, ("range", 0), ("rows", 6))],
)
def test_what_m_may_fetch_is_kept_before_m_is_opened(seed: int, cut_us: int, west: Window, east: Window) -> None:
    scenario = Scenario(
        seed=seed,
        sites=("ash", "bow", "cam"),
        streams=(WEST, EAST),
        queries=(
            mixed(("range", 56), ("range", 7), "bow", 0),
            mixed(("rows", 6), ("range", 7), "cam", 8),
            mixed(west, east, "cam", 9),
        ),
        tau_ms=7,
        chunk_rows_max=4,
        delay_us_max=50_000,
        paced=True,
        reference_engine=False,
        faults=(Fault(cut_us, 5_000_000, ("ash", "bow"), silent=True),),
        limits=Limits(
            ahead_bytes_max=500,
            ahead_batches_max=1,
            part_bytes_max=7,
            inflight_bytes_max=35,
            ack_bytes=34,
            ack_us=2_000_000,
            news_held_max=8,
        ),
    )
    check(scenario)
