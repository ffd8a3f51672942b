"""A folder for what nobody continues: nothing in it is synced."""

from __future__ import annotations

import os
from pathlib import Path

from node.storage.folder import Folder, FolderFile


class ScratchFile(FolderFile):
    """A file that a crash may take."""

    def sync(self) -> None:
        """Nothing to do."""


class Scratch(Folder):
    """The folder of a run that ends with its query."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        super().__init__(path)

    def create(self, name: str) -> ScratchFile:
        return ScratchFile(self._path / name, os.O_CREAT | os.O_TRUNC)

    def open(self, name: str) -> ScratchFile:
        return ScratchFile(self._path / name, 0)

    def sync_names(self) -> None:
        """Nothing to do."""
