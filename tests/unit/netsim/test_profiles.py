"""The emulated network as values: shapes, profiles, what is read from a file and from the proxies' counters."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from cli.cluster_file import load_cluster, wan_of
from netsim.profiles import PROFILES, REGIONS, Change, Shape, Wan
from netsim.proxies import received
from node.config import ConfigError

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
    return wan_of(load_cluster(path))


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
        ('[wan]\nlatency = "-5ms"', "wan.latency: required a duration"),
        ('[wan]\nlatency = "5s"', 'wan.latency: required a duration from "0ms" to "4s"'),
        ('[wan.a.b]\nbandwidth = "0 kbit/s"', "wan.a.b.bandwidth: required a bandwidth above 0"),
        ('[wan.a.b]\nbandwidth = "-1 kbit/s"', "wan.a.b.bandwidth: required a bandwidth above 0"),
        ('[wan]\nbandwidth = "7 kbit/s"', 'wan.bandwidth: required a bandwidth from "8 kbit/s" to "100 Gbit/s"'),
        ('[wan]\nbandwidth = "101 Gbit/s"', 'wan.bandwidth: required a bandwidth from "8 kbit/s" to "100 Gbit/s"'),
        ('[wan]\nlatency = "5ms"\njitter = "6ms"', "wan.jitter: required at most the latency, 5 ms; got 6 ms"),
        ('[wan.regions]\na = "frankfurt"', 'wan.regions: required profile = "regions" beside it; got "none"'),
        ('[wan]\nprofile = "regions"\n[wan.regions]\nd = "frankfurt"', "wan.regions.d: required a site"),
        ('[wan]\nprofile = "regions"\n[wan.regions]\na = "frankfort"', 'did you mean "frankfurt"?'),
        ('[wan]\nprofile = "regions"\nregions = "frankfurt"', "wan.regions: required a table"),
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
    pairs = itertools.combinations(REGIONS, 2)
    assert all(regions.shape(*pair) == regions.shape(*pair[::-1]) for pair in pairs)
    known = {regions.shape(*pair).latency_ms for pair in itertools.combinations(REGIONS, 2)}
    assert len(known) > 15


def test_sites_with_other_names_are_put_into_regions(tmp_path: Path) -> None:
    wan = loaded(
        tmp_path,
        '[wan]\nprofile = "regions"\n[wan.regions]\na = "frankfurt"\nb = "tokyo"\nc = "tokyo"\n'
        '[wan.a.c]\nlatency = "7ms"\n',
    )
    assert wan is not None
    assert wan.shape("a", "b") == wan.shape("b", "a") == Shape(112, 2, 2_500_000.0)
    assert wan.shape("b", "c") == Shape(1, 0, 2_500_000.0)
    assert wan.shape("c", "a").latency_ms == 7


def test_mixed_dsl_is_in_the_range_different_for_each_link_and_always_the_same() -> None:
    wan = Wan("dsl-mixed")
    sites = [f"site{number}" for number in range(20)]
    shapes = {pair: wan.shape(*pair) for pair in itertools.permutations(sites, 2)}
    for (source, target), shape in shapes.items():
        assert 5 <= shape.latency_ms <= 45
        assert shape.jitter_ms <= shape.latency_ms
        assert shape.bytes_per_s is not None
        assert 256_000 <= shape.bytes_per_s * 8 <= 4_000_000
        assert shape.latency_ms == shapes[target, source].latency_ms
    assert len({shape.latency_ms for shape in shapes.values()}) > 35
    assert len({shape.bytes_per_s for shape in shapes.values()}) > 200
    assert shapes["site0", "site1"].bytes_per_s != shapes["site1", "site0"].bytes_per_s
    # Written down: another machine, or another version of this, must not have another network.
    assert wan.shape("frankfurt", "virginia") == Shape(11, 1, 295_000.0)
    assert wan.shape("virginia", "frankfurt") == Shape(11, 1, 214_000.0)


def test_a_shape_is_one_that_can_be_emulated() -> None:
    """No more jitter than latency, and whole kilobytes per second, in the simulator as in Toxiproxy."""
    assert Wan("none", Change(jitter_ms=5)).shape("a", "b") == Shape(0, 0, None)
    assert Wan("dsl", Change(latency_ms=1)).shape("a", "b") == Shape(1, 1, 125_000.0)
    assert Wan("none", Change(bytes_per_s=1_499.0)).shape("a", "b") == Shape(0, 0, 1_000.0)


def test_a_change_leaves_what_it_does_not_mention() -> None:
    shape = Shape(5, 1, 1000.0)
    assert Change().on(shape) == shape
    assert Change(latency_ms=0, jitter_ms=0).on(shape) == Shape(0, 0, 1000.0)
    assert Change(unlimited=True).on(shape) == Shape(5, 1, None)


def test_counters_are_read_by_direction() -> None:
    lines = [
        "# HELP toxiproxy_proxy_received_bytes_total ",
        'toxiproxy_proxy_received_bytes_total{direction="downstream",listener="x:1",proxy="a~b",upstream="y:2"} 100',
        'toxiproxy_proxy_received_bytes_total{direction="upstream",listener="x:1",proxy="a~b",upstream="y:2"} 1.5e+06',
        'toxiproxy_proxy_sent_bytes_total{direction="upstream",listener="x:1",proxy="a~b",upstream="y:2"} 7',
    ]
    assert received(lines) == {("b", "a"): 100, ("a", "b"): 1_500_000}
