"""Found by seed 113 of the simulator, the first with queries that share copies.

A query that is dropped may leave copies behind, which their holder keeps until the owner says that nobody
else uses them. A copy that nobody can share, because its batches start walks, is gone at once. A batch
for that one was still on its way; the holder found the query, not the copy, and blamed the owner.
"""

from __future__ import annotations

from dataclasses import replace

from tests.sim.check import check
from tests.sim.scenarios.predicates import Col
from tests.sim.scenarios.queries import QuerySpec, Ref, Way
from tests.sim.scenarios.scenario import Scenario, StreamData


def test_a_batch_for_a_copy_that_went_with_its_query_is_ignored() -> None:
    query = QuerySpec(
        refs=(Ref("a", "s", ("range", 100)), Ref("b", "s", ("range", 100))),
        edges=((("a", "key"), ("b", "key")),),
        outputs=(("n", Col("a", "n")),),
        sink="bow",
        # Walks of a start at bow, where their batches come for a full copy, and look into V of b there.
        ways=(Way("a", (("b", "SM-D1"),), "bow"), Way("b", (("a", "SP-D"),))),
        drop_after_reads=6,
    )
    scenario = Scenario(
        seed=0,
        sites=("ash", "bow"),
        streams=(StreamData("s", "ash", "ms", 0, tuple(range(0, 200, 10)), (1,) * 20, "int"),),
        queries=(query,),
        tau_ms=10,
        chunk_rows_max=2,
        delay_us_max=50_000,
        paced=False,
        reference_engine=False,
    )
    for seed in range(10):
        check(replace(scenario, seed=seed))
