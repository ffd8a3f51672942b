"""The folder of a site: one daemon has it, its streams go on in it, and it can be begun anew."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.core.effects import AppendBatch
from node.core.records import Put
from node.core.streams.position import Position, SourcePlace
from node.storage import site_folder
from node.storage.errors import NoRoomError, StorageError, VersionError
from node.storage.headroom import HEADROOM_NAME, Headroom
from node.storage.lock import LOCK_NAME, SiteLock
from node.storage.site_folder import SiteFolder, contents, open_folder
from node.storage.site_records import RECORDS_NAME, end_forgetting, is_forgetting
from tests.small_disk import small_disk
from tests.unit.logged import batches

PLACE = SourcePlace(Position(0, 3), Position(0, 12))


def opened(path: Path, clock_s: int = 100, *, fresh: bool = False, site: str = "berlin") -> SiteFolder:
    return open_folder(path, "c", site, ["orders", "clicks"], clock_s, fresh, headroom_bytes=4096)


def used(path: Path) -> None:
    """Some life that left something."""
    folder = opened(path)
    made = [replace(one, newest=7, place=PLACE) for one in batches(4)]
    folder.logs.run([AppendBatch("orders", one) for one in made])
    folder.records.commit([Put("query", "berlin-100-1", b"text")])
    folder.logs.close()
    folder.close()


def test_streams_go_on_where_the_log_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    used(tmp_path)
    with caplog.at_level(logging.INFO):
        folder = opened(tmp_path)
    (line,) = caplog.messages
    assert "stream orders goes on at tick 4; its log has 4 batches of 12 tuples from tick 0 on" in line
    extent = folder.extents["orders"]
    assert (extent.begin, extent.end, extent.next_tuple, extent.newest_ts, extent.place) == (0, 4, 12, 7, PLACE)
    assert [one.rows for one in extent.batches] == [3, 3, 3, 3]
    assert 0 < sum(one.nbytes for one in extent.batches) < folder.logs.nbytes["orders"]
    assert "clicks" not in folder.extents
    assert folder.records.life == 101
    assert folder.records.all("query") == {"berlin-100-1": b"text"}
    assert (tmp_path / HEADROOM_NAME).stat().st_size == 4096
    folder.close()


def test_beginning_anew_says_what_is_forgotten_and_repeats_no_life(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    used(tmp_path)
    (tmp_path / "orders" / "checkpoint").mkdir()
    (tmp_path / "orders" / "handed").write_text("3 0\n")
    (tmp_path / "results" / "berlin-100-1").mkdir(parents=True)
    (tmp_path / "results" / "berlin-100-1" / "0.rows").write_bytes(bytes(500))
    with caplog.at_level(logging.WARNING):
        folder = opened(tmp_path, 5, fresh=True)
    said = "\n".join(caplog.messages)
    assert "site berlin forgets stream orders: ticks 0 to 4, 12 tuples, " in said
    assert "forgets rows of queries berlin-100-1, and their readers: 500 bytes" in said
    assert "forgets records: 1 of query" in said
    assert folder.extents == {}
    assert folder.records.all("query") == {}
    assert folder.records.life == 101
    assert not (tmp_path / "orders" / "handed").exists()
    assert not (tmp_path / "results").exists()
    folder.close()
    assert contents(tmp_path) == ["stream clicks: 0 bytes", "stream orders: 0 bytes"]


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "ballast").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(512))


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class KilledError(BaseException):
    """Nothing of the process goes on."""


@pytest.mark.parametrize("how_often", [1, 2])
def test_what_a_crash_left_of_a_folder_that_begins_anew_is_gone_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how_often: int
) -> None:
    """A supervisor starts it without --fresh: what a stream is may have changed, and its old log must not go on."""
    used(tmp_path)
    (tmp_path / "results" / "berlin-100-1").mkdir(parents=True)
    remove = shutil.rmtree

    def killed(path: Path | str, *more: Any, **named: Any) -> None:
        if Path(path).is_relative_to(tmp_path):
            raise KilledError
        remove(path, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        for number in range(how_often):
            with pytest.raises(KilledError):
                opened(tmp_path, fresh=number == 0)
    assert list(tmp_path.glob("*/log/*.log"))
    folder = opened(tmp_path, 5)
    assert "what --fresh had not yet removed when its daemon ended is removed" in caplog.text
    assert (folder.extents, folder.records.all("query"), folder.records.life) == ({}, {}, 101)
    assert not (tmp_path / "results").exists()
    # What comes now stays.
    folder.logs.run([AppendBatch("orders", one) for one in batches(2)])
    folder.logs.close()
    folder.close()
    assert opened(tmp_path).extents["orders"].end == 2


def test_a_crash_before_anything_is_forgotten_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its daemon was killed too: what it committed last is in a journal."""
    path = tmp_path / "killed"
    used(tmp_path / "running")
    running = opened(tmp_path / "running", 200)
    running.records.commit([Put("pin", "oslo-1-1", b"ticks")])
    shutil.copytree(tmp_path / "running", path)
    running.close()

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KilledError):
            opened(path, fresh=True)
    folder = opened(path, 5)
    assert folder.extents["orders"].end == 4
    assert folder.records.all("query") == {"berlin-100-1": b"text"}
    assert folder.records.all("pin") == {"oslo-1-1": b"ticks"}
    assert (folder.records.life, folder.records.lives, folder.records.folder) == (201, (100, 200), 100)


def test_the_mark_of_what_begins_anew_is_taken_away_in_the_room_that_is_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(tmp_path)

    def end(folder: Path) -> None:
        if (folder / HEADROOM_NAME).exists():
            raise NoRoomError("full")
        end_forgetting(folder)

    monkeypatch.setattr(site_folder, "end_forgetting", end)
    opened(tmp_path, fresh=True).close()
    assert not is_forgetting(tmp_path)


def test_state_of_the_first_version_is_refused_until_it_is_forgotten(tmp_path: Path) -> None:
    used(tmp_path)
    for name in (RECORDS_NAME, f"{RECORDS_NAME}-wal", f"{RECORDS_NAME}-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (path,) = (tmp_path / "orders" / "log").iterdir()
    before = path.read_bytes()
    with pytest.raises(VersionError, match="required state of version 2 or 3 or 4; got version 1"):
        opened(tmp_path)
    assert path.read_bytes() == before
    assert opened(tmp_path, fresh=True).extents == {}


def test_another_sites_folder_cannot_be_begun_anew(tmp_path: Path) -> None:
    used(tmp_path)
    with pytest.raises(StorageError, match="required the state of site oslo of cluster c; got that of site berlin"):
        opened(tmp_path, fresh=True, site="oslo")
    assert opened(tmp_path).extents["orders"].end == 4


def test_a_damaged_log_stops_the_daemon_and_stays_as_it_is(tmp_path: Path) -> None:
    used(tmp_path)
    folder = opened(tmp_path)
    folder.logs.run([AppendBatch("orders", one) for one in batches(1, 3, 4)])
    folder.logs.close()
    folder.close()
    (path,) = (tmp_path / "orders" / "log").iterdir()
    data = bytearray(path.read_bytes())
    data[400] ^= 1
    path.write_bytes(data)
    match = rf"required a whole log; got damage: {path} at byte .*: ticks \[0, 1\) are lost"
    with pytest.raises(StorageError, match=match):
        opened(tmp_path)
    assert path.read_bytes() == data
    # The lock is free again, and what is damaged can be forgotten.
    opened(tmp_path, fresh=True).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "orders").write_text("a file")
    with pytest.raises(StorageError, match=r"required a state_dir that can be written to; got .*orders"):
        opened(tmp_path)
    with pytest.raises(StorageError, match="required a state_dir that can be written to; got"):
        SiteLock(tmp_path / "orders" / "site")


def test_two_daemons_cannot_have_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "berlin"
    text = "import pathlib, sys; from node.storage.lock import SiteLock; "
    text += "lock = SiteLock(pathlib.Path(sys.argv[1])); print('taken', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", text, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        with pytest.raises(StorageError, match=rf"no other daemon uses; got one that process {other.pid} has locked"):
            SiteLock(folder)
        other.kill()
    lock = SiteLock(folder)
    with pytest.raises(StorageError, match="has locked"):
        SiteLock(folder)
    lock.release()
    lock.release()
    SiteLock(folder).release()
    assert [path.name for path in folder.iterdir()] == [LOCK_NAME]


def test_a_folder_in_which_something_may_write_yet_is_not_let_go(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.stop_writer(lambda: True)
    folder.stop_writer(lambda: False)
    folder.stop_writer(lambda: True)
    folder.close()
    folder.records.commit([Put("pin", "a", b"1")])
    with pytest.raises(StorageError, match="has locked"):
        SiteLock(tmp_path)
    folder.lock.release()


def test_a_daemon_that_was_stopped_starts_on_a_full_disk_with_the_room_that_was_reserved(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "4m") as place:
        open_folder(place / "alpha", "test", "alpha", [], 1, headroom_bytes=1 << 20).close()
        fill(place)
        again = open_folder(place / "alpha", "test", "alpha", [], 1, headroom_bytes=1 << 20)
        assert again.records.life == 2
        again.close()


@pytest.mark.parametrize("fresh", [False, True])
def test_a_full_disk_that_has_the_temporary_files_too_keeps_no_daemon_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    with small_disk(tmp_path / "small", "4m") as place:
        folder = open_folder(place / "alpha", "test", "alpha", [], 1, headroom_bytes=1 << 20)
        (place / "tmp").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(place / "tmp"))
        # As a daemon that is killed leaves it: with a journal.
        killed = shutil.copytree(place / "alpha", place / "killed")
        folder.close()
        fill(place)
        again = open_folder(killed, "test", "alpha", [], 1, fresh, headroom_bytes=1 << 20)
        assert again.records.life == 2
        again.close()


def test_a_lock_is_taken_on_a_disk_without_room_for_who_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", full)
    lock = SiteLock(tmp_path)
    with pytest.raises(StorageError, match="one that process of unknown number has locked"):
        SiteLock(tmp_path)
    lock.release()


def test_room_is_lent_to_what_finds_none(tmp_path: Path) -> None:
    headroom = Headroom(tmp_path, 4096)
    reserved: list[bool] = []

    def write() -> str:
        reserved.append((tmp_path / HEADROOM_NAME).exists())
        if reserved[-1]:
            raise NoRoomError("full")
        return "written"

    assert headroom.lend(write) == "written"
    assert headroom.reserve()
    assert (headroom.lend(write), reserved) == ("written", [False, True, False])


def test_room_is_reserved_where_the_system_cannot_do_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    nbytes = (1 << 20) + 4096
    assert Headroom(tmp_path, nbytes).reserve()
    assert (tmp_path / HEADROOM_NAME).stat().st_size == nbytes
    (tmp_path / HEADROOM_NAME).unlink()
    monkeypatch.setattr(os, "write", full)
    assert not Headroom(tmp_path, 4096).reserve()
    assert not (tmp_path / HEADROOM_NAME).exists()


def test_what_finds_no_room_without_the_reserve_either_is_refused(tmp_path: Path) -> None:
    def write() -> None:
        raise NoRoomError("full")

    with pytest.raises(NoRoomError, match="full"):
        Headroom(tmp_path, 4096).lend(write)
