"""A local stream: where its reading stands, what of it is logged, and which queries follow it.

A recording starts to play when the first query that reads it starts, so a query over all of it is possible. It is read
on only while every query that follows it keeps up: that bounds memory at every site, because what is not done is
kept. This cannot deadlock. Of the streams that stand still for queries whose sites reach each other and whose rows are
stored, take the one with the lowest frontier: its walks need no other stream to move, since what others read from logs
(``HeadCursor``) moves without their stream. So they end, its backlog shrinks, and it is read on. A query of which
that is not true, because a site is away or rows cannot be stored, is voided after a while and follows no stream any
more (``lagging``). When it goes on it is behind, reads the log, and stops nobody until it has caught up.

A batch that is sealed is logged before anything else is done with it: **fed** is how far the stream is logged, and so
how far anybody has seen it. After a restart the log says where all of this stood, and the stream goes on from there.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from node.core.limits import Limits
from node.core.streams.backlog import Backlog
from node.core.streams.log_extent import LogExtent, LoggedBatch
from node.core.streams.logged_batches import LoggedBatches
from node.core.streams.position import Position
from node.core.streams.recent_batches import RecentBatches
from node.core.streams.sealer import Aside, Batch, Sealer
from node.core.streams.ticks import TICK_END, TICK_MIN, tick_start, tick_text, wanted_tick
from node.core.streams.view import SealedRows
from planner.model.beginning import BeginAt, Beginning
from planner.model.errors import NarrowsError
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit


@dataclass(frozen=True, slots=True)
class LocalStream:
    """A stream of this site, as configured."""

    info: StreamInfo
    lateness_ms: int = 0
    #: Event time of its first tuple, in its unit; None when it is not known or there is none.
    first_ts: int | None = None
    #: How much of its past is kept for queries that come later: they begin so far back, unless they say otherwise.
    retain_ms: int = 0
    #: What its log has of earlier lives; and rows that were read after that and set aside, which stay so.
    logged: LogExtent | None = None
    aside: frozenset[Position] = frozenset()
    #: All of its past is kept, for queries that ask for it.
    keep_whole: bool = False
    #: Where its log ended when the site was last restored from a backup; None: never.
    restored_to: int | None = None


class Follower(Protocol):
    """A query, as a stream sees it."""

    query_id: str
    backlogs: dict[str, Backlog]

    @property
    def started(self) -> bool:
        """Whether it runs."""
        ...

    @property
    def early_batches(self) -> int:
        """Batches that it keeps until it is started."""
        ...

    def is_behind(self, alias: str) -> bool:
        """Whether it reads what it begins with from the log."""
        ...

    def filled_table(self, alias: str) -> object | None:
        """The table of the stream that it has, while that is being filled from the log."""
        ...


class StreamState:
    """A stream of this site, as it runs."""

    #: Its rows are those of a join that is kept for one query: nobody else may read it.
    is_kept = False

    def __init__(self, local: LocalStream, tau_ms: int) -> None:
        unit = local.info.unit
        self.info = local.info
        self.tau = tau_ms * unit
        self.sealer = Sealer(local.info.schema, self.tau, local.lateness_ms * unit, local.logged, local.aside)
        self.followers: list[tuple[str, Follower]] = []
        self.reading = False
        self.ended = False
        self.failed = ""
        # Whole milliseconds: any event time fits, which it would not in a finer unit.
        self.origin_ms = None if local.first_ts is None else local.first_ts // unit
        self.rows_arrived = 0
        #: Rows that are in no batch, by the reason.
        self.aside: Counter[str] = Counter()
        #: What the stream is measured by when a query is planned.
        self.recent = RecentBatches()
        #: Everything before this tick is logged, and was given to all who want it; and so many tuples.
        self.fed = TICK_MIN
        self.fed_rows = 0
        self._retain = local.retain_ms * unit
        self._keep_whole = local.keep_whole
        #: Batches that are sealed and not logged, with the time at which they were sealed.
        self._sealed: deque[tuple[Batch, int]] = deque()
        self._log = LoggedBatches(self.tau)
        #: What batches take in the log that are logged and not yet fed.
        self._sizes: deque[int] = deque()
        self._newest_ts = TICK_MIN
        self.restored_to = local.restored_to
        self._lost = () if local.logged is None else local.logged.lost
        if local.logged is not None:
            self._go_on(local.logged)

    def _go_on(self, logged: LogExtent) -> None:
        """After what an earlier life logged, all of which nobody needs yet."""
        self.fed = logged.end
        self.fed_rows = self.rows_arrived = logged.next_tuple
        self.ended = logged.end == TICK_END
        self._log.extend(logged.batches)
        if not self.ended:
            self._newest_ts = tick_start(logged.end, self.tau)
        else:
            self._newest_ts = tick_start(logged.batches[-1].first, self.tau)
            if logged.newest_ts is not None:
                self._newest_ts = max(self._newest_ts, logged.newest_ts + 1)

    @property
    def frontier(self) -> int:
        return self.sealer.frontier

    @property
    def rows_aside(self) -> int:
        return self.aside.total()

    def sealed_ts(self, tick: int) -> int:
        """The first event time of a tick."""
        return tick_start(tick, self.tau)

    def arrived(
        self,
        rows: pa.RecordBatch,
        ts: pa.Int64Array,
        start: Position | None,
        end: Position | None,
        latest_ts: int | None = None,
    ) -> list[Aside]:
        """Rows of its source, as RowsArrived has them; those that can be in no batch."""
        open_before = self.sealer.open_rows
        found = self.sealer.add(rows, ts, start, end, latest_ts)
        for part in found:
            self.aside[part.reason] += part.rows.num_rows
        rows_aside = sum(part.rows.num_rows for part in found)
        self.rows_arrived += self.sealer.open_rows - open_before + rows_aside
        return found

    # -- the log ------------------------------------------------------------------------------

    def sealed(self, batch: Batch, now_us: int) -> None:
        """The next batch was sealed, and is being logged."""
        self._sealed.append((batch, now_us))

    def logged(self, frontier: int, sizes: Sequence[int] = ()) -> list[SealedRows]:
        """Everything before a tick is logged, and takes so much in the log; the batches that may be used now."""
        found: list[SealedRows] = []
        while self._sealed and self._sealed[0][0].span.end <= frontier:
            batch, sealed_at_us = self._sealed.popleft()
            self._sizes.append(sizes[len(found)] if len(found) < len(sizes) else batch.rows.nbytes)
            self.recent.add(batch)
            found.append(self.rows_of(batch, sealed_at_us))
        return found

    def rows_of(self, batch: Batch, sealed_at_us: int) -> SealedRows:
        """A batch for those who look at it."""
        return SealedRows(self.info.name, batch.span, batch.rows, batch.ts, batch.first, sealed_at_us)

    def feed(self, sealed: SealedRows) -> None:
        """A batch is given to all who want it."""
        self.fed = sealed.span.end
        self.fed_rows += len(sealed)
        nbytes = self._sizes.popleft() if self._sizes else sealed.rows.nbytes
        self._log.append(LoggedBatch(sealed.span.first, sealed.span.end, len(sealed), nbytes))
        if sealed.span.end < TICK_END:
            self._newest_ts = tick_start(sealed.span.end, self.tau)
        elif len(sealed.ts):
            self._newest_ts = int(sealed.ts[-1]) + 1

    @property
    def log_begin(self) -> int:
        """The first tick that the log has."""
        return self._log[0].first if self._log else self.fed

    def check_log(self, begin: int, done: int, whole_from: int) -> None:
        """Raises NarrowsError if a query that is done with this stream up to a tick cannot begin again with another.

        ``whole_from``: nothing of what it needs from this tick on may be damaged.
        """
        damaged = [span for span in self._lost if span.end > whole_from]
        if self.fed < done:
            lost = f"ticks {tick_text(self.fed)} to {tick_text(done)}, of which results were delivered"
        elif damaged:
            lost = f"ticks {' and '.join(map(str, damaged))}, which were damaged and given up"
        elif self.log_begin > begin:
            lost = f"ticks {tick_text(begin)} to {tick_text(self.log_begin)}, which results are still to be found with"
        else:
            return
        raise NarrowsError(f"data loss: stream {self.info.name} requires its log; got one without {lost}")

    def check_restored(self, restored_to: int | None, seen: int) -> None:
        """Raises NarrowsError if results were found with ticks that are in no log since the site was restored."""
        if restored_to is not None and restored_to < seen:
            lost = f"ticks {tick_text(restored_to)} to {tick_text(seen)}, since its site was restored from a backup"
            raise NarrowsError(f"data loss: stream {self.info.name} requires its log; got one without {lost}")

    def recent_past(self, past_us: int) -> tuple[tuple[Batch, ...], int | None]:
        """The newest batches, of so much event time, and how much of that they cover, if they do not say it best.

        At least the newest one, however old: then time without tuples is counted.
        """
        batches = self.recent.batches()
        if not batches or self.fed == TICK_END:
            return batches, None
        past, end = past_us * self.info.unit // TimeUnit.US, tick_start(self.fed, self.tau)
        found = [batch for batch in batches if batch.ts[0] >= end - past] or [batches[-1]]
        # If more is known that is older, nothing is missing of the time.
        begin = int(found[0].ts[0]) if len(found) == len(batches) else min(int(found[0].ts[0]), end - past)
        return tuple(found), max(1, end - begin) * TimeUnit.US // self.info.unit

    @property
    def earliest(self) -> int:
        """The first tick from which on a new query can have everything: what is retained, or from now on."""
        if not self._retain:
            return self.fed
        retained = self._log.first_after(self._newest_ts - self._retain)
        return max(self.whole_from, self.fed if retained is None else retained.first)

    @property
    def whole_from(self) -> int:
        """From this tick on the log lacks nothing between what it has."""
        return max([self.log_begin, *(span.end for span in self._lost)])

    def last_rows_from(self, count: int, tick: int) -> int | None:
        """From this tick on the log has so many tuples before ``tick``, or all; None if it has fewer."""
        found = self._log.first_of_last(count, tick)
        return TICK_MIN if found is None and self.log_begin == TICK_MIN else found

    def begin_of(self, wanted: Beginning) -> int:
        """The first tick from which on a query can have everything, no earlier than it is to begin."""
        match wanted.at:
            case BeginAt.START:
                return self.whole_from
            case BeginAt.NOW:
                return self.fed
            case BeginAt.TIME:
                # What is still to come, also after the end, will be there.
                return max(self.whole_from, wanted_tick(wanted, self.tau // self.info.unit))
        return self.earliest

    def _is_kept(self, batch: LoggedBatch) -> bool:
        """Whether a batch is kept although nobody needs it now."""
        return self._keep_whole or (self._retain > 0 and self._is_retained(batch))

    def _is_retained(self, batch: LoggedBatch) -> bool:
        return tick_start(batch.end, self.tau) > self._newest_ts - self._retain

    def trim(self, needed_ts: int) -> int | None:
        """Forget logged batches that are not kept for queries to come and have nothing from ``needed_ts`` on.

        The tick before which the log may be forgotten, if there is anything to forget.
        """
        tick = None
        while self._log and not self._is_kept(self._log[0]):
            if not self.can_forget(needed_ts):
                break
            tick = self.forget_oldest()
        return tick

    def can_forget(self, needed_ts: int) -> bool:
        """Whether the oldest batch of the log has nothing from ``needed_ts`` on; it may be retained."""
        return bool(self._log) and tick_start(self._log[0].end, self.tau) <= needed_ts

    def forget_oldest(self) -> int:
        """Forget the oldest batch of the log; the tick before which the log may be forgotten."""
        return self._log.popleft().end

    def bytes_from(self, ts: int) -> int:
        """How much of the log has something from an event time on."""
        return self._log.bytes_after(ts)

    @property
    def logged_bytes(self) -> int:
        """What the log holds that somebody needs, or that is retained.

        On disk there may be a segment more: space comes back by whole files, and the last one stays. A quota on that
        would never be met again if it is smaller.
        """
        return self._log.nbytes

    @property
    def logged_rows(self) -> int:
        return self._log.rows

    @property
    def log_first(self) -> int:
        """The number of the first tuple that the log has, or of an earlier one."""
        if any(span.end > self.log_begin for span in self._lost):
            # How many are lost between those that are there is not known.
            return 0
        return self.fed_rows - self.logged_rows

    # -- reading ------------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        return self.rows_arrived > 0 or self.ended or self.fed > TICK_MIN

    @property
    def state(self) -> str:
        """One word for people."""
        if self.failed:
            return "failed"
        if self.ended:
            return "ended"
        if not any(query.started for _, query in self.followers):
            return "held"
        return "reading" if self.reading else "paused"

    def full_queries(self, limits: Limits) -> tuple[str, ...]:
        """Queries for which it waits: they have as much of it under way as is allowed."""
        full = [
            query.query_id
            for alias, query in self.followers
            if query.started and query.backlogs[alias].full(limits) and not query.is_behind(alias)
        ]
        return tuple(dict.fromkeys(full))

    @property
    def has_more(self) -> bool:
        """Whether its source can still bring something."""
        return not (self.ended or self.failed or self.frontier == TICK_END)

    def wants_more(self, limits: Limits, logs_full: bool = False) -> bool:
        """Whether the source should be read now; ``logs_full``: the logs of the site hold as much as they may."""
        if logs_full or self.reading or not self.has_more:
            return False
        if len(self._sealed) >= limits.ahead_batches_max:
            return False
        if any(query.early_batches >= limits.ahead_batches_max for _, query in self.followers):
            return False
        # Who reads the log to catch up stops nobody else.
        following = [(alias, query) for alias, query in self.followers if not query.is_behind(alias)]
        running = [query.backlogs[alias] for alias, query in following if query.started]
        return bool(running) and not any(backlog.full(limits) for backlog in running)


def check_same(streams: Mapping[str, StreamState], info: StreamInfo) -> StreamState:
    """Our stream that another site speaks of; raises NarrowsError unless it is as that site thinks."""
    own = streams.get(info.name)
    if own is None or own.is_kept or info != (own.info if info.ts_scale else replace(own.info, ts_scale=0)):
        known = (
            "no such stream" if own is None or own.is_kept else f"{own.info.schema.names} with event time {own.info.ts}"
        )
        raise NarrowsError(f"stream {info.name} requires the same columns at both sites; got {known} here")
    return own
