"""Invariant 11: where each undone tick of each head is.

From a query's first tick on, every tick of a head is in exactly one of these places: not read yet by the table that
its walks start with, on a walk at a site or in a message, in an ending that the sink was not told of, or at the sink,
stored or being stored. A walk that asks another site is where its question or the answer is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from node.core.arrangements.copies.full_copy import FullHolder
from node.core.effects import QueryState
from node.core.links.messages import AskMatches, Carry, KeyAnswer, Rows, TupleAnswer
from node.core.queries.home import HomeQuery
from node.core.queries.run import QueryRun
from node.core.queries.waiting import Sought, Stage, Waiting
from node.core.streams.ticks import TICK_END, Span, tick_text
from node.stack import Stack
from tests.sim.judges.invariant import broken
from tests.sim.mail import Mail

#: Messages in which a walk, or a question or an answer of one, is under way.
_Travelling = Carry | AskMatches | KeyAnswer | TupleAnswer | Rows
#: Where ticks of a head are: the head, the ticks, and the place in words.
Place = tuple[str, Span, str]


class TickAccounts:
    """The accounts of all queries; one query is looked at a time, in turn: what is lost stays lost."""

    def __init__(self, nodes: Mapping[str, Stack], mail: Mail) -> None:
        self._nodes = nodes
        self._mail = mail
        self._turn = 0
        #: By site, the daemon that died there last.
        self._died: dict[str, Stack] = {}

    def died(self, site: str) -> None:
        """A daemon was killed: what it knew and had sent is gone, although nobody has noticed yet."""
        self._died[site] = self._nodes[site]

    def check_next(self) -> None:
        """Look at the next query that runs everywhere."""
        homes = [
            home for site, node in self._nodes.items() if not self.is_dead(site) for home in node.site.homes.values()
        ]
        running = [home for home in homes if home.state is QueryState.RUNNING]
        if running:
            self._turn += 1
            self.check(running[self._turn % len(running)])

    def check(self, home: HomeQuery) -> None:
        """Every tick of every head of a query is in one place."""
        runs = {site: self._nodes[site].site.runs.get(home.query_id) for site in home.plan.sites}
        started = {
            site: run
            for site, run in runs.items()
            if run is not None and run.started and run.generation == home.generation and not self.is_dead(site)
        }
        if home.sink is None or len(started) != len(runs):
            return
        places = list(self._places(home, started))
        for head, ledger in home.sink.heads.items():
            own = sorted((span, where) for alias, span, where in places if alias == head)
            at = ledger.done
            for span, _ in own:
                if span.first != at:
                    there = "; ".join(f"{other} {name}" for other, name in own)
                    what = "nowhere" if span.first > at else "in two places"
                    raise broken(11, f"{home.query_id} {head}: tick {tick_text(at)} is {what}; there are {there}")
                at = span.end
            if at != TICK_END:
                there = "; ".join(f"{other} {name}" for other, name in own)
                raise broken(11, f"{home.query_id} {head}: tick {tick_text(at)} is nowhere; there are {there}")

    def is_dead(self, site: str) -> bool:
        """Whether a daemon was killed, and no other was started."""
        return self._died.get(site) is self._nodes[site]

    def _places(self, home: HomeQuery, runs: Mapping[str, QueryRun]) -> Iterator[Place]:
        assert home.sink is not None
        for head, ledger in home.sink.heads.items():
            for first, end in ledger._taken.items():
                yield head, Span(first, end), "at the sink"
        for message, generation in self._mail.everything():
            is_current = generation == home.generation
            if isinstance(message, _Travelling) and message.query_id == home.query_id and is_current:
                yield message.head, message.span, type(message).__name__
        for site, run in runs.items():
            yield from self._waiting(site, home)
            yield from _at_rest(site, run)

    def _waiting(self, site: str, home: HomeQuery) -> Iterator[Place]:
        """Walks at a site. M joins a walk in two parts, which are one place."""
        found: dict[tuple[str, Span, int], Waiting] = {}
        for waiting in self._nodes[site].site.waiting():
            walk = waiting.walk
            # Who waits for an answer is where the question is.
            is_own = (walk.query_id, walk.generation) == (home.query_id, home.generation)
            if is_own and waiting.stage is not Stage.ANSWER:
                found[walk.head, walk.span, walk.step] = waiting
        for (head, span, _), waiting in found.items():
            asked = "asked about" if isinstance(waiting.detail, Sought) else waiting.stage
            yield head, span, f"{asked} at {site}"


def _at_rest(site: str, run: QueryRun) -> Iterator[Place]:
    """Ticks whose walks have ended at a site, or are to start there."""
    assert run._walks is not None
    for ending in run._walks.endings._walks:
        yield ending.head, ending.span, f"ending at {site}"
    for head in (head for head, start in run.shape.starts.items() if start == site):
        frontier = _frontier(run, head, site)
        if frontier < TICK_END:
            for span in run._heads[head].spans(Span(frontier, TICK_END)):
                yield head, span, f"not read at {site}"


def _frontier(run: QueryRun, head: str, site: str) -> int:
    """How far the table is that the walks of a head start with, or what is read for those that are behind."""
    if head in run._cursors:
        return run._cursors[head].frontier
    if run.plan.query.ref(head).stream.site == site:
        table = run._leases.table_of(head)
        assert table is not None
        return table.frontier
    for need in run.shape.needs:
        copy = run._leases._copies.get(need.number)
        if need.alias == head and need.holder == site and isinstance(copy, FullHolder):
            return copy.frontier
    raise broken(11, f"walks of {run.query_id} {head} start at {site}, which has nothing to start them with")
