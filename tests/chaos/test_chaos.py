"""Faults on real processes behind the real Toxiproxy: rows are the oracle's, memory is bounded, and status tells.

Some run every time. All, and a short sustained run, with NARROWS_CHAOS=1; ``python -m tests.chaos`` is the long one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.load import SITES, load
from tests.chaos.rig import RSS_MAX, Ask, Rig, play, rigged
from tests.chaos.scenarios import BY_NAME, SCENARIOS
from tests.chaos.sustained import Sustained, sustained
from tests.e2e.harness import assert_same_rows, eventually, narrows, new_tag, none_left

EVERYTHING = bool(os.environ.get("NARROWS_CHAOS"))
#: Those that happen one after another to one cluster.
ALWAYS = (("a reader that trickles", "a cut longer than the window", "a machine that hangs"),)
OTHERS = tuple((each.name,) for each in SCENARIOS if not any(each.name in names for names in ALWAYS))
CHOSEN = (*ALWAYS, *(OTHERS if EVERYTHING else ()))
#: How long a test may take, and its load lasts: it is hurried at the end.
SECONDS = 600
#: How long a load lasts that plays to its end by the clock: Spark's, and one whose query goes by the clock.
UNHURRIED_S = 60
#: Tuples a second in each stream.
PER_S = 300


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    tag = new_tag()
    yield
    none_left(tag)


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("names", CHOSEN, ids=", ".join)
def test_rows_are_exact_memory_is_bounded_and_status_tells(tmp_path: Path, names: tuple[str, ...]) -> None:
    scenarios = [BY_NAME[name] for name in names]
    live = any(scenario.live for scenario in scenarios)
    given = load(UNHURRIED_S if live else SECONDS, PER_S)
    query = given.pair_with_live if live else given.pair
    disk = any(scenario.disk for scenario in scenarios)
    with rigged(tmp_path, given, [Ask(query)], live=live, small_disks=disk) as rig:
        if disk and rig.stage.disks is not None and rig.stage.disks.unmounted:
            pytest.skip(f"a small file system cannot be mounted here: {rig.stage.disks.unmounted}")
        for scenario in scenarios:
            assert rig.stage.daemons.query_info(rig.followed[0].query_id).state != "completed", "there is load"
            played = play(scenario, rig)
            assert not played.wrong
        ask = ("status", "--config", tmp_path / "cluster.toml")
        eventually("status says so", lambda: "What is going on\n  all is well: 3 sites" in narrows(*ask).ok().out)
        # Of this load: what is hurried comes at once.
        assert_bounded(rig)
        if not live:
            fast = ("--latency", "1ms", "--jitter", "0ms", "--bandwidth", "unlimited")
            narrows("wan", "set", "--config", tmp_path / "cluster.toml", *fast).ok()
            rig.stage.daemons.hurry()
        rig.finish()
    assert_same_rows(rig.followed[0].rows(), query.expected())


@pytest.mark.timeout(600)
@pytest.mark.skipif(not EVERYTHING, reason="NARROWS_CHAOS is not set")
def test_beyond_delta_the_frontier_is_exact_and_delta_counts_its_wrong_moments(tmp_path: Path) -> None:
    """Latency jumps to several times the delta that was measured when the query started."""
    given = load(UNHURRIED_S, PER_S)
    by_clock = Ask(given.pair, options=("--algorithm", "SP-D", "--policy", "delta"))
    with rigged(tmp_path, given, [Ask(given.pair), by_clock], live=False) as rig:
        assert rig.stage.delta_ms is not None
        assert rig.stage.delta_ms < 800
        assert not play(BY_NAME["latency beyond delta"], rig).wrong
        assert "so rows may be missing" in rig.watch.says(f"query {rig.followed[1].query_id} goes by the clock")
        rig.finish()
    want = given.pair.expected()
    exact, some = (each.rows() for each in rig.followed)
    assert_same_rows(exact, want)
    keys = ["seq0", "seq1"]
    assert 0 < some.num_rows <= want.num_rows
    assert some.join(want.select(keys), keys, join_type="left anti").num_rows == 0


@pytest.mark.timeout(900)
@pytest.mark.skipif(not EVERYTHING, reason="NARROWS_CHAOS is not set")
def test_one_cluster_survives_what_happens_to_it_under_sustained_load(tmp_path: Path) -> None:
    figures = sustained(Sustained(seconds=40, seed=2), tmp_path, print)
    assert not figures.wrong
    assert figures.played
    assert all(query.rows for query in figures.queries)
    assert "**Passed**" in figures.text()


def assert_bounded(rig: Rig) -> None:
    peaks = {site: rig.memory.peak(site) for site in SITES}
    assert max(peaks.values()) < RSS_MAX, peaks
