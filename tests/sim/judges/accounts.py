"""Invariant 11: where each undone tick of each head is.

From a query's first tick on, every tick of a head is in exactly one of these places: not read yet by the table that
its walks start with, on a walk at a site or in a message, in an ending that the sink was not told of, or at the sink,
stored or being stored. A walk that asks another site is where its question or the answer is.

While a query goes over to another plan there are two runs of it, and each tick is in a place of one of them. A head's
cut holds from when its site says it: what a run has at rest is counted as it will be when it hears of it.

If the other plan has other heads each plan has accounts of its own: those of the plan before end at the tick where all
go over, and those of the new one begin there; what that has found waits at home.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from node.core.arrangements.copies.full_copy import FullHolder
from node.core.effects import QueryState, SwitchState
from node.core.links.messages import AskMatches, Carry, Cut, KeyAnswer, Rows, TupleAnswer
from node.core.queries.head_way import HeadWay
from node.core.queries.home.home_query import HomeQuery
from node.core.queries.home.plan_switch import PlanSwitch
from node.core.queries.query_id import query_of
from node.core.queries.run import QueryRun
from node.core.queries.waiting import Sought, Stage, Waiting
from node.core.streams.ticks import TICK_END, Span, tick_text
from node.stack import Stack
from planner.model.query import Plan
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
        if home.switch is not None and home.switch.holds and home.switch.state is SwitchState.SWITCHING:
            self._check_held(home, home.switch)
            return
        places: list[Place] = []
        for generation, plan in self._plans(home):
            runs = {site: self._run(site, home.query_id, generation) for site in plan.sites}
            started = {
                site: run for site, run in runs.items() if run is not None and run.started and not self.is_dead(site)
            }
            if home.sink is None or len(started) != len(runs):
                return
            places += self._places(home, generation, started)
        assert home.sink is not None
        for head, ledger in home.sink.heads.items():
            places += [(head, Span(first, end), "at the sink") for first, end in ledger._taken.items()]
        for head, ledger in home.sink.heads.items():
            _check_head(home, head, places, ledger.done, TICK_END)

    def _check_held(self, home: HomeQuery, switch: PlanSwitch) -> None:
        """Of both plans, while a query goes over to one with other heads."""
        over_at = TICK_END if switch.over_at is None else switch.over_at
        for generation, plan in self._plans(home):
            runs = {site: self._run(site, home.query_id, generation) for site in plan.sites}
            started = {
                site: run for site, run in runs.items() if run is not None and run.started and not self.is_dead(site)
            }
            if home.sink is None or len(started) != len(runs):
                return
            is_next = generation == switch.generation
            places = [*self._places(home, generation, started)]
            if is_next:
                places += [(walk.head, walk.span, "waiting at the sink") for walk in switch.walks]
            else:
                taken = ((head, ledger) for head, ledger in home.sink.heads.items())
                places += [(head, Span(*one), "at the sink") for head, ledger in taken for one in ledger._taken.items()]
            for head in plan.query.aliases:
                at, end = (over_at, TICK_END) if is_next else (home.sink.heads[head].done, over_at)
                _check_head(home, head, places, at, end)

    def is_dead(self, site: str) -> bool:
        """Whether a daemon was killed, and no other was started."""
        return self._died.get(site) is self._nodes[site]

    @staticmethod
    def _plans(home: HomeQuery) -> list[tuple[int, Plan]]:
        """The plans by which a query walks, each with its generation."""
        plans = [(home.generation, home.plan)]
        if home.switch is not None and home.switch.state is SwitchState.SWITCHING:
            plans.append((home.switch.generation, home.switch.plan))
        return plans

    def _run(self, site: str, query_id: str, generation: int) -> QueryRun | None:
        runs = self._nodes[site].site.runs.values()
        own = (run for run in runs if query_of(run.query_id) == query_id and run.generation == generation)
        return next(own, None)

    def _cuts(self, query_id: str) -> dict[tuple[int, str], int]:
        """By generation that takes over and head: from which tick on."""
        cuts = {
            (message.generation, message.head): message.tick
            for message, _ in self._mail.everything()
            if isinstance(message, Cut) and message.query_id == query_id
        }
        for node in self._nodes.values():
            for run in node.site.runs.values():
                if query_of(run.query_id) == query_id:
                    cuts |= {(run.generation, head): tick for head, tick in run._cuts.items()}
            for home in node.site.homes.values():
                if home.query_id == query_id:
                    cuts |= _over(home)
        return cuts

    def _places(self, home: HomeQuery, generation: int, runs: Mapping[str, QueryRun]) -> Iterator[Place]:
        for message, own in self._mail.everything():
            if not isinstance(message, _Travelling) or own != generation:
                continue
            if query_of(message.query_id) == home.query_id:
                yield message.head, message.span, type(message).__name__
        cuts = self._cuts(home.query_id)
        for site, run in runs.items():
            yield from self._waiting(site, home, generation)
            yield from _at_rest(site, run, cuts)

    def _waiting(self, site: str, home: HomeQuery, generation: int) -> Iterator[Place]:
        """Walks at a site. M joins a walk in two parts, which are one place."""
        found: dict[tuple[str, Span, int], Waiting] = {}
        for waiting in self._nodes[site].site.waiting():
            walk = waiting.walk
            # Who waits for an answer is where the question is.
            is_own = (query_of(walk.query_id), walk.generation) == (home.query_id, generation)
            if is_own and waiting.stage is not Stage.ANSWER:
                found[walk.head, walk.span, walk.step] = waiting
        for (head, span, _), waiting in found.items():
            asked = "asked about" if isinstance(waiting.detail, Sought) else waiting.stage
            yield head, span, f"{asked} at {site}"


def _over(home: HomeQuery) -> dict[tuple[int, str], int]:
    """Where all heads of a plan begin to which a query goes over, whoever has heard of it."""
    if home.switch is not None and home.switch.holds and home.switch.over_at is not None:
        heads = {*home.plan.query.aliases, *home.switch.plan.query.aliases}
        return {(home.switch.generation, head): home.switch.over_at for head in heads}
    return {}


def _at_rest(site: str, run: QueryRun, cuts: Mapping[tuple[int, str], int]) -> Iterator[Place]:
    """Ticks whose walks have ended at a site, or are to start there."""
    assert run._walks is not None
    for ending in run._walks.endings._walks:
        yield ending.head, ending.span, f"ending at {site}"
    for head in (head for head, start in run.shape.starts.items() if start == site):
        frontier = _frontier(run, head, site)
        if frontier < TICK_END:
            for span in _way(run, head, cuts).spans(Span(frontier, TICK_END)):
                yield head, span, f"not read at {site}"
    for batch in run._held:
        if batch.is_start:
            for span in _way(run, batch.alias, cuts).spans(batch.sealed.span):
                yield batch.alias, span, f"held at {site}"


def _check_head(home: HomeQuery, head: str, places: Iterable[Place], at: int, end: int) -> None:
    """Every tick of a head from one on, and before another, is in one place."""
    own = sorted((span, where) for alias, span, where in places if alias == head)
    there = "; ".join(f"{other} {name}" for other, name in own)
    for span, _ in own:
        if span.first != at:
            what = "nowhere" if span.first > at else "in two places"
            raise broken(11, f"{home.query_id} {head}: tick {tick_text(at)} is {what}; there are {there}")
        at = span.end
    if at != end:
        what = "nowhere" if at < end else f"beyond {tick_text(end)}"
        raise broken(11, f"{home.query_id} {head}: tick {tick_text(at)} is {what}; there are {there}")


def _way(run: QueryRun, head: str, cuts: Mapping[tuple[int, str], int]) -> HeadWay:
    """What a run walks of a head, once it has heard of all cuts."""
    way, first = run._heads[head], cuts.get((run.generation, head))
    end = min((tick for (later, alias), tick in cuts.items() if alias == head and later > run.generation), default=None)
    way = way if first is None else replace(way, first=first)
    return way if end is None else replace(way, end=min(end, way.end))


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
