"""Plans that keep a join, or two that have no stream in common, found beside those of sequences alone.

A join of some streams may be kept at one of their sites, or at the sink (``planner.model.kept`` has how that runs).
Then two queries are planned as any others are: one makes the join, the other reads its rows as a stream. Right means:
what is proposed is a plan that can run, and whose rows fit what its sites may keep; what it is expected to cost is what
``planner.cost.whole_plan`` says of all of it together.

There are many sets of streams, so only some are looked at: those that equalities link, and of them a dozen, or fewer of
many streams, whose join weighs least, in bytes of rows a second. What weighs little is cheap to keep and to look into,
where its streams one after the other may have much. (Fig. 7 of MultiStream goes by the same.) Each is tried at the site
of the stream that it moves most of otherwise, the best few at all sites, by a quick search; then a second join beside
the best. What is best with one, and with two, is planned as carefully as queries are; the second must save as much as
the first (``TREE_GAIN_MIN``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from planner.cost.estimates import Objective, PlanEstimate
from planner.cost.whole_plan import tree_estimate
from planner.estimate.derived import KeptRows, inner_statistics, kept_rows, outer_statistics
from planner.estimate.estimator import Estimator
from planner.model.errors import PlanError
from planner.model.graph import is_linked
from planner.model.kept import inner_query, outer_query, tree_plan
from planner.model.query import JoinQuery, KeptJoin, Plan, PolicyName, RangeWindow
from planner.search.costs import Costs, Model, Search

#: A plan that keeps a join must be expected to cost less by this share than the best that does not. What is expected of
#: the rows of a join, which nobody has seen, is less certain than what is expected of streams (``bench.trees``).
TREE_GAIN_MIN = 0.10
#: Where less is sent, in bytes a second, it is not worth a log.
_SENT_MIN = 50.0
#: Joins that are looked at, at most; of a query over many streams so many for all of its streams together.
SUBSETS_MAX, _SUBSETS_STREAMS = 12, 36
#: Of them those that are tried at every site.
_PLACED = 3
#: Sets of streams that are weighed, those of few streams first.
_WEIGHED_MAX = 300
#: With fewer streams all of them would be in the join.
_STREAMS_MIN = 3
#: What a kept join may be called (``planner.model.kept``), and no longer than people like it.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")


#: Sets of streams of a query that are joined and kept.
_Sets = tuple[tuple[str, ...], ...]
#: A plan that keeps joins as a quick look found it, and the costs of those with the same joins.
_Tried = tuple[PlanEstimate, "TreeCosts"]


def saves_enough(tree: PlanEstimate, other: PlanEstimate) -> bool:
    """Whether a plan that keeps a join, or one more, is so much cheaper than another that this is no accident."""
    return tree.cost < (1 - TREE_GAIN_MIN) * other.cost and other.bytes_per_s >= _SENT_MIN


def best_tree(asked: Costs) -> PlanEstimate | None:
    """The cheapest plan that keeps joins, of those that are looked at; None if none may be kept."""
    return _Search(asked).best() if _may_keep(asked) else None


def _may_keep(asked: Costs) -> bool:
    """Whether a query can have kept joins, and the figure that is to be small is one that they can make smaller.

    What is kept waits for a log, so it is never sooner; and the paper's formulas do not know what is kept.
    """
    options, streams = asked.options, asked.query.streams
    timed = all(isinstance(ref.window, RangeWindow) for ref in streams)
    exact = asked.policy.name is PolicyName.FRONTIER
    costed = options.model is Model.WIRE and options.objective is not Objective.TIME
    searched = options.search is not Search.SHIP_ALL and options.storage_bytes > 0
    return len(streams) >= _STREAMS_MIN and timed and exact and costed and searched


class TreeCosts:
    """Costs of the plans of a query that keep these joins, whatever the sequences in them are."""

    def __init__(self, asked: Costs, kept: tuple[KeptJoin, ...], known: _Known | None = None) -> None:
        """Raises PlanError if they cannot be kept."""
        known = known or _Known(asked)
        self._asked, self._kept = asked, kept
        outer = outer_query(asked.query, kept)
        self.rows, own = known.outer(outer, kept)
        self._inners = [self._costs(inner_query(asked.query, join), join.site, known.inner(join)) for join in kept]
        self._outer = self._costs(outer, asked.sink, own)

    def _costs(self, query: JoinQuery, sink: str, estimator: Estimator) -> Costs:
        return Costs(query, sink, estimator.statistics, self._asked.options, self._asked.policy, estimator)

    def estimate(self, plan: Plan) -> PlanEstimate:
        """What a plan with these joins is expected to cost, with all that makes them."""
        inners = [costs.wire for costs in self._inners]
        return tree_estimate(self._asked.wire, plan, self._outer.wire, inners, self.rows)

    def quick(self) -> PlanEstimate:
        """Planned by a search of single heads."""
        return self._planned([costs.quick() for costs in self._inners], self._outer.quick())

    def best(self) -> PlanEstimate:
        """Planned as carefully as queries are."""
        inners = [costs.best()[0].estimate.plan for costs in self._inners]
        return self._planned(inners, self._outer.best()[0].estimate.plan)

    def _planned(self, inners: list[Plan], outer: Plan) -> PlanEstimate:
        made = zip(self._kept, inners, strict=True)
        kept = tuple(replace(join, sequences=plan.sequences) for join, plan in made)
        return self.estimate(tree_plan(self._asked.query, self._asked.sink, outer.sequences, kept, self._asked.policy))


class _Known:
    """What is expected of the parts of a query that keeps joins, remembered: it is the same at whichever sites."""

    def __init__(self, asked: Costs) -> None:
        self._asked = asked
        self._inner: dict[tuple[str, ...], Estimator] = {}
        self._outer: dict[_Sets, tuple[tuple[KeptRows, ...], Estimator]] = {}

    def inner(self, join: KeptJoin) -> Estimator:
        """Of the query that makes a join."""
        if join.aliases not in self._inner:
            query = inner_query(self._asked.query, join)
            self._inner[join.aliases] = Estimator(query, inner_statistics(self._asked.statistics, query))
        return self._inner[join.aliases]

    def outer(self, query: JoinQuery, kept: tuple[KeptJoin, ...]) -> tuple[tuple[KeptRows, ...], Estimator]:
        """Of the rows of kept joins, and of the query that reads them."""
        sets = tuple(join.aliases for join in kept)
        if sets not in self._outer:
            rows = tuple(kept_rows(self._asked.wire.estimator, join, query) for join in kept)
            profiles = {join.name: each.profile for join, each in zip(kept, rows, strict=True)}
            statistics = outer_statistics(self._asked.statistics, query, profiles)
            self._outer[sets] = (rows, Estimator(query, statistics))
        return self._outer[sets]


class _Search:
    """One query's search."""

    def __init__(self, asked: Costs) -> None:
        self._asked = asked
        self._known = _Known(asked)
        self._sets = light_sets(asked)

    def best(self) -> PlanEstimate | None:
        """With one join, or with two where that saves enough."""
        one = self._carefully(self._with_one_more(()))
        two = None if one is None else self._carefully(self._with_one_more(one.plan.kept))
        return two if one is not None and two is not None and saves_enough(two, one) else one

    @staticmethod
    def _carefully(tried: _Tried | None) -> PlanEstimate | None:
        return None if tried is None else min(tried[0], tried[1].best(), key=_cost)

    def _with_one_more(self, kept: tuple[KeptJoin, ...]) -> _Tried | None:
        """The best, by a quick look, that keeps these joins and another one where it fits."""
        inside = [alias for join in kept for alias in join.aliases]
        sets = [aliases for aliases in self._sets if not any(alias in inside for alias in aliases)]
        tried = [each for aliases in sets for each in self._tried(kept, aliases, self._sites(aliases)[:1])]
        tried.sort(key=lambda each: _cost(each[0]))
        best = [each[0].plan.kept[-1].aliases for each in tried[:_PLACED]]
        # Where there is no room at the first site there may be at another.
        lacking = [aliases for aliases in sets if aliases not in [each[0].plan.kept[-1].aliases for each in tried]]
        for aliases in (*best, *lacking[:_PLACED]):
            tried += self._tried(kept, aliases, self._sites(aliases)[1:])
        return min(tried, key=lambda each: _cost(each[0]), default=None)

    def _sites(self, aliases: tuple[str, ...]) -> list[str]:
        """Where a join of these streams may be kept, first where most of what it is made of is."""
        space, sites = self._asked.wire, dict.fromkeys(self._asked.query.ref(alias).stream.site for alias in aliases)
        there = dict.fromkeys(sites, 0.0)
        for number in map(space.aliases.index, aliases):
            there[space.sites[number]] += space.estimator.rates[number] * space.sizes.tuple_bytes(number)
        return list(dict.fromkeys((*sorted(there, key=lambda site: -there[site]), self._asked.sink)))

    def _tried(self, kept: tuple[KeptJoin, ...], aliases: tuple[str, ...], sites: list[str]) -> list[_Tried]:
        found = []
        for site in sites:
            joins = (*kept, KeptJoin(_name(self._asked.query, aliases, len(kept)), aliases, site, ()))
            try:
                costs = TreeCosts(self._asked, joins, self._known)
            except PlanError:
                # Its rows would have two columns of one name.
                return []
            if self._fits(joins, costs.rows):
                found.append((costs.quick(), costs))
        return found

    def _fits(self, kept: tuple[KeptJoin, ...], rows: tuple[KeptRows, ...]) -> bool:
        stored = dict(self._asked.statistics.stored)
        for join, each in zip(kept, rows, strict=True):
            stored[join.site] = stored.get(join.site, 0.0) + each.stored_bytes
        return all(stored[join.site] <= self._asked.options.storage_bytes for join in kept)


def _cost(estimate: PlanEstimate) -> float:
    return estimate.cost


def _name(query: JoinQuery, aliases: tuple[str, ...], number: int) -> str:
    """What a kept join is called: after its streams, if that can be a name and is no other one."""
    name = "_".join(aliases)
    if _NAME.fullmatch(name) and name not in query.aliases:
        return name
    return next(name for name in (f"kept{number}{'_' * more}" for more in range(99)) if name not in query.aliases)


def light_sets(asked: Costs) -> list[tuple[str, ...]]:
    """The sets of streams that equalities link whose joins weigh least, the lightest first."""
    space, aliases = asked.wire, asked.query.aliases
    weighed = []
    for joined in _linked_sets(asked.query):
        heads = [number for number in range(len(aliases)) if joined >> number & 1]
        rows = sum(space.estimator.rows(head, joined) for head in heads)
        weighed.append((rows * space.sizes.row_bytes(heads[0], joined)[0], [aliases[number] for number in heads]))
    weighed.sort(key=lambda each: each[0])
    most = max(2, min(SUBSETS_MAX, _SUBSETS_STREAMS // len(aliases)))
    return [tuple(names) for _, names in weighed[:most]]


def _linked_sets(query: JoinQuery) -> list[int]:
    """Sets of two streams and more, but not of all, that equalities link, as bits; the smallest first."""
    found: list[int] = []
    layer = [1 << number for number in range(len(query.aliases))]
    for _ in range(len(query.aliases) - 2):
        layer = list(dict.fromkeys(after for joined in layer for after in _one_more(query, joined)))
        found += layer
        if len(found) >= _WEIGHED_MAX:
            break
    return found[:_WEIGHED_MAX]


def _one_more(query: JoinQuery, joined: int) -> Iterator[int]:
    inside = [alias for number, alias in enumerate(query.aliases) if joined >> number & 1]
    for number, alias in enumerate(query.aliases):
        if not joined >> number & 1 and is_linked(query, alias, inside):
            yield joined | 1 << number
