"""The emulated network of a cluster: brought up, found, changed, taken down."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from netsim.loopback import Answer
from netsim.profiles import Wan
from netsim.proxies import Proxies, WanError, link_name
from netsim.server import start_server
from netsim.state import Running, read_state, remove_state, write_state

_DOWN_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class BroughtUp:
    """A network that is up now."""

    running: Running
    #: There was one before, whose server has died.
    again: bool
    #: And what dialled its proxies does not find these: their ports were taken.
    moved: bool


def bring_up(cluster: Path, addresses: Mapping[str, str], wan: Wan) -> BroughtUp:
    """A server of our own with a proxy for every link. Raises WanError if there is one already."""
    with _alone(cluster):
        left = read_state(cluster)
        if left is not None and _check_answer(cluster, left):
            raise WanError(f"the network of {cluster} is up already; narrows wan down takes it down")
        earlier = left.listens if left is not None else {}
        started = start_server(_log(cluster))
        try:
            listens = Proxies(started.port).create(addresses, wan, earlier)
            running = Running(started.process.pid, started.port, started.token, time.time(), listens, dict(addresses))
            write_state(cluster, running)
        except BaseException:
            started.process.kill()
            started.process.wait()
            raise
    moved = any(listens.get(link) != listen for link, listen in earlier.items())
    return BroughtUp(running, left is not None, moved)


def take_down(cluster: Path, keep_ports: bool = False) -> bool:
    """Stop the server that was started for this cluster; False if it had died already. Raises WanError if none was.

    ``keep_ports``: somebody dials its proxies, and will find them again when the network is brought up again.
    """
    with _alone(cluster):
        left = read_state(cluster)
        if left is None:
            raise WanError(_not_up(cluster))
        alive = _check_answer(cluster, left)
        if alive:
            _stop(left)
        if not keep_ports:
            remove_state(cluster)
            _log(cluster).unlink(missing_ok=True)
    return alive


def _log(cluster: Path) -> Path:
    """What the server says."""
    return cluster.with_suffix(".wan.log")


def _stop(running: Running) -> None:
    """End the server. It has just answered, so the process is the one that we started, not one with its number."""
    os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_S_MAX
    # Nobody answers when it has ended; a stranger does if its port was given to another process since.
    while running.answer() in (Answer.OURS, Answer.SILENT):
        if time.monotonic() > deadline:
            os.kill(running.pid, signal.SIGKILL)
            break
        time.sleep(0.05)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(running.pid, 0)


def found(cluster: Path) -> Running:
    """The network that is up."""
    running = read_state(cluster)
    if running is None:
        raise WanError(_not_up(cluster))
    if not _check_answer(cluster, running):
        raise WanError(
            f"the network of {cluster} is not up any more: its Toxiproxy server, process {running.pid}, has ended; "
            "narrows wan up brings it up again, where daemons that run find it"
        )
    return running


def _not_up(cluster: Path) -> str:
    return f"the network of {cluster} is not up; narrows wan up brings it up"


def _check_answer(cluster: Path, running: Running) -> bool:
    """Whether the server is there. Raises WanError if that cannot be known."""
    answer = running.answer()
    if answer is Answer.SILENT:
        raise WanError(
            f"the network of {cluster} requires an answer of its Toxiproxy server; port {running.port} takes "
            f"connections and says nothing: if process {running.pid} is a Toxiproxy server, it hangs, so end it"
        )
    return answer is Answer.OURS


@contextlib.contextmanager
def network(cluster: Path, addresses: Mapping[str, str], wan: Wan | None) -> Iterator[Proxies | None]:
    """The network while something runs: the one that is up, or one that is brought up for it; None without any."""
    if wan is None:
        yield None
        return
    already = read_state(cluster)
    if already is not None and _check_answer(cluster, already):
        _check_sites(already, addresses)
        yield Proxies(already.port)
        return
    running = bring_up(cluster, addresses, wan).running
    try:
        yield Proxies(running.port)
    finally:
        with contextlib.suppress(WanError):  # somebody took it down before us
            take_down(cluster)


def dialled(running: Running, site: str, addresses: Mapping[str, str]) -> dict[str, str]:
    """Where a site dials the others: their proxies. Those that dial it are none of its business."""
    _check_sites(running, addresses)
    return {peer: running.listens[link_name(site, peer)] for peer in addresses if peer != site}


def _check_sites(running: Running, addresses: Mapping[str, str]) -> None:
    """Whether the network was brought up for these sites: cluster.toml may have changed since."""
    if dict(running.addresses) != dict(addresses):
        raise WanError(
            f"the network that is up was brought up for {_sites(running.addresses)}; cluster.toml has "
            f"{_sites(addresses)} now: narrows wan down and up again"
        )


def _sites(addresses: Mapping[str, str]) -> str:
    return ", ".join(f"{site} at {address}" for site, address in sorted(addresses.items()))


@contextlib.contextmanager
def _alone(cluster: Path) -> Iterator[None]:
    """One at a time changes whether there is a network: two that bring it up at once would leave one behind."""
    with cluster.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
