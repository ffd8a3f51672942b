"""``narrows top``: what a running cluster does, second by second.

On a terminal a screen that is drawn anew; elsewhere one line for each look, so that it can be piped and logged.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live

from cli.client import Client
from cli.look import Change, look
from cli.screen import brief, drawn, in_place
from node.config import ClusterConfig


def top(config: ClusterConfig, every_s: float, times: int | None) -> int:
    """Look again and again, until Ctrl-C or so many times; 0 if somebody answered the last time, as for status."""
    console = Console()
    clients = {site.name: Client(site.name, site.address) for site in config.sites}
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
        return 0
    finally:
        for client in clients.values():
            client.close()
    return 0 if before is not None and before.answering else 1


@contextlib.contextmanager
def _screen(console: Console, config: ClusterConfig) -> Iterator[Callable[[Change], None]]:
    """How a look is shown here."""
    if not in_place(console):
        yield lambda change: console.print(brief(change), highlight=False, markup=False, soft_wrap=True)
        return
    title = f"narrows top: cluster {config.name}"
    with Live(console=console, auto_refresh=False, screen=True) as live:
        yield lambda change: live.update(drawn(title, change, config.tau_ms), refresh=True)
