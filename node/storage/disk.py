"""What a log needs of a disk: one folder of files that grow at their end.

Nothing is certain to survive a crash before it is synced: bytes by ``DiskFile.sync``, names by ``Disk.sync_names``.
Every call may raise OSError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Bytes = bytes | bytearray | memoryview


class DiskFile(Protocol):
    """A file that is open to be written at its end."""

    def append(self, data: Sequence[Bytes]) -> None:
        """Write these at the end, in order; on an error a part of them may be there."""

    def sync(self) -> None:
        """Make all its bytes durable."""

    def truncate(self, nbytes: int) -> None:
        """Cut it to its first ``nbytes``."""

    def close(self) -> None: ...


class Disk(Protocol):
    """One folder."""

    @property
    def path(self) -> str:
        """What the folder is called, for people."""

    def names(self) -> list[str]:
        """The files there are, in order."""

    def create(self, name: str) -> DiskFile:
        """An empty file; one of that name that was there is gone."""

    def open(self, name: str) -> DiskFile: ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, offset: int, nbytes: int) -> bytes:
        """Those bytes of a file; fewer if it ends before."""

    def rename(self, name: str, new_name: str) -> None: ...

    def remove(self, name: str) -> None: ...

    def sync_names(self) -> None:
        """Make durable which files there are."""
