"""How sites learn what is done: one message for many walks, beside others where that can be.

Others forget for good by what they are told: so home keeps it first.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.core.effects import QueryState
from node.core.limits import Limits
from node.core.links.messages import Done
from node.core.links.outbox import Outbox
from node.core.queries.home.home_ends import HomeEnds
from node.core.queries.home.home_query import HomeQuery
from node.core.queries.home.home_records import HomeRecords
from node.core.queries.home.sink import Sink


class DoneNews:
    """What was stored, and was not told to all."""

    def __init__(
        self, homes: dict[str, HomeQuery], limits: Limits, outbox: Outbox, records: HomeRecords, ends: HomeEnds
    ) -> None:
        self._homes = homes
        self._limits = limits
        self._outbox = outbox
        self._records = records
        self._ends = ends
        #: Queries whose sites were not all told the latest done frontiers.
        self._queries: dict[str, None] = {}

    def add(self, home: HomeQuery) -> None:
        """More of a query is done."""
        home.done_moved(self._outbox.now_us)
        self._queries[home.query_id] = None

    def tell(self) -> None:
        """One message per query and site for many walks, beside others where that can be."""
        if not self._queries:
            return
        news, self._queries = self._queries, {}
        sent_to = {*self._outbox.sent_to(), *self._due_sites(news)}
        for query_id in news:
            home = self._homes.get(query_id)
            if home is None or home.sink is None or home.state.ended:
                continue
            if home.is_ready and home.sink.complete:
                self._ends.complete(home)
                continue
            if home.is_ready:
                # The generation that is being prepared is told by its start.
                self._queries[query_id] = None
                continue
            self._tell_of(home, home.sink, sent_to)

    def _tell_of(self, home: HomeQuery, sink: Sink, sent_to: set[str]) -> None:
        here = self._outbox.site
        told = [site for site, held in home.untold.items() if held.count and (site in sent_to or sink.complete)]
        if [site for site in told if site != here] or home.unkept.due(self._limits, self._outbox.now_us):
            # Others forget for good by what they are told; here nothing is by what is not kept.
            self._records.keep_done(home)
            # Here logs are cut by what is kept, so that is news here too.
            told = [here, *told]
        elif home.untold[here].count:
            told = [here, *told]
        if sink.complete:
            self._ends.keep_end(home, QueryState.COMPLETED, home.reason)
        for site in dict.fromkeys(told):
            home.told(site)
            self._outbox.send(site, Done(home.query_id, sink.frontiers, sink.taken))
        if sink.complete:
            self._ends.report_end(home)
        elif not home.all_told or home.unkept.count:
            self._queries[home.query_id] = None

    def _due_sites(self, news: Iterable[str]) -> set[str]:
        """The sites that must be told something by now; all other news for them rides with that."""
        homes = [home for query_id in news if (home := self._homes.get(query_id)) is not None]
        running, now_us = [home for home in homes if home.state is QueryState.RUNNING], self._outbox.now_us
        return {site for home in running for site, held in home.untold.items() if held.due(self._limits, now_us)}
