"""The emulated network of a cluster: brought up, found, changed, taken down."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from netsim.profiles import Wan
from netsim.proxies import Proxies, WanError, link_name
from netsim.server import start_server
from netsim.state import Running, read_state, remove_state, write_state

_DOWN_S_MAX = 5.0


def bring_up(cluster: Path, addresses: Mapping[str, str], wan: Wan) -> Running:
    """A server of our own with a proxy for every link. Raises WanError if there is one already."""
    if read_state(cluster) is not None:
        raise WanError(f"the network of {cluster} is up already; narrows wan down takes it down")
    process, port = start_server(cluster.with_suffix(".wan.log"))
    try:
        listens = Proxies(port).create(addresses, wan)
        running = Running(process.pid, port, listens)
        write_state(cluster, running)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return running


def take_down(cluster: Path) -> None:
    """Stop the server that was started for this cluster. Raises WanError if there is none."""
    running = found(cluster)
    os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_S_MAX
    while running.alive and time.monotonic() < deadline:
        time.sleep(0.05)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(running.pid, os.WNOHANG)
    remove_state(cluster)


def found(cluster: Path) -> Running:
    """The network that is up."""
    running = read_state(cluster)
    if running is None:
        raise WanError(f"the network of {cluster} is not up; narrows wan up brings it up")
    return running


@contextlib.contextmanager
def network(cluster: Path, addresses: Mapping[str, str], wan: Wan | None) -> Iterator[Proxies | None]:
    """The network while something runs: the one that is up, or one that is brought up for it; None without any."""
    if wan is None:
        yield None
        return
    already = read_state(cluster)
    running = already or bring_up(cluster, addresses, wan)
    try:
        yield Proxies(running.port)
    finally:
        if already is None:
            take_down(cluster)


def dialled(running: Running, site: str, addresses: Mapping[str, str]) -> dict[str, str]:
    """Where a site dials the others: their proxies. Those that dial it are none of its business."""
    return {peer: running.listens[link_name(site, peer)] for peer in addresses if peer != site}
