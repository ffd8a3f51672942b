"""Small file systems, which can be filled without harm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def mount(place: Path, size: str) -> str:
    """Mount one at a folder that is there; why that was not possible, or nothing."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.strip() or f"mount ended with {done.returncode}") if done.returncode else ""


def unmount(place: Path) -> None:
    """Also if somebody still uses it."""
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Such a folder, for as long as it is needed. The test is skipped where nothing can be mounted."""
    place.mkdir(exist_ok=True)
    if why := mount(place, size):
        pytest.skip(f"a small file system cannot be mounted here: {why}")
    try:
        yield place
    finally:
        unmount(place)
