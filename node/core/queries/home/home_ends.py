"""How queries end at their home. Ended ones are remembered for those who ask, the last few of them."""

from __future__ import annotations

from node.core.effects import QueryState, ReportQuery
from node.core.links.messages import Drop
from node.core.links.outbox import Outbox
from node.core.queries.home.home_query import HomeQuery
from node.core.queries.home.home_records import HomeRecords
from node.core.queries.home.plan_switching import PlanSwitching


class HomeEnds:
    """The end of each query, and the queries that have ended."""

    def __init__(
        self,
        homes: dict[str, HomeQuery],
        outbox: Outbox,
        records: HomeRecords,
        switching: PlanSwitching,
        ended_max: int,
    ) -> None:
        self._homes = homes
        self._outbox = outbox
        self._records = records
        self._switching = switching
        self._ended_max = ended_max
        #: Queries that have ended and are remembered, in the order in which they ended.
        self._ended: dict[str, None] = {}

    def remember(self, query_id: str) -> None:
        """A query has ended, in this life or in an earlier one."""
        self._ended[query_id] = None

    def issued(self, query_id: str) -> None:
        """A query begins, which may have the name of one that ended."""
        self._ended.pop(query_id, None)

    def end(self, query_id: str, state: QueryState, reason: str) -> None:
        """End a query before its streams have; every site is told to drop it."""
        home = self._homes.get(query_id)
        if home is None or home.state.ended:
            return
        self.keep_end(home, state, reason)
        for site in home.sites:
            self._outbox.send(site, Drop(query_id))
        self.report_end(home)

    def complete(self, home: HomeQuery) -> None:
        """All rows are stored, while a generation that nobody needs is being prepared."""
        self.end(home.query_id, QueryState.COMPLETED, home.reason_if_whole)

    def keep_end(self, home: HomeQuery, state: QueryState, reason: str) -> None:
        """Before sites remove their pins, without which the query could not begin again."""
        home.end(state, reason)
        self._records.keep(home)
        if home.switch is not None:
            self._switching.give_up(home, f"the query is {state}")

    def report_end(self, home: HomeQuery) -> None:
        """Say what became of a query, and remember it. A join that is kept is known as long as somebody reads it."""
        if home.stream is not None:
            return
        self._outbox.do(ReportQuery(home.query_id, home.state, home.reason))
        self.remember(home.query_id)
        while len(self._ended) > self._ended_max:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self._homes[oldest]
            self._records.forget(oldest)
