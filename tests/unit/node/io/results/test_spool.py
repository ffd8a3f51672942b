"""Result rows on disk: numbered chunks, forgotten when acknowledged, and space that comes back."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from node.io.results import segments
from node.io.results.segments import CHUNK_BYTES_MAX, RowsForgottenError, read_pieces
from node.io.results.spool import Spool
from tests.unit.files import AtOnce, OnDemand

SCHEMA = pa.schema([("n", pa.int64())])


def rows_of(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(first, first + count), pa.int64())], schema=SCHEMA)


def numbers(spool: Spool, number: int) -> list[int]:
    rows = pa.ipc.read_record_batch(pa.py_buffer(spool.piece(number).load()), SCHEMA)
    return rows.column("n").to_pylist()  # type: ignore[no-any-return]


def append(spool: Spool, *batches: pa.RecordBatch) -> None:
    """Raises what the disk does not take."""
    failed: list[Exception | None] = []
    spool.append(batches, failed.append)
    (error,) = failed
    if error is not None:
        raise error


def files(folder: Path) -> list[str]:
    """What is in a spool's folder, which goes with the spool."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_what_was_appended_is_read_by_its_number(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a" / "q1", AtOnce())
    for first in (0, 10, 20):
        append(spool, rows_of(first, 3))
    assert (spool.first, spool.end, spool.rows) == (0, 3, 9)
    assert [numbers(spool, number) for number in (2, 0, 1)] == [[20, 21, 22], [0, 1, 2], [10, 11, 12]]
    assert spool.nbytes == sum(len(spool.piece(number).load()) for number in range(3))


def test_no_rows_are_no_chunk(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    append(spool, rows_of(0, 0))
    assert (spool.end, spool.rows, spool.nbytes) == (0, 0, 0)


def test_many_rows_are_cut_into_chunks_of_bounded_size(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    count = 3 * CHUNK_BYTES_MAX // 8
    append(spool, rows_of(0, count))
    assert spool.end >= 3
    assert all(len(spool.piece(number).load()) <= CHUNK_BYTES_MAX + 1024 for number in range(spool.end))
    assert [n for number in range(spool.end) for n in numbers(spool, number)] == list(range(count))


def test_what_is_forgotten_is_gone_and_the_rest_keeps_its_number(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    for first in (0, 10, 20):
        append(spool, rows_of(first, 1))
    spool.forget_before(2)
    assert (spool.first, spool.end) == (2, 3)
    assert numbers(spool, 2) == [20]
    assert spool.nbytes == len(spool.piece(2).load())
    assert spool.rows == 3  # counts what was ever stored


@pytest.mark.parametrize("number", [0, -5, 1])
def test_forgetting_what_was_forgotten_changes_nothing(tmp_path: Path, number: int) -> None:
    spool = Spool(tmp_path, AtOnce())
    for first in (0, 10):
        append(spool, rows_of(first, 1))
    spool.forget_before(1)
    spool.forget_before(number)
    assert (spool.first, spool.end) == (1, 2)


def test_forgetting_more_than_there_is_forgets_what_there_is(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    append(spool, rows_of(0, 1))
    spool.forget_before(99)
    assert (spool.first, spool.end, spool.nbytes) == (1, 1, 0)
    append(spool, rows_of(5, 1))
    assert numbers(spool, 1) == [5]


def test_space_comes_back_segment_by_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 1)
    spool = Spool(tmp_path, AtOnce())
    for first in range(4):
        append(spool, rows_of(first, 1))
    assert files(tmp_path) == ["rows-000000", "rows-000001", "rows-000002", "rows-000003"]
    spool.forget_before(2)
    assert files(tmp_path) == ["rows-000002", "rows-000003"]
    assert numbers(spool, 2) == [2]
    spool.forget_before(4)
    assert files(tmp_path) == ["rows-000003"]  # the one that is being written stays
    append(spool, rows_of(9, 1))
    assert numbers(spool, 4) == [9]
    spool.forget_before(5)
    assert len(files(tmp_path)) <= 2


def test_a_segment_that_was_emptied_while_current_is_removed_once_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 1)
    spool = Spool(tmp_path, AtOnce())
    for number in range(50):
        append(spool, rows_of(number, 1))
        spool.forget_before(number + 1)
    assert len(files(tmp_path)) <= 2


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_open_files_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 1)
    before = open_files()
    spool = Spool(tmp_path, AtOnce())
    for number in range(50):
        append(spool, rows_of(number, 1))
        spool.forget_before(number + 1)
    assert open_files() <= before + 2


def test_only_the_file_that_is_written_to_stays_open_while_rows_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 1)
    before = open_files()
    spool = Spool(tmp_path, AtOnce())
    for number in range(50):
        append(spool, rows_of(number, 1))
    assert open_files() <= before + 1
    assert [numbers(spool, number) for number in range(50)] == [[number] for number in range(50)]
    spool.close()
    assert open_files() <= before  # others may have closed theirs


def test_closing_removes_every_file_and_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 1)
    spool = Spool(tmp_path / "q1", AtOnce())
    for first in range(3):
        append(spool, rows_of(first, 1))
    spool.close()
    assert files(tmp_path) == []
    spool.close()


def test_the_last_file_of_a_finished_spool_goes_with_its_rows(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    append(spool, rows_of(0, 3))
    spool.take(2)
    spool.finish(lambda: None)
    assert numbers(spool, 0) == [0, 1, 2]
    spool.take(3)
    assert files(tmp_path) == []


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

    def truncate(self, size: int) -> None:
        self._file.truncate(size)  # type: ignore[attr-defined]

    def seek(self, place: int) -> None:
        self._file.seek(place)  # type: ignore[attr-defined]

    def close(self) -> None:
        self._file.close()  # type: ignore[attr-defined]


def full(spool: Spool, takes: int) -> None:
    segment = spool._files.current
    assert segment is not None
    segment.file = FullDisk(segment.file, takes)  # type: ignore[assignment]


def test_a_full_disk_is_an_error_that_the_caller_sees(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    append(spool, rows_of(0, 1))
    full(spool, 0)
    with pytest.raises(OSError, match="No space left"):
        append(spool, rows_of(1, 1))
    assert (spool.end, spool.rows) == (1, 1)
    assert numbers(spool, 0) == [0]
    spool.close()
    assert files(tmp_path) == []


def test_a_disk_that_takes_half_a_chunk_is_an_error_too(tmp_path: Path) -> None:
    # An unbuffered write may take less than it was given and say so only by its answer.
    spool = Spool(tmp_path, AtOnce())
    append(spool, rows_of(0, 1))
    full(spool, 10)
    with pytest.raises(OSError, match="No space left"):
        append(spool, rows_of(1, 1))


def test_what_is_stored_after_half_a_chunk_was_taken_is_not_shifted_by_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    append(spool, rows_of(0, 1))
    segment = spool._files.current
    assert segment is not None
    whole = segment.file
    full(spool, 10)
    with pytest.raises(OSError, match="No space left"):
        append(spool, rows_of(1, 1))
    segment.file = whole
    append(spool, rows_of(2, 1))
    assert [numbers(spool, number) for number in (0, 1)] == [[0], [2]]


def test_what_a_full_disk_took_of_rows_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 1)
    monkeypatch.setattr(segments, "CHUNK_BYTES_MAX", 8)
    spool, opened = Spool(tmp_path, AtOnce()), Path.open

    def open_or_fail(path: Path, *args: object, **named: object) -> object:
        file = opened(path, *args, **named)  # type: ignore[call-overload]
        return FullDisk(file, 10) if path.name == "rows-000003" else file

    append(spool, rows_of(0, 1))
    monkeypatch.setattr(Path, "open", open_or_fail)
    with pytest.raises(OSError, match="No space left"):
        append(spool, rows_of(1, 5))
    assert (files(tmp_path), spool.rows) == (["rows-000000"], 1)
    append(spool, rows_of(1, 1))
    assert [numbers(spool, number) for number in (0, 1)] == [[0], [1]]
    spool.finish(lambda: None)
    spool.close()
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        append(Spool(tmp_path / "file" / "q1", AtOnce()), rows_of(0, 1))


# -- rows by number ---------------------------------------------------------------------------


def between(spool: Spool, first: int, end: int) -> list[int]:
    rows = read_pieces(spool.pieces(first, end, CHUNK_BYTES_MAX))
    return [n for batch in rows for n in batch.column("n").to_pylist()]


@pytest.fixture
def ten(tmp_path: Path) -> Spool:
    """Rows 0 to 9 in chunks of 3, 1, 4 and 2."""
    spool = Spool(tmp_path, AtOnce())
    for first, count in ((0, 3), (3, 1), (4, 4), (8, 2)):
        append(spool, rows_of(first, count))
    return spool


def test_any_rows_can_be_read_by_number_whatever_the_chunks_are(ten: Spool) -> None:
    for first in range(11):
        for end in range(first, 11):
            assert between(ten, first, end) == list(range(first, end))


@pytest.mark.parametrize(("first", "end"), [(0, 11), (11, 11), (5, 4), (-1, 3)])
def test_rows_that_are_not_there_yet_are_refused(ten: Spool, first: int, end: int) -> None:
    with pytest.raises(ValueError, match="required rows within 0 to 10"):
        ten.pieces(first, end, CHUNK_BYTES_MAX)


def test_rows_are_taken_one_by_one_and_space_chunk_by_chunk(ten: Spool) -> None:
    for taken in range(11):
        ten.take(taken)
        assert (ten.first_row, ten.rows, ten.end) == (taken, 10, 4)
        assert between(ten, taken, 10) == list(range(taken, 10))
        assert ten.first == {0: 0, 1: 0, 2: 0, 3: 1}.get(taken, 2 if taken < 8 else 4 if taken == 10 else 3)
        if taken:
            with pytest.raises(RowsForgottenError, match=f"rows 0 to {taken - 1} were taken"):
                ten.pieces(0, 10, CHUNK_BYTES_MAX)
    assert ten.nbytes == 0


def test_taking_again_or_less_changes_nothing_and_more_than_there_is_takes_all(ten: Spool) -> None:
    ten.take(5)
    ten.take(2)
    assert ten.first_row == 5
    ten.take(99)
    assert (ten.first_row, ten.rows) == (10, 10)
    append(ten, rows_of(10, 2))
    assert between(ten, 10, 12) == [10, 11]


def test_a_follower_after_rows_were_taken_in_the_middle_of_a_chunk_gets_the_rest_of_it(ten: Spool) -> None:
    ten.take(6)
    assert ten.taken_chunk == 2
    rest = pa.ipc.read_record_batch(pa.py_buffer(ten.piece(2, ten.taken).load()), SCHEMA)
    assert rest.column("n").to_pylist() == [6, 7]
    assert numbers(ten, 3) == [8, 9]


def test_a_chunk_that_is_forgotten_is_an_error_and_not_another_chunk(ten: Spool) -> None:
    ten.forget_before(2)
    for number in (1, 4):
        with pytest.raises(RowsForgottenError, match=f"required chunk 2 to 3, got {number}"):
            ten.piece(number)


def test_a_piece_that_is_forgotten_before_it_is_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 1)
    spool = Spool(tmp_path, AtOnce())
    for first in (0, 1, 2):
        append(spool, rows_of(first, 1))
    pieces = spool.pieces(0, 3, CHUNK_BYTES_MAX)
    spool.take(2)
    assert len(read_pieces(pieces[2:])) == 1
    with pytest.raises(RowsForgottenError, match="rows 0 to 0 were taken meanwhile"):
        read_pieces(pieces)


def test_pieces_are_given_out_up_to_a_size_but_never_none(ten: Spool) -> None:
    chunk = ten.nbytes // 4
    assert [piece.end_row for piece in ten.pieces(1, 10, 1)] == [3]
    assert [piece.end_row for piece in ten.pieces(0, 10, 2 * chunk + 100)] == [3, 4]
    assert [piece.end_row for piece in ten.pieces(0, 10, 5 * chunk)] == [3, 4, 8, 10]


def test_a_spool_that_keeps_only_notes_what_is_taken(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce(), keep=True)
    for first, count in ((0, 3), (3, 1), (4, 4)):
        append(spool, rows_of(first, count))
    before = spool.nbytes
    spool.forget_before(1)
    spool.take(5)
    assert (spool.first_row, spool.taken, spool.taken_chunk, spool.first, spool.nbytes) == (0, 5, 2, 0, before)
    assert between(spool, 0, 8) == list(range(8))
    spool.close()
    assert files(tmp_path) == []


def test_numbers_stay_right_and_memory_flat_over_many_chunks(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    for number in range(3_000):
        append(spool, rows_of(2 * number, 2))
        spool.take(max(0, 2 * number - 99))
        assert between(spool, spool.first_row, spool.rows) == list(range(spool.first_row, spool.rows))
    assert len(spool._chunks) < 700
    assert spool.position(spool.end) == spool.written
    assert spool.position(spool.first) == spool.written - spool.nbytes


# -- beside the loop --------------------------------------------------------------------------


def open_in(folder: Path) -> list[Path]:
    targets = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [path for path in targets if path.is_relative_to(folder)]


def test_rows_that_come_together_are_one_chunk_unless_they_are_many(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    append(spool, rows_of(0, 3), rows_of(3, 0), rows_of(3, 2))
    assert (spool.end, spool.rows) == (1, 5)
    many = CHUNK_BYTES_MAX // 8
    append(spool, rows_of(5, 2), rows_of(7, many), rows_of(7 + many, 1))
    assert (spool.end, spool.rows) == (4, 8 + many)
    assert [n for number in range(4) for n in numbers(spool, number)] == list(range(8 + many))


def test_rows_are_there_when_they_are_on_disk_and_not_before(tmp_path: Path) -> None:
    work = OnDemand()
    spool = Spool(tmp_path, work)
    told: list[Exception | None] = []
    for first in (0, 1):
        spool.append([rows_of(first, 1)], told.append)
    assert (spool.rows, spool.end, told, files(tmp_path)) == (0, 0, [], [])
    work.step()
    assert (spool.rows, told) == (1, [None])
    spool.finish(lambda: told.append(OSError("finished")))
    assert len(open_in(tmp_path)) == 1
    work.run()
    assert (spool.rows, len(told), open_in(tmp_path)) == (2, 3, [])


def test_a_segment_is_not_removed_while_rows_for_it_are_on_their_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 1)
    work = OnDemand()
    spool = Spool(tmp_path, work)
    told: list[Exception | None] = []
    for first in range(4):
        spool.append([rows_of(first, 1)], told.append)
        work.step()
        spool.append([rows_of(10 + first, 1)], told.append)
        spool.take(spool.rows)
        work.run()
    assert told == [None] * 8
    assert numbers(spool, 7) == [13]
    assert files(tmp_path) == ["rows-000007"]


def test_closing_removes_what_is_on_its_way_too(tmp_path: Path) -> None:
    work = OnDemand()
    spool = Spool(tmp_path / "q1", work)
    spool.append([rows_of(0, 1)], lambda _: None)
    work.run()
    spool.append([rows_of(1, 1)], lambda _: None)
    spool.close()
    work.run()
    assert files(tmp_path) == []


def test_who_follows_has_the_last_rows_at_hand_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AtOnce())
    append(spool, rows_of(0, 2))
    spool.follow(True)
    append(spool, rows_of(2, 2))
    assert spool.at_hand(0) is None
    assert spool.at_hand(1, 3) is None, "some of its rows are not wanted"
    assert spool.at_hand(1) == spool.piece(1).load()
    assert spool.at_hand(1) is None
    for _ in range(3):
        append(spool, rows_of(4, CHUNK_BYTES_MAX // 16))
    assert [spool.at_hand(number) is not None for number in (2, 3, 4)] == [False, False, True], "not too many of them"
    spool.follow(False)
    append(spool, rows_of(9, 1))
    assert spool.at_hand(5) is None
