"""Side files: what is written is there whole or not at all, and what is synced is there with its name."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from node.io.sources.late_files import LateFiles
from node.storage.errors import DiskFailedError, NoRoomError
from tests.unit.syncs import noted_syncs

ROWS = pa.RecordBatch.from_pydict({"n": pa.array(range(100), pa.int64())})


def read(path: Path) -> list[int]:
    with pa.OSFile(str(path)) as source:
        return [n for rows in pa.ipc.open_stream(source) for n in rows.column("n").to_pylist()]


def fill_up(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> Callable[[], None]:
    """A disk with so much room: the last write that finds any takes a part. What is returned makes room."""
    write, left = os.write, nbytes

    def filling(file: int, data: memoryview) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(file, data[:left])
        left -= taken
        return taken

    def make_room() -> None:
        nonlocal left
        left = 1 << 30

    monkeypatch.setattr(os, "write", filling)
    return make_room


def test_the_names_of_a_new_file_and_its_folders_are_durable_with_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = noted_syncs(monkeypatch, tmp_path)
    folder = tmp_path / "kept" / "late"
    files = LateFiles(folder)
    files.write("s", ROWS, "late")
    files.sync()
    assert synced == [tmp_path, tmp_path / "kept", folder / "s.arrows", folder]
    files.write("s", ROWS, "late")
    files.sync()
    files.sync()
    assert synced[4:] == [folder / "s.arrows"], "its name is durable already"
    files.close()


def test_rows_are_written_whole_though_the_disk_takes_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    files = LateFiles(tmp_path)
    files.write("s", ROWS, "late")
    files.close()
    assert read(tmp_path / "s.arrows") == list(range(100))


def test_of_rows_that_find_no_room_nothing_is_there_and_what_was_written_before_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = noted_syncs(monkeypatch, tmp_path)
    files = LateFiles(tmp_path)
    files.write("s", ROWS, "late")
    whole = (tmp_path / "s.arrows").stat().st_size
    make_room = fill_up(monkeypatch, 30)
    with pytest.raises(
        NoRoomError, match=rf"late_dir {tmp_path} required to keep tuples that are set aside; got No space"
    ):
        files.write("s", ROWS, "late")
    assert (tmp_path / "s.arrows").stat().st_size == whole
    assert synced == [tmp_path / "s.arrows", tmp_path]
    make_room()
    files.write("s", ROWS, "late")
    files.close()
    assert [read(tmp_path / name) for name in ("s.arrows", "s.1.arrows")] == [list(range(100))] * 2


def test_a_file_with_nothing_in_it_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LateFiles(tmp_path)
    fill_up(monkeypatch, 30)
    with pytest.raises(NoRoomError):
        files.write("s", ROWS, "late")
    assert (list(tmp_path.iterdir()), files.paths) == ([], {})


@pytest.mark.parametrize("given_up", [True, False])
def test_a_file_that_cannot_be_synced_is_an_error_of_the_disk_even_if_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_up: bool
) -> None:
    """Nobody knows what of it is there."""

    def fails(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files = LateFiles(tmp_path)
    files.write("s", ROWS, "late")
    monkeypatch.setattr(os, "fsync", fails)
    if given_up:
        fill_up(monkeypatch, 30)
    with pytest.raises(DiskFailedError, match=rf"late_dir {tmp_path} required to keep tuples that are set aside"):
        files.write("s", ROWS, "late") if given_up else files.sync()
