"""The disk of a site beside the loop: one sync for many, nothing told before it is durable, full and broken disks."""

from __future__ import annotations

import errno
import os
import queue
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from node.core.effects import AppendBatch, ReadLog, SetAside, TrimLog, WriteRecords
from node.core.events import BatchLogged, LogRead
from node.core.links.lives import Met
from node.core.records import Put, RecordChange
from node.core.streams.position import Position, SourcePlace
from node.io.sources import late_files
from node.io.sources.late_files import LateFiles
from node.io.threads import storage_thread
from node.io.threads.storage_thread import StorageThread
from node.stack import Input, LifeRemembered, RememberLife
from node.storage.disk_log import DiskLog
from node.storage.errors import DiskFailedError, NoRoomError, StorageError
from node.storage.folder import Folder
from node.storage.headroom import HEADROOM_NAME, Headroom
from node.storage.site_folder import open_folder
from node.storage.site_records import NoRecords
from node.storage.stream_logs import StreamLogs
from tests.sim.disk import SimulatedDisk
from tests.small_disk import small_disk as mounted
from tests.unit.logged import batches, read_all, same
from tests.unit.syncs import noted_syncs

WAIT_S = 30


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is tried again at once."""
    monkeypatch.setattr(storage_thread, "RETRY_S", 0.01)


@dataclass
class Reports:
    """What is told, in order; ``hold`` keeps the thread from going on after it told events."""

    said: queue.Queue[Any] = field(default_factory=queue.Queue)
    hold: threading.Event = field(default_factory=threading.Event)

    def put_from_thread(self, inputs: list[Input]) -> None:
        self.said.put(inputs)
        self.hold.wait(WAIT_S)

    def records_written_from_thread(self, count: int) -> None:
        self.said.put(count)

    def disk_from_thread(self, trouble: str) -> None:
        self.said.put(("trouble", trouble))

    def failed_from_thread(self, error: Exception) -> None:
        self.said.put(error)

    def next(self) -> Any:
        return self.said.get(timeout=WAIT_S)


class Notes(NoRecords):
    """Records that note what is committed, and may not be."""

    def __init__(self) -> None:
        super().__init__(1)
        self.commits: list[list[RecordChange]] = []
        self.error: StorageError | None = None
        #: So many commits find no room.
        self.refusals = 0

    def remember(self, peer: str, met: Met) -> None:
        self.commit([Put("peer_life", peer, str(met.life).encode())])

    def commit(self, changes: Any) -> None:
        if self.refusals:
            self.refusals -= 1
            raise NoRoomError("full")
        if self.error is not None:
            raise self.error
        self.commits.append(list(changes))


@dataclass
class Made:
    thread: StorageThread
    reports: Reports
    disk: SimulatedDisk
    records: Notes
    logged: list[tuple[str, SourcePlace]]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    disk, reports, records, logged = (
        SimulatedDisk(random.Random(1)),
        Reports(),
        Notes(),
        list[tuple[str, SourcePlace]](),
    )
    reports.hold.set()
    logs = StreamLogs({"a": DiskLog(disk)})
    late = LateFiles(tmp_path / "late")
    thread = StorageThread(
        logs, records, late, Headroom(tmp_path, 4096), reports, lambda stream, place: logged.append((stream, place))
    )
    # As a site's folder does when it is opened.
    assert Headroom(tmp_path, 4096).reserve()
    thread.start()
    yield Made(thread, reports, disk, records, logged)
    thread.stop()


def change(number: int) -> Put:
    return Put("pin", str(number), b"")


def test_what_queued_up_while_the_disk_worked_is_done_and_told_together(made: Made) -> None:
    batch = batches(10)
    made.reports.hold.clear()
    made.thread.put(AppendBatch("a", batch[0]))
    assert made.reports.next() == [BatchLogged("a", 1)]
    syncs = made.disk.syncs
    for number, one in enumerate(batch[1:]):
        made.thread.put(AppendBatch("a", one))
        made.thread.put(WriteRecords((change(number),)))
    made.thread.put(ReadLog(3, "a", 8))
    made.thread.put(TrimLog("a", 5))
    made.reports.hold.set()
    logged, read = made.reports.next()
    assert logged == BatchLogged("a", 10)
    assert isinstance(read, LogRead)
    assert same(read.batches, batch[8:])
    assert made.disk.syncs == syncs + 1
    assert made.reports.next() == 9, "all records at once"
    assert made.records.commits == [[change(number) for number in range(9)]]
    made.thread.stop()
    assert "storage" not in [one.name for one in threading.enumerate()]


def test_the_source_hears_what_is_durable_before_the_core_does(made: Made) -> None:
    place = SourcePlace(Position(0, 3), Position(0, 7))
    made.thread.put(AppendBatch("a", replace(batches(1)[0], place=place)))
    made.reports.next()
    assert made.logged == [("a", place)]


def test_a_thread_that_never_started_can_be_stopped(tmp_path: Path) -> None:
    logs = StreamLogs({})
    thread = StorageThread(logs, Notes(), LateFiles(tmp_path), Headroom(tmp_path), Reports(), lambda *_: None)
    assert thread.stop()


def test_on_a_full_disk_batches_wait_while_logs_are_read_and_records_are_written(made: Made) -> None:
    batch = batches(4)
    made.thread.put(AppendBatch("a", batch[0]))
    assert made.reports.next() == [BatchLogged("a", 1)]
    made.disk.room = 10
    made.thread.put(AppendBatch("a", batch[1]))
    what, trouble = made.reports.next()
    assert what == "trouble"
    assert "required room for the next batches; got No space left on device" in trouble
    made.thread.put(AppendBatch("a", batch[2]))
    made.thread.put(ReadLog(1, "a", 0))
    made.thread.put(WriteRecords((change(1),)))
    (read,) = made.reports.next()
    assert same(read.batches, batch[:1])
    assert made.reports.next() == 1
    made.disk.room = None
    told = [made.reports.next(), made.reports.next()]
    while told[-1] != ("trouble", ""):
        told.append(made.reports.next())
    assert [event for events in told[:-1] for event in events][-1] == BatchLogged("a", 3)
    made.thread.put(AppendBatch("a", batch[3]))
    assert made.reports.next() == [BatchLogged("a", 4)]


def test_records_that_find_no_room_at_all_wait_in_their_order(made: Made, tmp_path: Path) -> None:
    made.records.error = NoRoomError("full")
    made.thread.put(WriteRecords((change(1),)))
    assert made.reports.next() == ("trouble", "full")
    made.thread.put(WriteRecords((change(2),)))
    made.records.error = None
    told = [made.reports.next()]
    while told[-1] != ("trouble", ""):
        told.append(made.reports.next())
    while sum(count for count in told if isinstance(count, int)) < 2:
        told.append(made.reports.next())
    assert [one for commit in made.records.commits for one in commit] == [change(1), change(2)]
    assert Headroom(tmp_path, 4096).reserve(), "the room is reserved again"


def test_room_that_records_needed_is_not_for_logs(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that takes the rest of it would leave no room for the records that follow."""
    tell, reserved = made.reports.put_from_thread, []

    def told(inputs: list[Input]) -> None:
        reserved.append((tmp_path / HEADROOM_NAME).exists())
        tell(inputs)

    monkeypatch.setattr(made.reports, "put_from_thread", told)
    made.records.refusals = 1
    made.thread.put(WriteRecords((change(1),)))
    assert [made.reports.next(), made.reports.next()] == [1, ("trouble", "full")]
    made.thread.put(AppendBatch("a", batches(1)[0]))
    # The room may be there again before the batch comes.
    said = [made.reports.next(), made.reports.next()]
    assert [BatchLogged("a", 1)] in said
    assert ("trouble", "") in said
    assert reserved == [True], "only then are batches logged"


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_fails_ends_the_daemon_with_path_and_number(made: Made, number: int) -> None:
    made.thread.put(AppendBatch("a", batches(1)[0]))
    made.reports.next()
    made.disk.sync_error = number
    made.thread.put(AppendBatch("a", batches(2)[1]))
    error = made.reports.next()
    assert isinstance(error, DiskFailedError)
    assert f"the log in simulated required a disk that keeps what is written; got {os.strerror(number)} (error " in str(
        error
    )


def test_records_that_the_disk_does_not_keep_end_the_daemon(made: Made) -> None:
    made.records.error = DiskFailedError("site.db required a disk that keeps what is written; got disk I/O error")
    made.thread.put(WriteRecords((change(1),)))
    assert made.reports.next() is made.records.error


def test_whatever_ends_the_thread_ends_the_daemon(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the daemon lives on, and nothing is ever logged or kept."""

    def bug(*_: object) -> None:
        raise ValueError("nobody thought of that")

    monkeypatch.setattr(LateFiles, "write", bug)
    made.thread.put(ASIDE)
    error = made.reports.next()
    assert (type(error), str(error)) == (ValueError, "nobody thought of that")


def test_a_thread_that_hangs_says_that_it_did_not_end(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_thread, "_STOP_S", 0.01)
    made.reports.hold.clear()
    made.thread.put(AppendBatch("a", batches(1)[0]))
    made.reports.next()
    assert not made.thread.stop()
    made.reports.hold.set()
    monkeypatch.setattr(storage_thread, "_STOP_S", WAIT_S)
    assert made.thread.stop()


def test_a_life_of_a_peer_is_written_in_the_reserved_room_and_told_when_it_is(made: Made) -> None:
    """Links come up on a full disk: without them nobody forgets, and no room comes back."""
    made.records.refusals = 1
    made.thread.put(RememberLife("ash", Met(7)))
    assert made.reports.next() == [LifeRemembered("ash", Met(7))]
    assert made.records.commits == [[Put("peer_life", "ash", b"7")]]


def test_a_life_that_finds_no_room_at_all_waits(made: Made) -> None:
    made.records.error = NoRoomError("full")
    made.thread.put(RememberLife("ash", Met(7)))
    assert made.reports.next() == ("trouble", "full")
    made.records.error = None
    assert made.reports.next() == [LifeRemembered("ash", Met(7))]
    assert made.reports.next() == ("trouble", "")


class NoReserve(Headroom):
    """What says of room what the test wants."""

    has: bool | StorageError = False

    def _grow(self, nbytes: int) -> None:
        if isinstance(self.has, StorageError):
            raise self.has
        if not self.has:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super()._grow(nbytes)


def begun_with(headroom: Headroom, tmp_path: Path) -> tuple[StorageThread, Reports]:
    reports, logs = Reports(), StreamLogs({"a": DiskLog(SimulatedDisk(random.Random(1)))})
    reports.hold.set()
    thread = StorageThread(logs, Notes(), LateFiles(tmp_path / "late"), headroom, reports, lambda *_: None)
    thread.start()
    return thread, reports


def test_a_daemon_without_reserved_room_begins_as_on_a_full_disk(tmp_path: Path) -> None:
    headroom = NoReserve(tmp_path, 4096)
    thread, reports = begun_with(headroom, tmp_path)
    what, trouble = reports.next()
    assert (what, "headroom.bin required 4,096 bytes in reserve" in trouble) == ("trouble", True)
    thread.put(AppendBatch("a", batches(1)[0]))
    thread.put(WriteRecords((change(1),)))
    assert reports.next() == 1, "records are kept, batches are not"
    headroom.has = True
    assert [reports.next(), reports.next()] == [[BatchLogged("a", 1)], ("trouble", "")]
    thread.stop()


def test_reserved_room_on_a_disk_that_failed_ends_the_daemon(tmp_path: Path) -> None:
    headroom = NoReserve(tmp_path, 4096)
    headroom.has = DiskFailedError("broken")
    _, reports = begun_with(headroom, tmp_path)
    assert reports.next() is headroom.has


@pytest.mark.parametrize(("number", "full"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_room_that_cannot_be_had_is_said_or_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, full: bool
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fails)
    if full:
        assert not Headroom(tmp_path, 4096).reserve()
    else:
        with pytest.raises(DiskFailedError, match=r"headroom.bin required .* \(error 5, EIO\)"):
            Headroom(tmp_path, 4096).reserve()


# -- what is set aside --------------------------------------------------------------------------


ASIDE = SetAside("a", pa.RecordBatch.from_pydict({"n": [7]}), "late", np.array([[0, 4]], np.int64))


def test_what_is_set_aside_is_on_disk_before_the_batch_after_it(made: Made, tmp_path: Path) -> None:
    made.thread.put(ASIDE)
    made.thread.put(AppendBatch("a", batches(1)[0]))
    assert made.reports.next() == [BatchLogged("a", 1)]
    assert LateFiles(tmp_path / "late").aside_after("a", Position(0, 0)) == {Position(0, 4)}


def test_side_files_that_cannot_be_written_end_the_daemon_and_no_batch_after_is_logged(
    made: Made, tmp_path: Path
) -> None:
    (tmp_path / "late").write_text("not a folder")
    made.thread.put(ASIDE)
    made.thread.put(AppendBatch("a", batches(1)[0]))
    error = made.reports.next()
    assert isinstance(error, DiskFailedError)
    assert f"late_dir {tmp_path / 'late'} required to keep tuples that are set aside; got" in str(error)
    assert DiskLog(made.disk).recover().batches == 0


def test_while_the_disk_of_side_files_is_full_batches_after_wait(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    write: Callable[..., None] = LateFiles.write
    full = True

    def fails(self: LateFiles, *arguments: Any) -> None:
        if full:
            raise NoRoomError("full")
        write(self, *arguments)

    monkeypatch.setattr(LateFiles, "write", fails)
    made.thread.put(AppendBatch("a", batches(1)[0]))
    assert made.reports.next() == [BatchLogged("a", 1)]
    made.thread.put(ASIDE)
    made.thread.put(AppendBatch("a", batches(2)[1]))
    assert made.reports.next()[0] == "trouble"
    full = False
    assert made.reports.next() == [BatchLogged("a", 2)]
    assert made.reports.next() == ("trouble", "")


def test_what_was_set_aside_is_synced_before_its_batch_though_what_follows_finds_no_room(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in one group: the batch is logged, and a loss of power must not take the tuples that were sealed with it."""
    write = late_files._File.write

    def fills_up(file: Any, rows: pa.RecordBatch) -> None:
        if rows.column(late_files.REASON)[0].as_py() == "no room":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, rows)

    synced = noted_syncs(monkeypatch, tmp_path / "late")
    monkeypatch.setattr(late_files._File, "write", fills_up)
    batch = batches(2)
    made.reports.hold.clear()
    made.thread.put(AppendBatch("a", batch[0]))
    assert made.reports.next() == [BatchLogged("a", 1)]
    made.thread.put(ASIDE)
    made.thread.put(AppendBatch("a", batch[1]))
    made.thread.put(replace(ASIDE, reason="no room"))
    made.reports.hold.set()
    assert made.reports.next() == [BatchLogged("a", 2)]
    assert tmp_path / "late" / "a.arrows" in synced
    assert made.reports.next()[0] == "trouble"


# -- a real disk that is full -------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", "4m") as place:
        yield place


def fill(path: Path) -> None:
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_that_is_freed(small_disk: Path, tmp_path: Path) -> None:
    folder = open_folder(small_disk / "berlin", "c", "berlin", ["a"], 100, headroom_bytes=1 << 20)
    reports = Reports()
    reports.hold.set()
    late = LateFiles(tmp_path / "late")
    thread = StorageThread(folder.logs, folder.records, late, folder.headroom, reports, lambda *_: None)
    thread.start()
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    made = batches(300, 200)
    for one in made:
        thread.put(AppendBatch("a", one))
    logged = 0
    while (said := reports.next())[0] != "trouble":
        logged = said[-1].frontier
    assert "No space left on device" in said[1]
    assert 0 <= logged < 300
    fill(ballast)
    # What is there can be read, and records are kept although there is no room but the reserved one.
    thread.put(ReadLog(1, "a", 0))
    # A log that is tried again lets go what it wrote in vain, which they have first.
    written = 0
    while (small_disk / "berlin" / HEADROOM_NAME).exists():
        assert written < 2_000, "the reserved room is not needed"
        thread.put(WriteRecords((Put("pin", str(written), bytes(2_000)),)))
        while not isinstance(said := reports.next(), int):
            pass
        written += said
    ballast.unlink()
    while (said := reports.next()) != ("trouble", ""):
        logged = said[-1].frontier if isinstance(said[0], BatchLogged) else logged
    assert logged == 300
    assert (small_disk / "berlin" / HEADROOM_NAME).exists(), "it is reserved again"
    thread.stop()
    folder.close()
    again = open_folder(small_disk / "berlin", "c", "berlin", ["a"], 100)
    assert again.extents["a"].end == 300
    assert len(again.records.all("pin")) == written
    log = DiskLog(Folder(small_disk / "berlin" / "a" / "log"))
    log.recover()
    assert same(read_all(log, 0), made)
    again.close()
