"""Found end to end, with event times near 2**61 ms; the simulator had left the origin of its streams unset.

To align paced replays, sites tell each other the time of their first tuple. It
was told in microseconds, which such a time does not fit: encoding it raised, and
the daemon ended. It is told in milliseconds, which every event time fits.
"""

from __future__ import annotations

import pytest

from tests.sim.check import check
from tests.sim.scenarios.scenario import StreamData, two_way


@pytest.mark.parametrize("origin", [2**61, -(2**61)])
def test_times_too_large_for_microseconds_are_joined(origin: int) -> None:
    left = StreamData("left", "ash", "ms", 0, (origin, origin + 1), (1, 2), "int")
    right = StreamData("right", "bow", "ms", 0, (origin, origin + 5), (1, 2), "int")
    scenario = two_way(
        seed=1,
        sites=("ash", "bow"),
        streams=(left, right),
        sink="bow",
        algorithms=("SP-S", "SP-D"),
        tau_ms=10,
        windows=(("range", 5), ("range", 5)),
        chunk_rows_max=10,
        delay_us_max=100,
        paced=False,
        reference_engine=False,
    )
    assert check(scenario).rows.num_rows == 2
