"""Round trips with other sites, for queries that go by the clock: their homes derive delta from them.

Home knows them from when the query was prepared. At the end of each epoch it is told those that have changed by a
factor since it was told; the longest of an epoch counts, since delta is to be longer than any delay.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.core.limits import Limits
from node.core.links.messages import RoundTrips
from node.core.links.outbox import Outbox
from node.core.queries.home.delta import Trips, has_changed
from node.core.queries.participation.runs import Runs


class RoundTripMeter:
    """What a site has measured, and what it has told."""

    def __init__(self, limits: Limits) -> None:
        self._epoch_us = limits.delta_epoch_us
        self._ends_us: int | None = None
        #: By other site: as last measured, and the longest of this epoch.
        self._last: dict[str, int] = {}
        self._longest: dict[str, int] = {}
        self._told: dict[str, dict[str, int]] = {}

    def measured(self, site: str, rtt_us: int) -> None:
        """A round trip took so long."""
        self._last[site] = rtt_us
        self._longest[site] = max(rtt_us, self._longest.get(site, 0))

    def tell(self, query_id: str, sites: Iterable[str]) -> Trips:
        """What is known of the links with a query's sites, which its home is told now."""
        found = {site: self._last[site] for site in sorted(sites) if site in self._last}
        self._told[query_id] = found
        return tuple(found.items())

    def forget(self, query_id: str) -> None:
        """A query is over."""
        self._told.pop(query_id, None)

    def on_clock(self, runs: Runs, outbox: Outbox) -> None:
        """Once in an epoch, tell the homes of queries whose delta is measured what has changed."""
        if self._ends_us is None:
            self._ends_us = outbox.now_us + self._epoch_us
        if outbox.now_us < self._ends_us:
            return
        for run in runs.by_id.values():
            news = self.news(run.query_id, run.plan.sites) if run.started and run.plan.policy.is_measured else ()
            if news:
                outbox.send(run.plan.sink, RoundTrips(run.query_id, news))
        self._ends_us = outbox.now_us + self._epoch_us
        # What was measured before does not count any more.
        self._longest.clear()

    def news(self, query_id: str, sites: Iterable[str]) -> Trips:
        """What has changed in this epoch since a query's home was told, which it is now."""
        told = self._told.setdefault(query_id, {})
        found = {
            site: self._longest[site]
            for site in sorted(sites)
            if site in self._longest and has_changed(told.get(site, 0), self._longest[site])
        }
        told.update(found)
        return tuple(found.items())
