"""A lease: one query's hold on an arrangement. What it can still ask for stays.

Delayed removal (Constraint 2): a tuple stays until no walk that can see it is left. From Prepare until the query's
first tick is known a lease is frozen: nothing that is kept may go.
"""

from __future__ import annotations

from dataclasses import dataclass

from node.core.arrangements.progress import Progress
from node.core.arrangements.reach import Reach
from node.core.streams.ticks import TICK_END, TICK_MIN, tick_start


@dataclass(eq=False, slots=True)
class Lease:
    """Held by one generation of a query, for one of its aliases."""

    query_id: str
    generation: int
    reach: Reach
    #: The keys by which it is probed; None if it only starts walks.
    keys: tuple[str, ...] | None
    #: The columns that the query needs of the stream.
    columns: tuple[str, ...] = ()
    #: The query sees tuples from this tick on; None while that is not known.
    first_tick: int | None = None
    #: No walk of a head before this tick is left that could look here.
    done: int = TICK_MIN
    #: Of the alias's own walks, those before this tick are done.
    own_done: int = TICK_MIN
    #: Policy delta forgets by the clock, this long (stream's unit) after a tuple left its window; None: by done alone.
    linger: int | None = None

    @property
    def frozen(self) -> bool:
        return self.first_tick is None

    @property
    def first_ts(self) -> int:
        """The query sees tuples from this event time on (stream's unit)."""
        return TICK_MIN if self.first_tick is None else tick_start(self.first_tick, self.reach.tau)

    def passed_ts(self, progress: Progress) -> int:
        """No row with an event time (stream's unit) before this will look here."""
        passed = tick_start(self.done, self.reach.tau)
        if self.linger is None or not TICK_MIN < progress.frontier < TICK_END:
            return passed
        # The oldest row of a walk is a tick older than the end of its batch.
        return max(passed, progress.sealed_ts - progress.tau - self.linger)

    def needed_ts(self, progress: Progress) -> int:
        """Of a time window: no tuple with an event time before this will be asked for."""
        return self.reach.before(self.passed_ts(progress))


def done_with(alias: str, done: dict[str, int]) -> int:
    """The tick before which no walk of another head, which could look at this stream, is left."""
    return min((tick for head, tick in done.items() if head != alias), default=TICK_MIN)
