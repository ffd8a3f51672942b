"""Result rows at the sink, on disk from when they are stored until whoever wants them has taken them.

Rows are numbered from 0 in the order in which they were stored, and lie in numbered chunks. Neither number ever
means something else, so a reader that was interrupted asks for the same numbers again and gets the same rows. Whoever
has kept rows says up to which number they are taken; those are forgotten, so a detached follower misses nothing and
memory stays flat however slow it is. A spool that keeps only notes how far rows are taken. Files are cut into segments
so that space comes back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from planner.errors import NarrowsError

#: Chunks are cut to about this size, so that a follower sees rows soon and messages stay small.
CHUNK_BYTES_MAX = 1 << 20
SEGMENT_BYTES_MAX = 64 << 20
#: Forgotten entries of the chunk list are cut off once there are this many, and as many as others.
_GONE_MIN = 256


class RowsForgottenError(NarrowsError):
    """Rows were asked for that are not kept any more."""


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
    first_row: int
    rows: int
    #: Bytes of all chunks before it, also of those that are forgotten.
    position: int

    @property
    def end_row(self) -> int:
        return self.first_row + self.rows


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one chunk, and where they are. Reading it needs nothing of the spool, so it may be done in a thread."""

    first_row: int
    end_row: int
    nbytes: int
    _chunk: _Chunk
    _schema: pa.Schema

    @property
    def path(self) -> Path:
        return self._chunk.segment.path

    def read(self, file: BinaryIO) -> pa.RecordBatch:
        """The rows, from the file at ``path``."""
        chunk = self._chunk
        file.seek(chunk.offset)
        rows = pa.ipc.read_record_batch(pa.py_buffer(file.read(chunk.nbytes)), self._schema)
        return rows.slice(self.first_row - chunk.first_row, self.end_row - self.first_row)


def read_pieces(pieces: Sequence[Piece]) -> list[pa.RecordBatch]:
    """The rows of each; raises RowsForgottenError if some were forgotten since the pieces were asked for."""
    found = []
    for path, group in groupby(pieces, lambda piece: piece.path):
        together = list(group)
        try:
            with path.open("rb", buffering=0) as file:
                found += [piece.read(file) for piece in together]
        except FileNotFoundError:
            text = f"rows {together[0].first_row} to {together[-1].end_row - 1} were taken meanwhile"
            raise RowsForgottenError(text) from None
    return found


class Spool:
    """The rows of one query that nobody has taken yet; with ``keep`` those too that were."""

    def __init__(self, folder: Path, keep: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.keep = keep
        self._segments = 0
        self._current: _Segment | None = None
        #: The first ``_gone`` of them are forgotten: a list is searched by row, and cut now and then.
        self._chunks: list[_Chunk | None] = []
        self._gone = 0
        self._schema: pa.Schema | None = None
        #: Number of the oldest chunk that is kept, or was not yet taken whole.
        self.first = 0
        #: Rows before this number are taken.
        self.taken = 0
        #: Number the next row will have: how many were ever stored.
        self.rows = 0
        #: Bytes that are kept, and that were ever written.
        self.nbytes = 0
        self.written = 0

    @property
    def end(self) -> int:
        """Number the next chunk will have."""
        return self.first + len(self._chunks) - self._gone

    @property
    def first_row(self) -> int:
        """Number of the oldest row that can still be read."""
        return 0 if self.keep else self.taken

    @property
    def taken_chunk(self) -> int:
        """The chunk of the oldest row that is not taken."""
        return self._chunk_of(self.taken)

    def append(self, rows: pa.RecordBatch) -> None:
        """Keep rows; raises OSError if the disk does not take them."""
        self._schema = rows.schema
        pieces = max(1, -(-rows.nbytes // CHUNK_BYTES_MAX))
        size = max(1, -(-rows.num_rows // pieces))
        for start in range(0, rows.num_rows, size):
            piece = rows.slice(start, size)
            self._write(piece.serialize(), piece.num_rows)

    def _write(self, data: pa.Buffer, rows: int) -> None:
        segment = self._current
        if segment is None or segment.nbytes >= SEGMENT_BYTES_MAX:
            segment = self._new_segment()
        left = memoryview(data)
        while left:
            # On a disk that is nearly full a write takes a part, and only the next one fails.
            left = left[segment.file.write(left) :]
        self._chunks.append(_Chunk(segment, segment.nbytes, data.size, self.rows, rows, self.written))
        segment.nbytes += data.size
        segment.chunks += 1
        self.rows += rows
        self.nbytes += data.size
        self.written += data.size

    def _new_segment(self) -> _Segment:
        path = self._folder / f"rows-{self._segments:06d}"
        self._segments += 1
        if self._current is not None and self._current.chunks == 0:
            self._remove(self._current)
        self._current = _Segment(path, path.open("w+b", buffering=0))
        return self._current

    # -- reading ------------------------------------------------------------------------------

    def read(self, number: int, from_row: int = 0) -> bytes:
        """The bytes of chunk ``number``, without its rows before ``from_row``."""
        chunk = self._at(number)
        if chunk.first_row < from_row:
            (rows,) = read_pieces([Piece(from_row, chunk.end_row, chunk.nbytes, chunk, self._schema)])
            return rows.serialize().to_pybytes()  # type: ignore[no-any-return]
        with chunk.segment.path.open("rb") as file:
            file.seek(chunk.offset)
            return file.read(chunk.nbytes)

    def pieces(self, first_row: int, end_row: int, nbytes_max: int) -> list[Piece]:
        """Where the rows from ``first_row`` to before ``end_row`` are: the first of them, if they have more bytes.

        Raises RowsForgottenError if they are not kept any more, ValueError if they were not stored yet.
        """
        if not 0 <= first_row <= end_row <= self.rows:
            raise ValueError(f"required rows within 0 to {self.rows}, got {first_row} to {end_row}")
        if first_row < min(end_row, self.first_row):
            gone = min(end_row, self.first_row)
            text = f"rows {first_row} to {gone - 1} were taken by a client and are not kept any more"
            raise RowsForgottenError(f"{text}; kept are rows {self.first_row} to {self.rows - 1}")
        found: list[Piece] = []
        nbytes, number = 0, self._chunk_of(first_row)
        while first_row < end_row:
            chunk = self._at(number)
            end = min(end_row, chunk.end_row)
            share = chunk.nbytes * (end - first_row) // chunk.rows
            if found and nbytes + share > nbytes_max:
                break
            found.append(Piece(first_row, end, share, chunk, self._schema))
            first_row, nbytes, number = end, nbytes + share, number + 1
        return found

    def position(self, number: int) -> int:
        """How many bytes were ever written before chunk ``number``."""
        return self.written if number >= self.end else self._at(number).position

    def first_row_of(self, number: int) -> int:
        """The number of the first row of chunk ``number``, or of the next row to be stored."""
        return self.rows if number >= self.end else self._at(max(number, self.first)).first_row

    def unread_bytes(self, row: int) -> int:
        """About how many bytes the rows from ``row`` on have."""
        return self.written - self.position(self._chunk_of(max(row, self.first_row)))

    def _at(self, number: int) -> _Chunk:
        if not self.first <= number < self.end:
            raise RowsForgottenError(f"required chunk {self.first} to {self.end - 1}, got {number}")
        chunk = self._chunks[number - self.first + self._gone]
        assert chunk is not None
        return chunk

    def _chunk_of(self, row: int) -> int:
        """The number of the chunk that has ``row``, or of the next one to be written."""
        if row >= self.rows:
            return self.end
        after = bisect_right(self._chunks, row, lo=self._gone, key=_first_row)
        return self.first + max(0, after - 1 - self._gone)

    # -- forgetting ---------------------------------------------------------------------------

    def forget_before(self, number: int) -> None:
        """A follower has kept every chunk before ``number``."""
        if number > self.first:
            self.take(self.rows if number >= self.end else self._at(number).first_row)

    def take(self, row: int) -> None:
        """Somebody has kept every row before ``row``: they are forgotten, unless this spool keeps."""
        self.taken = max(self.taken, min(row, self.rows))
        while not self.keep and self.first < self.end and self._at(self.first).end_row <= self.taken:
            self._forget_oldest()
        if self._gone > _GONE_MIN and self._gone * 2 > len(self._chunks):
            del self._chunks[: self._gone]
            self._gone = 0

    def _forget_oldest(self) -> None:
        chunk = self._at(self.first)
        self._chunks[self._gone] = None
        self._gone += 1
        self.first += 1
        self.nbytes -= chunk.nbytes
        chunk.segment.chunks -= 1
        if chunk.segment.chunks == 0 and chunk.segment is not self._current:
            self._remove(chunk.segment)

    @staticmethod
    def _remove(segment: _Segment) -> None:
        segment.file.close()
        segment.path.unlink(missing_ok=True)

    def finish(self) -> None:
        """No more rows will come, so no file stays open, and the last one goes with its rows too."""
        last, self._current = self._current, None
        if last is not None:
            last.file.close()
            if last.chunks == 0:
                self._remove(last)

    def close(self) -> None:
        """Forget everything."""
        segments = {id(chunk.segment): chunk.segment for chunk in self._chunks if chunk is not None}
        if self._current is not None:
            segments[id(self._current)] = self._current
        for segment in segments.values():
            self._remove(segment)
        self._chunks.clear()
        self._gone = 0
        self._current = None
        with suppress(OSError):  # an earlier life may have left something there
            self._folder.rmdir()


def _first_row(chunk: _Chunk | None) -> int:
    assert chunk is not None
    return chunk.first_row
