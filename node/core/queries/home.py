"""A query at its home: the site where it was issued, which installs it everywhere and is its sink.

Installation has two phases. Every site prepares, or refuses; when all are ready, home starts the query at the latest of
the ticks that they name, so every site can serve it from that tick on: the one that was asked for, or the first that
all streams still have. If one refuses, none starts.

A site that loses what it knew of a query (a crash, a link's session) is no reason to end it: home begins another
**generation**, with the same two phases. It goes on from what is done, whatever the one before had under way; what that
one stored beyond is left out. When a query ends is decided by ``issuer``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from node.core.effects import QueryState
from node.core.links.messages import (
    FIRST_GENERATION,
    Prepare,
    Prepared,
    Resumed,
    Resumption,
    Start,
    Ticks,
    require_ticks,
)
from node.core.queries.delta import delta_us
from node.core.queries.news import HeldNews
from node.core.queries.sink import Sink
from node.core.query_records import HomeRecord
from node.core.status import HeadProgress
from node.core.streams.ticks import TICK_END, TICK_MIN
from planner.model.beginning import DEFAULT_BEGINNING, Beginning
from planner.model.query import Plan

_NOTHING_TO_JOIN = (
    "a stream of the query had ended before it began, so there is nothing to join "
    "(query --from start begins with what is still in the logs of its streams)"
)


class HomeQuery:
    """State of one query that was issued here."""

    def __init__(self, query_id: str, plan: Plan, issued_us: int = 0, beginning: Beginning = DEFAULT_BEGINNING) -> None:
        self.query_id = query_id
        self.plan = plan
        self.beginning = beginning
        self.issued_us = issued_us
        self.state = QueryState.PREPARING
        self.reason = ""
        self.generation = FIRST_GENERATION
        #: None while it is not known from which tick on the query sees tuples.
        self.sink: Sink | None = None
        #: For each site, how many moves of the done frontiers it was not told of.
        self.untold = {site: HeldNews() for site in plan.sites}
        self.first_tick: int | None = None
        #: The streams because of which that is no earlier.
        self.limited_by: tuple[str, ...] = ()
        #: The done frontiers as home will know them after a crash.
        self.kept_done: Ticks = ()
        #: How many moves of the done frontiers it would not know of.
        self.unkept = HeldNews()
        #: What this generation began again for; nothing for the first one.
        self.loss = ""
        #: By head, where this generation began and where the streams were then.
        self._again: dict[str, tuple[int, int]] = {}
        self._answers: dict[str, Prepared] = {}
        #: When its last generation was begun; and whether that is to share nothing, because it may wait for long.
        self.begun_us = issued_us
        self.is_alone = False
        #: A generation is over, and the next one waits until rows that were taken are stored.
        self.is_waiting = False
        #: When rows were last stored, or began to be while none were.
        self.stored_us = issued_us

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Sites that have not answered Prepare; home itself, which may only wait for the others, if it is the last."""
        missing = tuple(site for site in self.plan.sites if site not in self._answers)
        return tuple(site for site in missing if site != self.plan.sink) or missing

    @property
    def is_ready(self) -> bool:
        """Whether sites are asked to prepare."""
        return self.state in (QueryState.PREPARING, QueryState.RECOVERING)

    @property
    def catching_up(self) -> tuple[HeadProgress, ...]:
        """The heads, while one of them is not yet where its stream was when this generation began."""
        if self.sink is None:
            return ()
        done = dict(self.sink.frontiers)
        heads = tuple(HeadProgress(head, begun, done[head], goal) for head, (begun, goal) in self._again.items())
        return heads if any(head.done < head.goal for head in heads) else ()

    @property
    def reason_if_whole(self) -> str:
        """What is to be said of it while nothing is wrong."""
        return _NOTHING_TO_JOIN if self.first_tick == TICK_END else ""

    def record(self) -> HomeRecord:
        """What home must know of it after a crash."""
        return HomeRecord(self.query_id, self._question(), self.state, self.reason, self.first_tick, self.limited_by)

    def _question(self) -> Prepare:
        query, plan = self.plan.query, self.plan
        streams = {ref.stream.name: ref.stream for ref in query.streams}
        return Prepare(
            self.query_id,
            query.text,
            plan.sink,
            plan.sequences,
            tuple(streams.values()),
            plan.policy,
            beginning=self.beginning,
        )

    def prepare(self) -> Prepare:
        """What every site is asked."""
        resumed = None
        if self.sink is not None and self.first_tick is not None:
            stored_to = self.sink.stored_to(self.first_tick)
            resumed = Resumption(self.first_tick, self.sink.frontiers, stored_to, self.is_alone)
        return replace(self._question(), generation=self.generation, resumed=resumed)

    def begin_again(self, generation: int, reason: str, now_us: int, is_alone: bool = False) -> None:
        """Another generation, to be prepared."""
        self.generation = generation
        self.begun_us, self.is_alone = now_us, is_alone
        self._answers.clear()
        self._again.clear()
        if self.sink is not None:
            self.state, self.reason, self.loss = QueryState.RECOVERING, reason, reason

    def prepared(self, site: str, answer: Prepared) -> Start | None:
        """A site is ready; the message for all of them once it was the last.

        Raises PeerProtocolError if it does not say of a query that ran where its streams are.
        """
        if site not in self.plan.sites or site in self._answers:
            return None
        if self.sink is not None:
            own = [ref.alias for ref in self.plan.query.streams if ref.stream.site == site]
            require_ticks(f"a site that is ready for query {self.query_id}", "begins", answer.begins, own)
            require_ticks(f"a site that is ready for query {self.query_id}", "frontiers", answer.frontiers, own)
        self._answers[site] = answer
        if self.waiting_for:
            return None
        resumed = None
        if self.sink is None:
            self.first_tick = max((one.earliest for one in self._answers.values()), default=TICK_MIN)
            self.limited_by = self._limiting(self.first_tick)
            self.sink = Sink(dict.fromkeys(self.plan.query.aliases, self.first_tick))
        else:
            resumed = Resumed(self.sink.frontiers, self._begins, self.sink.islands)
            goals = dict(self._frontiers)
            self._again = {head: (done, goals[head]) for head, done in self.sink.frontiers}
        self.state, self.reason = QueryState.RUNNING, self.reason_if_whole
        assert self.first_tick is not None
        origins = [one.origin_ms for one in self._answers.values() if one.origin_ms is not None]
        rtt_us = {(asked, peer): rtt for asked, one in self._answers.items() for peer, rtt in one.rtt_us}
        return Start(
            self.query_id,
            self.first_tick,
            min(origins, default=None),
            delta_us(self.plan, rtt_us),
            self._frontiers,
            self.generation,
            resumed,
        )

    def _limiting(self, first_tick: int) -> tuple[str, ...]:
        """The streams that have nothing, or of which nothing is wanted, before the first tick."""
        last = [alias for alias, tick in self._begins if tick == first_tick]
        return tuple(sorted({self.plan.query.ref(alias).stream.name for alias in last}))

    @property
    def _begins(self) -> Ticks:
        return self._of_own({site: answer.begins for site, answer in self._answers.items()})

    @property
    def _frontiers(self) -> Ticks:
        return self._of_own({site: answer.frontiers for site, answer in self._answers.items()})

    def _of_own(self, answers: Mapping[str, Ticks]) -> Ticks:
        """Ticks by alias, as the sites of their streams named them."""
        owners = {ref.alias: ref.stream.site for ref in self.plan.query.streams}
        found = {alias: tick for site, ticks in answers.items() for alias, tick in ticks if owners.get(alias) == site}
        return tuple(sorted(found.items()))

    def done_moved(self, now_us: int) -> None:
        """The sink stored more: the sites are to be told, some time."""
        for held in (*self.untold.values(), self.unkept):
            held.add(now_us)

    def told(self, site: str) -> None:
        """The site was told the done frontiers as they are now."""
        self.untold[site] = HeldNews()

    @property
    def all_told(self) -> bool:
        return not any(held.count for held in self.untold.values())

    def end(self, state: QueryState, reason: str) -> None:
        self.state = state
        self.reason = reason
