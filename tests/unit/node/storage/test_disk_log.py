"""The log of a stream on disk: what was confirmed is there after a crash, and damage is not taken for an end."""

from __future__ import annotations

import errno
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.core.errors import LocalProtocolError
from node.core.streams.position import Position, SourcePlace
from node.core.streams.sealer import Batch
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.storage.disk_log import DiskLog, Recovered
from node.storage.errors import NoRoomError, StorageError
from node.storage.folder import Folder
from node.storage.memory_log import MemoryLog
from node.storage.record import encode_record
from node.storage.segment import VERSION, encode_segment_head, segment_name
from node.storage.stream_log import PIECE_BYTES, StreamLog
from tests.examples import examples
from tests.sim.disk import PowerLostError, SimulatedDisk
from tests.unit.logged import batch, batches, log_all, read_all, same, some_batches

SMALL = 2_000


def simulated(seed: int = 1) -> SimulatedDisk:
    return SimulatedDisk(random.Random(seed))


def figures(found: Recovered) -> tuple[int, int, int, int, int]:
    return found.frontier, found.batches, found.rows, found.nbytes, found.cut_bytes


@pytest.fixture(params=["memory", "simulated", "disk"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> StreamLog:
    if request.param == "memory":
        return MemoryLog()
    return DiskLog(simulated() if request.param == "simulated" else Folder(tmp_path / "site" / "stream" / "log"), SMALL)


# -- every log ----------------------------------------------------------------------------------


def test_what_was_committed_is_read_in_order_from_any_tick(log: StreamLog) -> None:
    made = [batch(TICK_MIN, 5, 2), *batches(40, 3, 5), batch(45, TICK_END, 0, 120)]
    log_all(log, made)
    assert log.frontier == TICK_END
    assert same(read_all(log, TICK_MIN), made)
    assert same(read_all(log, 4), made)
    assert same(read_all(log, 5), made[1:])
    assert same(read_all(log, 30), made[26:])
    assert same(read_all(log, 10**9), made[-1:])
    assert log.read_from(TICK_END) == ()


def test_a_log_says_what_each_batch_takes(log: StreamLog) -> None:
    made = batches(40, 3, 5)
    log_all(log, made)
    sizes = log.sizes_from(TICK_MIN)
    assert len(sizes) == 40
    assert log.nbytes * 0.7 < sum(sizes) <= log.nbytes, "files have heads too"
    assert log.sizes_from(made[9].span.end) == sizes[10:]
    assert log.sizes_from(log.frontier) == ()
    log.trim(made[4].span.end)
    assert log.sizes_from(made[4].span.end) == sizes[5:]


def test_what_a_batch_takes_is_the_same_after_a_restart() -> None:
    disk = simulated()
    log = DiskLog(disk, SMALL)
    log_all(log, batches(40, 3, 5))
    sizes = log.sizes_from(TICK_MIN)
    extent = DiskLog(disk, SMALL).recover().extent
    assert extent is not None
    assert tuple(logged.nbytes for logged in extent.batches) == sizes


def test_a_log_in_which_nothing_is_has_nothing_to_read(log: StreamLog) -> None:
    log.commit()
    log.trim(100)
    assert (log.frontier, log.nbytes, log.read_from(7)) == (TICK_MIN, 0, ())


def test_what_is_not_committed_is_not_read(log: StreamLog) -> None:
    made = batches(4)
    log_all(log, made[:2])
    log.append(made[2])
    assert log.frontier == 2
    assert same(read_all(log, 0), made[:2])
    log.append(made[3])
    log.commit()
    assert same(read_all(log, 0), made)


def test_a_batch_that_leaves_a_gap_is_a_bug(log: StreamLog) -> None:
    log_all(log, batches(2))
    with pytest.raises(LocalProtocolError, match=r"requires a batch from tick 2 on; got \[3, 4\)"):
        log.append(batch(3, 4, 1))


def test_a_piece_is_bounded_and_has_at_least_one_batch(log: StreamLog) -> None:
    large = [batch(n, n + 1, 60_000) for n in range(2)]
    small = batches(3, 3, 2)
    log_all(log, [*large, *small])
    assert large[0].rows.nbytes > PIECE_BYTES
    assert same(log.read_from(0), large[:1])
    assert same(log.read_from(1), large[1:])
    assert same(log.read_from(2), small)


def test_trimming_forgets_nothing_that_may_be_asked_for(log: StreamLog) -> None:
    made = batches(60, 5)
    log_all(log, made)
    before = log.nbytes
    for tick in range(60):
        log.trim(tick)
        assert same(read_all(log, tick), made[tick:])
        assert log.frontier == 60
    assert log.nbytes < before / 2


def test_a_batch_that_reaches_beyond_the_tick_is_kept(log: StreamLog) -> None:
    made = [batch(n * 10, n * 10 + 10, 60, n * 60) for n in range(10)]
    log_all(log, made)
    log.trim(39)
    assert same(read_all(log, 30), made[3:])


def test_reading_what_was_forgotten_is_refused(log: StreamLog) -> None:
    log_all(log, batches(60, 5))
    log.trim(50)
    with pytest.raises(StorageError, match=r"required the batch of tick 0; got a log that begins at \d+"):
        log.read_from(0)


def test_batches_go_on_after_everything_was_trimmed(log: StreamLog) -> None:
    made = batches(8)
    log_all(log, made[:4])
    log.trim(TICK_END)
    log_all(log, made[4:])
    assert same(read_all(log, 4), made[4:])


# -- on disk ------------------------------------------------------------------------------------


def test_batches_that_are_committed_together_take_one_sync() -> None:
    disk = simulated()
    log = DiskLog(disk)
    log_all(log, batches(1))
    assert (disk.syncs, disk.names_synced) == (2, 1)  # the head of the segment, the batch, and its name
    made = batches(100, 3, 1)
    for one in made:
        log.append(one)
    assert disk.syncs == 2
    log.commit()
    assert (disk.syncs, disk.names_synced) == (3, 1)
    log.commit()
    assert disk.syncs == 3


def test_a_log_on_a_real_disk_is_recovered_and_goes_on(tmp_path: Path) -> None:
    made = batches(50)
    log = DiskLog(Folder(tmp_path / "log"), SMALL)
    log_all(log, made[:40])
    log.append(made[40])  # never committed
    log.close()
    again = DiskLog(Folder(tmp_path / "log"), SMALL)
    assert figures(again.recover()) == (40, 40, 120, log.nbytes, 0)
    assert same(read_all(again, 0), made[:40])
    log_all(again, made[40:])
    assert same(read_all(again, 0), made)
    assert again.nbytes == sum(path.stat().st_size for path in (tmp_path / "log").iterdir())
    again.close()


def test_a_log_begins_anew_after_it_was_recovered(tmp_path: Path) -> None:
    log = DiskLog(Folder(tmp_path), SMALL)
    log_all(log, batches(50))
    log.close()
    (tmp_path / "0000000000000000.log.new").write_bytes(b"unfinished")
    again = DiskLog(Folder(tmp_path), SMALL)
    again.recover()
    again.begin()
    assert list(tmp_path.iterdir()) == []
    assert (again.frontier, again.nbytes) == (TICK_MIN, 0)
    log_all(again, batches(2, 1, 7))
    assert again.frontier == 9
    again.close()


def test_other_columns_begin_another_segment() -> None:
    disk = simulated()
    log = DiskLog(disk)
    other = pa.RecordBatch.from_arrays([pa.array([1.5])], names=["w"])
    made = [batch(0, 1, 2), Batch(batch(1, 2, 1).span, other, batch(1, 2, 1).ts, 2), batch(2, 3, 4, 3)]
    log_all(log, made)
    assert len(disk.names()) == 3
    again = DiskLog(disk)
    again.recover()
    assert same(read_all(again, 0), made)


def test_a_tail_torn_at_any_byte_is_cut_and_what_was_before_survives() -> None:
    made = batches(4)
    disk = simulated()
    log = DiskLog(disk)
    log_all(log, made[:3])
    before = log.nbytes
    log_all(log, made[3:])
    (name,) = disk.names()
    whole = disk.read(name, 0, log.nbytes)
    for size in range(before, log.nbytes):
        for zeros in (0, log.nbytes - size):
            torn = simulated()
            torn.create(name).append([whole[:size], bytes(zeros)])
            again = DiskLog(torn)
            if whole[:size] + bytes(zeros) == whole:
                continue  # the last bytes were zeros anyway
            assert figures(again.recover()) == (3, 3, 9, before, size + zeros - before)
            assert same(read_all(again, 0), made[:3])
            assert torn.size(name) == before
            log_all(again, made[3:])
            assert same(read_all(again, 0), made)


def test_what_a_killed_daemon_had_written_and_not_synced_is_synced_when_it_is_found() -> None:
    """It is with the system, not on the disk; who recovers it tells others, and then power may be lost."""
    made = batches(2)
    for seed in range(10):
        disk = simulated(seed)
        log = DiskLog(disk)
        log_all(log, made[:1])
        disk.operations_left = 1  # it is written, and the daemon is killed as it syncs
        with pytest.raises(PowerLostError):
            log_all(log, made[1:])
        disk.operations_left = None
        frontier = DiskLog(disk).recover().frontier
        assert frontier == made[-1].span.end
        disk.crash()
        assert DiskLog(disk).recover().frontier == frontier


def test_what_was_cut_does_not_come_back() -> None:
    for seed in range(20):
        disk = simulated(seed)
        log = DiskLog(disk)
        log_all(log, batches(3))
        (name,) = disk.names()
        disk.open(name).append([b"torn" * 9])
        disk.crash()
        DiskLog(disk).recover()
        disk.crash()
        assert disk.size(name) == log.nbytes


def test_a_whole_record_that_does_not_go_on_where_the_log_ended_is_cut() -> None:
    """What an earlier file left where this one had not been written yet."""
    disk = simulated()
    log = DiskLog(disk)
    log_all(log, batches(3))
    (name,) = disk.names()
    disk.open(name).append(encode_record(batch(7, 8, 1), 0))
    again = DiskLog(disk)
    assert again.recover().frontier == 3
    assert same(read_all(again, 0), batches(3))


def test_a_flipped_bit_anywhere_is_refused_or_cut_from_what_was_written_last() -> None:
    made = batches(3)
    disk = simulated()
    log = DiskLog(disk)
    for one in made:
        log_all(log, [one])
    (name,) = disk.names()
    last = log.nbytes - sum(map(len, encode_record(made[2], 0)))
    for byte in range(log.nbytes):
        for bit in (0, 7):
            disk.flip(name, byte, bit)
            if byte < last:
                with pytest.raises(StorageError, match="required"):
                    DiskLog(disk).recover()
                assert disk.size(name) == log.nbytes, "nothing is touched"
            else:
                # No later record tells that this one was synced, so it may as well have been torn.
                copy = simulated()
                copy.create(name).append([disk.read(name, 0, log.nbytes)])
                assert figures(DiskLog(copy).recover()) == (2, 2, 6, last, log.nbytes - last)
            disk.flip(name, byte, bit)
    assert DiskLog(disk).recover().batches == 3


def test_damage_in_a_segment_that_is_not_the_last_names_file_and_place() -> None:
    disk = simulated()
    log = DiskLog(disk, SMALL)
    log_all(log, batches(30))
    first = disk.names()[0]
    disk.flip(first, disk.size(first) - 1, 0)
    with pytest.raises(StorageError, match=rf"simulated/{first} at byte \d+ required a whole record .*; got damaged"):
        DiskLog(disk).recover()


def test_a_segment_that_ends_too_early_or_is_missing_is_refused() -> None:
    for damage in ("cut", "remove"):
        disk = simulated()
        log_all(DiskLog(disk, SMALL), batches(40))
        assert len(disk.names()) > 3
        name = disk.names()[1]
        if damage == "remove":
            disk.remove(name)
        else:
            disk.cut(name, disk.size(name) - 3)
        with pytest.raises(StorageError, match=r"required a (segment from tick|whole record)"):
            DiskLog(disk).recover()


def test_a_segment_cut_between_two_records_leaves_a_gap_that_is_refused() -> None:
    disk = simulated()
    log_all(DiskLog(disk, SMALL), batches(40))
    name = disk.names()[1]
    last = sum(map(len, encode_record(batches(1)[0], 0)))
    disk.cut(name, disk.size(name) - last)
    with pytest.raises(StorageError, match=r"required a segment from tick \d+ on, where .* ends; got .* tick \d+"):
        DiskLog(disk).recover()


def test_damage_after_it_was_recovered_is_noticed_by_who_reads() -> None:
    disk = simulated()
    log = DiskLog(disk)
    log_all(log, batches(3))
    (name,) = disk.names()
    disk.flip(name, log.nbytes - 1, 3)
    with pytest.raises(
        StorageError, match=rf"{name} at byte \d+ required a whole record of the batch of ticks .*; got damaged bytes"
    ):
        log.read_from(0)


def test_another_version_is_refused_with_both_numbers_and_nothing_is_touched() -> None:
    disk = simulated()
    log_all(DiskLog(disk, SMALL), batches(40))
    name = disk.names()[-1]
    data = bytearray(disk.read(name, 0, disk.size(name)))
    data[8:12] = (VERSION + 1).to_bytes(4, "little")
    disk.create(name).append([data, b"what a later version writes"])
    before = {name: disk.read(name, 0, disk.size(name)) for name in disk.names()}
    with pytest.raises(
        StorageError, match=f"required version {VERSION} of the log's format; got version {VERSION + 1}"
    ):
        DiskLog(disk).recover()
    assert {name: disk.read(name, 0, disk.size(name)) for name in disk.names()} == before


def test_a_file_that_is_no_log_is_refused() -> None:
    disk = simulated()
    disk.create(segment_name(0)).append([b"something else entirely, and long enough"])
    with pytest.raises(StorageError, match="required the log of a stream; got a file that begins with b'somethin'"):
        DiskLog(disk).recover()


def test_a_file_with_another_name_is_left_alone() -> None:
    disk = simulated()
    disk.create("notes.log").append([b"mine"])
    log = DiskLog(disk)
    assert figures(log.recover()) == (TICK_MIN, 0, 0, 0, 0)
    log.begin()
    assert disk.names() == ["notes.log"]


# -- when the disk does not take it -------------------------------------------------------------


def test_on_a_full_disk_nothing_is_claimed_and_the_log_goes_on_when_there_is_room() -> None:
    made = batches(20)
    for room in [*range(0, 3_000, 37), 10_000]:
        disk = simulated(room)
        log = DiskLog(disk, SMALL)
        log_all(log, made[:2])
        disk.room = room
        group = made[2:15]
        if room > 6_000:
            log_all(log, group)
        else:
            with pytest.raises(StorageError, match="No space left on device"):
                log_all(log, group)
        logged = log.frontier
        assert same(read_all(log, 0), made[:logged])
        disk.room = None
        log_all(log, made[logged:])
        disk.crash()
        again = DiskLog(disk, SMALL)
        assert again.recover().cut_bytes == 0
        assert same(read_all(again, 0), made)


def test_a_segment_that_got_no_batch_gives_way_to_one_with_other_columns() -> None:
    disk = simulated()
    log = DiskLog(disk)
    made = batch(0, 1, 2)
    disk.room = len(encode_segment_head(made.rows.schema))
    with pytest.raises(StorageError, match="No space left on device"):
        log_all(log, [made])
    disk.room = None
    other = Batch(made.span, made.rows.select(["v"]), made.ts)
    log_all(log, [other])
    assert log.nbytes == sum(map(disk.size, disk.names()))
    again = DiskLog(disk)
    assert again.recover().batches == 1
    assert same(read_all(again, 0), [other])


def test_after_a_sync_that_failed_nothing_is_claimed_any_more() -> None:
    made = batches(20)
    for segment_bytes in (1, 1 << 20):  # a new segment for each batch, or one for all
        disk = simulated()
        log = DiskLog(disk, segment_bytes)
        log_all(log, made[:2])
        disk.sync_error = errno.EIO
        with pytest.raises(StorageError, match="Input/output error"):
            log_all(log, made[2:4])
        assert log.frontier == 2
        with pytest.raises(StorageError, match="Input/output error"):
            log_all(log, made[2:4])
        assert log.frontier == 2
        assert same(read_all(log, 0), made[:2])


# -- crashes ------------------------------------------------------------------------------------


def live(disk: SimulatedDisk, made: list[Batch], seed: int) -> tuple[int, int]:
    """Log batches in groups, trimming now and then, until the power is lost: up to where it was confirmed, trimmed."""
    rng = random.Random(seed)
    log = DiskLog(disk, SMALL)
    confirmed = trimmed = made[0].span.first
    left = list(made)
    try:
        while left:
            group = [left.pop(0) for _ in range(min(len(left), rng.randint(1, 6)))]
            log_all(log, group)
            confirmed = log.frontier
            if rng.random() < 0.3:
                trimmed = rng.randint(trimmed, confirmed)
                log.trim(trimmed)
    except PowerLostError:
        pass
    return confirmed, trimmed


def check_recovered(disk: SimulatedDisk, made: list[Batch], confirmed: int, trimmed: int) -> None:
    """A crash, and then one in the middle of recovering, lose nothing."""
    disk.crash()
    disk.operations_left = 1
    try:
        DiskLog(disk, SMALL).recover()
    except PowerLostError:
        disk.crash()
    disk.operations_left = None
    log = DiskLog(disk, SMALL)
    found = log.recover()
    assert found.frontier >= confirmed or (found.frontier == TICK_MIN and confirmed == made[0].span.first)
    batches_found = read_all(log, trimmed) if found.batches else []
    assert same(batches_found, [one for one in made if trimmed < one.span.end <= found.frontier])
    log_all(log, [one for one in made if one.span.first >= found.frontier])
    assert same(read_all(log, trimmed), [one for one in made if trimmed < one.span.end])


def test_a_crash_at_every_operation_keeps_what_was_confirmed() -> None:
    made = some_batches(random.Random(0), 60)
    whole = simulated()
    live(whole, made, 0)
    assert whole.operations > 100
    for operation in range(whole.operations):
        disk = simulated(operation)
        disk.operations_left = operation
        confirmed, trimmed = live(disk, made, 0)
        check_recovered(disk, made, confirmed, trimmed)


@pytest.mark.parametrize("seed", range(150))
def test_a_crash_keeps_what_was_confirmed(seed: int) -> None:
    rng = random.Random(seed)
    made = some_batches(rng, rng.randint(1, 60))
    disk = SimulatedDisk(rng)
    disk.operations_left = rng.randint(0, 150)
    confirmed, trimmed = live(disk, made, seed)
    check_recovered(disk, made, confirmed, trimmed)


def test_a_crash_while_a_log_begins_anew_leaves_one_that_can_be_recovered() -> None:
    for operation in range(40):
        disk = simulated(operation)
        log_all(DiskLog(disk, SMALL), batches(60))
        log = DiskLog(disk, SMALL)
        log.recover()
        disk.operations_left = operation
        try:
            log.begin()
        except PowerLostError:
            disk.crash()
            again = DiskLog(disk, SMALL)
            again.recover()
            again.begin()
        assert disk.names() == []


# -- any order of operations --------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """Batches are appended, committed, trimmed and read; the disk is full, the power goes, the log is opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = simulated(5)
        self.log = DiskLog(self.disk, 600)
        self.log.recover()
        #: What was committed; what a crash may have kept beyond that; what may be forgotten.
        self.durable: list[Batch] = []
        self.maybe: list[Batch] = []
        self.trimmed = TICK_MIN

    def _next(self, rows: int) -> Batch:
        made = [*self.durable, *self.maybe]
        if not made:
            tick, end, number = TICK_MIN, 0, 0
        else:
            tick, end, number = made[-1].span.end, made[-1].span.end + 1, made[-1].first + made[-1].rows.num_rows
        place = SourcePlace(Position(0, number), Position(0, number + rows))
        return replace(batch(tick, end, rows, number), newest=number, place=place)

    @rule(rows=st.lists(st.integers(0, 6), min_size=1, max_size=4), room=st.none() | st.integers(0, 1_500))
    def commit(self, rows: list[int], room: int | None) -> None:
        for count in rows:
            self.maybe.append(self._next(count))
            self.log.append(self.maybe[-1])
        self.disk.room = room
        try:
            self.log.commit()
        except NoRoomError:
            assert room is not None
        self._told()
        self.maybe.clear()
        self.disk.room = None

    def _told(self) -> None:
        self.durable += [one for one in self.maybe if one.span.end <= self.log.frontier]

    @rule(rows=st.integers(0, 6), operations=st.integers(0, 12))
    def lose_power(self, rows: int, operations: int) -> None:
        self.disk.operations_left = operations
        try:
            for _ in range(3):
                self.maybe.append(self._next(rows))
                self.log.append(self.maybe[-1])
                self.log.commit()
                self._told()
                self.maybe.clear()
        except PowerLostError:
            pass
        self.disk.crash()
        self.reopen()

    @rule()
    def reopen(self) -> None:
        self.log = DiskLog(self.disk, 600)
        extent = self.log.recover().extent
        # A batch that was written and not confirmed may be there or not.
        self._told()
        self.maybe.clear()
        assert (extent is None) == (not self.durable)
        if extent is not None:
            last = self.durable[-1]
            assert (extent.end, extent.next_tuple) == (last.span.end, last.first + last.rows.num_rows)
            assert (extent.newest_ts, extent.place) == (last.newest, last.place)
            assert extent.begin <= max(self.trimmed, self.durable[0].span.first)
            kept = [one for one in self.durable if one.span.first >= extent.begin]
            assert [(one.first, one.end, one.rows) for one in extent.batches] == [
                (one.span.first, one.span.end, one.rows.num_rows) for one in kept
            ]

    @rule(back=st.integers(0, 5))
    def trim(self, back: int) -> None:
        if self.durable:
            self.trimmed = max(self.trimmed, self.durable[-1].span.end - back)
            self.log.trim(self.trimmed)

    @invariant()
    def what_was_confirmed_is_there(self) -> None:
        assert self.log.frontier == (self.durable[-1].span.end if self.durable else TICK_MIN)
        wanted = [one for one in self.durable if one.span.end > self.trimmed]
        assert same(read_all(self.log, wanted[0].span.first) if wanted else [], wanted)


AnyOrder.TestCase.settings = examples(60, stateful_step_count=25)
TestAnyOrder = AnyOrder.TestCase
