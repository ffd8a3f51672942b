"""Result rows at the sink, on disk between storing and a follower taking them.

Chunks are numbered. A follower acknowledges the number up to which it has kept
the rows; those are forgotten, so a detached follower misses nothing and memory
stays flat however slow it is. Files are cut into segments so that space comes back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

#: Chunks are cut to about this size, so that a follower sees rows soon and messages stay small.
CHUNK_BYTES_MAX = 1 << 20
SEGMENT_BYTES_MAX = 64 << 20


@dataclass(slots=True)
class _Segment:
    path: Path
    file: BinaryIO
    nbytes: int = 0
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class _Chunk:
    segment: _Segment
    offset: int
    nbytes: int


class Spool:
    """The rows of one query that no follower has taken yet."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segments = 0
        self._current: _Segment | None = None
        self._chunks: deque[_Chunk] = deque()
        #: Number of the oldest chunk that is kept.
        self.first = 0
        self.rows = 0
        self.nbytes = 0

    @property
    def end(self) -> int:
        """Number the next chunk will have."""
        return self.first + len(self._chunks)

    def append(self, rows: pa.RecordBatch) -> None:
        """Keep rows; raises OSError if the disk does not take them."""
        pieces = max(1, -(-rows.nbytes // CHUNK_BYTES_MAX))
        size = max(1, -(-rows.num_rows // pieces))
        for start in range(0, rows.num_rows, size):
            self._write(rows.slice(start, size).serialize())
        self.rows += rows.num_rows

    def _write(self, data: pa.Buffer) -> None:
        segment = self._current
        if segment is None or segment.nbytes >= SEGMENT_BYTES_MAX:
            segment = self._new_segment()
        left = memoryview(data)
        while left:
            # On a disk that is nearly full a write takes a part, and only the next one fails.
            left = left[segment.file.write(left) :]
        self._chunks.append(_Chunk(segment, segment.nbytes, data.size))
        segment.nbytes += data.size
        segment.chunks += 1
        self.nbytes += data.size

    def _new_segment(self) -> _Segment:
        path = self._folder / f"rows-{self._segments:06d}"
        self._segments += 1
        if self._current is not None and self._current.chunks == 0:
            self._remove(self._current)
        self._current = _Segment(path, path.open("w+b", buffering=0))
        return self._current

    def read(self, number: int) -> bytes:
        """The bytes of chunk ``number``."""
        chunk = self._chunks[number - self.first]
        with chunk.segment.path.open("rb") as file:
            file.seek(chunk.offset)
            return file.read(chunk.nbytes)

    def forget_before(self, number: int) -> None:
        """A follower has kept every chunk before ``number``."""
        while self.first < min(number, self.end):
            chunk = self._chunks.popleft()
            self.first += 1
            self.nbytes -= chunk.nbytes
            chunk.segment.chunks -= 1
            if chunk.segment.chunks == 0 and chunk.segment is not self._current:
                self._remove(chunk.segment)

    @staticmethod
    def _remove(segment: _Segment) -> None:
        segment.file.close()
        segment.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Forget everything."""
        segments = {id(chunk.segment): chunk.segment for chunk in self._chunks}
        if self._current is not None:
            segments[id(self._current)] = self._current
        for segment in segments.values():
            self._remove(segment)
        self._chunks.clear()
        self._current = None
