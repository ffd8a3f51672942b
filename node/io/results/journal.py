"""What home must know of a query besides its rows: what it is, how it stands, how far its readers are.

Small facts in a file that grows, the later ones instead of the earlier; written anew when it has grown. A fact counts
once ``commit`` confirmed it. What is written anew is what was noted, in the thread that notes: whoever asks for a note
may not have heard yet of the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from node.io.results.records import FILE_HEAD_BYTES, check_file_head, encode, file_head, scan
from node.storage.disk import Bytes, Disk, DiskFile
from node.storage.errors import StorageError

JOURNAL_NAME = "query.journal"
#: What the journal of a query that was dropped is called: a full disk takes no note, but another name.
DROPPED_NAME = "query.dropped"
_UNFINISHED = ".new"
#: It is written anew when it has grown by this.
JOURNAL_BYTES = 1 << 16

#: What it is about comes first; about one of several things of a kind, such as readers, that is its name too.
Facts = Mapping[str, Any]
_Latest = dict[Hashable, Facts]
#: By its first name, a fact after which nothing is known any more of a thing of that kind.
_ENDS = {"forgotten": "reader", "switch forgotten": "switch"}
_SEVERAL = ("reader", "switch")


class Journal:
    """One file. All but ``recover`` is done by the thread that does file work."""

    def __init__(self, open_disk: Callable[[], Disk], growth_bytes: int = JOURNAL_BYTES) -> None:
        self._open_disk = open_disk
        self._growth_bytes = growth_bytes
        self._file: DiskFile | None = None
        #: What counts of all that is written, in the order in which it was first noted.
        self._latest: _Latest = {}
        self._count = 0
        #: Bytes that are written, that are durable, and beyond which it is written anew.
        self._nbytes = 0
        self._synced = 0
        self._nbytes_max = 0
        self._failed = ""
        self._dropped = False

    def recover(self) -> list[Facts]:
        """What counts of all that was noted, what was noted first first; nothing if not even that was confirmed.

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
        self._latest = _after({}, [record.facts for record in found])
        return [*self._latest.values()]

    def append(self, *noted: Facts) -> None:
        """Note something; it is safe after ``commit``. What a journal begins with is there as a whole or not at all.

        Raises OSError, and has noted nothing, if the disk does not take it.
        """
        if self._failed:
            raise StorageError(self._failed)
        if self._dropped:
            raise StorageError(f"{self._open_disk().path} is of a query that was dropped")
        latest = _after(self._latest, noted)
        if self._nbytes == 0 or self._nbytes > self._nbytes_max:
            self._begin(latest)
        else:
            self._write(noted)
        self._latest = latest

    def _write(self, noted: Iterable[Facts]) -> None:
        if self._file is None:
            self._file = self._open_disk().open(JOURNAL_NAME)
        parts, end = self._encoded(noted, self._nbytes)
        try:
            self._file.append(parts)
        except OSError:
            self._cut()
            raise
        self._nbytes = end

    def _encoded(self, noted: Iterable[Facts], at: int) -> tuple[list[Bytes], int]:
        parts: list[Bytes] = []
        for facts in noted:
            record, found = encode(self._count, facts, (), at, self._synced)
            parts += record
            at = found.end
            self._count += 1
        return parts, at

    def _begin(self, latest: _Latest) -> None:
        """Write it anew: another file, which takes the place of this one when it is durable."""
        disk = self._open_disk()
        self._count = self._synced = 0
        parts, end = self._encoded(latest.values(), FILE_HEAD_BYTES)
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

    def drop(self) -> None:
        """From now on there is no such query, also after a restart, and nothing more is noted. Raises OSError."""
        # Whoever noted something just before is told that it is noted.
        self.commit()
        self.close()
        disk = self._open_disk()
        if JOURNAL_NAME in disk.names():
            disk.rename(JOURNAL_NAME, DROPPED_NAME)
            self._sync(disk.sync_names)
        self._dropped = True

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()


def _after(latest: _Latest, noted: Iterable[Facts]) -> _Latest:
    """What counts after some more is noted."""
    after = dict(latest)
    for facts in noted:
        kind, name = next(iter(facts.items()))
        if kind in _ENDS:
            after.pop((_ENDS[kind], name), None)
        else:
            after[(kind, name) if kind in _SEVERAL else kind] = facts
    return after
