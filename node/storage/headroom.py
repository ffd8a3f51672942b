"""Room that is kept free of logs, so that on a full disk records can still be written and space be given back."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
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

    def __init__(self, folder: Path, nbytes: int = HEADROOM_BYTES) -> None:
        self._path = folder / HEADROOM_NAME
        self._nbytes = nbytes

    def reserve(self) -> bool:
        """Whether the room is reserved, now or already. Raises StorageError unless it is only that there is none."""
        # It has its name only when it has its room.
        made = self._path.with_suffix(".new")
        try:
            if self._path.exists() and self._path.stat().st_size == self._nbytes:
                return True
            self._fill(made)
            made.replace(self._path)
            sync_folder(self._path.parent)
        except OSError as error:
            with suppress(OSError):
                made.unlink()
            if error.errno not in NO_ROOM:
                raise disk_error(str(self._path), "a disk that keeps room in reserve", error) from error
            return False
        return True

    def _fill(self, made: Path) -> None:
        file = os.open(made, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, self._nbytes)
            else:  # macOS
                _write_zeros(file, self._nbytes)
            os.fsync(file)
        finally:
            os.close(file)

    @property
    def missing(self) -> str:
        """What is said while the room cannot be reserved."""
        return f"{self._path} required {self._nbytes:,} bytes in reserve for records; got a disk without them"

    def lend(self, write: Callable[[], T]) -> T:
        """What ``write`` gives, in the room that is reserved if it finds no other; it may be called twice.

        Raises NoRoomError if there is not even that.
        """
        try:
            return write()
        except NoRoomError:
            if not self.release():
                raise
            return write()

    def release(self) -> bool:
        """Give the room back; whether there was any. Raises StorageError."""
        try:
            self._path.unlink()
            sync_folder(self._path.parent)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise disk_error(str(self._path), "a disk that gives room back", error) from error
        return True


def _write_zeros(file: int, nbytes: int) -> None:
    for at in range(0, nbytes, _PIECE_BYTES):
        write_all(file, bytes(min(_PIECE_BYTES, nbytes - at)))
