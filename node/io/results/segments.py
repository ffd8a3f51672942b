"""The files of a spool: rows in chunks, chunks in segments, so that space comes back when rows are forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from planner.model.errors import NarrowsError

#: Chunks are cut to about this size, so that a follower sees rows soon and messages stay small.
CHUNK_BYTES_MAX = 1 << 20
SEGMENT_BYTES_MAX = 64 << 20


class RowsForgottenError(NarrowsError):
    """Rows were asked for that are not kept any more."""


@dataclass(slots=True, eq=False)
class Segment:
    """A file with some chunks one after the other."""

    path: Path
    #: The thread that writes has these two: the open file, and where it ends.
    file: BinaryIO
    nbytes: int = 0
    #: Chunks in it that are not forgotten.
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """A chunk that is on disk."""

    segment: Segment
    offset: int
    data: pa.Buffer
    rows: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a segment: where they are, and which they are."""

    segment: Segment
    offset: int
    nbytes: int
    first_row: int
    rows: int
    #: Bytes of all chunks before it, also of those that are forgotten.
    position: int

    @property
    def end_row(self) -> int:
        """The number of the first row behind it."""
        return self.first_row + self.rows


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one chunk, and where they are. Reading it needs nothing of the spool, so it may be done in a thread."""

    first_row: int
    end_row: int
    nbytes: int
    _chunk: Chunk
    _schema: pa.Schema

    @property
    def path(self) -> Path:
        return self._chunk.segment.path

    def read(self, file: BinaryIO) -> pa.RecordBatch:
        """The rows, from the file at ``path``."""
        rows = pa.ipc.read_record_batch(pa.py_buffer(self._whole(file)), self._schema)
        return rows.slice(self.first_row - self._chunk.first_row, self.end_row - self.first_row)

    def load(self) -> bytes:
        """The rows as they are sent. Raises RowsForgottenError if they were forgotten since they were asked for."""
        if (self.first_row, self.end_row) == (self._chunk.first_row, self._chunk.end_row):
            with _opened(self.path, self.first_row, self.end_row) as file:
                return self._whole(file)
        (rows,) = read_pieces([self])
        return rows.serialize().to_pybytes()  # type: ignore[no-any-return]

    def _whole(self, file: BinaryIO) -> bytes:
        file.seek(self._chunk.offset)
        data = file.read(self._chunk.nbytes)
        if len(data) != self._chunk.nbytes:
            raise OSError(f"{self.path} requires {self._chunk.nbytes} bytes at {self._chunk.offset}; got {len(data)}")
        return data


def read_pieces(pieces: Sequence[Piece]) -> list[pa.RecordBatch]:
    """The rows of each; raises RowsForgottenError if some were forgotten since the pieces were asked for."""
    found = []
    for path, group in groupby(pieces, lambda piece: piece.path):
        together = list(group)
        with _opened(path, together[0].first_row, together[-1].end_row) as file:
            found += [piece.read(file) for piece in together]
    return found


def _opened(path: Path, first_row: int, end_row: int) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise RowsForgottenError(f"rows {first_row} to {end_row - 1} were taken meanwhile") from None


class SegmentFiles:
    """The files of a spool: all that is done to them is done by the thread that does file work."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: How many there ever were, and those that are there, in their order.
        self._count = 0
        self._segments: dict[Segment, None] = {}
        self.current: Segment | None = None

    def append(self, batches: Sequence[pa.RecordBatch]) -> list[Written]:
        """Write rows, all or none; raises OSError if the disk does not take them."""
        before, nbytes = self.current, 0 if self.current is None else self.current.nbytes
        try:
            written = [
                self._write(piece.serialize(), piece.num_rows)
                for rows in _joined(batches)
                for piece in _pieces_of(rows)
            ]
        except Exception:
            self._return_to(before, nbytes)
            raise
        # Only the last one is written to from now on.
        for segment in (before, *(chunk.segment for chunk in written)):
            if segment is not None and segment is not self.current:
                segment.file.close()
        return written

    def _return_to(self, segment: Segment | None, nbytes: int) -> None:
        """Give back what was written since that segment was the last and had so many bytes."""
        while self._segments and (last := next(reversed(self._segments))) is not segment:
            self.remove(last)
        self.current = segment
        if segment is not None:
            segment.nbytes = nbytes
            segment.file.truncate(nbytes)
            segment.file.seek(nbytes)

    def _write(self, data: pa.Buffer, rows: int) -> Written:
        segment = self.current
        if segment is None or segment.nbytes >= SEGMENT_BYTES_MAX:
            segment = self._new_segment()
        left = memoryview(data)
        while left:
            # On a disk that is nearly full a write takes a part, and only the next one fails.
            left = left[segment.file.write(left) :]
        offset, segment.nbytes = segment.nbytes, segment.nbytes + data.size
        return Written(segment, offset, data, rows)

    def _new_segment(self) -> Segment:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"rows-{self._count:06d}"
        self.current = Segment(path, path.open("w+b", buffering=0))
        self._count += 1
        self._segments[self.current] = None
        return self.current

    def finish(self) -> None:
        """No more rows will come, so no file stays open."""
        if self.current is not None:
            self.current.file.close()
            self.current = None

    def remove(self, segment: Segment) -> None:
        self._segments.pop(segment, None)
        segment.file.close()
        segment.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all of them, and the folder."""
        for segment in list(self._segments):
            self.remove(segment)
        self.current = None
        with suppress(OSError):  # an earlier life may have left something there
            self._folder.rmdir()


def _joined(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows that are few together with those behind them, so that they are one chunk and one write."""
    group: list[pa.RecordBatch] = []
    nbytes = 0
    for rows in batches:
        if group and nbytes + rows.nbytes > CHUNK_BYTES_MAX:
            yield pa.concat_batches(group) if len(group) > 1 else group[0]
            group, nbytes = [], 0
        group.append(rows)
        nbytes += rows.nbytes
    if group:
        yield pa.concat_batches(group) if len(group) > 1 else group[0]


def _pieces_of(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows that are many cut into chunks."""
    pieces = max(1, -(-rows.nbytes // CHUNK_BYTES_MAX))
    size = max(1, -(-rows.num_rows // pieces))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)
