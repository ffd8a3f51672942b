"""Fences: of which generation of a run is what another site says of it.

A fence may come before the Prepare of its generation, and one of a query that is unknown here costs memory: so they are
bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from node.core.effects import IgnoreReason
from node.core.links.messages import FIRST_GENERATION, NO_GENERATION, Message
from node.core.links.outbox import Outbox
from node.core.queries.query_id import is_successor, query_of
from node.core.queries.run import QueryRun


class Fences:
    """Those that were heard, of every run and site."""

    def __init__(self, outbox: Outbox, most: int) -> None:
        self._outbox = outbox
        self._most = most
        #: By site and run, in the order in which they were heard.
        self._generations: dict[tuple[str, str], int] = {}

    @property
    def places(self) -> Collection[tuple[str, str]]:
        """The sites and runs of which one is remembered."""
        return self._generations.keys()

    def of(self, site: str, run_id: str) -> int:
        """The generation that a site speaks of."""
        return self._generations.get((site, run_id), FIRST_GENERATION)

    def are_heard(self, sites: Iterable[str], run: QueryRun) -> bool:
        """Whether all these sites said that they speak of this generation from then on."""
        return all(self._generations.get((site, run.query_id)) == run.generation for site in sites)

    def is_current(self, site: str, run: QueryRun, message: Message) -> bool:
        """Whether what a site says of a query is of the generation that is here."""
        if self.of(site, run.query_id) == run.generation:
            return True
        self._outbox.ignore(IgnoreReason.OTHER_GENERATION, message)
        return False

    def take(self, site: str, run_id: str) -> int:
        """The generation that a site spoke of until now; another one is put."""
        return self._generations.pop((site, run_id), FIRST_GENERATION)

    def put(self, site: str, run_id: str, generation: int, is_known: Callable[[str], bool]) -> None:
        """A site speaks of this generation from now on. ``is_known``: whether something of a run is here."""
        self._generations[site, run_id] = generation
        if len(self._generations) > self._most:
            # Without its fences a query that goes on would wait for ever: those go of which nothing is here.
            unknown = [place for place in self._generations if not is_known(place[1])]
            for place in unknown[: len(self._generations) - self._most]:
                del self._generations[place]

    def successors(self, query_id: str, before: int) -> list[str]:
        """The successors of a query that sites spoke of, as far as they are older than this generation, or lost."""
        runs = [
            run_id
            for (_, run_id), generation in self._generations.items()
            if is_successor(run_id) and query_of(run_id) == query_id and not before <= generation < NO_GENERATION
        ]
        return list(dict.fromkeys(runs))

    def forget(self, run_id: str, but: Collection[str]) -> None:
        """Nothing of a run is here any more; these sites may say something of it yet."""
        self._generations = {
            place: generation
            for place, generation in self._generations.items()
            if place[1] != run_id or place[0] in but
        }

    def forget_site(self, site: str) -> None:
        """A site is another one now: it was restarted, or the session with it is lost."""
        self._generations = {place: at for place, at in self._generations.items() if place[0] != site}
