"""Two daemons must not write to one folder."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from node.storage.errors import StorageError, disk_error
from node.storage.folder import make_folder

#: No stream can be called so: there is a dot in it.
LOCK_NAME = "daemon.lock"


class SiteLock:
    """Held by one process at a time, until it lets go or ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of a site; raises StorageError if another process has it, or it cannot be made."""
        try:
            make_folder(folder)
            self._file = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise disk_error(str(folder), "a state_dir that can be written to", error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "of unknown number"
            self.release()
            raise StorageError(
                f"{folder} required a state_dir that no other daemon uses; got one that process {holder} has locked "
                "(does the daemon of this site run already?)"
            ) from None
        with suppress(OSError):  # it is for people, and the disk may be full
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let go, once or more often. The file stays: removing it would let two processes lock two files."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
