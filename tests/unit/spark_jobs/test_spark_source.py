"""Micro-batches are handed over once, in order, whatever restarts; what they belong to is not mixed up.

Spark itself is not needed for this: the files are as it would have written them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.config import SourceFormat, SparkSource, StreamConfig, Watermark
from node.core.events import RowsArrived, SourceFailed
from node.core.streams.position import Position
from node.io.sources.readers import SourceError
from node.io.sources.recordings import stream_info
from node.io.sources.replay import READ_ROWS
from spark_jobs.process import SparkProcess, SparkSettings
from spark_jobs.source.spark_stream import SparkStream
from spark_jobs.source.state import FolderLock, StateFolder

SCHEMA = pa.schema({"n": pa.int64(), "ts": pa.int64()})


class Answers(SparkProcess):
    """A Spark that does nothing but say how its query does."""

    def __init__(self, folder: Path, mark: list[int] | None = None, *, active: bool = True) -> None:
        super().__init__(SparkSettings("a"), folder)
        self.reply: dict[str, Any] = {"active": active, "failure": None, "mark": mark}

    def request(self, what: str, **arguments: Any) -> dict[str, Any]:
        return self.reply


def source(tmp_path: Path, **changes: Any) -> SparkSource:
    return replace(SparkSource("rate", (("rowsPerSecond", "1"), ("sasl.password", "x")), tmp_path / "state"), **changes)


def opened(
    tmp_path: Path,
    process: SparkProcess | None = None,
    lateness_ms: int = 0,
    place: Position | None = None,
    **changes: Any,
) -> SparkStream:
    """``place``: where the log says that it goes on; None: there is no log."""
    spark = source(tmp_path, **changes)
    config = StreamConfig("k", "s", "a", tmp_path, SourceFormat.PARQUET, "ts", None, lateness_ms, spark=spark)
    folder = StateFolder(spark.folder)
    folder.begin(spark)
    lock = FolderLock(folder.path / "daemon.lock")
    spark_process, logged = process or Answers(tmp_path), place is not None
    info, first = stream_info(config, SCHEMA), place or folder.handed
    return SparkStream(config, info, folder, lock, spark_process, {}, logged, first)


def arrive(tmp_path: Path, number: int, first: int, count: int) -> None:
    rows = list(range(first, first + count))
    folder = StateFolder(tmp_path / "state")
    folder.batches.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": rows, "ts": rows}, SCHEMA), folder.batch(number))


def read(stream: SparkStream) -> RowsArrived:
    answer = stream.read(None)
    assert isinstance(answer, RowsArrived), answer
    return answer


def numbers(answer: RowsArrived) -> list[int]:
    assert answer.ts.to_pylist() == answer.rows.column("ts").to_pylist()
    return [int(number) for number in answer.rows.column("n").to_pylist()]


def test_a_restart_in_the_middle_of_a_micro_batch_goes_on_with_its_next_row(tmp_path: Path) -> None:
    arrive(tmp_path, 0, 0, 2 * READ_ROWS + 5)
    arrive(tmp_path, 1, 2 * READ_ROWS + 5, 3)
    got = []
    for _ in range(4):
        stream = opened(tmp_path)  # a new daemon every time
        got += numbers(read(stream))
        stream.close()
    assert got == list(range(2 * READ_ROWS + 8))
    assert StateFolder(tmp_path / "state").handed == Position(2, 0)
    assert StateFolder(tmp_path / "state").waiting() == []


def test_what_was_handed_over_and_not_removed_does_not_come_again(tmp_path: Path) -> None:
    arrive(tmp_path, 0, 0, 3)
    arrive(tmp_path, 1, 3, 3)
    StateFolder(tmp_path / "state").hand(Position(1, 0))
    stream = opened(tmp_path)
    assert stream.peek().ts.tolist() == [3, 4, 5]
    assert numbers(read(stream)) == [3, 4, 5]
    assert numbers(read(stream)) == []


def test_micro_batches_come_by_number_not_by_name(tmp_path: Path) -> None:
    StateFolder(tmp_path / "state").batches.mkdir(parents=True)
    StateFolder(tmp_path / "state").hand(Position(9, 0))
    arrive(tmp_path, 10, 3, 3)
    arrive(tmp_path, 9, 0, 3)
    stream = opened(tmp_path)
    assert stream.local.first_ts == 0
    assert numbers(read(stream)) + numbers(read(stream)) == [0, 1, 2, 3, 4, 5]


def test_a_micro_batch_without_rows_is_passed_over(tmp_path: Path) -> None:
    arrive(tmp_path, 0, 0, 0)
    arrive(tmp_path, 1, 0, 2)
    assert numbers(read(opened(tmp_path))) == [0, 1]


def test_a_hole_fails_the_stream_instead_of_being_jumped(tmp_path: Path) -> None:
    arrive(tmp_path, 1, 0, 2)
    answer = opened(tmp_path).read(None)
    assert isinstance(answer, SourceFailed)
    assert "micro-batch 0 before later ones" in answer.reason


def test_the_end_comes_after_the_last_micro_batch(tmp_path: Path) -> None:
    arrive(tmp_path, 0, 0, 2)
    stream = opened(tmp_path, Answers(tmp_path, active=False))
    assert [read(stream).ended, read(stream).ended] == [False, True]


def test_while_nothing_comes_the_core_is_told_so_and_nothing_moves(tmp_path: Path) -> None:
    answer = read(opened(tmp_path, Answers(tmp_path, [5, 1000])))
    assert (answer.rows.num_rows, answer.watermark, answer.ended) == (0, None, False)


def test_by_the_clock_event_time_moves_once_all_that_was_there_is_handed_over(tmp_path: Path) -> None:
    # Whatever was in the source at 5000 is in micro-batches 0 and 1.
    stream = opened(tmp_path, Answers(tmp_path, [1, 5000]), lateness_ms=300, watermark=Watermark.CLOCK)
    assert read(stream).watermark is None
    arrive(tmp_path, 0, 0, 2)
    assert read(stream).watermark is None
    arrive(tmp_path, 1, 2, READ_ROWS + 1)
    assert read(stream).watermark is None
    assert read(stream).watermark == 4700
    assert read(stream).watermark == 4700


def test_a_query_that_fails_again_and_again_fails_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.source.spark_stream._ASK_EVERY_S", 0.0)
    process = Answers(tmp_path, active=False)
    process.reply["failure"] = "no such topic"
    stream = opened(tmp_path, process)
    monkeypatch.setattr(stream._closed, "wait", lambda _: False)
    answer = stream.read(None)
    assert isinstance(answer, SourceFailed)
    assert "no such topic" in answer.reason


def test_a_peek_shows_what_waits_and_leaves_it(tmp_path: Path) -> None:
    arrive(tmp_path, 0, 7, 2)
    stream = opened(tmp_path)
    assert stream.local.first_ts == 7
    assert stream.peek().ts.tolist() == [7, 8]
    assert numbers(read(stream)) == [7, 8]


def test_a_peek_at_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.source.spark_stream._PEEK_S_MAX", 0.0)
    with pytest.raises(SourceError, match="none yet from Spark"):
        opened(tmp_path).peek()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"format": "json"}, ["spark.format"]),
        ({"schema": "a LONG"}, ["spark.schema"]),
        ({"where": "n > 0"}, ["where"]),
        ({"select": ("n",)}, ["select"]),
        ({"options": (("rowsPerSecond", "2"), ("sasl.password", "x"))}, ["spark.options.rowspersecond"]),
        ({"options": (("ROWSPERSECOND", "1"), ("sasl.password", "y"), ("maxFilesPerTrigger", "9"))}, []),
        ({"options": ()}, ["spark.options.rowspersecond"]),
        ({"trigger_ms": 7, "watermark": Watermark.CLOCK}, []),
    ],
)
def test_what_makes_a_source_another_one(tmp_path: Path, changes: dict[str, Any], expected: list[str]) -> None:
    folder = StateFolder(tmp_path / "state")
    assert folder.differences(source(tmp_path)) == []
    folder.begin(source(tmp_path))
    assert folder.differences(source(tmp_path, **changes)) == []  # no micro-batch yet
    (folder.checkpoint / "offsets").mkdir(parents=True)
    (folder.checkpoint / "offsets" / "0").touch()
    folder.begin(source(tmp_path, **changes))
    assert folder.differences(source(tmp_path, **changes)) == expected
    assert "x" not in (folder.path / "definition.json").read_text().split('"')


def test_a_source_that_never_had_a_micro_batch_leaves_nothing_to_another(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.begin(source(tmp_path))
    (folder.checkpoint / "sources").mkdir(parents=True)
    folder.begin(source(tmp_path, format="kafka"))
    assert not folder.checkpoint.exists()


def test_a_checkpoint_that_is_gone_is_missed(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    lacking = [folder.lacks_checkpoint]
    folder.begin(source(tmp_path))
    lacking.append(folder.lacks_checkpoint)
    folder.hand(Position(0, 5))
    lacking.append(folder.lacks_checkpoint)
    (folder.checkpoint / "offsets").mkdir(parents=True)
    (folder.checkpoint / "offsets" / "17").touch()
    lacking.append(folder.lacks_checkpoint)
    assert lacking == [False, False, True, False]


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path / "l"), FolderLock(tmp_path / "l")
    assert first.take()
    assert not second.take()
    first.release()
    assert second.take()


def test_what_is_too_far_ahead_goes_by_the_clock_and_max_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.source.spark_stream.time.time", lambda: 1_000.5)
    arrive(tmp_path, 0, 0, 1)
    assert read(opened(tmp_path)).latest_ts == 1_000_500 + 3_600_000


# -- with a log -------------------------------------------------------------------------------


def test_with_a_log_nothing_is_handed_over_before_it_is_durable(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    for number in range(3):
        arrive(tmp_path, number, 3 * number, 3)
    stream = opened(tmp_path, place=Position(0, 0))
    answers = [read(stream) for _ in range(3)]
    assert [(one.start, one.end) for one in answers] == [
        (Position(0, 0), Position(1, 0)),
        (Position(1, 0), Position(2, 0)),
        (Position(2, 0), Position(3, 0)),
    ]
    assert folder.handed == Position(0, 0)
    assert folder.waiting() == [0, 1, 2]
    assert folder.taken == Position(3, 0), "Spark goes on meanwhile"
    assert numbers(read(stream)) == []
    stream.logged(Position(1, 2))
    assert folder.handed == Position(1, 2)
    assert folder.waiting() == [1, 2]
    stream.close()
    # Killed here: what is not in the log comes again, from the row that the log names.
    again = opened(tmp_path, place=Position(1, 2))
    assert folder.taken == Position(1, 2)
    assert again.local.first_ts == 3
    assert numbers(read(again)) + numbers(read(again)) == [5, 6, 7, 8]
    again.logged(Position(3, 0))
    assert folder.waiting() == []


def test_the_log_decides_though_what_was_handed_over_was_noted_less_far(tmp_path: Path) -> None:
    """Killed between the log's sync and the note."""
    arrive(tmp_path, 0, 0, 3)
    arrive(tmp_path, 1, 3, 3)
    stream = opened(tmp_path, place=Position(1, 1))
    assert StateFolder(tmp_path / "state").waiting() == [1]
    assert numbers(read(stream)) == [4, 5]


def test_spark_may_run_ahead_of_what_is_read_not_of_what_is_handed_over(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.batches.mkdir(parents=True)
    folder.hand(Position(2, 0))
    assert folder.taken == Position(2, 0)
    folder.take(Position(7, 3))
    assert (folder.handed, folder.taken) == (Position(2, 0), Position(7, 3))
