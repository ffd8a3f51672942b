"""Event time cut into ticks of length tau: tick n is [n*tau, (n+1)*tau).

A batch covers a span of whole ticks. Live, that is one tick; a stream that is
catching up, or that skips a gap, seals many ticks at once. Spans of a stream
tile the axis from TICK_MIN to TICK_END without hole or overlap, so a span's
first tick identifies it (docs/decisions/0005).
"""

from __future__ import annotations

from dataclasses import dataclass

from node.core.errors import invariant
from planner.model.beginning import Beginning

#: Before every tick. The frontier of a stream that has not started.
TICK_MIN = -(2**62)
#: After every tick. The frontier of a stream that has ended.
TICK_END = 2**62


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The ticks from ``first`` up to, and without, ``end``."""

    first: int
    end: int

    def __post_init__(self) -> None:
        invariant(TICK_MIN <= self.first < self.end <= TICK_END, f"span requires first < end; got {self!s}")

    def __str__(self) -> str:
        return f"[{tick_text(self.first)}, {tick_text(self.end)})"


def tick_text(tick: int) -> str:
    """A tick for people."""
    if tick <= TICK_MIN:
        return "start"
    return "end" if tick >= TICK_END else str(tick)


def tick_start(tick: int, tau: int) -> int:
    """The first event time of ``tick``; the ends of the axis lie outside every event time."""
    return max(TICK_MIN, min(TICK_END, tick * tau)) if TICK_MIN < tick < TICK_END else tick


def tick_of(ts: int, tau: int) -> int:
    """The tick of an event time."""
    return ts // tau if TICK_MIN < ts < TICK_END else ts


def wanted_tick(wanted: Beginning, tau_ms: int) -> int:
    """The tick that has the event time with which a query is to begin."""
    return max(TICK_MIN + 1, min(TICK_END - 1, wanted.time_ms // tau_ms))
