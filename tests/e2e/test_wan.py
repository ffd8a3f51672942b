"""Real daemons behind the real Toxiproxy server: latency, thin links, cuts, and two counts of the same bytes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from netsim.network import found
from netsim.profiles import Change, Shape, Wan
from netsim.proxies import Proxies
from netsim.state import state_path
from tests.e2e.cases import steady
from tests.e2e.harness import (
    Background,
    Daemons,
    Join,
    Stream,
    assert_same_rows,
    eventually,
    narrows,
    run,
    write_cluster,
)
from tests.sim.scenario import StreamData, two_way
from tests.sim.world import World

WAN = '\n[wan]\nlatency = "30ms"\nbandwidth = "1 Mbit/s"\n'


def cluster_with_wan(folder: Path, join: Join, wan: str = WAN, sites: Sequence[str] = ("alpha", "beta")) -> Path:
    config = write_cluster(folder, join.streams, sites=sites)
    config.write_text(config.read_text() + wan)
    return config


def test_run_brings_the_network_up_counts_with_it_and_takes_it_down(tmp_path: Path) -> None:
    """The proxy's count of each direction is that of our ledger, within two percent."""
    join = steady(10, 400, noise_bytes=20)
    config = cluster_with_wan(tmp_path, join)
    ran = run(config, join.text, "--speed", "4")
    assert_same_rows(ran.rows, join.expected())
    assert not state_path(config).exists()
    counted = {(way["from"], way["to"]): way["bytes"] for way in ran.stats["proxies"]}
    for link in ran.stats["links"]:
        ours, theirs = link["bytes"], counted[link["from"], link["to"]]
        assert theirs > 50_000
        assert abs(ours - theirs) <= 0.02 * theirs, (link, counted)
        assert link["round_trip_ms"] >= 60


def test_links_are_cut_and_changed_while_a_query_runs_and_rows_stay_exact(tmp_path: Path) -> None:
    """Also: a link is one connection, so that the bandwidth of a proxy is that of the link."""
    join = steady(8)
    config = cluster_with_wan(tmp_path, join, sites=("alpha", "beta", "gamma"))
    shown = narrows("wan", "up", "--config", config).ok().out
    assert "1,000 kbit/s" in shown
    try:
        with Daemons(config, None, ("--speed", "2")).start("alpha", "beta", "gamma").linked():
            rows = tmp_path / "rows.parquet"
            asked = ("query", "--config", config, "--at", "gamma", join.text, "--out", rows)
            command = Background(*asked, name="query", folder=tmp_path)
            try:
                eventually("the query is issued", lambda: command.err.startswith("query "))
                narrows("wan", "cut", "--config", config, "alpha", "beta", "--one-way").ok()
                assert "cut" in narrows("wan", "show", "--config", config).ok().out
                time.sleep(1)
                narrows("wan", "heal", "--config", config).ok()
                narrows("wan", "cut", "--config", config, "beta", "gamma", "--refuse").ok()
                time.sleep(1)
                narrows("wan", "heal", "--config", config).ok()
                narrows(
                    "wan", "set", "--config", config, "alpha", "gamma", "--latency", "150ms", "--jitter", "5ms"
                ).ok()
                ways = {(way.source, way.target): way for way in Proxies(found(config).port).ways()}
                assert ways["alpha", "gamma"].shape == ways["gamma", "alpha"].shape == Shape(150, 5, 125_000.0)
                assert not any(way.cut for way in ways.values())
                command.end(120).ok()
            finally:
                command.kill()
            assert_same_rows(pq.read_table(rows), join.expected())
    finally:
        narrows("wan", "down", "--config", config).ok()
    assert not state_path(config).exists()


def test_the_simulator_and_real_daemons_agree_on_one_network(tmp_path: Path) -> None:
    """The same profile, streams and plan in both worlds: the same rows, and nearly the same bytes, but for framing."""
    random = np.random.default_rng(5)
    sites = ("alpha", "beta")
    data = [simulated(random, name, site) for name, site in zip(("left", "right"), sites, strict=True)]
    wan = Wan("none", Change(latency_ms=20, bytes_per_s=125_000.0))
    scenario = two_way(
        seed=1,
        sites=sites,
        streams=(data[0], data[1]),
        sink="alpha",
        algorithms=("SM-D1", "SM-D1"),
        tau_ms=100,
        windows=(("range", 2_000), ("range", 1_000)),
        chunk_rows_max=100,
        delay_us_max=100,
        paced=False,
        reference_engine=False,
        live=True,
    )
    world = World(replace(scenario, wan=wan))
    outcome = world.run()
    streams = [Stream(each.name, each.table(), each.site) for each in data]
    config = write_cluster(tmp_path, streams, sites=sites)
    config.write_text(config.read_text() + '\n[wan]\nlatency = "20ms"\nbandwidth = "1 Mbit/s"\n')
    ran = run(config, scenario.queries[0].text, "--algorithm", "SM-D1", "--at", "alpha", "--speed", "1")
    assert outcome.rows.num_rows > 200
    assert_same_rows(ran.rows, outcome.rows)
    for link in ran.stats["links"]:
        # Framing is gRPC's, which is not simulated.
        real = link["bytes"] - link["bytes_by_kind"]["framing"]
        assert 0.8 < world.nbytes[link["from"], link["to"]] / real < 1.25, (link, world.nbytes)


def simulated(random: np.random.Generator, name: str, site: str) -> StreamData:
    ts = tuple(sorted(int(each) for each in random.integers(0, 8_000, 600)))
    keys = tuple(int(each) for each in random.integers(0, 300, 600))
    return StreamData(name, site, "ms", 0, ts, keys, "int")


def test_what_is_wrong_with_a_network_is_said(tmp_path: Path) -> None:
    join = steady(1)
    config = cluster_with_wan(tmp_path, join)
    narrows("node", "--config", config, "--site", "alpha").failed(1, "is not up", "narrows wan up")
    narrows("wan", "show", "--config", config).failed(1, "is not up")
    without = write_cluster(tmp_path, join.streams, file="without.toml")
    narrows("wan", "up", "--config", without).failed(1, "a [wan] table required")
    narrows("wan", "up", "--config", config).ok()
    try:
        narrows("wan", "up", "--config", config).failed(1, "is up already")
        narrows("wan", "cut", "--config", config, "alpha").failed(1, "two different sites required")
        narrows("wan", "set", "--config", config, "--latency", "long").failed(1, "--latency", "required a duration")
        narrows("wan", "cut", "--config", config, "alpha", "gama").failed(2, "gama")
    finally:
        narrows("wan", "down", "--config", config).ok()
    narrows("wan", "down", "--config", config).failed(1, "is not up")
