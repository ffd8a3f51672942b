"""Faults on real processes behind the real Toxiproxy: rows are the oracle's, memory is bounded, and status tells.

A few of them run every time; all, with more data, by NARROWS_CHAOS=seconds of load (``make chaos``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from netsim.network import found
from netsim.proxies import Proxies
from tests.chaos.scenarios import SCENARIOS, Scenario, Stage
from tests.e2e.cases import steady
from tests.e2e.harness import Background, Daemons, assert_same_rows, eventually, narrows, write_cluster

SITES = ("alpha", "beta", "gamma")
ALWAYS = ("a cut longer than the window", "a cut in one direction", "a machine that hangs")
SECONDS = int(os.environ.get("NARROWS_CHAOS", "0"))
CHOSEN = [each for each in SCENARIOS if SECONDS or each.name in ALWAYS]
#: A daemon that has just started has about 120 MB; what waits for a link is bounded by limits far below this.
RSS_MAX = 600 << 20
WAN = '\n[wan]\nlatency = "20ms"\njitter = "2ms"\nbandwidth = "2 Mbit/s"\n'


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """A cluster whose network is up."""
    join = steady(*load())
    config = write_cluster(tmp_path, join.streams, sites=SITES)
    config.write_text(config.read_text() + WAN)
    narrows("wan", "up", "--config", config).ok()
    yield config
    narrows("wan", "down", "--config", config).ok()


def load() -> tuple[int, int]:
    """Seconds of data, and tuples in a second of each stream."""
    return (max(12, SECONDS // len(SCENARIOS)), 400) if SECONDS else (9, 150)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", CHOSEN, ids=[scenario.name for scenario in CHOSEN])
def test_rows_are_exact_whatever_happens(config: Path, scenario: Scenario) -> None:
    join = steady(*load())
    rows = config.parent / "rows.parquet"
    with Daemons(config, None, ("--speed", "1")).start(*SITES).linked() as daemons:
        asked = ("query", "--config", config, "--at", "gamma", join.text, "--out", rows)
        reader = Background(*asked, name="query", folder=config.parent)
        try:
            eventually("the query is issued", lambda: reader.err.startswith("query "))
            largest = _play(scenario, Stage(Proxies(found(config).port), daemons, reader), config)
            reader.end(300).ok()
        finally:
            reader.kill()
    assert_same_rows(pq.read_table(rows), join.expected())
    assert largest < RSS_MAX


def _resident(pid: int) -> int:
    """Memory now. The peak that a daemon reports includes that of the process it was forked from."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _play(scenario: Scenario, stage: Stage, config: Path) -> int:
    """Let it happen; the most memory that a daemon had."""
    began, said, largest = time.monotonic(), scenario.said, 0
    for at, act in scenario.moments:
        while time.monotonic() - began < at:
            if said is not None and time.monotonic() - began > said[0]:
                text = said[1]
                eventually(f"status says {text}", lambda text=text: text in narrows("status", "--config", config).out)  # type: ignore[misc]
                said = None
            time.sleep(0.05)
        act(stage)
        largest = max([largest, *(_resident(node.process.pid) for node in stage.daemons.nodes.values())])
    assert said is None, "the scenario ended before status was asked"
    return largest
