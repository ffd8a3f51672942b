"""A stream over restarts: whatever a crash undoes, each row of its source is sealed once or set aside once.

Between source and log is what the daemon has there: a stream's state, and a side file that is written before the batch
that was sealed with what is in it. The disk forgets what a disk may forget.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.streams.log_extent import LogExtent, LoggedBatch
from node.core.streams.position import Position
from node.core.streams.sealer import Sealer
from node.core.streams.stream import LocalStream, StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.storage.disk_log import DiskLog
from node.storage.errors import NoRoomError
from node.storage.segment import encode_segment_head
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from tests.examples import examples
from tests.sim.disk import PowerLostError, SimulatedDisk
from tests.unit.logged import read_all

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])
INFO = StreamInfo("s", "here", SCHEMA, "ts", TimeUnit.MS)
TAU, LATENESS = 10, 15
#: Small, so that a few batches take several files.
SEGMENT_BYTES = 900


@dataclass
class Recording:
    """A source: its rows in parts, read chunk by chunk from any position on."""

    parts: Sequence[Sequence[int | None]]
    chunk: int = 3

    def read(self, place: Position) -> tuple[pa.RecordBatch, Position, Position, bool] | None:
        """The next rows, where they begin, what comes after them, and whether that is nothing."""
        while place.part < len(self.parts) and place.row >= len(self.parts[place.part]):
            place = Position(place.part + 1, 0)
        if place.part == len(self.parts):
            return None
        part = self.parts[place.part]
        first = sum(len(one) for one in self.parts[: place.part]) + place.row
        ts = part[place.row : place.row + self.chunk]
        numbers = list(range(first, first + len(ts)))
        rows = pa.RecordBatch.from_arrays([pa.array(ts, pa.int64()), pa.array(numbers, pa.int64())], schema=SCHEMA)
        end = Position(place.part, place.row + len(ts))
        if end.row == len(part):
            end = Position(place.part + 1, 0)
        return rows, place, end, end.part == len(self.parts)


@dataclass
class Site:
    """What outlives a crash."""

    disk: SimulatedDisk
    #: Rows that were set aside, by number, with their places.
    aside: list[tuple[int, Position]] = field(default_factory=list)
    #: The frontiers that were told.
    told: int = TICK_MIN

    def live(self, source: Recording, watermark: int | None = None, chunks_max: int = 10**6) -> None:
        """One life of the daemon, to the end of the source, or of the power. Sometimes more than it has is trimmed."""
        log = DiskLog(self.disk, SEGMENT_BYTES)
        extent = log.recover().extent
        assert log.frontier >= self.told, "what was told is gone"
        state = self._state(extent)
        place = Position(0, 0) if extent is None or extent.place is None else extent.place.resume
        while not state.ended and chunks_max:
            chunks_max -= 1
            answer = source.read(place)
            if answer is None:
                rows, start, ended = SCHEMA.empty_table().to_batches(), None, True
                chunk = rows[0] if rows else pa.RecordBatch.from_pylist([], SCHEMA)
            else:
                chunk, start, place, ended = answer
            for aside in state.arrived(chunk, chunk.column("ts"), start, place):
                assert aside.positions is not None
                numbers = aside.rows.column("n").to_pylist()
                self.aside += zip(numbers, (Position(*map(int, pair)) for pair in aside.positions), strict=True)
            state.ended = ended
            batch = state.sealer.seal(watermark, ended)
            if batch is not None:
                log.append(batch)
                log.commit()
                self.told = log.frontier
                log.trim(batch.span.first - 40)

    def _state(self, extent: LogExtent | None) -> StreamState:
        read_to = Position(0, 0) if extent is None or extent.place is None else extent.place.read_to
        aside = frozenset(at for _, at in self.aside if at >= read_to)
        state = StreamState(LocalStream(INFO, LATENESS, logged=extent, aside=aside), TAU)
        if extent is not None:
            assert (state.frontier, state.fed, state.fed_rows) == (extent.end, extent.end, extent.next_tuple)
            assert state.log_begin == extent.begin
            assert state.started
        return state

    def sealed(self) -> list[tuple[int, list[int]]]:
        """What of the log is kept: number of the first tuple, and the rows by number."""
        log = DiskLog(self.disk, SEGMENT_BYTES)
        extent = log.recover().extent
        assert extent is not None
        return [(one.first, one.rows.column("n").to_pylist()) for one in read_all(log, extent.begin)]


def recordings(rng: random.Random) -> Recording:
    """Rows that are out of order, late, and without time, in one part or several, some of them empty."""
    ts = [None if rng.random() < 0.08 else 4 * n + rng.randint(-30, 12) for n in range(rng.choice((20, 45)))]
    cuts = sorted(rng.choices(range(len(ts) + 1), k=rng.choice((0, 0, 3))))
    parts = [ts[first:end] for first, end in zip([0, *cuts], [*cuts, len(ts)], strict=True)]
    return Recording(parts, rng.choice((1, 3, 7)))


def check_whole(site: Site, whole: Site, rows: int) -> None:
    """As if nothing had happened: what is in the log, and what is not."""
    assert sorted(number for number, _ in site.aside) == sorted(number for number, _ in whole.aside)
    numbers = [number for _, batch in site.sealed() for number in batch]
    assert numbers == [number for _, batch in whole.sealed() for number in batch][-len(numbers) :] or not numbers
    log = DiskLog(site.disk, SEGMENT_BYTES)
    extent = log.recover().extent
    assert extent is not None
    assert extent.end == TICK_END
    assert extent.next_tuple + len(site.aside) == rows
    following = None
    for first, batch in site.sealed():
        assert following in (None, first), "tuple numbers go on"
        following = first + len(batch)


def test_power_lost_at_every_write_loses_no_row_and_doubles_none() -> None:
    """Every place of one crash; after it a second one at a random place, while the first is recovered from."""
    cuts = 0
    for seed in range(6):
        rng = random.Random(seed)
        source = recordings(rng)
        rows = sum(map(len, source.parts))
        whole = Site(SimulatedDisk(random.Random(0)))
        whole.live(source)
        for cut in range(whole.disk.operations + 1):
            site = Site(SimulatedDisk(random.Random(f"{seed} {cut}")))
            for left in (cut, rng.randint(0, whole.disk.operations)):
                site.disk.operations_left = left
                try:
                    site.live(source)
                except PowerLostError:
                    cuts += 1
                site.disk.crash()
            site.live(source)
            check_whole(site, whole, rows)
    assert cuts > 200


@given(st.integers(0, 10**9), st.lists(st.integers(1, 6), min_size=1, max_size=8))
@examples(120)
def test_lives_that_end_anywhere_are_one(seed: int, lives: list[int]) -> None:
    """Without any loss of power: killed between chunks, also right after a restart, also several times in a row."""
    source = recordings(random.Random(seed))
    whole, site = Site(SimulatedDisk(random.Random(0))), Site(SimulatedDisk(random.Random(1)))
    whole.live(source)
    for chunks in lives:
        site.live(source, chunks_max=chunks)
    site.live(source)
    check_whole(site, whole, sum(map(len, source.parts)))


def test_what_had_arrived_in_time_is_not_late_because_of_a_restart() -> None:
    """Paced: the clock is far ahead when the daemon is back, but the rows were read before."""
    site = Site(SimulatedDisk(random.Random(1)))
    source = Recording([[0, 41, 38, 44, 52, 90, 91]], chunk=1)
    site.live(source, chunks_max=5)
    assert site.told == 3, "rows from tick 3 on are open"
    site.live(source, watermark=80, chunks_max=4)
    # The clock counts when 41, 38, 44 and 52 are all there again.
    assert site.aside == []
    assert site.told == 8
    assert [number for _, batch in site.sealed() for number in batch] == [0, 2, 1, 3, 4]


def test_rows_that_were_set_aside_before_a_crash_are_not_sealed_after_it() -> None:
    """Paced, a row came too late and is in the side file; read again it would be in time, since clocks differ."""
    place_of_late = Position(0, 2)
    sealer = Sealer(SCHEMA, TAU, 0)
    rows = pa.RecordBatch.from_arrays([pa.array([5, 100, 50]), pa.array([0, 1, 2])], schema=SCHEMA)
    sealer.add(rows.slice(0, 1), rows.column("ts").slice(0, 1), Position(0, 0), Position(0, 1))
    batch = sealer.seal(20, False)
    assert batch is not None
    assert batch.place is not None
    extent = LogExtent((LoggedBatch(TICK_MIN, batch.span.end, 1, 10),), 1, batch.newest, batch.place)
    again = Sealer(SCHEMA, TAU, 1_000, extent, frozenset([place_of_late]))
    assert again.add(rows.slice(1), rows.column("ts").slice(1), Position(0, 1), Position(0, 3)) == []
    sealed = again.seal(None, True)
    assert sealed is not None
    assert sealed.rows.column("n").to_pylist() == [1]


def test_a_log_whose_newest_segment_is_empty_still_says_where_to_go_on() -> None:
    """The disk was full when a segment was begun: the one before must not be trimmed, it has the tuple's number."""
    disk = SimulatedDisk(random.Random(1))
    site = Site(disk)
    source = Recording([list(range(0, 400, 4))], chunk=5)
    site.live(source, chunks_max=12)
    log = DiskLog(disk, 1)
    before = log.recover().extent
    assert before is not None
    assert before.place is not None
    state = StreamState(LocalStream(INFO, LATENESS, logged=before), TAU)
    chunk, start, end, _ = source.read(before.place.resume) or (None, None, None, None)
    while (batch := state.sealer.seal(None, False)) is None:
        assert chunk is not None
        state.arrived(chunk, chunk.column("ts"), start, end)
        assert end is not None
        chunk, start, end, _ = source.read(end) or (None, None, None, None)
    disk.room = len(encode_segment_head(SCHEMA)) + 1  # a new segment gets its head and its name, and no batch
    log.append(batch)
    with pytest.raises(NoRoomError):
        log.commit()
    disk.room = None
    log.trim(TICK_END)
    again = DiskLog(disk, 1).recover().extent
    assert again is not None
    assert (again.next_tuple, again.place, again.end) == (before.next_tuple, before.place, before.end)
