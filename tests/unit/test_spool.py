"""Result rows on disk: numbered chunks, forgotten when acknowledged, and space that comes back."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from node.io import spool as spool_module
from node.io.spool import CHUNK_BYTES_MAX, Spool

SCHEMA = pa.schema([("n", pa.int64())])


def rows_of(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(first, first + count), pa.int64())], schema=SCHEMA)


def numbers(spool: Spool, number: int) -> list[int]:
    rows = pa.ipc.read_record_batch(pa.py_buffer(spool.read(number)), SCHEMA)
    return rows.column("n").to_pylist()  # type: ignore[no-any-return]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_appended_is_read_by_its_number(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a" / "q1")
    for first in (0, 10, 20):
        spool.append(rows_of(first, 3))
    assert (spool.first, spool.end, spool.rows) == (0, 3, 9)
    assert [numbers(spool, number) for number in (2, 0, 1)] == [[20, 21, 22], [0, 1, 2], [10, 11, 12]]
    assert spool.nbytes == sum(len(spool.read(number)) for number in range(3))


def test_no_rows_are_no_chunk(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(rows_of(0, 0))
    assert (spool.end, spool.rows, spool.nbytes) == (0, 0, 0)


def test_many_rows_are_cut_into_chunks_of_bounded_size(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    count = 3 * CHUNK_BYTES_MAX // 8
    spool.append(rows_of(0, count))
    assert spool.end >= 3
    assert all(len(spool.read(number)) <= CHUNK_BYTES_MAX + 1024 for number in range(spool.end))
    assert [n for number in range(spool.end) for n in numbers(spool, number)] == list(range(count))


def test_what_is_forgotten_is_gone_and_the_rest_keeps_its_number(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for first in (0, 10, 20):
        spool.append(rows_of(first, 1))
    spool.forget_before(2)
    assert (spool.first, spool.end) == (2, 3)
    assert numbers(spool, 2) == [20]
    assert spool.nbytes == len(spool.read(2))
    assert spool.rows == 3  # counts what was ever stored


@pytest.mark.parametrize("number", [0, -5, 1])
def test_forgetting_what_was_forgotten_changes_nothing(tmp_path: Path, number: int) -> None:
    spool = Spool(tmp_path)
    for first in (0, 10):
        spool.append(rows_of(first, 1))
    spool.forget_before(1)
    spool.forget_before(number)
    assert (spool.first, spool.end) == (1, 2)


def test_forgetting_more_than_there_is_forgets_what_there_is(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(rows_of(0, 1))
    spool.forget_before(99)
    assert (spool.first, spool.end, spool.nbytes) == (1, 1, 0)
    spool.append(rows_of(5, 1))
    assert numbers(spool, 1) == [5]


def test_space_comes_back_segment_by_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES_MAX", 1)
    spool = Spool(tmp_path)
    for first in range(4):
        spool.append(rows_of(first, 1))
    assert files(tmp_path) == ["rows-000000", "rows-000001", "rows-000002", "rows-000003"]
    spool.forget_before(2)
    assert files(tmp_path) == ["rows-000002", "rows-000003"]
    assert numbers(spool, 2) == [2]
    spool.forget_before(4)
    assert files(tmp_path) == ["rows-000003"]  # the one that is being written stays
    spool.append(rows_of(9, 1))
    assert numbers(spool, 4) == [9]
    spool.forget_before(5)
    assert len(files(tmp_path)) <= 2


def test_a_segment_that_was_emptied_while_current_is_removed_once_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES_MAX", 1)
    spool = Spool(tmp_path)
    for number in range(50):
        spool.append(rows_of(number, 1))
        spool.forget_before(number + 1)
    assert len(files(tmp_path)) <= 2


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_open_files_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES_MAX", 1)
    before = open_files()
    spool = Spool(tmp_path)
    for number in range(50):
        spool.append(rows_of(number, 1))
        spool.forget_before(number + 1)
    assert open_files() <= before + 2
    spool.close()
    assert open_files() == before


def test_closing_removes_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES_MAX", 1)
    spool = Spool(tmp_path)
    for first in range(3):
        spool.append(rows_of(first, 1))
    spool.close()
    assert files(tmp_path) == []
    spool.close()


class FullDisk:
    """A file that takes some bytes and then has no space."""

    def __init__(self, file: object, takes: int) -> None:
        self._file = file
        self._takes = takes

    def write(self, data: memoryview) -> int:
        if self._takes == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = min(self._takes, len(memoryview(data)))
        self._takes -= taken
        return self._file.write(memoryview(data)[:taken])  # type: ignore[attr-defined, no-any-return]

    def flush(self) -> None: ...

    def close(self) -> None:
        self._file.close()  # type: ignore[attr-defined]


def full(spool: Spool, takes: int) -> None:
    segment = spool._current
    assert segment is not None
    segment.file = FullDisk(segment.file, takes)  # type: ignore[assignment]


def test_a_full_disk_is_an_error_that_the_caller_sees(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(rows_of(0, 1))
    full(spool, 0)
    with pytest.raises(OSError, match="No space left"):
        spool.append(rows_of(1, 1))
    assert (spool.end, spool.rows) == (1, 1)
    assert numbers(spool, 0) == [0]
    spool.close()
    assert files(tmp_path) == []


def test_a_disk_that_takes_half_a_chunk_is_an_error_too(tmp_path: Path) -> None:
    # An unbuffered write may take less than it was given and say so only by its answer.
    spool = Spool(tmp_path)
    spool.append(rows_of(0, 1))
    full(spool, 10)
    with pytest.raises(OSError, match="No space left"):
        spool.append(rows_of(1, 1))


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Spool(tmp_path / "file" / "q1")
