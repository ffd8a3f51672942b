"""The sink of a join that is kept: its rows become batches of a derived stream.

A row has the time of its head, so all rows of a tick come from heads in that tick. When every head has been walked
through a tick, the stream's batch of it is whole; rows beyond wait in memory. Done is what the stream has in its log,
for every head alike, so a walk may be done up to its middle. After a crash all else walks again.

Sources are held back by what is not done. Here that would be too much: a head's ticks are whole, but those of another
are in one walk with later ones, which waits for the first head's source. So sources are told of what was **taken**; but
not while a batch is whole and those who read the stream cannot take it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from node.core.encoding.rows import empty_batch
from node.core.links.messages import Ticks
from node.core.queries.home.sink import HeadLedger, Sink
from node.core.queries.waiting import Walk
from node.core.streams.derived import DerivedStream
from node.core.streams.sealer import Batch
from node.core.streams.ticks import tick_start
from planner.model.kept import TS


class KeptLedger(HeadLedger):
    """Progress of one head; what it took it has, and is done when the stream is."""

    def __init__(self, head: str, first_tick: int) -> None:
        super().__init__(head, first_tick)
        #: So far its source need not wait.
        self.told = first_tick

    @property
    def is_storing(self) -> bool:
        return False

    @property
    def walked(self) -> int:
        """Every walk before this tick is here."""
        end = self.done
        while end in self._taken:
            end = self._taken[end]
        return end

    def done_to(self, tick: int) -> None:
        """What the stream has of it is done, also the first part of a walk."""
        for first, end in sorted(self._taken.items()):
            if first < tick:
                del self._taken[first]
                if end > tick:
                    self._taken[tick] = end
        self.done = tick


class KeptSink(Sink):
    """Takes the walks of one join, and gives its rows tick by tick."""

    def __init__(self, done: Mapping[str, int], stream: DerivedStream) -> None:
        super().__init__({})
        self._ledgers = {head: KeptLedger(head, tick) for head, tick in done.items()}
        self.heads.update(self._ledgers)
        self.stream = stream
        #: Rows that are in no batch yet, each walk's with its first and its last time.
        self._waiting: list[tuple[int, int, pa.RecordBatch]] = []

    def skip_to(self, begins: Ticks) -> None:
        """Of these heads nothing is wanted before these ticks."""
        for head, tick in begins:
            if tick > self._ledgers[head].done:
                self._ledgers[head].done_to(tick)

    def take(self, walk: Walk) -> bool:
        """The rows of a walk; False if it was taken before. Raises PeerProtocolError as ``HeadLedger.take`` does."""
        if not self.heads[walk.head].take(walk.span):
            return False
        if walk.rows.num_rows:
            times = walk.rows.column(TS).to_numpy()
            self._waiting.append((int(times.min()), int(times.max()), walk.rows))
        return True

    @property
    def taken(self) -> tuple[tuple[str, int], ...]:
        """By head, what was taken and may be told."""
        return tuple((head, max(ledger.done, ledger.told)) for head, ledger in self._ledgers.items())

    def tell_taken(self) -> bool:
        """All that was taken may be told; whether that is news."""
        moved = False
        for ledger in self._ledgers.values():
            if ledger.walked > ledger.told:
                ledger.told = ledger.walked
                moved = True
        return moved

    @property
    def walked(self) -> int:
        """Every walk of every head before this tick is here."""
        return min(ledger.walked for ledger in self._ledgers.values())

    def batch(self, now_us: int) -> Batch:
        """The stream's next batch: all ticks that are whole."""
        end, stream = self.walked, self.stream
        before_ts = tick_start(end, stream.tau)
        whole: list[pa.RecordBatch] = []
        waiting, self._waiting = self._waiting, []
        for first_ts, last_ts, rows in waiting:
            if first_ts >= before_ts:
                self._waiting.append((first_ts, last_ts, rows))
            elif last_ts < before_ts:
                whole.append(rows)
            else:
                times = rows.column(TS).to_numpy()
                is_now = times < before_ts
                whole.append(rows.filter(pa.array(is_now)))
                later = times[~is_now]
                self._waiting.append((int(later.min()), last_ts, rows.filter(pa.array(~is_now))))
        if not whole:
            return stream.append(end, empty_batch(stream.info.schema), np.empty(0, np.int64), now_us)
        rows = pa.concat_batches([part.cast(stream.info.schema) for part in whole])
        times = rows.column(TS).to_numpy()
        order = np.argsort(times, kind="stable")
        return stream.append(end, rows.take(pa.array(order)), times[order], now_us)

    def logged(self, tick: int) -> bool:
        """The stream has everything before a tick for good; whether that moved what is done."""
        moved = False
        for ledger in self._ledgers.values():
            if tick > ledger.done:
                ledger.done_to(tick)
                moved = True
        return moved
