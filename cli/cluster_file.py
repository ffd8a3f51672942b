"""The cluster's file as the command reads it: what sites need, and the emulated network between them."""

from __future__ import annotations

from pathlib import Path

from netsim.profiles import Wan
from netsim.wan_table import read_wan
from node.config import ClusterConfig
from node.config import load_cluster as load_sites

_WAN = "wan"


def load_cluster(path: Path) -> ClusterConfig:
    """Read and check a cluster.toml; one ConfigError with every problem when something is wrong."""
    return load_sites(path, {_WAN: read_wan})


def wan_of(config: ClusterConfig) -> Wan | None:
    """The network that is emulated between the sites of this machine; None: links are what they are."""
    wan = config.others.get(_WAN)
    assert wan is None or isinstance(wan, Wan)
    return wan
