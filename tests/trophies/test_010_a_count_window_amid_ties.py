"""Found by seed 7651 of the simulator, when copies of keys (V) began to say by event time what is gone of them.

A count window of two tuples began amid three tuples of one time. The owner forgot the first of these and said that all
before the next time is gone, so its holder had keys of what it took for gone: V was not what it is defined to be.
"""

from __future__ import annotations

from node.core.limits import Limits
from tests.sim.check import check
from tests.sim.scenarios.predicates import Col
from tests.sim.scenarios.queries import QuerySpec, Ref, Way
from tests.sim.scenarios.scenario import Scenario, StreamData

LIMITS = Limits(
    ahead_bytes_max=1,
    ahead_batches_max=1,
    inflight_bytes_max=104857600,
    piece_bytes_min=100,
    piece_bytes_unknown=100,
    ack_bytes=104857599,
    news_held_max=1,
    book_questions_max=3,
    book_keys_max=1,
    ended_queries_max=10,
)
SCENARIO = Scenario(
    seed=7651,
    sites=("ash", "bow", "cam"),
    streams=(
        StreamData(
            name="left",
            site="ash",
            unit="ms",
            lateness_ms=7,
            ts=(1453, 1451, 1462, 1458),
            keys=(0, 1, 1, -1),
            key_type="int",
            retain_ms=35,
        ),
        StreamData(
            name="right",
            site="bow",
            unit="ms",
            lateness_ms=21,
            ts=(113, 116, 126, 126, 126),
            keys=(2, 3, 6, 7, 6),
            key_type="int",
        ),
    ),
    queries=(
        QuerySpec(
            refs=(
                Ref(alias="a", stream="left", window=("range", 56)),
                Ref(alias="b", stream="right", window=("range", 7)),
            ),
            edges=((("a", "key"), ("b", "key")),),
            outputs=(
                ("an", Col(alias="a", column="n")),
                ("bn", Col(alias="b", column="n")),
                ("bt", Col(alias="b", column="text")),
            ),
            sink="ash",
            ways=(Way(head="a", steps=(("b", "SM-D1"),)), Way(head="b", steps=(("a", "SM-D1"),))),
            after_reads=9,
        ),
        QuerySpec(
            refs=(
                Ref(alias="a", stream="left", window=("range", 56)),
                Ref(alias="b", stream="right", window=("rows", 2)),
            ),
            edges=((("a", "key"), ("b", "key")),),
            outputs=(
                ("an", Col(alias="a", column="n")),
                ("bn", Col(alias="b", column="n")),
                ("bt", Col(alias="b", column="text")),
            ),
            sink="bow",
            ways=(Way(head="a", steps=(("b", "SM-D1"),)), Way(head="b", steps=(("a", "SM-D1"),))),
            after_reads=10,
        ),
    ),
    tau_ms=7,
    chunk_rows_max=1,
    delay_us_max=50000,
    paced=False,
    reference_engine=False,
    limits=LIMITS,
)


def test_what_is_gone_of_keys_is_all_of_a_time_or_nothing_of_it() -> None:
    check(SCENARIO)
