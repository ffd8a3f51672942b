"""Room that is reserved for records: while it is lent nobody else gets it, and a daemon that begins waits for room."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from node.core.effects import AppendBatch
from node.core.records import Put
from node.io.sources.late_files import LateFiles
from node.storage.errors import NoRoomError
from node.storage.folder import Folder
from node.storage.headroom import HEADROOM_NAME, Headroom
from node.storage.lock import SiteLock
from node.storage.site_folder import SiteFolder, open_folder
from node.storage.site_records import RECORDS_NAME
from tests.small_disk import small_disk as mounted
from tests.unit.logged import batches

NBYTES = PIECE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", "4m") as place:
        yield place


def opened(disk: Path, wait: Callable[[NoRoomError], None] | None = None, *, fresh: bool = False) -> SiteFolder:
    return open_folder(
        disk / "alpha",
        "c",
        "alpha",
        ["a"],
        100,
        fresh,
        headroom_bytes=NBYTES,
        make_headroom=partial(Headroom, wait=wait),
    )


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(512))
    return ballast


def free_bytes(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def lend(folder: SiteFolder) -> None:
    """Have records take from the room that is reserved for them."""
    number = 0
    while not folder.headroom.lent:
        number += 1
        assert number < 1_000, "the reserved room is not needed"
        folder.headroom.lend(partial(folder.records.commit, [Put("pin", str(number % 3), bytes(2_000))]))


def test_while_room_is_lent_neither_logs_nor_side_files_nor_rows_get_it(small_disk: Path) -> None:
    folder = opened(small_disk)
    ballast = fill(small_disk)
    lend(folder)
    free = free_bytes(small_disk)
    assert free > NBYTES / 2
    (batch,) = batches(1)
    assert folder.logs.run([AppendBatch("a", batch)]) == []
    assert "No space left on device, but for records (error 28, ENOSPC)" in folder.logs.full
    with pytest.raises(NoRoomError, match="but for records"):
        LateFiles(small_disk / "late", folder.headroom).write("a", batch.rows, "late")
    with pytest.raises(OSError, match="but for records"):
        Folder(small_disk / "alpha" / "results", folder.headroom).create("x.rows")
    assert free_bytes(small_disk) == free
    # It is lent until all of it is there again.
    assert not folder.headroom.reserve()
    assert folder.logs.retry() == []
    ballast.unlink()
    assert folder.headroom.reserve()
    assert folder.logs.retry()
    folder.logs.close()
    folder.close()


def test_what_is_on_another_disk_is_written_all_the_while(small_disk: Path, tmp_path: Path) -> None:
    folder = opened(small_disk)
    fill(small_disk)
    lend(folder)
    late = LateFiles(tmp_path / "late", folder.headroom)
    late.write("a", batches(1)[0].rows, "late")
    late.close()
    folder.logs.close()
    folder.close()


def test_records_use_their_journal_again_and_again_however_long_the_disk_is_full(small_disk: Path) -> None:
    with mounted(small_disk / "larger", "12m") as place:
        folder = open_folder(place / "alpha", "c", "alpha", [], 100, headroom_bytes=6 << 20)
        fill(place)
        for number in range(2_000):
            folder.headroom.lend(partial(folder.records.commit, [Put("done", str(number % 3), bytes(200))]))
        assert folder.headroom.lent
        assert (place / "alpha" / f"{RECORDS_NAME}-wal").stat().st_size < 5 << 20
        folder.close()


def test_room_is_lent_in_pieces_so_that_no_other_program_has_all_at_once(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "8m") as place:
        open_folder(place / "alpha", "c", "alpha", ["a"], 100, headroom_bytes=4 * PIECE).close()
        reserved, sizes = place / "alpha" / HEADROOM_NAME, list[int]()
        for life in (101, 102, 103, 104):
            fill(place)
            folder = open_folder(place / "alpha", "c", "alpha", ["a"], 100, headroom_bytes=4 * PIECE)
            assert folder.records.life == life
            assert folder.headroom.lent
            folder.close()
            sizes.append(reserved.stat().st_size if reserved.exists() else 0)
        assert sizes == [3 * PIECE, 2 * PIECE, PIECE, 0]


@pytest.mark.parametrize("name", [HEADROOM_NAME, "headroom.new"])
def test_room_of_which_there_is_a_part_is_made_whole(tmp_path: Path, name: str) -> None:
    """The version before had another name for it."""
    (tmp_path / name).write_bytes(bytes(5_000))
    assert Headroom(tmp_path, 10_000).reserve()
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [(HEADROOM_NAME, 10_000)]


def test_room_that_cannot_be_had_whole_leaves_what_there_is(small_disk: Path) -> None:
    (small_disk / HEADROOM_NAME).write_bytes(bytes(PIECE))
    fill(small_disk).write_bytes(bytes(2 * PIECE))
    assert not Headroom(small_disk, 4 * PIECE).reserve()
    assert (small_disk / HEADROOM_NAME).stat().st_size == PIECE
    assert Headroom(small_disk, 2 * PIECE).reserve()


@pytest.mark.parametrize("fresh", [False, True])
def test_a_daemon_that_finds_no_room_to_begin_waits_for_it(small_disk: Path, fresh: bool) -> None:
    opened(small_disk).close()
    (small_disk / "alpha" / HEADROOM_NAME).unlink()
    ballast = fill(small_disk)
    with pytest.raises(NoRoomError, match=r"required a disk that keeps what is written; got .*SQLITE_"):
        opened(small_disk, fresh=fresh)
    waits: list[str] = []

    def wait(error: NoRoomError) -> None:
        waits.append(str(error))
        if len(waits) == 3:
            ballast.unlink()

    folder = opened(small_disk, wait, fresh=fresh)
    assert len(waits) == 3
    assert folder.records.life == 101
    assert not folder.headroom.lent
    folder.close()


def test_who_need_not_wait_any_more_lets_the_folder_go(small_disk: Path) -> None:
    opened(small_disk).close()
    (small_disk / "alpha" / HEADROOM_NAME).unlink()
    fill(small_disk)

    def wait(_: NoRoomError) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(small_disk, wait)
    SiteLock(small_disk / "alpha").release()


def test_a_folder_that_cannot_be_made_for_want_of_room_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, refused = Path.mkdir, list[Path]()

    def full(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if path not in refused:
            refused.append(path)
            raise OSError(28, os.strerror(28), str(path))
        make(path, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", full)
    waits: list[str] = []
    waiting = partial(Headroom, wait=lambda error: waits.append(str(error)))
    open_folder(tmp_path / "alpha", "c", "alpha", ["a"], 100, headroom_bytes=4096, make_headroom=waiting).close()
    places = [tmp_path / "alpha", tmp_path / "alpha" / "a", tmp_path / "alpha" / "a" / "log"]
    assert refused == places
    assert all("required a state_dir that can be written to; got No space left on device" in said for said in waits)
    assert len(waits) == len(places)
