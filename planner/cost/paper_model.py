"""The cost model of Tran & Lee, Appendix B: execution time per second, of processors and links together.

The formulas (``planner.algorithms.descriptions``) are to the letter, with these readings of what is printed. ``k`` and
``m``, the distinct keys of x tuples out of d values, are ``d (1 - (1 - 1/d)^x)``. ``c_i`` is the cost of inserting a
tuple. The vector of counts is left out, as there. In SM-S2 the pushed full tuples are inside ``S(...)``: printed
outside, bytes would be added to seconds. The constant that SM-S1 ships is an expiry count of 4 bytes. A stream has
one selectivity factor, and each edge its own pair of attributes; several edges at once multiply. Steps within a
site ship nothing. The carry after a step has the rate ``r w rho`` (Sect. 4.1) with ``rho`` the smaller of the two
factors, as one stream's values are a subset of the other's, and its rows are as wide as all tuples in them. Rows
are not brought to a sink, and a copy is paid by each step that uses it: that too is as printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.algorithms.descriptions import PLAIN, PRODUCT_ALGORITHMS, Algorithm
from planner.algorithms.paper_terms import PaperSide, PaperStep, PaperSystem, PaperWindow
from planner.cost.estimates import Move
from planner.cost.wire_model import WireSpace
from planner.estimate.statistics import Statistics


@dataclass(frozen=True, slots=True)
class PaperStream:
    """One stream by the paper's parameters."""

    alias: str
    site: str
    #: r: tuples per second, and T: seconds of window.
    rate: float
    window_s: float
    #: F and P: bytes of a full and of a partial tuple.
    full_bytes: float
    partial_bytes: float
    #: f: one over the number of different join values.
    factor: float


def distinct(values: float, tuples: float) -> float:
    """How many different values ``tuples`` tuples are expected to have, out of ``values`` that are equally likely."""
    if values <= 1:
        return min(1.0, tuples)
    return float(values * (1 - (1 - 1 / values) ** tuples))


class PaperSpace:
    """The plans of a query with the paper's costs."""

    def __init__(
        self,
        streams: Sequence[PaperStream],
        edges: Sequence[tuple[int, int]],
        system: PaperSystem,
        links: Mapping[tuple[str, str], PaperSystem] | None = None,
    ) -> None:
        self.streams = tuple(streams)
        self.aliases = tuple(stream.alias for stream in streams)
        self._system = system
        self._links = links or {}
        self._neighbours = [0] * len(self.streams)
        for left, right in edges:
            self._neighbours[left] |= 1 << right
            self._neighbours[right] |= 1 << left
        self._rates: dict[tuple[int, int], float] = {}
        self._costs: dict[tuple[int, int, int, str], tuple[tuple[Algorithm, float], ...]] = {}

    # -- what a search asks -------------------------------------------------------------------

    def candidates(self, joined: int) -> tuple[int, ...]:
        """The streams that may come next."""
        rest = [number for number in range(len(self.streams)) if not joined >> number & 1]
        linked = tuple(number for number in rest if self._neighbours[number] & joined)
        return linked or tuple(rest)

    def openings(self, head: int) -> tuple[Move, ...]:
        """Walks start where their head is."""
        return (Move(PLAIN, self.streams[head].site, 0.0),)

    def moves(self, head: int, joined: int, site: str, following: int) -> tuple[Move, ...]:
        """All algorithms; those that need no key where no edge helps."""
        owner = self.streams[following].site
        found = [
            Move(algorithm, site if algorithm.at_source else owner, cost)
            for algorithm, cost in self._costs_of(head, joined, site, following)
        ]
        if site == owner:
            cheapest = min(move.cost for move in found)
            return (Move(PLAIN, site, cheapest),)
        return tuple(found)

    def closing(self, head: int, site: str) -> float:
        """The paper leaves rows where they are."""
        return 0.0

    def start_cost(self, head: int, site: str) -> float:
        """To ship a head's batches elsewhere before their walks start: not in the paper, so by its S(x)."""
        stream = self.streams[head]
        if site == stream.site:
            return 0.0
        system = self._links.get((stream.site, site), self._system)
        return system.ship(stream.rate * system.tau_s * stream.full_bytes) / system.tau_s

    # -- the formulas -------------------------------------------------------------------------

    def rate(self, head: int, joined: int) -> float:
        """Rows of the carry in a second."""
        if (head, joined) not in self._rates:
            rate = self.streams[head].rate
            inside = self._inside(joined)
            for number in inside:
                if number != head:
                    rate *= self.streams[number].rate * self.streams[number].window_s
                for other in inside:
                    if other < number and self._neighbours[number] >> other & 1:
                        rate *= min(self.streams[number].factor, self.streams[other].factor)
            self._rates[head, joined] = rate
        return self._rates[head, joined]

    def _inside(self, joined: int) -> list[int]:
        return [number for number in range(len(self.streams)) if joined >> number & 1]

    def _costs_of(self, head: int, joined: int, site: str, following: int) -> tuple[tuple[Algorithm, float], ...]:
        key = (head, joined, following, site)
        if key not in self._costs:
            system = self._links.get((site, self.streams[following].site), self._system)
            remote = site != self.streams[following].site
            self._costs[key] = tuple(self._formulas(head, joined, following, system, remote))
        return self._costs[key]

    def _formulas(
        self, head: int, joined: int, following: int, system: PaperSystem, remote: bool
    ) -> list[tuple[Algorithm, float]]:
        partners = self._inside(joined & self._neighbours[following])
        one, two = self._sides(head, joined, following, partners, system)
        stream = self.streams[following]
        to_carry = to_stream = 1.0
        for number in partners:
            partner = self.streams[number]
            to_stream *= min(1.0, partner.factor / stream.factor)
            to_carry *= min(1.0, stream.factor / partner.factor)
        step = PaperStep(one, two, to_stream, to_carry, system, remote)
        return [(each, each.spec.paper(step)) for each in (tuple(Algorithm) if partners else PRODUCT_ALGORITHMS)]

    def _sides(
        self, head: int, joined: int, following: int, partners: Sequence[int], system: PaperSystem
    ) -> tuple[PaperSide, PaperWindow]:
        stream, tau = self.streams[following], system.tau_s
        rate = self.rate(head, joined)
        carry_values = stream_values = 1.0
        for number in partners:
            carry_values *= 1 / self.streams[number].factor
            stream_values *= 1 / stream.factor
        kept = stream.rate * stream.window_s
        one = PaperSide(
            rate=rate,
            buffer=rate * tau,
            buffer_keys=distinct(carry_values, rate * tau),
            full_bytes=sum(self.streams[number].full_bytes for number in self._inside(joined)),
            partial_bytes=sum(self.streams[number].partial_bytes for number in partners),
        )
        two = PaperWindow(
            rate=stream.rate,
            buffer=stream.rate * tau,
            buffer_keys=distinct(stream_values, stream.rate * tau),
            full_bytes=stream.full_bytes,
            partial_bytes=stream.partial_bytes * max(1, len(partners)),
            window=kept,
            window_keys=distinct(stream_values, kept),
        )
        return one, two


def paper_space(wire: WireSpace, statistics: Statistics) -> PaperSpace:
    """The paper's parameters of a query, from what was measured of its streams and links."""
    estimator, streams = wire.estimator, []
    for number, ref in enumerate(wire.query.streams):
        columns = [edge.column_of(ref.alias).column for edge in wire.query.edges if edge.joins(ref.alias, wire.aliases)]
        alive = [estimator.keys(number, (name,)).alive for name in dict.fromkeys(columns)]
        values = sum(alive) / len(alive) if alive else 1.0
        full = wire.sizes.tuple_bytes(number)
        streams.append(
            PaperStream(
                ref.alias,
                ref.stream.site,
                estimator.rates[number],
                estimator.windows_s[number],
                full,
                full / max(1, len(wire.query.needed_columns(ref.alias))),
                1 / max(1.0, values),
            )
        )
    edges = {
        (wire.aliases.index(edge.left.alias), wire.aliases.index(edge.right.alias)): None for edge in wire.query.edges
    }
    tau_s = statistics.tau_us / 1e6
    places = dict.fromkeys((*wire.sites, wire.sink))
    links = {
        (one, other): PaperSystem(tau_s, wire.links.delay_s(one, other), wire.links.bandwidth(one, other))
        for one in places
        for other in places
        if one != other
    }
    return PaperSpace(streams, tuple(edges), PaperSystem(tau_s), links)
