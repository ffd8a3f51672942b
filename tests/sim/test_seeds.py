"""A few hundred seeds on every run of the tests; ``make sim SEEDS=10000`` runs more."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from node.core.effects import IgnoreReason
from tests.sim.check import check_seed
from tests.sim.many import totals_of

SEEDS = 150


@pytest.fixture(scope="module")
def outcomes() -> list[tuple[dict[str, int], str]]:
    """What each seed did, in figures, or what went wrong."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return list(pool.map(totals_of, range(SEEDS), chunksize=10))


@pytest.fixture(scope="module")
def totals(outcomes: list[tuple[dict[str, int], str]]) -> Counter[str]:
    """All of them together."""
    found: Counter[str] = Counter()
    for counts, _ in outcomes:
        found.update(counts)
    return found


def test_every_seed_delivers_exactly_what_the_oracle_says(outcomes: list[tuple[dict[str, int], str]]) -> None:
    troubles = [trouble for _, trouble in outcomes if trouble]
    assert not troubles, "\n\n".join(troubles[:3])


def test_the_seeds_join_and_lose_frames(totals: Counter[str]) -> None:
    """A simulator that joins nothing or loses nothing proves nothing."""
    assert totals["rows"] > 10 * SEEDS
    assert totals["frames lost"] > SEEDS // 4


@pytest.mark.parametrize(
    "what",
    [
        "tables shared",
        "copies shared",
        "copies shared, full",
        "copies shared, keys",
        "copies shared, mixed",
        "copies shared, reduced",
        "wide copies opened",
        "copies leased by another query",
        "tables begun in the past",
        "copies begun in the past",
        "copy checks",
        "invariant checks",
    ],
)
def test_the_seeds_reach(what: str, totals: Counter[str]) -> None:
    assert totals[what] > 0


@pytest.mark.parametrize(
    "reason",
    [reason for reason in IgnoreReason if reason not in (IgnoreReason.DUPLICATE_WALK, IgnoreReason.WALK_OVER)],
)
def test_what_can_be_ignored_is_ignored_in_some_seed(reason: IgnoreReason, totals: Counter[str]) -> None:
    """Links deliver once, so no walk comes twice; a walk outlives its query only where an engine or a store fails."""
    assert totals[reason] > 0


@pytest.mark.parametrize("seed", [1, 3, 4, 5])
def test_a_seed_tells_the_same_story_twice(seed: int) -> None:
    """Also one with queries over many streams, and one with a crowd of queries."""
    assert check_seed(seed).story == check_seed(seed).story
