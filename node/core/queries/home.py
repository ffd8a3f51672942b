"""A query at its home: the site where it was issued, which installs it everywhere and is its sink.

Installation has two phases. Every site prepares, or refuses; when all are
ready, home starts the query at the latest of the ticks that they name, so every
site can serve it from that tick on: its frontier, or what its streams retained. If one refuses, none starts.
When it ends is decided by ``issuer``.
"""

from __future__ import annotations

from node.core.effects import QueryState
from node.core.links.messages import Prepare, Prepared, Start
from node.core.queries.delta import delta_us
from node.core.queries.news import HeldNews
from node.core.queries.sink import Sink
from node.core.streams.ticks import TICK_END, TICK_MIN
from planner.model.query import Plan


class HomeQuery:
    """State of one query that was issued here."""

    def __init__(self, query_id: str, plan: Plan, issued_us: int = 0) -> None:
        self.query_id = query_id
        self.plan = plan
        self.issued_us = issued_us
        self.state = QueryState.PREPARING
        self.reason = ""
        self.sink: Sink | None = None
        #: For each site, how many moves of the done frontiers it was not told of.
        self.untold = {site: HeldNews() for site in plan.sites}
        self._waiting = list(plan.sites)
        self._first_tick = TICK_MIN
        self._origins: list[int] = []
        self._rtt_us: dict[tuple[str, str], int] = {}
        self._frontiers: dict[str, int] = {}

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Sites that have not answered Prepare."""
        return tuple(self._waiting)

    def prepare(self) -> Prepare:
        """What every site is asked."""
        query = self.plan.query
        streams = {ref.stream.name: ref.stream for ref in query.streams}
        plan = self.plan
        return Prepare(self.query_id, query.text, plan.sink, plan.sequences, tuple(streams.values()), plan.policy)

    def prepared(self, site: str, answer: Prepared) -> Start | None:
        """A site is ready; the message for all of them once it was the last."""
        if site not in self._waiting:
            return None
        self._waiting.remove(site)
        self._first_tick = max(self._first_tick, answer.earliest)
        if answer.origin_ms is not None:
            self._origins.append(answer.origin_ms)
        self._rtt_us |= {(site, peer): rtt for peer, rtt in answer.rtt_us}
        own = [ref.alias for ref in self.plan.query.streams if ref.stream.site == site]
        self._frontiers |= {alias: tick for alias, tick in answer.frontiers if alias in own}
        if self._waiting:
            return None
        self.state = QueryState.RUNNING
        self.sink = Sink(self.plan.query.aliases, self._first_tick)
        if self._first_tick == TICK_END:
            self.reason = (
                "a stream of the query had ended before and retains nothing, so there is nothing to join "
                "(a recording is read once; with retain it is kept for later queries)"
            )
        return Start(
            self.query_id,
            self._first_tick,
            min(self._origins, default=None),
            delta_us(self.plan, self._rtt_us),
            tuple(sorted(self._frontiers.items())),
        )

    def done_moved(self, now_us: int) -> None:
        """The sink stored more: the sites are to be told, some time."""
        for held in self.untold.values():
            held.add(now_us)

    def told(self, site: str) -> None:
        """The site was told the done frontiers as they are now."""
        self.untold[site] = HeldNews()

    @property
    def all_told(self) -> bool:
        return not any(held.count for held in self.untold.values())

    def end(self, state: QueryState, reason: str) -> None:
        self.state = state
        self.reason = reason
