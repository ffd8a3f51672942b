"""How runs end at a site.

A query that is over is **closed**: nothing of it is left here. One that lost what it knew (a site died, a session was
lost) is **voided**: it has nothing here but its pins, which keep what its next generation needs in the streams' logs,
and its home is told, which begins that. One that cannot go on **fails**: home ends it everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from node.core.effects import IgnoreReason, QueryState, ReportDropped
from node.core.errors import QueryFailedError
from node.core.links.messages import NO_GENERATION, Drop, Failed, Fence, Floor, Lost
from node.core.links.outbox import Outbox
from node.core.queries.home.issuer import Issuer
from node.core.queries.participation.beginnings import Beginnings
from node.core.queries.participation.copy_openings import CopyOpenings
from node.core.queries.participation.figures import Figures
from node.core.queries.participation.kept_joins import KeptJoins
from node.core.queries.participation.lagging import Lagging
from node.core.queries.participation.pins import Pins
from node.core.queries.participation.runs import Runs, check_home
from node.core.queries.query_id import is_successor, query_of
from node.core.queries.run import QueryRun
from planner.model.kept import owner_of


class RunEnds:
    """What ends them, and what has to be said of it."""

    def __init__(
        self,
        runs: Runs,
        beginnings: Beginnings,
        pins: Pins,
        openings: CopyOpenings,
        lagging: Lagging,
        figures: Figures,
        issuer: Issuer,
        outbox: Outbox,
        kept: KeptJoins,
    ) -> None:
        self._runs = runs
        self._beginnings = beginnings
        self._pins = pins
        self._openings = openings
        self._lagging = lagging
        self._figures = figures
        self._issuer = issuer
        self._outbox = outbox
        self._kept = kept
        self._site = outbox.site

    @contextmanager
    def working(self, query_id: str) -> Iterator[None]:
        """Let a query work, or end it if it cannot go on."""
        try:
            yield
        except QueryFailedError as error:
            self.fail(query_id, f"at {self._site}: {error}")

    def void(self, run: QueryRun) -> None:
        """Nothing of a generation is left here; what its query needs to go on is pinned."""
        self._beginnings.forget(run)
        self._figures.note_end(run)
        self._openings.expect(run)
        self._runs.remove(run)
        if run.is_successor:
            self._openings.forget_fences(run.query_id)

    def close(self, query_id: str) -> None:
        """Forget a query."""
        for run in self._runs.of(query_id):
            self.void(run)
        self._lagging.forget(query_id)
        self._pins.remove(query_id)
        self._openings.forget_fences(query_id)
        self._openings.forget_older(query_id)
        self._kept.forget(query_id)

    def fail(self, query_id: str, reason: str) -> None:
        """This site cannot go on with the query: it forgets it and tells its home, which ends it everywhere."""
        # What is said of the query as a whole holds for whichever run there is.
        run = self._runs.by_id.get(query_id) or next(iter(self._runs.of(query_id)), None)
        if run is None:
            if not is_successor(query_id):
                self._issuer.ends.end(query_id, QueryState.FAILED, reason)
            return
        # Before what follows from closing it: whoever hears of that shall know why.
        self._outbox.send(run.plan.sink, Failed(run.query_id, reason))
        if is_successor(run.query_id) or len(self._runs.of(query_of(query_id))) > 1:
            # Home has what is left dropped, as one of its plans or altogether.
            self.void(run)
        else:
            self.close(query_of(query_id))

    def end_broken(self) -> None:
        """A join that is kept here has ended: so does the query that reads it, by the plan that does."""
        for owner, reason in self._kept.broken():
            for run in [run for run in self._runs.by_id.values() if owner_of(run.plan) == owner]:
                self.fail(run.query_id, f"at {self._site}: {reason}")

    def lose(self, query_id: str, reason: str) -> None:
        """What this site knew of a generation is gone: home begins another, if it does not know already."""
        run = self._runs.by_id.get(query_id)
        if run is not None:
            self.fence_off(run)
            self.void(run)
            self._outbox.send(run.plan.sink, Lost(query_id, run.generation, reason))

    def fence_off(self, run: QueryRun) -> None:
        """Others must not go on by what this site lets others forget after it has voided a generation.

        Home learns it by a message of its own, if it can be reached.
        """
        for site in run.plan.sites:
            if site not in (self._site, run.plan.sink):
                self._outbox.send(site, Fence(run.query_id, NO_GENERATION))

    def void_old(self, query_id: str) -> None:
        """A query that was issued here may have to wait before its next generation: nothing is held meanwhile."""
        home = self._issuer.homes.get(query_id)
        for run in self._runs.of(query_id) if home is not None and home.is_waiting else ():
            if run.plan.sink == self._site:
                self.fence_off(run)
                self.void(run)

    # -- who ends them ------------------------------------------------------------------------

    def on_floor(self, peer: str, message: Floor) -> None:
        """What the runs before a successor had to do is done."""
        for run in self._runs.of(message.query_id):
            check_home(peer, run, "its floor")
            if run.generation < message.generation:
                self.void(run)
        for run in self._runs.of(message.query_id):
            self._kept.forget_but(message.query_id, run.plan)
        self._pins.settle(message.query_id)

    def on_drop(self, peer: str, message: Drop) -> None:
        """Home ends a query, which may have nothing here but its pins."""
        if is_successor(message.query_id):
            run = self._runs.find(message)
            if run is not None:
                check_home(peer, run, "its end")
                self.void(run)
            if self._pins.home_of(query_of(message.query_id)) == peer:
                self._kept.forget_run(message.query_id)
                self._pins.settle(query_of(message.query_id))
            return
        runs = self._runs.of(message.query_id)
        if not runs and self._pins.home_of(message.query_id) != peer:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)
            return
        for run in runs:
            check_home(peer, run, "its end")
        self.close(message.query_id)

    def drop_here(self, query_id: str) -> None:
        """A user ends a query of another home, which may be gone for good. If it is not, it hears of it and ends it.

        If it returns with another life, it does not hear; but here its query finds no pin then, and is refused.
        """
        runs = self._runs.of(query_id)
        home = runs[0].plan.sink if runs else self._pins.home_of(query_id)
        if home is not None:
            self._outbox.send(home, Failed(query_id, f"dropped at {self._site} by a user"))
            self.close(query_id)
        self._outbox.do(ReportDropped(query_id))

    def give_up_waiting(self, prepared_us: int) -> None:
        """A query that nobody starts must not hold streams that others read."""
        for run in list(self._runs.by_id.values()):
            if run.started or self._outbox.now_us - run.prepared_us < prepared_us:
                continue
            reason = f"{self._site} requires a start within {prepared_us / 1e6:g} s of being ready; got none"
            if run.resumed is None or not run.resumed.is_alone:
                # Home may know for good that it began, and have died before its start left: it goes on when it is back,
                # by the pins. Or it begins a generation that holds nothing while it waits, and has not reached us.
                self.lose(run.query_id, reason)

    def void_lagging(self) -> None:
        """Queries that cannot go on must not stop others that read the same streams."""
        for run in self._lagging.find(list(self._runs.by_id.values()), self._outbox.now_us):
            waited_us = self._outbox.now_us - run.moved_us
            away = self._outbox.away(run.plan.sites)
            because = f", {', '.join(away)} away" if away else ""
            self._lagging.voided(run)
            self.lose(run.query_id, f"lags at {self._site}: nothing was done for {waited_us / 1e6:.0f} s{because}")

    def peer_lost(self, peer: str, reason: str) -> None:
        """Home may not notice: its own link with the peer can be fine, or the peer may be home itself."""
        for query_id, run in list(self._runs.by_id.items()):
            if run.plan.sink == peer:
                self.fence_off(run)
                self.void(run)
            elif peer in run.plan.sites:
                self.lose(query_id, f"site {peer}: {reason}")
