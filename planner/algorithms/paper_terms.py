"""The parameters of the paper's cost formulas (Appendix B of Tran & Lee), as values.

The formulas themselves are with the algorithms they belong to (``planner.algorithms.descriptions``).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaperSystem:
    """The parameters of links and machines: seconds, and bytes per second.

    The paper does not say what its per-tuple costs were. With a probe of a window of w tuples at ``c_p w``, these
    are about what a hash join in a fast language takes; on the paper's links they are far below the cost of shipping.
    """

    tau_s: float = 0.1
    latency_s: float = 0.025
    bandwidth: float = 1024e3 / 8
    probe_s: float = 1e-8
    update_s: float = 1e-6
    hash_s: float = 1e-7
    insert_s: float = 1e-6

    def ship(self, size: float) -> float:
        """S(x): the time it takes to transfer ``size`` bytes."""
        return self.latency_s + size / self.bandwidth


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperSide:
    """One side of a one-way join: the carry, or a stream."""

    rate: float
    #: Tuples that come in a tick, and the different join values among them (m).
    buffer: float
    buffer_keys: float
    full_bytes: float
    partial_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperWindow(PaperSide):
    """The side with the window that is looked into: its tuples, and the different join values among them (k)."""

    window: float
    window_keys: float


@dataclass(frozen=True, slots=True)
class PaperStep:
    """A one-way join from the carry, ``1``, to the window of a stream, ``2``."""

    one: PaperSide
    two: PaperWindow
    f_12: float
    f_21: float
    system: PaperSystem
    #: Within a site nothing is shipped.
    remote: bool

    @property
    def per_s(self) -> float:
        """Ticks in a second."""
        return 1 / self.system.tau_s

    @property
    def sync_keys(self) -> float:
        """Keys of the stream that a copy of its keys is told of in a tick."""
        return self.two.buffer_keys * (1 - self.f_21)

    def ship(self, size: float) -> float:
        """The time that it takes, in a second, to transfer ``size`` bytes each tick."""
        return self.per_s * self.system.ship(size) if self.remote else 0.0
