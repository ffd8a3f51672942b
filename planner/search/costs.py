"""One query's costs, and the cheapest plan by them whose steps are join sequences: no join is kept in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from planner.algorithms.descriptions import Algorithm
from planner.cost.estimates import Objective, PlanEstimate, Space
from planner.cost.paper_model import paper_space
from planner.cost.whole_plan import plan_estimate
from planner.cost.wire_model import WireSpace
from planner.estimate.estimator import Estimator
from planner.estimate.statistics import Statistics
from planner.model.plans import forced_plan, ship_all_plan
from planner.model.query import JoinQuery, Plan, Policy
from planner.search.joint import found_of, improved
from planner.search.limits import check_exhaustive, check_optimal
from planner.search.refinement import refined
from planner.search.sequences import NONE_FREE, Found, HeadSearch, exhaustive, greedy, optimal

#: With more streams than this, the search does not also begin from each algorithm forced, or from shipping all.
_FORCED_STREAMS_MAX = 6
_SHIP_ALL_STREAMS_MAX = 8
#: With more, there are too many steps to try all of them in other ways.
_REFINED_STREAMS_MAX = 5
#: With more, a quick look is a greedy one.
_QUICK_STREAMS_MAX = 5


class Model(StrEnum):
    """What a step is taken to cost."""

    #: Appendix B of Tran & Lee.
    PAPER = "paper"
    #: What we really send.
    WIRE = "wire"


class Search(StrEnum):
    """How a plan is looked for."""

    GREEDY = "greedy"
    EXHAUSTIVE = "exhaustive"
    OPTIMAL = "optimal"
    SHIP_ALL = "ship-all"


_SEARCHES: dict[Search, HeadSearch] = {
    Search.GREEDY: greedy,
    Search.EXHAUSTIVE: exhaustive,
    Search.OPTIMAL: optimal,
}
_CHECKS: dict[Search, Callable[[Space], None]] = {
    Search.EXHAUSTIVE: check_exhaustive,
    Search.OPTIMAL: check_optimal,
}


@dataclass(frozen=True, slots=True)
class Options:
    """How to choose."""

    model: Model = Model.WIRE
    search: Search = Search.OPTIMAL
    objective: Objective = Objective.BYTES
    #: Bytes of kept joins that a site may have; 0: none is kept.
    storage_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Alternative:
    """A plan, and what it would cost."""

    name: str
    estimate: PlanEstimate


class Costs:
    """One query's costs, and plans by them. Estimates are remembered, so that comparing many plans is cheap."""

    def __init__(
        self,
        query: JoinQuery,
        sink: str,
        statistics: Statistics,
        options: Options,
        policy: Policy,
        estimator: Estimator | None = None,
    ) -> None:
        self.query = query
        self.sink = sink
        self.statistics = statistics
        self.options = options
        self.policy = policy
        self._search: HeadSearch = _SEARCHES.get(options.search, optimal)
        self.wire = WireSpace(query, sink, statistics, options.objective, estimator)
        self._paper = paper_space(self.wire, statistics) if options.model is Model.PAPER else None

    def check_search(self) -> None:
        """Raises PlanError if the search would take too long."""
        if self.options.search in _CHECKS:
            _CHECKS[self.options.search](self._paper or self.wire)

    def estimate(self, plan: Plan) -> PlanEstimate:
        """What a plan of this query is expected to cost."""
        return plan_estimate(self.wire, plan, self._paper)

    def best(self) -> tuple[Alternative, tuple[Alternative, ...]]:
        """The cheapest plan that the search finds, and what it was compared with, shipping everything first."""
        query, options = self.query, self.options
        ship_all = Alternative("ship-all", self.estimate(ship_all_plan(query, self.sink, self.policy)))
        forced = [
            Alternative(algorithm.value, self.estimate(forced_plan(query, self.sink, algorithm, self.policy)))
            for algorithm in Algorithm
        ]
        candidates = [ship_all]
        if options.search is not Search.SHIP_ALL:
            plans = self._found(ship_all.estimate.plan, [item.estimate.plan for item in forced])
            candidates += [Alternative(options.search.value, self.estimate(plan)) for plan in plans]
            if options.model is Model.WIRE and options.search is not Search.GREEDY:
                candidates += forced
        best = min(candidates, key=lambda item: item.estimate.cost)
        searched = options.model is Model.WIRE and options.search in (Search.OPTIMAL, Search.EXHAUSTIVE)
        if searched and len(query.aliases) <= _REFINED_STREAMS_MAX:
            better = refined(best.estimate, self.estimate)
            best = best if better is best.estimate else Alternative(options.search.value, better)
        return best, (ship_all, *forced)

    def quick(self) -> Plan:
        """Heads one by one, with the copies of the others in mind; no other plan is looked at."""
        space: Space = self._paper or self.wire
        search = self._search if len(space.aliases) <= _QUICK_STREAMS_MAX else greedy
        return self._plan(improved(space, self._alone(space, search), search))

    @staticmethod
    def _alone(space: Space, search: HeadSearch) -> tuple[Found, ...]:
        return tuple(search(space, head, NONE_FREE) for head in range(len(space.aliases)))

    def _found(self, ship_all: Plan, forced: list[Plan]) -> list[Plan]:
        """What the search finds from each plan to begin with, without repetition."""
        space: Space = self._paper or self.wire
        alone = self._alone(space, self._search)
        if self._paper is not None:
            return [self._plan(alone)]
        begins = [alone]
        if len(space.aliases) <= _SHIP_ALL_STREAMS_MAX:
            begins.append(self._heads(ship_all))
        if len(space.aliases) <= _FORCED_STREAMS_MAX:
            begins += [self._heads(plan) for plan in forced]
        results = dict.fromkeys(self._plan(improved(space, heads, self._search)) for heads in begins)
        # What a search adds up is not quite what the whole costs: even the simplest one may have found a better plan.
        simple = tuple(greedy(space, head, NONE_FREE) for head in range(len(space.aliases)))
        return list(dict.fromkeys([self._plan(alone), *results, self._plan(simple)]))

    def _heads(self, plan: Plan) -> tuple[Found, ...]:
        return tuple(found_of(self.wire, plan, head) for head in plan.query.aliases)

    def _plan(self, heads: tuple[Found, ...]) -> Plan:
        sequences = tuple(found.sequence(self.query) for found in heads)
        return Plan(self.query, self.sink, sequences, self.policy)
