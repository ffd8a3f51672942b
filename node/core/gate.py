"""When a walk may use a window, and when a window may forget: the two policies of DESIGN section 3.

``frontier`` waits for exactly what is needed, so no delay can make it wrong. ``delta`` is the
paper's: a walk probes ``delta`` after its batch was sealed. It goes by the clock: event time runs with
it, and clocks agree. A window forgets a tuple twice ``delta`` after it left: the paper says once, but
SM-D1 probes V at t + delta and only then ships, so its rows are later than that at the window. When
a delay exceeds delta the rows can be wrong, and each probe at which that was possible is counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from node.core.ticks import TICK_END, TICK_MIN, tick_start
from node.core.window import Action, WindowState
from planner.model import TimeUnit


class FrontierGate:
    """Waits for frontiers. Exact under any delay."""

    delta_us = 0
    early = 0
    late = 0

    def enter(
        self, window: WindowState, low_ts: int, high_ts: int, include_ties: bool, sealed_at_us: int, action: Action
    ) -> None:
        """Do ``action`` when rows with event times from ``low_ts`` to ``high_ts`` may use the window."""
        if high_ts < window.sealed_ts:
            action()
        else:
            window.park(high_ts, action)

    def passed(self, window: WindowState, done: int) -> int | None:
        """No row with an event time before this will use the window; None when nothing is known."""
        return _done_ts(window, done)

    def on_clock(self) -> None:
        """Time passed."""


class DeltaGate:
    """Goes by the clock."""

    def __init__(self, delta_us: int, unit: TimeUnit, now_us: Callable[[], int]) -> None:
        self.delta_us = delta_us
        self.early = 0
        self.late = 0
        self._delta = delta_us * unit // TimeUnit.US
        self._now_us = now_us
        self._due: list[tuple[int, int, Action]] = []
        self._count = 0

    def enter(
        self, window: WindowState, low_ts: int, high_ts: int, include_ties: bool, sealed_at_us: int, action: Action
    ) -> None:
        def go() -> None:
            self.early += high_ts >= window.sealed_ts
            oldest_visible, _ = window.axis.visible(low_ts, high_ts, include_ties)
            self.late += window.knows_times and oldest_visible < window.kept_from
            action()

        heapq.heappush(self._due, (sealed_at_us + self.delta_us, self._count, go))
        self._count += 1
        self.on_clock()

    def passed(self, window: WindowState, done: int) -> int | None:
        # What the sink is done with has passed under any policy; nothing else tells W' of a time window.
        passed = _done_ts(window, done)
        if not TICK_MIN < window.frontier < TICK_END:
            return passed
        # The oldest row of a walk is a tick older than the end of its batch.
        by_clock = window.sealed_ts - window.tau - 2 * self._delta
        return by_clock if passed is None else max(passed, by_clock)

    def on_clock(self) -> None:
        while self._due and self._due[0][0] <= self._now_us():
            heapq.heappop(self._due)[2]()


Gate = FrontierGate | DeltaGate


def _done_ts(window: WindowState, done: int) -> int | None:
    """The event time up to which the sink is done; None at the very beginning."""
    return None if done <= TICK_MIN else tick_start(done, window.tau)
