"""A folder of a daemon's own: made when it is needed, gone when the daemon is."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest

from node.io.temporary_folder import TemporaryFolder
from node.storage.errors import StorageError


def test_it_is_made_when_it_is_needed_and_removed_with_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temporary = TemporaryFolder("narrows-berlin-")
    temporary.remove()
    assert not list(tmp_path.iterdir())
    (temporary.folder / "rows").write_text("some")
    assert temporary.folder.parent == tmp_path
    assert temporary.folder.name.startswith("narrows-berlin-")
    temporary.remove()
    temporary.remove()
    assert not list(tmp_path.iterdir())


def test_without_room_only_who_needs_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    temporary = TemporaryFolder("narrows-berlin-")
    with pytest.raises(StorageError, match=r"narrows-berlin-\* required a temporary folder; got No usable temporary"):
        assert temporary.folder
    temporary.remove()
