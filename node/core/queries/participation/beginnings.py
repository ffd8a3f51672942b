"""What runs wait for before they begin: this site for the others, a start for the fences of all, home for our word.

A run that goes on must not begin, and hold what it needs, before its sites reach each other. Nor may a new one before
they have met: what is said to a site that was never met could be heard by a daemon that was started since, which would
answer without what it had promised. Joins that are kept here for a run have to be ready too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from node.core.links.messages import Done, Prepare, Prepared, Ready, Start
from node.core.links.outbox import Outbox
from node.core.queries.participation.fences import Fences
from node.core.queries.participation.kept_joins import KeptJoins
from node.core.queries.participation.round_trips import RoundTripMeter
from node.core.queries.participation.runs import Runs
from node.core.queries.query_id import query_of
from node.core.queries.run import QueryRun
from node.core.streams.stream import StreamState
from node.core.streams.ticks import TICK_MIN
from planner.model.plans import links_of


@dataclass(slots=True)
class Beginning:
    """How far a run has got to its start."""

    prepare: Prepare
    #: By local alias, from which tick on logs have what it needs.
    begins: Mapping[str, int]
    #: Home was told that it is ready.
    is_told: bool = False
    #: The start, while it waits until all sites were heard to be ready, and what was done after it.
    start: Start | None = None
    done: Done | None = None


class Beginnings:
    """Those of all runs of a site."""

    def __init__(
        self,
        streams: Mapping[str, StreamState],
        outbox: Outbox,
        runs: Runs,
        fences: Fences,
        round_trips: RoundTripMeter,
        kept: KeptJoins,
    ) -> None:
        self._round_trips = round_trips
        self._site = outbox.site
        self._streams = streams
        self._outbox = outbox
        self._runs = runs.by_id
        self._fences = fences
        self._kept = kept
        #: Sites that this one has not met since it was started.
        self._unmet: dict[str, None] = {}
        self._beginnings: dict[str, Beginning] = {}
        #: Successors whose homes wait to hear that they could take over.
        self._unlevel: dict[str, None] = {}

    def prepared(self, run: QueryRun, prepare: Prepare, begins: Mapping[str, int]) -> None:
        """A run is here, and could be started."""
        self._beginnings[run.query_id] = Beginning(prepare, begins)
        if run.is_successor:
            self._unlevel[run.query_id] = None
        self.say_ready()

    def forget(self, run: QueryRun) -> None:
        """A run is over."""
        self._beginnings.pop(run.query_id, None)
        self._round_trips.forget(run.query_id)
        self._unlevel.pop(run.query_id, None)

    # -- ready --------------------------------------------------------------------------------

    def expect(self, peers: Iterable[str]) -> None:
        """With these sites there are links; none has been met."""
        self._unmet = dict.fromkeys(peers)

    def met(self, peer: str) -> None:
        """There is a session with a site: if that ends, this site is told."""
        self._unmet.pop(peer, None)
        self.say_ready()

    def say_ready(self) -> None:
        """Tell homes that this site is ready for their queries."""
        for run_id, beginning in self._beginnings.items():
            if beginning.is_told:
                continue
            run = self._runs[run_id]
            unmet = [site for site in run.plan.sites if site in self._unmet]
            missed = self._outbox.away(self._neighbours(run)) if run.is_resumed else unmet
            if not missed and self._kept.are_ready(run.plan):
                beginning.is_told = True
                self._outbox.send(run.plan.sink, self._prepared(beginning, run))

    def _neighbours(self, run: QueryRun) -> list[str]:
        """The sites with which this one has to do for a run: a link that its plan does without may be cut."""
        others = [site for site in run.plan.sites if site != self._site]
        if run.plan.kept:
            return others
        linked = links_of(run.plan)
        return [site for site in others if (min(site, self._site), max(site, self._site)) in linked]

    def _prepared(self, beginning: Beginning, run: QueryRun) -> Prepared:
        plan, message, begins = run.plan, beginning.prepare, beginning.begins
        streams = {alias: self._streams[plan.query.ref(alias).stream.name] for alias in run.local_aliases}
        waiting = [stream for stream in streams.values() if not stream.started and not run.is_resumed]
        origins = [stream.origin_ms for stream in waiting if stream.origin_ms is not None]
        wanted = begins
        if message.resumed is None or not message.resumed.is_begun:
            wanted = {alias: stream.begin_of(message.beginning) for alias, stream in streams.items()}
        if message.resumed is None:
            begins = wanted
        earliest = max(wanted.values(), default=TICK_MIN)
        rtts = self._round_trips.tell(message.query_id, plan.sites)
        frontiers = tuple((alias, stream.fed) for alias, stream in streams.items())
        origin_ms = min(origins, default=None)
        return Prepared(
            message.query_id, earliest, origin_ms, rtts, frontiers, message.generation, tuple(begins.items())
        )

    def tell_level(self) -> None:
        """Tell homes of successors that could take over: all that they look at has caught up with its streams."""
        for run_id in list(self._unlevel):
            run = self._runs[run_id]
            if run.is_level and self._kept.are_level(run.plan):
                del self._unlevel[run_id]
                self._outbox.send(run.plan.sink, Ready(query_of(run_id), run.generation))

    # -- the start ----------------------------------------------------------------------------

    def start(self, run: QueryRun, message: Start) -> None:
        """All sites are ready."""
        self._beginnings[run.query_id].start = message

    def keep_done(self, run: QueryRun, message: Done) -> bool:
        """Whether the start of a run waits: what is done after it has to wait too."""
        beginning = self._beginnings.get(run.query_id)
        if beginning is None or beginning.start is None:
            return False
        beginning.done = message
        return True

    def take_start(self, run: QueryRun) -> Start | None:
        """The start of a run, once all sites with which this one has to do were heard to be ready if it goes on.

        Each of them said so before home could start it. What it said of copies before that may be for others alone, so
        which of them are right for the query is known only now.
        """
        others = self._neighbours(run) if run.is_resumed else []
        beginning = self._beginnings[run.query_id]
        start = beginning.start
        if start is None or not self._fences.are_heard(others, run):
            return None
        beginning.start = None
        return start

    def take_done(self, run: QueryRun) -> Done | None:
        """What was done while the start of a run waited, if the run is still there."""
        beginning = self._beginnings.get(run.query_id)
        if beginning is None:
            return None
        done, beginning.done = beginning.done, None
        return done
