"""Replay of bounded files as streams.

Blocking by design: a daemon calls this from a worker thread, one thread at a time per source. ``readers`` opens the
files; what leaves this module is plain Arrow (``plain_types``), with an event time for every row that has one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from node.config import ClusterConfig, ConfigError, Problem, StreamConfig, shown
from node.io.sources.jumps import BEFORE_ALL, TS_LIMIT, JumpWatch
from node.io.sources.plain_types import plain_array, plain_batch, plain_schema
from node.io.sources.readers import (
    Reader,
    SourceError,
    arrow_errors,
    check_file,
    listed,
    open_parquet,
    open_reader,
    source_error,
)
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit

_TIMESTAMP_UNITS = {"s": TimeUnit.MS, "ms": TimeUnit.MS, "us": TimeUnit.US, "ns": TimeUnit.NS}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows of a stream.

    ``ts`` holds their event times in the stream's unit. It is null where the column is null, and
    where the time is not below 2**62 in absolute value; such rows have no place in event time and
    are for the caller to reject. ``ended`` says that no row follows.
    """

    rows: pa.RecordBatch
    ts: pa.Int64Array
    ended: bool


@dataclass(slots=True)
class _Page:
    """A batch that is being handed out; ``due`` is the running maximum of ts at each of its rows."""

    rows: pa.RecordBatch
    ts: pa.Int64Array
    due: npt.NDArray[np.int64]
    position: int = 0

    @property
    def left(self) -> int:
        return int(self.rows.num_rows) - self.position

    def due_by(self, until_ts: int) -> int:
        """How many unread rows are due; ``due`` never falls, so a binary search finds it."""
        bound = max(min(until_ts, TS_LIMIT), BEFORE_ALL - 1)
        return int(np.searchsorted(self.due[self.position :], bound, side="right"))


class ReplaySource:
    """One file as a stream, in file order. Made by ``open_source``.

    The next batch is always read ahead, so ``ended`` comes with the last rows and ``next_due_ts``
    costs nothing. An error met while reading ahead is kept until the rows before it are handed out.
    """

    def __init__(
        self,
        stream: StreamConfig,
        reader: Reader,
        info: StreamInfo,
        head: pa.RecordBatch | None,
        jumps: JumpWatch | None = None,
    ) -> None:
        """``jumps`` is asked about every row, unless a clock says what is too far ahead."""
        self.info = info
        self._stream = stream
        self._reader = reader
        self._page: _Page | None = None
        self._failure: SourceError | None = None
        self._max_ts = BEFORE_ALL
        self._closed = False
        self._jumps = jumps
        self._set_page(head)
        self.first_ts: int | None = self._find_first_ts()

    @property
    def next_due_ts(self) -> int | None:
        """The running maximum of ts that the next unread row will have; None at the end.

        Rows before the first valid ts are due at once: they give ``BEFORE_ALL``. So is an error
        that waits to be raised: it gives the maximum so far.
        """
        if self._page is not None:
            return int(self._page.due[self._page.position])
        return self._max_ts if self._failure is not None else None

    def read(self, rows_max: int) -> Chunk:
        """The next rows: at most ``rows_max``, fewer where a batch of the file ends, none only at the end."""
        self._check_call(rows_max)
        return self._cut(min(rows_max, self._page.left if self._page is not None else 0))

    def read_due(self, until_ts: int, rows_max: int) -> Chunk:
        """The next rows like ``read``, up to the first whose running maximum of ts exceeds ``until_ts``.

        May be shorter than what is due where a batch of the file ends; ``next_due_ts`` tells.
        """
        self._check_call(rows_max)
        due = self._page.due_by(until_ts) if self._page is not None else 0
        if self._page is not None and not due and self._jumps is not None:
            # Who waits for a row from the far future would wait until then.
            self._jumps.check()
        return self._cut(min(rows_max, due))

    def skip(self, rows: int) -> None:
        """Pass over the next rows, as far as there are so many."""
        while rows > 0 and (chunk := self.read(rows)).rows.num_rows:
            rows -= chunk.rows.num_rows

    def close(self) -> None:
        """Release the file; chunks that were read stay valid."""
        if not self._closed:
            self._closed = True
            self._page = None
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_call(self, rows_max: int) -> None:
        if rows_max < 1:
            raise ValueError(f"rows_max must be at least 1, not {rows_max}")
        if self._closed:
            raise ValueError(f"the source of {self._stream.key} is closed")
        if self._page is None and self._failure is not None:
            raise self._failure

    def _cut(self, count: int) -> Chunk:
        page = self._page
        if page is None:
            return Chunk(_no_rows(self.info.schema), pa.array([], pa.int64()), ended=True)
        rows, ts = page.rows.slice(page.position, count), page.ts.slice(page.position, count)
        page.position += count
        if not page.left:
            self._read_ahead()
        return Chunk(rows, ts, ended=self._page is None and self._failure is None)

    def _read_ahead(self) -> None:
        self._page = None
        try:
            with arrow_errors(self._stream):
                self._set_page(_next_filled(self._reader.batches))
                if self._page is None and self._jumps is not None:
                    self._jumps.check()
        except SourceError as error:
            self._failure = error

    def _set_page(self, raw: pa.RecordBatch | None) -> None:
        if raw is None:
            return
        rows = plain_batch(raw, self.info.schema)
        rows.validate(full=True)
        ts = event_times(rows.column(self.info.ts), self._stream.ts_scale)
        times = ts.fill_null(BEFORE_ALL).to_numpy(zero_copy_only=False)
        due = np.maximum(np.maximum.accumulate(times), self._max_ts)
        if self._jumps is not None:
            self._jumps.add(times, due)
        self._max_ts = int(due[-1])
        self._page = _Page(rows, ts, due)

    def _find_first_ts(self) -> int | None:
        """The first valid event time. Rarely beyond the first batch, so only then is the file read twice."""
        if self._page is None:
            return None
        first = _first_valid(self._page.ts)
        return first if first is not None else _scan_first_ts(self._stream, self.info)


def open_source(stream: StreamConfig, skip: int = 0) -> ReplaySource:
    """Open a stream's file for replay after ``skip`` rows; SourceError when it is not what the configuration says."""
    check_file(stream)
    with arrow_errors(stream):
        reader = open_reader(stream, skip)
    try:
        with arrow_errors(stream):
            _check_names(stream, reader.schema)
            head = _next_filled(reader.batches)
            info = _stream_info(stream, reader.schema, empty=head is None)
            source = ReplaySource(stream, reader, info, head, JumpWatch(stream, info))
        source.skip(skip - reader.skipped)
        return source
    except BaseException:
        reader.close()
        raise


def open_batch(stream: StreamConfig, info: StreamInfo, path: Path) -> ReplaySource:
    """Open a micro-batch that Spark wrote; SourceError when it is not one of this stream."""
    at = replace(stream, path=path)
    with arrow_errors(at):
        reader = open_parquet(str(path))
    try:
        if reader.schema.names != info.schema.names:
            required = f"micro-batches with the columns {listed(info.schema.names)}"
            raise source_error(at, "select", required, listed(reader.schema.names))
        with arrow_errors(at):
            return ReplaySource(at, reader, info, _next_filled(reader.batches))
    except BaseException:
        reader.close()
        raise


def stream_info(stream: StreamConfig, schema: pa.Schema) -> StreamInfo:
    """What the core knows of a stream that Spark reads; SourceError when it has not what the configuration says."""
    _check_names(stream, schema)
    return _stream_info(stream, schema, empty=False)


def check_sources(config: ClusterConfig, sites: Iterable[str]) -> dict[str, StreamInfo]:
    """Open every file of these sites' streams once; one ConfigError with all problems, else what was found.

    Streams that Spark reads are left out: only Spark can tell what they are.
    """
    problems: list[Problem] = []
    infos: dict[str, StreamInfo] = {}
    for name in dict.fromkeys(sites):
        try:
            streams = config.site(name).streams
        except ConfigError as error:
            problems += error.problems
            continue
        for stream in [stream for stream in streams if stream.spark is None]:
            try:
                with open_source(stream) as source:
                    infos[stream.name] = source.info
            except ConfigError as error:
                problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return infos


def _next_filled(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _check_names(stream: StreamConfig, schema: pa.Schema) -> None:
    names = schema.names
    doubles = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    key, what = ("path", "file") if stream.spark is None else ("select", "stream")
    if doubles:
        got = f"{listed(doubles)} more than once"
        raise source_error(stream, key, f"a {what} in which every column has its own name", got)
    if stream.ts not in names:
        near = difflib.get_close_matches(stream.ts.strip().casefold(), [name.strip().casefold() for name in names], n=1)
        meant = next((f" (did you mean {shown(name)}?)" for name in names if [name.strip().casefold()] == near), "")
        got = f"{shown(stream.ts)}; the {what} has {listed(names)}{meant}"
        raise source_error(stream, "ts", f"a column of the {what}", got)


def _stream_info(stream: StreamConfig, schema: pa.Schema, *, empty: bool) -> StreamInfo:
    schema = plain_schema(schema)
    position = schema.get_field_index(stream.ts)
    if empty and pa.types.is_null(schema.field(position).type):
        # A text file without rows says nothing about types; an empty stream is still a stream.
        schema = schema.set(position, pa.field(stream.ts, pa.int64()))
    unit = _time_unit(stream, schema.field(position).type)
    return StreamInfo(stream.name, stream.site, schema, stream.ts, unit, stream.ts_scale)


def _time_unit(stream: StreamConfig, kind: pa.DataType) -> TimeUnit:
    if pa.types.is_integer(kind):
        return TimeUnit.MS if stream.unit is None else stream.unit
    if not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
        required = 'a column of integers, of dates, or of times such as "2026-05-01 12:30:00"'
        raise source_error(stream, "ts", required, f"{shown(stream.ts)} of type {kind}")
    if stream.unit is not None:
        got = f'"{stream.unit.name.lower()}", but {shown(stream.ts)} is of type {kind}'
        raise source_error(stream, "unit", "no unit for a timestamp column, whose type has one", got)
    return TimeUnit.MS if pa.types.is_date(kind) else _TIMESTAMP_UNITS[kind.unit]


def _first_valid(ts: pa.Int64Array) -> int | None:
    valid = ts.drop_null()
    return int(valid[0].as_py()) if len(valid) else None


def _scan_first_ts(stream: StreamConfig, info: StreamInfo) -> int | None:
    reader = open_reader(stream)
    kind = info.schema.field(info.ts).type
    try:
        for batch in reader.batches:
            first = _first_valid(event_times(plain_array(batch.column(info.ts), kind), stream.ts_scale))
            if first is not None:
                return first
    finally:
        reader.close()
    return None


def event_times(column: pa.Array, scale: int = 1) -> pa.Int64Array:
    """A ts column as whole units; seconds and dates become milliseconds. Out of range becomes null (see Chunk).

    Timestamps with a timezone are instants already; those without, and dates, are taken as UTC. ``scale``: how many
    units an integer counts.
    """
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    kind = column.type
    scale = 1_000 if pa.types.is_timestamp(kind) and kind.unit == "s" else scale
    limit = (TS_LIMIT - 1) // scale
    if pa.types.is_uint64(kind):
        small = pc.less_equal(column, pa.scalar(limit, pa.uint64()))
        times = pc.if_else(small, column, pa.scalar(None, pa.uint64())).cast(pa.int64())
    else:
        times = column.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(times, -limit), pc.less_equal(times, limit))
    return pc.multiply(pc.if_else(inside, times, pa.scalar(None, pa.int64())), scale)
