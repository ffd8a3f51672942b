"""A folder of a daemon's own: made when it is needed, gone when the daemon is."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest

from node.io.scratch import Scratch
from node.storage.errors import StorageError


def test_it_is_made_when_it_is_needed_and_removed_with_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch = Scratch("narrows-berlin-")
    scratch.remove()
    assert not list(tmp_path.iterdir())
    (scratch.folder / "rows").write_text("some")
    assert scratch.folder.parent == tmp_path
    assert scratch.folder.name.startswith("narrows-berlin-")
    scratch.remove()
    scratch.remove()
    assert not list(tmp_path.iterdir())


def test_without_room_only_who_needs_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    scratch = Scratch("narrows-berlin-")
    with pytest.raises(StorageError, match=r"narrows-berlin-\* required a temporary folder; got No usable temporary"):
        assert scratch.folder
    scratch.remove()
