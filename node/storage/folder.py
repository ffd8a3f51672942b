"""A folder of the real disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from node.storage.disk import Bytes

_MODE = 0o600


class Room(Protocol):
    """Who says whether the room on a disk may be used."""

    def use(self, folder: Path) -> AbstractContextManager[None]:
        """While something is written in a folder. Raises OSError, as a full disk does, if nothing may be."""


class AnyRoom:
    """All that there is."""

    def use(self, folder: Path) -> AbstractContextManager[None]:
        return nullcontext()


ANY_ROOM = AnyRoom()


class FolderFile:
    """A file that is open to be written at its end."""

    def __init__(self, path: Path, flags: int, room: Room = ANY_ROOM) -> None:
        self._folder = path.parent
        self._room = room
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | flags, _MODE)

    def append(self, data: Sequence[Bytes]) -> None:
        with self._room.use(self._folder):
            for part in data:
                write_all(self._file, part)

    def sync(self) -> None:
        os.fsync(self._file)

    def truncate(self, nbytes: int) -> None:
        os.ftruncate(self._file, nbytes)

    def close(self) -> None:
        os.close(self._file)


class Folder:
    """A folder, made with all above it if it is not there. What is written in it has to heed who says of the room."""

    def __init__(self, path: Path, room: Room = ANY_ROOM) -> None:
        self._path = path
        self._room = room
        make_folder(path)

    @property
    def path(self) -> str:
        return str(self._path)

    def names(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self._path))

    def create(self, name: str) -> FolderFile:
        with self._room.use(self._path):
            return FolderFile(self._path / name, os.O_CREAT | os.O_TRUNC, self._room)

    def open(self, name: str) -> FolderFile:
        return FolderFile(self._path / name, 0, self._room)

    def size(self, name: str) -> int:
        return (self._path / name).stat().st_size

    def read(self, name: str, offset: int, nbytes: int) -> bytes:
        with (self._path / name).open("rb", buffering=0) as file:
            file.seek(offset)
            pieces = []
            # The system may give less than it was asked for, and gives at most 2 GiB at once.
            while nbytes > 0 and (piece := file.read(nbytes)):
                pieces.append(piece)
                nbytes -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def rename(self, name: str, new_name: str) -> None:
        (self._path / name).rename(self._path / new_name)

    def remove(self, name: str) -> None:
        (self._path / name).unlink()

    def sync_names(self) -> None:
        sync_folder(self._path)


def write_all(file: int, data: Bytes) -> None:
    """On a disk that is nearly full a write takes a part, and only the next one fails."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def make_folder(path: Path) -> None:
    """A folder whose name is lost in a crash loses all that is in it, so each new one is synced into the one above."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make durable which files and folders are in it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
