"""``narrows top``: what a running cluster does, second by second.

On a terminal a screen that is drawn anew; elsewhere one line for each look, so that it can be piped and logged.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cli.client import Client, DaemonUnreachableError
from cli.tables import size_text, table
from node.config import ClusterConfig
from node.rpc import control_pb2 as pb

Statuses = Mapping[str, pb.StatusReply | str]


@dataclass(frozen=True)
class Look:
    """What all sites said at one moment."""

    at_s: float
    statuses: Statuses

    @property
    def answering(self) -> dict[str, pb.StatusReply]:
        return {site: status for site, status in self.statuses.items() if isinstance(status, pb.StatusReply)}

    @property
    def sent(self) -> dict[tuple[str, str], int]:
        """Bytes from site to site so far."""
        links = [(site, link) for site, status in self.answering.items() for link in status.links]
        return {(site, link.peer): sum(link.sent_bytes.values()) for site, link in links}

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each running query so far."""
        return {query.query_id: query.rows for status in self.answering.values() for query in status.queries}

    @property
    def ship_all(self) -> int:
        """Bytes it would have taken to ship every tuple of the queries' streams that was read."""
        return sum(view.ship_all_bytes for status in self.answering.values() for view in status.views)

    @property
    def tuples(self) -> int:
        """Tuples that were read."""
        return sum(stream.rows for status in self.answering.values() for stream in status.streams)


def top(config: ClusterConfig, every_s: float, times: int | None) -> int:
    """Look again and again, until Ctrl-C or so many times."""
    console = Console()
    clients = {site.name: Client(site.name, site.address) for site in config.sites}
    try:
        with _screen(console) as show:
            before = None
            looks = 0
            while times is None or looks < times:
                now = Look(time.monotonic(), {site: _status(client) for site, client in clients.items()})
                show(config.name, now, before or now)
                before, looks = now, looks + 1
                if times is None or looks < times:
                    time.sleep(every_s)
    except KeyboardInterrupt:
        return 0
    finally:
        for client in clients.values():
            client.close()
    return 0


def _status(client: Client) -> pb.StatusReply | str:
    try:
        return client.status()
    except DaemonUnreachableError as error:
        return str(error)


Show = Callable[[str, Look, Look], None]


@contextlib.contextmanager
def _screen(console: Console) -> Iterator[Show]:
    """How a look is shown here."""
    if not console.is_terminal:
        yield lambda _, now, before: console.print(brief(now, before), highlight=False, markup=False, soft_wrap=True)
        return
    with Live(console=console, auto_refresh=False, screen=True) as live:
        yield lambda name, now, before: live.update(drawn(name, now, before), refresh=True)


def brief(now: Look, before: Look) -> str:
    """A look as one line."""
    seconds = max(1e-9, now.at_s - before.at_s)
    sent, was = sum(now.sent.values()), sum(before.sent.values())
    silent = [site for site, status in now.statuses.items() if isinstance(status, str)]
    parts = [
        f"{len(now.answering)} of {len(now.statuses)} sites",
        *([f"no answer from {', '.join(silent)}"] if silent else []),
        f"read {now.tuples:,} ({max(0, now.tuples - before.tuples) / seconds:,.0f}/s)",
        f"rows {sum(now.rows.values()):,}",
        f"sent {size_text(sent)} ({size_text(round(max(0, sent - was) / seconds))}/s)",
        f"shipping everything {size_text(now.ship_all)}",
    ]
    return "  ".join(parts)


def drawn(name: str, now: Look, before: Look) -> Group:
    """A look as tables."""
    seconds = max(1e-9, now.at_s - before.at_s)
    head = Text(f"narrows top: cluster {name}   {brief(now, before)}", style="bold")
    return Group(head, _sites(now, before, seconds), _links(now, before, seconds), _queries(now, before, seconds))


def _sites(now: Look, before: Look, seconds: float) -> Table:
    out = table("Sites", "site", "engine", ">tuples", ">per second", ">windows", ">memory peak", "streams")
    for site, status in now.statuses.items():
        if isinstance(status, str):
            out.add_row(site, f"[red]{escape(status)}[/red]")
            continue
        was = before.statuses[site]
        old = sum(stream.rows for stream in was.streams) if isinstance(was, pb.StatusReply) else 0
        read = sum(stream.rows for stream in status.streams)
        rate = f"{max(0, read - old) / seconds:,.0f}"
        windows = size_text(sum(window.nbytes for window in status.windows))
        streams = ", ".join(f"{stream.name} {stream.state}" for stream in status.streams)
        out.add_row(site, status.engine.name, f"{read:,}", rate, windows, size_text(status.rss_bytes), streams)
    return out


def _links(now: Look, before: Look, seconds: float) -> Table:
    out = table("Links", "from", "to", "state", ">round trip", ">sent", ">per second", ">waiting", "")
    rates = {way: max(0, sent - before.sent.get(way, 0)) / seconds for way, sent in now.sent.items()}
    most = max([*rates.values(), 1.0])
    for site, status in now.answering.items():
        for link in status.links:
            way = site, link.peer
            state = link.state if link.state == "up" else f"[red]{link.state}[/red] {escape(link.trouble)}"
            trip = f"{link.rtt_us / 1000:.1f} ms" if link.HasField("rtt_us") else ""
            sent, rate = size_text(now.sent[way]), f"{size_text(round(rates[way]))}/s"
            bar = "█" * round(16 * rates[way] / most)
            out.add_row(site, link.peer, state, trip, sent, rate, size_text(link.backlog_bytes), bar)
    return out


def _queries(now: Look, before: Look, seconds: float) -> Table:
    out = table("Queries", "query", "home", "state", ">rows", ">per second", "plan")
    for site, status in now.answering.items():
        for query in status.queries:
            rate = max(0, query.rows - before.rows.get(query.query_id, 0)) / seconds
            plan = escape(query.plan_brief)
            out.add_row(query.query_id, site, query.state, f"{query.rows:,}", f"{rate:,.0f}", plan)
    return out
