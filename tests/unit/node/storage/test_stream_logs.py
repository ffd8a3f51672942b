"""A site's logs as the core sees them: effects in, events out."""

from __future__ import annotations

import asyncio
import errno
import random
from dataclasses import replace

import pytest

from node.core.effects import AppendBatch, OpenLog, ReadLog, RemoveLog, TrimLog
from node.core.events import BatchLogged, Event, LogFailed, LogRead, LogUnread
from node.core.streams.position import Position, SourcePlace
from node.io.threads.memory_storage import MemoryStorage
from node.storage.disk_log import DiskLog
from node.storage.errors import DiskFailedError
from node.storage.memory_log import MemoryLog
from node.storage.stream_logs import LogEffect, StreamLogs
from tests.sim.disk import PowerLostError, SimulatedDisk
from tests.unit.logged import batch, batches, log_all, read_all, same


def simulated_logs(*streams: str) -> tuple[StreamLogs, dict[str, SimulatedDisk]]:
    disks = {stream: SimulatedDisk(random.Random(1)) for stream in streams}
    return StreamLogs({stream: DiskLog(disk) for stream, disk in disks.items()}), disks


# -- effects and events -------------------------------------------------------------------------


def test_all_batches_of_a_turn_are_logged_with_one_sync_and_one_answer_a_stream() -> None:
    logs, disks = simulated_logs("a", "b", "c")
    made = batches(20)
    logs.run([AppendBatch(stream, made[0]) for stream in "abc"])
    before = [disk.syncs for disk in disks.values()]
    events = logs.run([AppendBatch(stream, one) for one in made[1:] for stream in "ab"])
    assert events == [BatchLogged("a", 20), BatchLogged("b", 20)]
    for event in events:
        assert isinstance(event, BatchLogged)
        assert len(event.sizes) == 19
        assert min(event.sizes) > 0
    assert [disk.syncs for disk in disks.values()] == [before[0] + 1, before[1] + 1, before[2]]


def test_a_reader_gets_what_is_durable_under_its_number() -> None:
    logs, _ = simulated_logs("a")
    made = batches(5)
    assert logs.run([ReadLog(1, "a", 0)]) == [LogRead(1, ())]
    logged, read, nothing = logs.run([ReadLog(7, "a", 2), *(AppendBatch("a", one) for one in made), ReadLog(8, "a", 5)])
    assert logged == BatchLogged("a", 5), "before what is read of it"
    assert isinstance(read, LogRead)
    assert read.reader == 7
    assert same(read.batches, made[2:])
    assert nothing == LogRead(8, ())


def test_logs_come_and_go_at_their_place_among_what_is_asked_of_them() -> None:
    logs = StreamLogs({})
    one, other = batches(2)
    again = replace(other, span=one.span, first=0)
    asked: list[LogEffect] = [
        OpenLog("d"),
        AppendBatch("d", one),
        AppendBatch("d", other),
        RemoveLog("d"),
        OpenLog("d"),
    ]
    events = logs.run([*asked, AppendBatch("d", again), ReadLog(1, "d", 0)])
    assert [event.frontier for event in events if isinstance(event, BatchLogged)] == [2, 1]
    (read,) = (event for event in events if isinstance(event, LogRead))
    assert same(read.batches, [again])
    logs.run([RemoveLog("d")])
    assert logs.nbytes == {}
    late = logs.run([AppendBatch("d", one), TrimLog("d", 1), ReadLog(2, "d", 0)])
    assert late == [LogUnread(2, "there is no log of stream d")], "what comes after the end harms nobody"


def test_trimming_has_no_answer_and_what_it_forgot_cannot_be_read() -> None:
    logs = StreamLogs({"a": MemoryLog()})
    logs.run([AppendBatch("a", one) for one in batches(5)])
    assert logs.run([TrimLog("a", 3)]) == []
    (failed,) = logs.run([ReadLog(1, "a", 0)])
    assert isinstance(failed, LogUnread)
    assert failed.reader == 1
    assert "required the batch of tick 0; got a log that begins at 3" in failed.reason
    (read,) = logs.run([ReadLog(2, "a", 3)])
    assert isinstance(read, LogRead)


def test_on_a_full_disk_batches_wait_and_what_is_there_can_be_read_and_goes_on_when_there_is_room() -> None:
    logs, disks = simulated_logs("a", "b")
    made = batches(8)
    logs.run([AppendBatch(stream, made[0]) for stream in "ab"])
    disks["a"].room = 10
    assert logs.run([AppendBatch(stream, one) for one in made[1:3] for stream in "ab"]) == [BatchLogged("b", 3)]
    assert "required room for the next batches; got No space left on device (error 28, ENOSPC)" in logs.full
    # What follows waits behind it, although it would fit.
    disks["a"].room = None
    assert logs.run([AppendBatch("a", made[3])]) == []
    (read,) = logs.run([ReadLog(1, "a", 0)])
    assert isinstance(read, LogRead)
    assert same(read.batches, made[:1])
    disks["a"].room = 10
    assert logs.retry() == []
    assert logs.full
    disks["a"].room = None
    assert logs.retry() == [BatchLogged("a", 4)]
    assert logs.full == ""
    assert logs.run([AppendBatch("a", made[4])]) == [BatchLogged("a", 5)]
    disks["a"].crash()
    log = DiskLog(disks["a"])
    log.recover()
    assert same(read_all(log, 0), made[:5])


def test_what_of_a_group_is_durable_is_told_although_the_rest_waits() -> None:
    disk = SimulatedDisk(random.Random(1))
    logs = StreamLogs({"a": DiskLog(disk, segment_bytes=1)})  # a segment for each batch
    disk.room = 4_000
    made = batches(50)
    (logged,) = logs.run([AppendBatch("a", one) for one in made])
    assert isinstance(logged, BatchLogged)
    assert 0 < logged.frontier < 50
    disk.room = None
    assert logs.retry() == [BatchLogged("a", 50)]
    disk.crash()
    log = DiskLog(disk)
    log.recover()
    assert same(read_all(log, 0), made)


def test_a_sync_that_fails_is_never_tried_again() -> None:
    logs, disks = simulated_logs("a")
    made = batches(4)
    logs.run([AppendBatch("a", made[0])])
    disks["a"].sync_error = errno.EIO
    (failed,) = logs.run([AppendBatch("a", made[1])])
    assert isinstance(failed, LogFailed)
    assert "the log in simulated required a disk that keeps what is written; got" in failed.reason
    assert "(error 5, EIO)" in failed.reason
    assert isinstance(logs.broken, DiskFailedError)
    syncs = disks["a"].syncs
    assert logs.run([AppendBatch("a", made[2])]) == []
    assert logs.retry() == []
    assert disks["a"].syncs == syncs


def test_a_sync_that_fails_for_want_of_room_is_a_failure_too() -> None:
    """The system may have dropped the bytes, and report the next sync as good."""
    disk = SimulatedDisk(random.Random(1))
    log = DiskLog(disk)
    log_all(log, batches(1))
    disk.sync_error = errno.ENOSPC
    with pytest.raises(DiskFailedError, match="ENOSPC"):
        log_all(log, batches(1, 3, 1))
    with pytest.raises(DiskFailedError, match="ENOSPC"):
        log_all(log, batches(1, 3, 1))


def test_the_source_is_told_how_far_it_is_durable_and_no_further() -> None:
    logs, disks = simulated_logs("a")
    made = [replace(one, place=SourcePlace(Position(0, 2 * n), Position(0, 9 * n))) for n, one in enumerate(batches(5))]
    logs.run([AppendBatch("a", one) for one in made[:3]])
    assert logs.places == {"a": made[2].place}
    disks["a"].room = 0
    logs.run([AppendBatch("a", one) for one in made[3:]])
    assert logs.places == {"a": made[2].place}


def test_a_bug_is_told_as_the_failure_of_the_streams_it_met() -> None:
    logs, _ = simulated_logs("a", "b")
    gap = [AppendBatch("a", batch(0, 1, 1)), AppendBatch("a", batch(5, 6, 1))]
    (failed,) = logs.answer(gap)
    assert isinstance(failed, LogFailed)
    assert "requires a batch from tick 1 on" in failed.reason
    assert logs.answer([AppendBatch("a", batch(0, 1, 1)), AppendBatch("b", batch(0, 1, 1))]) == [BatchLogged("b", 1)]


@pytest.mark.parametrize("seed", range(40))
def test_what_was_told_to_be_logged_is_there_after_a_crash(seed: int) -> None:
    rng = random.Random(seed)
    disks = {stream: SimulatedDisk(rng) for stream in "ab"}
    logs = StreamLogs({stream: DiskLog(disk, 1_500) for stream, disk in disks.items()})
    made = batches(40)
    told = {"a": 0, "b": 0}
    disks[rng.choice("ab")].operations_left = rng.randint(0, 60)
    left = [AppendBatch(stream, one) for one in made for stream in "ab"]
    try:
        while left:
            count = rng.randint(1, 9)
            for event in logs.run(left[:count]):
                assert isinstance(event, BatchLogged)
                told[event.stream] = event.frontier
            del left[:count]
    except PowerLostError:
        pass
    for stream, disk in disks.items():
        disk.crash()
        log = DiskLog(disk)
        found = log.recover()
        assert found.batches >= told[stream]
        assert same(read_all(log, 0), made[: found.batches])


# -- without a disk -----------------------------------------------------------------------------


def test_a_run_without_a_disk_is_answered_once_a_turn_of_the_loop() -> None:
    delivered: list[list[Event]] = []
    made = batches(3)

    async def run() -> None:
        storage = MemoryStorage(["a"], delivered.append)
        storage.start()
        for one in made:
            storage.put(AppendBatch("a", one))
        storage.put(ReadLog(4, "a", 1))
        assert delivered == [], "never from within put: the core is not done with its turn"
        await asyncio.sleep(0)
        storage.put(TrimLog("a", 2))
        storage.put(ReadLog(5, "a", 2))
        await asyncio.sleep(0)
        storage.put(ReadLog(6, "a", 2))
        storage.stop()
        await asyncio.sleep(0)

    asyncio.run(run())
    (logged, read), (last,) = delivered
    assert logged == BatchLogged("a", 3)
    assert isinstance(read, LogRead)
    assert [one is other for one, other in zip(read.batches, made[1:], strict=True)] == [True, True], "not copied"
    assert last == LogRead(5, (made[2],))


def test_the_log_of_a_stream_with_many_batches_is_read_in_bounded_pieces() -> None:
    logs, _ = simulated_logs("a")
    made = batches(3_000, 20)
    log = MemoryLog()
    log_all(log, made)
    logs.run([AppendBatch("a", one) for one in made])
    (read,) = logs.run([ReadLog(1, "a", 0)])
    assert isinstance(read, LogRead)
    assert 100 < len(read.batches) < 3_000
    assert 100 < len(log.read_from(0)) < 3_000
