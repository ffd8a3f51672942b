"""A copy that belongs to another query's run at this site, as the steps of the query that borrows it see it.

The copy may hold tuples from before the borrower's first tick: those are invisible to it. And it may
let go on what waited for it in the middle of the other query's work: that is done later, in the borrower's own turn.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from node.core.bits import Mask
from node.core.desk import Desk
from node.core.hashing import I64
from node.core.replicas.keys import KeysHolder
from node.core.replicas.mixed import MixedHolder
from node.core.stored import StoredWindow
from node.core.walk import StepShape, Walk
from node.core.window import Action, WindowState

Later = Callable[[Action], None]


class BorrowedWindow(StoredWindow):
    """Another query's window; probes of it are the borrower's."""

    def __init__(self, desk: Desk, window: StoredWindow, first_ts: int, later: Later) -> None:
        self.state = window.state
        self.window_id = window.window_id
        self.schema = window.schema
        self._desk = desk
        self._numbered = False
        self._first_ts = first_ts
        self._lowest: int | None = None
        self._later = later

    def enter(self, walk: Walk, step: StepShape, action: Action) -> None:
        super().enter(walk, step, lambda: self._later(action))

    def park(self, newest_ts: int, action: Action) -> None:
        """Take over a walk that waited for a copy of the borrower's own."""
        if newest_ts < self.state.sealed_ts:
            self._later(action)
        else:
            self.state.park(newest_ts, lambda: self._later(action))

    @property
    def lowest(self) -> int | None:
        """The position of the borrower's first tuple; None while the copy is not sealed so far."""
        if self._lowest is None and self.state.sealed_ts >= self._first_ts:
            # Once and for all: the times of tuples that everybody is done with are forgotten.
            self._lowest = self.state.axis.position_of(self._first_ts)
        return self._lowest


class BorrowedKeys:
    """Another query's V. It may have keys of tuples that the borrower does not see: the join decides."""

    def __init__(self, half: KeysHolder, later: Later) -> None:
        self.state = half.state
        self.table = half.table
        self._later = later

    def enter(self, desk: Desk, walk: Walk, step: StepShape, action: Action) -> None:
        later = self._later
        desk.gate.enter(self.state, *walk.times, step.include_ties, walk.sealed_at_us, lambda: later(action))

    def park(self, newest_ts: int, action: Action) -> None:
        """Take over a walk that waited for a copy of the borrower's own."""
        if newest_ts < self.state.sealed_ts:
            self._later(action)
        else:
            self.state.park(newest_ts, lambda: self._later(action))


class BorrowedMixed:
    """Another query's M: what one of the two fetches, both have."""

    def __init__(self, half: MixedHolder, window: BorrowedWindow, later: Later) -> None:
        self._half = half
        self.window = window
        self._later = later

    def slots_of(self, columns: list[pa.Array]) -> tuple[I64, Mask]:
        return self._half.slots_of(columns)

    def fetch(self, slots: I64, then: Action) -> None:
        self._half.fetch(slots, lambda: self._later(then))


def move_parked(state: WindowState, park: Callable[[int, Action], None]) -> None:
    """Walks that wait for one copy wait for another from now on."""
    for newest_ts, action in state.take_parked():
        park(newest_ts, action)
