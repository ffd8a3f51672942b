"""What a byte, and a wait, on each link counts, by what is to be small."""

from __future__ import annotations

from planner.cost.estimates import Objective
from planner.estimate.statistics import LinkStats, Statistics

#: When a round trip or a bandwidth is not known.
_LATENCY_S = 0.025
_BYTES_PER_S = 12.5e6
MONTH_S = 30 * 86_400
#: What breaks ties between plans of as many bytes: what a second of delay, and of processor time, counts in bytes.
_DELAY_BYTES = 1e-3
_CPU_BYTES = 1e-3
#: Where some links have a price: a byte on a link that costs nothing counts this share of a byte on the average one. So
#: it is cheap but not free: bytes there outweigh delays still.
_FREE_SHARE = 1e-3
#: What breaks ties between plans that cost as much money: what a byte counts in money a month.
_BYTE_MONEY = 1e-9
#: What breaks ties between plans of as much delay: what a byte, and a second of processor time, counts in seconds.
_BYTE_S = 1e-9
_CPU_S = 1e-3

#: What a second of delay, and of processor time, counts.
_SECONDS = {
    Objective.BYTES: (_DELAY_BYTES, _CPU_BYTES),
    Objective.TIME: (1.0, _CPU_S),
    Objective.MONEY: (_DELAY_BYTES * _BYTE_MONEY, _CPU_BYTES * _BYTE_MONEY),
}


class Links:
    """What a byte, and a wait, on the way from one site to another counts."""

    def __init__(self, statistics: Statistics, objective: Objective) -> None:
        self._links = statistics.links
        self._objective = objective
        self._strained = statistics.strained
        #: What a second of delay, and of processor time, counts.
        self.delay_weight, self.cpu_weight = _SECONDS[objective]
        prices = [link.price_per_gb for link in self._links.values() if link.price_per_gb is not None]
        self.priced = bool(prices)
        self._mean_price = sum(prices) / len(prices) if prices else 0.0
        self._weights: dict[tuple[str, str], float] = {}
        self._delays: dict[tuple[str, str], float] = {}
        self._bandwidths: dict[tuple[str, str], float] = {}

    @property
    def even(self) -> bool:
        """Whether a byte counts the same wherever it goes."""
        return self._objective is Objective.BYTES and not self._mean_price and not self._strained

    def _stats(self, source: str, target: str) -> LinkStats:
        return self._links.get((source, target)) or self._links.get((target, source)) or LinkStats()

    def delay_s(self, source: str, target: str) -> float:
        """One way."""
        found = self._delays.get((source, target))
        if found is None:
            rtt_us = self._stats(source, target).rtt_us
            known = _LATENCY_S if rtt_us is None else rtt_us / 2e6
            found = self._delays[source, target] = 0.0 if source == target else known
        return found

    def bandwidth(self, source: str, target: str) -> float:
        """Bytes in a second."""
        found = self._bandwidths.get((source, target))
        if found is None:
            found = self._bandwidths[source, target] = self._stats(source, target).bytes_per_s or _BYTES_PER_S
        return found

    def price(self, source: str, target: str) -> float | None:
        """Of a gigabyte, if there is one."""
        return self._stats(source, target).price_per_gb

    def weight(self, source: str, target: str) -> float:
        """What a byte counts; nothing within a site."""
        if source == target:
            return 0.0
        if (source, target) not in self._weights:
            strain = self._strained.get((source, target), 1.0)
            self._weights[source, target] = strain * self._weight(self.price(source, target))
        return self._weights[source, target]

    def _weight(self, price: float | None) -> float:
        match self._objective:
            case Objective.TIME:
                return _BYTE_S
            case Objective.MONEY:
                return (price or 0.0) * MONTH_S / 1e9 + _BYTE_MONEY
            case Objective.BYTES:
                if not self._mean_price or price is None:
                    return 1.0
                return _FREE_SHARE + (1 - _FREE_SHARE) * price / self._mean_price
