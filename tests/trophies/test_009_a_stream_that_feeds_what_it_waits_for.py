"""Found by seed 50168 of the simulator, when queries began to go over to trees.

s2 is a part of the kept join, under the name e, and a head of the query that reads it, under the name a. A walk of c in
the kept join goes over many ticks, and so waits for s2 to come so far. But a waited for the kept join, which waited for
that walk; with as much of a under way as is allowed s2 was not read on, for ever.
"""

from __future__ import annotations

from dataclasses import replace

from node.core.limits import Limits
from tests.sim.check import check
from tests.sim.scenarios.predicates import Col
from tests.sim.scenarios.queries import Kept, QuerySpec, Ref, Way
from tests.sim.scenarios.scenario import Scenario, StreamData


def test_a_kept_join_holds_a_stream_back_that_feeds_it_and_its_reader_does_not() -> None:
    sparse = StreamData("s1", "ash", "ms", 0, (0, 1_000, 1_001), (1, 1, 1), "int")
    dense = StreamData("s2", "bow", "ms", 0, tuple(range(0, 1_200, 10)), (1,) * 120, "int")
    refs = tuple(Ref(alias, stream, ("range", 30)) for alias, stream in (("e", "s2"), ("a", "s2"), ("c", "s1")))
    kept = Kept("pairs", ("e", "c"), "bow", (Way("e", (("c", "SP-D"),)), Way("c", (("e", "SP-D"),))))
    query = QuerySpec(
        refs=refs,
        edges=((("e", "key"), ("a", "key")), (("e", "key"), ("c", "key"))),
        outputs=tuple((f"{alias}_n", Col(alias, "n")) for alias in "eac"),
        sink="ash",
        ways=(Way("pairs", (("a", "SP-D"),)), Way("a", (("pairs", "SP-D"),))),
        kept=(kept,),
    )
    limits = replace(Limits(), ahead_batches_max=2)
    check(Scenario(10, ("ash", "bow"), (sparse, dense), (query,), 10, 3, 100, False, False, limits=limits))
