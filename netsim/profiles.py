"""What a wide area network does to what is sent, as values: for Toxiproxy and for the simulator alike.

Every direction of every pair of sites has a shape of its own. Latency is one way: a round trip takes both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of a link."""

    latency_ms: int = 0
    #: A delay is latency plus or minus up to this much.
    jitter_ms: int = 0
    #: None: as fast as it goes.
    bytes_per_s: float | None = None

    def __str__(self) -> str:
        rate = "unlimited" if self.bytes_per_s is None else f"{self.bytes_per_s * 8 / 1000:,.0f} kbit/s"
        spread = f" +-{self.jitter_ms}" if self.jitter_ms else ""
        return f"{self.latency_ms}{spread} ms, {rate}"


@dataclass(frozen=True, slots=True)
class Change:
    """What is said of a direction; None: nothing, so what holds more generally holds."""

    latency_ms: int | None = None
    jitter_ms: int | None = None
    bytes_per_s: float | None = None
    unlimited: bool = False

    def on(self, shape: Shape) -> Shape:
        """The shape with this change."""
        rate = None if self.unlimited else self.bytes_per_s if self.bytes_per_s is not None else shape.bytes_per_s
        latency = shape.latency_ms if self.latency_ms is None else self.latency_ms
        jitter = shape.jitter_ms if self.jitter_ms is None else self.jitter_ms
        return replace(shape, latency_ms=latency, jitter_ms=jitter, bytes_per_s=rate)


@dataclass(frozen=True, slots=True)
class Wan:
    """The network of a cluster: a profile, a change for all links, and changes for single directions."""

    profile: str = "none"
    every: Change = Change()
    pairs: Mapping[tuple[str, str], Change] = field(default_factory=dict)

    def shape(self, source: str, target: str) -> Shape:
        """What holds for the way from one site to another."""
        shape = self.every.on(PROFILES[self.profile].shape(source, target))
        return self.pairs.get((source, target), Change()).on(shape)


@dataclass(frozen=True, slots=True)
class Profile:
    """A named network; ``round_trips`` by pairs of site names, in milliseconds."""

    meaning: str
    default: Shape
    round_trips: Mapping[frozenset[str], int] = field(default_factory=dict)

    def shape(self, source: str, target: str) -> Shape:
        """What this network does from one site to another."""
        round_trip = self.round_trips.get(frozenset((source, target)))
        return self.default if round_trip is None else replace(self.default, latency_ms=round_trip // 2)


def _kbit(rate: float) -> float:
    return rate * 1000 / 8


def _trips(table: Mapping[str, int]) -> dict[frozenset[str], int]:
    return {frozenset(pair.split()): round_trip for pair, round_trip in table.items()}


PROFILES: Mapping[str, Profile] = {
    "none": Profile("nothing is slowed down", Shape()),
    "dsl-slow": Profile("the low end of the paper's range: 45 ms, 256 kbit/s", Shape(45, 5, _kbit(256))),
    "dsl": Profile("the middle of the paper's range: 20 ms, 1 Mbit/s", Shape(20, 2, _kbit(1000))),
    "dsl-fast": Profile("the high end of the paper's range: 5 ms, 4 Mbit/s", Shape(5, 1, _kbit(4000))),
    "satellite": Profile("a geostationary hop: 300 ms, 2 Mbit/s", Shape(300, 20, _kbit(2000))),
    "regions": Profile(
        "cloud regions by the names of the sites, round trips rounded to 5 ms; 40 ms one way for other names",
        Shape(40, 2, _kbit(20_000)),
        _trips(
            {
                "frankfurt virginia": 90,
                "frankfurt singapore": 160,
                "frankfurt oregon": 140,
                "frankfurt tokyo": 225,
                "frankfurt london": 15,
                "frankfurt mumbai": 125,
                "virginia singapore": 215,
                "virginia oregon": 60,
                "virginia tokyo": 155,
                "virginia london": 75,
                "virginia mumbai": 185,
                "singapore oregon": 165,
                "singapore tokyo": 70,
                "singapore london": 165,
                "singapore mumbai": 60,
                "oregon tokyo": 100,
                "oregon london": 130,
                "oregon mumbai": 215,
                "tokyo london": 210,
                "tokyo mumbai": 130,
                "london mumbai": 110,
            }
        ),
    ),
}
