"""A few hundred seeds on every run of the tests; ``make sim SEEDS=10000`` runs more."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest

from node.core.effects import IgnoreReason
from tests.sim.check import check_seed
from tests.sim.crashes import KINDS
from tests.sim.runs.exhaustive import Tried, try_single
from tests.sim.runs.many import totals_of

SEEDS = 150
#: Plans of which every crash is tried; ``python -m tests.sim --exhaustive`` does all, and every two crashes.
PLANS = ("SM-S2", "SM-S1 and SM-D1 with count windows", "SP-S, then SM-S1", "SP-D, then a tree")


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


@pytest.fixture(scope="module")
def tried() -> list[Tried]:
    """What came of a crash at every step of small runs."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return list(pool.map(partial(try_single, distinct=True), PLANS))


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
        "copy checks after a recovery",
        "invariant checks",
        "checks of both halves after a crash",
        "checks of what home tells",
        "recoveries completed",
        "crashes while records were written",
        "crashes while rows were stored",
        "crashes while logs were read",
        "crashes of a home that recovers",
        "batches of kept joins",
        "kept joins begun again",
        "switches of trees switched",
        "queries that look back",
        "queries that see what was before they began",
        "switches at once",
    ],
)
def test_the_seeds_reach(what: str, totals: Counter[str]) -> None:
    assert totals[what] > 0


#: Links deliver once, so no walk comes twice; a walk outlives its query only where an engine or a store fails; and no
#: site of a simulated cluster leaves its configuration.
NEVER_IN_A_SEED = (IgnoreReason.DUPLICATE_WALK, IgnoreReason.WALK_OVER, IgnoreReason.UNKNOWN_SITE)


@pytest.mark.parametrize("reason", [reason for reason in IgnoreReason if reason not in NEVER_IN_A_SEED])
def test_what_can_be_ignored_is_ignored_in_some_seed(reason: IgnoreReason, totals: Counter[str]) -> None:
    assert totals[reason] > 0


def test_a_daemon_may_die_at_any_step(tried: list[Tried]) -> None:
    wrong = [text for one in tried for text in one.wrong]
    assert not wrong, "\n".join(wrong[:3])
    assert sum(one.runs for one in tried) > 150


def test_daemons_die_before_or_after_everything_they_do(totals: Counter[str], tried: list[Tried]) -> None:
    hits: Counter[str] = Counter()
    for one in tried:
        hits.update(one.hits)
    for kind in KINDS:
        hits[kind.removeprefix("before ").removeprefix("after ")] += hits[kind] + totals[f"crash {kind}"]
    never = {kind.removeprefix("before ").removeprefix("after ") for kind in KINDS if not kind.startswith("after")}
    assert {what for what in never if not hits[what]} == set()


@pytest.mark.parametrize("seed", [1, 3, 4, 5])
def test_a_seed_tells_the_same_story_twice(seed: int) -> None:
    """Also one with queries over many streams, and one with a crowd of queries."""
    assert check_seed(seed).story == check_seed(seed).story
