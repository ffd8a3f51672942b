"""The files of a spool: records of rows, in segments, so that space comes back when rows are forgotten.

Correct here: after a crash at any moment ``recover`` finds rows in order and without a gap, among them all that
``commit`` had confirmed and nobody had allowed to forget; of the rows of a walk all or none. A record has the rows of
some walks with (head, span, sealed at) of each, and row numbers are for ever.

Order of writes: a segment gets its name when its head is synced, and a record is written to it when the name is; the
segment before is synced first. Segments are removed one by one, the oldest first, each removal synced.
When a write fails (the disk is full) what was written is cut off again. When a sync fails nothing is written any more.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from node.core.effects import StoreRows
from node.core.streams.ticks import Span
from node.io.results.records import FILE_HEAD_BYTES, Found, PieceAt, check_file_head, encode, file_head, scan
from node.storage.disk import Disk, DiskFile
from node.storage.errors import StorageError
from planner.model.errors import NarrowsError

#: Pieces are cut to about this size, so that a follower sees rows soon and messages stay small.
CHUNK_BYTES_MAX = 1 << 20
SEGMENT_BYTES_MAX = 64 << 20

_SUFFIX = ".rows"
_UNFINISHED = ".new"
_NAME = re.compile(r"[0-9a-f]{16}\.rows")
Spans = tuple[tuple[str, Span], ...]


class RowsForgottenError(NarrowsError):
    """Rows were asked for that are not kept any more."""


@dataclass(slots=True, eq=False)
class Segment:
    """A file with the rows from ``first_row`` on, as the loop's thread knows it."""

    name: str
    first_row: int
    #: Chunks in it that are not forgotten.
    chunks: int = 0
    #: Walks in it beyond what is done.
    spans: list[tuple[str, Span]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Written:
    """A record that is durable: its pieces, what they have if it is at hand, and the walks that it has."""

    segment: Segment
    first_row: int
    pieces: tuple[PieceAt, ...]
    data: tuple[pa.Buffer, ...]
    spans: Spans


@dataclass(frozen=True, slots=True)
class Recovered:
    """What an earlier life left."""

    segments: tuple[Segment, ...]
    written: tuple[Written, ...]
    #: The number that the next row has.
    rows: int
    #: Written, but never confirmed: the torn tail.
    cut_bytes: int
    #: Why rows from ``rows`` on cannot be had although they were confirmed, and nothing is written behind them.
    damage: str


class RowFiles:
    """All that is done to the files of one query, by the thread that does file work."""

    def __init__(self, open_disk: Callable[[], Disk], segment_bytes: int | None = None) -> None:
        self._open_disk = open_disk
        self._opened: Disk | None = None
        self._segment_bytes = segment_bytes
        self._rows = 0
        self._segment: Segment | None = None
        #: Those that were begun for what is being appended.
        self._begun: list[Segment] = []
        #: Names of segments that nobody needs and that are still there.
        self._leaving: deque[str] = deque()
        self._file: DiskFile | None = None
        #: Bytes of the segment that are written, and that are durable.
        self._nbytes = 0
        self._synced = 0
        self._failed = ""

    @property
    def disk(self) -> Disk:
        """The folder, which is made when it is first needed."""
        if self._opened is None:
            self._opened = self._open_disk()
        return self._opened

    # -- beginning ----------------------------------------------------------------------------

    def recover(self, rows: int) -> Recovered:
        """Read what is there, and cut a torn tail. At least ``rows`` were stored, of which none may be left."""
        disk = self.disk
        segments: list[Segment] = []
        written: list[Written] = []
        damage, cut_bytes = "", 0
        try:
            self._read(segments, written)
            # What was confirmed is no torn tail, so this is looked at before anything is cut.
            if segments and self._rows < rows:
                raise StorageError(f"{disk.path} required rows up to {rows}; got those up to {self._rows}")
            cut_bytes = self._cut(segments[-1].name, self._nbytes) if segments else 0
        except StorageError as error:
            damage = str(error)
        if not segments:
            self._rows = max(self._rows, rows)
        for name in disk.names():
            if name.endswith(_SUFFIX + _UNFINISHED):
                disk.remove(name)
        self._failed = damage
        return Recovered(tuple(segments), tuple(written), self._rows, cut_bytes, damage)

    def _read(self, segments: list[Segment], written: list[Written]) -> None:
        """Find segments and records, up to the first that is damaged or torn."""
        disk = self.disk
        names = [name for name in disk.names() if _NAME.fullmatch(name)]
        for name in names:
            first_row = int(name.removesuffix(_SUFFIX), 16)
            if segments and first_row != self._rows:
                required = f"a segment from row {self._rows} on, where {segments[-1].name} ends"
                raise StorageError(f"{disk.path} required {required}; got {name}")
            check_file_head(disk, name)
            self._segment = Segment(name, first_row)
            self._rows, self._nbytes = first_row, FILE_HEAD_BYTES
            segments.append(self._segment)
            for found in scan(disk, name, FILE_HEAD_BYTES, last=name == names[-1]):
                written.append(self._written(self._segment, found, ()))
                self._rows += sum(piece.rows for piece in found.pieces)
                self._nbytes = found.end
        self._synced = self._nbytes

    def _cut(self, name: str, nbytes: int) -> int:
        """Cut a torn tail, and sync what is left: a daemon that was killed may not have."""
        cut_bytes = self.disk.size(name) - nbytes
        file = self.disk.open(name)
        try:
            if cut_bytes:
                file.truncate(nbytes)
            file.sync()
        finally:
            file.close()
        self.disk.sync_names()
        return cut_bytes

    def _written(self, segment: Segment, found: Found, data: tuple[pa.Buffer, ...]) -> Written:
        spans = tuple((head, Span(first, end)) for head, first, end, _, _ in found.facts["walks"])
        return Written(segment, found.number, found.pieces, data, spans)

    # -- writing ------------------------------------------------------------------------------

    def append(self, walks: Sequence[StoreRows]) -> list[Written]:
        """Write the rows of walks, all or none; they are safe after ``commit``.

        Raises OSError if the disk does not take them, StorageError if it failed before.
        """
        if self._failed:
            raise StorageError(self._failed)
        before = self._segment, self._nbytes, self._rows
        self._begun.clear()
        try:
            return [self._write(group) for group in _groups(walks)]
        except StorageError:
            raise
        except Exception:
            self._return_to(*before)
            raise

    def _write(self, walks: Sequence[StoreRows]) -> Written:
        if self._segment is None or self._nbytes >= (self._segment_bytes or SEGMENT_BYTES_MAX):
            self._new_segment()
        segment = self._segment
        assert segment is not None
        if self._file is None:
            self._file = self.disk.open(segment.name)
        rows = pa.concat_batches([walk.rows for walk in walks]) if len(walks) > 1 else walks[0].rows
        pieces = [(piece.serialize(), piece.num_rows) for piece in _pieces_of(rows)]
        facts = {
            "walks": [
                (walk.head, walk.span.first, walk.span.end, walk.sealed_at_us, walk.rows.num_rows) for walk in walks
            ]
        }
        views = [(memoryview(data), count) for data, count in pieces]
        parts, found = encode(self._rows, facts, views, self._nbytes, self._synced)
        self._file.append(parts)
        self._nbytes = found.end
        self._rows += rows.num_rows
        return self._written(segment, found, tuple(data for data, _ in pieces))

    def commit(self) -> None:
        """Make durable what was appended; if that fails nothing is appended any more."""
        if self._failed:
            raise StorageError(self._failed)
        if self._synced != self._nbytes and self._file is not None:
            self._sync(self._file.sync)
            self._synced = self._nbytes

    def _new_segment(self) -> None:
        self.commit()
        self._close_file()
        name, disk = f"{self._rows:016x}{_SUFFIX}", self.disk
        head = file_head()
        file = disk.create(name + _UNFINISHED)
        try:
            file.append([head])
            self._sync(file.sync)
            disk.rename(name + _UNFINISHED, name)
            self._sync(disk.sync_names)
        except Exception:
            file.close()
            raise
        self._file = file
        self._segment = Segment(name, self._rows)
        self._begun.append(self._segment)
        self._nbytes = self._synced = len(head)

    def _sync(self, sync: Callable[[], None]) -> None:
        """The system may drop bytes when a sync fails, and yet report the next one as good: never again."""
        try:
            sync()
        except OSError as error:
            required = "a disk that keeps what is written"
            self._failed = f"the rows in {self.disk.path} required {required}; got {error.strerror or error}"
            raise StorageError(self._failed) from error

    def _return_to(self, segment: Segment | None, nbytes: int, rows: int) -> None:
        """Give back what was written since that segment was the last and had so many bytes; the newest goes first."""
        try:
            if self._segment is not segment:
                self._close_file()
                self._segment = segment
            while self._begun:
                self.disk.remove(self._begun.pop().name)
                self._sync(self.disk.sync_names)
            if self._file is None and segment is not None and self.disk.size(segment.name) != nbytes:
                self._file = self.disk.open(segment.name)
            if self._file is not None:
                self._file.truncate(nbytes)
                # What was synced of it before it was cut must not come back behind what is written next.
                self._sync(self._file.sync)
            self._nbytes = self._synced = nbytes
            self._rows = rows
        except OSError as error:
            required = "to cut off rows that were not written whole"
            self._failed = f"{self.disk.path} required {required}; got {error.strerror or error}"

    def finish(self) -> None:
        """No more rows will come, so no file stays open."""
        self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # all that counts is synced
                file.close()

    # -- forgetting ---------------------------------------------------------------------------

    def remove(self, segment: Segment) -> None:
        """The oldest one goes; one that could not be removed before goes first, or a start would find a gap."""
        if segment is self._segment:
            self._close_file()
            self._segment, self._nbytes, self._synced = None, 0, 0
        self._leaving.append(segment.name)
        while self._leaving:
            self.disk.remove(self._leaving[0])
            self._leaving.popleft()
            self.disk.sync_names()

    def remove_all(self) -> None:
        """Nobody wants any of it, for good."""
        self._close_file()
        self._segment = None
        for name in self.disk.names():
            if name.removesuffix(_UNFINISHED).endswith(_SUFFIX):
                self.disk.remove(name)
        self.disk.sync_names()


def _groups(walks: Sequence[StoreRows]) -> Iterator[list[StoreRows]]:
    """Walks with few rows together, so that they are one record."""
    group: list[StoreRows] = []
    nbytes = 0
    for walk in walks:
        if group and nbytes + walk.rows.nbytes > CHUNK_BYTES_MAX:
            yield group
            group, nbytes = [], 0
        group.append(walk)
        nbytes += walk.rows.nbytes
    if group:
        yield group


def _pieces_of(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows that are many cut into pieces."""
    pieces = max(1, -(-rows.nbytes // CHUNK_BYTES_MAX))
    size = max(1, -(-rows.num_rows // pieces))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)
