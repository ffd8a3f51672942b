"""``narrows wan``: the emulated network between the sites of this machine, changed while queries run."""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Callable, Collection, Iterator
from math import inf
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.config_option import add_config_option
from cli.errors import CommandError
from netsim.network import bring_up, found, take_down
from netsim.profiles import PROFILES, Change, Shape
from netsim.proxies import Proxies, WanError, Way
from netsim.state import Running
from node.config import ClusterConfig, load_cluster
from node.config.wan import parse_wan_bandwidth, parse_wan_latency

T = TypeVar("T")

_PROFILES = "\n".join(f"  {name:10} {profile.meaning}" for name, profile in PROFILES.items())
WAN_EXAMPLES = f"""\
Every link goes through a proxy of a Toxiproxy server on loopback. Daemons of a cluster whose cluster.toml has a
[wan] table dial these proxies, so bring the network up before them; narrows run does both.

examples:
  narrows wan up
  narrows wan show
  narrows wan set frankfurt virginia --latency 200ms --bandwidth "64 kbit/s"
  narrows wan cut frankfurt virginia --one-way      nothing passes from frankfurt to virginia
  narrows wan heal
  narrows wan down

profiles, for [wan] profile = "...":
{_PROFILES}

The server is toxiproxy-server on the PATH, else one that is built with Go or fetched, once; NARROWS_TOXIPROXY names
another, NARROWS_TOXIPROXY_RELEASES says where to fetch it from.
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
        add_config_option(action)
        if name in ("set", "cut", "heal"):
            action.add_argument("sites", nargs="*", metavar="SITE", help="two sites; without any, all links are meant")
            action.add_argument("--one-way", action="store_true", help="only from the first site to the second")
        if name == "set":
            action.add_argument("--latency", metavar="DURATION", help="one way, such as 40ms")
            action.add_argument("--jitter", metavar="DURATION", help="more or less latency, such as 5ms")
            action.add_argument("--bandwidth", metavar="RATE", help='such as "256 kbit/s", or unlimited')
        if name == "cut":
            action.add_argument("--refuse", action="store_true", help="close connections and refuse new ones")
        if name == "down":
            action.add_argument("--force", action="store_true", help="even while daemons run, which lose their links")


_HELP = {
    "up": "start the proxies of all links",
    "show": "what every link is like now, since when it is cut, and the bytes of connections that have ended",
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
        raise CommandError(f"{config.path}: a [wan] table required, so that daemons know to use it; got none")
    brought = bring_up(config.path, {site.name: site.address for site in config.sites}, config.wan)
    daemons = _listening(config)
    if brought.again and not brought.moved:
        _say("the Toxiproxy server of before had ended; the proxies are where they were, so daemons find them again")
    elif daemons:
        _say(
            f"somebody listens where {' and '.join(daemons)} should: daemons that run already do not know these "
            "proxies, so start them anew"
        )
    _print(brought.running, Proxies(brought.running.port).ways())


def _down(config: ClusterConfig, options: argparse.Namespace) -> None:
    daemons = _listening(config)
    if daemons and not options.force:
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


def _show(config: ClusterConfig, _: argparse.Namespace) -> None:
    running = found(config.path)
    _print(running, Proxies(running.port).ways())


def _set(config: ClusterConfig, options: argparse.Namespace) -> None:
    rate = _given("--bandwidth", parse_wan_bandwidth, options.bandwidth)
    change = Change(
        _given("--latency", parse_wan_latency, options.latency),
        _given("--jitter", parse_wan_latency, options.jitter),
        None if rate == inf else rate,
        unlimited=rate == inf,
    )
    if change == Change():
        raise CommandError("wan set requires --latency, --jitter or --bandwidth; got none of them")
    ways = list(_ways(config, options))
    running = found(config.path)
    proxies = Proxies(running.port)
    now = {(way.source, way.target): way.shape for way in proxies.ways()}
    for source, target in ways:
        proxies.shape(source, target, change.on(now.get((source, target), Shape())))
    _print(running, proxies.ways(), ways)


def _cut(config: ClusterConfig, options: argparse.Namespace) -> None:
    if options.refuse and options.one_way:
        raise CommandError("wan cut requires --one-way or --refuse; got both: who refuses does so both ways")
    ways = list(_ways(config, options))
    running = found(config.path)
    proxies = Proxies(running.port)
    for source, target in ways:
        if options.refuse:
            proxies.drop(source, target)
        else:
            proxies.cut(source, target)
    _print(running, proxies.ways(), ways)


def _heal(config: ClusterConfig, options: argparse.Namespace) -> None:
    ways = list(_ways(config, options))
    running = found(config.path)
    proxies = Proxies(running.port)
    for source, target in ways:
        proxies.heal(source, target)
        proxies.restore(source, target)
    _print(running, proxies.ways(), ways)


def _print(running: Running, ways: Collection[Way], only: Collection[tuple[str, str]] | None = None) -> None:
    """What links are like: all, or those that were changed."""
    shown = [way for way in ways if only is None or (way.source, way.target) in only]
    columns = ["from", "to", "state", "since", "latency", "bandwidth", "bytes*"]
    if not any(way.cut for way in shown):
        columns.remove("since")
    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(
            column, no_wrap=True, justify="left" if column in ("from", "to", "state", "since") else "right"
        )
    now = time.time()
    for way in shown:
        cells = _cells(way, now)
        table.add_row(*(cells[column] for column in columns))
    console = Console(highlight=False)
    console.print(table)
    if only is None:
        server = f"Toxiproxy: process {running.pid}, up since {_clock(running.up_at)} ({_age(now - running.up_at)})"
        console.print(f"* of connections that have ended. {server}", style="dim", soft_wrap=True)


def _cells(way: Way, now: float) -> dict[str, Text | str]:
    shape = way.shape
    return {
        "from": way.source,
        "to": way.target,
        "state": Text("refused" if way.refused else "cut", "red") if way.cut else Text("up", "green"),
        "since": "" if way.cut_at is None else f"{_clock(way.cut_at)} ({_age(now - way.cut_at)})",
        "latency": f"{shape.latency_ms}{f' ±{shape.jitter_ms}' if shape.jitter_ms else ''} ms",
        "bandwidth": "unlimited" if shape.bytes_per_s is None else f"{shape.bytes_per_s * 8 / 1000:,.0f} kbit/s",
        "bytes*": f"{way.nbytes:,}",
    }


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _age(seconds: float) -> str:
    """How long that is, as one says it."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _say(text: str) -> None:
    Console(stderr=True).print(f"narrows: {text}", highlight=False, markup=False, soft_wrap=True)


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
        raise CommandError(f"two different sites required{'' if options.one_way else ', or none for all'}; got {names}")


def _given(option: str, parse: Callable[[str], T], text: str | None) -> T | None:
    """What an option says, if it is given."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from None


_ACTIONS: dict[str, Callable[[ClusterConfig, argparse.Namespace], None]] = {
    "up": _up,
    "show": _show,
    "set": _set,
    "cut": _cut,
    "heal": _heal,
    "down": _down,
}
