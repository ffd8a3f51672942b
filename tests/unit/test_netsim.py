"""The emulated network as values: shapes, profiles, what is read from a file and from the proxies' counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from netsim.profiles import PROFILES, Change, Shape, Wan
from netsim.proxies import received
from node.config import ConfigError, load_cluster

SITES = """
tau = "1s"
[site.a]
listen = "127.0.0.1:7001"
[site.b]
listen = "127.0.0.1:7002"
[site.c]
listen = "127.0.0.1:7003"
"""


def loaded(folder: Path, text: str) -> Wan | None:
    path = folder / "cluster.toml"
    path.write_text(SITES + text)
    return load_cluster(path).wan


def test_without_a_table_there_is_no_network(tmp_path: Path) -> None:
    assert loaded(tmp_path, "") is None


def test_what_is_said_of_a_direction_wins_over_all_links_and_that_over_the_profile(tmp_path: Path) -> None:
    wan = loaded(
        tmp_path,
        '[wan]\nprofile = "dsl"\njitter = "0ms"\n'
        '[wan.a.b]\nlatency = "100ms"\n[wan.b.c]\nbandwidth = "64 kbit/s"\n[wan.c.b]\nbandwidth = "unlimited"\n',
    )
    assert wan is not None
    assert wan.shape("a", "c") == Shape(20, 0, 125_000.0)
    assert wan.shape("a", "b") == wan.shape("b", "a") == Shape(100, 0, 125_000.0)
    assert wan.shape("b", "c") == Shape(20, 0, 8_000.0)
    assert wan.shape("c", "b") == Shape(20, 0, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[wan]\nprofile = "dls"', "wan.profile: required one of"),
        ("[wan]\nlatency = 3", "wan.latency: required a duration"),
        ('[wan]\nbandwidth = "fast"', "wan.bandwidth: required a bandwidth"),
        ('[wan.a.d]\nlatency = "1ms"', "wan.a.d: required another site"),
        ('[wan.a.a]\nlatency = "1ms"', "wan.a.a: required another site"),
        ('[wan.z.a]\nlatency = "1ms"', "wan.z: required"),
        ('[wan.a.b]\nlatencie = "1ms"', "wan.a.b.latencie: required"),
    ],
)
def test_a_wrong_network_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match="required") as error:
        loaded(tmp_path, text)
    assert said in str(error.value)
    assert len(error.value.problems) == 1


def test_regions_know_their_distances_in_both_directions() -> None:
    regions = PROFILES["regions"]
    assert regions.shape("frankfurt", "virginia").latency_ms == regions.shape("virginia", "frankfurt").latency_ms == 45
    assert regions.shape("frankfurt", "nowhere").latency_ms == 40


def test_a_change_leaves_what_it_does_not_mention() -> None:
    shape = Shape(5, 1, 1000.0)
    assert Change().on(shape) == shape
    assert Change(latency_ms=0, jitter_ms=0).on(shape) == Shape(0, 0, 1000.0)
    assert Change(unlimited=True).on(shape) == Shape(5, 1, None)


def test_counters_are_read_by_direction() -> None:
    lines = [
        "# HELP toxiproxy_proxy_received_bytes_total ",
        'toxiproxy_proxy_received_bytes_total{direction="downstream",listener="x:1",proxy="a--b",upstream="y:2"} 100',
        'toxiproxy_proxy_received_bytes_total{direction="upstream",listener="x:1",proxy="a--b",upstream="y:2"} 1.5e+06',
        'toxiproxy_proxy_sent_bytes_total{direction="upstream",listener="x:1",proxy="a--b",upstream="y:2"} 7',
    ]
    assert received(lines) == {("b", "a"): 100, ("a", "b"): 1_500_000}
