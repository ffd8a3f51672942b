"""What all sites of a cluster said at one moment, and what changed since another."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from cli.asking import ask_all
from node.client import Client
from node.core.queries.query_id import home_of, keeping_of, kept_stream_of
from node.rpc import control_pb2 as pb

Way = tuple[str, str]
Statuses = Mapping[str, pb.StatusReply | str]


@dataclass(frozen=True)
class Look:
    """The sites' answers, or why there is none, and when they were asked."""

    at_s: float
    statuses: Statuses

    @property
    def answering(self) -> dict[str, pb.StatusReply]:
        return {site: status for site, status in self.statuses.items() if isinstance(status, pb.StatusReply)}

    @property
    def silent(self) -> list[str]:
        return [site for site, status in self.statuses.items() if isinstance(status, str)]

    @property
    def sent(self) -> dict[Way, int]:
        """Bytes from site to site so far."""
        links = [(site, link) for site, status in self.answering.items() for link in status.links]
        return {(site, link.peer): sum(link.sent_bytes.values()) for site, link in links}

    @property
    def everything(self) -> dict[Way, int]:
        """Bytes from site to site if each query's streams were shipped to its home, tuple by tuple, as far as read."""
        out: dict[Way, int] = {}
        views = [(site, view) for site, status in self.answering.items() for view in status.views]
        kept = {kept_stream_of(view.query_id) for _, view in views}
        for site, view in views:
            # What makes a join that is kept belongs to the query that reads it, and what it makes is shipped by nobody.
            home = home_of(keeping_of(view.query_id) or view.query_id)
            if home != site and f"{view.query_id}.{view.alias}" not in kept:
                out[site, home] = out.get((site, home), 0) + view.ship_all_bytes
        return out

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each running query so far."""
        return {query.query_id: query.rows for status in self.answering.values() for query in status.queries}

    @property
    def read(self) -> dict[str, int]:
        """Tuples that each site has read."""
        return {site: sum(stream.rows for stream in status.streams) for site, status in self.answering.items()}


@dataclass(frozen=True)
class Change:
    """Two looks, one after the other; rates never go below zero, since a site that was started again counts anew."""

    before: Look
    now: Look

    @property
    def seconds(self) -> float:
        return max(1e-9, self.now.at_s - self.before.at_s)

    def sent_per_s(self, way: Way) -> float:
        return self._rate(self.now.sent.get(way, 0), self.before.sent.get(way, 0))

    def read_per_s(self, site: str) -> float:
        return self._rate(self.now.read.get(site, 0), self.before.read.get(site, 0))

    def rows_per_s(self, query: str) -> float:
        return self._rate(self.now.rows.get(query, 0), self.before.rows.get(query, 0))

    def _rate(self, now: int, before: int) -> float:
        return max(0, now - before) / self.seconds


def look(clients: Mapping[str, Client]) -> Look:
    """Ask all sites."""
    return Look(time.monotonic(), ask_all(clients))
