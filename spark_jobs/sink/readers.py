"""Reads a query's rows for Spark, as a table and as a stream.

An offset is the number of a row, with the query and the run of it that it belongs to. A row never changes its number,
so the rows between two offsets are the same whenever and wherever they are asked for: by a task that is tried again,
by a stream that was killed between writing a batch and committing it. Only what Spark has committed is taken, which
lets the daemon forget it; Spark never asks for that again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from node.client import Patience
from node.rpc import control_pb2 as pb
from spark_jobs.sink.client import SinkAwayError, SinkClient, SinkNoRoomError
from spark_jobs.sink.column_types import check_declared, to_spark
from spark_jobs.sink.options import SinkError, SinkOptions

#: A task should have more to do than it costs to start it.
_PARTITION_BYTES = 16 << 20
#: Spark asks a hundred times a second whether there is news; the daemon answers when there is, or after this.
_WAIT_MS = 50

_COMPLETED = "completed"
_COMPLETED_OR_GOING_ON = ("preparing", "running", "recovering", _COMPLETED)


@dataclass(frozen=True)
class RowRange(InputPartition):
    """Rows that one task reads."""

    run: str
    first: int
    end: int


def first_patience(options: SinkOptions) -> Patience | None:
    """For a site that has not answered yet: it may be another address, and is waited for only if that was asked for."""
    return None if options.wait_s is None else _patience(options.wait_s)


def _patience(wait_s: float | None) -> Patience:
    """What is said goes where Spark's workers log."""
    return Patience(wait_s, lambda text: print(f"narrows: {text}", file=sys.stderr, flush=True))


class RowSource:
    """What both kinds of reader do alike. Copies of it are sent to executors, so it holds no connection."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self._schema = schema
        with SinkClient.at(options.address, first_patience(options)) as client:
            check_declared(schema, pa.ipc.read_schema(pa.py_buffer(client.extent(options.query).schema)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        assert isinstance(partition, RowRange)
        if partition.first == partition.end:
            return
        with SinkClient.at(self.options.address, self.patience()) as client:
            wanted = (self.options.query, partition.run, partition.first, partition.end, self._schema.names)
            for rows in client.rows(*wanted):
                yield to_spark(rows, self._schema, self.options.floor_nanoseconds)

    def patience(self) -> Patience:
        """For a site that has answered before and is away."""
        return _patience(self.options.wait_s)

    def split(self, extent: pb.ExtentReply, first: int, end: int) -> list[RowRange]:
        """Rows from ``first`` to before ``end``, in parts of about the same size."""
        rows = end - first
        nbytes = extent.nbytes * rows // max(1, extent.end - extent.first)
        parts = self.options.partitions or -(-nbytes // _PARTITION_BYTES)
        parts = min(max(1, parts), max(1, rows))
        bounds = [first + rows * part // parts for part in range(parts + 1)]
        return [RowRange(extent.run, *bound) for bound in pairwise(bounds)]

    def check_whole(self, extent: pb.ExtentReply) -> None:
        """That the query's first row is still there; raises SinkError unless the user accepts what is left."""
        if extent.first and not self.options.partial:
            text = f"narrows: query {self.options.query}: rows 0 to {extent.first - 1} were taken and are not kept"
            hint = "option partial=true reads the others; a query that is issued with --keep keeps all of them"
            raise SinkError(f"{text}; {hint}")

    def failure(self, extent: pb.ExtentReply) -> SinkError:
        """Why there will be no more rows although not all are there."""
        return SinkError(f"narrows: query {self.options.query} {extent.state}: {extent.reason or 'no reason given'}")


class TableReader(RowSource, DataSourceReader):
    """The rows that are at the sink when Spark plans the read."""

    def partitions(self) -> list[RowRange]:
        with SinkClient.at(self.options.address, self.patience()) as client:
            extent = client.extent(self.options.query)
        self.check_whole(extent)
        if extent.state not in _COMPLETED_OR_GOING_ON and not self.options.partial:
            raise self.failure(extent)
        return self.split(extent, extent.first, extent.end)


class StreamReader(RowSource, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The rows as they come. Spark has one such object in the driver; executors get copies of it and only read."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._client: SinkClient | None = None
        #: Trigger.AvailableNow: the row before which this run of the stream ends.
        self._target: int | None = None
        self._latest: dict[str, Any] | None = None
        self._extent: pb.ExtentReply | None = None
        #: Waits between what Spark asks, so that Spark can be stopped meanwhile.
        self._away = self.patience()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_client": None, "_away": None, "_extent": None}

    @property
    def _daemon(self) -> SinkClient:
        if self._client is None:
            self._client = SinkClient.at(self.options.address)
        return self._client

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        extent = self._awaited()
        self.check_whole(extent)
        if self.options.reader:
            # Not before it can be: for a reader that nobody is, rows would be kept for ever.
            extent = self._awaited(self.options.reader)
            self.check_whole(extent)
        return self._offset(extent, max(extent.first, extent.taken))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self.options.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._awaited().end

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far the next micro-batch goes.

        Raises SinkError with the query's own reason if it failed and all rows before that are read.
        """
        first = self._row(start)
        wait_ms = _WAIT_MS if self._target is None else 0
        try:
            extent = self._extent = self._daemon.extent(self.options.query, first, wait_ms)
        except SinkAwayError as error:
            self._away.away(error, f"for rows of {self.options.query} from {first:,} on")
            return start
        self._away.back()
        self._check(start, extent)
        self._latest = self._offset(extent, extent.end)
        if extent.end == first and extent.state not in _COMPLETED_OR_GOING_ON:
            raise self.failure(extent)
        if extent.end == first and extent.state == _COMPLETED:
            time.sleep(wait_ms / 1000)  # of this one the daemon has no news to wait for
        end = extent.end if self._target is None else min(extent.end, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, first + limit.max_rows)
        elif not isinstance(limit, ReadAllAvailable):
            raise SinkError(f"narrows: required a limit of rows or none; got {limit}")
        return self._offset(extent, max(first, end))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._latest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RowRange]:
        first, last = self._row(start), self._row(end)
        if first == last:
            return []
        try:
            extent = self._extent = self._daemon.extent(self.options.query)
        except SinkAwayError:
            # Tasks wait for the site. Of a batch that an earlier start of the stream left nothing is known here.
            extent = self._extent = self._extent or self._awaited()
        self._check(start, extent)
        return self.split(extent, first, last)

    def commit(self, end: dict[str, Any]) -> None:
        """A site that is away, or whose disk is too full to note it, is told with the next commit."""
        try:
            self._daemon.take(self.options.query, end["run"], self._row(end), reader=self.options.reader)
        except (SinkAwayError, SinkNoRoomError) as error:
            print(f"narrows: {error}; rows before {self._row(end):,} stay there for now", file=sys.stderr, flush=True)

    def _awaited(self, reader: str = "") -> pb.ExtentReply:
        """What there is, as soon as the site answers: without it the stream could not begin."""
        query = self.options.query
        return self._away.ask(lambda: self._daemon.extent(query, reader=reader), f"to begin with rows of {query}")

    def _offset(self, extent: pb.ExtentReply, row: int) -> dict[str, Any]:
        return {"query": self.options.query, "run": extent.run, "row": row}

    def _row(self, offset: Mapping[str, Any]) -> int:
        if offset.get("query") != self.options.query:
            text = (
                f"narrows: the checkpoint is one of query {offset.get('query')}; option query is {self.options.query}"
            )
            raise SinkError(f"{text}: another query requires another checkpoint")
        return int(offset["row"])

    def _check(self, start: Mapping[str, Any], extent: pb.ExtentReply) -> None:
        """That the rows after ``start`` are those that were meant when it was written, and are there."""
        query, row = self.options.query, self._row(start)
        if start["run"] != extent.run:
            text = f"narrows: query {query} is another one than that of the checkpoint"
            raise SinkError(f"{text}: the site began anew since, and its queries with it")
        if row < extent.first:
            text = f"narrows: query {query}: the checkpoint requires rows from {row} on"
            raise SinkError(f"{text}; those before {extent.first} were taken by another client and are not kept")
        if row > extent.end:
            text = f"narrows: query {query}: the checkpoint requires rows from {row} on"
            raise SinkError(f"{text}; the site has them only before {extent.end}: it was restored from a backup")
