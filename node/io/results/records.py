"""Checksummed records, one after the other in a file, and what a crash may have left of the last of them.

    head    40 bytes: mark, checksum of the head, checksum of the facts, size of the facts,
            how much of the file was durable before, number, size of the pieces
    facts   JSON, filled with spaces to a multiple of 8 bytes
    pieces  any number, each with its size and checksum in the facts

A record is there if all of it is. Only what was not synced when the writing ended may be missing at the end of a file:
a later record that tells it was durable makes of a torn tail what it is then, damage.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from node.storage.disk import Bytes, Disk
from node.storage.errors import StorageError, VersionError

MARK = b"rows"
_HEAD = struct.Struct("<4sIIIQQQ")
_HEAD_CRC = struct.Struct("<4sI")
_PIECES = "pieces"
#: Read at once where records are only looked at, not read.
_LOOK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class PieceAt:
    """Where a piece of a record is."""

    offset: int
    nbytes: int
    crc: int
    rows: int

    def check(self, data: Bytes, where: str) -> None:
        """That these are the bytes that were written; raises StorageError."""
        if len(data) != self.nbytes or zlib.crc32(data) != self.crc:
            raise StorageError(f"{where} at byte {self.offset} required a whole record; got damaged bytes")


@dataclass(frozen=True, slots=True)
class Found:
    """A record that is there."""

    number: int
    offset: int
    end: int
    facts: Mapping[str, Any]
    pieces: tuple[PieceAt, ...]


def encode(
    number: int, facts: Mapping[str, object], pieces: Sequence[tuple[Bytes, int]], at: int, synced: int
) -> tuple[list[Bytes], Found]:
    """The record in parts, to be written at ``at``; of each piece there are its bytes and its rows."""
    table = [(rows, len(data), zlib.crc32(data)) for data, rows in pieces]
    text = json.dumps({**facts, _PIECES: table}, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    nbytes = sum(size for _, size, _ in table)
    rest = _HEAD.pack(MARK, 0, zlib.crc32(text), len(text), synced, number, nbytes)
    head = _HEAD_CRC.pack(MARK, zlib.crc32(rest[_HEAD_CRC.size :])) + rest[_HEAD_CRC.size :]
    begin = at + _HEAD.size + len(text)
    found = Found(number, at, begin + nbytes, facts, _places(begin, table))
    return [head, text, *(data for data, _ in pieces)], found


def _places(offset: int, table: Sequence[Sequence[int]]) -> tuple[PieceAt, ...]:
    places = []
    for rows, nbytes, crc in table:
        places.append(PieceAt(offset, nbytes, crc, rows))
        offset += nbytes
    return tuple(places)


def scan(disk: Disk, name: str, begin: int, *, last: bool) -> Iterator[Found]:
    """The records of a file from ``begin`` on, in order. Of the ``last`` file of a kind, which may be torn, all is
    checked, and the first record that is not whole ends it; of others only what is needed to find the records.

    Raises StorageError, with file and place, where something is damaged.
    """
    size = disk.size(name)
    look = _Look(disk, name, size if last else _LOOK_BYTES)
    at = begin
    while at < size:
        found = _found(look, at, size, check=last)
        if found is None:
            if not last or _was_synced(look.read(at, size - at)[1:], at):
                raise StorageError(f"{disk.path}/{name} at byte {at} required a whole record; got damaged bytes")
            return
        yield found
        at = found.end


class _Look:
    """Bytes of a file, read some at a time."""

    def __init__(self, disk: Disk, name: str, nbytes: int) -> None:
        self._disk, self._name, self._nbytes = disk, name, nbytes
        self._at, self._data = 0, b""

    def read(self, at: int, nbytes: int) -> bytes:
        """Those bytes; fewer if the file ends before."""
        if not self._at <= at or at + nbytes > self._at + len(self._data):
            self._at, self._data = at, self._disk.read(self._name, at, max(nbytes, self._nbytes))
        return self._data[at - self._at : at - self._at + nbytes]


def _found(look: _Look, at: int, size: int, *, check: bool) -> Found | None:
    head = _head(look.read(at, _HEAD.size))
    if head is None:
        return None
    crc, nbytes, _, number, pieces_bytes = head
    begin = at + _HEAD.size + nbytes
    if begin + pieces_bytes > size:
        return None
    text = look.read(at + _HEAD.size, nbytes)
    if zlib.crc32(text) != crc:
        return None
    facts = json.loads(text)
    pieces = _places(begin, facts.pop(_PIECES))
    if check and any(zlib.crc32(look.read(piece.offset, piece.nbytes)) != piece.crc for piece in pieces):
        return None
    return Found(number, at, begin + pieces_bytes, facts, pieces)


def _head(head: bytes) -> tuple[int, int, int, int, int] | None:
    """Checksum and size of the facts, what was synced, number, size of the pieces; None if this is no whole head."""
    if len(head) < _HEAD.size or not head.startswith(MARK):
        return None
    _, crc, facts_crc, nbytes, synced, number, pieces_bytes = _HEAD.unpack(head)
    return (facts_crc, nbytes, synced, number, pieces_bytes) if crc == zlib.crc32(head[_HEAD_CRC.size :]) else None


def _was_synced(data: bytes, at: int) -> bool:
    """Whether a record in ``data``, which is what follows ``at``, tells that the byte there was durable before it."""
    place = data.find(MARK)
    while place >= 0:
        head = _head(data[place : place + _HEAD.size])
        if head is not None and head[2] > at:
            return True
        place = data.find(MARK, place + 1)
    return False


# -- what every file begins with ------------------------------------------------------------------

VERSION = 1
_FILE = struct.Struct("<8sII")
_FILE_MARK = b"narrows\n"
FILE_HEAD_BYTES = _FILE.size


def file_head() -> bytes:
    """What a file of records begins with."""
    return _FILE.pack(_FILE_MARK, VERSION, zlib.crc32(_FILE_MARK + VERSION.to_bytes(4, "little")))


def check_file_head(disk: Disk, name: str) -> None:
    """That it begins so; raises StorageError if it is something else, damaged, or of a version that we do not know."""
    data, where = disk.read(name, 0, _FILE.size), f"{disk.path}/{name}"
    if len(data) < _FILE.size or not data.startswith(_FILE_MARK):
        raise StorageError(f"{where} at byte 0 required a file of result rows; got one that begins with {data[:8]!r}")
    mark, version, crc = _FILE.unpack(data)
    if zlib.crc32(mark + version.to_bytes(4, "little")) != crc:
        raise StorageError(f"{where} at byte 8 required a version and its checksum; got damaged bytes")
    if version != VERSION:
        raise VersionError(f"{where} required version {VERSION} of the format of results; got version {version}")
