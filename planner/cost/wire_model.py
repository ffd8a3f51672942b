"""Our cost model: what Narrows really sends for a plan, by link and kind; and the delay of its walks.

Steps within a site cost nothing but a little processor time. A copy is paid once, whoever uses it. A search lets walks
start at their head's site or at the sink; a plan that is given may start them at any site that it has to do with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.algorithms.descriptions import LOCAL_CPU_S, PLAIN, PRODUCT_ALGORITHMS, Algorithm, CopyKind
from planner.algorithms.framing import FRAMING_BYTES
from planner.algorithms.kinds import Kind
from planner.algorithms.step_stats import NO_KEYS, JoinStats
from planner.algorithms.traffic import (
    ENDING_BYTES,
    MESSAGE_BYTES,
    Sizes,
    StepLoad,
    Traffic,
    in_messages,
    repeated_bytes,
)
from planner.cost.copy_syncs import CopySyncs
from planner.cost.estimates import CopyKey, Flow, Move, Objective
from planner.cost.link_weights import Links
from planner.cost.row_sizes import RowSizes
from planner.estimate.estimator import Estimator
from planner.estimate.statistics import Statistics
from planner.model.graph import is_linked, link_of
from planner.model.query import JoinQuery

#: More than what delays and processors can count.
_NEARLY_EQUAL_BYTES = 1.0
#: With more streams there are more moves than can be remembered.
_REMEMBERED_STREAMS_MAX = 9

#: Asked for at every move.
_AT_SOURCE = {algorithm: algorithm.at_source for algorithm in Algorithm}
_CPU_S = {algorithm: algorithm.spec.cpu_s for algorithm in Algorithm}


@dataclass(frozen=True, slots=True)
class StepBytes:
    """Everything about a step that does not depend on where the carry is."""

    load: StepLoad
    traffic: dict[Algorithm, Traffic]
    keys: tuple[str, ...]
    #: The algorithms that can be the cheapest wherever the carry is and whoever pays for copies.
    worth: tuple[Algorithm, ...]

    @property
    def stats(self) -> JoinStats:
        """How many rows and keys it has."""
        return self.load.stats


class WireSpace:
    """The plans of a query with our costs."""

    def __init__(
        self,
        query: JoinQuery,
        sink: str,
        statistics: Statistics,
        objective: Objective,
        estimator: Estimator | None = None,
    ) -> None:
        """``estimator``: what is expected of the query, if that is known already: it does not depend on sites."""
        self.query = query
        self.sink = sink
        self.aliases = query.aliases
        self.sites = tuple(ref.stream.site for ref in query.streams)
        self.estimator = estimator or Estimator(query, statistics)
        self.links = Links(statistics, objective)
        self.sizes = RowSizes(query, statistics)
        self.syncs = CopySyncs(query, statistics.copies, self.estimator, self.sizes)
        self._candidates: dict[int, tuple[int, ...]] = {}
        self._steps: dict[tuple[int, int, int], StepBytes] = {}
        self._moves: dict[tuple[int, int, str, int], tuple[Move, ...]] = {}
        self._copy_costs: dict[CopyKey, float] = {}
        self._keys: dict[tuple[int, int], tuple[tuple[str, ...], float]] = {}

    # -- what a search asks -------------------------------------------------------------------

    def candidates(self, joined: int) -> tuple[int, ...]:
        """The streams that may come next: those that an equality links, or all that are left if there is none."""
        if joined not in self._candidates:
            rest = [number for number in range(len(self.aliases)) if not joined >> number & 1]
            inside = self._inside(joined)
            linked = tuple(number for number in rest if is_linked(self.query, self.aliases[number], inside))
            self._candidates[joined] = linked or tuple(rest)
        return self._candidates[joined]

    def openings(self, head: int) -> tuple[Move, ...]:
        """At the head's site, or at the sink."""
        return tuple(self.opening(head, site) for site in dict.fromkeys((self.sites[head], self.sink)))

    def opening(self, head: int, site: str) -> Move:
        """To start a head's walks at a site: elsewhere than at its own, with the full copy of its stream there."""
        if site == self.sites[head]:
            return Move(PLAIN, site, 0.0)
        copy = CopyKey(CopyKind.FULL, self.aliases[head], (), site)
        delay = self.links.delay_s(self.sites[head], site) * self.links.delay_weight
        return Move(PLAIN, site, delay, copy, self.copy_cost(copy))

    def moves(self, head: int, joined: int, site: str, following: int) -> tuple[Move, ...]:
        """The algorithms that can do this step, without those that another one beats whoever pays for its copy."""
        key = (head, joined, site, following)
        found = self._moves.get(key)
        if found is None:
            step = self.step_bytes(head, joined, following)
            found = self._moves_by(step, step.worth, site, following)
            if len(self.aliases) <= _REMEMBERED_STREAMS_MAX:
                self._moves[key] = found
        return found

    def every_move(self, head: int, joined: int, site: str, following: int) -> tuple[Move, ...]:
        """All algorithms that can do this step."""
        step = self.step_bytes(head, joined, following)
        return self._moves_by(step, tuple(step.traffic), site, following)

    def closing(self, head: int, site: str) -> float:
        """The rows' way to the sink."""
        if site == self.sink:
            return 0.0
        delay = self.links.delay_s(site, self.sink) * self.links.delay_weight
        return self.cost_of(self._result_flows(head, site)) + delay

    def _moves_by(
        self, step: StepBytes, algorithms: tuple[Algorithm, ...], site: str, following: int
    ) -> tuple[Move, ...]:
        owner, links = self.sites[following], self.links
        if site == owner:
            cpu = step.stats.carry.rows * LOCAL_CPU_S * links.cpu_weight
            return (Move(PLAIN, site, cpu),)
        there, back = links.weight(site, owner), links.weight(owner, site)
        found = []
        for algorithm in algorithms:
            copy = self.copy_key(algorithm, following, step.keys, site)
            traffic = self.traffic_of(step, algorithm, copy)
            cost = traffic.forward_bytes * there + traffic.backward_bytes * back
            cost += self.step_delay_s(step.stats, traffic, site, owner) * links.delay_weight
            cost += step.stats.carry.rows * _CPU_S[algorithm] * links.cpu_weight
            paid = 0.0 if copy is None else self.copy_cost(copy)
            found.append(Move(algorithm, site if _AT_SOURCE[algorithm] else owner, cost, copy, paid))
        return tuple(found)

    # -- steps --------------------------------------------------------------------------------

    def step_bytes(self, head: int, joined: int, following: int) -> StepBytes:
        """What each algorithm would send for this step."""
        key = (head, joined, following)
        if key not in self._steps:
            self._steps[key] = self._step_bytes_of(head, joined, following)
        return self._steps[key]

    def _step_bytes_of(self, head: int, joined: int, following: int) -> StepBytes:
        estimator, stats = self.estimator, self.estimator.join(head, joined, following)
        keys, key_bytes = self._keys_of(joined, following)
        row_bytes, head_bytes = self.sizes.row_bytes(head, joined)
        sizes = Sizes(
            row_bytes=row_bytes,
            key_bytes=key_bytes,
            tuple_bytes=self.sizes.tuple_bytes(following),
            repeated_bytes=head_bytes,
            row_batch=self.sizes.batch_rows(head),
            tuple_batch=self.sizes.batch_rows(following),
        )
        window_keys = estimator.kept_keys(following, keys) if keys else NO_KEYS
        load = StepLoad(stats, sizes, estimator.rates[following], window_keys, estimator.batches_s[head])
        algorithms = tuple(Algorithm) if keys else PRODUCT_ALGORITHMS
        traffic = {algorithm: algorithm.spec.traffic(load) for algorithm in algorithms}
        return StepBytes(load, traffic, keys, self._worth(traffic, following, keys))

    def traffic_of(self, step: StepBytes, algorithm: Algorithm, copy: CopyKey | None) -> Traffic:
        """What a step sends that uses this copy: more if one runs already that has a wider filter."""
        times = 1.0 if copy is None else self.syncs.looseness(copy)
        if times <= 1:
            return step.traffic[algorithm]
        return algorithm.spec.traffic(replace(step.load, stats=step.stats.loosened(times)))

    def _worth(self, traffic: dict[Algorithm, Traffic], following: int, keys: tuple[str, ...]) -> tuple[Algorithm, ...]:
        """Where every byte counts the same, bytes decide, and waits only between what is nearly equal.

        Where copies run already, what a step costs depends on where the carry is.
        """
        if not self.links.even or not self.syncs.none_run:
            return tuple(traffic)
        own = {algorithm: each.forward_bytes + each.backward_bytes for algorithm, each in traffic.items()}
        paid = dict(own)
        for algorithm in traffic:
            copy = self.copy_key(algorithm, following, keys, "")
            if copy is not None:
                paid[algorithm] += sum(size for _, size in self.syncs.sync(copy))
        return tuple(
            algorithm
            for algorithm in traffic
            if not any(
                _AT_SOURCE[other] == _AT_SOURCE[algorithm] and paid[other] + _NEARLY_EQUAL_BYTES < own[algorithm]
                for other in traffic
            )
        )

    def _keys_of(self, joined: int, following: int) -> tuple[tuple[str, ...], float]:
        """The columns by which a stream is joined, and the bytes of such a key."""
        if (joined, following) not in self._keys:
            link = link_of(self.query, self.aliases[following], self._inside(joined))
            names = tuple(column.column for column in link.window_keys)
            self._keys[joined, following] = (names, self.sizes.key_bytes(link.carry_keys))
        return self._keys[joined, following]

    def step_delay_s(self, stats: JoinStats, traffic: Traffic, site: str, owner: str) -> float:
        """How long a batch waits for this step: messages one after the other, and their bytes."""
        links, batches = self.links, max(1e-9, stats.carry.batches)
        there = traffic.hops_forward * links.delay_s(site, owner)
        back = traffic.hops_backward * links.delay_s(owner, site)
        sending = traffic.forward_bytes / batches / links.bandwidth(site, owner)
        return there + back + sending + traffic.backward_bytes / batches / links.bandwidth(owner, site)

    def step_flows(self, traffic: Traffic, site: str, owner: str) -> tuple[Flow, ...]:
        """A step's bytes with their ways."""
        if site == owner:
            return ()
        there = [Flow(site, owner, kind, size) for kind, size in traffic.forward if size > 0]
        back = [Flow(owner, site, kind, size) for kind, size in traffic.backward if size > 0]
        return (*there, *back)

    # -- copies -------------------------------------------------------------------------------

    def copy_key(self, algorithm: Algorithm, number: int, keys: tuple[str, ...], holder: str) -> CopyKey | None:
        """The copy that a step between sites uses, if any."""
        kind = algorithm.spec.copy
        if kind is None:
            return None
        return CopyKey(kind, self.aliases[number], keys if kind.spec.keyed else (), holder)

    def copy_cost(self, copy: CopyKey) -> float:
        """What keeping it counts."""
        if copy not in self._copy_costs:
            self._copy_costs[copy] = self.cost_of(self.syncs.flows(copy))
        return self._copy_costs[copy]

    # -- rows ---------------------------------------------------------------------------------

    def _result_flows(self, head: int, site: str) -> tuple[Flow, ...]:
        """A head's rows, and news of batches without: taken to end at the same site, as far as a search knows."""
        carry = self.estimator.carry(head, self.estimator.all_streams)
        empty = max(0.0, 1 / self.estimator.batches_s[head] - carry.batches)
        return (*self.row_flows(head, site), Flow(site, self.sink, Kind.RESULTS, empty * ENDING_BYTES))

    def row_flows(self, head: int, site: str) -> tuple[Flow, ...]:
        """A head's rows on their way to the sink: a message for each batch that has any."""
        if site == self.sink:
            return ()
        carry = self.estimator.carry(head, self.estimator.all_streams)
        size, repeated = self.sizes.output_bytes(head)
        rows = in_messages(size, carry.rows, carry.batches, self.sizes.batch_rows(head))
        rows += carry.batches * MESSAGE_BYTES - repeated_bytes(carry.rows, carry.heads, repeated)
        return (
            Flow(site, self.sink, Kind.RESULTS, rows),
            Flow(site, self.sink, Kind.FRAMING, carry.batches * FRAMING_BYTES),
        )

    # -- sums ---------------------------------------------------------------------------------

    def cost_of(self, flows: tuple[Flow, ...]) -> float:
        """What these bytes count."""
        return sum(flow.bytes_per_s * self.links.weight(flow.source, flow.target) for flow in flows)

    def _inside(self, joined: int) -> tuple[str, ...]:
        return tuple(alias for number, alias in enumerate(self.aliases) if joined >> number & 1)
