"""Rows in files: what was confirmed is there after a crash, whole walks only, and damage is not taken for an end."""

from __future__ import annotations

import errno
import random
import zlib
from contextlib import suppress

import pyarrow as pa
import pytest

from node.core.effects import StoreRows
from node.core.streams.ticks import Span
from node.io.results.records import VERSION
from node.io.results.row_files import Recovered, RowFiles, Segment
from node.storage.disk import Disk
from node.storage.errors import StorageError
from tests.sim.disk import PowerLostError, SimulatedDisk

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
SMALL = 1_500


def simulated(seed: int = 1) -> SimulatedDisk:
    return SimulatedDisk(random.Random(seed))


def walk(number: int, count: int) -> StoreRows:
    """Row n of all walks has n, and the walk's number, in it."""
    rows = pa.RecordBatch.from_pydict({"n": [*range(count)], "text": [f"walk {number}"] * count}, schema=SCHEMA)
    return StoreRows("q", "ab"[number % 2], Span(number, number + 1), 7, rows)


def files_on(disk: SimulatedDisk) -> RowFiles:
    return RowFiles(lambda: disk, SMALL)


def store(files: RowFiles, *walks: StoreRows) -> list[Segment]:
    written = files.append(walks)
    files.commit()
    return [record.segment for record in written]


def rows_of(disk: Disk, found: Recovered) -> list[tuple[int, str]]:
    rows: list[tuple[int, str]] = []
    for record in found.written:
        assert record.first_row == found.segments[0].first_row + len(rows)
        for piece in record.pieces:
            data = disk.read(record.segment.name, piece.offset, piece.nbytes)
            piece.check(data, "here")
            batch = pa.ipc.read_record_batch(pa.py_buffer(data), SCHEMA)
            rows += zip(*batch.to_pydict().values(), strict=True)
    return rows


def spans_of(found: Recovered) -> list[tuple[str, Span]]:
    return [each for record in found.written for each in record.spans]


def expected(walks: list[StoreRows]) -> list[tuple[int, str]]:
    return [row for each in walks for row in zip(*each.rows.to_pydict().values(), strict=True)]


def recovered(disk: SimulatedDisk, rows: int = 0) -> tuple[RowFiles, Recovered]:
    files = files_on(disk)
    return files, files.recover(rows)


def test_rows_and_the_walks_they_are_of_are_there_after_a_restart_and_numbers_go_on() -> None:
    disk, made = simulated(), [walk(number, 1 + number % 5) for number in range(60)]
    files = files_on(disk)
    for at in range(0, 40, 4):
        store(files, *made[at : at + 4])
    assert len(disk.names()) > 3
    files, found = recovered(disk)
    assert (rows_of(disk, found), found.damage, found.cut_bytes) == (expected(made[:40]), "", 0)
    assert spans_of(found) == [(each.head, each.span) for each in made[:40]]
    assert found.rows == len(expected(made[:40]))
    store(files, *made[40:])
    _, found = recovered(disk)
    assert rows_of(disk, found) == expected(made)


def test_walks_that_are_committed_together_take_one_sync() -> None:
    disk = simulated()
    files = RowFiles(lambda: disk)
    store(files, walk(0, 1))
    assert (disk.syncs, disk.names_synced) == (2, 1)  # the head of the segment, the record, and its name
    for number in range(1, 100):
        files.append([walk(number, 3)])
    assert disk.syncs == 2
    files.commit()
    files.commit()
    assert (disk.syncs, disk.names_synced) == (3, 1)


def live(disk: SimulatedDisk, made: list[StoreRows], seed: int) -> tuple[int, int, int]:
    """Store walks until the power is lost: how many were confirmed, and how many were written; rows forgotten."""
    rng = random.Random(seed)
    files, segments = files_on(disk), list[Segment]()
    confirmed = begun = forgotten = 0
    try:
        while begun < len(made):
            for _ in range(rng.randint(1, 3)):
                group = made[begun : begun + rng.randint(1, 4)]
                begun += len(group)
                for record in files.append(group):
                    if record.segment not in segments:
                        segments.append(record.segment)
            files.commit()
            confirmed = begun
            if len(segments) > 1 and rng.random() < 0.4:
                forgotten = segments[1].first_row
                files.remove(segments.pop(0))
    except PowerLostError:
        pass
    return confirmed, begun, forgotten


def check(disk: SimulatedDisk, made: list[StoreRows], confirmed: int, begun: int, forgotten: int) -> None:
    """A crash, and then one in the middle of recovering, lose nothing."""
    disk.crash()
    disk.operations_left = 1
    try:
        files_on(disk).recover(0)
    except PowerLostError:
        disk.crash()
    disk.operations_left = None
    files, found = recovered(disk)
    assert not found.damage
    whole = expected(made)
    first = found.segments[0].first_row if found.segments else 0
    assert first <= forgotten or not found.written
    assert rows_of(disk, found) == whole[first : found.rows]
    assert len(expected(made[:confirmed])) <= found.rows <= len(expected(made[:begun]))
    count = next(count for count in range(begun + 1) if len(expected(made[:count])) == found.rows)
    kept = [(each.head, each.span) for each in made[:count]]
    assert spans_of(found) == kept[len(kept) - len(spans_of(found)) :], "whole walks, and those without a gap"
    store(files, *made[count:])
    assert rows_of(disk, recovered(disk)[1]) == whole[first:]


def some_walks(rng: random.Random, count: int) -> list[StoreRows]:
    return [walk(number, rng.choice((1, 1, 2, 5, 40))) for number in range(count)]


def test_a_crash_at_every_operation_keeps_what_was_confirmed() -> None:
    made = some_walks(random.Random(0), 80)
    whole = simulated()
    live(whole, made, 0)
    assert whole.operations > 100
    for operation in range(whole.operations):
        disk = simulated(operation)
        disk.operations_left = operation
        check(disk, made, *live(disk, made, 0))


@pytest.mark.parametrize("seed", range(150))
def test_a_crash_keeps_what_was_confirmed(seed: int) -> None:
    rng = random.Random(seed)
    made = some_walks(rng, rng.randint(1, 50))
    disk = SimulatedDisk(rng)
    disk.operations_left = rng.randint(0, 150)
    check(disk, made, *live(disk, made, seed))


def test_a_bit_that_flips_is_said_with_its_place_or_is_a_torn_tail() -> None:
    disk, made = simulated(), [walk(number, 2) for number in range(3)]
    files = RowFiles(lambda: disk)
    for each in made:
        store(files, each)
    (name,) = disk.names()
    size = disk.size(name)
    last = recovered(disk)[1].written[-1].pieces[0]
    for byte in range(0, size, 3):
        disk.flip(name, byte, byte % 8)
        copy = simulated()
        copy.create(name).append([disk.read(name, 0, size)])
        found = RowFiles(lambda copy=copy: copy).recover(0)  # type: ignore[misc]
        if found.damage:
            assert f"simulated/{name} " in found.damage
            assert " at byte " in found.damage or "required version" in found.damage
            assert copy.size(name) == size, "nothing is touched"
            assert rows_of(copy, found) == expected(made)[: found.rows]
        else:
            # No later record tells that the last one was synced, so it may as well have been torn.
            assert byte >= last.offset - 400
            assert rows_of(copy, found) == expected(made[:2])
        disk.flip(name, byte, byte % 8)
    assert recovered(disk)[1].rows == 6


def test_damage_in_a_segment_that_is_not_the_last_is_found_by_who_reads_the_rows() -> None:
    disk, made = simulated(), [walk(number, 20) for number in range(20)]
    files = files_on(disk)
    for each in made:
        store(files, each)
    found = recovered(disk)[1]
    record = found.written[0]
    disk.flip(record.segment.name, record.pieces[0].offset + 100, 1)
    _, again = recovered(disk)
    assert (again.damage, again.rows) == ("", 400), "a start does not read all rows"
    with pytest.raises(StorageError, match=r"here at byte \d+ required a whole record; got damaged bytes"):
        rows_of(disk, again)


def test_after_damage_nothing_is_stored_and_what_is_before_it_can_be_read() -> None:
    disk, made = simulated(), [walk(number, 20) for number in range(20)]
    files = files_on(disk)
    for each in made:
        store(files, each)
    names = disk.names()
    disk.flip(names[1], 20, 0)
    files, found = recovered(disk)
    assert f"simulated/{names[1]} at byte 16 required a whole record" in found.damage
    assert rows_of(disk, found) == expected(made)[: found.rows]
    assert found.rows == int(names[1][:16], 16)
    with pytest.raises(StorageError, match=names[1]):
        files.append([walk(99, 1)])
    disk.remove(names[1])
    assert f"required a segment from row {found.rows} on" in recovered(disk)[1].damage


def test_another_version_is_refused_with_both_numbers() -> None:
    disk = simulated()
    store(files_on(disk), walk(0, 1))
    (name,) = disk.names()
    head = bytearray(disk.read(name, 0, disk.size(name)))
    head[8:12] = (VERSION + 1).to_bytes(4, "little")
    head[12:16] = zlib.crc32(bytes(head[:12])).to_bytes(4, "little")
    disk.create(name).append([head])
    assert (
        f"required version {VERSION} of the format of results; got version {VERSION + 1}" in recovered(disk)[1].damage
    )


def test_rows_that_were_all_forgotten_are_remembered_by_their_number() -> None:
    disk = simulated()
    files, found = recovered(disk, 500)
    assert (found.rows, found.damage) == (500, "")
    store(files, walk(0, 3))
    assert [record.first_row for record in recovered(disk, 500)[1].written] == [500]


def test_rows_that_are_known_to_have_been_there_are_missed() -> None:
    disk = simulated()
    store(files_on(disk), walk(0, 3))
    assert "required rows up to 4; got those up to 3" in recovered(disk, 4)[1].damage


def test_on_a_full_disk_nothing_is_claimed_and_it_goes_on_when_there_is_room() -> None:
    made = [walk(number, 10) for number in range(30)]
    for room in [*range(0, 9_000, 131)]:
        disk = simulated(room)
        files = files_on(disk)
        store(files, *made[:2])
        disk.room = room
        done = 2
        with suppress(OSError):
            store(files, *made[2:])
            done = 30
        disk.room = None
        files.commit()
        store(files, *made[done:])
        disk.crash()
        assert rows_of(disk, recovered(disk)[1]) == expected(made)


def test_after_a_sync_that_failed_nothing_is_stored_any_more() -> None:
    for segment_bytes in (1, 1 << 20):
        disk = simulated()
        files = RowFiles(lambda disk=disk: disk, segment_bytes)  # type: ignore[misc]
        store(files, walk(0, 1))
        disk.sync_error = errno.EIO
        for _ in range(2):
            with pytest.raises(StorageError, match="Input/output error"):
                store(files, walk(1, 1))


def test_a_segment_that_cannot_be_removed_is_no_gap_later(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = simulated()
    files = files_on(disk)
    segments = list(dict.fromkeys(store(files, walk(number, 30))[0].name for number in range(12)))
    by_name = {segment.name: segment for segment in files_on(disk).recover(0).segments}
    assert len(segments) > 3
    with monkeypatch.context() as patch:
        patch.setattr(disk, "remove", fails)
        for name in segments[:2]:
            with pytest.raises(OSError, match="no luck"):
                files.remove(by_name[name])
    files.remove(by_name[segments[2]])
    _, found = recovered(disk)
    assert not found.damage
    assert [segment.name for segment in found.segments] == segments[3:]


def fails(_: str) -> None:
    raise OSError(errno.EIO, "no luck")
