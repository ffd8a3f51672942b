"""From what a client asks for to a plan: forced, read from a file, or chosen by cost from what the sites measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from node.config import ClusterConfig
from node.core.effects import ReportStatistics
from node.core.planning.declared_profile import links_with_declared
from node.core.queries.shape import shape_of
from node.io.planning.outcome import Planned
from node.io.results.issued_query import IssuedQuery
from node.io.runner import Runner
from node.rpc import control_pb2 as pb
from planner.cost.estimates import PlanEstimate
from planner.estimate.derived import TIMES_STORED
from planner.estimate.statistics import LinkStats, Statistics
from planner.model.copies import RunningCopy, copy_of
from planner.model.durations import duration_text
from planner.model.errors import PlanError
from planner.model.plan_file import read_plan
from planner.model.plans import forced_plan, parse_algorithm, parse_policy, ship_all_plan
from planner.model.query import JoinQuery, Plan, Policy, PolicyName
from planner.search.choice import Choice, Model, Options, Search, choose, estimate_plan
from planner.sql.parser import parse_query

AUTO, SHIP_ALL = "auto", "ship-all"
#: Eight streams that are all linked take some 3 s to plan optimally, ten some 20 s (``bench/results/planner.md``).
OPTIMAL_STREAMS_MAX = 8

#: So many plans are searched for at once; others wait.
SEARCHES_MAX = 2

Found = TypeVar("Found")
Choices = TypeVar("Choices", Search, Model)


class PlanDesk:
    """Plans queries of which this site is the home."""

    def __init__(self, runner: Runner, config: ClusterConfig) -> None:
        self._runner = runner
        self._config = config
        #: Threads of its own: a search may take many seconds, and rows and status are read by the common ones. Queries
        #: are read by another, so that those that need no search do not wait for those that do.
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="read-query")
        self._searching = ThreadPoolExecutor(SEARCHES_MAX, thread_name_prefix="plan")

    def close(self) -> None:
        """No plan is begun any more."""
        for pool in (self._reading, self._searching):
            pool.shutdown(wait=False, cancel_futures=True)

    async def search(self, work: Callable[..., Found], *arguments: object) -> Found:
        """Something that may take long, on a thread for such."""
        return await asyncio.get_running_loop().run_in_executor(self._searching, work, *arguments)

    async def _read(self, work: Callable[..., Found], *arguments: object) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._reading, work, *arguments)

    async def plan(
        self, request: pb.IssueRequest, require: Callable[[tuple[str, ...]], None], *, explained: bool
    ) -> Planned:
        """The plan that was asked for; ``explained`` says that its cost is wanted even if no choice depends on it.

        ``require`` is given the sites of the query before anyone is asked; it may refuse.
        Raises NarrowsError if there is something wrong with what was asked for.
        """
        site = self._runner.stack.site
        query = await self._read(parse_query, request.text, dict(site.catalogue))
        require(tuple(sorted({site.name, *(ref.stream.site for ref in query.streams)})))
        policy = parse_policy(request.policy or "frontier")
        options = _options(request, query)
        plan = await self._read(_given_plan, request, query, site.name, policy)
        if plan is None:
            return await self._choose(query, site.name, options, policy)
        return await self.estimated(plan, options) if explained else Planned(plan)

    async def _choose(self, query: JoinQuery, sink: str, options: Options, policy: Policy) -> Planned:
        statistics, declared, lacking = await self._measured(query)
        if lacking:
            instead = "without that, the plan is not chosen by cost: everything is shipped to the query's home"
            return Planned(ship_all_plan(query, sink, policy), None, declared, (*lacking, instead))
        options = replace(options, storage_bytes=self._config.planner.storage_bytes)
        choice = await self.search(choose, query, sink, statistics, options, policy)
        return Planned(choice.plan, choice, declared)

    async def replan(self, plan: Plan, request: pb.IssueRequest) -> tuple[Planned, PlanEstimate | None]:
        """Another plan for a query that runs by ``plan``, as is asked for; and what that one costs, if that is known.

        Raises NarrowsError if there is something wrong with what is asked for.
        """
        query = plan.asked
        options = _options(request, query)
        given = await self._read(_given_plan, request, query, plan.sink, plan.policy)
        statistics, declared, lacking = await self._measured(query, plan)
        if lacking:
            if given is None:
                raise PlanError(f"a plan that is chosen by cost requires what its streams are like; got {lacking[0]}")
            return Planned(given, None, declared, lacking), None
        before = await self.search(_choice_of, plan, statistics, self._with_room(plan, options))
        if given is None:
            after = await self.search(choose, query, plan.sink, statistics, options, plan.policy)
        else:
            after = await self.search(_choice_of, given, statistics, self._with_room(given, options))
        return Planned(after.plan, after, declared), before.estimate

    def is_adaptive(self, request: pb.IssueRequest, planned: Planned) -> bool:
        """Whether a query may go over to a better plan by itself: if nothing is said, one that was chosen by cost.

        One that keeps joins stays as it is while the query runs.
        """
        if planned.plan.policy.name is PolicyName.DELTA or planned.plan.kept:
            return False
        if request.HasField("adaptive"):
            return request.adaptive
        by_cost = planned.choice is not None and not is_forced(request) and request.cost != Model.PAPER
        return by_cost and self._config.planner.adaptive

    def outlook(self, query: IssuedQuery) -> str:
        """What is told of a query about plans to come; nothing of one that is over."""
        if query.state.ended:
            return ""
        if not query.adaptive:
            kept = query.planned is not None and query.planned.plan.kept
            return "no, a plan that keeps joins changes by hand alone" if kept else "no, this plan stays"
        ticks = self._config.planner.epoch(self._config.tau_ms)
        looks = f"a better plan is looked for every {duration_text(1000 * ticks * self._config.tau_ms)}"
        return f"{looks}; last: {query.outlook}" if query.outlook else looks

    def beside(self, found: ReportStatistics) -> Statistics:
        """By what was told of a query that runs: copies cost nothing that others need too."""
        shared = dict.fromkeys(copy for counts in found.counts.values() for copy in counts.shared)
        links = links_with_declared(_links(found), self._config.links)
        return Statistics(1000 * self._config.tau_ms, found.profiles, links, tuple(shared))

    async def _measured(
        self, query: JoinQuery, runs_by: Plan | None = None
    ) -> tuple[Statistics, tuple[str, ...], tuple[str, ...]]:
        """What the sites say now; the names of what was declared instead, and what is lacking.

        Copies of the query's own, if it ``runs_by`` a plan already, are no reason to think that they cost nothing.
        """
        found = await self._runner.statistics(query)
        own = () if runs_by is None else _copies_of(runs_by)
        found = replace(found, copies=tuple(copy for copy in found.copies if copy not in own))
        statistics, declared = self._statistics(query, found)
        lacking = (f'stream "{alias}": {reason}' for alias, reason in sorted(found.missing.items()))
        return statistics, declared, tuple(lacking)

    async def estimated(self, plan: Plan, options: Options, *, runs: bool = False) -> Planned:
        """What a given plan, by which a query ``runs``, should cost."""
        statistics, declared, lacking = await self._measured(plan.asked, plan if runs else None)
        if lacking:
            return Planned(plan, None, declared, lacking)
        choice = await self.search(_choice_of, plan, statistics, self._with_room(plan, options))
        return Planned(plan, choice, declared)

    def _with_room(self, plan: Plan, options: Options) -> Options:
        """The options, with as much room as sites have for what a plan keeps."""
        return replace(options, storage_bytes=self._config.planner.storage_bytes if plan.kept else 0)

    def _statistics(self, query: JoinQuery, found: ReportStatistics) -> tuple[Statistics, tuple[str, ...]]:
        """What the sites said, with what was declared of links; and the names of all that was declared."""
        links = links_with_declared(_links(found), self._config.links)
        stored = {site: float(TIMES_STORED * nbytes) for site, nbytes in found.kept_bytes.items()}
        tau_us = 1000 * self._config.tau_ms
        statistics = Statistics(tau_us, found.profiles, links, found.copies, stored=stored)
        return statistics, (*self._declared_streams(query), *self._declared_links(query))

    def _declared_streams(self, query: JoinQuery) -> list[str]:
        used = [ref.stream.name for ref in query.streams]
        names = []
        for stream in (stream for site in self._config.sites for stream in site.streams if stream.name in used):
            stats = stream.stats
            names += [f"rate of {stream.name}: {stats.rate:g} tuples/s"] if stats.rate is not None else []
            names += [f"distinct {stream.name}.{column}: {count:g}" for column, count in stats.distinct.items()]
            names += [f"bytes of {stream.name}.{column}: {size:g}" for column, size in stats.column_bytes.items()]
        return names

    def _declared_links(self, query: JoinQuery) -> list[str]:
        sites = [self._runner.stack.site.name, *(ref.stream.site for ref in query.streams)]
        names = []
        for link in self._config.links:
            if link.source in sites and link.target in sites:
                way = f"{link.source} to {link.target}"
                names += [f"bandwidth {way}: {link.bytes_per_s * 8 / 1e6:g} Mbit/s"] if link.bytes_per_s else []
                names += [f"latency {way}: {link.latency_us / 1000:g} ms"] if link.latency_us is not None else []
                names += [f"price {way}: {link.price_per_gb:g} per GB"] if link.price_per_gb is not None else []
        return names


def is_forced(request: pb.IssueRequest) -> bool:
    """Whether a plan is named, and nothing is to be chosen."""
    return bool(request.algorithm or request.plan_file or request.plan == SHIP_ALL)


def _options(request: pb.IssueRequest, query: JoinQuery) -> Options:
    """What was asked for; who asks for no search gets the best that is quick enough for the query."""
    options = Options() if len(query.streams) <= OPTIMAL_STREAMS_MAX else Options(search=Search.GREEDY)
    if request.search:
        options = replace(options, search=_one(Search, "search", request.search))
    if request.cost:
        options = replace(options, model=_one(Model, "cost", request.cost))
    return options


def _one(kind: type[Choices], what: str, text: str) -> Choices:
    try:
        return kind(text)
    except ValueError:
        names = ", ".join(choice.value for choice in kind)
        raise PlanError(f'{what}: required one of {names}, got "{text}"') from None


def _given_plan(request: pb.IssueRequest, query: JoinQuery, sink: str, policy: Policy) -> Plan | None:
    """The plan that the client names; None if it is to be chosen."""
    ways = [way for way in (request.algorithm, request.plan, request.plan_file) if way]
    if len(ways) > 1:
        raise PlanError("a query requires an algorithm or a plan, not both: leave out --algorithm or --plan")
    if request.algorithm:
        return forced_plan(query, sink, parse_algorithm(request.algorithm, query), policy)
    if request.plan_file:
        return read_plan(request.plan_file, query, sink, policy)
    if request.plan not in ("", AUTO, SHIP_ALL):
        raise PlanError(f'plan: required {AUTO}, {SHIP_ALL} or the text of a plan file, got "{request.plan}"')
    return ship_all_plan(query, sink, policy) if request.plan == SHIP_ALL else None


def _choice_of(plan: Plan, statistics: Statistics, options: Options) -> Choice:
    ship_all = estimate_plan(ship_all_plan(plan.asked, plan.sink, plan.policy), statistics, options)
    return Choice(plan, estimate_plan(plan, statistics, options), ship_all, options, statistics)


def _copies_of(plan: Plan) -> tuple[RunningCopy, ...]:
    """Those that a plan needs, or one that makes a join that it keeps."""
    return tuple(
        copy_of(part.query, need.kind, need.alias, need.keys, need.holder)
        for part in (*plan.inners, plan)
        for need in shape_of(part).needs
    )


def _links(found: ReportStatistics) -> dict[tuple[str, str], LinkStats]:
    """What was measured of links. A round trip is the same from both ends, whoever measured it."""
    links: dict[tuple[str, str], LinkStats] = {}
    for site, seen in found.links.items():
        for link in seen:
            links[site, link.peer] = LinkStats(link.rtt_us, link.bytes_per_s)
    back: Mapping[tuple[str, str], LinkStats] = {
        (target, source): LinkStats(link.rtt_us) for (source, target), link in links.items()
    }
    return {**back, **links}
