"""Replay of bounded files as streams.

Blocking by design: a daemon calls this from a worker thread, one thread at a time per source. Memory
does not grow with the file. Parquet is read in batches of about 8 MiB. Arrow's text readers read up to 32
blocks ahead, with no option to change it: at 8 MiB each, an open text file of that size holds about 300 MiB
(measured with Arrow 26). Smaller blocks hold less, but then types are guessed from less and long lines
do not fit. Streams that share a small machine should be Parquet.

What leaves this module is plain Arrow: dictionaries decoded, views and extension types replaced by what
they stand for, metadata dropped. Two sites may write one column in different encodings, and a join must
not care.

Text files (CSV, JSON lines) are typed from their first 8 MiB. When a later value does not fit, the source
stops with an error: guessing again would give one column two meanings within one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from node.config import ClusterConfig, ConfigError, Problem, SourceFormat, StreamConfig, shown
from planner.model import StreamInfo, TimeUnit

# Event times stay below this in absolute value, so that adding a window or converting never overflows.
TS_LIMIT = 2**62
# Lower than every event time: the running maximum before the first one.
BEFORE_ALL = -TS_LIMIT

_BLOCK_BYTES = 8 << 20
_BATCH_ROWS = 65_536
_COLUMNS_SHOWN = 30
_TIMESTAMP_UNITS = {"s": TimeUnit.MS, "ms": TimeUnit.MS, "us": TimeUnit.US, "ns": TimeUnit.NS}
_REQUIRED = {
    SourceFormat.PARQUET: "an intact Parquet file",
    SourceFormat.CSV: "a CSV file: a header line, then rows with as many values as it has names",
    SourceFormat.JSONL: "a file of JSON lines, one object per line",
}
_ONE_TYPE = (
    f"each column of one type (taken from the first {_BLOCK_BYTES >> 20} MiB; "
    "make the values alike or convert the file to Parquet)"
)

_MICRO_BATCH = (
    "an intact micro-batch with the types that Spark announced, and text in UTF-8 "
    "(make_valid_utf8(...) in select makes it so)"
)


class SourceError(ConfigError):
    """A stream's file is missing, broken or not what the configuration says it is."""


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


@dataclass(frozen=True, slots=True)
class _Reader:
    """An open file: its schema as written, and its batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    close: Callable[[], None]


class ReplaySource:
    """One file as a stream, in file order. Made by ``open_source``.

    The next batch is always read ahead, so ``ended`` comes with the last rows and ``next_due_ts``
    costs nothing. An error met while reading ahead is kept until the rows before it are handed out.
    """

    def __init__(self, stream: StreamConfig, reader: _Reader, info: StreamInfo, head: pa.RecordBatch | None) -> None:
        self.info = info
        self._stream = stream
        self._reader = reader
        self._page: _Page | None = None
        self._failure: SourceError | None = None
        self._max_ts = BEFORE_ALL
        self._closed = False
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
        return self._cut(min(rows_max, self._page.due_by(until_ts) if self._page is not None else 0))

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
            with _arrow_errors(self._stream):
                self._set_page(_next_filled(self._reader.batches))
        except SourceError as error:
            self._failure = error

    def _set_page(self, raw: pa.RecordBatch | None) -> None:
        if raw is None:
            return
        rows = plain_batch(raw, self.info.schema)
        rows.validate(full=True)
        ts = event_times(rows.column(self.info.ts))
        times = ts.fill_null(BEFORE_ALL).to_numpy(zero_copy_only=False)
        due = np.maximum(np.maximum.accumulate(times), self._max_ts)
        self._max_ts = int(due[-1])
        self._page = _Page(rows, ts, due)

    def _find_first_ts(self) -> int | None:
        """The first valid event time. Rarely beyond the first batch, so only then is the file read twice."""
        if self._page is None:
            return None
        first = _first_valid(self._page.ts)
        return first if first is not None else _scan_first_ts(self._stream, self.info)


def open_source(stream: StreamConfig) -> ReplaySource:
    """Open a stream's file for replay; SourceError when it is not what the configuration says."""
    _check_file(stream)
    with _arrow_errors(stream):
        reader = _open_reader(stream)
    try:
        with _arrow_errors(stream):
            _check_names(stream, reader.schema)
            head = _next_filled(reader.batches)
            return ReplaySource(stream, reader, _stream_info(stream, reader.schema, empty=head is None), head)
    except BaseException:
        reader.close()
        raise


def open_batch(stream: StreamConfig, info: StreamInfo, path: Path) -> ReplaySource:
    """Open a micro-batch that Spark wrote; SourceError when it is not one of this stream."""
    at = replace(stream, path=path)
    with _arrow_errors(at):
        reader = _open_parquet(str(path))
    try:
        if reader.schema.names != info.schema.names:
            required = f"micro-batches with the columns {_listed(info.schema.names)}"
            raise _error(at, "select", required, _listed(reader.schema.names))
        with _arrow_errors(at):
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


def _error(stream: StreamConfig, key: str, required: str, got: str) -> SourceError:
    return SourceError(Problem(str(stream.path), f"{stream.key}.{key}", required, got))


def _check_file(stream: StreamConfig) -> None:
    """Whether there is a file that can be read: Arrow's own messages for this name no key."""
    required = f"a readable {stream.format} file"
    try:
        if stream.path.is_dir():
            raise _error(stream, "path", required, "a directory")
        if stream.path.exists() and not stream.path.is_file():
            raise _error(stream, "path", required, "something that is not a regular file")
        with stream.path.open("rb"):
            pass
    except FileNotFoundError:
        raise _error(stream, "path", required, "no such file") from None
    except OSError as error:
        raise _error(stream, "path", required, error.strerror or str(error)) from None


@contextmanager
def _arrow_errors(stream: StreamConfig) -> Iterator[None]:
    """Whatever Arrow finds wrong while reading, as a SourceError."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if stream.spark is not None:
            raise _error(stream, "spark", _MICRO_BATCH, str(error)) from error
        required = _REQUIRED[stream.format]
        if stream.format is not SourceFormat.PARQUET:
            required += f"; {_ONE_TYPE}"
        raise _error(stream, "path", required, str(error)) from error


def _open_reader(stream: StreamConfig) -> _Reader:
    file = str(stream.path)
    if stream.format is SourceFormat.PARQUET:
        return _open_parquet(file)
    if stream.format is SourceFormat.CSV:
        text = pyarrow.csv.open_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        )
    else:
        text = pyarrow.json.open_json(file, read_options=pyarrow.json.ReadOptions(block_size=_BLOCK_BYTES))
    return _Reader(text.schema, iter(text), text.close)


def _open_parquet(file: str) -> _Reader:
    """Read through a small buffer: without one Arrow holds whole column chunks, however large.

    Page checksums are verified where the writer stored them (Arrow does neither by default). Without
    them a damaged page can decode to wrong values, and nothing here can notice.
    """
    parquet = pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
    batches = parquet.iter_batches(batch_size=_parquet_batch_rows(parquet.metadata))
    return _Reader(parquet.schema_arrow, batches, parquet.close)


def _parquet_batch_rows(metadata: Any) -> int:
    """Rows that make about one block, so that wide rows do not make large batches."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    widest = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return int(max(1, min(_BATCH_ROWS, _BLOCK_BYTES // max(widest, 1))))


def _next_filled(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _check_names(stream: StreamConfig, schema: pa.Schema) -> None:
    names = schema.names
    doubles = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    key, what = ("path", "file") if stream.spark is None else ("select", "stream")
    if doubles:
        got = f"{_listed(doubles)} more than once"
        raise _error(stream, key, f"a {what} in which every column has its own name", got)
    if stream.ts not in names:
        got = f"{shown(stream.ts)}; the {what} has {_listed(names)}"
        raise _error(stream, "ts", f"a column of the {what}", got)


def _listed(names: list[str]) -> str:
    if not names:
        return "no columns"
    more = f" and {len(names) - _COLUMNS_SHOWN} more" if len(names) > _COLUMNS_SHOWN else ""
    return ", ".join(shown(name) for name in names[:_COLUMNS_SHOWN]) + more


def _stream_info(stream: StreamConfig, schema: pa.Schema, *, empty: bool) -> StreamInfo:
    schema = plain_schema(schema)
    position = schema.get_field_index(stream.ts)
    if empty and pa.types.is_null(schema.field(position).type):
        # A text file without rows says nothing about types; an empty stream is still a stream.
        schema = schema.set(position, pa.field(stream.ts, pa.int64()))
    return StreamInfo(stream.name, stream.site, schema, stream.ts, _time_unit(stream, schema.field(position).type))


def _time_unit(stream: StreamConfig, kind: pa.DataType) -> TimeUnit:
    if pa.types.is_integer(kind):
        return TimeUnit.MS if stream.unit is None else stream.unit
    if not pa.types.is_timestamp(kind):
        raise _error(stream, "ts", "an integer or timestamp column", f"{shown(stream.ts)} of type {kind}")
    if stream.unit is not None:
        got = f'"{stream.unit.name.lower()}", but {shown(stream.ts)} is of type {kind}'
        raise _error(stream, "unit", "no unit for a timestamp column, whose type has one", got)
    return _TIMESTAMP_UNITS[kind.unit]


def _first_valid(ts: pa.Int64Array) -> int | None:
    valid = ts.drop_null()
    return int(valid[0].as_py()) if len(valid) else None


def _scan_first_ts(stream: StreamConfig, info: StreamInfo) -> int | None:
    reader = _open_reader(stream)
    kind = info.schema.field(info.ts).type
    try:
        for batch in reader.batches:
            first = _first_valid(event_times(plain_array(batch.column(info.ts), kind)))
            if first is not None:
                return first
    finally:
        reader.close()
    return None


def event_times(column: pa.Array) -> pa.Int64Array:
    """A ts column as whole units; seconds become milliseconds. Out of range becomes null (see Chunk).

    Timestamps with a timezone are instants already; those without are taken as UTC.
    """
    kind = column.type
    scale = 1_000 if pa.types.is_timestamp(kind) and kind.unit == "s" else 1
    limit = (TS_LIMIT - 1) // scale
    if pa.types.is_uint64(kind):
        inside = pc.less_equal(column, pa.scalar(limit, pa.uint64()))
        return pc.if_else(inside, column, pa.scalar(None, pa.uint64())).cast(pa.int64())
    times = column.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(times, -limit), pc.less_equal(times, limit))
    return pc.multiply(pc.if_else(inside, times, pa.scalar(None, pa.int64())), scale)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that ``plain_batch`` gives: no encodings, no metadata."""
    return pa.schema([_plain_field(field) for field in schema])


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the same values without encoding: what a dictionary, view or extension stands for."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    return _plain_nested_type(kind) if types.is_nested(kind) else kind


def _plain_nested_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_list(kind) or types.is_list_view(kind):
        return pa.list_(_plain_field(kind.value_field))
    if types.is_large_list(kind) or types.is_large_list_view(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), kind.keys_sorted)
    if types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    return kind


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of ``schema``, which is its own schema made plain."""
    columns = [plain_array(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same values as ``target``, the plain type of this array.

    Nested arrays are rebuilt here and not by Arrow's cast: in Arrow 26 a cast from list_view to list
    ignores the sizes and silently loses values (apache/arrow#50994).
    """
    if array.type.equals(target, check_metadata=True):
        return array
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage, target)
    if isinstance(array, pa.DictionaryArray):
        return plain_array(array.dictionary_decode(), target)
    if pa.types.is_nested(target):
        return _plain_nested(array, target)
    return array.cast(target)


def _plain_nested(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_struct(target):
        children = [plain_array(array.field(index), field.type) for index, field in enumerate(target)]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
    if pa.types.is_fixed_size_list(target):
        size = target.list_size
        values = plain_array(array.values.slice(array.offset * size, len(array) * size), target.value_type)
        return pa.FixedSizeListArray.from_arrays(values, type=target, mask=array.is_null())
    if pa.types.is_map(target):
        return _plain_map(array, target)
    large = pa.types.is_large_list(target)
    sizes = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = _offsets(sizes, pa.int64() if large else pa.int32())
    values = plain_array(array.flatten(), target.value_type)
    kind = pa.LargeListArray if large else pa.ListArray
    return kind.from_arrays(offsets, values, type=target, mask=array.is_null())


def _plain_map(array: pa.MapArray, target: pa.DataType) -> pa.Array:
    """Arrow cannot flatten a map, so the part of its entries that this slice covers is cut out."""
    offsets = array.offsets.to_numpy()
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = plain_array(array.keys.slice(start, length), target.key_type)
    items = plain_array(array.items.slice(start, length), target.item_type)
    return pa.MapArray.from_arrays(pa.array(offsets - start), keys, items, type=target, mask=array.is_null())


def _offsets(sizes: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    ends = np.cumsum(sizes, dtype=np.int64)
    return pa.array(np.concatenate([np.zeros(1, np.int64), ends])).cast(kind)
