"""A recording that goes on after a restart: at its row, by its clock, and only if it is the same file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from node import daemon
from node.config import SourceFormat, StreamConfig
from node.core.events import RowsArrived
from node.core.records import Put, RecordChange
from node.core.streams.log_extent import LogExtent, LoggedBatch
from node.core.streams.position import Position, SourcePlace
from node.io.sources.definition import STREAM, check_definition
from node.io.sources.late_files import LateFiles
from node.io.sources.pace import PACE, begin_pace, kept_pace
from node.io.sources.readers import SourceError
from node.io.sources.recordings import open_source
from node.io.sources.replay import Replay
from node.storage.errors import NoRoomError, StorageError
from node.storage.headroom import HEADROOM_NAME
from node.storage.site_folder import open_folder
from node.storage.site_records import SiteRecords
from planner.model.time_unit import TimeUnit

ROWS = 1_000


def config(folder: Path, form: SourceFormat = SourceFormat.PARQUET, rows: int = ROWS) -> StreamConfig:
    path = folder / f"s.{form.value}"
    table = pa.table({"ts": pa.array(range(rows), pa.int64()), "n": pa.array(range(rows), pa.int64())})
    if form is SourceFormat.PARQUET:
        pq.write_table(table, path, row_group_size=64)
    elif form is SourceFormat.CSV:
        pa.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return StreamConfig("site.here.stream.s", "s", "here", path, form, "ts", None, 0)


@pytest.fixture
def records(tmp_path: Path) -> SiteRecords:
    folder = tmp_path / "state"
    folder.mkdir()
    return SiteRecords.open(folder, "c", "here", 100)


def logged(row: int, newest: int | None = None) -> LogExtent:
    place = SourcePlace(Position(0, row), Position(0, row))
    return LogExtent((LoggedBatch(0, 10, row, 100),), row, newest, place)


def read(source: Replay) -> RowsArrived:
    answer = source.read(0)
    assert isinstance(answer, RowsArrived), answer
    return answer


# -- the row ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", list(SourceFormat))
@pytest.mark.parametrize("row", [0, 1, 63, 64, 65, 500, ROWS - 1])
def test_a_file_is_read_from_any_row_on(tmp_path: Path, form: SourceFormat, row: int, records: SiteRecords) -> None:
    source = Replay(config(tmp_path, form), 100, None, records, logged(row))
    assert source.local.info.name == "s"
    numbers: list[int] = []
    at, ended = Position(0, row), False
    while not ended:
        answer = read(source)
        assert answer.start == at
        assert answer.end is not None
        at, ended = answer.end, answer.ended
        numbers += answer.rows.column("n").to_pylist()
    assert numbers == list(range(row, ROWS))
    assert at == Position(0, ROWS)
    source.close()


def test_row_groups_before_it_are_not_read(tmp_path: Path) -> None:
    """A file whose first row groups are damaged goes on behind them."""
    stream = config(tmp_path)
    data = bytearray(stream.path.read_bytes())
    data[50:90] = bytes(40)
    stream.path.write_bytes(data)
    with open_source(stream, 640) as source:
        assert source.read(5).rows.column("n").to_pylist() == [640, 641, 642, 643, 644]


def test_beyond_the_last_row_there_is_nothing(tmp_path: Path) -> None:
    for form in SourceFormat:
        with open_source(config(tmp_path, form), ROWS) as source:
            assert source.read(5).ended


def test_without_records_nobody_is_told_where_rows_are(tmp_path: Path) -> None:
    answer = read(Replay(config(tmp_path), 100, None))
    assert (answer.start, answer.end) == (None, None)


# -- the clock ----------------------------------------------------------------------------------


class Clocks:
    """Both clocks of a machine; the monotonic one begins anew with a life."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time_s, self.monotonic_s = 1_000.0, 50.0
        monkeypatch.setattr("node.io.sources.pace.time.time", lambda: self.time_s)
        monkeypatch.setattr("node.io.sources.pace.time.monotonic", lambda: self.monotonic_s)

    def restart(self, after_s: float) -> None:
        self.time_s, self.monotonic_s = self.time_s + after_s, 3.0


def test_event_time_runs_on_during_an_outage(monkeypatch: pytest.MonkeyPatch, records: SiteRecords) -> None:
    clocks = Clocks(monkeypatch)
    first = begin_pace("s", 2.0, 700, records)
    clocks.monotonic_s += 1.0
    clocks.time_s += 1.0
    assert first.now_ts(TimeUnit.MS) == 700 + 2_000
    clocks.restart(60.0)
    again = kept_pace("s", 2.0, records)
    assert again is not None
    assert again.now_ts(TimeUnit.MS) == 700 + 2 * 61_000
    clocks.monotonic_s += 1.0
    assert again.now_ts(TimeUnit.US) == 1_000 * (700 + 2 * 62_000)


def test_with_another_speed_event_time_goes_on_from_where_the_stream_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, records: SiteRecords
) -> None:
    clocks = Clocks(monkeypatch)
    begin_pace("s", 2.0, 0, records)
    clocks.restart(60.0)
    assert kept_pace("s", 1.0, records) is None
    source = Replay(config(tmp_path), 100, 1.0, records, logged(301, newest=300))
    answer = read(source)
    assert (answer.rows.num_rows, answer.watermark) == (0, 300)
    clocks.monotonic_s += 0.1
    assert read(source).rows.column("n").to_pylist() == list(range(301, 401))


def test_a_clock_that_was_set_back_does_not_turn_event_time_back(
    monkeypatch: pytest.MonkeyPatch, records: SiteRecords
) -> None:
    clocks = Clocks(monkeypatch)
    begin_pace("s", 1.0, 700, records)
    clocks.restart(-500.0)
    again = kept_pace("s", 1.0, records)
    assert again is not None
    assert again.now_ts(TimeUnit.MS) == 700


def test_without_records_a_pace_is_not_kept() -> None:
    begin_pace("s", 1.0, 700, None)
    assert kept_pace("s", 1.0, None) is None


def test_what_was_due_during_an_outage_comes_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, records: SiteRecords
) -> None:
    clocks = Clocks(monkeypatch)
    first = Replay(config(tmp_path), 100, 1.0, records)
    assert read(first).rows.column("n").to_pylist() == [0]
    assert json.loads(records.all(PACE)["s"])["origin_ms"] == 0
    clocks.restart(0.6)
    again = Replay(config(tmp_path), 100, 1.0, records, logged(1, newest=0))
    answer = read(again)
    assert answer.rows.column("n").to_pylist() == list(range(1, 601))
    assert answer.watermark == 600


# -- the file -----------------------------------------------------------------------------------


def check(stream: StreamConfig, records: SiteRecords, extent: LogExtent | None, tau_ms: int = 100) -> str:
    with open_source(stream) as source:
        return check_definition(stream, source.info, tau_ms, records, extent)


def test_the_same_stream_goes_on_and_says_since_when_it_is_that(tmp_path: Path, records: SiteRecords) -> None:
    stream = config(tmp_path)
    assert check(stream, records, None) == "100"
    records.life = 101
    assert check(stream, records, None) == "100", "nothing was logged, but tuples may have been set aside"
    assert check(stream, records, logged(5)) == "100"


def test_a_file_that_was_copied_or_touched_is_the_same(tmp_path: Path, records: SiteRecords) -> None:
    stream = config(tmp_path)
    check(stream, records, None)
    os.utime(stream.path, (1, 1))
    assert check(stream, records, logged(5)) == "100"


@pytest.mark.parametrize("size", ["another", "the same"])
def test_a_file_that_changed_is_refused_and_begun_anew_if_nothing_is_logged(
    tmp_path: Path, size: str, records: SiteRecords
) -> None:
    stream = config(tmp_path, SourceFormat.CSV)
    check(stream, records, None)
    text = stream.path.read_text()
    stream.path.write_text(text.replace("500,500", "500,501") if size == "the same" else text + "1000,1000\n")
    os.utime(stream.path, (1, 1))
    match = r"here\.stream\.s\.path: required what stream s was when its log was begun; got another file: .*--fresh\)"
    with pytest.raises(SourceError, match=match):
        check(stream, records, logged(5))
    records.life = 101
    assert check(stream, records, None) == "101"


def test_other_ticks_or_columns_are_refused(tmp_path: Path, records: SiteRecords) -> None:
    stream = config(tmp_path)
    check(stream, records, None)
    with pytest.raises(SourceError, match=r"tau_ms: required what stream s was .*; got 50 instead of 100"):
        check(stream, records, logged(5), tau_ms=50)
    kept = json.loads(records.all(STREAM)["s"])
    records.commit([Put(STREAM, "s", json.dumps(kept | {"columns": ["ts int64"]}).encode())])
    with pytest.raises(SourceError, match=r"columns: required what stream s was .* instead of \['ts int64'\]"):
        check(stream, records, logged(5))


def test_a_log_of_which_nobody_knows_what_its_stream_was_is_refused(tmp_path: Path, records: SiteRecords) -> None:
    match = r"stream s required a record of what it was when its log was begun; got none \(restore .*--fresh\)"
    with pytest.raises(StorageError, match=match):
        check(config(tmp_path), records, logged(5))
    assert records.all(STREAM) == {}


def test_on_a_full_disk_what_a_stream_is_is_kept_in_the_reserved_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = open_folder(tmp_path / "state", "c", "here", ["s"], 100, headroom_bytes=4096)
    commit = folder.records.commit

    def full(changes: Iterable[RecordChange]) -> None:
        if (tmp_path / "state" / HEADROOM_NAME).exists():
            raise NoRoomError("full")
        commit(changes)

    monkeypatch.setattr(folder.records, "commit", full)
    stream = config(tmp_path)
    source = Replay(stream, 100, None)
    daemon._local(stream, source, 100, folder, LateFiles(tmp_path / "late"))
    assert "s" in folder.records.all(STREAM)
    source.close()
    folder.close()


# -- the side file ------------------------------------------------------------------------------


def late(folder: Path, *rows: int, begun: str = "1", part: int = 0) -> None:
    """A life that set these aside."""
    files = LateFiles(folder)
    files.begin("s", begun)
    for row in rows:
        files.write("s", pa.RecordBatch.from_pydict({"n": [row]}), "late", np.array([[part, row]], np.int64))
    files.sync()
    files.close()


def aside(folder: Path, row: int, begun: str = "1") -> set[int]:
    files = LateFiles(folder)
    files.begin("s", begun)
    return {at.row for at in files.aside_after("s", Position(0, row))}


def test_what_was_set_aside_after_a_place_is_found_in_the_files_of_all_lives(tmp_path: Path) -> None:
    assert aside(tmp_path, 0) == set()
    late(tmp_path, 3, 9)
    late(tmp_path, 11, 15)
    late(tmp_path, 12)
    assert aside(tmp_path, 0) == {3, 9, 11, 12, 15}
    assert aside(tmp_path, 9) == {9, 11, 12, 15}
    assert aside(tmp_path, 12) == {12, 15}
    assert aside(tmp_path, 16) == set()


def test_a_torn_file_tells_what_is_whole_of_it(tmp_path: Path) -> None:
    late(tmp_path, 3, 9, 11)
    path = tmp_path / "s.arrows"
    whole = path.read_bytes()
    found = set()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        found.add(frozenset(aside(tmp_path, 0)))
    assert found == {frozenset(), frozenset({3}), frozenset({3, 9}), frozenset({3, 9, 11})}


def test_files_from_before_the_stream_began_anew_tell_nothing(tmp_path: Path) -> None:
    late(tmp_path, 3, 9)
    assert aside(tmp_path, 0, begun="2") == set()


def test_rows_that_could_not_be_written_leave_a_readable_file_and_go_into_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LateFiles(tmp_path)
    files.begin("s", "1")
    rows, at = pa.RecordBatch.from_pydict({"n": [1]}), np.array([[0, 1]], np.int64)
    files.write("s", rows, "late", at)
    kept = (tmp_path / "s.arrows").read_bytes()

    def torn(self: Any, rows: pa.RecordBatch) -> None:
        self._sink.write(b"half a batch")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("node.io.sources.late_files._File.write", torn)
        with pytest.raises(NoRoomError, match="No space left"):
            files.write("s", rows, "late", at + 1)
    assert (tmp_path / "s.arrows").read_bytes() == kept
    files.write("s", rows, "late", at + 1)
    files.close()
    assert aside(tmp_path, 0) == {1, 2}
