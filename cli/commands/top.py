"""``narrows top``: what a running cluster does, second by second.

On a terminal a screen that is drawn anew; elsewhere one line for each look, so that it can be piped and logged.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from cli.command import narrows_command
from cli.exit_codes import DONE, FAILED
from cli.options.config import config_option, read_cluster
from cli.options.values import count, seconds
from cli.show.look import Change, look
from cli.show.screen import brief, drawn, in_place
from cli.sites import client_of
from node.config import ClusterConfig

_EXAMPLES = """\
examples:
  narrows top
  narrows top --every 5s --times 3
"""


@narrows_command("top", _EXAMPLES)
@config_option
@click.option("--every", type=seconds, default="1s", metavar="DURATION", help="how often to look (default: 1s)")
@click.option("--times", type=count, metavar="N", help="end after so many looks (default: with Ctrl-C)")
def command(config: Path | None, every: float, times: int | None) -> int:
    """Shows what sites, links and queries do right now, again and again; in a pipe, a line for each look."""
    return top(read_cluster(config), every, times)


def top(config: ClusterConfig, every_s: float, times: int | None) -> int:
    """Look again and again, until Ctrl-C or so many times; 0 if somebody answered the last time, as for status."""
    console = Console()
    clients = {site.name: client_of(config, site.name) for site in config.sites}
    before = None
    looks = 0
    try:
        with _screen(console, config) as show:
            while times is None or looks < times:
                now = look(clients)
                show(Change(before or now, now))
                before, looks = now, looks + 1
                if times is None or looks < times:
                    time.sleep(every_s)
    except KeyboardInterrupt:
        return DONE
    finally:
        for client in clients.values():
            client.close()
    return DONE if before is not None and before.answering else FAILED


@contextlib.contextmanager
def _screen(console: Console, config: ClusterConfig) -> Iterator[Callable[[Change], None]]:
    """How a look is shown here."""
    if not in_place(console):
        yield lambda change: console.print(brief(change), highlight=False, markup=False, soft_wrap=True)
        return
    title = f"narrows top: cluster {config.name}"
    with Live(console=console, auto_refresh=False, screen=True) as live:
        yield lambda change: live.update(drawn(title, change, config.tau_ms), refresh=True)
