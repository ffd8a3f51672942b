"""What was appended to a window and is not expired, on the site's disk: the truth of which workers hold copies.

Every partition has its own segments, so that a worker that lost its part, or never had it, is sent that part
alone. An entry has the number of the job that brought it. Appending costs what is appended, forgetting costs the
files that are removed. It does not outlive the daemon and is not synced: it is there for the death of a worker,
an executor or the JVM.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

#: A segment is removed as a whole, so it should not hold much more than what expires soon.
SEGMENT_BYTES = 4 << 20
_ENTRY = struct.Struct("<QQ")


@dataclass(slots=True)
class _Segment:
    path: Path
    first: int
    last: int
    newest: int
    size: int = 0


class PartitionLog:
    """The appends of one window to one partition."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: list[_Segment] = []
        self._file: BinaryIO | None = None
        self._made = 0

    def append(self, job: int, newest: int, packed: memoryview) -> None:
        """Keep packed rows of a job; ``newest`` is the highest position among them."""
        segment = self._segment_for(job, newest)
        assert self._file is not None
        self._file.write(_ENTRY.pack(job, len(packed)))
        self._file.write(packed)
        segment.last, segment.newest = job, max(segment.newest, newest)
        segment.size += _ENTRY.size + len(packed)

    def forget(self, before: int) -> None:
        """Remove the segments in which all positions are before this."""
        gone = [segment for segment in self._segments if segment.newest < before]
        if gone and gone[-1] is self._segments[-1]:
            self.close()
        if gone:
            self._segments = [segment for segment in self._segments if segment.newest >= before]
        for segment in gone:
            segment.path.unlink()

    def entries(self, after: int, through: int) -> Iterator[bytes]:
        """The packed rows of the jobs in (after, through], in order."""
        if self._file is not None:
            self._file.flush()
        for segment in list(self._segments):
            if segment.last > after and segment.first <= through:
                yield from _read(segment, after, through)

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments)

    def close(self) -> None:
        """Write no more to the open segment."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _segment_for(self, job: int, newest: int) -> _Segment:
        if self._file is None or self._segments[-1].size >= SEGMENT_BYTES:
            self.close()
            path = self._folder / f"{self._made}.segment"
            self._made += 1
            self._file = path.open("xb")
            self._segments.append(_Segment(path, job, job, newest))
        return self._segments[-1]


def _read(segment: _Segment, after: int, through: int) -> Iterator[bytes]:
    left = segment.size
    with segment.path.open("rb") as file:
        while left:
            job, length = _ENTRY.unpack(file.read(_ENTRY.size))
            left -= _ENTRY.size + length
            if job > through:
                return
            if job > after:
                yield file.read(length)
            else:
                file.seek(length, 1)


class WindowLog:
    """The appends of one window, partition by partition."""

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
        """The window is gone."""
        for log in self.partitions:
            log.close()
        shutil.rmtree(self._folder)
