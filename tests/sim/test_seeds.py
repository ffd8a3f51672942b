"""A few hundred seeds on every run of the tests; ``make sim SEEDS=10000`` runs more."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.sim.check import check_seed
from tests.sim.many import totals_of

SEEDS = 150


def test_every_seed_delivers_exactly_what_the_oracle_says() -> None:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        outcomes = list(pool.map(totals_of, range(SEEDS), chunksize=20))
    troubles = [trouble for _, trouble in outcomes if trouble]
    assert not troubles, "\n\n".join(troubles[:3])
    rows = sum(counts["rows"] for counts, _ in outcomes)
    lost = sum(counts.get("frames lost", 0) for counts, _ in outcomes)
    shared = sum(counts.get("halves shared by queries", 0) > 0 for counts, _ in outcomes)
    # A simulator that joins nothing, loses nothing or shares nothing proves nothing.
    assert rows > 10 * SEEDS
    assert lost > SEEDS // 4
    assert shared > SEEDS // 50


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_a_seed_tells_the_same_story_twice(seed: int) -> None:
    """Also one with queries over many streams."""
    assert check_seed(seed).story == check_seed(seed).story
