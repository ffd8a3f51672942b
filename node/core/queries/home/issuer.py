"""The queries that were issued at a site: it installs them, begins them again, and has their rows stored.

Each has a ``HomeQuery``; how it goes over to another plan is in ``plan_switching``, how it ends in ``home_ends``.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.core.effects import IgnoreReason, NoteIgnored, QueryState, ReportQuery, StoreRows
from node.core.errors import PeerProtocolError
from node.core.events import QueryIssued, RowsStored
from node.core.limits import Limits
from node.core.links.messages import Delta, Drop, Held, Lost, Prepared, Returned, RoundTrips
from node.core.links.outbox import Outbox
from node.core.queries.home.done_news import DoneNews
from node.core.queries.home.generations import Generations
from node.core.queries.home.home_ends import HomeEnds
from node.core.queries.home.home_query import HomeQuery
from node.core.queries.home.home_records import HomeRecords
from node.core.queries.home.kept_sink import KeptSink
from node.core.queries.home.plan_switching import PlanSwitching
from node.core.queries.plan_message import plan_of
from node.core.queries.query_id import is_successor, query_of
from node.core.queries.waiting import Walk
from node.core.query_records import Recovered
from node.core.streams.derived import DerivedStream
from planner.model.kept import owned_by
from planner.model.query import PolicyName


class Issuer:
    """What a site does as the home, and so the sink, of queries."""

    def __init__(self, limits: Limits, outbox: Outbox, life: int) -> None:
        self.homes: dict[str, HomeQuery] = {}
        self._limits = limits
        self._outbox = outbox
        self.generations = Generations(life)
        self._records = HomeRecords(outbox)
        self.switching = PlanSwitching(self.homes, limits, outbox, self._records, self.generations, self.begin_again)
        self.ends = HomeEnds(self.homes, outbox, self._records, self.switching, limits.ended_queries_max)
        self.done_news = DoneNews(self.homes, limits, outbox, self._records, self.ends)

    # -- a daemon starts ----------------------------------------------------------------------

    def recover(self, recovered: Recovered, kept: Mapping[str, DerivedStream]) -> None:
        """Know again what was issued here in an earlier life; ``begin_again_all`` goes on with it.

        ``kept``: by query, the streams that the rows of joins are which are kept here.
        """
        done = {record.query_id: dict(record.done) for record in recovered.done}
        for record in recovered.homes:
            plan, stored = plan_of(record.prepare), recovered.stored.get(record.query_id, ())
            home = HomeQuery.recovered(record, plan, done.get(record.query_id), stored)
            self.homes[home.query_id] = home
            if home.query_id in kept:
                home.kept_as(kept[home.query_id])
                continue
            if not home.state.ended and home.query_id in recovered.broken:
                # Its sites ask whether it is over, as they do whenever a home returns.
                self.ends.keep_end(home, QueryState.FAILED, recovered.broken[home.query_id])
            if home.state.ended:
                self.ends.remember(home.query_id)
        for query_id in recovered.leftovers:
            self._records.forget(query_id)

    def begin_again_all(self) -> None:
        """The site can speak to others: queries of an earlier life go on; of those that are over it is told again."""
        for home in list(self.homes.values()):
            if home.state.ended:
                self._report(home, home.reason)
            else:
                home.restarted(self._outbox.now_us)
                self.begin_again(home, f"site {self._outbox.site} was restarted")

    # -- a query begins -----------------------------------------------------------------------

    def issue(self, event: QueryIssued) -> None:
        """Ask every site of a query to prepare."""
        plan = owned_by(event.plan, event.query_id)
        self.ends.issued(event.query_id)
        self.add(HomeQuery(event.query_id, plan, self._outbox.now_us, event.beginning))

    def add(self, home: HomeQuery) -> None:
        """A query is issued; or a join that is kept here, which somebody else has to let begin."""
        self.homes[home.query_id] = home
        self._records.keep(home)
        self._ask(home)

    def remove(self, home: HomeQuery) -> None:
        """Nothing is known of it any more."""
        del self.homes[home.query_id]
        self._records.forget(home.query_id)

    def _ask(self, home: HomeQuery) -> None:
        self._records.keep_news(home)
        for site in home.plan.sites:
            self._outbox.send(site, home.prepare())

    def on_prepared(self, peer: str, message: Prepared) -> None:
        """A site is ready; after the last one, all start."""
        home = self.homes.get(query_of(message.query_id))
        if home is not None and is_successor(message.query_id):
            self.switching.on_prepared(home, peer, message)
            return
        if home is None or not home.is_ready:
            self._outbox.ignore(IgnoreReason.QUERY_ENDED, message)
            return
        if message.generation != home.generation:
            self._outbox.ignore(IgnoreReason.OTHER_GENERATION, message)
            return
        if home.prepared(peer, message):
            self.start(home)

    def start(self, home: HomeQuery) -> None:
        """All sites are ready, and so is who reads a join that is kept."""
        if reason := home.reaches_too_late:
            self.ends.end(home.query_id, QueryState.FAILED, reason)
            return
        if home.is_to_look_back:
            home.look_back(self.generations.next())
            self._ask(home)
            return
        is_new = home.sink is None
        start = home.start()
        if is_new:
            home.begun()
            # Who forgets by what is done must not learn it before home knows for good where that began.
            self._records.keep(home)
        self._records.keep_news(home)
        for site in home.plan.sites:
            self._outbox.send(site, start)
        self._report(home, "")
        self.done_news.add(home)

    def _report(self, home: HomeQuery, reason: str) -> None:
        """Of a join that is kept nobody asked."""
        if home.stream is None:
            self._outbox.do(ReportQuery(home.query_id, home.state, reason))

    def give_up_waiting(self) -> None:
        """A query that cannot be started must not hold streams that others read."""
        prepare_us = self._limits.prepare_us
        for home in list(self.homes.values()):
            if home.stream is not None and home.state is QueryState.PREPARING:
                # The query that reads it waits for it, and gives up for both, unless it had begun.
                continue
            if home.state is QueryState.PREPARING and self._outbox.now_us - home.issued_us >= prepare_us:
                silent = ", ".join(home.waiting_for)
                reason = f"a query requires every site ready within {prepare_us / 1e6:g} s; got no word of {silent}"
                self.ends.end(home.query_id, QueryState.FAILED, reason)
            elif self._waits_long(home):
                self.begin_again(home, home.reason, is_alone=True)
            else:
                self.switching.give_up_slow(home)

    def _waits_long(self, home: HomeQuery) -> bool:
        """Whether sites that are ready hold what they have for a query that waits for others, which may be away."""
        is_held = home.state is QueryState.RECOVERING and not home.is_alone and not home.is_waiting
        return is_held and self._outbox.now_us - home.begun_us >= self._limits.prepare_us

    def on_round_trips(self, peer: str, message: RoundTrips) -> None:
        """Links have changed: a query that goes by the clock may have to go by another delta."""
        home = self.homes.get(message.query_id)
        delta_us = None if home is None else home.measured(peer, message.rtt_us)
        if home is not None and delta_us is not None:
            for site in home.plan.sites:
                self._outbox.send(site, Delta(home.query_id, delta_us))

    # -- another generation -------------------------------------------------------------------

    def peer_lost(self, peer: str, reason: str) -> None:
        """What a site knew of our queries is gone."""
        for home in list(self.homes.values()):
            if not home.state.ended and peer in home.sites:
                self._lost(home, peer, f"site {peer}: {reason}")

    def on_lost(self, peer: str, message: Lost) -> None:
        """A site lost what it knew of a query; others may tell the same."""
        query_id = query_of(message.query_id)
        home = self.homes.get(query_id)
        if home is None or home.state.ended or peer not in home.sites:
            # It keeps nothing but pins for it, and would for ever.
            self._outbox.send(peer, Drop(query_id))
        elif message.generation not in home.generations:
            self._outbox.ignore(IgnoreReason.OTHER_GENERATION, message)
        elif not self.switching.give_up_for(peer, message.query_id, message.reason):
            self.begin_again(home, message.reason)

    def on_returned(self, peer: str, message: Returned) -> None:
        """A site still keeps what a query may need: it need not, if that is over."""
        home = self.homes.get(message.query_id)
        if home is None or home.state.ended or peer not in home.sites:
            self._outbox.send(peer, Drop(message.query_id))

    def _lost(self, home: HomeQuery, peer: str, reason: str) -> None:
        """What a site knew of a query is gone; or of a plan that it was to go over to."""
        if home.is_preparing_switch and peer not in home.plan.sites:
            self.switching.give_up(home, reason)
        else:
            self.begin_again(home, reason)

    def begin_again(self, home: HomeQuery, reason: str, is_alone: bool = False) -> None:
        """Begin another generation, unless the query needs nobody any more or cannot go on."""
        if home.sink is not None and home.sink.complete:
            # It needs nobody any more, who may not even return.
            self.ends.complete(home)
            return
        self.switching.end(home, reason)
        if unlinked := self._outbox.unlinked(home.plan.sites):
            required = f"site {self._outbox.site} requires links with all sites of a query"
            got = f"got none with {', '.join(unlinked)}: the configuration has changed"
            self.ends.end(home.query_id, QueryState.FAILED, f"{required}; {got}")
            return
        if home.plan.policy.name is PolicyName.DELTA:
            # Its probes go by the clock, which did not wait.
            self.ends.end(home.query_id, QueryState.FAILED, f"{reason} (a query by policy delta does not outlive that)")
            return
        home.begin_again(self.generations.next(), reason, self._outbox.now_us, is_alone, self._limits.lag_us)
        if not home.is_waiting:
            self._ask(home)
        if not is_alone:
            self._report(home, home.reason)

    # -- rows ---------------------------------------------------------------------------------

    def store(self, walk: Walk) -> None:
        """A walk is over, with its result rows: have them kept, once."""
        query_id = query_of(walk.query_id)
        home = self.homes.get(query_id)
        switch = None if home is None else home.switch
        if switch is not None and switch.holds and walk.generation == switch.generation:
            switch.take(walk)
            return
        if home is None or home.sink is None or walk.head not in home.sink.heads:
            raise PeerProtocolError(f"query {query_id} requires rows of its heads, at its sink; got {walk.head!r}")
        if home.state.ended:
            return
        if walk.generation not in home.generations:
            self._outbox.do(NoteIgnored(IgnoreReason.OTHER_GENERATION, str(walk)))
            return
        if isinstance(home.sink, KeptSink):
            if not home.sink.take(walk):
                self._outbox.do(NoteIgnored(IgnoreReason.DUPLICATE_WALK, f"{query_id} {walk.head} {walk.span}"))
            return
        if not home.take(walk.head, walk.span, self._outbox.now_us):
            self._outbox.do(NoteIgnored(IgnoreReason.DUPLICATE_WALK, f"{query_id} {walk.head} {walk.span}"))
            return
        if walk.rows.num_rows:
            self._outbox.do(StoreRows(query_id, walk.head, walk.span, walk.sealed_at_us, walk.rows))
        else:
            self._stored(home, RowsStored(query_id, walk.head, walk.span))

    def on_rows_stored(self, event: RowsStored) -> None:
        home = self.homes.get(event.query_id)
        if home is not None and not home.state.ended:
            home.rows_stored(self._outbox.now_us)
            self._stored(home, event)
            if home.is_waiting and home.sink is not None and not home.sink.is_storing:
                self.begin_again(home, home.reason)

    def _stored(self, home: HomeQuery, event: RowsStored) -> None:
        if home.sink is not None and home.sink.heads[event.head].stored(event.span):
            self.done_news.add(home)
            self._raise_floor(home)

    def on_held(self, peer: str, message: Held) -> None:
        """The site of a stream holds it, before heads go over to another plan."""
        home = self.switching.on_held(peer, message)
        if home is not None:
            self._raise_floor(home)

    def _raise_floor(self, home: HomeQuery) -> None:
        """If the plan before has ended what it had to do, what the other one has found since is taken."""
        before = home.plan
        walks = self.switching.raise_floor(home)
        if home.plan is not before:
            self.done_news.add(home)
        try:
            for walk in walks:
                self.store(walk)
        except PeerProtocolError as error:
            # Which of the sites sent rows of the same ticks twice is not known.
            self.ends.end(home.query_id, QueryState.FAILED, str(error))

    def kept_done(self, query_id: str) -> dict[str, int]:
        """How far a query issued here is done, as home will know after a crash; nothing of one that is forgotten."""
        home = self.homes.get(query_id)
        return {} if home is None else dict(home.kept_done)

    def fail(self, run_id: str, reason: str) -> None:
        """A site cannot go on with a query, by one of its plans; what is void already it need not."""
        home = self.homes.get(query_of(run_id))
        if home is None or (is_successor(run_id) and run_id not in home.run_ids):
            return
        if home.switch is not None and home.switch.holds and home.switch.run_id == run_id:
            # Nothing of the other plan is stored, so the one before can go on.
            self.begin_again(home, reason)
        else:
            self.ends.end(home.query_id, QueryState.FAILED, reason)
