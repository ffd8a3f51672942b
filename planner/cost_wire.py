"""Our cost model: what Narrows really sends for a plan, by link and kind; and the delay of its walks.

Steps within a site cost nothing but a little processor time. A replica is paid once, whoever uses it. Walks may
start at their head's site or at the sink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.algorithms import LOCAL_CPU_S, PLAIN, PRODUCT_ALGORITHMS, Algorithm, CopyKind
from planner.constants import EVENT_TIME
from planner.copies import RunningCopy, can_serve, copy_of, looseness, missing_shares, serving
from planner.cost import Flow, Move, Objective, ReplicaKey
from planner.estimate import Estimator
from planner.graph import is_linked, link_of, needed_after
from planner.kinds import Kind
from planner.model import ColumnRef, Expr, JoinQuery, RowsWindow, columns_of
from planner.stats import LinkStats, Statistics
from planner.step_stats import NO_KEYS, JoinStats
from planner.traffic import (
    ENDING_BYTES,
    FRAMING_BYTES,
    MESSAGE_BYTES,
    CopyLoad,
    Parts,
    Sizes,
    StepLoad,
    Traffic,
    in_messages,
    repeated_bytes,
)

#: When a round trip or a bandwidth is not known.
LATENCY_S = 0.025
BANDWIDTH = 12.5e6
#: Bytes of a computed output column, of which nothing was measured.
COMPUTED_BYTES = 3.0
MONTH_S = 30 * 86_400
#: Keys travel alone and sorted, which compresses better than a column of rows.
KEY_SHARE = 0.8

#: More than what delays and processors can count.
_NEARLY_EQUAL_BYTES = 1.0
#: With more streams there are more moves than can be remembered.
_REMEMBERED_STREAMS_MAX = 9

#: What breaks ties: a second of delay, and a second of processor time, in bytes.
_DELAY_BYTES = 1e-3
_CPU_BYTES = 1e-3

#: Asked for at every move.
_AT_SOURCE = {algorithm: algorithm.at_source for algorithm in Algorithm}
_CPU_S = {algorithm: algorithm.spec.cpu_s for algorithm in Algorithm}


class Links:
    """What a byte, and a wait, on the way from one site to another counts."""

    def __init__(self, statistics: Statistics, objective: Objective) -> None:
        self._links = statistics.links
        self._objective = objective
        prices = [link.price_per_gb for link in self._links.values() if link.price_per_gb is not None]
        self.priced = bool(prices)
        self._mean_price = sum(prices) / len(prices) if prices else 0.0
        self._weights: dict[tuple[str, str], float] = {}

        self._delays: dict[tuple[str, str], float] = {}
        self._bandwidths: dict[tuple[str, str], float] = {}

    @property
    def even(self) -> bool:
        """Whether a byte counts the same wherever it goes."""
        return self._objective is Objective.BYTES and not self._mean_price

    def _stats(self, source: str, target: str) -> LinkStats:
        return self._links.get((source, target)) or self._links.get((target, source)) or LinkStats()

    def delay_s(self, source: str, target: str) -> float:
        """One way."""
        found = self._delays.get((source, target))
        if found is None:
            rtt_us = self._stats(source, target).rtt_us
            known = LATENCY_S if rtt_us is None else rtt_us / 2e6
            found = self._delays[source, target] = 0.0 if source == target else known
        return found

    def bandwidth(self, source: str, target: str) -> float:
        """Bytes in a second."""
        found = self._bandwidths.get((source, target))
        if found is None:
            found = self._bandwidths[source, target] = self._stats(source, target).bytes_per_s or BANDWIDTH
        return found

    def price(self, source: str, target: str) -> float | None:
        """Of a gigabyte, if there is one."""
        return self._stats(source, target).price_per_gb

    def weight(self, source: str, target: str) -> float:
        """What a byte counts; nothing within a site."""
        if source == target:
            return 0.0
        if (source, target) not in self._weights:
            self._weights[source, target] = self._weight(self.price(source, target))
        return self._weights[source, target]

    def _weight(self, price: float | None) -> float:
        match self._objective:
            case Objective.TIME:
                return 1e-9
            case Objective.MONEY:
                return (price or 0.0) * MONTH_S / 1e9 + 1e-9
            case Objective.BYTES:
                if not self._mean_price:
                    return 1.0
                return (self._mean_price if price is None else price) / self._mean_price

    @property
    def delay_weight(self) -> float:
        """What a second of delay counts."""
        return 1.0 if self._objective is Objective.TIME else _DELAY_BYTES

    @property
    def cpu_weight(self) -> float:
        """What a second of processor time counts."""
        return 1e-3 if self._objective is Objective.TIME else _CPU_BYTES


@dataclass(frozen=True, slots=True)
class StepBytes:
    """Everything about a step that does not depend on where the carry is."""

    load: StepLoad
    traffic: dict[Algorithm, Traffic]
    keys: tuple[str, ...]
    #: The algorithms that can be the cheapest wherever the carry is and whoever pays for replicas.
    worth: tuple[Algorithm, ...]

    @property
    def stats(self) -> JoinStats:
        """How many rows and keys it has."""
        return self.load.stats


class WireSpace:
    """The plans of a query with our costs."""

    def __init__(self, query: JoinQuery, sink: str, statistics: Statistics, objective: Objective) -> None:
        self.query = query
        self.sink = sink
        self.aliases = query.aliases
        self.sites = tuple(ref.stream.site for ref in query.streams)
        self.estimator = Estimator(query, statistics)
        self.links = Links(statistics, objective)
        self._statistics = statistics
        self._candidates: dict[int, tuple[int, ...]] = {}
        self._row_bytes: dict[int, tuple[float, dict[int, float]]] = {}
        self._steps: dict[tuple[int, int, int], StepBytes] = {}
        self._moves: dict[tuple[int, int, str, int], tuple[Move, ...]] = {}
        self._replica_costs: dict[ReplicaKey, float] = {}
        self._links_of: dict[tuple[int, int], tuple[tuple[str, ...], float]] = {}
        self._tuple_bytes = [self._tuple_bytes_of(number) for number in range(len(self.aliases))]
        self._replica_flows: dict[ReplicaKey, tuple[Flow, ...]] = {}
        self._running: dict[ReplicaKey, RunningCopy | None] = {}

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
        """At the head's site, or at the sink with the full copy of its stream there."""
        own = Move(PLAIN, self.sites[head], 0.0)
        if self.sink == self.sites[head]:
            return (own,)
        replica = ReplicaKey(CopyKind.FULL, self.aliases[head], (), self.sink)
        delay = self.links.delay_s(self.sites[head], self.sink) * self.links.delay_weight
        return (own, Move(PLAIN, self.sink, delay, replica, self.replica_cost(replica)))

    def moves(self, head: int, joined: int, site: str, following: int) -> tuple[Move, ...]:
        """The algorithms that can do this step, without those that another one beats whoever pays for its replica."""
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
        return self.cost_of(self.result_flows(head, site)) + delay

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
            replica = self.replica_of(algorithm, following, step.keys, site)
            traffic = self.traffic_of(step, algorithm, replica)
            cost = traffic.forward_bytes * there + traffic.backward_bytes * back
            cost += self.step_delay_s(step.stats, traffic, site, owner) * links.delay_weight
            cost += step.stats.carry.rows * _CPU_S[algorithm] * links.cpu_weight
            paid = 0.0 if replica is None else self.replica_cost(replica)
            found.append(Move(algorithm, site if _AT_SOURCE[algorithm] else owner, cost, replica, paid))
        return tuple(found)

    # -- steps --------------------------------------------------------------------------------

    def step_bytes(self, head: int, joined: int, following: int) -> StepBytes:
        """What each algorithm would send for this step."""
        key = (head, joined, following)
        if key not in self._steps:
            self._steps[key] = self._step_bytes_of(head, joined, following)
        return self._steps[key]

    def _step_bytes_of(self, head: int, joined: int, following: int) -> StepBytes:
        stats = self.estimator.join(head, joined, following)
        keys, key_bytes = self._link(joined, following)
        row, repeated = self.row_bytes(head, joined)
        measured = [self._rows_of_batch(number) for number in (head, following)]
        sizes = Sizes(row, key_bytes, self.tuple_bytes(following), repeated, *measured)
        algorithms = tuple(Algorithm) if keys else PRODUCT_ALGORITHMS
        estimator = self.estimator
        window_keys = estimator.kept_keys(following, keys) if keys else NO_KEYS
        load = StepLoad(stats, sizes, estimator.rates[following], window_keys, estimator.batches_s[head])
        traffic = {algorithm: algorithm.spec.traffic(load) for algorithm in algorithms}
        return StepBytes(load, traffic, keys, self._worth(traffic, following, keys))

    def traffic_of(self, step: StepBytes, algorithm: Algorithm, replica: ReplicaKey | None) -> Traffic:
        """What a step sends that uses this replica: more if one runs already that has a wider filter."""
        copy = None if replica is None else self.running(replica)
        if replica is None or copy is None:
            return step.traffic[algorithm]
        times = looseness(copy, self._needed(replica))
        if times <= 1:
            return step.traffic[algorithm]
        return algorithm.spec.traffic(replace(step.load, stats=step.stats.loosened(times)))

    def _worth(self, traffic: dict[Algorithm, Traffic], following: int, keys: tuple[str, ...]) -> tuple[Algorithm, ...]:
        """Where every byte counts the same, bytes decide, and waits only between what is nearly equal.

        Where copies run already, what a step costs depends on where the carry is.
        """
        if not self.links.even or self._statistics.copies:
            return tuple(traffic)
        own = {algorithm: each.forward_bytes + each.backward_bytes for algorithm, each in traffic.items()}
        paid = dict(own)
        for algorithm in traffic:
            replica = self.replica_of(algorithm, following, keys, "")
            if replica is not None:
                paid[algorithm] += sum(size for _, size in self._sync(replica, following))
        return tuple(
            algorithm
            for algorithm in traffic
            if not any(
                _AT_SOURCE[other] == _AT_SOURCE[algorithm] and paid[other] + _NEARLY_EQUAL_BYTES < own[algorithm]
                for other in traffic
            )
        )

    def _link(self, joined: int, following: int) -> tuple[tuple[str, ...], float]:
        """The columns by which a stream is joined, and the bytes of such a key."""
        if (joined, following) not in self._links_of:
            link = link_of(self.query, self.aliases[following], self._inside(joined))
            size = sum(KEY_SHARE * self._column_bytes(column) for column in link.carry_keys)
            self._links_of[joined, following] = (tuple(column.column for column in link.window_keys), size)
        return self._links_of[joined, following]

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

    # -- replicas -----------------------------------------------------------------------------

    def replica_of(self, algorithm: Algorithm, number: int, keys: tuple[str, ...], holder: str) -> ReplicaKey | None:
        """The replica that a step between sites uses, if any."""
        kind = algorithm.spec.copy
        if kind is None:
            return None
        return ReplicaKey(kind, self.aliases[number], keys if kind.spec.keyed else (), holder)

    def running(self, replica: ReplicaKey) -> RunningCopy | None:
        """The copy that runs already and serves as this replica, if any."""
        if not self._statistics.copies:
            return None
        if replica not in self._running:
            self._running[replica] = serving(self._statistics.copies, self._needed(replica))
        return self._running[replica]

    def _needed(self, replica: ReplicaKey) -> RunningCopy:
        return copy_of(self.query, replica.kind, replica.alias, replica.keys, replica.holder)

    def replica_flows(self, replica: ReplicaKey) -> tuple[Flow, ...]:
        """What is sent to keep a replica, beside what steps ask for: nothing more if it runs already."""
        if replica not in self._replica_flows:
            number = self.aliases.index(replica.alias)
            parts = self._sync(replica, number) if self.running(replica) is None else ()
            flows = [Flow(self.sites[number], replica.holder, kind, size) for kind, size in parts if size > 0]
            self._replica_flows[replica] = tuple(flows)
        return self._replica_flows[replica]

    def _sync(self, replica: ReplicaKey, number: int) -> Parts:
        """What it costs to keep a replica; to let a copy grow that runs, only what nobody needed before."""
        estimator, alias = self.estimator, self.aliases[number]
        load = CopyLoad(
            estimator.rates[number],
            estimator.kept_keys(number, replica.keys) if replica.keys else NO_KEYS,
            estimator.batches_s[number],
            self.tuple_bytes(number),
            sum(KEY_SHARE * self._column_bytes(ColumnRef(alias, name)) for name in replica.keys),
            self.times_bytes(replica),
        )
        sync = replica.kind.spec.sync
        if not self._grows(replica):
            return sync(load)
        more, nothing = (dict(sync(replace(load, tuple_bytes=size))) for size in (self._new_bytes(replica), 0.0))
        return tuple((kind, size - nothing[kind]) for kind, size in more.items())

    def _grows(self, replica: ReplicaKey) -> bool:
        """Whether a copy runs that will be sent what is needed for this replica beside what others need."""
        if not replica.kind.spec.grows or not self._statistics.copies:
            return False
        needed = self._needed(replica)
        return any(can_serve(copy, needed) for copy in self._statistics.copies)

    def _new_bytes(self, replica: ReplicaKey) -> float:
        """Of a tuple: those that nobody needed before, and a bit that says whether it passes the filter."""
        needed = self._needed(replica)
        bit = 0.0 if needed.filter is None else 1 / 8
        missing = missing_shares(self._statistics.copies, needed)
        sizes = {name: self._column_bytes(ColumnRef(replica.alias, name or EVENT_TIME)) for name in missing}
        return bit + sum(share * sizes[name] for name, share in missing.items())

    def times_bytes(self, replica: ReplicaKey) -> float:
        """What the holder of a copy of tuples is sent of each tuple: its event time, if the window counts tuples."""
        number = self.aliases.index(replica.alias)
        counted = isinstance(self.query.streams[number].window, RowsWindow)
        if not counted or not replica.kind.spec.times:
            return 0.0
        return self._column_bytes(ColumnRef(replica.alias, EVENT_TIME))

    def replica_cost(self, replica: ReplicaKey) -> float:
        """What keeping it counts."""
        if replica not in self._replica_costs:
            self._replica_costs[replica] = self.cost_of(self.replica_flows(replica))
        return self._replica_costs[replica]

    # -- rows ---------------------------------------------------------------------------------

    def result_flows(self, head: int, site: str) -> tuple[Flow, ...]:
        """A head's rows, and news of batches without: taken to end at the same site, as far as a search knows."""
        if site == self.sink:
            return ()
        carry = self.estimator.carry(head, self.estimator.all_streams)
        empty = max(0.0, 1 / self.estimator.batches_s[head] - carry.batches)
        return (*self.row_flows(head, site), Flow(site, self.sink, Kind.CONTROL, empty * ENDING_BYTES))

    def row_flows(self, head: int, site: str) -> tuple[Flow, ...]:
        """A head's rows on their way to the sink: a message for each batch that has any."""
        if site == self.sink:
            return ()
        carry = self.estimator.carry(head, self.estimator.all_streams)
        size, repeated = self._output_bytes(head)
        rows = in_messages(size, carry.rows, carry.batches, self._rows_of_batch(head))
        rows += carry.batches * MESSAGE_BYTES - repeated_bytes(carry.rows, carry.heads, repeated)
        return (
            Flow(site, self.sink, Kind.RESULTS, rows),
            Flow(site, self.sink, Kind.FRAMING, carry.batches * FRAMING_BYTES),
        )

    def _output_bytes(self, head: int) -> tuple[float, float]:
        """Of a result row; and of those of its columns that are the head's alone."""
        size = repeated = 0.0
        for output in self.query.outputs:
            own = self._expr_bytes(output.source)
            size += own
            if all(column.alias == self.aliases[head] for column in columns_of(output.source)):
                repeated += own
        return size, repeated

    def _expr_bytes(self, expr: Expr) -> float:
        if isinstance(expr, ColumnRef):
            return self._column_bytes(expr)
        return COMPUTED_BYTES if columns_of(expr) else 0.0

    def row_bytes(self, head: int, joined: int) -> tuple[float, float]:
        """Of a row of the carry, with the head's event time; and of those of its columns that are the head's."""
        if joined not in self._row_bytes:
            inside = self._inside(joined)
            if len(inside) == 1:
                columns = [ColumnRef(inside[0], name) for name in self.query.needed_columns(inside[0])]
            else:
                columns = list(needed_after(self.query, inside))
            parts = dict.fromkeys(range(len(self.aliases)), 0.0)
            for column in columns:
                parts[self.aliases.index(column.alias)] += self._column_bytes(column)
            self._row_bytes[joined] = (sum(parts.values()), parts)
        total, parts = self._row_bytes[joined]
        time = self._column_bytes(ColumnRef(self.aliases[head], EVENT_TIME))
        return total + time, parts[head] + time

    def tuple_bytes(self, number: int) -> float:
        """Of a tuple of a stream as the query sees it."""
        return self._tuple_bytes[number]

    def _tuple_bytes_of(self, number: int) -> float:
        alias = self.aliases[number]
        names = (EVENT_TIME, *self.query.needed_columns(alias))
        return sum(self._column_bytes(ColumnRef(alias, name)) for name in names)

    def _rows_of_batch(self, number: int) -> float:
        return self._statistics.profiles[self.aliases[number]].batch_rows

    def _column_bytes(self, column: ColumnRef) -> float:
        return self._statistics.profiles[column.alias].column_bytes.get(column.column, COMPUTED_BYTES)

    # -- sums ---------------------------------------------------------------------------------

    def cost_of(self, flows: tuple[Flow, ...]) -> float:
        """What these bytes count."""
        return sum(flow.bytes_per_s * self.links.weight(flow.source, flow.target) for flow in flows)

    def _inside(self, joined: int) -> tuple[str, ...]:
        return tuple(alias for number, alias in enumerate(self.aliases) if joined >> number & 1)
