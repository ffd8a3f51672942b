"""A replay at a speed gives what is due and no more; without one it gives all there is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from node.config import SourceFormat, StreamConfig
from node.core.events import RowsArrived
from node.io.sources.replay import Replay

HOUR_MS = 3_600_000


def replay(folder: Path, speed: float | None, lateness_ms: int = 0) -> Replay:
    path = folder / "s.parquet"
    pq.write_table(pa.table({"ts": pa.array([1000, 1000, 1000 + HOUR_MS], pa.int64())}), path)
    return Replay(StreamConfig("k", "s", "here", path, SourceFormat.PARQUET, "ts", None, lateness_ms), 1, speed)


def read(source: Replay, origin_ms: int | None = 1000) -> RowsArrived:
    answer = source.read(origin_ms)
    assert isinstance(answer, RowsArrived)
    return answer


def test_a_paced_replay_gives_what_is_due_and_a_watermark_that_follows_the_clock(tmp_path: Path) -> None:
    source = replay(tmp_path, speed=0.01, lateness_ms=5)
    first, second = read(source), read(source)
    assert (first.rows.num_rows, first.ended) == (2, False)
    assert (second.rows.num_rows, second.ended) == (0, False)
    assert first.watermark is not None
    assert second.watermark is not None
    assert 995 <= first.watermark < second.watermark < HOUR_MS


def test_nothing_is_due_before_the_cluster_wide_origin_has_passed(tmp_path: Path) -> None:
    # Another stream of the query began an hour of event time earlier.
    assert read(replay(tmp_path, speed=0.01), 1000 - HOUR_MS).rows.num_rows == 0


def test_a_fast_enough_replay_reaches_the_end(tmp_path: Path) -> None:
    source = replay(tmp_path, speed=1e9)
    rows, ended = 0, False
    while not ended:
        answer = read(source)
        rows, ended = rows + answer.rows.num_rows, answer.ended
    assert rows == 3


def test_without_a_speed_all_rows_come_at_once(tmp_path: Path) -> None:
    answer = read(replay(tmp_path, speed=None))
    assert (answer.rows.num_rows, answer.ended, answer.watermark) == (3, True, None)
