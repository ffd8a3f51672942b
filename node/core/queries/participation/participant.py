"""The queries that a site takes part in: prepared, started, told what is done, and ended.

What a query does here is in ``run``. If it cannot go on it is forgotten and its home is told, which ends it everywhere.
If it only lost what it knew it is voided, and home begins another generation; until that comes it has nothing here but
its pins. See ``run_ends``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from node.core.arrangements.arrangements import Arrangements
from node.core.effects import IgnoreReason
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.limits import Limits
from node.core.links.messages import (
    FIRST_GENERATION,
    NO_GENERATION,
    Delta,
    Done,
    Fence,
    Prepare,
    Refused,
    Start,
    StepMessage,
)
from node.core.links.outbox import Outbox
from node.core.queries.home.issuer import Issuer
from node.core.queries.participation.beginnings import Beginnings
from node.core.queries.participation.copy_openings import CopyOpenings
from node.core.queries.participation.deliveries import Deliveries
from node.core.queries.participation.fences import Fences
from node.core.queries.participation.figures import Figures
from node.core.queries.participation.kept_joins import KeptJoins
from node.core.queries.participation.lagging import Lagging
from node.core.queries.participation.pins import Pins
from node.core.queries.participation.round_trips import RoundTripMeter
from node.core.queries.participation.run_ends import RunEnds
from node.core.queries.participation.runs import Runs, check_home
from node.core.queries.participation.successors import Successors
from node.core.queries.plan_message import plan_of
from node.core.queries.query_id import home_of, is_successor, query_of
from node.core.queries.run import QueryRun
from node.core.queries.waiting import Walk
from node.core.query_records import PinRecord
from node.core.streams.stream import StreamState, check_same
from node.core.work import Work
from planner.model.errors import NarrowsError
from planner.model.query import Plan


class Participant:
    """What a site does for queries, its own and those of other homes."""

    def __init__(
        self,
        tau_ms: int,
        streams: Mapping[str, StreamState],
        limits: Limits,
        outbox: Outbox,
        issuer: Issuer,
        work: Work,
        arrangements: Arrangements,
        kept: KeptJoins,
    ) -> None:
        self._site = outbox.site
        self._tau_ms = tau_ms
        self._streams = streams
        self._limits = limits
        self._outbox = outbox
        self._issuer = issuer
        self._work = work
        self._arrangements = arrangements
        self._kept = kept
        self.runs = Runs(streams, outbox)
        self.fences = Fences(outbox, limits.fences_max)
        self.pins = Pins(tau_ms, streams, outbox, arrangements, self.runs)
        self.figures = Figures(self.runs, work, arrangements, limits.ended_queries_max)
        self.openings = CopyOpenings(
            self._site, self.runs, self.fences, self.pins, self.figures, arrangements, limits.unopened_copies_max
        )
        self.round_trips = RoundTripMeter(limits)
        self.beginnings = Beginnings(streams, outbox, self.runs, self.fences, self.round_trips, kept)
        self.lagging = Lagging(limits, streams)
        self.ends = RunEnds(
            self.runs, self.beginnings, self.pins, self.openings, self.lagging, self.figures, issuer, outbox, kept
        )
        self.successors = Successors(streams, outbox, self.runs)
        self.deliveries = Deliveries(self.runs, self.fences, self.ends, issuer, outbox, work, arrangements)

    def takes_part(self, peer: str, query_id: str) -> bool:
        """Whether a site has to do with a query that is known here."""
        home = self._issuer.homes.get(query_of(query_id))
        runs = self.runs.of(query_of(query_id))
        return any(peer in run.plan.sites for run in runs) or (home is not None and peer in home.sites)

    def recover(self, pins: Iterable[PinRecord]) -> None:
        """Know again what is kept for queries of an earlier life."""
        self.pins.recover(pins)

    # -- a query begins -----------------------------------------------------------------------

    def prepare(self, peer: str, message: Prepare) -> None:
        """Get ready for a query and say from where on it can be served, or refuse it."""
        query_id, takes_over = query_of(message.query_id), is_successor(message.query_id)
        for run in self._runs_before(peer, message):
            if not takes_over:
                self.ends.void(run)
        try:
            self._check_id(peer, query_id)
            plan = self._plan_of(peer, message)
            self._kept.check(plan, message)
            begins = {} if message.resumed is None else self.pins.kept_begins(query_id, plan, message.resumed)
        except NarrowsError as error:
            if self.pins.home_of(query_id) == peer and not takes_over:
                self.pins.remove(query_id)
                self._kept.forget(query_id)
            self._outbox.send(peer, Refused(message.query_id, str(error)))
            return
        self._kept.keep(plan, message)
        if not takes_over:
            is_begun = message.resumed is not None and message.resumed.is_begun
            # Until it is known for good where it begins, nothing is forgotten by that.
            self.pins.keep(query_id, plan, begins if is_begun else {})
        if message.generation != FIRST_GENERATION:
            for site in plan.sites:
                if site != self._site:
                    self._outbox.send(site, Fence(message.query_id, message.generation))
        self.openings.forget_older(query_id, message.generation)
        run = self._new_run(message, plan, begins)
        self.runs.add(run)
        self.beginnings.prepared(run, message, begins)

    def _runs_before(self, peer: str, message: Prepare) -> list[QueryRun]:
        """The runs that a home's query has here. Raises PeerProtocolError if they are not older than what is asked."""
        runs = [run for run in self.runs.of(query_of(message.query_id)) if run.plan.sink == peer]
        if any(message.generation <= run.generation for run in runs):
            got = f"{message.query_id} again, generation {message.generation}"
            raise PeerProtocolError(f"site {self._site} requires new queries, or new generations; got {got}")
        return runs

    def _check_id(self, peer: str, query_id: str) -> None:
        """Raises NarrowsError if the id is that of another site's query."""
        if home_of(query_id) not in ("", peer):
            raise NarrowsError(f"site {self._site} requires ids of queries of {peer} to name it; got {query_id}")
        runs = self.runs.of(query_id)
        home = runs[0].plan.sink if runs else self.pins.home_of(query_id) or peer
        home = self._site if query_id in self._issuer.homes else home
        if home != peer:
            raise NarrowsError(f"site {self._site} requires new query ids; got {query_id}, which is a query of {home}")

    def _plan_of(self, peer: str, message: Prepare) -> Plan:
        """Bind the query text against the streams that home named, once ours are as home thinks."""
        if message.sink != peer:
            raise NarrowsError(f"a query requires its home as sink; got {message.sink!r} from {peer}")
        for info in message.streams:
            if info.site != self._site:
                continue
            own = check_same(self._streams, info)
            if own.failed:
                raise NarrowsError(f"stream {info.name} cannot be read: {own.failed}")
        plan = plan_of(message)
        if unlinked := self._outbox.unlinked(plan.sites):
            required = f"site {self._site} requires links with all sites of a query"
            raise NarrowsError(f"{required}; got none with {', '.join(unlinked)}")
        return plan

    def _new_run(self, message: Prepare, plan: Plan, begins: Mapping[str, int]) -> QueryRun:
        return QueryRun(
            message.query_id,
            plan,
            self._tau_ms,
            self._limits,
            self._outbox,
            self._work,
            self._arrangements,
            self._store,
            message.generation,
            message.resumed,
            begins,
        )

    def _store(self, walk: Walk) -> None:
        """Have the rows of a walk that ended here kept.

        If they cannot be, a peer sent rows of its ticks before. Which one is not known: nobody is blamed.
        """
        try:
            self._issuer.store(walk)
        except PeerProtocolError as error:
            raise QueryFailedError(str(error)) from error

    def start(self, peer: str, message: Start) -> list[tuple[str, StepMessage]]:
        """All sites are ready; the messages that came before we knew, each with who sent it."""
        run = self.runs.find(message)
        if run is None:
            return []
        check_home(peer, run, "its start")
        if message.generation != run.generation:
            self._outbox.ignore(IgnoreReason.OTHER_GENERATION, message)
            return []
        message.check(run.plan.query.aliases, run.is_resumed)
        self.beginnings.start(run, message)
        return self._start_fenced(run)

    def _start_fenced(self, run: QueryRun) -> list[tuple[str, StepMessage]]:
        message = self.beginnings.take_start(run)
        if message is None:
            return []
        for alias in run.local_aliases:
            stream = self._streams[run.plan.query.ref(alias).stream.name]
            if not stream.started and message.origin_ms is not None:
                stream.origin_ms = message.origin_ms
        self._kept.begin(query_of(run.query_id), message)
        early: list[tuple[str, StepMessage]] = []
        with self.ends.working(run.query_id):
            early += run.start(message)
            self._move_pins(run)
        done = self.beginnings.take_done(run)
        if done is not None:
            self._on_done(run, done)
        return early

    def on_fence(self, peer: str, message: Fence) -> list[tuple[str, StepMessage]]:
        """What a site says of a query from now on belongs to another generation. It may be here before its Prepare.

        What is here of the generation that the site was in cannot go on. Nor must it: its leases there are gone, so
        what the site says of copies from now on is for others, and walks here would miss what is forgotten.

        The messages that came before a start which waited for this, each with who sent it.
        """
        before = self.fences.take(peer, message.query_id)
        run = self.runs.by_id.get(message.query_id)
        if run is not None and peer in run.plan.sites and before == run.generation != message.generation:
            if message.generation == NO_GENERATION:
                self.ends.lose(run.query_id, f"site {peer} lost what it knew")
            else:
                # Home knows, and asks us next.
                self.ends.void(run)
        if not is_successor(message.query_id) and message.generation != NO_GENERATION:
            for other in self.runs.of(message.query_id):
                if other.generation < message.generation and peer in other.plan.sites:
                    self.ends.void(other)
        self.fences.put(
            peer, message.query_id, message.generation, lambda run: run in self.runs.by_id or run in self.pins
        )
        self.openings.fenced(peer, message.query_id, message.generation, before)
        run = self.runs.by_id.get(message.query_id)
        return [] if run is None else self._start_fenced(run)

    # -- a query goes on ----------------------------------------------------------------------

    def on_done(self, peer: str, message: Done) -> None:
        """The sink of a query has stored more."""
        runs = self.runs.of(message.query_id)
        if not runs:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)
        for run in runs:
            check_home(peer, run, "news of what is done")
            if self.beginnings.keep_done(run, message):
                continue
            if run.started or not run.is_successor:
                # The start of a successor will say it again.
                self._on_done(run, message)

    def _on_done(self, run: QueryRun, message: Done) -> None:
        with self.ends.working(run.query_id):
            run.on_done(message.frontiers)
            run.on_taken(message.taken)
            self._move_pins(run)
        if run.complete:
            self.ends.close(query_of(run.query_id))

    def _move_pins(self, run: QueryRun) -> None:
        """Less is needed; but nothing is forgotten for good by what home may not know after a crash."""
        query_id = query_of(run.query_id)
        if run.plan.sink != self._site or self._issuer.kept_done(query_id) == run.done:
            self.pins.move(query_id)

    def on_clock(self) -> None:
        """Time passed."""
        self.deliveries.on_clock()
        self.ends.void_lagging()
        self.beginnings.say_ready()
        self.round_trips.on_clock(self.runs, self._outbox)

    def on_delta(self, peer: str, message: Delta) -> None:
        """Home has derived delta anew."""
        run = self.runs.find(message)
        if run is not None:
            check_home(peer, run, "its delta")
            run.on_delta(message.delta_us)

    def peer_lost(self, peer: str, reason: str) -> None:
        """A site was restarted, or the session with it is lost: what it said before is void."""
        # Before its queries are voided here: some may be those of its new life, which opens copies for them yet.
        self.openings.holder_lost(peer)
        self.ends.peer_lost(peer, reason)
        self._arrangements.owner_lost(peer)
        self.pins.return_to((peer,))
