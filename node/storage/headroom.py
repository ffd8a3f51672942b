"""Room that is kept free, so that on a full disk records can still be written and space be given back.

Whatever else a daemon writes on that disk asks ``use`` first: logs, rows of queries, their journals and files, tuples
that are set aside. Unless the room is reserved it is refused, as if there were nothing left: it would take what records
have been lent, and a daemon that is killed then could not begin again.

Records need little of it: a journal of SQLite's of about 4 MiB, used again and again, and what they have themselves.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from node.storage.errors import NO_ROOM, NoRoomError, disk_error
from node.storage.folder import sync_folder, write_all

#: Enough for the records of a site for a long time.
HEADROOM_BYTES = 16 << 20
#: No stream can be called so: there is a dot in it.
HEADROOM_NAME = "headroom.bin"

_PIECE_BYTES = 1 << 20

T = TypeVar("T")


class Headroom:
    """A file that takes room until the room is needed."""

    def __init__(
        self,
        folder: Path,
        nbytes: int = HEADROOM_BYTES,
        wait: Callable[[NoRoomError], None] | None = None,
    ) -> None:
        """``wait``: what a daemon that begins does for a while when it finds no room at all."""
        self._path = folder / HEADROOM_NAME
        self._nbytes = nbytes
        self._wait = wait
        #: Why all room there is, is for records; nothing while theirs is reserved.
        self.lent = self.missing

    def reserve(self) -> bool:
        """Whether the room is reserved, now or already. Raises StorageError unless it is only that there is none."""
        try:
            # Of the version before, which called it so until it had all of it.
            self._path.with_suffix(".new").unlink(missing_ok=True)
            if (nbytes := self._size()) < self._nbytes:
                self._grow(nbytes)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise disk_error(str(self._path), "a disk that keeps room in reserve", error) from error
            self.lent = self.lent or self.missing
            return False
        self.lent = ""
        return True

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def _grow(self, nbytes: int) -> None:
        """All of it, or as much as it had: what is left is still for records."""
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, nbytes, self._nbytes - nbytes)
            else:  # macOS
                os.lseek(file, nbytes, os.SEEK_SET)
                _write_zeros(file, self._nbytes - nbytes)
            os.fsync(file)
        except OSError:
            self._cut(file, nbytes)
            raise
        finally:
            os.close(file)
        sync_folder(self._path.parent)

    def _cut(self, file: int, nbytes: int) -> None:
        os.ftruncate(file, nbytes)
        os.fsync(file)
        if not nbytes:
            self._path.unlink()

    @property
    def missing(self) -> str:
        """What is said while the room cannot be reserved."""
        return f"{self._path} required {self._nbytes:,} bytes in reserve for records; got a disk without them"

    @contextmanager
    def use(self, folder: Path) -> Iterator[None]:
        """While something that is no record is written in a folder.

        Raises OSError, as a full disk does, while that is on this disk and the room for records is not reserved.
        """
        self._require_other_room(folder)
        yield

    def _require_other_room(self, folder: Path) -> None:
        if self.lent and self._is_here(folder):
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, but for records")

    def _is_here(self, folder: Path) -> bool:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        return there.stat().st_dev == self._path.parent.stat().st_dev

    def lend(self, write: Callable[[], T]) -> T:
        """What ``write`` gives, in the room that is reserved if it finds no other; it may be called more than once.

        Raises NoRoomError if there is not even that.
        """
        while True:
            try:
                return write()
            except NoRoomError as error:
                if not self._release(str(error)):
                    raise

    def lend_or_wait(self, write: Callable[[], T]) -> T:
        """The same for a daemon that begins: it cannot do without, so it tries until there is room."""
        while True:
            try:
                return self.lend(write)
            except NoRoomError as error:
                if self._wait is None:
                    raise
                self._wait(error)

    def _release(self, why: str) -> bool:
        """Give a piece of the room back, for records alone; whether there was any. Raises StorageError.

        A piece: whatever other program fills the disk at that moment would have all.
        """
        self.lent = self.lent or why
        nbytes = self._size()
        if not nbytes:
            return False
        try:
            file = os.open(self._path, os.O_WRONLY)
            try:
                self._cut(file, max(0, nbytes - _PIECE_BYTES))
            finally:
                os.close(file)
        except OSError as error:
            raise disk_error(str(self._path), "a disk that gives room back", error) from error
        return True


def _write_zeros(file: int, nbytes: int) -> None:
    for at in range(0, nbytes, _PIECE_BYTES):
        write_all(file, bytes(min(_PIECE_BYTES, nbytes - at)))
