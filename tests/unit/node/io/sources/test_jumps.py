"""One row from the far future in a recording is found and named, before the rows behind it are called late."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.config import SourceFormat, StreamConfig
from node.io.sources.jumps import BEFORE_ALL, FEW_ROWS, FOLLOWING_ROWS, JumpWatch
from node.io.sources.readers import SourceError
from node.io.sources.recordings import open_source
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from tests.examples import examples

SCHEMA = pa.schema([("ts", pa.int64())])
HOUR = 3_600_000
IN_2099 = 4_070_908_800_000
NOW = 1_760_000_000_000


def config(path: Path, lateness_ms: int = 0, max_ahead_ms: int = HOUR) -> StreamConfig:
    return StreamConfig("k", "s", "a", path, SourceFormat.CSV, "ts", None, lateness_ms, max_ahead_ms=max_ahead_ms)


def replayed(tmp_path: Path, times: list[int | None], **changes: int) -> list[int | None]:
    """All that a recording gives. Raises SourceError as it does."""
    path = tmp_path / "s.csv"
    path.write_text("ts,x\n" + "".join(f"{'' if ts is None else ts},1\n" for ts in times))
    got: list[int | None] = []
    with open_source(config(path, **changes)) as source:
        ended = False
        while not ended:
            chunk = source.read(1000)
            ended = chunk.ended
            got += chunk.ts.to_pylist()
    return got


def ordered(count: int, first: int = NOW) -> list[int | None]:
    return [first + 1000 * number for number in range(count)]


def wrong(row: int, when: str, following: int, behind: int) -> str:
    return (
        "k.max_ahead: required rows in order of time, or a longer max_ahead or lateness; "
        f"got row {row} at {when}: of {following} rows that follow it, {behind} are more than 1h before it "
        "and would be late"
    )


@pytest.mark.parametrize(("at", "following"), [(0, 1), (1, 1), (0, 700), (13, 5), (13, 700), (9_000, 700)])
def test_a_row_dated_2099_is_named(tmp_path: Path, at: int, following: int) -> None:
    times = [*ordered(at), IN_2099, *ordered(following, NOW + 1000 * at)]
    with pytest.raises(SourceError) as raised:
        replayed(tmp_path, times)
    assert wrong(at + 1, "2099-01-01 00:00:00.000", following, following) in str(raised.value)


def test_rows_without_a_time_count_as_rows(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="row 3 at 2099"):
        replayed(tmp_path, [None, NOW, IN_2099, *ordered(500)])


def test_the_row_is_found_before_anything_is_started(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("ts\n" + "".join(f"{ts}\n" for ts in [NOW, IN_2099, *ordered(FOLLOWING_ROWS)]))
    with pytest.raises(SourceError, match="row 2 at 2099"):
        open_source(config(path))


@pytest.mark.parametrize("changes", [{"max_ahead_ms": 876_000 * HOUR}, {"lateness_ms": 876_000 * HOUR}])
def test_it_is_allowed_by_configuration(tmp_path: Path, changes: dict[str, int]) -> None:
    times = [*ordered(5), IN_2099, *ordered(500)]
    assert replayed(tmp_path, times, **changes) == times


@pytest.mark.parametrize(
    "times",
    [
        [*ordered(500), *ordered(500, NOW + 999 * HOUR)],
        [*ordered(500), IN_2099],
        [*ordered(300), NOW + 10 * HOUR, *ordered(40), *ordered(500, NOW + 11 * HOUR)],
        list(reversed(ordered(3_000))),
        [],
        [NOW, None, None],
        [*ordered(1_000), IN_2099, *ordered(99)],
    ],
    ids=[
        "a gap",
        "the last row",
        "few are behind",
        "backwards within an hour",
        "no rows",
        "no times",
        "few rows follow",
    ],
)
def test_all_else_is_no_error(tmp_path: Path, times: list[int | None]) -> None:
    assert replayed(tmp_path, times) == times


def test_a_paced_replay_does_not_wait_for_2099(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("ts\n" + "".join(f"{ts}\n" for ts in [NOW, IN_2099, *ordered(5)]))
    with open_source(config(path)) as source:
        assert source.read_due(NOW, 10).ts.to_pylist() == [NOW]
        with pytest.raises(SourceError, match="row 2 at 2099"):
            source.read_due(NOW + 60_000, 10)


def test_a_paced_replay_waits_for_what_comes_after_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("ts\n" + "".join(f"{ts}\n" for ts in [NOW, *ordered(5, NOW + 99 * HOUR)]))
    with open_source(config(path)) as source:
        assert source.read_due(NOW, 10).ts.to_pylist() == [NOW]
        assert source.read_due(NOW + HOUR, 10).ts.to_pylist() == []
        assert source.read_due(NOW + 99 * HOUR, 10).ts.to_pylist() == [NOW + 99 * HOUR]


def told(times: list[int], cuts: list[int]) -> str:
    watch = JumpWatch(config(Path("f"), 0, 100), StreamInfo("s", "a", SCHEMA, "ts", TimeUnit.MS))
    newest = np.maximum.accumulate(np.array(times, np.int64))
    bounds = sorted({0, len(times), *(cut % (len(times) + 1) for cut in cuts)})
    try:
        for begin, end in pairwise(bounds):
            watch.add(np.array(times[begin:end], np.int64), newest[begin:end])
        watch.check()
    except SourceError as error:
        return str(error)
    return ""


@examples(200)
@given(
    times=st.lists(st.integers(0, 400) | st.just(BEFORE_ALL), min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
)
def test_pages_make_no_difference_to_what_the_end_decides(times: list[int], cuts: list[int]) -> None:
    """By the definition: the newest row, those that follow it, and those of them that are behind."""
    at = times.index(max(times))
    following = times[at + 1 :]
    behind = [ts for ts in following if BEFORE_ALL < ts < times[at] - 100]
    expected = 2 * len(behind) > len(following) >= len(times) / FEW_ROWS
    said = told(times, cuts)
    assert bool(said) is expected
    if expected:
        assert f"got row {at + 1} at " in said
        assert f"of {len(following)} rows that follow it, {len(behind)} are" in said
