"""Invariants 2 and 3 over crashes: what home tells of a query it can stand by, and nothing on a disk goes back.

2  generations of a query rise from one life of its home to the next; the done frontiers that home keeps never fall,
   nor do the lives of others that a site has met
3  no done frontier leaves home, in Done, Prepare or Start, that home would not know of after a crash
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from node.core.effects import QueryState
from node.core.links.messages import FIRST_GENERATION, Done, Prepare, Start, Ticks
from node.core.queries.query_id import query_of
from node.core.query_records import RecordKind
from node.core.records import Put, RecordChange
from node.storage.site_records import PEER_LIFE
from node.wire.records import done_in, recovered
from tests.sim.judges.invariant import broken


class Durability:
    """Looks at what leaves a site, and at what its disk has by then."""

    def __init__(self) -> None:
        #: By site and query: the highest generation that was asked for, in this life and in those before.
        self._generations: dict[tuple[str, str], int] = {}
        self._former: dict[tuple[str, str], int] = {}
        #: By site and query the done frontiers, and by site and peer the life, that a crash leaves.
        self._done: dict[tuple[str, str], dict[str, int]] = {}
        self._met: dict[tuple[str, str], int] = {}
        #: By site and query, the tick with which its rows begin: it is done so far where nothing else is said; and by
        #: alias, from where on it sees its streams.
        self._first: dict[tuple[str, str], int] = {}
        self._begins: dict[tuple[str, str], dict[str, int]] = {}
        #: The same of the plan by which it goes on, if that has other heads than the one before, which did the rest.
        self._walks_from: dict[tuple[str, str], int] = {}
        #: By site and query, how it ended, as home knew for good.
        self._ended: dict[tuple[str, str], tuple[QueryState, str]] = {}
        self.checks = 0

    def first_tick(self, site: str, query_id: str) -> int | None:
        """With which tick a query's rows begin, as its home would know after a crash, or knew before it forgot it."""
        return self._first.get((site, query_id))

    def begins(self, site: str, query_id: str) -> dict[str, int]:
        """From where on it sees its streams, where that is not its first tick."""
        return self._begins.get((site, query_id), {})

    def end_of(self, site: str, query_id: str) -> tuple[QueryState, str] | None:
        """How a query ended, as its home would know after a crash, or knew before it forgot it; None if it did not."""
        return self._ended.get((site, query_id))

    def leaves(self, site: str, message: object) -> None:
        """A message is on its way to another site."""
        match message:
            case Prepare():
                self._asked(site, message)
                if message.resumed is not None:
                    self._told(site, message, message.resumed.done)
            case Start():
                if message.resumed is not None:
                    self._told(site, message, message.resumed.done)
            case Done():
                self._told(site, message, message.frontiers)

    def _asked(self, site: str, message: Prepare) -> None:
        place = site, query_of(message.query_id)
        if message.generation <= self._former.get(place, FIRST_GENERATION - 1):
            before = self._former[place]
            raise broken(2, f"{message.query_id} begins generation {message.generation}; a life before had {before}")
        self._generations[place] = max(message.generation, self._generations.get(place, FIRST_GENERATION))

    def _told(self, site: str, message: Prepare | Start | Done, done: Ticks) -> None:
        self.checks += 1
        place = site, query_of(message.query_id)
        kept = self._done.get(place, {})
        # A plan with other heads, to which a query is to go over, is told what is done of all those that there are.
        lowest = min(kept.values(), default=None)
        for head, tick in done:
            known = kept.get(head, self._first.get(place) if lowest is None else lowest)
            if known is not None:
                known = max(known, self._walks_from.get(place, known))
            if known is None or tick > known:
                what = f"{type(message).__name__} of {message.query_id}"
                raise broken(3, f"{what} says that {head} is done up to {tick}; home would know of {known}")

    def durable(self, site: str, changes: Iterable[RecordChange]) -> None:
        """A disk has more."""
        for change in changes:
            if isinstance(change, Put) and change.kind == PEER_LIFE:
                place, life = (site, change.key), int(change.value.split()[0])
                if life < self._met.get(place, life):
                    raise broken(2, f"{site} had met life {self._met[place]} of {change.key}, and keeps {life}")
                self._met[place] = life
            elif isinstance(change, Put) and change.kind == RecordKind.DONE:
                self._kept(site, change)
            elif isinstance(change, Put) and change.kind == RecordKind.HOME:
                (home,) = recovered({change.kind: {change.key: change.value}}, {}).homes
                if home.first_tick is not None:
                    late = home.prepare.resumed
                    first = home.first_tick if late is None else min(tick for _, tick in late.done)
                    self._first[site, change.key] = first
                    self._begins[site, change.key] = dict(home.begins)
                self._walks_from.pop((site, change.key), None)
                if home.walks_from is not None:
                    self._walks_from[site, change.key] = home.walks_from
                if home.state.ended:
                    self._ended[site, change.key] = home.state, home.reason

    def _kept(self, site: str, change: Put) -> None:
        for query_id, done in done_in([change]):
            before = self._done.get((site, query_id), done)
            new = [tick for head, tick in done.items() if head not in before]
            fell = any(tick < before.get(head, tick) for head, tick in done.items())
            # Of another plan's heads as much is done as of those before.
            if fell or (new and min(new) < max(before.values())):
                raise broken(2, f"{site} kept that {query_id} is done up to {before}, and now {done}")
            self._done[site, query_id] = done

    def restarted(self, site: str, durable: Mapping[str, Mapping[str, bytes]]) -> None:
        """A site has died; this is what its disk has."""
        for place, generation in self._generations.items():
            if place[0] == site:
                self._former[place] = generation
        self._met = {place: life for place, life in self._met.items() if place[0] != site or PEER_LIFE in durable}
        self._done = {place: done for place, done in self._done.items() if place[0] != site}
        if not durable:
            self._first = {place: tick for place, tick in self._first.items() if place[0] != site}
            self._walks_from = {place: tick for place, tick in self._walks_from.items() if place[0] != site}
        for kind, records in durable.items():
            self.durable(site, [Put(kind, key, value) for key, value in records.items()])
