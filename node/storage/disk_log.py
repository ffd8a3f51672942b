"""The log of one stream on disk.

Correct here: after a crash at any moment ``recover`` finds batches in order and without a gap, among them every one
that ``commit`` had confirmed and nobody had allowed to forget. Damage is never taken for an end:
only bytes that were not synced when the writing ended may be cut off, and only from the last segment.

Order of writes: a segment gets its name when its head is synced, and a record is written to it when the name is; the
segment before is synced first. Segments are removed one by one, the oldest first, each removal synced. So whatever a
crash undoes, the segments that remain are neighbours, and all but the last are whole.

When the disk is full, what was written of the group is cut off again and the log can be used on (NoRoomError). When
a sync fails, the system may have dropped the bytes and yet report the next sync as good: the log is failed for good
(DiskFailedError), also if the reason is that the disk is full.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from node.core.errors import invariant
from node.core.streams.log_extent import LogExtent
from node.core.streams.sealer import Batch
from node.core.streams.ticks import TICK_MIN, tick_text
from node.storage.disk import Disk, DiskFile
from node.storage.errors import DiskFailedError, StorageError, disk_error
from node.storage.record import HEAD_BYTES, decode_batch, decode_head, encode_record, is_whole
from node.storage.segment import (
    UNFINISHED,
    Segment,
    encode_segment_head,
    is_segment,
    read_segment,
    segment_name,
)
from node.storage.stream_log import PIECE_BYTES

#: A new file is begun beyond this. Space comes back by whole files, and a restart reads them one at a time.
SEGMENT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Recovered:
    """What an earlier life left."""

    frontier: int
    batches: int
    rows: int
    nbytes: int
    #: Written, but never confirmed: the torn tail.
    cut_bytes: int
    #: What a stream needs to go on; None if nothing was logged.
    extent: LogExtent | None


@dataclass(frozen=True, slots=True)
class _Written:
    """A record that is written and not yet synced."""

    end_tick: int
    nbytes: int
    rows: int


class DiskLog:
    """The batches of one stream in one folder. ``recover`` comes first, and the log goes on where it ended."""

    def __init__(self, disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        #: The last segment, once something was to be written to it.
        self._file: DiskFile | None = None
        self._appended: list[Batch] = []
        self._written: list[_Written] = []
        self._written_bytes = 0
        #: Why nothing can be logged any more.
        self._failed = ""

    @property
    def frontier(self) -> int:
        return self._segments[-1].end_tick if self._segments else TICK_MIN

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self._segments)

    # -- beginning ----------------------------------------------------------------------------

    def recover(self) -> Recovered:
        """Read what is there, check all of it, cut a torn tail, and sync the rest.

        A daemon that was killed may have written records and not synced them: they are there until power is lost.

        Raises StorageError, and has touched nothing, if something is damaged or of another version.
        """
        names = [name for name in self._disk.names() if is_segment(name)]
        segments = [self._check(name, name == names[-1]) for name in names]
        for before, after in pairwise(segments):
            if before.end_tick != after.first_tick:
                raise StorageError(
                    f"{self._disk.path} required a segment from tick {tick_text(before.end_tick)} on, where "
                    f"{before.name} ends; got {after.name}, which begins at tick {tick_text(after.first_tick)}"
                )
        self._segments = segments
        cut_bytes = self._cut_tail()
        for name in self._disk.names():
            if name.endswith(UNFINISHED):
                self._disk.remove(name)
        return Recovered(
            self.frontier,
            sum(len(segment.ends) for segment in segments),
            sum(segment.rows for segment in segments),
            self.nbytes,
            cut_bytes,
            self._extent(),
        )

    def _extent(self) -> LogExtent | None:
        batches = tuple(batch for segment in self._segments for batch in segment.batches())
        last = next((segment.last for segment in reversed(self._segments) if segment.last is not None), None)
        if last is None:
            return None
        return LogExtent(batches, last.first + last.rows, last.newest, last.place)

    @property
    def schema(self) -> pa.Schema | None:
        """Of its newest rows; None if there are none."""
        return self._segments[-1].schema if self._segments else None

    def _check(self, name: str, last: bool) -> Segment:
        data = self._disk.read(name, 0, self._disk.size(name))
        return read_segment(self._disk.path, name, memoryview(data), last)

    def _cut_tail(self) -> int:
        if not self._segments:
            return 0
        last = self._segments[-1]
        cut_bytes = self._disk.size(last.name) - last.nbytes
        file = self._disk.open(last.name)
        try:
            if cut_bytes:
                file.truncate(last.nbytes)
            file.sync()
        finally:
            file.close()
        self._disk.sync_names()
        return cut_bytes

    def begin(self) -> None:
        """Forget everything: the log begins anew."""
        self.close()
        while self._segments:
            self._remove_oldest()

    # -- writing ------------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        before = self._appended[-1].span.end if self._appended else self.frontier
        invariant(
            before in (batch.span.first, TICK_MIN),
            f"log requires a batch from tick {tick_text(before)} on; got {batch.span}",
        )
        self._appended.append(batch)

    def commit(self) -> None:
        """Write all that was appended and sync once, or once a segment if it takes several."""
        appended, self._appended = self._appended, []
        if self._failed:
            raise DiskFailedError(self._failed)
        try:
            for batch in appended:
                self._write(batch)
        except (OSError, StorageError, pa.ArrowException) as error:
            self._undo()
            if self._failed:
                raise DiskFailedError(self._failed) from error
            raise self._problem("room for the next batches", error) from error
        self._sync_written()

    def _write(self, batch: Batch) -> None:
        segment = self._segments[-1] if self._segments else None
        if (
            segment is None
            or segment.nbytes + self._written_bytes >= self._segment_bytes
            or segment.schema != batch.rows.schema
        ):
            self._sync_written()
            segment = self._new_segment(batch)
        if self._file is None:
            self._file = self._disk.open(segment.name)
        record = encode_record(batch, segment.nbytes)
        self._file.append(record)
        nbytes = sum(map(len, record))
        self._written.append(_Written(batch.span.end, nbytes, batch.rows.num_rows))
        self._written_bytes += nbytes

    def _sync_written(self) -> None:
        if not self._written:
            return
        assert self._file is not None
        self._sync(self._file.sync)
        for record in self._written:
            self._segments[-1].add(record.end_tick, record.nbytes, record.rows)
        self._forget_written()

    def _forget_written(self) -> None:
        self._written.clear()
        self._written_bytes = 0

    def _new_segment(self, batch: Batch) -> Segment:
        self._close_file()
        name = segment_name(batch.span.first)
        head = encode_segment_head(batch.rows.schema)
        file = self._disk.create(name + UNFINISHED)
        try:
            file.append([head])
            self._sync(file.sync)
        finally:
            file.close()
        self._disk.rename(name + UNFINISHED, name)
        self._sync(self._disk.sync_names)
        if self._segments and not self._segments[-1].ends:
            # It had the name of the new one, which took its place.
            self._segments.pop()
        segment = Segment(name, batch.rows.schema, batch.span.first, len(head))
        self._segments.append(segment)
        return segment

    def _sync(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError as error:
            self._forget_written()
            self._failed = str(self._problem("a disk that keeps what is written", error))
            raise DiskFailedError(self._failed) from error

    def _undo(self) -> None:
        """Cut off what was written of a group that cannot be written whole."""
        self._forget_written()
        if self._failed or self._file is None:
            return
        try:
            self._file.truncate(self._segments[-1].nbytes)
            self._file.sync()
        except OSError as error:
            self._failed = str(self._problem("to cut off a record that was not written whole", error))

    def _problem(self, required: str, error: Exception) -> StorageError:
        if isinstance(error, StorageError):
            return error
        who = f"the log in {self._disk.path}"
        if isinstance(error, OSError):
            return disk_error(who, required, error)
        return StorageError(f"{who} required {required}; got {error}")

    # -- reading ------------------------------------------------------------------------------

    def read_from(self, tick: int) -> tuple[Batch, ...]:
        if not self._segments:
            return ()
        if tick < self._segments[0].first_tick:
            raise StorageError(
                f"a reader of {self._disk.path} required the batch of tick {tick_text(tick)}; "
                f"got a log that begins at {tick_text(self._segments[0].first_tick)}"
            )
        found: list[Batch] = []
        nbytes = 0
        number = bisect_right(self._segments, tick, key=_first_tick) - 1
        for segment in self._segments[number:]:
            start = place = segment.place_of(tick)
            while place < len(segment.ends):
                size = segment.end_of(place) - segment.offsets[place]
                if nbytes and nbytes + size > PIECE_BYTES:
                    break
                nbytes += size
                place += 1
            if place > start:
                found += self._read(segment, start, place)
            if place < len(segment.ends):
                break
        return tuple(found)

    def _read(self, segment: Segment, start: int, end: int) -> list[Batch]:
        offset = segment.offsets[start]
        try:
            data = memoryview(self._disk.read(segment.name, offset, segment.end_of(end - 1) - offset))
        except OSError as error:
            raise self._problem(f"to read {segment.name}", error) from error
        found = []
        for place in range(start, end):
            at = segment.offsets[place] - offset
            head = decode_head(data, at)
            body = data[at + HEAD_BYTES : segment.end_of(place) - offset]
            if head is None or not is_whole(head, body):
                where = f"{self._disk.path}/{segment.name} at byte {segment.offsets[place]}"
                ticks = f"[{tick_text(segment.first_of(place))}, {tick_text(segment.ends[place])})"
                raise StorageError(f"{where} required a whole record of the batch of ticks {ticks}; got damaged bytes")
            found.append(decode_batch(head, body, segment.schema))
        return found

    def sizes_from(self, tick: int) -> tuple[int, ...]:
        found: list[int] = []
        for segment in reversed(self._segments):
            if segment.end_tick <= tick:
                break
            found[:0] = [
                segment.end_of(place) - segment.offsets[place]
                for place in range(segment.place_of(tick), len(segment.ends))
            ]
        return tuple(found)

    # -- forgetting ---------------------------------------------------------------------------

    def trim(self, tick: int) -> None:
        """Whole segments go; the last one with a batch stays, because it tells where the stream goes on."""
        while len(self._segments) > 1 and self._segments[1].ends and self._segments[0].end_tick <= tick:
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        try:
            self._disk.remove(self._segments[0].name)
        except OSError as error:
            raise self._problem(f"to remove {self._segments[0].name}", error) from error
        del self._segments[0]
        self._sync(self._disk.sync_names)

    def close(self) -> None:
        """What was appended and not committed is gone."""
        self._appended.clear()
        self._forget_written()
        self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # all that counts is synced
                file.close()


def _first_tick(segment: Segment) -> int:
    return segment.first_tick
