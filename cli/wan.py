"""``narrows wan``: the emulated network between the sites of this machine, changed while queries run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from netsim.network import bring_up, found, take_down
from netsim.profiles import PROFILES, Change
from netsim.proxies import Proxies, WanError
from node.config import ClusterConfig, load_cluster, parse_bandwidth, parse_duration_ms

T = TypeVar("T")

_PROFILES = "\n".join(f"  {name:10} {profile.meaning}" for name, profile in PROFILES.items())
WAN_EXAMPLES = f"""\
Every link goes through a proxy of a Toxiproxy server on loopback. Daemons of a cluster whose cluster.toml has a
[wan] table dial these proxies, so bring the network up before them; narrows run does both.

examples:
  narrows wan up --config cluster.toml
  narrows wan show --config cluster.toml
  narrows wan set --config cluster.toml frankfurt virginia --latency 200ms --bandwidth "64 kbit/s"
  narrows wan cut --config cluster.toml frankfurt virginia --one-way      nothing passes from frankfurt to virginia
  narrows wan heal --config cluster.toml
  narrows wan down --config cluster.toml

profiles, for [wan] profile = "...":
{_PROFILES}
"""


def add_wan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its options."""
    top = commands.add_parser(
        "wan",
        help="the emulated network between the sites of this machine",
        epilog=WAN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = top.add_subparsers(dest="wan", required=True, metavar="ACTION")
    for name, what in _HELP.items():
        action = actions.add_parser(name, help=what, description=what)
        action.add_argument(
            "--config", type=Path, required=True, metavar="FILE", help="the cluster's configuration (TOML)"
        )
        if name in ("set", "cut", "heal"):
            action.add_argument("sites", nargs="*", metavar="SITE", help="two sites; without any, all links are meant")
            action.add_argument("--one-way", action="store_true", help="only from the first site to the second")
        if name == "set":
            action.add_argument("--latency", metavar="DURATION", help="one way, such as 40ms")
            action.add_argument("--jitter", metavar="DURATION", help="more or less latency, such as 5ms")
            action.add_argument("--bandwidth", metavar="RATE", help='such as "256 kbit/s", or unlimited')
        if name == "cut":
            action.add_argument("--refuse", action="store_true", help="close connections and refuse new ones")


_HELP = {
    "up": "start the proxies of all links",
    "show": "what every link is like now, and the bytes of connections that have ended",
    "set": "change latency, jitter or bandwidth of links",
    "cut": "let nothing pass, silently",
    "heal": "let everything pass again",
    "down": "stop the proxies",
}


def wan(options: argparse.Namespace) -> int:
    """One action."""
    config = load_cluster(options.config)
    _ACTIONS[options.wan](config, options)
    return 0


def _up(config: ClusterConfig, _: argparse.Namespace) -> None:
    if config.wan is None:
        raise WanError(f"{config.path}: a [wan] table required, so that daemons know to use it; got none")
    bring_up(config.path, {site.name: site.address for site in config.sites}, config.wan)
    _show(config, _)


def _down(config: ClusterConfig, _: argparse.Namespace) -> None:
    take_down(config.path)


def _show(config: ClusterConfig, _: argparse.Namespace) -> None:
    table = Table("from", "to", "state", "latency", "jitter", "bandwidth", "bytes", box=None)
    for way in _proxies(config).ways():
        rate = "unlimited" if way.shape.bytes_per_s is None else f"{way.shape.bytes_per_s * 8 / 1000:,.0f} kbit/s"
        latency, jitter = f"{way.shape.latency_ms} ms", f"{way.shape.jitter_ms} ms"
        state = "cut" if way.cut else "up"
        table.add_row(way.source, way.target, state, latency, jitter, rate, f"{way.nbytes:,}")
    Console().print(table)


def _set(config: ClusterConfig, options: argparse.Namespace) -> None:
    unlimited = options.bandwidth == "unlimited"
    change = Change(
        _given("--latency", parse_duration_ms, options.latency),
        _given("--jitter", parse_duration_ms, options.jitter),
        None if unlimited else _given("--bandwidth", parse_bandwidth, options.bandwidth),
        unlimited,
    )
    proxies = _proxies(config)
    now = {(way.source, way.target): way.shape for way in proxies.ways()}
    for source, target in _ways(config, options):
        proxies.shape(source, target, change.on(now[source, target]))


def _cut(config: ClusterConfig, options: argparse.Namespace) -> None:
    proxies = _proxies(config)
    for source, target in _ways(config, options):
        if options.refuse:
            proxies.drop(source, target)
        else:
            proxies.cut(source, target)


def _heal(config: ClusterConfig, options: argparse.Namespace) -> None:
    proxies = _proxies(config)
    for source, target in _ways(config, options):
        proxies.heal(source, target)
        proxies.restore(source, target)


def _proxies(config: ClusterConfig) -> Proxies:
    return Proxies(found(config.path).port)


def _ways(config: ClusterConfig, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The directions that are meant."""
    names = [config.site(name).name for name in options.sites]
    if not names and not options.one_way:
        names_of_all = [site.name for site in config.sites]
        yield from ((one, other) for one in names_of_all for other in names_of_all if one != other)
    elif len(names) == 2 and names[0] != names[1]:
        yield names[0], names[1]
        if not options.one_way:
            yield names[1], names[0]
    else:
        raise WanError(f"two different sites required{'' if options.one_way else ', or none for all'}; got {names}")


def _given(option: str, parse: Callable[[str], T], text: str | None) -> T | None:
    """What an option says, if it is given."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise WanError(f"{option}: {error}") from None


_ACTIONS: dict[str, Callable[[ClusterConfig, argparse.Namespace], None]] = {
    "up": _up,
    "show": _show,
    "set": _set,
    "cut": _cut,
    "heal": _heal,
    "down": _down,
}
