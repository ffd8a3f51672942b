"""Damage in a log: it is known which ticks it costs, and a log goes on without them, and without no other."""

from __future__ import annotations

import logging
import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from node.core.effects import AppendBatch
from node.core.streams.position import Position, SourcePlace
from node.core.streams.sealer import Batch
from node.core.streams.ticks import Span
from node.storage.damage import ASIDE, LogDamage
from node.storage.disk_log import DiskLog
from node.storage.errors import DamagedLogError, StorageError, VersionError
from node.storage.segment import VERSION
from node.storage.site_folder import SiteFolder, open_folder
from tests.sim.disk import PowerLostError, SimulatedDisk
from tests.unit.logged import batches, log_all, read_all, same

SMALL = 2_000
PLACE = SourcePlace(Position(0, 3), Position(0, 12))
MADE = [replace(one, newest=one.span.end, place=PLACE) for one in batches(24, first_tick=100)]


def logged(seed: int = 1) -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(seed))
    log = DiskLog(disk, SMALL)
    for one in MADE:
        log_all(log, [one])
    assert len(disk.names()) > 3
    return disk


def flip(disk: SimulatedDisk, name: str, byte: int) -> None:
    data = bytearray(disk.read(name, 0, disk.size(name)))
    data[byte] ^= 1
    disk.remove(name)
    file = disk.create(name)
    file.append([data])
    file.sync()
    disk.sync_names()


def left(lost: tuple[Span, ...]) -> list[Batch]:
    return [one for one in MADE if one.span.first >= lost[-1].end]


def check_goes_on(disk: SimulatedDisk, lost: tuple[Span, ...]) -> None:
    """All after the damage is there, and the stream goes on where it was."""
    log = DiskLog(disk, SMALL)
    extent = log.recover().extent
    assert extent is not None
    assert (extent.end, extent.next_tuple, extent.newest_ts, extent.place) == (124, 72, 124, PLACE)
    after = left(lost)
    assert same(read_all(log, lost[-1].end), after)
    assert extent.begin == (after[0].span.first if after else 123)
    more = replace(batches(1, first_tick=124)[0], first=72)
    log_all(log, [more])
    assert same(read_all(log, lost[-1].end), [*after, more])


def test_a_flipped_bit_anywhere_costs_the_ticks_it_is_in_and_no_others() -> None:
    names = logged().names()
    for name in names:
        for byte in range(0, logged().size(name), 41):
            disk = logged()
            flip(disk, name, byte)
            try:
                DiskLog(disk, SMALL).recover()
            except StorageError:
                pass
            else:
                continue  # what was written last may have been torn
            before = {one: disk.read(one, 0, disk.size(one)) for one in disk.names()}
            try:
                damage = LogDamage(disk)
            except VersionError:
                assert 8 <= byte < 12
                continue
            except DamagedLogError:
                assert name == names[-1], "where the stream goes on is in the newest segment"
                continue
            lost = tuple(one.ticks for one in damage.damages)
            (found,) = damage.damages
            assert found.path == f"simulated/{name}"
            assert found.byte <= byte
            # One batch, or with the head of a segment all that is in it.
            assert lost[0].end - lost[0].first == 1 or found.byte == 0
            aside = damage.take_out()
            check_goes_on(disk, lost)
            for one in aside:
                assert disk.read(one, 0, disk.size(one)) == before[one.removesuffix(ASIDE)], "nothing is thrown away"


def test_all_that_is_damaged_is_found() -> None:
    disk = logged()
    first, second, third, *_ = disk.names()
    flip(disk, first, disk.size(first) - 9)
    disk.remove(second)
    flip(disk, third, 700)
    disk.sync_names()
    damage = LogDamage(disk)
    lost = tuple(one.ticks for one in damage.damages)
    assert [str(span) for span in lost] == ["[104, 110)", "[111, 112)"]
    damage.take_out()
    check_goes_on(disk, lost)


def test_a_log_whose_end_is_damaged_still_says_where_the_stream_goes_on() -> None:
    disk = logged()
    name = disk.names()[-1]
    size = disk.size(name)
    record = (size - 160) // len([one for one in MADE if one.span.first >= 120])
    flip(disk, name, size - 2 * record + 100)
    flip(disk, name, size - 9)
    damage = LogDamage(disk)
    lost = tuple(one.ticks for one in damage.damages)
    assert [str(span) for span in lost] == ["[122, 124)"]
    damage.take_out()
    check_goes_on(disk, lost)


def test_power_lost_at_every_step_leaves_a_log_that_is_damaged_or_goes_on() -> None:
    finished = False
    for operation in range(60):
        disk = logged(operation)
        flip(disk, disk.names()[2], 700)
        lost = tuple(one.ticks for one in LogDamage(disk).damages)
        disk.operations_left = operation
        try:
            LogDamage(disk).take_out()
            finished = True
        except PowerLostError:
            disk.crash()
            LogDamage(disk).take_out()
        disk.operations_left = None
        check_goes_on(disk, lost)
    assert finished


def test_of_a_long_log_one_segment_at_a_time_is_in_memory() -> None:
    disk = SimulatedDisk(random.Random(1))
    log = DiskLog(disk, 100_000)
    for one in batches(60, 1_000):
        log_all(log, [one])
    names = disk.names()
    assert len(names) > 8
    flip(disk, names[1], disk.size(names[1]) // 2)
    largest = max(disk.size(name) for name in names)
    tracemalloc.start()
    damage = LogDamage(disk)
    assert damage.damages
    assert tracemalloc.get_traced_memory()[1] < 5 * largest
    assert tracemalloc.get_traced_memory()[0] < largest
    tracemalloc.stop()


def test_another_version_is_no_damage() -> None:
    disk = logged()
    name = disk.names()[0]
    data = bytearray(disk.read(name, 0, disk.size(name)))
    data[8] = VERSION + 1
    disk.create(name).append([data])
    with pytest.raises(VersionError, match=f"required version {VERSION} of the log's format; got version"):
        LogDamage(disk)


def opened(path: Path, *, accept_loss: bool = False) -> SiteFolder:
    return open_folder(path, "c", "berlin", ["orders"], 100, headroom_bytes=4096, accept_loss=accept_loss)


def test_a_site_refuses_to_start_until_the_loss_is_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = opened(tmp_path)
    for one in MADE:
        folder.logs.run([AppendBatch("orders", one)])
    folder.logs.close()
    folder.close()
    (path,) = (tmp_path / "orders" / "log").iterdir()
    data = bytearray(path.read_bytes())
    data[2_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedLogError) as refused:
        opened(tmp_path)
    said = str(refused.value)
    assert said.startswith(f"stream orders required a whole log; got damage: {path} at byte ")
    assert "ticks [104, 105) are lost (restore a backup, or narrows node --accept-data-loss goes on" in said
    assert path.read_bytes() == data
    with caplog.at_level(logging.WARNING):
        folder = opened(tmp_path, accept_loss=True)
    assert f"stream orders: data loss was accepted: {path} at byte " in caplog.text
    extent = folder.extents["orders"]
    assert (extent.begin, extent.end, extent.lost) == (105, 124, (Span(104, 105),))
    assert path.with_name(path.name + ASIDE).read_bytes() == data
    folder.logs.close()
    folder.close()
    # It is remembered, and need not be said again.
    folder = opened(tmp_path)
    assert folder.extents["orders"].lost == (Span(104, 105),)
    folder.close()
