"""The log of appends: what was put in comes out, by jobs, and what is forgotten takes no room."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.engine import append_log
from spark_jobs.engine.append_log import PartitionLog, StoreLog


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return PartitionLog(tmp_path)


def put(log: PartitionLog, job: int, newest: int, content: bytes) -> None:
    log.append(job, newest, memoryview(content))


def test_entries_are_those_of_the_jobs_asked_for_in_order(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_log, "SEGMENT_BYTES", 100)
    for job in range(1, 21):
        put(log, job, job, b"%d" % job * 10)
        put(log, job, job, b"")
    for after, through in [(0, 20), (0, 7), (7, 8), (7, 7), (19, 30), (20, 30)]:
        expected = [entry for job in range(after + 1, min(through, 20) + 1) for entry in (b"%d" % job * 10, b"")]
        assert list(log.entries(after, through)) == expected


def test_only_whole_segments_that_are_over_are_forgotten(
    log: PartitionLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_log, "SEGMENT_BYTES", 1)
    for job, newest in [(1, 10), (2, 30), (3, 20)]:
        put(log, job, newest, b"x" * 50)
    log.forget(20)
    assert [job for job in (1, 2, 3) if list(log.entries(job - 1, job))] == [2, 3]
    log.forget(21)
    assert list(log.entries(2, 3)) == []
    assert len(list(tmp_path.iterdir())) == 1
    log.forget(31)
    assert list(tmp_path.iterdir()) == []
    assert log.nbytes == 0
    put(log, 4, 40, b"new")
    assert list(log.entries(0, 9)) == [b"new"]


def test_a_reader_sees_what_was_there_when_it_began(log: PartitionLog) -> None:
    put(log, 1, 1, b"one")
    reader = log.entries(0, 9)
    put(log, 1, 1, b"two")
    assert next(reader) == b"one"
    put(log, 2, 2, b"three")
    assert list(reader) == [b"two"]


def test_a_full_disk_loses_one_entry_and_not_the_log(log: PartitionLog, tmp_path: Path) -> None:
    full = tmp_path / "0.segment"
    full.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        put(log, 1, 1, b"lost")
    put(log, 1, 2, b"kept")
    assert list(log.entries(0, 1)) == [b"kept"]


def test_no_file_stays_open_and_none_is_left(tmp_path: Path) -> None:
    opened = len(list(Path("/proc/self/fd").iterdir()))
    log = StoreLog(tmp_path / "w", 3)
    for number, part in enumerate(log.partitions):
        put(part, 1, number, b"rows")
        assert list(part.entries(0, 1)) == [b"rows"]
    assert len(list(Path("/proc/self/fd").iterdir())) == opened
    assert log.nbytes > 12
    log.remove()
    assert not (tmp_path / "w").exists()
