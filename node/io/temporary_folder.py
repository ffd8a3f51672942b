"""A folder for what a daemon has only while it runs. Who needs none of it can start when all disks are full."""

from __future__ import annotations

import tempfile
from pathlib import Path

from node.storage.errors import disk_error


class TemporaryFolder:
    """Made when it is needed, and removed with all that is in it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._made: tempfile.TemporaryDirectory[str] | None = None

    @property
    def folder(self) -> Path:
        """Raises StorageError if it cannot be made."""
        if self._made is None:
            try:
                self._made = tempfile.TemporaryDirectory(prefix=self._prefix, ignore_cleanup_errors=True)
            except OSError as error:
                raise disk_error(f"{self._prefix}*", "a temporary folder", error) from error
        return Path(self._made.name)

    def remove(self) -> None:
        """Once or more often; from any thread."""
        if self._made is not None:
            self._made.cleanup()
