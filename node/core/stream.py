"""A local stream: where its reading stands and which queries follow it.

A recording starts to play when the first query that reads it starts, so a query
over all of it is possible. It is read on only while every query that follows it
keeps up: that bounds memory at every site, because what is not done is kept.
This cannot deadlock. Of the streams that stand still for a query, take the one
with the lowest frontier: its walks need no other stream to move, so they end,
its backlog shrinks, and it is read on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from node.core.limits import Limits
from node.core.query_run import QueryRun
from node.core.recent import RecentBatches
from node.core.retained import RetainedBatches
from node.core.sealer import Batch, Sealer
from node.core.ticks import TICK_END
from planner.errors import NarrowsError
from planner.model import StreamInfo


@dataclass(frozen=True, slots=True)
class LocalStream:
    """A stream of this site, as configured."""

    info: StreamInfo
    lateness_ms: int = 0
    #: Event time of its first tuple, in its unit; None when it is not known or there is none.
    first_ts: int | None = None
    #: How much of its past is kept for queries that come later.
    retain_ms: int = 0


class StreamState:
    """A stream of this site, as it runs."""

    def __init__(self, local: LocalStream, tau_ms: int) -> None:
        unit = local.info.unit
        self.info = local.info
        self.sealer = Sealer(local.info.schema, tau_ms * unit, local.lateness_ms * unit)
        self.followers: list[tuple[str, QueryRun]] = []
        self.reading = False
        self.ended = False
        self.failed = ""
        # Whole milliseconds: any event time fits, which it would not in a finer unit.
        self.origin_ms = None if local.first_ts is None else local.first_ts // unit
        self.rows_arrived = 0
        self.rows_aside = 0
        self.retained = RetainedBatches(local.retain_ms * unit, tau_ms * unit)
        #: What the stream is measured by when a query is planned.
        self.recent = RecentBatches()

    @property
    def frontier(self) -> int:
        return self.sealer.frontier

    @property
    def earliest(self) -> int:
        """The first tick from which on a new query can have everything."""
        return self.retained.earliest(self.frontier)

    def sealed(self, batch: Batch) -> None:
        """The next batch was sealed."""
        self.recent.add(batch)
        self.retained.add(batch)

    @property
    def started(self) -> bool:
        return self.rows_arrived > 0 or self.ended

    @property
    def state(self) -> str:
        """One word for people."""
        if self.failed:
            return "failed"
        if self.ended:
            return "ended"
        if not any(run.started and not run.lingering for _, run in self.followers):
            return "held"
        return "reading" if self.reading else "paused"

    def full_queries(self, limits: Limits) -> tuple[str, ...]:
        """Queries that have as much of it under way as is allowed."""
        full = [run.query_id for alias, run in self.followers if run.started and run.backlogs[alias].full(limits)]
        return tuple(dict.fromkeys(full))

    def wants_more(self, limits: Limits) -> bool:
        """Whether the source should be read now."""
        if self.reading or self.ended or self.failed or self.frontier == TICK_END:
            return False
        if any(run.early_batches >= limits.ahead_batches_max for _, run in self.followers):
            return False
        running = [run.backlogs[alias] for alias, run in self.followers if run.started and not run.lingering]
        return bool(running) and not any(backlog.full(limits) for backlog in running)


def check_same(streams: Mapping[str, StreamState], info: StreamInfo) -> StreamState:
    """Our stream that another site speaks of; raises NarrowsError unless it is as that site thinks."""
    own = streams.get(info.name)
    if own is None or own.info != info:
        known = "no such stream" if own is None else f"{own.info.schema.names} with event time {own.info.ts}"
        raise NarrowsError(f"stream {info.name} requires the same columns at both sites; got {known} here")
    return own
