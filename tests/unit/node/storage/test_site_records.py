"""Records of a site: durable when told, in one piece, and only for the site they belong to."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from node.core.links import lives as lives_module
from node.core.links.lives import Met, knows_life
from node.core.records import Delete, Put
from node.storage import site_records
from node.storage.errors import StorageError, VersionError
from node.storage.site_records import (
    FORMAT_VERSION,
    RECORDS_NAME,
    NoRecords,
    SiteRecords,
    check_folder,
    forget_records,
    record_counts,
)


def opened(folder: Path, clock_s: int = 100, cluster: str = "c", site: str = "berlin") -> SiteRecords:
    return SiteRecords.open(folder, cluster, site, clock_s)


def content(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_lives_rise_whatever_the_clock_says(tmp_path: Path) -> None:
    lives = []
    for clock_s in (1_000, 5, 1_001, 5_000):
        records = opened(tmp_path, clock_s)
        lives.append(records.life)
        records.close()
    assert lives == [1_000, 1_001, 1_002, 5_000]


def test_a_folder_is_known_by_its_first_life_and_begun_anew_it_is_another(tmp_path: Path) -> None:
    known = []
    for clock_s in (100, 200, 300):
        records = opened(tmp_path, clock_s)
        known.append((records.folder, records.last_life))
        records.close()
    assert known == [(100, 0), (100, 100), (100, 200)]
    forget_records(tmp_path, "c", "berlin")
    records = opened(tmp_path, 400)
    assert (records.folder, records.last_life) == (400, 0)


def test_an_old_copy_of_a_folder_shows_as_one_however_often_it_is_started(tmp_path: Path) -> None:
    """Peers have met life 300, which the copy never had: its own last life is later soon."""
    folder, copy = tmp_path / "folder", tmp_path / "copy"
    folder.mkdir()
    for clock_s in (100, 200):
        opened(folder, clock_s).close()
    shutil.copytree(folder, copy)
    opened(folder, 300).close()
    for clock_s in (400, 500, 600):
        records = opened(copy, clock_s)
        assert records.folder == 100
        assert not knows_life(records.lives, 300)
        records.close()
    newest = opened(folder, 700)
    assert newest.lives == (100, 200, 300)
    newest.begin_folder()
    newest.close()
    restored = opened(folder, 800)
    assert (restored.folder, restored.lives) == (800, ())


def test_a_folder_remembers_its_latest_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (site_records, lives_module):
        monkeypatch.setattr(module, "LIVES_TOLD_MAX", 3)
    for clock_s in range(100, 107):
        opened(tmp_path, clock_s).close()
    records = opened(tmp_path, 200)
    assert records.lives == (104, 105, 106)
    assert [life for life in range(101, 109) if not knows_life(records.lives, life)] == [107, 108]


def test_state_of_the_version_before_is_read_and_is_of_this_version_from_then_on(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / RECORDS_NAME)) as before:
        before.execute("PRAGMA user_version = 2")
        before.execute("DELETE FROM site WHERE name = 'folder'")
        before.commit()
    records = opened(tmp_path, 200)
    assert (records.life, records.folder, records.last_life) == (200, 200, 0)
    records.close()
    with closing(sqlite3.connect(tmp_path / RECORDS_NAME)) as after:
        assert after.execute("PRAGMA user_version").fetchone() == (FORMAT_VERSION,)


def test_a_life_is_durable_before_anybody_can_hear_of_it(tmp_path: Path) -> None:
    """Killed as soon as it knows its life: the next one is higher."""
    text = "import os, pathlib, signal, sys; from node.storage.site_records import SiteRecords; "
    text += "records = SiteRecords.open(pathlib.Path(sys.argv[1]), 'c', 'berlin', 7); "
    text += "print(records.life, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    heard = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", text, tmp_path], stdout=subprocess.PIPE, check=False)
        assert done.returncode == -signal.SIGKILL
        heard.append(int(done.stdout))
    assert heard == [7, 8]


def test_changes_of_a_commit_are_there_in_the_next_life_in_their_order(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.commit([Put("pin", "q1", b"1"), Put("pin", "q2", b"2"), Put("query", "q1", b"text")])
    records.commit([Put("pin", "q1", b"3"), Delete("pin", "q2"), Delete("pin", "never"), Put("pin", "q0", b"\0\xff")])
    records.close()
    again = opened(tmp_path)
    assert again.all("pin") == {"q0": b"\0\xff", "q1": b"3"}
    assert list(again.all("pin")) == ["q0", "q1"]
    assert again.all("query") == {"q1": b"text"}
    assert again.all("other") == {}
    assert record_counts(tmp_path) == {"pin": 2, "query": 1}


def test_a_commit_that_fails_changes_nothing(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.commit([Put("pin", "a", b"1")])
    with pytest.raises(StorageError):
        records.commit([Put("pin", "a", b"2"), Put("pin", "b", None)])  # type: ignore[arg-type]
    assert records.all("pin") == {"a": b"1"}
    records.commit([Delete("pin", "a")])
    assert records.all("pin") == {}


def test_killed_between_commits_every_commit_that_returned_is_there_whole(tmp_path: Path) -> None:
    text = """
import pathlib, sys
from node.core.links.lives import Met
from node.core.records import Delete, Put
from node.storage.site_records import SiteRecords
records = SiteRecords.open(pathlib.Path(sys.argv[1]), "c", "berlin", 7)
number = 0
while True:
    number += 1
    records.commit([Put("pair", "left", b"%d" % number), Put("pair", "right", b"%d" % number)])
    print(number, flush=True)
"""
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", text, tmp_path], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            told = 0
            while told < 20:
                told = int(process.stdout.readline())
            os.kill(process.pid, signal.SIGKILL)
            rest = process.stdout.read().split()
            told = int(rest[-1]) if rest else told
        records = opened(tmp_path)
        pair = records.all("pair")
        assert pair["left"] == pair["right"]
        assert int(pair["left"]) >= told
        records.close()


def test_lives_of_others_are_remembered_and_never_fall(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.remember("oslo", Met(7, 5))
    records.remember("oslo", Met(5, 5))
    records.remember("rome", Met(3))
    assert records.met == {"oslo": Met(7, 5), "rome": Met(3)}
    records.close()
    assert opened(tmp_path).met == {"oslo": Met(7, 5), "rome": Met(3)}


@pytest.mark.parametrize(("cluster", "site"), [("c", "oslo"), ("other", "berlin")])
def test_the_folder_of_another_is_refused_and_not_touched(tmp_path: Path, cluster: str, site: str) -> None:
    opened(tmp_path).close()
    before = content(tmp_path)
    match = f"required the state of site {site} of cluster {cluster}; got that of site berlin of cluster c"
    with pytest.raises(StorageError, match=match):
        opened(tmp_path, cluster=cluster, site=site)
    assert content(tmp_path) == before


@pytest.mark.parametrize("killed", [False, True])
def test_a_version_that_is_not_known_is_refused_with_both_numbers_and_not_touched(tmp_path: Path, killed: bool) -> None:
    records = opened(tmp_path)
    records.commit([Put("pin", "a", b"1")])
    with closing(sqlite3.connect(tmp_path / RECORDS_NAME)) as later:
        later.execute("PRAGMA user_version = 9")
    if not killed:
        records.close()
    before = content(tmp_path)
    with pytest.raises(
        VersionError, match=rf"required state of version 2 or 3 or {FORMAT_VERSION}; got version 9 \(.*--fresh"
    ):
        opened(tmp_path)
    assert content(tmp_path) == before
    # It can be forgotten all the same, and the number of the last life is not.
    records.close()
    forget_records(tmp_path, "c", "berlin")
    assert opened(tmp_path, 5).life == 101


def no_temporary_folder() -> str:
    raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")


def test_records_are_looked_at_without_a_temporary_folder_or_without_room_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).close()
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "gettempdir", no_temporary_folder)
        assert check_folder(tmp_path, "c", "berlin")
    monkeypatch.setattr(site_records, "_ELSEWHERE", (str(tmp_path / "no memory"), None))
    assert check_folder(tmp_path, "c", "berlin")
    monkeypatch.setattr(tempfile, "gettempdir", no_temporary_folder)
    match = f"{RECORDS_NAME} required a copy of it in memory or in a temporary folder, .*; got No usable temporary"
    with pytest.raises(StorageError, match=match):
        check_folder(tmp_path, "c", "berlin")


def test_a_copy_that_a_killed_daemon_may_leave_says_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).close()
    copies: list[Path] = []
    copy = shutil.copyfile

    def noted(path: Path, to: Path) -> None:
        copies.append(to)
        copy(path, to)

    monkeypatch.setattr(shutil, "copyfile", noted)
    assert check_folder(tmp_path, "c", "berlin")
    assert copies
    assert all(path.parent.name.startswith("narrows-") for path in copies)
    assert not any(path.parent.exists() for path in copies)


def test_logs_without_records_are_of_the_first_version(tmp_path: Path) -> None:
    (tmp_path / "orders" / "log").mkdir(parents=True)
    (tmp_path / "orders" / "log" / "4000000000000000.log").write_bytes(b"narrows\n")
    with pytest.raises(VersionError, match=f"required state of version 2 or 3 or {FORMAT_VERSION}; got version 1"):
        check_folder(tmp_path, "c", "berlin")
    assert not (tmp_path / RECORDS_NAME).exists()


def test_a_file_that_a_crash_left_half_made_is_made_again(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / RECORDS_NAME).close()
    (tmp_path / RECORDS_NAME).touch()
    assert opened(tmp_path).life == 100


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / RECORDS_NAME).write_bytes(b"no database at all, but long enough to be one" * 40)
    with pytest.raises(StorageError, match=f"{tmp_path / RECORDS_NAME} required the records of a site; got"):
        opened(tmp_path)


def test_forgetting_keeps_nothing_but_the_last_life(tmp_path: Path) -> None:
    records = opened(tmp_path, 50)
    records.commit([Put("pin", "a", b"1")])
    records.remember("oslo", Met(7, 5))
    records.close()
    forget_records(tmp_path, "c", "berlin")
    again = opened(tmp_path, 10)
    assert (again.life, again.all("pin"), again.met) == (51, {}, {})


def test_without_a_disk_nothing_is_kept_and_all_is_done_at_once() -> None:
    records = NoRecords(12)
    records.commit([Put("pin", "a", b"1")])
    records.remember("oslo", Met(3))
    assert (records.life, records.all("pin"), records.met) == (12, {}, {"oslo": Met(3)})
