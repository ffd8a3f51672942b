"""The queries that were issued at a site: it installs them, stores their rows, tells who is done, and ends them.

Ended ones are remembered for those who ask, the last ``limits.ended_queries_max`` of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.core.effects import IgnoreReason, NoteIgnored, QueryState, ReportQuery, StoreRows
from node.core.errors import PeerProtocolError
from node.core.events import QueryIssued, RowsStored
from node.core.limits import Limits
from node.core.links.messages import Done, Drop, Prepared
from node.core.links.outbox import Outbox
from node.core.queries.home import HomeQuery
from node.core.queries.waiting import Walk


class Issuer:
    """What a site does as the home, and so the sink, of queries."""

    def __init__(self, limits: Limits, outbox: Outbox) -> None:
        self.homes: dict[str, HomeQuery] = {}
        self._limits = limits
        self._outbox = outbox
        #: Queries that have ended and are remembered, in the order in which they ended.
        self._ended: dict[str, None] = {}
        #: Queries whose sites were not all told the latest done frontiers.
        self._done_news: dict[str, None] = {}

    # -- a query begins -----------------------------------------------------------------------

    def issue(self, event: QueryIssued) -> None:
        """Ask every site of a query to prepare."""
        home = HomeQuery(event.query_id, event.plan, self._outbox.now_us)
        self.homes[event.query_id] = home
        self._ended.pop(event.query_id, None)
        for site in event.plan.sites:
            self._outbox.send(site, home.prepare())

    def on_prepared(self, peer: str, message: Prepared) -> None:
        """A site is ready; after the last one, all start."""
        home = self.homes.get(message.query_id)
        if home is None or home.state is not QueryState.PREPARING:
            self._outbox.ignore(IgnoreReason.QUERY_ENDED, message)
            return
        start = home.prepared(peer, message)
        if start is None:
            return
        for site in home.plan.sites:
            self._outbox.send(site, start)
        self._outbox.do(ReportQuery(home.query_id, home.state, ""))
        self._done_moved(home)

    def give_up_waiting(self) -> None:
        """A query that cannot be started must not hold streams that others read."""
        prepare_us = self._limits.prepare_us
        for home in list(self.homes.values()):
            if home.state is QueryState.PREPARING and self._outbox.now_us - home.issued_us >= prepare_us:
                silent = ", ".join(home.waiting_for)
                reason = f"a query requires every site ready within {prepare_us / 1e6:g} s; got no word of {silent}"
                self.end(home.query_id, QueryState.FAILED, reason)

    # -- rows ---------------------------------------------------------------------------------

    def store(self, walk: Walk) -> None:
        """A walk is over, with its result rows: have them kept, once."""
        query_id = walk.query_id
        home = self.homes.get(query_id)
        if home is None or home.sink is None or walk.head not in home.sink.heads:
            raise PeerProtocolError(f"query {query_id} requires rows of its heads, at its sink; got {walk.head!r}")
        if home.state.ended:
            return
        if not home.sink.heads[walk.head].take(walk.span):
            self._outbox.do(NoteIgnored(IgnoreReason.DUPLICATE_WALK, f"{query_id} {walk.head} {walk.span}"))
            return
        if walk.rows.num_rows:
            self._outbox.do(StoreRows(query_id, walk.head, walk.span, walk.sealed_at_us, walk.rows))
        else:
            self._stored(home, RowsStored(query_id, walk.head, walk.span))

    def on_rows_stored(self, event: RowsStored) -> None:
        home = self.homes.get(event.query_id)
        if home is not None and not home.state.ended:
            self._stored(home, event)

    def _stored(self, home: HomeQuery, event: RowsStored) -> None:
        if home.sink is not None and home.sink.heads[event.head].stored(event.span):
            self._done_moved(home)

    def _done_moved(self, home: HomeQuery) -> None:
        home.done_moved(self._outbox.now_us)
        self._done_news[home.query_id] = None

    def tell_done(self) -> None:
        """One message per query and site for many walks, beside others where that can be."""
        if not self._done_news:
            return
        news, self._done_news = self._done_news, {}
        sent_to = {*self._outbox.sent_to(), *self._due_sites(news)}
        for query_id in news:
            home = self.homes.get(query_id)
            if home is None or home.sink is None or home.state.ended:
                continue
            for site, held in home.untold.items():
                rides = site == self._outbox.site or site in sent_to or home.sink.complete
                if held.count and rides:
                    home.told(site)
                    self._outbox.send(site, Done(query_id, home.sink.frontiers))
            if home.sink.complete:
                self._ends(home, QueryState.COMPLETED, home.reason)
            elif not home.all_told:
                self._done_news[query_id] = None

    def _due_sites(self, news: Iterable[str]) -> set[str]:
        """The sites that must be told something by now; all other news for them rides with that."""
        homes = [home for query_id in news if (home := self.homes.get(query_id)) is not None]
        running, now_us = [home for home in homes if not home.state.ended], self._outbox.now_us
        return {site for home in running for site, held in home.untold.items() if held.due(self._limits, now_us)}

    # -- a query ends -------------------------------------------------------------------------

    def end(self, query_id: str, state: QueryState, reason: str) -> None:
        """End a query before its streams have; every site is told to drop it."""
        home = self.homes.get(query_id)
        if home is None or home.state.ended:
            return
        for site in home.plan.sites:
            self._outbox.send(site, Drop(query_id))
        self._ends(home, state, reason)

    def _ends(self, home: HomeQuery, state: QueryState, reason: str) -> None:
        home.end(state, reason)
        self._outbox.do(ReportQuery(home.query_id, state, reason))
        self._ended[home.query_id] = None
        while len(self._ended) > self._limits.ended_queries_max:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self.homes[oldest]
