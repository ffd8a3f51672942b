"""Who may open, lease and close the copies that this site owns: the holders that a query's plan names, once each.

A generation may be over here before a holder has opened its copy. The holder may not know, and have lent the copy to
others already: so it is opened nevertheless.
"""

from __future__ import annotations

from node.core.arrangements.arrangements import Arrangements
from node.core.arrangements.copies.full_copy import User
from node.core.errors import PeerProtocolError
from node.core.links.messages import FIRST_GENERATION, NO_GENERATION, CloseCopy, LeaseCopy, OpenCopy
from node.core.queries.participation.fences import Fences
from node.core.queries.participation.figures import Figures
from node.core.queries.participation.pins import Pins
from node.core.queries.participation.runs import Runs
from node.core.queries.run import QueryRun


class CopyOpenings:
    """Those that came, and those that are still to come."""

    def __init__(
        self,
        site: str,
        runs: Runs,
        fences: Fences,
        pins: Pins,
        figures: Figures,
        arrangements: Arrangements,
        unopened_max: int,
    ) -> None:
        self._site = site
        self._runs = runs.by_id
        self._fences = fences
        self._pins = pins
        self._figures = figures
        self._arrangements = arrangements
        self._unopened_max = unopened_max
        #: What generations that are over here needed and nobody had opened yet, with the holders: they may not know.
        self._unopened: dict[tuple[User, int], str] = {}

    def on_leased(self, peer: str, message: LeaseCopy) -> None:
        """A query uses a copy that is there, unless it is over here."""
        run = self._runs.get(message.query_id)
        if run is None or self._fences.is_current(peer, run, message):
            self._arrangements.on_lease(peer, message)

    def on_opened(self, peer: str, message: OpenCopy) -> None:
        """A holder opens a copy, one for each need of a query."""
        user = message.query_id, message.need
        run = self._runs.get(message.query_id)
        generation = self._fences.of(peer, message.query_id)
        is_current = run is not None and run.generation == generation
        if is_current:
            is_expected = self._arrangements.owned.is_claimed(*user)
        else:
            is_expected = self._unopened.get((user, generation)) == peer
            if is_expected:
                del self._unopened[user, generation]
                if run is None and message.query_id not in self._pins:
                    self.forget_fences(message.query_id)
        if not is_expected:
            got = f"copy {message.copy} for need {message.need} of query {message.query_id}"
            raise PeerProtocolError(f"site {self._site} requires one copy for each need of a query; got {got}")
        self._arrangements.on_open(peer, message, is_current)

    def on_closed(self, peer: str, message: CloseCopy) -> None:
        """A holder closes a copy: it may have heard before us that the query is over, whose figures it belongs to."""
        copy = self._arrangements.owned.get(peer, message.copy)
        if copy is not None:
            self._figures.note_closed(copy)
        self._arrangements.on_close(peer, message)

    def expect(self, run: QueryRun) -> None:
        """A generation ends before the holders of its copies said which ones it uses."""
        for claim in self._arrangements.owned.claims:
            holder = claim.need.holder
            spoken = self._fences.of(holder, run.query_id)
            # What a holder has lost may be an older generation, and this one still to come.
            is_over = run.generation < spoken != NO_GENERATION
            if claim.lease.query_id == run.query_id and not is_over:
                self._unopened[claim.user, run.generation] = holder
        while len(self._unopened) > self._unopened_max:
            del self._unopened[next(iter(self._unopened))]

    def fenced(self, peer: str, run_id: str, generation: int, before: int) -> None:
        """A holder that spoke of the generation ``before`` speaks of another one: it opens no copy for older ones.

        If it has lost the one before, one that it has not heard of yet may follow.
        """
        if generation == NO_GENERATION:
            generation = FIRST_GENERATION if before == NO_GENERATION else before + 1
        self._unopened = {
            (user, at): holder
            for (user, at), holder in self._unopened.items()
            if (holder, user[0]) != (peer, run_id) or at >= generation
        }

    def forget_fences(self, run_id: str) -> None:
        """Nothing of a run is here but copies that may be opened for what is over: who opens one says for which."""
        opening = {holder for (user, _), holder in self._unopened.items() if user[0] == run_id}
        self._fences.forget(run_id, opening)

    def forget_older(self, query_id: str, generation: int = NO_GENERATION) -> None:
        """Another generation of a query begins here, or none: what sites said of a plan that was given up may have come
        after it was dropped here.
        """
        for run_id in self._fences.successors(query_id, generation):
            if run_id not in self._runs:
                self.forget_fences(run_id)

    def holder_lost(self, peer: str) -> None:
        """A site opens nothing any more of what it was to open."""
        self._unopened = {place: holder for place, holder in self._unopened.items() if holder != peer}
        self._fences.forget_site(peer)
        # A peer that was restarted counts its copies anew, and would take what ends these for the new ones.
        for copy in self._arrangements.owned.all:
            if copy.peer == peer:
                self._figures.note_closed(copy)
        self._arrangements.holder_lost(peer)
