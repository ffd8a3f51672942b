"""The emulated network between the sites of this machine: brought up, changed while queries run, taken down."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

from rich.console import Console

from cli.cluster_file import wan_of
from cli.errors import CommandError
from cli.show.network import show_network
from netsim.network import bring_up, found, take_down
from netsim.profiles import Change, Shape
from netsim.proxies import Proxies, WanError
from node.config import ClusterConfig


def up(config: ClusterConfig) -> None:
    """Start the proxies of all links. Raises CommandError unless the cluster has such a network."""
    wan = wan_of(config)
    if wan is None:
        raise CommandError(f"{config.path}: a [wan] table required, so that daemons know to use it; got none")
    brought = bring_up(config.path, {site.name: site.address for site in config.sites}, wan)
    daemons = _listening(config)
    if brought.again and not brought.moved:
        _say("the Toxiproxy server of before had ended; the proxies are where they were, so daemons find them again")
    elif daemons:
        _say(
            f"somebody listens where {' and '.join(daemons)} should: daemons that run already do not know these "
            "proxies, so start them anew"
        )
    show_network(brought.running, Proxies(brought.running.port).ways())


def show(config: ClusterConfig) -> None:
    """What every link is like."""
    running = found(config.path)
    show_network(running, Proxies(running.port).ways())


def change(config: ClusterConfig, sites: Sequence[str], one_way: bool, wanted: Change) -> None:
    """Other latency, jitter or bandwidth."""
    if wanted == Change():
        raise CommandError("wan set requires --latency, --jitter or --bandwidth; got none of them")
    ways = list(_ways(config, sites, one_way))
    running = found(config.path)
    proxies = Proxies(running.port)
    now = {(way.source, way.target): way.shape for way in proxies.ways()}
    for source, target in ways:
        proxies.shape(source, target, wanted.on(now.get((source, target), Shape())))
    show_network(running, proxies.ways(), ways)


def cut(config: ClusterConfig, sites: Sequence[str], one_way: bool, refuse: bool) -> None:
    """Let nothing pass, silently or by closing connections."""
    if refuse and one_way:
        raise CommandError("wan cut requires --one-way or --refuse; got both: who refuses does so both ways")
    ways = list(_ways(config, sites, one_way))
    running = found(config.path)
    proxies = Proxies(running.port)
    for source, target in ways:
        if refuse:
            proxies.drop(source, target)
        else:
            proxies.cut(source, target)
    show_network(running, proxies.ways(), ways)


def heal(config: ClusterConfig, sites: Sequence[str], one_way: bool) -> None:
    """Let everything pass again."""
    ways = list(_ways(config, sites, one_way))
    running = found(config.path)
    proxies = Proxies(running.port)
    for source, target in ways:
        proxies.heal(source, target)
        proxies.restore(source, target)
    show_network(running, proxies.ways(), ways)


def down(config: ClusterConfig, force: bool) -> None:
    """Stop the proxies, unless daemons use them."""
    daemons = _listening(config)
    if daemons and not force:
        raise WanError(
            f"wan down requires that no daemon uses the network; somebody listens where {' and '.join(daemons)} "
            "should: stop the daemons first, or --force lets them lose their links"
        )
    if not take_down(config.path, keep_ports=bool(daemons)):
        _say("its Toxiproxy server had ended already; nothing was left to stop")
    elif daemons:
        _say("the network is down; daemons that run find their links again after narrows wan up")
    else:
        _say("the network is down")


def _listening(config: ClusterConfig) -> list[str]:
    """Sites at whose address somebody listens; the proxies do so elsewhere."""
    return [site.name for site in config.sites if _answers(site.address)]


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    Console(stderr=True).print(f"narrows: {text}", highlight=False, markup=False, soft_wrap=True)


def _ways(config: ClusterConfig, sites: Sequence[str], one_way: bool) -> Iterator[tuple[str, str]]:
    """The directions that are meant."""
    names = [config.site(name).name for name in sites]
    if not names and not one_way:
        names_of_all = [site.name for site in config.sites]
        yield from ((one, other) for one in names_of_all for other in names_of_all if one != other)
    elif len(names) == 2 and names[0] != names[1]:
        yield names[0], names[1]
        if not one_way:
            yield names[1], names[0]
    else:
        raise CommandError(f"two different sites required{'' if one_way else ', or none for all'}; got {names}")
