"""What home must know of a query besides its rows: what it is, how it stands, how far its readers are.

Small facts in a file that grows, the later ones instead of the earlier; written anew when it has grown. A fact counts
once ``commit`` confirmed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from node.io.results.records import FILE_HEAD_BYTES, check_file_head, encode, file_head, scan
from node.storage.disk import Bytes, Disk, DiskFile
from node.storage.errors import StorageError

JOURNAL_NAME = "query.journal"
_UNFINISHED = ".new"
#: It is written anew when it has grown by this.
JOURNAL_BYTES = 1 << 16

Facts = Mapping[str, Any]


class Journal:
    """One file. All but ``recover`` is done by the thread that does file work."""

    def __init__(self, open_disk: Callable[[], Disk], growth_bytes: int = JOURNAL_BYTES) -> None:
        self._open_disk = open_disk
        self._growth_bytes = growth_bytes
        self._file: DiskFile | None = None
        self._count = 0
        #: Bytes that are written, that are durable, and beyond which it is written anew.
        self._nbytes = 0
        self._synced = 0
        self._nbytes_max = 0
        self._failed = ""

    def recover(self) -> list[Facts]:
        """What was noted, in order; nothing if not even the first note was confirmed.

        Raises StorageError if it is damaged, or of another version.
        """
        disk = self._open_disk()
        if JOURNAL_NAME + _UNFINISHED in disk.names():
            disk.remove(JOURNAL_NAME + _UNFINISHED)
        if JOURNAL_NAME not in disk.names():
            return []
        check_file_head(disk, JOURNAL_NAME)
        found = list(scan(disk, JOURNAL_NAME, FILE_HEAD_BYTES, last=True))
        self._nbytes = self._synced = self._nbytes_max = found[-1].end if found else FILE_HEAD_BYTES
        self._count = len(found)
        self._file = disk.open(JOURNAL_NAME)
        if disk.size(JOURNAL_NAME) > self._nbytes:
            self._file.truncate(self._nbytes)
        # A daemon that was killed may have written notes and not synced them.
        self._file.sync()
        disk.sync_names()
        return [record.facts for record in found]

    def append(self, facts: Facts, whole: Sequence[Facts]) -> None:
        """Note something; it is safe after ``commit``. ``whole`` is everything anew, what is noted now included.

        Raises OSError, and has noted nothing, if the disk does not take it.
        """
        if self._failed:
            raise StorageError(self._failed)
        if self._nbytes == 0 or self._nbytes > self._nbytes_max:
            self._begin(whole)
            return
        if self._file is None:
            self._file = self._open_disk().open(JOURNAL_NAME)
        parts, end = self._encoded([facts], self._nbytes)
        try:
            self._file.append(parts)
        except OSError:
            self._cut()
            raise
        self._nbytes = end

    def _encoded(self, noted: Sequence[Facts], at: int) -> tuple[list[Bytes], int]:
        parts: list[Bytes] = []
        for facts in noted:
            record, found = encode(self._count, facts, (), at, self._synced)
            parts += record
            at = found.end
            self._count += 1
        return parts, at

    def _begin(self, whole: Sequence[Facts]) -> None:
        """Write it anew: another file, which takes the place of this one when it is durable."""
        disk = self._open_disk()
        self._count = self._synced = 0
        parts, end = self._encoded(whole, FILE_HEAD_BYTES)
        file = disk.create(JOURNAL_NAME + _UNFINISHED)
        try:
            file.append([file_head(), *parts])
            self._sync(file.sync)
            disk.rename(JOURNAL_NAME + _UNFINISHED, JOURNAL_NAME)
            self._sync(disk.sync_names)
        except Exception:
            file.close()
            raise
        self.close()
        self._file = file
        self._nbytes = self._synced = end
        self._nbytes_max = end + self._growth_bytes

    def commit(self) -> None:
        """Make durable what was noted."""
        if self._failed:
            raise StorageError(self._failed)
        if self._synced != self._nbytes and self._file is not None:
            self._sync(self._file.sync)
            self._synced = self._nbytes

    def _sync(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError as error:
            required = "a disk that keeps what is written"
            self._failed = f"{self._open_disk().path}/{JOURNAL_NAME} required {required}; got {error.strerror or error}"
            raise StorageError(self._failed) from error

    def _cut(self) -> None:
        """Cut off a note that was not written whole."""
        assert self._file is not None
        try:
            self._file.truncate(self._nbytes)
        except OSError as error:
            self._failed = f"{JOURNAL_NAME} required to cut off a note; got {error.strerror or error}"

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()
