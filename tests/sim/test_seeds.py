"""A few hundred seeds on every run of the tests; ``make sim SEEDS=10000`` runs more."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.sim.check import check_seed
from tests.sim.many import totals_of

SEEDS = 400


def test_every_seed_delivers_exactly_what_the_oracle_says() -> None:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        outcomes = list(pool.map(totals_of, range(SEEDS), chunksize=20))
    troubles = [trouble for _, trouble in outcomes if trouble]
    assert not troubles, "\n\n".join(troubles[:3])
    rows = sum(counts["rows"] for counts, _ in outcomes)
    lost = sum(counts.get("frames lost", 0) for counts, _ in outcomes)
    # A simulator that joins nothing or loses nothing proves nothing.
    assert rows > 10 * SEEDS
    assert lost > SEEDS // 4


def test_a_seed_tells_the_same_story_twice() -> None:
    assert check_seed(3).story == check_seed(3).story
