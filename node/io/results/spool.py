"""Result rows at the sink, on disk from when they are stored until whoever wants them has taken them.

Rows are numbered from 0 in the order in which they were stored, and lie in numbered chunks. Neither number ever
means something else, so a reader that was interrupted asks for the same numbers again and gets the same rows. Whoever
has kept rows says up to which number they are taken; those are forgotten, so a detached follower misses nothing and
memory stays flat however slow it is. A spool that keeps only notes how far rows are taken. Its files are in
``segments``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from node.io.results.segments import CHUNK_BYTES_MAX, Chunk, Piece, RowsForgottenError, Segment, SegmentFiles, Written
from node.io.threads.file_thread import FileWork

#: Forgotten entries of the chunk list are cut off once there are this many, and as many as others.
_GONE_MIN = 256


class Spool:
    """The rows of one query that nobody has taken yet; with ``keep`` those too that were.

    What is kept is known here, on the loop's thread; files are touched by ``work`` alone. Rows are here once they
    are on disk. While somebody follows, the last of them are at hand without being read.
    """

    def __init__(self, folder: Path, work: FileWork, keep: bool = False) -> None:
        self.keep = keep
        self._work = work
        self._files = SegmentFiles(folder)
        #: The segment of the last chunk: more may be written to it.
        self._latest: Segment | None = None
        #: The first ``_gone`` of them are forgotten: a list is searched by row, and cut now and then.
        self._chunks: list[Chunk | None] = []
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

        def written(found: list[Written] | Exception) -> None:
            if isinstance(found, Exception):
                then(found)
                return
            self._schema = batches[0].schema if batches else self._schema
            for chunk in found:
                self._add(chunk)
            then(None)

        self._work.put(lambda: self._files.append(batches), written)

    def _add(self, written: Written) -> None:
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
        self._chunks.append(Chunk(segment, written.offset, size, self.rows, written.rows, self.written))
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

    def _at(self, number: int) -> Chunk:
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

    def _remove(self, segment: Segment) -> None:
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


def _first_row(chunk: Chunk | None) -> int:
    assert chunk is not None
    return chunk.first_row
