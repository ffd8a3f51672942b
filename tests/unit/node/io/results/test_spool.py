"""Result rows on disk: numbered for ever, forgotten when everybody has them, and space that comes back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from node.core.effects import StoreRows
from node.core.streams.ticks import TICK_END, Span
from node.io.results import row_files
from node.io.results.row_files import CHUNK_BYTES_MAX, RowsForgottenError
from node.io.results.spool import Piece, Spool, read_pieces
from node.storage.disk import Disk
from node.storage.folder import Folder
from tests.sim.disk import SimulatedDisk
from tests.unit.files import AtOnce, OnDemand

SCHEMA = pa.schema([("n", pa.int64())])


def rows_of(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(first, first + count), pa.int64())], schema=SCHEMA)


def walk(first: int, count: int, head: str = "a") -> StoreRows:
    return StoreRows("q", head, Span(first, first + max(1, count)), 0, rows_of(first, count))


def at(folder: Path) -> Callable[[], Disk]:
    return lambda: Folder(folder)


def spool_in(folder: Path, work: AtOnce | OnDemand | None = None, *, keep: bool = False) -> Spool:
    return Spool(at(folder), SCHEMA, work or AtOnce(), keep)


def append(spool: Spool, *walks: StoreRows) -> None:
    """Raises what the disk does not take."""
    failed: list[Exception | None] = []
    spool.append(walks, failed.append)
    (error,) = failed
    if error is not None:
        raise error


def between(spool: Spool, first: int, end: int) -> list[int]:
    rows = [batch for piece in _pieces(spool, first, end) for batch in read_pieces([piece])]
    return [n for batch in rows for n in batch.column("n").to_pylist()]


def _pieces(spool: Spool, first: int, end: int) -> list[Piece]:
    found: list[Piece] = []
    while first < end:
        found += spool.pieces(first, end, CHUNK_BYTES_MAX)
        first = found[-1].end_row
    return found


def files(folder: Path) -> list[str]:
    """What is in a spool's folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def named(*rows: int) -> list[str]:
    return [f"{row:016x}.rows" for row in rows]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment for each record."""
    monkeypatch.setattr(row_files, "SEGMENT_BYTES_MAX", 1)


def test_rows_are_read_by_number_whatever_the_chunks_are(tmp_path: Path) -> None:
    spool = spool_in(tmp_path / "a" / "q1")
    for first, count in ((0, 3), (3, 1), (4, 4), (8, 2)):
        append(spool, walk(first, count))
    for first in range(11):
        for end in range(first, 11):
            assert between(spool, first, end) == list(range(first, end))
            assert sum(piece.end_row - piece.first_row for piece in _pieces(spool, first, end)) == end - first


def test_many_rows_are_cut_into_chunks_of_bounded_size_and_few_are_joined(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    count = 3 * CHUNK_BYTES_MAX // 8
    append(spool, walk(0, count), walk(count, 1), walk(count + 1, 2))
    pieces = _pieces(spool, 0, count + 3)
    assert all(len(piece.load()) <= CHUNK_BYTES_MAX + 1024 for piece in pieces)
    assert 3 < len(pieces) < 7
    assert between(spool, 0, count + 3) == list(range(count + 3))


@pytest.mark.parametrize(("first", "end"), [(0, 5), (5, 5), (3, 2), (-1, 3)])
def test_rows_that_are_not_there_yet_are_refused(tmp_path: Path, first: int, end: int) -> None:
    spool = spool_in(tmp_path)
    append(spool, walk(0, 4))
    with pytest.raises(ValueError, match="required rows within 0 to 4"):
        spool.pieces(first, end, CHUNK_BYTES_MAX)


def test_rows_are_taken_one_by_one_and_space_comes_back(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    for first, count in ((0, 3), (3, 1), (4, 4), (8, 2)):
        append(spool, walk(first, count))
    for taken in range(11):
        spool.take(taken)
        assert (spool.first_row, spool.rows) == (taken, 10)
        assert between(spool, taken, 10) == list(range(taken, 10))
        if taken:
            with pytest.raises(RowsForgottenError, match=f"rows 0 to {taken - 1} were taken"):
                spool.pieces(0, 10, CHUNK_BYTES_MAX)
    assert spool.nbytes == 0
    spool.take(5)
    spool.take(99)
    assert (spool.first_row, spool.rows) == (10, 10)
    append(spool, walk(10, 2))
    assert between(spool, 10, 12) == [10, 11]


def test_a_spool_that_keeps_only_notes_what_is_taken(tmp_path: Path) -> None:
    spool = spool_in(tmp_path, keep=True)
    append(spool, walk(0, 3))
    before = spool.nbytes
    spool.take(3)
    assert (spool.first_row, spool.taken, spool.nbytes) == (0, 3, before)
    assert between(spool, 0, 3) == [0, 1, 2]


def test_part_of_a_chunk_is_sent_if_the_rest_was_taken(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    append(spool, walk(0, 5))
    spool.take(3)
    (piece,) = spool.pieces(3, 5, CHUNK_BYTES_MAX)
    assert pa.ipc.read_record_batch(pa.py_buffer(piece.load()), SCHEMA).column("n").to_pylist() == [3, 4]


def test_a_segment_goes_when_its_rows_are_taken_and_its_walks_are_done(tmp_path: Path, tiny: None) -> None:
    spool = spool_in(tmp_path)
    for first in range(4):
        append(spool, walk(first, 1))
    assert files(tmp_path) == named(0, 1, 2, 3)
    spool.take(3)
    assert files(tmp_path) == named(0, 1, 2, 3), "the next start must know which walks are stored"
    assert spool.spans == [("a", Span(first, first + 1)) for first in range(4)]
    spool.done({"a": 2})
    assert files(tmp_path) == named(2, 3)
    assert spool.spans == [("a", Span(2, 3)), ("a", Span(3, 4))]
    spool.done({"a": TICK_END})
    assert files(tmp_path) == named(3), "the last one tells which number comes next"
    append(spool, walk(4, 1))
    assert between(spool, 3, 5) == [3, 4]
    spool.take(5)
    assert files(tmp_path) == named(4)
    spool.finish()
    assert files(tmp_path) == []


def test_walks_that_are_done_keep_no_rows_from_being_read(tmp_path: Path, tiny: None) -> None:
    spool = spool_in(tmp_path)
    for first in range(3):
        append(spool, walk(first, 1))
    spool.done({"a": TICK_END})
    assert (files(tmp_path), spool.spans) == (named(0, 1, 2), [])
    assert between(spool, 0, 3) == [0, 1, 2]


def test_walks_of_other_heads_are_not_done_with_one(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    append(spool, walk(0, 1), walk(0, 1, "b"))
    spool.done({"a": 1, "b": 0})
    assert spool.spans == [("b", Span(0, 1))]


def test_only_the_file_that_is_written_to_stays_open(tmp_path: Path, tiny: None) -> None:
    before = open_files()
    spool = spool_in(tmp_path)
    for number in range(50):
        append(spool, walk(number, 1))
    assert open_files() <= before + 1
    assert between(spool, 0, 50) == list(range(50))
    spool.close()
    assert open_files() <= before  # others may have closed theirs


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_removing_removes_what_is_on_its_way_too(tmp_path: Path) -> None:
    work = OnDemand()
    spool = spool_in(tmp_path / "q1", work)
    for first in range(2):
        spool.append([walk(first, 1)], lambda _: None)
    spool.remove()
    work.run()
    assert files(tmp_path / "q1") == []


def test_rows_are_there_when_they_are_durable_and_not_before(tmp_path: Path) -> None:
    work = OnDemand()
    disk = SimulatedDisk(random.Random(0))
    spool = Spool(lambda: disk, SCHEMA, work)
    told: list[Exception | None] = []
    for first in (0, 1):
        spool.append([walk(first, 1)], told.append)
    assert (spool.rows, told, disk.syncs) == (0, [], 0)
    work.step()
    assert (spool.rows, told) == (1, [None])
    assert disk.syncs == 2  # the head of the segment, and the record
    work.step()
    assert (spool.rows, disk.syncs) == (2, 3)


def test_a_segment_is_not_removed_while_rows_for_it_are_on_their_way(tmp_path: Path, tiny: None) -> None:
    work = OnDemand()
    spool = spool_in(tmp_path, work)
    told: list[Exception | None] = []
    spool.done({"a": TICK_END})
    for first in range(4):
        spool.append([walk(2 * first, 1)], told.append)
        work.step()
        spool.append([walk(2 * first + 1, 1)], told.append)
        spool.take(spool.rows)
        work.run()
    assert told == [None] * 8
    assert between(spool, 7, 8) == [7]
    assert files(tmp_path) == named(7)


def test_a_piece_that_is_forgotten_before_it_is_read_says_so(tmp_path: Path, tiny: None) -> None:
    spool = spool_in(tmp_path)
    for first in (0, 1, 2):
        append(spool, walk(first, 1))
    pieces = spool.pieces(0, 3, CHUNK_BYTES_MAX)
    spool.done({"a": TICK_END})
    spool.take(2)
    assert len(read_pieces(pieces[2:])) == 1
    with pytest.raises(RowsForgottenError, match="rows 0 to 0 were taken meanwhile"):
        read_pieces(pieces)


def test_numbers_stay_right_and_memory_flat_over_many_chunks(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    for number in range(1_500):
        append(spool, walk(2 * number, 2))
        spool.take(max(0, 2 * number - 99))
        spool.done({"a": 2 * number})
        assert between(spool, spool.first_row, spool.rows) == list(range(spool.first_row, spool.rows))
    assert len(spool._chunks) < 700
    assert len(spool.spans) == 1
    assert spool.position(spool.rows) == spool.written
    assert spool.position(0) == spool.written - spool.nbytes


def test_who_follows_has_the_last_rows_at_hand(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    append(spool, walk(0, 2))
    spool.follow(True)
    append(spool, walk(2, 2))
    assert spool.at_hand(0) is None
    assert spool.at_hand(3) is None, "some of its rows are not wanted"
    assert spool.at_hand(2) == (spool.pieces(2, 4, 1)[0].load(), 4)
    for number in range(3):
        append(spool, walk(4 + number * (CHUNK_BYTES_MAX // 16), CHUNK_BYTES_MAX // 16))
    begins = [4 + number * (CHUNK_BYTES_MAX // 16) for number in range(3)]
    assert [spool.at_hand(row) is not None for row in begins] == [False, False, True], "not too many of them"
    spool.follow(False)
    assert spool.at_hand(begins[2]) is None
