"""What a wide area network does to what is sent, as values: for Toxiproxy and for the simulator alike.

Every direction of every pair of sites has a shape of its own. Latency is one way: a round trip takes both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: Toxiproxy takes whole kilobytes per second; so does the simulator, or the two would be two networks.
BYTES_PER_S_STEP = 1000.0
#: What can be emulated: a slower link would hardly carry its own pings, and no loopback is faster.
BYTES_PER_S_MIN, BYTES_PER_S_MAX = BYTES_PER_S_STEP, 12.5e9
#: A link that is silent for ten seconds is given up, and a greeting needs two ways.
LATENCY_MS_MAX = 4_000


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
        """The shape with this change. Nothing arrives before it was sent: there is no more jitter than latency."""
        rate = None if self.unlimited else self.bytes_per_s if self.bytes_per_s is not None else shape.bytes_per_s
        latency = shape.latency_ms if self.latency_ms is None else self.latency_ms
        jitter = shape.jitter_ms if self.jitter_ms is None else self.jitter_ms
        return Shape(latency, min(jitter, latency), None if rate is None else _whole(rate))


@dataclass(frozen=True, slots=True)
class Wan:
    """The network of a cluster: a profile, a change for all links, and changes for single directions."""

    profile: str = "none"
    every: Change = Change()
    pairs: Mapping[tuple[str, str], Change] = field(default_factory=dict)
    #: Which region a site is in, where its name does not say.
    regions: Mapping[str, str] = field(default_factory=dict)

    def shape(self, source: str, target: str) -> Shape:
        """What holds for the way from one site to another."""
        places = self.regions.get(source, source), self.regions.get(target, target)
        shape = self.every.on(PROFILES[self.profile].shape(*places))
        return self.pairs.get((source, target), Change()).on(shape)


@dataclass(frozen=True, slots=True)
class Profile:
    """A named network."""

    meaning: str
    #: What it does from one place to another.
    shape: Callable[[str, str], Shape]


def _whole(bytes_per_s: float) -> float:
    return max(1, round(bytes_per_s / BYTES_PER_S_STEP)) * BYTES_PER_S_STEP


def _kbit(rate: float) -> float:
    return rate * 1000 / 8


def _everywhere(latency_ms: int, jitter_ms: int, bytes_per_s: float | None) -> Callable[[str, str], Shape]:
    return lambda _source, _target: Shape(latency_ms, jitter_ms, bytes_per_s)


def _drawn(seed: str, low: int, high: int) -> int:
    """A number from ``low`` to ``high`` that is always the same for the same text, on every machine."""
    return low + int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % (high - low + 1)


def _mixed_dsl(source: str, target: str) -> Shape:
    """Anywhere in the paper's range: a latency for the link, and a bandwidth for each of its directions."""
    latency_ms = _drawn("latency " + " ".join(sorted((source, target))), 5, 45)
    bytes_per_s = _drawn(f"bandwidth {source} {target}", 32, 500) * BYTES_PER_S_STEP
    return Shape(latency_ms, latency_ms // 10, bytes_per_s)


#: Round trips in milliseconds, rounded to 5.
_ROUND_TRIPS = {
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
_BY_PAIR = {frozenset(pair.split()): round_trip for pair, round_trip in _ROUND_TRIPS.items()}
REGIONS = sorted({region for pair in _ROUND_TRIPS for region in pair.split()})


def _between_regions(source: str, target: str) -> Shape:
    """Half a round trip; a millisecond within a region, 40 ms to a place that is no region."""
    if source == target:
        return Shape(1, 0, _kbit(20_000))
    round_trip = _BY_PAIR.get(frozenset((source, target)), 80)
    return Shape(round_trip // 2, 2, _kbit(20_000))


PROFILES: Mapping[str, Profile] = {
    "none": Profile("nothing is slowed down", _everywhere(0, 0, None)),
    "dsl-slow": Profile("the low end of the paper's range: 45 ms, 256 kbit/s", _everywhere(45, 5, _kbit(256))),
    "dsl": Profile("the middle of the paper's range: 20 ms, 1 Mbit/s", _everywhere(20, 2, _kbit(1000))),
    "dsl-fast": Profile("the high end of the paper's range: 5 ms, 4 Mbit/s", _everywhere(5, 1, _kbit(4000))),
    "dsl-mixed": Profile("each link its own: 5 to 45 ms, each way its own: 256 kbit/s to 4 Mbit/s", _mixed_dsl),
    "satellite": Profile("a geostationary hop: 300 ms, 2 Mbit/s", _everywhere(300, 20, _kbit(2000))),
    "regions": Profile(
        "20 Mbit/s between cloud regions, by the names of the sites or [wan.regions]; 40 ms to other names",
        _between_regions,
    ),
}
