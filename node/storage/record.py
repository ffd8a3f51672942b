"""One sealed batch as bytes in a log.

    head    96 bytes: mark, checksum of the head, checksum of the body, size of the body,
            how much of the segment was durable before, first tick, end tick, number of the first tuple, rows,
            newest event time, and of the source: part and row where to go on, part and row that were read to
    body    event times (8 bytes a row), rows as Arrow IPC

The head has a checksum of its own, so a damaged size cannot be taken for a record that the end of the file cut off.
All parts are multiples of 8 bytes: Arrow reads them where they are.
Rows are one IPC message without schema, which the segment has once. If there are dictionaries among the columns they
are a whole IPC stream, because such a message has none.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from node.core.encoding.payload import from_plain, plain_type, to_plain
from node.core.streams.position import Position, SourcePlace
from node.core.streams.sealer import Batch
from node.core.streams.ticks import TICK_MIN, Span
from node.storage.disk import Bytes
from node.storage.errors import StorageError

MARK = b"batc"
_HEAD = struct.Struct("<4sIIIQqqqQqqqqq")
_HEAD_CRC = struct.Struct("<4sI")
HEAD_BYTES = _HEAD.size
BODY_BYTES_MAX = 2**32 - 1
#: For an event time, and a place in the source, that there is not.
_NO_TIME = TICK_MIN
_NOWHERE = (-1, -1, -1, -1)


@dataclass(frozen=True, slots=True)
class RecordHead:
    """What is known of a batch without its rows."""

    span: Span
    first: int
    rows: int
    body_bytes: int
    body_crc: int
    #: So many bytes of the segment were durable before this record was written.
    synced: int
    #: As of the batch.
    newest: int | None
    place: SourcePlace | None


def encode_record(batch: Batch, synced: int) -> list[Bytes]:
    """The record in pieces, to be written one after the other; raises StorageError if it is too large."""
    times = np.ascontiguousarray(batch.ts, "<i8").view(np.uint8).data
    rows = memoryview(_rows_bytes(batch.rows))
    nbytes = len(times) + len(rows)
    if nbytes > BODY_BYTES_MAX:
        raise StorageError(f"a batch required at most {BODY_BYTES_MAX} bytes to be logged; got {nbytes}")
    crc = zlib.crc32(rows, zlib.crc32(times))
    span = batch.span
    newest = _NO_TIME if batch.newest is None else batch.newest
    said = (batch.first, batch.rows.num_rows, newest, *_place_numbers(batch.place))
    rest = _HEAD.pack(MARK, 0, crc, nbytes, synced, span.first, span.end, *said)
    head = _HEAD_CRC.pack(MARK, _head_crc(rest)) + rest[_HEAD_CRC.size :]
    return [head, times, rows]


def decode_head(data: Bytes, offset: int) -> RecordHead | None:
    """The head at this place; None if there is none, or not a whole one."""
    head = bytes(data[offset : offset + HEAD_BYTES])
    if len(head) < HEAD_BYTES or not head.startswith(MARK):
        return None
    _, crc, body_crc, nbytes, synced, first_tick, end_tick, first, rows, newest, *place = _HEAD.unpack(head)
    if crc != _head_crc(head):
        return None
    span, newest_ts = Span(first_tick, end_tick), None if newest == _NO_TIME else newest
    return RecordHead(span, first, rows, nbytes, body_crc, synced, newest_ts, _place_of(*place))


def _place_numbers(place: SourcePlace | None) -> tuple[int, int, int, int]:
    if place is None:
        return _NOWHERE
    return place.resume.part, place.resume.row, place.read_to.part, place.read_to.row


def _place_of(part: int, row: int, read_part: int, read_row: int) -> SourcePlace | None:
    if part < 0:
        return None
    return SourcePlace(Position(part, row), Position(read_part, read_row))


def _head_crc(head: bytes) -> int:
    return zlib.crc32(head[_HEAD_CRC.size :], zlib.crc32(MARK))


def is_whole(head: RecordHead, body: Bytes) -> bool:
    """Whether this is the body that was written with the head."""
    return len(body) == head.body_bytes and zlib.crc32(body) == head.body_crc


def decode_batch(head: RecordHead, body: memoryview, schema: pa.Schema) -> Batch:
    """The batch; the body must be whole, and must not change: the batch is not a copy of it."""
    times = np.frombuffer(body, "<i8", head.rows)
    rows = _rows_of(pa.py_buffer(body[times.nbytes :]), schema)
    return Batch(head.span, rows, times, head.first, head.newest, head.place)


def _rows_bytes(rows: pa.RecordBatch) -> pa.Buffer:
    rows = _compact(rows)
    if not has_dictionary(rows.schema):
        return rows.serialize()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return sink.getvalue()


def _rows_of(data: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    if has_dictionary(schema):
        return pa.ipc.open_stream(data).read_next_batch()
    return pa.ipc.read_record_batch(data, schema)


def _compact(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Arrow writes all that a column of views can point to, even of a slice: make it point to its own rows only."""
    for place, kind in enumerate(rows.schema.types):
        if plain_type(kind) != kind and not pa.types.is_run_end_encoded(kind):
            rows = rows.set_column(place, rows.schema.field(place), from_plain(to_plain(rows.column(place)), kind))
    return rows


def has_dictionary(schema: pa.Schema) -> bool:
    """Whether a column, or something inside one, is encoded by a dictionary."""
    return any(_is_encoded(kind) for kind in schema.types)


def _is_encoded(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    if pa.types.is_run_end_encoded(kind):
        return _is_encoded(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _is_encoded(kind.storage_type)
    return any(_is_encoded(kind.field(place).type) for place in range(kind.num_fields))
