"""The queries that were issued at a site: it installs them, stores their rows, tells who is done, and ends them.

Ended ones are remembered for those who ask, the last ``limits.ended_queries_max`` of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.core.effects import (
    IgnoreReason,
    KeepRecord,
    NoteIgnored,
    QueryState,
    RemoveRecord,
    ReportQuery,
    StoreRows,
)
from node.core.errors import PeerProtocolError, invariant
from node.core.events import QueryIssued, RowsStored
from node.core.limits import Limits
from node.core.links.messages import Done, Drop, Lost, Prepared, Returned
from node.core.links.outbox import Outbox
from node.core.queries.home import HomeQuery
from node.core.queries.news import HeldNews
from node.core.queries.plan_message import plan_of
from node.core.queries.sink import Sink
from node.core.queries.waiting import Walk
from node.core.query_records import DoneRecord, HomeRecord, RecordKind, Recovered
from node.core.streams.ticks import Span
from planner.model.query import PolicyName

#: Generations that a home may begin in one life.
_GENERATIONS_MAX = 2**24


class Issuer:
    """What a site does as the home, and so the sink, of queries."""

    def __init__(self, limits: Limits, outbox: Outbox, life: int) -> None:
        self.homes: dict[str, HomeQuery] = {}
        self._limits = limits
        self._outbox = outbox
        self._life = life
        #: Generations that were begun in this life, of all queries.
        self._generations = 0
        #: Queries that have ended and are remembered, in the order in which they ended.
        self._ended: dict[str, None] = {}
        #: Queries whose sites were not all told the latest done frontiers.
        self._done_news: dict[str, None] = {}

    # -- a daemon starts ----------------------------------------------------------------------

    def recover(self, recovered: Recovered) -> None:
        """Know again what was issued here in an earlier life; ``begin_again_all`` goes on with it."""
        done = {record.query_id: dict(record.done) for record in recovered.done}
        for record in recovered.homes:
            home = self._home_of(record, done.get(record.query_id), recovered.stored.get(record.query_id, ()))
            self.homes[home.query_id] = home
            if not home.state.ended and home.query_id in recovered.broken:
                # Its sites ask whether it is over, as they do whenever a home returns.
                self._keep_end(home, QueryState.FAILED, recovered.broken[home.query_id])
            if home.state.ended:
                self._ended[home.query_id] = None
        for query_id in recovered.leftovers:
            self._forget(query_id)

    @staticmethod
    def _home_of(record: HomeRecord, done: dict[str, int] | None, stored: Iterable[tuple[str, Span]]) -> HomeQuery:
        home = HomeQuery(record.query_id, plan_of(record.prepare), beginning=record.prepare.beginning)
        home.state, home.reason, home.first_tick = record.state, record.reason, record.first_tick
        home.limited_by = record.limited_by
        if record.first_tick is not None:
            home.sink = Sink(done or dict.fromkeys(home.plan.query.aliases, record.first_tick))
            home.kept_done = home.sink.frontiers
            for head, span in sorted(stored, key=lambda walk: walk[1]):
                home.sink.heads[head].found(span)
        return home

    def begin_again_all(self) -> None:
        """The site can speak to others: queries of an earlier life go on; of those that are over it is told again."""
        for home in list(self.homes.values()):
            if home.state.ended:
                self._outbox.do(ReportQuery(home.query_id, home.state, home.reason))
            else:
                home.issued_us = self._outbox.now_us
                self._begin_again(home, f"site {self._outbox.site} was restarted")

    # -- a query begins -----------------------------------------------------------------------

    def issue(self, event: QueryIssued) -> None:
        """Ask every site of a query to prepare."""
        home = HomeQuery(event.query_id, event.plan, self._outbox.now_us, event.beginning)
        self.homes[event.query_id] = home
        self._ended.pop(event.query_id, None)
        self._keep(home)
        self._ask(home)

    def _keep(self, home: HomeQuery) -> None:
        self._outbox.do(KeepRecord(home.record()))

    def _ask(self, home: HomeQuery) -> None:
        self._keep_news(home)
        for site in home.plan.sites:
            self._outbox.send(site, home.prepare())

    def on_prepared(self, peer: str, message: Prepared) -> None:
        """A site is ready; after the last one, all start."""
        home = self.homes.get(message.query_id)
        if home is None or not home.is_ready:
            self._outbox.ignore(IgnoreReason.QUERY_ENDED, message)
            return
        if message.generation != home.generation:
            self._outbox.ignore(IgnoreReason.OTHER_GENERATION, message)
            return
        is_new = home.sink is None
        start = home.prepared(peer, message)
        if start is None:
            return
        if is_new and home.sink is not None:
            home.kept_done = home.sink.frontiers
            # Who forgets by what is done must not learn it before home knows for good where that began.
            self._keep(home)
        self._keep_news(home)
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
            elif self._waits_long(home):
                self._begin_again(home, home.reason, is_alone=True)

    def _waits_long(self, home: HomeQuery) -> bool:
        """Whether sites that are ready hold what they have for a query that waits for others, which may be away."""
        is_held = home.state is QueryState.RECOVERING and not home.is_alone and not home.is_waiting
        return is_held and self._outbox.now_us - home.begun_us >= self._limits.prepare_us

    # -- another generation -------------------------------------------------------------------

    def peer_lost(self, peer: str, reason: str) -> None:
        """What a site knew of our queries is gone."""
        for home in list(self.homes.values()):
            if not home.state.ended and peer in home.plan.sites:
                self._begin_again(home, f"site {peer}: {reason}")

    def on_lost(self, peer: str, message: Lost) -> None:
        """A site lost what it knew of a query; others may tell the same."""
        home = self.homes.get(message.query_id)
        if home is None or home.state.ended or peer not in home.plan.sites:
            # It keeps nothing but pins for it, and would for ever.
            self._outbox.send(peer, Drop(message.query_id))
        elif message.generation != home.generation:
            self._outbox.ignore(IgnoreReason.OTHER_GENERATION, message)
        else:
            self._begin_again(home, message.reason)

    def on_returned(self, peer: str, message: Returned) -> None:
        """A site still keeps what a query may need: it need not, if that is over."""
        home = self.homes.get(message.query_id)
        if home is None or home.state.ended or peer not in home.plan.sites:
            self._outbox.send(peer, Drop(message.query_id))

    def _begin_again(self, home: HomeQuery, reason: str, is_alone: bool = False) -> None:
        if home.sink is not None and home.sink.complete:
            # It needs nobody any more, who may not even return.
            self._complete(home)
            return
        if unlinked := self._outbox.unlinked(home.plan.sites):
            required = f"site {self._outbox.site} requires links with all sites of a query"
            got = f"got none with {', '.join(unlinked)}: the configuration has changed"
            self.end(home.query_id, QueryState.FAILED, f"{required}; {got}")
            return
        if home.plan.policy.name is PolicyName.DELTA:
            # Its probes go by the clock, which did not wait.
            self.end(home.query_id, QueryState.FAILED, f"{reason} (a query by policy delta does not outlive that)")
            return
        self._generations += 1
        invariant(self._generations < _GENERATIONS_MAX, "a home requires fewer generations in one life; got more")
        generation = self._life * _GENERATIONS_MAX + self._generations
        home.begin_again(generation, reason, self._outbox.now_us, is_alone)
        home.is_waiting = self._is_stuck(home)
        if not home.is_waiting:
            self._ask(home)
        if not is_alone:
            self._outbox.do(ReportQuery(home.query_id, home.state, home.reason))

    def _is_stuck(self, home: HomeQuery) -> bool:
        """Whether rows cannot be stored, it seems: whatever walks now would only lag again."""
        if home.sink is None or not home.sink.is_storing:
            return False
        return self._outbox.now_us - home.stored_us >= self._limits.lag_us // 2

    # -- rows ---------------------------------------------------------------------------------

    def store(self, walk: Walk) -> None:
        """A walk is over, with its result rows: have them kept, once."""
        query_id = walk.query_id
        home = self.homes.get(query_id)
        if home is None or home.sink is None or walk.head not in home.sink.heads:
            raise PeerProtocolError(f"query {query_id} requires rows of its heads, at its sink; got {walk.head!r}")
        if home.state.ended:
            return
        if walk.generation != home.generation:
            self._outbox.do(NoteIgnored(IgnoreReason.OTHER_GENERATION, str(walk)))
            return
        was_storing = home.sink.is_storing
        if not home.sink.heads[walk.head].take(walk.span):
            self._outbox.do(NoteIgnored(IgnoreReason.DUPLICATE_WALK, f"{query_id} {walk.head} {walk.span}"))
            return
        if walk.rows.num_rows:
            if not was_storing:
                home.stored_us = self._outbox.now_us
            self._outbox.do(StoreRows(query_id, walk.head, walk.span, walk.sealed_at_us, walk.rows))
        else:
            self._stored(home, RowsStored(query_id, walk.head, walk.span))

    def on_rows_stored(self, event: RowsStored) -> None:
        home = self.homes.get(event.query_id)
        if home is not None and not home.state.ended:
            home.stored_us = self._outbox.now_us
            self._stored(home, event)
            if home.is_waiting and home.sink is not None and not home.sink.is_storing:
                self._begin_again(home, home.reason)

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
            if home.is_ready and home.sink.complete:
                self._complete(home)
                continue
            if home.is_ready:
                # The generation that is being prepared is told by its start.
                self._done_news[query_id] = None
                continue
            self._tell_done_of(home, home.sink, sent_to)

    def _tell_done_of(self, home: HomeQuery, sink: Sink, sent_to: set[str]) -> None:
        here = self._outbox.site
        told = [site for site, held in home.untold.items() if held.count and (site in sent_to or sink.complete)]
        if [site for site in told if site != here] or home.unkept.due(self._limits, self._outbox.now_us):
            # Others forget for good by what they are told; here nothing is by what is not kept.
            self._keep_done(home, sink)
            # Here logs are cut by what is kept, so that is news here too.
            told = [here, *told]
        elif home.untold[here].count:
            told = [here, *told]
        if sink.complete:
            self._keep_end(home, QueryState.COMPLETED, home.reason)
        for site in dict.fromkeys(told):
            home.told(site)
            self._outbox.send(site, Done(home.query_id, sink.frontiers))
        if sink.complete:
            self._report_end(home)
        elif not home.all_told or home.unkept.count:
            self._done_news[home.query_id] = None

    def _keep_news(self, home: HomeQuery) -> None:
        """What is done is about to be told."""
        if home.sink is not None and home.sink.frontiers != home.kept_done:
            self._keep_done(home, home.sink)

    def _keep_done(self, home: HomeQuery, sink: Sink) -> None:
        home.kept_done, home.unkept = sink.frontiers, HeldNews()
        self._outbox.do(KeepRecord(DoneRecord(home.query_id, home.kept_done)))

    def kept_done(self, query_id: str) -> dict[str, int]:
        """How far a query issued here is done, as home will know after a crash; nothing of one that is forgotten."""
        home = self.homes.get(query_id)
        return {} if home is None else dict(home.kept_done)

    def _due_sites(self, news: Iterable[str]) -> set[str]:
        """The sites that must be told something by now; all other news for them rides with that."""
        homes = [home for query_id in news if (home := self.homes.get(query_id)) is not None]
        running, now_us = [home for home in homes if home.state is QueryState.RUNNING], self._outbox.now_us
        return {site for home in running for site, held in home.untold.items() if held.due(self._limits, now_us)}

    # -- a query ends -------------------------------------------------------------------------

    def end(self, query_id: str, state: QueryState, reason: str) -> None:
        """End a query before its streams have; every site is told to drop it."""
        home = self.homes.get(query_id)
        if home is None or home.state.ended:
            return
        self._keep_end(home, state, reason)
        for site in home.plan.sites:
            self._outbox.send(site, Drop(query_id))
        self._report_end(home)

    def _complete(self, home: HomeQuery) -> None:
        """All rows are stored, while a generation that nobody needs is being prepared."""
        self.end(home.query_id, QueryState.COMPLETED, home.reason_if_whole)

    def _keep_end(self, home: HomeQuery, state: QueryState, reason: str) -> None:
        """Before sites remove their pins, without which the query could not begin again."""
        home.end(state, reason)
        self._keep(home)

    def _report_end(self, home: HomeQuery) -> None:
        self._outbox.do(ReportQuery(home.query_id, home.state, home.reason))
        self._ended[home.query_id] = None
        while len(self._ended) > self._limits.ended_queries_max:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self.homes[oldest]
            self._forget(oldest)

    def _forget(self, query_id: str) -> None:
        self._outbox.do(RemoveRecord(RecordKind.HOME, query_id))
        self._outbox.do(RemoveRecord(RecordKind.DONE, query_id))
