"""Result rows at the sink, on disk from when they are stored until whoever wants them has taken them.

Rows are numbered from 0 in the order in which they were stored, for ever, over restarts too: a reader that was
interrupted asks for the same numbers again and gets the same rows. They lie in chunks, which nobody outside knows of.
Rows before ``taken`` are wanted by nobody; a spool that keeps only notes that. What is forgotten gives its space back
by whole segments, and only when no walk in them is beyond what is done: a start of the site must know of those.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from node.core.effects import StoreRows
from node.core.streams.ticks import TICK_MIN, Span
from node.io.results.records import PieceAt
from node.io.results.row_files import CHUNK_BYTES_MAX, Recovered, RowFiles, RowsForgottenError, Segment, Written
from node.io.threads.file_thread import FileWork
from node.storage.disk import Disk

#: Forgotten entries of the chunk list are cut off once there are this many, and as many as others.
_GONE_MIN = 256


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a segment: where they are, and which they are."""

    segment: Segment
    place: PieceAt
    first_row: int
    #: Bytes of all chunks before it, also of those that are forgotten.
    position: int

    @property
    def end_row(self) -> int:
        """The number of the first row behind it."""
        return self.first_row + self.place.rows


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one chunk, and where they are. Reading it needs nothing of the spool, so it may be done in a thread."""

    first_row: int
    end_row: int
    nbytes: int
    chunk: Chunk
    _schema: pa.Schema
    _disk: Disk

    def load(self) -> bytes:
        """The rows as they are sent.

        Raises RowsForgottenError if they were forgotten since they were asked for, StorageError if they are damaged.
        """
        if (self.first_row, self.end_row) == (self.chunk.first_row, self.chunk.end_row):
            return self.checked(self.read(self.chunk.place.offset, self.chunk.place.nbytes))
        (rows,) = read_pieces([self])
        return rows.serialize().to_pybytes()  # type: ignore[no-any-return]

    def rows(self, data: bytes) -> pa.RecordBatch:
        """From what is on disk."""
        rows = pa.ipc.read_record_batch(pa.py_buffer(self.checked(data)), self._schema)
        return rows.slice(self.first_row - self.chunk.first_row, self.end_row - self.first_row)

    def checked(self, data: bytes) -> bytes:
        self.chunk.place.check(data, f"{self._disk.path}/{self.chunk.segment.name}")
        return data

    def read(self, offset: int, nbytes: int) -> bytes:
        """Bytes of its segment."""
        try:
            return self._disk.read(self.chunk.segment.name, offset, nbytes)
        except FileNotFoundError:
            raise RowsForgottenError(f"rows {self.first_row} to {self.end_row - 1} were taken meanwhile") from None


def read_pieces(pieces: Sequence[Piece]) -> list[pa.RecordBatch]:
    """The rows of each, those of a segment read at once.

    Raises RowsForgottenError if some were forgotten since the pieces were asked for, StorageError if some are damaged.
    """
    found: list[pa.RecordBatch] = []
    together: list[Piece] = []
    for piece in [*pieces, None]:
        if together and (piece is None or piece.chunk.segment is not together[0].chunk.segment):
            begin = together[0].chunk.place.offset
            end = together[-1].chunk.place.offset + together[-1].chunk.place.nbytes
            data = together[0].read(begin, end - begin)
            for each in together:
                at = each.chunk.place.offset - begin
                found.append(each.rows(data[at : at + each.chunk.place.nbytes]))
            together = []
        if piece is not None:
            together.append(piece)
    return found


class Spool:
    """The rows of one query that somebody has not taken yet; with ``keep`` those too that everybody has.

    What is kept is known here, on the loop's thread; files are touched by ``work`` alone. Rows are here once they
    are durable. While somebody follows, the last of them are at hand without being read.
    """

    def __init__(self, open_disk: Callable[[], Disk], schema: pa.Schema, work: FileWork, keep: bool = False) -> None:
        self.keep = keep
        self._schema = schema
        self._work = work
        self._files = RowFiles(open_disk)
        #: All there are, in order: more may be written to the last.
        self._segments: list[Segment] = []
        self._finished = False
        #: The first ``_gone`` of them are forgotten: a list is searched by row, and cut now and then.
        self._chunks: list[Chunk | None] = []
        self._gone = 0
        #: Of the last chunks, by first row, what is on disk too; None if nobody follows.
        self._at_hand: dict[int, pa.Buffer] | None = None
        self._at_hand_bytes = 0
        #: Every walk before these ticks is done, by head.
        self._done: dict[str, int] = {}
        #: Rows before this number are taken by all who want them.
        self.taken = 0
        #: Number the next row will have: how many were ever stored.
        self.rows = 0
        #: Bytes that are kept, and that were ever written as far as this life knows.
        self.nbytes = 0
        self.written = 0
        #: Why rows that were confirmed cannot be had; nothing is stored any more then.
        self.damage = ""

    @property
    def first_row(self) -> int:
        """Number of the oldest row that can still be read."""
        return self.oldest_row if self.keep else self.taken

    @property
    def oldest_row(self) -> int:
        """Number of the first row of the oldest chunk that is kept."""
        chunk = self._chunks[self._gone] if self._gone < len(self._chunks) else None
        return self.rows if chunk is None else chunk.first_row

    def recover(self, rows: int) -> Recovered:
        """Take over what an earlier life left; it had stored at least ``rows``. Before anything else is asked."""
        found = self._files.recover(rows)
        self._segments = list(found.segments)
        for written in found.written:
            self._add(written)
        self.rows, self.damage = found.rows, found.damage
        return found

    # -- storing ------------------------------------------------------------------------------

    def append(self, walks: Sequence[StoreRows], then: Callable[[Exception | None], None]) -> None:
        """Keep the rows of walks, all or none; ``then`` is told when they are durable, or why they cannot be."""

        def written(found: list[Written] | Exception) -> None:
            if isinstance(found, Exception):
                then(found)
                return
            for record in found:
                self._add(record)
            self._forget()
            then(None)

        self._work.put(lambda: self._files.append(walks), written, self._files.commit)

    def _add(self, written: Written) -> None:
        segment = written.segment
        if segment not in self._segments:
            self._segments.append(segment)
        segment.spans += self._undone(written.spans)
        self.rows = written.first_row
        for place, piece in enumerate(written.pieces):
            if self._at_hand is not None and written.data:
                self._at_hand[self.rows] = written.data[place]
                self._at_hand_bytes += piece.nbytes
                while self._at_hand_bytes > CHUNK_BYTES_MAX:
                    self._at_hand_bytes -= self._at_hand.pop(next(iter(self._at_hand))).size
            self._chunks.append(Chunk(segment, piece, self.rows, self.written))
            segment.chunks += 1
            self.rows += piece.rows
            self.nbytes += piece.nbytes
            self.written += piece.nbytes

    @property
    def spans(self) -> list[tuple[str, Span]]:
        """The walks whose rows are stored, but for those of which it was said that they are done."""
        return [each for segment in self._segments for each in segment.spans]

    def done(self, frontiers: Mapping[str, int]) -> None:
        """That these heads are done up to these ticks is durable: no start of the site asks for those walks again."""
        if frontiers != self._done:
            self._done = dict(frontiers)
            for segment in self._segments:
                segment.spans = self._undone(segment.spans)
            self._forget()

    def _undone(self, spans: Iterable[tuple[str, Span]]) -> list[tuple[str, Span]]:
        return [(head, span) for head, span in spans if span.end > self._done.get(head, TICK_MIN)]

    # -- reading ------------------------------------------------------------------------------

    def follow(self, follows: bool) -> None:
        """Whether somebody reads rows as they come: meanwhile the last of them are kept at hand."""
        if not follows:
            self._at_hand, self._at_hand_bytes = None, 0
        elif self._at_hand is None:
            self._at_hand = {}

    def at_hand(self, row: int) -> tuple[bytes, int] | None:
        """The bytes of the chunk that begins with ``row``, if they need not be read, and the first row behind it."""
        if self._at_hand is None or row not in self._at_hand:
            return None
        return self._at_hand[row].to_pybytes(), self._chunk_of(row).end_row

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
        nbytes = 0
        while first_row < end_row:
            chunk = self._chunk_of(first_row)
            end = min(end_row, chunk.end_row)
            share = chunk.place.nbytes * (end - first_row) // chunk.place.rows
            if found and nbytes + share > nbytes_max:
                break
            found.append(Piece(first_row, end, share, chunk, self._schema, self._files.disk))
            first_row, nbytes = end, nbytes + share
        return found

    def position(self, row: int) -> int:
        """About how many bytes were written before ``row``: those before its chunk."""
        row = max(row, self.oldest_row)
        return self.written if row >= self.rows else self._chunk_of(row).position

    def _chunk_of(self, row: int) -> Chunk:
        place = bisect_right(self._chunks, row, lo=self._gone, key=_first_row) - 1
        chunk = self._chunks[place] if place >= self._gone else None
        if chunk is None or row >= chunk.end_row:
            raise RowsForgottenError(f"required rows {self.oldest_row} to {self.rows - 1}, got {row}")
        return chunk

    # -- forgetting ---------------------------------------------------------------------------

    def take(self, row: int) -> None:
        """Everybody has kept every row before ``row``: they are forgotten, unless this spool keeps."""
        self.taken = max(self.taken, min(row, self.rows))
        self._forget()

    def _forget(self) -> None:
        while not self.keep and self._gone < len(self._chunks):
            chunk = self._chunks[self._gone]
            assert chunk is not None
            if chunk.end_row > self.taken:
                break
            self._chunks[self._gone] = None
            self._gone += 1
            self.nbytes -= chunk.place.nbytes
            chunk.segment.chunks -= 1
        if self._gone > _GONE_MIN and self._gone * 2 > len(self._chunks):
            del self._chunks[: self._gone]
            self._gone = 0
        while len(self._segments) > (0 if self._finished else 1):
            oldest = self._segments[0]
            if oldest.chunks or oldest.spans or self.damage:
                break
            self._segments.pop(0)
            self._remove(oldest)

    def _remove(self, segment: Segment) -> None:
        self._work.put(lambda: self._files.remove(segment), _ignore)

    def finish(self) -> None:
        """No more rows will come, and all that came are kept: the last file goes with its rows too."""
        self._finished = True
        for segment in self._segments:
            segment.spans.clear()
        self._work.put(self._files.finish, _ignore)
        self._forget()

    def close(self) -> None:
        """Leave the files as they are."""
        self._work.put(self._files.finish, _ignore)
        self.follow(False)

    def remove(self) -> None:
        """Forget everything."""
        self._work.put(self._files.remove_all, _ignore)
        self._chunks.clear()
        self._segments.clear()
        self._gone = 0
        self.follow(False)


def _ignore(_: object) -> None:
    """What goes wrong when a file is closed or removed harms nobody: it takes room until the next start."""


def _first_row(chunk: Chunk | None) -> int:
    assert chunk is not None
    return chunk.first_row
