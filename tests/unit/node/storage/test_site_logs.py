"""A site's logs as the core sees them: effects in, events out, on the storage thread or without one."""

from __future__ import annotations

import asyncio
import logging
import queue
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from node.core.effects import AppendBatch, ReadLog, TrimLog
from node.core.events import BatchLogged, Event, LogFailed, LogRead, LogUnread
from node.core.streams.ticks import TICK_MIN
from node.io.threads.memory_storage import MemoryStorage
from node.io.threads.storage_thread import StorageThread
from node.storage.disk_log import DiskLog
from node.storage.errors import StorageError
from node.storage.lock import LOCK_NAME, SiteLock
from node.storage.memory_log import MemoryLog
from node.storage.site_logs import begin_logs
from node.storage.stream_logs import StreamLogs
from tests.sim.disk import PowerLostError, SimulatedDisk
from tests.unit.logged import batch, batches, log_all, read_all, same

WAIT_S = 30


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


def test_a_full_disk_fails_its_stream_once_and_no_other() -> None:
    logs, disks = simulated_logs("a", "b")
    made = batches(6)
    logs.run([AppendBatch(stream, made[0]) for stream in "ab"])
    disks["a"].room = 10
    failed, logged = logs.run([AppendBatch(stream, one) for one in made[1:3] for stream in "ab"])
    assert isinstance(failed, LogFailed)
    assert failed.stream == "a"
    assert "No space left on device" in failed.reason
    assert logged == BatchLogged("b", 3)
    disks["a"].room = None
    # What follows a batch that is lost is not logged either: there would be a gap.
    assert logs.run([AppendBatch("a", made[3])]) == []
    (read,) = logs.run([ReadLog(1, "a", 0)])
    assert isinstance(read, LogRead)
    assert same(read.batches, made[:1])


def test_what_of_a_group_is_durable_is_told_although_the_rest_failed() -> None:
    disk = SimulatedDisk(random.Random(1))
    logs = StreamLogs({"a": DiskLog(disk, segment_bytes=1)})  # a segment for each batch
    disk.room = 3_000
    logged, failed = logs.run([AppendBatch("a", one) for one in batches(50)])
    assert isinstance(logged, BatchLogged)
    assert 0 < logged.frontier < 50
    assert isinstance(failed, LogFailed)
    disk.crash()
    assert DiskLog(disk).recover().frontier == logged.frontier


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


# -- the thread ---------------------------------------------------------------------------------


def test_what_queued_up_while_the_disk_worked_is_delivered_together() -> None:
    logs, disks = simulated_logs("a")
    delivered: queue.Queue[list[Event]] = queue.Queue()
    disk_may_go_on = threading.Event()

    def deliver(events: list[Event]) -> None:
        delivered.put(events)
        disk_may_go_on.wait(WAIT_S)

    thread = StorageThread(logs, deliver)
    thread.start()
    made = batches(10)
    thread.put(AppendBatch("a", made[0]))
    assert delivered.get(timeout=WAIT_S) == [BatchLogged("a", 1)]
    syncs = disks["a"].syncs
    for one in made[1:]:
        thread.put(AppendBatch("a", one))
    thread.put(ReadLog(3, "a", 8))
    thread.put(TrimLog("a", 5))
    disk_may_go_on.set()
    logged, read = delivered.get(timeout=WAIT_S)
    assert logged == BatchLogged("a", 10)
    assert isinstance(read, LogRead)
    assert same(read.batches, made[8:])
    assert disks["a"].syncs == syncs + 1
    thread.stop()
    assert threading.active_count() == 1 or "storage" not in [one.name for one in threading.enumerate()]


def test_a_thread_that_never_started_can_be_stopped() -> None:
    logs, _ = simulated_logs("a")
    StorageThread(logs, lambda events: None).stop()


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


# -- a site's folder ----------------------------------------------------------------------------


def test_logs_begin_anew_beside_what_spark_keeps_and_say_what_was_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "orders" / "checkpoint").mkdir(parents=True)
    (tmp_path / "orders" / "handed").write_text("3 0\n")
    logs = begin_logs(tmp_path, ["orders", "clicks"])
    logs.run([AppendBatch("orders", one) for one in batches(4)])
    logs.close()
    kept = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert kept == ["orders/handed", "orders/log/4000000000000000.log"]
    with caplog.at_level(logging.INFO):
        again = begin_logs(tmp_path, ["orders", "clicks"])
    (line,) = caplog.messages
    assert "stream orders begins anew; an earlier life left 4 batches of 12 tuples up to tick 4, and 0 bytes" in line
    assert (tmp_path / "orders" / "handed").read_text() == "3 0\n"
    assert again.run([ReadLog(1, "orders", TICK_MIN)]) == [LogRead(1, ())]


def test_a_damaged_log_stops_the_daemon_and_stays_as_it_is(tmp_path: Path) -> None:
    logs = begin_logs(tmp_path, ["orders"])
    for one in batches(3):
        logs.run([AppendBatch("orders", one)])
    logs.close()
    (path,) = (tmp_path / "orders" / "log").iterdir()
    data = bytearray(path.read_bytes())
    data[400] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match=f"{path} at byte .* required .*; got damaged bytes"):
        begin_logs(tmp_path, ["orders"])
    assert path.read_bytes() == data


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "orders").write_text("a file")
    with pytest.raises(StorageError, match=r"required a folder that can be written to; got .*orders"):
        begin_logs(tmp_path, ["orders"])
    with pytest.raises(StorageError, match="required a state_dir that can be written to; got"):
        SiteLock(tmp_path / "orders" / "site")


def test_two_daemons_cannot_have_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "berlin"
    text = "import pathlib, sys; from node.storage.lock import SiteLock; "
    text += "lock = SiteLock(pathlib.Path(sys.argv[1])); print('taken', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", text, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        with pytest.raises(StorageError, match=rf"no other daemon uses; got one that process {other.pid} has locked"):
            SiteLock(folder)
        other.kill()
    lock = SiteLock(folder)
    with pytest.raises(StorageError, match="has locked"):
        SiteLock(folder)
    lock.release()
    lock.release()
    SiteLock(folder).release()
    assert [path.name for path in folder.iterdir()] == [LOCK_NAME]


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
