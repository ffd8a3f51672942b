"""Replays a file for the core: as fast as it asks, or paced by the clock."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from node.config import StreamConfig
from node.core.events import RowsArrived, SourceFailed
from node.core.planning.profile import Sample
from node.core.streams.log_extent import LogExtent
from node.core.streams.position import Position
from node.core.streams.recent_batches import SAMPLE_BYTES_MAX, SAMPLE_ROWS_MAX
from node.core.streams.stream import LocalStream
from node.io.sources.pace import Pace, begin_pace, kept_pace
from node.io.sources.readers import SourceError
from node.io.sources.recordings import Chunk, ReplaySource, open_source
from node.storage.site_records import Records
from planner.model.declarations import DeclaredStream

#: Rows per read at full speed: large enough that a batch is worth its message, small enough to overlap work.
READ_ROWS = 16_384
#: Rows per read when paced: what is due is usually far less.
PACED_ROWS = 65_536


class Replay:
    """A ``Source``: one stream's file, read on demand."""

    def __init__(
        self,
        config: StreamConfig,
        tau_ms: int,
        speed: float | None,
        records: Records | None = None,
        logged: LogExtent | None = None,
    ) -> None:
        """``records``: where its pace is kept; ``logged``: what its log has, after which it goes on."""
        self._config = config
        self._records = records
        self._logged = logged
        self._newest_ts = None if logged is None else logged.newest_ts
        #: The row of the file that is next. Without records nobody will go on, so nobody is told.
        self._row = 0
        self._source = open_source(config)
        self._lateness = config.lateness_ms * self._source.info.unit
        self._tau_s = tau_ms / 1000
        self._speed = speed
        self._pace: Pace | None = None
        self._closed = threading.Event()
        #: Held while the file is read: it must not be closed then.
        self._reading = threading.Lock()
        self.local = LocalStream(self._source.info, config.lateness_ms, self._source.first_ts, config.retain_ms)

    def read(self, origin_ms: int | None) -> RowsArrived | SourceFailed:
        """The next rows; when paced, what became due since the last call."""
        name = self.local.info.name
        if self._speed is not None:
            self._wait_for_more(self._speed, origin_ms)
        with self._reading:
            if self._closed.is_set():
                return SourceFailed(name, "it is closed")
            try:
                self._go_on()
                if self._speed is None:
                    return self._arrived(self._source.read(READ_ROWS), None)
                return self._read_due()
            except SourceError as error:
                return SourceFailed(name, str(error))

    def _go_on(self) -> None:
        """Before the first read: to where an earlier life has to be continued."""
        logged, self._logged = self._logged, None
        if logged is not None and logged.place is not None and logged.place.resume.row:
            self._row = logged.place.resume.row
            self._source.close()
            self._source = open_source(self._config, self._row)

    def _arrived(self, chunk: Chunk, watermark: int | None) -> RowsArrived:
        name = self.local.info.name
        if self._records is None:
            return RowsArrived(name, chunk.rows, chunk.ts, watermark, chunk.ended)
        start = Position(0, self._row)
        self._row += chunk.rows.num_rows
        return RowsArrived(name, chunk.rows, chunk.ts, watermark, chunk.ended, None, start, Position(0, self._row))

    def _wait_for_more(self, speed: float, origin_ms: int | None) -> None:
        """Between reads, until more is due. With the first read event time begins, or goes on as it was begun."""
        if self._pace is not None:
            self._closed.wait(min(1.0, self._tau_s / speed))
            return
        name = self.local.info.name
        self._pace = kept_pace(name, speed, self._records)
        if self._pace is None:
            if self._newest_ts is not None:
                origin_ms = self._newest_ts // self.local.info.unit
            self._pace = begin_pace(name, speed, origin_ms or 0, self._records)

    def _read_due(self) -> RowsArrived:
        assert self._pace is not None
        now_ts = self._pace.now_ts(self.local.info.unit)
        chunk = self._source.read_due(now_ts, PACED_ROWS)
        next_due = self._source.next_due_ts
        behind = next_due is not None and next_due <= now_ts
        return self._arrived(chunk, None if behind else now_ts - self._lateness)

    def logged(self, resume: Position) -> None:
        """A file stays as it is."""

    @property
    def declared(self) -> DeclaredStream:
        """What the configuration says of the stream."""
        return self._config.stats

    def peek(self) -> Sample:
        """The first rows of the file, by opening it once more: what ``read`` gives stays as it is.

        Raises SourceError if the file cannot be read. Unlike ``read``, any thread may call this.
        """
        with open_source(self._config) as source:
            return sample_of_sources([source], None if self._speed is not None else READ_ROWS)

    def close(self) -> None:
        """A read that waits returns; the file is closed."""
        self._closed.set()
        with self._reading:
            self._source.close()


def sample_of_sources(sources: Iterable[ReplaySource], batch_rows: int | None) -> Sample:
    """The first rows of files that follow one another, up to what is enough to measure a stream by.

    ``batch_rows``: how many rows a batch of the core has, if that does not depend on the clock.
    """
    batches: list[pa.RecordBatch] = []
    times: list[pa.Array] = []
    rows, nbytes = 0, 0
    for source in sources:
        ended = False
        while not ended and rows < SAMPLE_ROWS_MAX and nbytes < SAMPLE_BYTES_MAX:
            chunk = source.read(READ_ROWS)
            ended = chunk.ended
            batches.append(chunk.rows.filter(chunk.ts.is_valid()))
            times.append(chunk.ts.drop_null())
            rows, nbytes = rows + chunk.rows.num_rows, nbytes + chunk.rows.nbytes
    taken = pa.concat_batches(batches)
    ts = np.concatenate([part.to_numpy() for part in times])
    order = np.argsort(ts, kind="stable")
    per_batch = None if batch_rows is None else max(1.0, min(batch_rows, len(ts)))
    return Sample(taken.take(pa.array(order)), ts[order], per_batch)
