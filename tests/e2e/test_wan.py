"""Real daemons behind the real Toxiproxy server: latency, thin links, cuts, and two counts of the same bytes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cli.commands.wan import command as wan
from netsim.network import found
from netsim.profiles import Change, Shape, Wan
from netsim.proxies import Proxies
from netsim.state import state_path
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError
from tests.e2e.cases import lasting, steady
from tests.e2e.connections import Watch, dialled, dialled_by
from tests.e2e.harness import (
    Background,
    Daemons,
    Join,
    Stream,
    assert_same_rows,
    eventually,
    issued,
    narrows,
    run,
    write_cluster,
)
from tests.sim.scenarios.scenario import StreamData, two_way
from tests.sim.world import World

WAN = '\n[wan]\nlatency = "30ms"\nbandwidth = "1 Mbit/s"\n'


def told(config: Path, *words: str) -> str:
    """What ``narrows wan`` says, without the time that another process takes to start."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        assert wan.main([words[0], "--config", str(config), *words[1:]], standalone_mode=False) == 0
    return said.getvalue()


def refused(config: Path, *words: str, said: Sequence[str]) -> None:
    with pytest.raises(NarrowsError) as error:
        told(config, *words)
    missing = [word for word in said if word not in str(error.value)]
    assert not missing, f"no {missing} in {error.value}"


def cluster_with_wan(folder: Path, join: Join, wan: str = WAN, sites: Sequence[str] = ("alpha", "beta")) -> Path:
    config = write_cluster(folder, join.streams, sites=sites)
    config.write_text(config.read_text() + wan)
    return config


def test_run_brings_the_network_up_counts_with_it_and_takes_it_down(tmp_path: Path) -> None:
    """The proxy's count of each direction is that of our ledger, within two percent, over a reconnect too.

    Where next to nothing passes, what gRPC says on its own account weighs more: there also within 250 bytes.
    """
    join = steady(30, 200, noise_bytes=40)
    config = cluster_with_wan(tmp_path, join, sites=("alpha", "beta", "gamma"))
    out, stats = tmp_path / "rows.parquet", tmp_path / "stats.json"
    words = ("run", config, "--query", join.text, "--at", "gamma", "--out", out, "--stats", stats, "--speed", "2")
    command = Background(*words, name="run", folder=tmp_path)
    try:
        eventually("the network is up", lambda: state_path(config).exists())
        proxies, daemons = Proxies(found(config).port), Daemons(config)
        eventually("rows pass", lambda: sent_bytes(daemons, "beta", "gamma") > 30_000)
        proxies.drop("beta", "gamma")
        eventually("the link is down", lambda: link_of(daemons, "beta", "gamma").state not in ("", "up"))
        proxies.restore("beta", "gamma")
        command.end().ok()
    finally:
        command.kill()
    assert_same_rows(pq.read_table(out), join.expected())
    assert not state_path(config).exists()
    ran = json.loads(stats.read_text())
    counted = {(way["from"], way["to"]): way["bytes"] for way in ran["proxies"]}
    assert len(counted) == len(ran["links"]) == 6
    by_way = {(link["from"], link["to"]): link for link in ran["links"]}
    assert min(by_way["beta", "gamma"]["reconnects"], by_way["gamma", "beta"]["reconnects"]) >= 1
    assert min(counted["alpha", "beta"], counted["beta", "alpha"], counted["beta", "gamma"]) > 50_000
    for way, link in by_way.items():
        ours, theirs = link["bytes"], counted[way]
        assert abs(ours - theirs) <= max(0.02 * theirs, 250), (way, ours, theirs)
        assert link["round_trip_ms"] >= 60
    assert abs(sum(link["bytes"] for link in ran["links"]) / sum(counted.values()) - 1) <= 0.02


def link_of(daemons: Daemons, source: str, target: str) -> pb.LinkStatus:
    status = daemons.status(source)
    links = status.links if status is not None else []
    return next((link for link in links if link.peer == target), pb.LinkStatus())


def sent_bytes(daemons: Daemons, source: str, target: str) -> int:
    return sum(link_of(daemons, source, target).sent_bytes.values())


def test_links_are_cut_and_changed_while_a_query_runs_and_rows_stay_exact(tmp_path: Path) -> None:
    """Also: a link is one connection all the time, so that what limits its proxy's connections limits the link."""
    join = lasting()
    config = cluster_with_wan(tmp_path, join, sites=("alpha", "beta", "gamma"))
    shown = told(config, "up")
    assert "1,000 kbit/s" in shown
    running = found(config)
    proxies = [int(listen.rpartition(":")[2]) for listen in running.listens.values()]
    #: Alpha is dialled by nobody, beta by alpha, gamma by both.
    behind = {site: int(address.rpartition(":")[2]) for site, address in running.addresses.items()}
    answered = {behind["alpha"]: 0, behind["beta"]: 1, behind["gamma"]: 2}
    try:
        with Daemons(config, None, ("--speed", "1")).start("alpha", "beta", "gamma").linked() as daemons:
            rows = tmp_path / "rows.parquet"
            asked = ("query", "--config", config, "--at", "gamma", join.text, "--out", rows)
            command = Background(*asked, name="query", folder=tmp_path)
            try:
                query_id = issued(command)
                with Watch(proxies) as watch:
                    told(config, "cut", "alpha", "beta", "--one-way")
                    shown = told(config, "show")
                    assert re.search(r"alpha +beta +cut +\d\d:\d\d:\d\d \(\d+ s\)", shown), shown
                    assert re.search(r"beta +alpha +up", shown), shown
                    shown = told(config, "set", "alpha", "beta", "--bandwidth", "800 kbit/s")
                    assert re.search(r"alpha +beta +cut .* 800 kbit/s", shown), shown
                    told(config, "heal")
                    shown = told(config, "cut", "beta", "gamma", "--refuse")
                    assert re.search(r"gamma +beta +refused", shown), shown
                    eventually("the link is down", lambda: link_of(daemons, "beta", "gamma").state not in ("", "up"))
                    told(config, "heal")
                    told(config, "set", "alpha", "gamma", "--latency", "150ms", "--jitter", "5ms")
                    ways = {(way.source, way.target): way for way in Proxies(running.port).ways()}
                    assert ways["alpha", "gamma"].shape == ways["gamma", "alpha"].shape == Shape(150, 5, 125_000.0)
                    assert not any(way.cut for way in ways.values())
                    daemons.linked()
                    eventually("there were enough looks", lambda: watch.looks > 20)
                assert daemons.query_info(query_id).state != "completed", "all that came while it ran"
                told(config, "set", "--latency", "5ms", "--bandwidth", "unlimited")
                daemons.hurry()
                command.end().ok()
            finally:
                command.kill()
            assert_same_rows(pq.read_table(rows), join.expected())
            daemons.linked()
            eventually("every link is there", lambda: dialled(proxies) == dict.fromkeys(proxies, 1))
            eventually("nothing is left behind", lambda: dialled_by(running.pid, answered) == answered)
        assert watch.one > watch.looks / 2
        assert watch.more == 0
    finally:
        told(config, "down")
    assert not state_path(config).exists()


def test_a_link_carries_what_its_bandwidth_allows_and_no_more(tmp_path: Path) -> None:
    """By our ledger, over the time that the query took; only the last 64 KiB may still be in buffers."""
    # Few tuples, and large ones: what is computed meanwhile takes next to no time, on a busy machine too.
    join = steady(6, 100, noise_bytes=500)
    config = cluster_with_wan(tmp_path, join, '\n[wan]\nbandwidth = "400 kbit/s"\n')
    ran = run(config, join.text)
    assert_same_rows(ran.rows, join.expected())
    allowed = 50_000 * ran.stats["seconds"]
    carried = [link["bytes"] for link in ran.stats["links"]]
    assert max(carried) <= 1.05 * allowed + 65_536
    assert max(carried) >= allowed / 3


def test_the_simulator_and_real_daemons_agree_on_one_network(tmp_path: Path) -> None:
    """The same profile, streams and plan in both worlds: the same rows, and nearly the same bytes.

    What differs is when sources are read: the batches of a replay are cut at other moments than in the simulator, and a
    daemon that is busy sends in one shipment what came to it one by one, which saves framing.
    """
    random = np.random.default_rng(5)
    sites = ("alpha", "beta")
    data = [simulated(random, name, site) for name, site in zip(("left", "right"), sites, strict=True)]
    shapes = Wan("none", Change(latency_ms=20, bytes_per_s=125_000.0))
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
    world = World(replace(scenario, wan=shapes))
    outcome = world.run()
    streams = [Stream(each.name, each.table(), each.site) for each in data]
    config = write_cluster(tmp_path, streams, sites=sites)
    config.write_text(config.read_text() + '\n[wan]\nlatency = "20ms"\nbandwidth = "1 Mbit/s"\n')
    ran = run(config, scenario.queries[0].text, "--algorithm", "SM-D1", "--at", "alpha", "--speed", "1")
    assert outcome.rows.num_rows > 200
    assert_same_rows(ran.rows, outcome.rows)
    for link in ran.stats["links"]:
        way = link["from"], link["to"]
        ours = link["bytes"] - link["bytes_by_kind"]["framing"]
        assert 0.88 < world.nbytes[way] / ours < 1.12, (link, world.nbytes)
        assert 0.8 < (world.nbytes[way] + world.framing[way]) / link["bytes"] < 1.25, (
            link,
            world.nbytes,
            world.framing,
        )


def simulated(random: np.random.Generator, name: str, site: str) -> StreamData:
    ts = tuple(sorted(int(each) for each in random.integers(0, 8_000, 600)))
    keys = tuple(int(each) for each in random.integers(0, 300, 600))
    return StreamData(name, site, "ms", 0, ts, keys, "int")


def test_what_is_wrong_with_a_network_is_said(tmp_path: Path) -> None:
    join = steady(1)
    config = cluster_with_wan(tmp_path, join)
    narrows("node", "--config", config, "--site", "alpha").failed(1, "is not up", "narrows wan up")
    narrows("wan", "set", "--config", config, "alpha", "--latency", "1ms").failed(2, "two different sites required")
    refused(config, "show", said=["is not up"])
    refused(config, "set", "--latency", "1ms", said=["is not up"])
    without = write_cluster(tmp_path, join.streams, file="without.toml")
    refused(without, "up", said=["a [wan] table required"])
    told(config, "up")
    try:
        refused(config, "up", said=["is up already", "narrows wan down"])
        refused(config, "cut", "alpha", said=["two different sites required"])
        refused(config, "cut", "alpha", "alpha", said=["two different sites required"])
        refused(config, "cut", "alpha", "beta", "--one-way", "--refuse", said=["--one-way or --refuse"])
        refused(config, "cut", "alpha", "gama", said=["gama"])
        refused(config, "set", said=["--latency, --jitter or --bandwidth"])
        refused(config, "set", "--latency", "long", said=["--latency", "required a duration"])
        refused(config, "set", "--bandwidth", "1 bit/s", said=["--bandwidth", 'from "8 kbit/s"'])
    finally:
        told(config, "down")
    refused(config, "down", said=["is not up"])


def test_daemons_find_their_links_again_when_the_network_is_brought_up_again(tmp_path: Path) -> None:
    """After its server was killed, and after it was taken down under them."""
    config = cluster_with_wan(tmp_path, steady(1))
    told(config, "up")
    with Daemons(config).start("alpha", "beta").linked() as daemons:
        refused(
            config,
            "down",
            said=(
                "alpha and beta",
                "stop the daemons first, or --force",
            ),
        )
        assert not links_down(daemons)
        os.kill(found(config).pid, signal.SIGKILL)
        eventually("the links are down", lambda: links_down(daemons))
        refused(
            config,
            "show",
            said=(
                "is not up any more",
                "narrows wan up",
            ),
        )
        assert "where they were" in told(config, "up")
        daemons.linked()
        assert "find their links again" in told(config, "down", "--force")
        eventually("the links are down", lambda: links_down(daemons))
        told(config, "up")
        daemons.linked()
    told(config, "down")
    assert not state_path(config).exists()


def links_down(daemons: Daemons) -> bool:
    statuses = [daemons.status(site) for site in daemons.nodes]
    return all(link.state != "up" for status in statuses if status is not None for link in status.links)


def test_a_run_uses_the_network_that_is_up_and_counts_its_own_bytes_only(tmp_path: Path) -> None:
    join = steady(2, 400, noise_bytes=20)
    config = cluster_with_wan(tmp_path, join)
    told(config, "up")
    try:
        told(config, "set", "--latency", "70ms")
        for _ in range(2):
            ran = run(config, join.text)
            counted = {(way["from"], way["to"]): way["bytes"] for way in ran.stats["proxies"]}
            for link in ran.stats["links"]:
                assert link["round_trip_ms"] >= 140
                assert abs(link["bytes"] / counted[link["from"], link["to"]] - 1) <= 0.05, (link, counted)
    finally:
        told(config, "down")


def test_a_run_whose_network_dies_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    join = lasting()
    config = cluster_with_wan(tmp_path, join)
    command = Background("run", config, "--query", join.text, "--speed", "1", name="run", folder=tmp_path)
    try:
        eventually("the network is up", lambda: state_path(config).exists())
        daemons = Daemons(config)
        eventually("bytes pass", lambda: sent_bytes(daemons, "alpha", "beta") > 3_000)
        os.kill(found(config).pid, signal.SIGKILL)
        command.end().failed(1, "the emulated network ended")
    finally:
        command.kill()
    assert not state_path(config).exists()
