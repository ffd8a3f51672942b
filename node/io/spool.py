"""Result rows at the sink, on disk from when they are stored until whoever wants them has taken them.

Rows are numbered from 0 in the order in which they were stored, and lie in numbered chunks. Neither number ever
means something else, so a reader that was interrupted asks for the same numbers again and gets the same rows. Whoever
has kept rows says up to which number they are taken; those are forgotten, so a detached follower misses nothing and
memory stays flat however slow it is. A spool that keeps only notes how far rows are taken. Files are cut into segments
so that space comes back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from node.io.file_thread import FileWork
from planner.errors import NarrowsError

#: Chunks are cut to about this size, so that a follower sees rows soon and messages stay small.
CHUNK_BYTES_MAX = 1 << 20
SEGMENT_BYTES_MAX = 64 << 20
#: Forgotten entries of the chunk list are cut off once there are this many, and as many as others.
_GONE_MIN = 256


class RowsForgottenError(NarrowsError):
    """Rows were asked for that are not kept any more."""


@dataclass(slots=True, eq=False)
class _Segment:
    path: Path
    #: The thread that writes has these two: the open file, and where it ends.
    file: BinaryIO
    nbytes: int = 0
    #: Chunks in it that are not forgotten.
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class _Written:
    """A chunk that is on disk."""

    segment: _Segment
    offset: int
    data: pa.Buffer
    rows: int


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
        return file.read(self._chunk.nbytes)


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
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise RowsForgottenError(f"rows {first_row} to {end_row - 1} were taken meanwhile") from None


class _Files:
    """The files of a spool: all that is done to them is done by the thread that does file work."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: How many there ever were, and those that are there, in their order.
        self._count = 0
        self._segments: dict[_Segment, None] = {}
        self.current: _Segment | None = None

    def append(self, batches: Sequence[pa.RecordBatch]) -> list[_Written]:
        """Write rows, all or none; raises OSError if the disk does not take them."""
        before, nbytes = self.current, 0 if self.current is None else self.current.nbytes
        try:
            return [
                self._write(piece.serialize(), piece.num_rows)
                for rows in _joined(batches)
                for piece in _pieces_of(rows)
            ]
        except Exception:
            self._return_to(before, nbytes)
            raise

    def _return_to(self, segment: _Segment | None, nbytes: int) -> None:
        """Give back what was written since that segment was the last and had so many bytes."""
        while self._segments and (last := next(reversed(self._segments))) is not segment:
            self.remove(last)
        self.current = segment
        if segment is not None:
            segment.nbytes = nbytes
            segment.file.truncate(nbytes)
            segment.file.seek(nbytes)

    def _write(self, data: pa.Buffer, rows: int) -> _Written:
        segment = self.current
        if segment is None or segment.nbytes >= SEGMENT_BYTES_MAX:
            segment = self._new_segment()
        left = memoryview(data)
        while left:
            # On a disk that is nearly full a write takes a part, and only the next one fails.
            left = left[segment.file.write(left) :]
        offset, segment.nbytes = segment.nbytes, segment.nbytes + data.size
        return _Written(segment, offset, data, rows)

    def _new_segment(self) -> _Segment:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"rows-{self._count:06d}"
        self.current = _Segment(path, path.open("w+b", buffering=0))
        self._count += 1
        self._segments[self.current] = None
        return self.current

    def finish(self) -> None:
        """No more rows will come, so no file stays open."""
        if self.current is not None:
            self.current.file.close()
            self.current = None

    def remove(self, segment: _Segment) -> None:
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


class Spool:
    """The rows of one query that nobody has taken yet; with ``keep`` those too that were.

    What is kept is known here, on the loop's thread; files are touched by ``work`` alone. Rows are here once they
    are on disk. While somebody follows, the last of them are at hand without being read.
    """

    def __init__(self, folder: Path, work: FileWork, keep: bool = False) -> None:
        self.keep = keep
        self._work = work
        self._files = _Files(folder)
        #: The segment of the last chunk: more may be written to it.
        self._latest: _Segment | None = None
        #: The first ``_gone`` of them are forgotten: a list is searched by row, and cut now and then.
        self._chunks: list[_Chunk | None] = []
        self._gone = 0
        self._schema: pa.Schema | None = None
        #: Of the last chunks, by number, what is on disk too; None if nobody follows.
        self._at_hand: dict[int, pa.Buffer] | None = None
        self._at_hand_bytes = 0
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

    def append(self, batches: Sequence[pa.RecordBatch], then: Callable[[Exception | None], None]) -> None:
        """Keep rows, all or none; ``then`` is told when they are kept, or why they cannot be."""

        def written(found: list[_Written] | Exception) -> None:
            if isinstance(found, Exception):
                then(found)
                return
            self._schema = batches[0].schema if batches else self._schema
            for chunk in found:
                self._add(chunk)
            then(None)

        self._work.put(lambda: self._files.append(batches), written)

    def _add(self, written: _Written) -> None:
        segment, size = written.segment, written.data.size
        if segment is not self._latest:
            before, self._latest = self._latest, segment
            if before is not None and before.chunks == 0:
                self._remove(before)
        if self._at_hand is not None:
            self._at_hand[self.end] = written.data
            self._at_hand_bytes += size
            while self._at_hand_bytes > CHUNK_BYTES_MAX:
                self._at_hand_bytes -= self._at_hand.pop(next(iter(self._at_hand))).size
        self._chunks.append(_Chunk(segment, written.offset, size, self.rows, written.rows, self.written))
        segment.chunks += 1
        self.rows += written.rows
        self.nbytes += size
        self.written += size

    # -- reading ------------------------------------------------------------------------------

    def follow(self, follows: bool) -> None:
        """Somebody begins, or ceases, to read chunks as they come: meanwhile the last of them are kept at hand."""
        self._at_hand = {} if follows else None
        self._at_hand_bytes = 0

    def at_hand(self, number: int, from_row: int = 0) -> bytes | None:
        """The bytes of chunk ``number``, once, if they need not be read and none of its rows is before ``from_row``."""
        if self._at_hand is None or number not in self._at_hand or self._at(number).first_row < from_row:
            return None
        data = self._at_hand.pop(number)
        self._at_hand_bytes -= data.size
        return data.to_pybytes()  # type: ignore[no-any-return]

    def piece(self, number: int, from_row: int = 0) -> Piece:
        """Where chunk ``number`` is, without its rows before ``from_row``."""
        chunk = self._at(number)
        return Piece(max(from_row, chunk.first_row), chunk.end_row, chunk.nbytes, chunk, self._schema)

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
        if chunk.segment.chunks == 0 and chunk.segment is not self._latest:
            self._remove(chunk.segment)

    def _remove(self, segment: _Segment) -> None:
        self._work.put(lambda: self._files.remove(segment), _ignore)

    def finish(self, then: Callable[[], None]) -> None:
        """No more rows will come: once all are kept no file stays open, and the last one goes with its rows too."""

        def finished(_: object) -> None:
            last, self._latest = self._latest, None
            if last is not None and last.chunks == 0:
                self._remove(last)
            then()

        self._work.put(self._files.finish, finished)

    def close(self) -> None:
        """Forget everything."""
        self._work.put(self._files.close, _ignore)
        self._chunks.clear()
        self._gone = 0
        self._latest = None
        self.follow(False)


def _ignore(_: object) -> None:
    """What goes wrong when a file is removed harms nobody: all of them are gone when the daemon ends."""


def _first_row(chunk: _Chunk | None) -> int:
    assert chunk is not None
    return chunk.first_row
