"""The logs of kept joins on disk: made, found again after a restart, and removed with what they were kept for."""

from __future__ import annotations

import errno
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from node.core.effects import AppendBatch, OpenLog, QueryState, RemoveLog
from node.core.events import BatchLogged, LogFailed
from node.core.queries.query_id import kept_join_of, kept_stream_of
from node.core.query_records import HomeRecord, RecordKind
from node.io.kept_logs import open_kept_logs
from node.storage.errors import NoRoomError
from node.storage.headroom import Headroom
from node.storage.site_folder import SiteFolder, open_folder
from node.wire.records import record_out, recovered
from tests.unit.logged import batches
from tests.unit.node.wire.test_records import PREPARE

JOIN = kept_join_of("ash-1-1", "pairs", "bow")
STREAM = kept_stream_of(JOIN)


def begin(path: Path) -> SiteFolder:
    folder = open_folder(path, "c", "bow", [], 7)
    folder.kept_logs = open_kept_logs(folder)
    return folder


def keep(folder: SiteFolder) -> None:
    """As the core asks for it: the record, and the log with what was made."""
    record = HomeRecord(JOIN, replace(PREPARE, part="pairs"), QueryState.RUNNING, "", 0)
    folder.records.commit([record_out(record)])
    folder.logs.run([OpenLog(STREAM)])
    for one in batches(3):
        folder.logs.run([AppendBatch(STREAM, one)])


def end(folder: SiteFolder) -> None:
    folder.logs.close()
    folder.close()


def test_what_was_kept_is_found_again(tmp_path: Path) -> None:
    folder = begin(tmp_path / "bow")
    assert folder.kept_logs == {}
    keep(folder)
    end(folder)
    folder = begin(tmp_path / "bow")
    extent = folder.kept_logs[STREAM]
    assert (extent.end, extent.next_tuple) == (3, sum(one.rows.num_rows for one in batches(3)))
    folder.logs.run([RemoveLog(STREAM)])
    assert not (tmp_path / "bow" / STREAM).exists()
    end(folder)


def test_a_log_that_no_join_has_any_more_is_removed(tmp_path: Path) -> None:
    """The daemon died between the record and the log."""
    folder = begin(tmp_path / "bow")
    folder.logs.run([OpenLog(STREAM), *(AppendBatch(STREAM, one) for one in batches(3))])
    end(folder)
    folder = begin(tmp_path / "bow")
    assert folder.kept_logs == {}
    assert not (tmp_path / "bow" / STREAM).exists()
    end(folder)


def test_a_log_that_is_to_be_made_on_a_full_disk_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon died when the record was durable and the log not yet there."""
    folder = begin(tmp_path / "bow")
    keep(folder)
    folder.logs.run([RemoveLog(STREAM)])
    end(folder)
    waits: list[NoRoomError] = []
    make = Path.mkdir

    def mkdir(path: Path, *rest: Any, **named: Any) -> None:
        if not waits:
            raise OSError(errno.ENOSPC, "No space left on device")
        make(path, *rest, **named)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    folder = open_folder(tmp_path / "bow", "c", "bow", [], 7, make_headroom=partial(Headroom, wait=waits.append))
    assert open_kept_logs(folder) == {}
    assert len(waits) == 1
    assert folder.headroom.reserve()
    (logged,) = folder.logs.run([AppendBatch(STREAM, batches(1)[0])])
    assert isinstance(logged, BatchLogged)
    end(folder)


def test_a_log_that_is_damaged_ends_its_join_and_lets_the_site_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = begin(tmp_path / "bow")
    keep(folder)
    end(folder)
    (segment, *_) = sorted((tmp_path / "bow" / STREAM / "log").iterdir())
    data = bytearray(segment.read_bytes())
    data[len(data) // 3] ^= 1
    segment.write_bytes(data)
    folder = begin(tmp_path / "bow")
    assert folder.kept_logs == {}
    (home,) = recovered({RecordKind.HOME: folder.records.all(RecordKind.HOME)}, {}).homes
    assert home.state is QueryState.FAILED
    assert "data loss" in home.reason
    assert f"the join kept as stream {STREAM} ends" in caplog.text
    end(folder)


@pytest.mark.parametrize(
    "stream", ["{}.mine", "../q-1-1.mine", "results", "site.db", "q-1-1.", "q-1-1+../x.mine", f"{'q' * 300}-1-1.mine"]
)
def test_a_name_that_leads_elsewhere_makes_and_removes_nothing(tmp_path: Path, stream: str) -> None:
    """It begins with what a peer called its query."""
    name = stream.format(tmp_path / "other-1-1")
    folder = begin(tmp_path / "bow")
    there = tmp_path / "other-1-1.mine"
    there.mkdir()
    (there / "file").touch()
    (said,) = folder.logs.run([OpenLog(name)])
    assert isinstance(said, LogFailed)
    assert (there / "file").exists()
    assert not (tmp_path / "q-1-1.mine").exists()
    assert folder.logs.broken is None, "the disk is well"
    end(folder)
