"""A backup is whole or refused, and what is restored from it is not taken for what was lost."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from node.core.effects import AppendBatch, QueryState
from node.core.query_records import DoneRecord, HomeRecord, PinRecord, Record, RecordKind
from node.core.streams.ticks import TICK_MIN
from node.io.backup import MANIFEST_NAME, back_up, restore, restored_to
from node.io.results.readers import FILE_READER
from node.storage.errors import DamagedLogError, StorageError
from node.storage.site_folder import RESULTS_NAME, SiteFolder, open_folder
from node.storage.site_records import forget_records
from node.wire.records import record_out, recovered
from tests.unit.delivery import Site, wait_until
from tests.unit.logged import batches
from tests.unit.node.wire.test_records import PREPARE
from tests.unit.syncs import noted_syncs


def opened(path: Path, clock_s: int = 100) -> SiteFolder:
    return open_folder(path, "c", "berlin", ["orders", "clicks"], clock_s, headroom_bytes=4096)


def let_go(folder: SiteFolder) -> None:
    folder.logs.close()
    folder.close()


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Of a site with a stream of four ticks, two queries of its own, and a pin of another's."""
    folder = opened(tmp_path / "berlin")
    folder.logs.run([AppendBatch("orders", one) for one in batches(4)])
    kept: list[Record] = [
        HomeRecord("q1", PREPARE, QueryState.RUNNING, "", 0),
        DoneRecord("q1", (("l", 3), ("r", 2))),
        HomeRecord("q0", PREPARE, QueryState.COMPLETED, "", 0),
        PinRecord("q2", "oslo", ("orders", "clicks")),
    ]
    folder.records.commit([record_out(one) for one in kept])
    let_go(folder)
    back_up(tmp_path / "berlin", "c", "berlin", tmp_path / "backup")
    return tmp_path / "backup"


def test_a_site_that_runs_is_not_backed_up(tmp_path: Path) -> None:
    folder = opened(tmp_path / "berlin")
    with pytest.raises(StorageError, match="required a state_dir that no other daemon uses"):
        back_up(tmp_path / "berlin", "c", "berlin", tmp_path / "backup")
    let_go(folder)
    with pytest.raises(StorageError, match="required the state of site oslo"):
        back_up(tmp_path / "berlin", "c", "oslo", tmp_path / "backup")
    with pytest.raises(StorageError, match="required its folder; got none"):
        back_up(tmp_path / "oslo", "c", "oslo", tmp_path / "backup")
    assert not (tmp_path / "backup" / MANIFEST_NAME).exists()


def test_a_folder_that_is_half_forgotten_is_not_backed_up(tmp_path: Path) -> None:
    let_go(opened(tmp_path / "berlin"))
    forget_records(tmp_path / "berlin", "c", "berlin")
    with pytest.raises(StorageError, match="required a folder that is in use; got one of which --fresh had not yet"):
        back_up(tmp_path / "berlin", "c", "berlin", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_damaged_log_is_not_backed_up_until_the_loss_is_accepted(tmp_path: Path) -> None:
    """A backup of it could not be restored, which somebody would learn when the site is lost."""
    folder = opened(tmp_path / "berlin")
    for one in batches(4):
        folder.logs.run([AppendBatch("orders", one)])
    let_go(folder)
    (log,) = (tmp_path / "berlin" / "orders" / "log").iterdir()
    data = bytearray(log.read_bytes())
    data[400] ^= 1
    log.write_bytes(data)
    said = r"stream orders required a whole log; got damage: .* are lost \(.*narrows node --accept-data-loss"
    with pytest.raises(DamagedLogError, match=said):
        back_up(tmp_path / "berlin", "c", "berlin", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
    assert log.read_bytes() == data
    let_go(open_folder(tmp_path / "berlin", "c", "berlin", ["orders"], 200, headroom_bytes=4096, accept_loss=True))
    back_up(tmp_path / "berlin", "c", "berlin", tmp_path / "backup")
    lost = restore(tmp_path / "backup", tmp_path / "again", "c", "berlin", 300)
    assert lost[0] == "stream orders goes on at tick 4; later ones are lost"


def test_the_manifest_is_durable_before_it_has_its_name_and_comes_after_all_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go(opened(tmp_path / "berlin"))
    (tmp_path / "berlin" / "headroom.new").write_bytes(bytes(4096))  # of a daemon that was killed
    synced = noted_syncs(monkeypatch, tmp_path)
    to = tmp_path / "backup"
    back_up(tmp_path / "berlin", "c", "berlin", to)
    manifest = synced.index(to / f"{MANIFEST_NAME}.new")
    files = [path for path in to.rglob("*") if path.is_file() and path.name != MANIFEST_NAME]
    assert all(synced.index(path) < manifest for path in files)
    assert synced[-1] == to, "the folder, with the name"
    assert "headroom.new" not in {path.name for path in files}


def test_what_is_restored_is_another_folder_in_a_later_life_and_says_what_is_lost(tmp_path: Path, backup: Path) -> None:
    before = opened(tmp_path / "berlin", 200)
    assert restored_to(before.records, "orders") is None
    let_go(before)
    lost = restore(backup, tmp_path / "again", "c", "berlin", 300)
    assert lost == [
        "stream orders goes on at tick 4; later ones are lost",
        "query q1 was issued here and ends; rows that are known to be kept: l up to tick 3, r up to tick 2",
        "queries of other sites end with data loss if results were found with ticks that are lost; others go on",
        "tuples that were set aside are in no backup: late_dir is as it is, and may have some of them again",
    ]
    folder = opened(tmp_path / "again", 300)
    assert (folder.records.life, folder.records.folder, folder.records.last_life) == (301, 301, 0)
    assert folder.records.folder != before.records.folder
    assert folder.extents["orders"].end == 4
    # Nothing of that stream was backed up, as nothing had come.
    assert (restored_to(folder.records, "orders"), restored_to(folder.records, "clicks")) == (4, TICK_MIN)
    found = recovered({kind: folder.records.all(kind) for kind in RecordKind}, {})
    assert {home.query_id: home.state for home in found.homes} == {"q0": QueryState.COMPLETED, "q1": QueryState.FAILED}
    (reason,) = [home.reason for home in found.homes if home.query_id == "q1"]
    assert reason.startswith("data loss: site berlin was restored from a backup")
    assert dict(found.pins[0].restored) == {"orders": 4, "clicks": TICK_MIN}
    let_go(folder)


def test_restored_again_before_a_query_went_on_the_lower_end_counts(tmp_path: Path, backup: Path) -> None:
    restore(backup, tmp_path / "again", "c", "berlin", 300)
    folder = opened(tmp_path / "again", 300)
    folder.logs.run([AppendBatch("orders", replace(one, first=12)) for one in batches(1, first_tick=4)])
    let_go(folder)
    back_up(tmp_path / "again", "c", "berlin", tmp_path / "second")
    restore(tmp_path / "second", tmp_path / "once more", "c", "berlin", 300)
    folder = opened(tmp_path / "once more", 300)
    assert folder.extents["orders"].end == 5
    assert restored_to(folder.records, "orders") == 4
    assert dict(recovered({"pin": folder.records.all("pin")}, {}).pins[0].restored)["orders"] == 4
    let_go(folder)


def test_a_backup_that_is_not_whole_is_refused_and_nothing_is_there(tmp_path: Path, backup: Path) -> None:
    def refused(match: str) -> None:
        with pytest.raises(StorageError, match=match):
            restore(backup, tmp_path / "again", "c", "berlin", 300)
        assert not (tmp_path / "again").exists()

    (log,) = backup.glob("orders/log/*")
    data = log.read_bytes()
    log.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused(f"{log} required the bytes that were backed up; got others")
    log.unlink()
    refused("required all files of the backup; got none at orders/log")
    log.write_bytes(data)
    manifest = (backup / MANIFEST_NAME).read_text()
    (backup / MANIFEST_NAME).write_text(manifest.replace('"version": 1', '"version": 7'))
    refused("required version 1 of a backup; got version 7")
    (backup / MANIFEST_NAME).write_text(manifest.replace("orders/log", "../orders/log"))
    refused("required all files of the backup; got none at")
    (backup / MANIFEST_NAME).write_text(manifest[:40])
    refused("required what a backup consists of")
    # A folder that was copied while its daemon ran.
    (backup / MANIFEST_NAME).unlink()
    refused("got no backup.json: only what narrows backup has made can be restored")
    (backup / MANIFEST_NAME).write_text(manifest)
    with pytest.raises(StorageError, match="required a backup of site oslo of cluster c; got one of site berlin"):
        restore(backup, tmp_path / "again", "c", "oslo", 300)
    with pytest.raises(StorageError, match="required an empty folder, or none; got one with files"):
        restore(backup, tmp_path / "berlin", "c", "berlin", 300)
    assert restore(backup, tmp_path / "again", "c", "berlin", 300)


def test_a_restored_site_leaves_files_of_its_queries_as_they_are(tmp_path: Path) -> None:
    """They have rows that the backup has not."""
    state, path = tmp_path / "berlin", tmp_path / "rows.csv"
    let_go(opened(state))

    def live(stored: int, more: int) -> None:
        """A life of the site in which ``more`` rows come after those that were stored before."""
        with closing(Site(state / RESULTS_NAME, keep=False)) as site:
            if FILE_READER not in site.query.readers:
                site.do(lambda: site.query.begin_reader(FILE_READER, 0))
                site.query.readers[FILE_READER].note = site._control._files.begin(str(path), "")
            site.do(site._control.start)
            reader = site.query.readers[FILE_READER]
            site.store(stored, more)
            wait_until(lambda: reader.place == stored + more)

    live(0, 2)
    back_up(state, "c", "berlin", tmp_path / "backup")
    live(2, 500)
    whole = path.read_bytes()
    shutil.rmtree(state)
    lost = restore(tmp_path / "backup", state, "c", "berlin", 300)
    assert f"query cam-1-1 does not write {path} any more, which stays as it is" in lost
    why = f"site berlin was restored from a backup, and {path} may have rows that are not in it"
    for _ in range(2):
        with closing(Site(state / RESULTS_NAME, keep=False)) as site:
            site.do(site._control.start)
            reader = site.query.readers[FILE_READER]
            assert why in reader.trouble
            assert not site._control._files._tasks
            assert (reader.place, site.read(0, 2)) == (2, [0, 1]), "what is in the backup can be read"
            site.end(QueryState.FAILED, "data loss")
        assert path.read_bytes() == whole
    # Backed up and restored again, it is not told of a file that was given up before.
    back_up(state, "c", "berlin", tmp_path / "again")
    shutil.rmtree(state)
    assert not [line for line in restore(tmp_path / "again", state, "c", "berlin", 400) if str(path) in line]
