"""What was appended to a store and is not expired, on the site's disk: the truth of which workers hold copies.

Every partition has its own segments, so that a worker that lost its part, or never had it, is sent that part
alone. An entry has the number of the job that brought it. Appending costs what is appended, forgetting costs the
files that are removed. No file stays open, so the number of stores is not bounded by that of open files. The log
does not outlive the daemon and is not synced: it is there for the death of a worker, an executor or the JVM.

One thread writes. Others may read at the same time what was there when they began, unless it is forgotten meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: A segment is removed as a whole, so it should not hold much more than what expires soon.
SEGMENT_BYTES = 4 << 20
_ENTRY = struct.Struct("<QQ")


@dataclass(slots=True)
class _Segment:
    path: Path
    first: int
    last: int
    newest: int
    #: Bytes of whole entries; what a failed write left behind comes after them, and nothing else.
    size: int = 0
    sealed: bool = False


class PartitionLog:
    """The appends of one store to one partition."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: list[_Segment] = []
        self._made = 0

    def append(self, job: int, newest: int, packed: memoryview) -> None:
        """Keep packed rows of a job; ``newest`` is the highest position among them.

        Raises OSError if the disk refuses; the entry is not there then, and the log can go on.
        """
        segment = self._segment_for(job, newest)
        try:
            _write(segment.path, (_ENTRY.pack(job, len(packed)), packed))
        except BaseException:
            segment.sealed = True
            raise
        segment.last, segment.newest = job, max(segment.newest, newest)
        segment.size += _ENTRY.size + len(packed)

    def forget(self, before: int) -> None:
        """Remove the segments in which all positions are before this."""
        gone = [segment for segment in self._segments if segment.newest < before]
        if gone:
            self._segments = [segment for segment in self._segments if segment.newest >= before]
        for segment in gone:
            with contextlib.suppress(OSError):  # it is of no use to anybody, and no harm
                segment.path.unlink()

    def entries(self, after: int, through: int) -> Iterator[bytes]:
        """The packed rows of the jobs in (after, through], in order."""
        for segment, size in [(segment, segment.size) for segment in self._segments]:
            if size and segment.last > after and segment.first <= through:
                yield from _read(segment.path, size, after, through)

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments)

    def _segment_for(self, job: int, newest: int) -> _Segment:
        last = self._segments[-1] if self._segments else None
        if last is None or last.sealed or last.size >= SEGMENT_BYTES:
            last = _Segment(self._folder / f"{self._made}.segment", job, job, newest)
            self._made += 1
            self._segments.append(last)
        return last


def _write(path: Path, parts: tuple[bytes, memoryview]) -> None:
    # Not through a buffer: readers must see what is counted, and an error must come here.
    with path.open("ab", buffering=0) as file:
        written = os.writev(file.fileno(), parts)
        left = memoryview(b"".join(parts))[written:] if written < sum(map(len, parts)) else None
        while left:
            left = left[file.write(left) :]


def _read(path: Path, size: int, after: int, through: int) -> Iterator[bytes]:
    left = size
    with path.open("rb") as file:
        while left:
            job, length = _ENTRY.unpack(file.read(_ENTRY.size))
            left -= _ENTRY.size + length
            if job > through:
                return
            if job > after:
                yield file.read(length)
            else:
                file.seek(length, os.SEEK_CUR)


class StoreLog:
    """The appends of one store, partition by partition."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self._folder = folder
        self.partitions = []
        for number in range(partitions):
            (folder / str(number)).mkdir(parents=True)
            self.partitions.append(PartitionLog(folder / str(number)))

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(log.nbytes for log in self.partitions)

    def forget(self, before: int) -> None:
        """Remove what has only positions before this."""
        for log in self.partitions:
            log.forget(before)

    def remove(self) -> None:
        """The store is gone."""
        shutil.rmtree(self._folder, ignore_errors=True)
