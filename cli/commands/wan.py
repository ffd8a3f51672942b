"""``narrows wan``: the emulated network between the sites of this machine, changed while queries run."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import TypeVar

import click

from cli.command import Command, verbatim
from cli.errors import CommandError
from cli.options.config import complete_sites, config_option, read_cluster
from cli.tasks import network
from netsim.profiles import PROFILES, Change
from netsim.wan_table import parse_wan_bandwidth, parse_wan_latency

T = TypeVar("T")

_PROFILES = "\n".join(f"  {name:10} {profile.meaning}" for name, profile in PROFILES.items())
_MORE = f"""\
examples:
  narrows wan up
  narrows wan show
  narrows wan set frankfurt virginia --latency 200ms --bandwidth "64 kbit/s"
  narrows wan cut frankfurt virginia --one-way      nothing passes from frankfurt to virginia
  narrows wan heal
  narrows wan down

profiles, for [wan] profile = "...":
{_PROFILES}

The server is toxiproxy-server on the PATH, else one that is built with Go or fetched, once;
NARROWS_TOXIPROXY names another, NARROWS_TOXIPROXY_RELEASES says where to fetch it from.
"""


class _Actions(click.Group):
    """The actions in the order in which one needs them."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    "wan",
    cls=_Actions,
    no_args_is_help=False,
    options_metavar=None,
    subcommand_metavar="ACTION [OPTION ...]",
    epilog=verbatim(_MORE),
)
def command() -> None:
    """Every link goes through a proxy of a Toxiproxy server on loopback. Daemons of a cluster whose cluster.toml has a
    [wan] table dial these proxies, so bring the network up before them; narrows run does both.
    """


def _link_options(function: Callable[..., int]) -> Callable[..., int]:
    """Which links are meant."""
    one_way = click.option("--one-way", is_flag=True, help="only from the first site to the second")
    text = "two sites; without any, all links are meant"
    named = click.argument("names", nargs=-1, metavar="[SITE SITE]", shell_complete=complete_sites, help=text)
    return named(one_way(function))


@command.command("up", short_help="start the proxies of all links")
@config_option
def _up(config: Path | None) -> int:
    """Start the proxies of all links."""
    network.up(read_cluster(config))
    return 0


@command.command("show", short_help="what every link is like now")
@config_option
def _show(config: Path | None) -> int:
    """What every link is like now, since when it is cut, and the bytes of connections that have ended."""
    network.show(read_cluster(config))
    return 0


@command.command("set", short_help="change latency, jitter or bandwidth of links")
@_link_options
@config_option
@click.option("--latency", metavar="DURATION", help="one way, such as 40ms")
@click.option("--jitter", metavar="DURATION", help="more or less latency, such as 5ms")
@click.option("--bandwidth", metavar="RATE", help='such as "256 kbit/s", or unlimited')
def _set(
    names: tuple[str, ...],
    one_way: bool,
    config: Path | None,
    latency: str | None,
    jitter: str | None,
    bandwidth: str | None,
) -> int:
    """Change latency, jitter or bandwidth of links."""
    cluster = read_cluster(config)
    rate = _given("--bandwidth", parse_wan_bandwidth, bandwidth)
    wanted = Change(
        _given("--latency", parse_wan_latency, latency),
        _given("--jitter", parse_wan_latency, jitter),
        None if rate == inf else rate,
        unlimited=rate == inf,
    )
    network.change(cluster, names, one_way, wanted)
    return 0


@command.command("cut", short_help="let nothing pass, silently")
@_link_options
@config_option
@click.option("--refuse", is_flag=True, help="close connections and refuse new ones")
def _cut(names: tuple[str, ...], one_way: bool, config: Path | None, refuse: bool) -> int:
    """Let nothing pass, silently."""
    network.cut(read_cluster(config), names, one_way, refuse)
    return 0


@command.command("heal", short_help="let everything pass again")
@_link_options
@config_option
def _heal(names: tuple[str, ...], one_way: bool, config: Path | None) -> int:
    """Let everything pass again."""
    network.heal(read_cluster(config), names, one_way)
    return 0


@command.command("down", short_help="stop the proxies")
@config_option
@click.option("--force", is_flag=True, help="even while daemons run, which lose their links")
def _down(config: Path | None, force: bool) -> int:
    """Stop the proxies."""
    network.down(read_cluster(config), force)
    return 0


def _given(option: str, parse: Callable[[str], T], text: str | None) -> T | None:
    """What an option says, if it is given."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from None
