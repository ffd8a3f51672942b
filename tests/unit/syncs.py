"""What is synced to the disk, and in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def noted_syncs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Path]:
    """Files and folders at or below ``folder`` from now on, under the name that each has when it is synced."""
    synced: list[Path] = []
    sync = os.fsync

    def noted(file: int) -> None:
        of = os.fstat(file)
        synced.extend(path for path in (folder, *folder.rglob("*")) if os.path.samestat(path.stat(), of))
        sync(file)

    monkeypatch.setattr(os, "fsync", noted)
    return synced
