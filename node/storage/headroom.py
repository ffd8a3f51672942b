"""Room that is kept free of logs, so that on a full disk records can still be written and space be given back."""

from __future__ import annotations

import os
from pathlib import Path

from node.storage.errors import NO_ROOM
from node.storage.folder import sync_folder

#: Enough for the records of a site for a long time.
HEADROOM_BYTES = 16 << 20
#: No stream can be called so: there is a dot in it.
HEADROOM_NAME = "headroom.bin"


class Headroom:
    """A file that takes room until the room is needed."""

    def __init__(self, folder: Path, nbytes: int = HEADROOM_BYTES) -> None:
        self._path = folder / HEADROOM_NAME
        self._nbytes = nbytes

    def reserve(self) -> bool:
        """Whether the room is reserved, now or already. Raises OSError unless it is only that there is none."""
        if self._path.exists() and self._path.stat().st_size == self._nbytes:
            return True
        # It has its name only when it has its room.
        made = self._path.with_suffix(".new")
        file = os.open(made, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(file, 0, self._nbytes)
            os.fsync(file)
        except OSError as error:
            made.unlink()
            if error.errno not in NO_ROOM:
                raise
            return False
        finally:
            os.close(file)
        made.replace(self._path)
        sync_folder(self._path.parent)
        return True

    def release(self) -> bool:
        """Give the room back; whether there was any."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        sync_folder(self._path.parent)
        return True
