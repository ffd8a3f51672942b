"""A query at its home: the site where it was issued, which installs it everywhere and is its sink.

Installation has two phases. Every site prepares, or refuses; when all are ready, home starts the query at the latest of
the ticks that they name, so every site can serve it from that tick on: the one that was asked for, or the first that
all streams still have. If one refuses, none starts.

Of a query that looks back sites are asked twice: when home knows with which tick its rows begin, each says from where
on it has what the windows show then. That is how a query goes on which ran before, so it begins like one: its tables,
copies and heads are made, or shared, in the same way.

A site that loses what it knew of a query (a crash, a link's session) is no reason to end it: home begins another
**generation**, with the same two phases. It goes on from what is done, whatever the one before had under way; what that
one stored beyond is left out. When a query ends is decided by ``issuer`` and ``home_ends``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from node.core.effects import QueryState, SwitchState
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
from node.core.queries.home.delta import Trips, delta_us, has_changed
from node.core.queries.home.kept_sink import KeptSink
from node.core.queries.home.plan_switch import PlanSwitch, of_own
from node.core.queries.home.sink import Sink
from node.core.queries.news import HeldNews
from node.core.queries.query_id import successor_of
from node.core.query_records import HomeRecord
from node.core.status import HeadProgress
from node.core.streams.derived import DerivedStream
from node.core.streams.ticks import TICK_END, TICK_MIN, Span, tick_text
from planner.model.beginning import DEFAULT_BEGINNING, Beginning
from planner.model.kept import owner_of
from planner.model.query import Plan, PolicyName

_NOTHING_TO_JOIN = (
    "a stream of the query had ended before it began, so there is nothing to join "
    "(query --from start begins with what is still in the logs of its streams)"
)


class HomeQuery:
    """State of one query that was issued here."""

    def __init__(
        self,
        query_id: str,
        plan: Plan,
        issued_us: int = 0,
        beginning: Beginning = DEFAULT_BEGINNING,
        generation: int = FIRST_GENERATION,
    ) -> None:
        self.query_id = query_id
        self.plan = plan
        self.beginning = beginning
        self.issued_us = issued_us
        self.state = QueryState.PREPARING
        self.reason = ""
        self.generation = generation
        #: None while it is not known from which tick on the query sees tuples.
        self.sink: Sink | None = None
        #: For each site, how many moves of the done frontiers it was not told of.
        self.untold = {site: HeldNews() for site in plan.sites}
        #: Its rows begin with this tick; it sees its streams from there on, or from where ``begins`` says.
        self.first_tick: int | None = None
        self.begins: Ticks = ()
        #: The streams because of which that is no earlier.
        self.limited_by: tuple[str, ...] = ()
        #: Its sites are asked how far back its streams are there: it begins with this tick or later, with this origin.
        self._looks_back: tuple[int, int | None] | None = None
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
        self._stored_us = issued_us
        #: By two sites, the round trip that the first one has measured; and what is derived from them.
        self._rtt_us: dict[tuple[str, str], int] = {}
        self._delta_us = 0
        #: It goes over to another plan.
        self.switch: PlanSwitch | None = None
        #: Of a join that is kept: the stream that its rows are; and from which tick on it runs, with which origin, once
        #: the query that reads it does.
        self.stream: DerivedStream | None = None
        self._begins_with: tuple[int, int | None] | None = None
        #: Of one that is kept for a query that ran already, by another plan: with what it began; and whether it waits.
        self.late: Resumption | None = None
        self._is_held = False
        #: Walks of the heads of its plan begin with this tick; None: with the query.
        self._walks_from: int | None = None

    @classmethod
    def recovered(
        cls, record: HomeRecord, plan: Plan, done: dict[str, int] | None, stored: Iterable[tuple[str, Span]]
    ) -> HomeQuery:
        """One of an earlier life: what was kept of it, what of it is done, and the walks whose rows are stored."""
        home = cls(record.query_id, plan, beginning=record.prepare.beginning)
        home.state, home.reason, home.first_tick = record.state, record.reason, record.first_tick
        home.limited_by, home.begins = record.limited_by, record.begins
        home.late, home._walks_from = record.prepare.resumed, record.walks_from
        if record.first_tick is not None:
            first = record.first_tick if record.walks_from is None else record.walks_from
            known = done or {}
            # What is kept as done may be the plan before's, of which all before its end was done.
            home.sink = Sink({head: max(first, known.get(head, first)) for head in plan.query.aliases})
            home.kept_done = home.sink.frontiers
            for head, span in sorted(stored, key=lambda walk: walk[1]):
                # Walks of heads that only earlier plans had are done.
                if head in home.sink.heads:
                    home.sink.heads[head].found(span)
        return home

    def kept_as(self, stream: DerivedStream) -> None:
        """It is a join that is kept: its rows are that stream. What that has in its log is done, all else is not."""
        self.stream = stream
        if self.first_tick is not None:
            tick, known = max(self.first_tick, stream.fed), dict(self.kept_done)
            self.sink = KeptSink({head: max(tick, known.get(head, tick)) for head in self.plan.query.aliases}, stream)

    def begins_late(self, stream: DerivedStream, late: Resumption) -> None:
        """It is a join that is kept for a query that runs already: it has what that can see from some tick on."""
        self.late, self.first_tick, self._is_held = late, late.first_tick, True
        self.begins = late.begins
        self.kept_as(stream)
        self.begun()

    def reaches_to(self, beginning: Beginning) -> bool:
        """The query that reads it had begun, when this one was not; whether it was to begin elsewhere."""
        was, self.beginning = self.beginning, beginning
        return was != beginning

    def begins_with(self, tick: int, origin_ms: int | None) -> None:
        """The query that reads it begins with that tick, and so will this one."""
        self._begins_with, self._is_held = (tick, origin_ms), False

    @property
    def is_begun(self) -> bool:
        """Whether the query that reads it has begun."""
        return (self.sink is not None and not self._is_held) or self._begins_with is not None

    @property
    def reaches_too_late(self) -> str:
        """Why its sites cannot serve it from where the query that reads it begins; empty if they can."""
        if self.sink is not None or self._begins_with is None or self.earliest <= self._begins_with[0]:
            return ""
        required = f"the query that reads it requires what is from tick {tick_text(self._begins_with[0])} on"
        return f"data loss: {required}; got it from {tick_text(self.earliest)} on"

    @property
    def sites(self) -> tuple[str, ...]:
        """All that take part in it."""
        other = () if self.switch is None else self.switch.plan.sites
        return tuple(dict.fromkeys([*self.plan.sites, *other]))

    @property
    def generations(self) -> tuple[int, ...]:
        """Those whose walks are taken."""
        return (self.generation,) if self.switch is None else (self.generation, self.switch.generation)

    @property
    def is_preparing_switch(self) -> bool:
        """Whether it is to go over to another plan, and no head can have gone yet."""
        return self.switch is not None and self.switch.state is SwitchState.PREPARING

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs that a plan has taken over, or is to."""
        return tuple(successor_of(self.query_id, generation) for generation in self.generations)

    def going_over(self, switch: PlanSwitch) -> None:
        """It is to go on by another plan."""
        self.switch = switch
        self._tell_sites()

    def adopt(self, switch: PlanSwitch) -> None:
        """It goes on by the other plan alone."""
        self.plan, self.generation, self.switch = switch.plan, switch.generation, None
        if switch.over_at is not None:
            self._walks_from = switch.over_at
            self.sink = Sink(dict.fromkeys(self.plan.query.aliases, switch.over_at))
            self._again.clear()
        self._tell_sites()
        switch.state = SwitchState.SWITCHED

    def stays(self, switch: PlanSwitch) -> None:
        """It goes on by the plan that it has."""
        self.switch = None
        self._tell_sites()
        switch.state = SwitchState.GIVEN_UP

    def _tell_sites(self) -> None:
        """Those who are told what is done are those that take part now."""
        self.untold = {site: self.untold.get(site, HeldNews()) for site in self.sites}

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Sites that have not answered Prepare; home itself, which may only wait for the others, if it is the last."""
        missing = tuple(site for site in self.plan.sites if site not in self._answers)
        return tuple(site for site in missing if site != self.plan.sink) or missing

    @property
    def is_withheld(self) -> bool:
        """Whether all sites of a join that is kept are ready, and the query that reads it has not begun."""
        is_waiting = self.stream is not None and not self.is_begun
        return is_waiting and self.is_ready and not self.waiting_for

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
    def is_level(self) -> bool:
        """Whether a join that is kept, and began late, has caught up with the stream of its that was behind."""
        if self.late is None or self.sink is None:
            return True
        goal = min((goal for _, goal in self._again.values()), default=TICK_END)
        return self.sink.complete or (
            self.state is QueryState.RUNNING and all(done >= goal for _, done in self.sink.frontiers)
        )

    @property
    def reason_if_whole(self) -> str:
        """What is to be said of it while nothing is wrong."""
        return _NOTHING_TO_JOIN if self.first_tick == TICK_END else ""

    def record(self) -> HomeRecord:
        """What home must know of it after a crash."""
        question = replace(self._question(), resumed=self.late)
        begun = self.first_tick, self.limited_by, self.begins, self._walks_from
        return HomeRecord(self.query_id, question, self.state, self.reason, *begun)

    def _question(self, plan: Plan | None = None) -> Prepare:
        plan = plan or self.plan
        owner = owner_of(plan)
        query = plan.asked
        streams = {ref.stream.name: ref.stream for ref in query.streams}
        return Prepare(
            self.query_id,
            query.text,
            plan.sink,
            plan.sequences,
            tuple(streams.values()),
            plan.policy,
            beginning=self.beginning,
            kept=plan.kept,
            part=plan.part,
            owner="" if owner == self.query_id else owner,
        )

    def prepare(self) -> Prepare:
        """What every site is asked."""
        return replace(self._question(), generation=self.generation, resumed=self._resumption(self.is_alone))

    def prepare_successor(self, switch: PlanSwitch) -> Prepare:
        """What every site of another plan is asked, to which the query is to go over."""
        question, generation, resumed = self._question(switch.plan), switch.generation, self._resumption(False)
        if switch.holds and resumed is not None:
            since = min(tick for _, tick in resumed.done)
            resumed = replace(resumed, done=self.done_for(switch), since=since)
        return replace(question, query_id=switch.run_id, generation=generation, resumed=resumed)

    def done_for(self, switch: PlanSwitch) -> Ticks:
        """By head of the plan to which it is to go over, what is done; of other heads what is done of all."""
        assert self.sink is not None
        if not switch.holds:
            return self.sink.frontiers
        lowest = min(tick for _, tick in self.sink.frontiers)
        return tuple((head, lowest) for head in switch.plan.query.aliases)

    def _resumption(self, is_alone: bool) -> Resumption | None:
        if self._looks_back is not None:
            return Resumption(self._looks_back[0], (), self._looks_back[0])
        if self.sink is None or self.first_tick is None:
            return None
        stored_to, since = self.sink.stored_to(self.first_tick), None if self.late is None else self.late.since
        told = self.first_tick, self.sink.frontiers, stored_to, is_alone, self.begins
        return Resumption(*told, since, self._walks_from)

    def restarted(self, now_us: int) -> None:
        """Its home is in another life: whoever prepares has as long again."""
        self.issued_us = now_us

    def begin_again(self, generation: int, reason: str, now_us: int, is_alone: bool, lag_us: int) -> None:
        """Another generation, to be prepared."""
        self.generation = generation
        self.begun_us, self.is_alone = now_us, is_alone
        self.is_waiting = self._is_stuck(now_us, lag_us)
        self._answers.clear()
        self._again.clear()
        self._looks_back = None
        if self.sink is not None:
            self.state, self.reason, self.loss = QueryState.RECOVERING, reason, reason

    def _is_stuck(self, now_us: int, lag_us: int) -> bool:
        """Whether rows cannot be stored, it seems: whatever walks now would only lag again."""
        return self.sink is not None and self.sink.is_storing and now_us - self._stored_us >= lag_us // 2

    def prepared(self, site: str, answer: Prepared) -> bool:
        """A site is ready; whether it was the last, and nobody else withholds the start.

        Raises PeerProtocolError if it does not say of a query that ran where its streams are.
        """
        if site not in self.plan.sites or site in self._answers:
            return False
        if self.sink is not None or self._looks_back is not None:
            own = [ref.alias for ref in self.plan.query.streams if ref.stream.site == site]
            require_ticks(f"a site that is ready for query {self.query_id}", "begins", answer.begins, own)
            require_ticks(f"a site that is ready for query {self.query_id}", "frontiers", answer.frontiers, own)
        self._answers[site] = answer
        return not self.waiting_for and not self.is_withheld

    @property
    def earliest(self) -> int:
        """From this tick on all its sites can serve it, when they are ready."""
        return max((one.earliest for one in self._answers.values()), default=TICK_MIN)

    @property
    def origin_ms(self) -> int | None:
        """Event time of the first tuple of its streams that have not started."""
        origins = [one.origin_ms for one in self._answers.values() if one.origin_ms is not None]
        return min(origins, default=None)

    @property
    def is_to_look_back(self) -> bool:
        """Whether its sites are to say, now that they are ready, how far back they have what its windows show.

        Not of one that reads a join that is kept, or makes one: that would have to look back as well. Nor by policy
        delta, whose copies are never of the past.
        """
        is_asked = self.beginning.looks_back and self.sink is None and self._looks_back is None
        is_plain = self.stream is None and not self.plan.kept and self.plan.policy.name is PolicyName.FRONTIER
        return is_asked and is_plain and TICK_MIN < self.earliest < TICK_END

    def look_back(self, generation: int) -> None:
        """They are to be asked; what they hold for it meanwhile is as if it had run before."""
        self.generation = generation
        self.limited_by = self._limiting(self.earliest)
        self._looks_back = self.earliest, self.origin_ms
        self._answers.clear()

    def start(self) -> Start:
        """The message for all sites, which are ready."""
        resumed, origin_ms = None, self.origin_ms
        if self._looks_back is not None:
            # Later than when they were asked first, or copies that are there could have gone on without it.
            tick, origin_ms = self._looks_back
            self.first_tick = max(tick, self.earliest) if self.earliest < TICK_END else tick
            self.begins, self._looks_back = self._begins, None
            self.sink = Sink(dict.fromkeys(self.plan.query.aliases, self.first_tick))
            resumed = Resumed(self.sink.frontiers, self.begins)
        elif self.sink is None:
            self.first_tick = self.earliest
            if self._begins_with is not None:
                self.first_tick, origin_ms = self._begins_with
            self.limited_by = self._limiting(self.first_tick)
            done = dict.fromkeys(self.plan.query.aliases, self.first_tick)
            self.sink = Sink(done) if self.stream is None else KeptSink(done, self.stream)
        else:
            if self.late is not None and isinstance(self.sink, KeptSink):
                # What logs do not have any more no walk of the query that reads it can see.
                self.sink.skip_to(self._begins)
            resumed = Resumed(self.sink.frontiers, self._begins, self.sink.islands)
            goals = dict(self._frontiers)
            self._again = {head: (done, goals[head]) for head, done in self.sink.frontiers}
        self.state, self.reason = QueryState.RUNNING, self.reason_if_whole
        assert self.first_tick is not None
        for asked, one in self._answers.items():
            self._note_trips(asked, one.rtt_us)
        self._delta_us = delta_us(self.plan, self._rtt_us)
        return Start(
            self.query_id,
            self.first_tick,
            origin_ms,
            self._delta_us,
            self._frontiers,
            self.generation,
            resumed,
        )

    def measured(self, site: str, rtt_us: Trips) -> int | None:
        """A site has measured other round trips; delta, if it is another one thereby and is not given."""
        if site not in self.plan.sites or not self.plan.policy.is_measured or self.state is not QueryState.RUNNING:
            return None
        self._note_trips(site, rtt_us)
        found = delta_us(self.plan, self._rtt_us)
        if not has_changed(self._delta_us, found):
            return None
        self._delta_us = found
        return found

    def _note_trips(self, site: str, rtt_us: Trips) -> None:
        """What a site says of others than the query's would be kept for nothing, however much it is."""
        self._rtt_us |= {(site, other): rtt for other, rtt in rtt_us if other in self.plan.sites}

    def _limiting(self, first_tick: int) -> tuple[str, ...]:
        """The streams that have nothing, or of which nothing is wanted, before the first tick."""
        last = [alias for alias, tick in self._begins if tick == first_tick]
        return tuple(sorted({self.plan.query.ref(alias).stream.name for alias in last}))

    @property
    def _begins(self) -> Ticks:
        return of_own(self.plan, {site: answer.begins for site, answer in self._answers.items()})

    @property
    def _frontiers(self) -> Ticks:
        return of_own(self.plan, {site: answer.frontiers for site, answer in self._answers.items()})

    def take(self, head: str, span: Span, now_us: int) -> bool:
        """A walk is over, and its rows are to be stored; whether it is the first to bring them."""
        assert self.sink is not None
        if not self.sink.is_storing:
            self._stored_us = now_us
        return self.sink.heads[head].take(span)

    def rows_stored(self, now_us: int) -> None:
        """Rows of a walk are stored."""
        self._stored_us = now_us

    def done_moved(self, now_us: int) -> None:
        """The sink stored more: the sites are to be told, some time."""
        for held in (*self.untold.values(), self.unkept):
            held.add(now_us)

    def begun(self) -> None:
        """Where it begins is about to be kept, and with it that nothing is done."""
        assert self.sink is not None
        self.kept_done = self.sink.frontiers

    def done_kept(self) -> None:
        """Home will know the done frontiers as they are now after a crash."""
        assert self.sink is not None
        self.kept_done, self.unkept = self.sink.frontiers, HeldNews()

    def told(self, site: str) -> None:
        """The site was told the done frontiers as they are now."""
        self.untold[site] = HeldNews()

    @property
    def all_told(self) -> bool:
        return not any(held.count for held in self.untold.values())

    def end(self, state: QueryState, reason: str) -> None:
        self.state = state
        self.reason = reason
