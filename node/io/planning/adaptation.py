"""Queries of this home go over to better plans by themselves: each is looked at once in an epoch, the worst first.

Nothing depends on it for rows, which are the same by any plan; so what goes wrong here is told in the log.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from math import inf

from node.config import ClusterConfig
from node.core.effects import QueryState, ReportStatistics, SwitchState
from node.core.links.link_states import LinkState
from node.core.queries.home.home_query import HomeQuery
from node.io.planning.epochs import Epochs, look_of
from node.io.planning.outcome import Forecast
from node.io.planning.plan_desk import PlanDesk
from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.runner import Runner
from planner.estimate.statistics import Statistics
from planner.model.query import Plan
from planner.search.choice import Options, Search
from planner.search.replanning import Decision, Measured, Rules, Running, decide, worse_than_ship_all

log = logging.getLogger(__name__)

#: Queries are passed in review this often; an epoch ends no sooner.
_REVIEW_S = 0.25
#: With more streams than this a search is too long to be made in every epoch: a quick one is.
_SEARCHED_STREAMS_MAX = 6
#: After a switch that was given up it rests so many epochs, then twice as many, and so on.
_GIVEN_UP_EPOCHS, _GIVEN_UP_EPOCHS_MAX = 4, 256
#: A plan disappoints that sends so many times as much as was expected. So many plans are remembered of a query.
_DISAPPOINTING, _KNOWN_MAX = 1.3, 8
#: A link is not what it was if it carries so many times as much or as little, or if a round trip takes so many times as
#: long, and longer by so much.
_BANDWIDTH_FACTOR = 2.0
_RTT_FACTOR, _RTT_US_MIN = 3.0, 50_000

#: What is known of a link from here: round trip, bandwidth.
_Seen = tuple[int | None, float | None]
_Pair = tuple[str, str]


@dataclass
class _Watched:
    """A query that is adaptive."""

    epochs: Epochs
    #: The last switch that was noticed, and how many were given up since one was made.
    switch: int = 0
    given_up: int = 0
    #: The links of home as they were when it was last looked at.
    links: dict[str, _Seen] = field(default_factory=dict)
    #: Sites that do not reach each other, and since when; and when somebody asked last.
    cut: dict[_Pair, float] = field(default_factory=dict)
    looked_s: float = 0.0
    #: What was measured first since it runs by its plan, if nobody knows what that was chosen by.
    first: Statistics | None = None
    #: What was expected, in bytes of a second, of the plan that it went over to, until streams were measured since.
    promised: float | None = None
    #: What is sent had changed when it was last looked at, and nothing was decided yet.
    has_waited: bool = False
    #: Of the plans by which it ran, how many times as much they sent as was expected.
    known: dict[Plan, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Looked:
    """What was heard of a query at the end of an epoch."""

    query: IssuedQuery
    watched: _Watched
    plan: Plan
    measured: Measured | None
    #: Something is not what it was, or some links are cut, or it is not known what the plan was chosen by.
    urgent: bool
    #: How much worse than shipping everything its plan is.
    badness: float


class Adaptation:
    """Looks at the queries of a site."""

    def __init__(self, runner: Runner, desk: PlanDesk, queries: Queries, config: ClusterConfig) -> None:
        self._runner = runner
        self._desk = desk
        self._queries = queries
        self._tau_us = 1000 * config.tau_ms
        self._epoch_ticks = config.planner.epoch(config.tau_ms)
        self._rules = Rules(payback_windows=config.planner.payback_windows)
        self._watched: dict[str, _Watched] = {}
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_REVIEW_S)
            try:
                await self._review()
            except Exception:
                log.exception("queries are not looked at for better plans this time")

    async def _review(self) -> None:
        now_s = self._loop.time()
        running = [query for query in self._queries.by_id.values() if query.adaptive and not query.ending]
        for gone in self._watched.keys() - {query.query_id for query in running}:
            del self._watched[gone]
        due = [query for query in running if self._is_due(query, now_s)]
        found = await asyncio.gather(*(self._look(query) for query in due), return_exceptions=True)
        for query, failed in zip(due, found, strict=True):
            if isinstance(failed, BaseException):
                _tell(query, failed)
        for looked in sorted((each for each in found if isinstance(each, _Looked)), key=lambda one: -one.badness):
            try:
                await self._decide(looked)
            except Exception as error:
                _tell(looked.query, error)

    # -- when ---------------------------------------------------------------------------------

    def _home(self, query: IssuedQuery) -> HomeQuery | None:
        """The query as the core knows it, while it runs and nothing is the matter with it."""
        home = self._runner.stack.site.homes.get(query.query_id)
        if home is None or home.sink is None or query.planned is None or home.plan.kept:
            return None
        return home if home.state is QueryState.RUNNING and not home.catching_up else None

    def _is_due(self, query: IssuedQuery, now_s: float) -> bool:
        home = self._home(query)
        if home is None or home.sink is None:
            return False
        tick = min(tick for _, tick in home.sink.frontiers)
        watched = self._watched.get(query.query_id)
        if watched is None:
            epochs = Epochs(home.plan.query, home.plan.sink, self._epoch_ticks, self._tau_us)
            watched = self._watched[query.query_id] = _Watched(epochs)
        if not self._has_settled(query, watched, tick):
            return False
        if watched.epochs.is_due(tick, now_s) or self._is_cut_for_long(watched, now_s):
            return True
        return watched.epochs.is_late(now_s) and self._has_changed(watched, home.plan)

    @staticmethod
    def _has_settled(query: IssuedQuery, watched: _Watched, tick: int) -> bool:
        """Whether it goes over to no plan; when it has just done so it rests."""
        last = query.switches.last
        if last is None:
            return True
        if not last.state.ended:
            return False
        if last.number != watched.switch:
            watched.switch, watched.first = last.number, None
            watched.given_up = watched.given_up + 1 if last.state is SwitchState.GIVEN_UP else 0
            if watched.given_up:
                watched.epochs.rest(tick, min(_GIVEN_UP_EPOCHS * 2**watched.given_up, _GIVEN_UP_EPOCHS_MAX))
            else:
                watched.epochs.begin_plan(tick)
        return True

    def _has_changed(self, watched: _Watched, plan: Plan) -> bool:
        """Whether a link of home is not what it was when the query was last looked at."""
        now = self._links(plan)
        return any(_differs(before, now[peer]) for peer, before in watched.links.items() if peer in now)

    @staticmethod
    def _is_cut_for_long(watched: _Watched, now_s: float) -> bool:
        """Whether a link that was cut when somebody asked may have been cut for an epoch by now."""
        length_s = watched.epochs.length_s
        return any(watched.looked_s < since_s + length_s <= now_s for since_s in watched.cut.values())

    def _links(self, plan: Plan) -> dict[str, _Seen]:
        stack = self._runner.stack
        peers = [site for site in plan.sites if site in stack.links]
        return {peer: (stack.links[peer].rtt_us, stack.bandwidths[peer].bytes_per_s) for peer in peers}

    # -- what ---------------------------------------------------------------------------------

    async def _look(self, query: IssuedQuery) -> _Looked:
        assert query.planned is not None
        watched, plan = self._watched[query.query_id], query.planned.plan
        before, watched.links = watched.links, self._links(plan)
        urgent = any(_differs(before[peer], now) for peer, now in watched.links.items() if peer in before)
        watched.looked_s = self._loop.time()
        found = await self._runner.statistics(plan.query, query.query_id, counts_only=True)
        home = self._runner.stack.site.homes.get(query.query_id)
        ticks = [tick for _, tick in home.sink.frontiers] if home is not None and home.sink is not None else []
        measured = watched.epochs.take(look_of(found, min(ticks, default=0), self._loop.time()))
        self._note_cuts(watched, plan, found)
        unknown = query.planned is not None and query.planned.choice is None and watched.first is None
        urgent = urgent or unknown or watched.epochs.has_changed or bool(self._cut(watched))
        urgent = urgent or _disappoints(watched, measured)
        badness = 0.0 if measured is None else worse_than_ship_all(measured, plan)
        return _Looked(query, watched, plan, measured, urgent, badness)

    def _note_cuts(self, watched: _Watched, plan: Plan, found: ReportStatistics) -> None:
        here, now_s = self._runner.stack.site.name, self._loop.time()
        links = self._runner.stack.links
        pairs = {(here, peer) for peer in plan.sites if peer in links and links[peer].state is not LinkState.UP}
        pairs |= {(site, peer) for site, counts in found.counts.items() for peer in counts.unreached}
        cut = {(min(pair), max(pair)) for pair in pairs if set(pair) <= set(plan.sites)}
        watched.cut = {pair: watched.cut.get(pair, now_s) for pair in cut}

    def _cut(self, watched: _Watched) -> frozenset[_Pair]:
        """Those that have been cut for an epoch."""
        now_s, length_s = self._loop.time(), watched.epochs.length_s
        return frozenset(pair for pair, since_s in watched.cut.items() if now_s - since_s >= length_s)

    # -- whether ------------------------------------------------------------------------------

    async def _decide(self, looked: _Looked) -> None:
        query, watched = looked.query, looked.watched
        watched.has_waited = watched.has_waited and watched.epochs.has_changed
        cut, urgent = self._cut(watched), looked.urgent or looked.badness > 1
        if (looked.measured is None and not cut) or not watched.epochs.may_survey(urgent=urgent):
            return
        has_changed, lags = watched.epochs.has_changed, watched.epochs.lags
        if has_changed and not watched.has_waited and not cut:
            # What has just changed is changing still: windows have tuples of before, and what finds them will not be.
            watched.has_waited = True
            watched.epochs.look_soon()
            return
        watched.has_waited = False
        past_us = watched.epochs.past_us(lately=has_changed)
        found = await self._runner.statistics(looked.plan.query, query.query_id, past_us=past_us)
        watched.epochs.surveyed(found)
        if lacking := _lacking(looked.plan, found):
            query.outlook = f"nothing was decided: {lacking}"
            return
        if query.planned is None or query.planned.plan != looked.plan or query.switches.under_way is not None:
            return
        choice = query.planned.choice
        options = Options() if choice is None else choice.options
        if len(looked.plan.query.streams) > _SEARCHED_STREAMS_MAX:
            options = replace(options, search=Search.GREEDY)
        statistics = self._desk.beside(found)
        watched.first, watched.promised = watched.first or statistics, None
        then = (watched.first, "when first measured") if choice is None else (choice.statistics, "when planned")
        running = Running(looked.plan, looked.measured, found.copies, cut, *then, watched.known, lags)
        decision = await self._desk.search(decide, running, statistics, options, self._rules)
        if looked.measured is not None:
            _remember(watched.known, looked.plan, decision.ratio)
        query.outlook = decision.why
        log.debug("query %s: %s", query.query_id, decision.why)
        if decision.plan is not None:
            watched.promised = None if decision.choice is None else decision.choice.estimate.bytes_per_s
            await self._switch(query, decision)

    async def _switch(self, query: IssuedQuery, decision: Decision) -> None:
        assert decision.plan is not None
        log.info(
            "query %s is to go over to another plan: %s; snapshots take %.0f bytes",
            query.query_id,
            decision.why,
            decision.snapshot_bytes,
        )
        forecast = Forecast(decision.estimate, decision.choice)
        # Over a link that is cut nothing goes on that a switch could wait for.
        at_once = decision.before == inf
        report = await self._runner.replan(query.query_id, decision.plan, decision.why, forecast, at_once=at_once)
        if report.state is SwitchState.GIVEN_UP:
            query.outlook = report.reason


def _tell(query: IssuedQuery, error: BaseException) -> None:
    """What goes wrong with one query, maybe by what a site said of it, must not keep others from being looked at."""
    log.error("query %s is not looked at for a better plan this time", query.query_id, exc_info=error)


def _disappoints(watched: _Watched, measured: Measured | None) -> bool:
    """Whether a plan sends more than was expected when the query went over to it."""
    if measured is None or watched.promised is None:
        return False
    return sum(measured.sent.values()) > _DISAPPOINTING * watched.promised


def _remember(known: dict[Plan, float], plan: Plan, ratio: float) -> None:
    """What was measured last counts, and of few plans."""
    known.pop(plan, None)
    known[plan] = ratio
    if len(known) > _KNOWN_MAX:
        del known[next(iter(known))]


def _differs(before: _Seen, now: _Seen) -> bool:
    rtt_before, rtt_now = before[0], now[0]
    if rtt_before is not None and rtt_now is not None:
        longer, shorter = max(rtt_before, rtt_now), min(rtt_before, rtt_now)
        if longer >= _RTT_FACTOR * shorter and longer - shorter >= _RTT_US_MIN:
            return True
    bandwidth_before, bandwidth_now = before[1], now[1]
    if bandwidth_before is None or bandwidth_now is None:
        return bandwidth_before is not bandwidth_now
    return not 1 / _BANDWIDTH_FACTOR < bandwidth_now / max(1.0, bandwidth_before) < _BANDWIDTH_FACTOR


def _lacking(plan: Plan, found: ReportStatistics) -> str:
    lacking = sorted(found.missing.items())
    return f"stream {plan.query.ref(lacking[0][0]).stream.name}: {lacking[0][1]}" if lacking else ""
