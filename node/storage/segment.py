"""A file of a log: a head with the schema, then records.

    head    24 bytes: mark, version, size of the schema, checksum of all the head, 4 bytes of zero
            the schema as Arrow IPC

A segment is called after the first tick of its first record, so that names are in the order of ticks. It gets its name
only when its head is durable: what a crash leaves unfinished has another name.
"""

from __future__ import annotations

import re
import struct
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from node.core.streams.log_extent import LoggedBatch
from node.core.streams.ticks import TICK_MIN, tick_text
from node.storage.disk import Bytes
from node.storage.errors import StorageError, VersionError
from node.storage.record import HEAD_BYTES, MARK, RecordHead, decode_head, is_whole

VERSION = 2
#: What a segment is called before its head is durable.
UNFINISHED = ".new"
_SUFFIX = ".log"
_NAME = re.compile(r"[0-9a-f]{16}\.log")
_MARK = b"narrows\n"
_HEAD = struct.Struct("<8sIII4x")


def segment_name(first_tick: int) -> str:
    """Sixteen digits that grow with the tick, which may be negative."""
    return f"{first_tick - TICK_MIN:016x}{_SUFFIX}"


def first_tick_of(name: str) -> int:
    """The tick that a segment is called after."""
    return int(name.removesuffix(_SUFFIX), 16) + TICK_MIN


def is_segment(name: str) -> bool:
    """Whether a file of this name is one."""
    return _NAME.fullmatch(name) is not None


@dataclass(slots=True)
class Segment:
    """What is known of a segment: where its durable records are. Three numbers a record, because there may be many."""

    name: str
    schema: pa.Schema
    first_tick: int
    #: How many bytes of it are durable.
    nbytes: int
    #: Of each record its end tick, where it begins, and its rows.
    ends: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))
    #: The head of the last record, if the segment was read and not written.
    last: RecordHead | None = None

    @property
    def end_tick(self) -> int:
        return self.ends[-1] if self.ends else self.first_tick

    def add(self, end_tick: int, nbytes: int, rows: int) -> None:
        """The next record is durable."""
        self.ends.append(end_tick)
        self.offsets.append(self.nbytes)
        self.counts.append(rows)
        self.nbytes += nbytes

    @property
    def rows(self) -> int:
        return sum(self.counts)

    def batches(self) -> Iterator[LoggedBatch]:
        """What is known of its batches, in order."""
        for place, end in enumerate(self.ends):
            nbytes = self.end_of(place) - self.offsets[place]
            yield LoggedBatch(self.first_of(place), end, self.counts[place], nbytes)

    def first_of(self, place: int) -> int:
        """The first tick of that record."""
        return self.ends[place - 1] if place else self.first_tick

    def place_of(self, tick: int) -> int:
        """Which record contains the tick; after the last one, if none does."""
        return bisect_right(self.ends, tick)

    def end_of(self, place: int) -> int:
        """Where that record ends."""
        return self.offsets[place + 1] if place + 1 < len(self.offsets) else self.nbytes


def encode_segment_head(schema: pa.Schema) -> bytes:
    """What a segment begins with."""
    data: bytes = schema.serialize().to_pybytes()
    data += bytes(-len(data) % 8)
    crc = zlib.crc32(data, zlib.crc32(_HEAD.pack(_MARK, VERSION, len(data), 0)))
    return _HEAD.pack(_MARK, VERSION, len(data), crc) + data


def read_segment(path: str, name: str, data: Bytes, last: bool) -> Segment:
    """Check a whole segment. Of the ``last`` one, what was not yet synced may be torn: ``nbytes`` is what remains.

    Raises StorageError if it is damaged otherwise, or of another version.
    """
    segment = read_segment_head(f"{path}/{name}", name, data)
    while segment.nbytes < len(data):
        at = segment.nbytes
        head = decode_head(data, at)
        end = at + HEAD_BYTES + (0 if head is None else head.body_bytes)
        if head is None or not is_whole(head, data[at + HEAD_BYTES : end]) or head.span.first != segment.end_tick:
            if not last or was_synced(data, at, segment.end_tick):
                required = f"a whole record of the batch from tick {tick_text(segment.end_tick)} on"
                raise StorageError(f"{path}/{name} at byte {at} required {required}; got damaged bytes")
            break
        segment.add(head.span.end, end - at, head.rows)
        segment.last = head
    return segment


def read_segment_head(path: str, name: str, data: Bytes) -> Segment:
    """A segment without its records. Raises StorageError if its head is damaged, or of another version."""
    if len(data) < _HEAD.size:
        raise StorageError(f"{path} at byte 0 required {_HEAD.size} bytes of head; got {len(data)}")
    mark, version, nbytes, crc = _HEAD.unpack(data[: _HEAD.size])
    if mark != _MARK:
        raise StorageError(f"{path} at byte 0 required the log of a stream; got a file that begins with {mark!r}")
    if version != VERSION:
        raise VersionError(f"{path} required version {VERSION} of the log's format; got version {version}")
    schema = data[_HEAD.size : _HEAD.size + nbytes]
    # The zeros at the end of the head are in no checksum, so they are looked at.
    padding = bytes(data[_HEAD.size - 4 : _HEAD.size])
    if any(padding) or zlib.crc32(schema, zlib.crc32(_HEAD.pack(mark, version, nbytes, 0))) != crc:
        raise StorageError(f"{path} at byte {_HEAD.size} required the schema of the log; got damaged bytes")
    return Segment(name, pa.ipc.read_schema(pa.py_buffer(schema)), first_tick_of(name), _HEAD.size + nbytes)


def was_synced(data: Bytes, at: int, tick: int) -> bool:
    """Whether a later record, of this tick or after, tells that the byte at this place was durable before it.

    Then the damage is no torn tail, and cutting there would lose what was confirmed.
    """
    whole = bytes(data)
    found = whole.find(MARK, at + 1)
    while found >= 0:
        head = decode_head(whole, found)
        if head is not None and head.synced > at and head.span.first >= tick:
            return True
        found = whole.find(MARK, found + 1)
    return False
