"""Replay of files: what comes out is what is in the file, in order, and every refusal says why."""

from __future__ import annotations

import datetime
import decimal
import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cluster_file import load_cluster
from node.config import ConfigError, SourceFormat, StreamConfig
from node.io.sources import readers
from node.io.sources import recordings as sources
from node.io.sources.jumps import BEFORE_ALL
from node.io.sources.plain_types import plain_array, plain_type
from node.io.sources.readers import SourceError
from node.io.sources.recordings import Chunk, ReplaySource, check_sources, event_times, open_source
from planner.model.time_unit import TimeUnit
from tests.examples import new_examples

KEY = "site.a.stream.s"
ONE_TYPE = "each column of one type (taken from the first 8 MiB; make the values alike or convert the file to Parquet)"
CSV_FILE = f"a CSV file: a header line, then rows with as many values as it has names; {ONE_TYPE}"
JSON_FILE = f"a file of JSON lines, one object per line; {ONE_TYPE}"


def config(path: Path, ts: str = "ts", unit: TimeUnit | None = None) -> StreamConfig:
    kind = {".parquet": SourceFormat.PARQUET, ".csv": SourceFormat.CSV}.get(path.suffix, SourceFormat.JSONL)
    return StreamConfig(KEY, "s", "a", path, kind, ts, unit, 0, max_ahead_ms=2**62)


def parquet(tmp_path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path = tmp_path / "s.parquet"
    pyarrow.parquet.write_table(pa.table(columns), path, **options)
    return path


def text_file(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_as(suffix: str, path: Path, times: list[int | None]) -> Path:
    """The same rows, ts and their number, in any of the formats; a first row fixes the types of text."""
    path = path.with_suffix(suffix)
    rows = [{"ts": time, "n": number, "name": f"ü{number}"} for number, time in enumerate(times)]
    table = pa.Table.from_pylist(rows, pa.schema({"ts": pa.int64(), "n": pa.int64(), "name": pa.string()}))
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=7)
    elif suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def drain(source: ReplaySource, rows_max: int = 1_000_000) -> list[Chunk]:
    chunks = [source.read(rows_max)]
    while not chunks[-1].ended:
        chunks.append(source.read(rows_max))
    return chunks


def rows_of(chunks: list[Chunk]) -> list[dict[str, Any]]:
    return [row for chunk in chunks for row in chunk.rows.to_pylist()]


def times_of(chunks: list[Chunk]) -> list[int | None]:
    return [time for chunk in chunks for time in chunk.ts.to_pylist()]


def refusal(stream: StreamConfig) -> str:
    """The problem's text after the file's name, which it must start with."""
    with pytest.raises(SourceError) as caught:
        open_source(stream).close()
    text = str(caught.value)
    assert text.isprintable()
    assert text.startswith(f"{stream.path}: {KEY}.")
    return text.removeprefix(f"{stream.path}: {KEY}.")


@pytest.fixture(params=[".parquet", ".csv", ".jsonl"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "_BLOCK_BYTES", 256)
        yield


def test_every_format_gives_the_rows_in_file_order(tmp_path: Path, suffix: str) -> None:
    path = write_as(suffix, tmp_path / "s", [5, 3, None, 9])
    with open_source(config(path)) as source:
        assert (source.info.name, source.info.site, source.info.ts) == ("s", "a", "ts")
        assert source.info.unit is TimeUnit.MS
        assert source.first_ts == 5
        chunks = drain(source)
    assert [row["n"] for row in rows_of(chunks)] == [0, 1, 2, 3]
    assert [row["name"] for row in rows_of(chunks)] == ["ü0", "ü1", "ü2", "ü3"]
    assert times_of(chunks) == [5, 3, None, 9]
    assert all(chunk.rows.schema.equals(source.info.schema, check_metadata=True) for chunk in chunks)


def test_the_end_comes_with_the_last_rows_and_stays(tmp_path: Path, suffix: str) -> None:
    path = write_as(suffix, tmp_path / "s", [1, 2, 3, 4])
    with open_source(config(path)) as source:
        assert [source.read(2).ended, source.read(2).ended] == [False, True]
        again = source.read(2)
        assert (again.rows.num_rows, len(again.ts), again.ended) == (0, 0, True)
        assert source.read_due(10, 1).ended
        assert source.next_due_ts is None


@pytest.mark.parametrize("limit", [0, -1])
def test_asking_for_no_rows_is_a_mistake_of_the_caller(tmp_path: Path, limit: int) -> None:
    with open_source(config(parquet(tmp_path, {"ts": [1]}))) as source, pytest.raises(ValueError, match="rows_max"):
        source.read(limit)


def test_a_closed_source_cannot_be_read_but_its_chunks_can(tmp_path: Path, suffix: str) -> None:
    source = open_source(config(write_as(suffix, tmp_path / "s", [1, 2])))
    chunk = source.read(1)
    source.close()
    source.close()
    assert chunk.ts.to_pylist() == [1]
    with pytest.raises(ValueError, match=r"site\.a\.stream\.s is closed"):
        source.read(1)


def test_a_parquet_file_without_rows_is_an_empty_stream(tmp_path: Path) -> None:
    with open_source(config(parquet(tmp_path, {"ts": pa.array([], pa.timestamp("us"))}))) as source:
        assert source.first_ts is None
        assert source.next_due_ts is None
        assert source.info.unit is TimeUnit.US
        assert source.read(1).ended


def test_a_csv_file_with_only_a_header_is_an_empty_stream_of_integers(tmp_path: Path) -> None:
    with open_source(config(text_file(tmp_path, "s.csv", "ts,a\n"))) as source:
        assert source.info.schema.field("ts").type == pa.int64()
        chunk = source.read(1)
        assert (chunk.ended, chunk.rows.num_rows, source.first_ts) == (True, 0, None)


def test_first_ts_skips_nulls_beyond_the_first_batch(tmp_path: Path, suffix: str, small_blocks: None) -> None:
    path = write_as(suffix, tmp_path / "s", [2**62] + [None] * 200 + [7, 8])
    if suffix == ".parquet":
        path = parquet(tmp_path, {"ts": [2**62] + [None] * 70_000 + [7, 8]})
    with open_source(config(path)) as source:
        assert source.first_ts == 7
        assert source.next_due_ts == BEFORE_ALL
        assert sum(chunk.rows.num_rows for chunk in drain(source)) > 200


def test_a_stream_of_null_times_has_no_first_ts_and_is_due_at_once(tmp_path: Path) -> None:
    with open_source(config(parquet(tmp_path, {"ts": pa.nulls(3, pa.int64())}))) as source:
        assert source.first_ts is None
        assert source.read_due(BEFORE_ALL, 10).ts.to_pylist() == [None, None, None]


TIMES = st.lists(st.none() | st.integers(-50, 50) | st.integers(-(2**61), 2**61), max_size=40)


@st.composite
def paced_reads(draw: st.DrawFn) -> list[tuple[int | None, int]]:
    bound = st.none() | st.integers(-60, 60) | st.integers(-(2**63), 2**63)
    return draw(st.lists(st.tuples(bound, st.integers(1, 20)), max_size=30))


def running_max(times: list[int | None]) -> list[int]:
    highest, result = BEFORE_ALL, []
    for time in times:
        highest = highest if time is None else max(highest, time)
        result.append(highest)
    return result


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".jsonl"])
@new_examples(40)
@given(times=TIMES, rows_max=st.integers(1, 50))
def test_chunks_put_together_are_the_file(kind: str, times: list[int | None], rows_max: int) -> None:
    times = [0, *times]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "_BLOCK_BYTES", 256)
        with open_source(config(write_as(kind, Path(folder) / "s", times))) as source:
            chunks = drain(source, rows_max)
    assert times_of(chunks) == times
    assert [row["n"] for row in rows_of(chunks)] == list(range(len(times)))
    assert all(0 < chunk.rows.num_rows <= rows_max for chunk in chunks)
    assert all(len(chunk.ts) == chunk.rows.num_rows for chunk in chunks)


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".jsonl"])
@new_examples(40)
@given(times=TIMES, reads=paced_reads())
def test_any_mix_of_reads_keeps_order_and_never_passes_the_bound(
    kind: str, times: list[int | None], reads: list[tuple[int | None, int]]
) -> None:
    times = [0, *times]
    due = running_max(times)
    seen: list[Chunk] = []
    taken = 0
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "_BLOCK_BYTES", 256)
        with open_source(config(write_as(kind, Path(folder) / "s", times))) as source:
            for bound, rows_max in reads:
                assert source.next_due_ts == (due[taken] if taken < len(times) else None)
                seen.append(source.read(rows_max) if bound is None else source.read_due(bound, rows_max))
                count = seen[-1].rows.num_rows
                assert count <= rows_max
                if bound is not None:
                    assert all(time <= bound for time in due[taken : taken + count])
                    assert count > 0 or taken == len(times) or due[taken] > bound
                taken += count
                assert seen[-1].ended == (taken == len(times))
            while source.next_due_ts is not None:
                seen.append(source.read_due(source.next_due_ts, 3))
                assert seen[-1].rows.num_rows > 0
    assert times_of(seen) == times
    assert [row["n"] for row in rows_of(seen)] == list(range(len(times)))


@pytest.mark.parametrize(
    ("unit", "expected", "scale"),
    [("s", TimeUnit.MS, 1000), ("ms", TimeUnit.MS, 1), ("us", TimeUnit.US, 1), ("ns", TimeUnit.NS, 1)],
)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_a_timestamp_column_brings_its_unit(
    tmp_path: Path, unit: str, expected: TimeUnit, scale: int, zone: str | None
) -> None:
    values = [-5, 0, None, 1_700_000_000]
    path = parquet(tmp_path, {"ts": pa.array(values, pa.timestamp(unit, zone))})
    with open_source(config(path)) as source:
        assert source.info.unit is expected
        assert source.first_ts == -5 * scale
        assert times_of(drain(source)) == [None if value is None else value * scale for value in values]


def test_seconds_are_scaled_to_milliseconds_and_null_where_that_leaves_the_range() -> None:
    most = (2**62 - 1) // 1000
    column = pa.array([most, most + 1, -most, -most - 1, 2**63 - 1, -(2**63), None], pa.timestamp("s"))
    expected = [most * 1000, None, -most * 1000, None, None, None, None]
    assert sources.event_times(column).to_pylist() == expected


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
)
def test_an_integer_column_of_seconds_becomes_milliseconds_whatever_its_type(kind: pa.DataType) -> None:
    assert event_times(pa.array([1, None, 100], kind), scale=1000).to_pylist() == [1000, None, 100_000]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
)
@pytest.mark.parametrize("unit", [None, TimeUnit.MS, TimeUnit.US, TimeUnit.NS])
def test_an_integer_column_takes_the_configured_unit(tmp_path: Path, kind: pa.DataType, unit: TimeUnit | None) -> None:
    path = parquet(tmp_path, {"ts": pa.array([1, None, 100], kind)})
    with open_source(config(path, unit=unit)) as source:
        assert source.info.unit is (unit or TimeUnit.MS)
        (chunk,) = drain(source)
    assert chunk.ts.type == pa.int64()
    assert chunk.ts.to_pylist() == [1, None, 100]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (
            pa.int64(),
            [2**62 - 1, 2**62, -(2**62) + 1, -(2**62), 2**63 - 1, -(2**63)],
            [2**62 - 1, None, -(2**62) + 1] + [None] * 3,
        ),
        (pa.uint64(), [2**62 - 1, 2**62, 2**63, 2**64 - 1, 0], [2**62 - 1, None, None, None, 0]),
        (pa.timestamp("ns"), [2**62 - 1, 2**62, -(2**62)], [2**62 - 1, None, None]),
    ],
)
def test_times_out_of_range_are_null_but_their_rows_are_kept(
    tmp_path: Path, kind: pa.DataType, values: list[int], expected: list[int | None]
) -> None:
    path = parquet(tmp_path, {"ts": pa.array(values, kind), "n": list(range(len(values)))})
    with open_source(config(path)) as source:
        chunks = drain(source)
    assert times_of(chunks) == expected
    assert [n for chunk in chunks for n in chunk.rows.column("n").to_pylist()] == list(range(len(values)))


@pytest.mark.parametrize("kind", [pa.int32(), pa.timestamp("us")])
def test_a_dictionary_encoded_ts_column_is_judged_by_its_values(kind: pa.DataType) -> None:
    column = pa.array([5, None, 5], kind).dictionary_encode()
    plain = plain_array(column, plain_type(column.type))
    assert sources.event_times(plain).to_pylist() == [5, None, 5]


def test_csv_and_json_timestamps_are_read_as_timestamps(tmp_path: Path) -> None:
    expected = int(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC).timestamp() * 1000)
    csv = text_file(tmp_path, "s.csv", "ts\n2024-01-01T00:00:00Z\n")
    lines = text_file(tmp_path, "s.jsonl", '{"ts": "2024-01-01T00:00:00"}\n')
    for path in (csv, lines):
        with open_source(config(path)) as source:
            assert (source.info.unit, source.first_ts) == (TimeUnit.MS, expected)


def test_csv_values_may_hold_line_breaks_and_last_lines_may_lack_one(tmp_path: Path) -> None:
    with open_source(config(text_file(tmp_path, "s.csv", 'ts,a\n1,"x\ny"\n2,z'))) as source:
        assert rows_of(drain(source)) == [{"ts": 1, "a": "x\ny"}, {"ts": 2, "a": "z"}]


def test_unicode_names_and_values_survive(tmp_path: Path, suffix: str) -> None:
    names = {"zeit ⏱": [1], "名前": ["Zoë 🐟"]}
    path = tmp_path / f"dåta{suffix}"
    if suffix == ".parquet":
        pyarrow.parquet.write_table(pa.table(names), path)
    elif suffix == ".csv":
        pyarrow.csv.write_csv(pa.table(names), path)
    else:
        path.write_text(json.dumps({"zeit ⏱": 1, "名前": "Zoë 🐟"}, ensure_ascii=False), encoding="utf-8")
    with open_source(config(path, ts="zeit ⏱")) as source:
        assert rows_of(drain(source)) == [{"zeit ⏱": 1, "名前": "Zoë 🐟"}]


DICTIONARY = pa.array(["x", None, "y"]).dictionary_encode()
UUIDS = pa.array([b"0123456789abcdef", None, b"fedcba9876543210"], pa.binary(16))
PLAIN = [
    pa.array([True, None, False]),
    pa.array([1.5, None, float("inf")], pa.float16()),
    pa.array([1.5, None, -0.0], pa.float32()),
    pa.array([1.5, None, -0.0], pa.float64()),
    pa.array([2**64 - 1, None, 0], pa.uint64()),
    pa.array(["a", None, "ü"]),
    pa.array(["a", None, "ü"], pa.large_string()),
    pa.array([b"\xff", None, b""]),
    pa.array([b"\xff", None, b""], pa.large_binary()),
    pa.array([b"ab", None, b"cd"], pa.binary(2)),
    pa.array([decimal.Decimal("1.23"), None, decimal.Decimal("-9.99")], pa.decimal128(5, 2)),
    pa.array([decimal.Decimal("1.23"), None, decimal.Decimal("-9.99")], pa.decimal256(50, 2)),
    pa.array([datetime.date(1969, 1, 1), None, datetime.date(2024, 2, 29)], pa.date32()),
    pa.array([1, None, 86_399_999], pa.time32("ms")),
    pa.array([1, None, 86_399_999_999], pa.time64("us")),
    pa.array([1, None, -1], pa.duration("us")),
    pa.array([1, None, -1], pa.timestamp("us", "Asia/Tokyo")),
    pa.nulls(3),
    pa.array([[1, None], None, []], pa.list_(pa.int64())),
    pa.array([["a"], None, []], pa.large_list(pa.string())),
    pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)),
    pa.array([{"a": 1, "b": None}, None, {"a": None, "b": "x"}]),
    pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize("column", PLAIN, ids=lambda column: str(column.type))
def test_plain_types_pass_through_parquet_unchanged(tmp_path: Path, column: pa.Array) -> None:
    path = parquet(tmp_path, {"ts": [1, 2, 3], "c": column})
    with open_source(config(path)) as source:
        (chunk,) = drain(source)
    chunk.rows.validate(full=True)
    assert chunk.rows.column("c").to_pylist() == column.to_pylist()
    assert str(source.info.schema.field("c").type).replace("element:", "item:") == str(column.type).replace("('c')", "")


VIEWS = pa.array([["a"], None, ["b", "c"]], pa.list_view(pa.string_view()))
ENCODED = [
    (DICTIONARY, pa.string()),
    (pa.array(["x", None, "y"], pa.string_view()), pa.string()),
    (pa.array([b"x", None, b"y"], pa.binary_view()), pa.binary()),
    (VIEWS, pa.list_(pa.string())),
    (pa.array([[1], None, [2, 3]], pa.large_list_view(pa.int64())), pa.large_list(pa.int64())),
    (UUIDS.cast(pa.uuid()), pa.binary(16)),
    (pa.array([1, None, 0], pa.int8()).cast(pa.bool8()), pa.int8()),
    (pa.ListArray.from_arrays([0, 1, 1, 3], DICTIONARY), pa.list_(pa.string())),
    (pa.ListArray.from_arrays([0, 1, 1, 3], UUIDS.cast(pa.uuid())), pa.list_(pa.binary(16))),
    (pa.LargeListArray.from_arrays([0, 1, 1, 3], VIEWS), pa.large_list(pa.list_(pa.string()))),
    (pa.array([["a", "b"], None, ["c", None]], pa.list_(pa.string_view(), 2)), pa.list_(pa.string(), 2)),
    (
        pa.StructArray.from_arrays([DICTIONARY, VIEWS], names=["d", "v"], mask=pa.array([False, True, False])),
        pa.struct([("d", pa.string()), ("v", pa.list_(pa.string()))]),
    ),
    (
        pa.array([[("a", "1")], None, [("b", "2"), ("c", None)]], pa.map_(pa.string_view(), pa.string_view())),
        pa.map_(pa.string(), pa.string()),
    ),
]


def unwrapped(value: Any) -> Any:
    """An extension's Python value as its storage."""
    if isinstance(value, list):
        return [unwrapped(item) for item in value]
    return getattr(value, "bytes", int(value) if isinstance(value, bool) else value)


@pytest.mark.parametrize(
    ("column", "expected"), ENCODED, ids=lambda value: str(value.type) if isinstance(value, pa.Array) else ""
)
@pytest.mark.parametrize("window", [(0, 3), (1, 2), (2, 1), (1, 1), (0, 0)])
def test_an_encoded_array_becomes_plain_with_the_same_values(
    column: pa.Array, expected: pa.DataType, window: tuple[int, int]
) -> None:
    part = column.slice(*window)
    plain = plain_array(part, plain_type(part.type))
    plain.validate(full=True)
    assert plain.type == expected
    assert plain.to_pylist() == unwrapped(part.to_pylist())


@pytest.mark.parametrize(
    ("column", "expected"), ENCODED, ids=lambda value: str(value.type) if isinstance(value, pa.Array) else ""
)
def test_encoded_columns_of_a_parquet_file_are_decoded(tmp_path: Path, column: pa.Array, expected: pa.DataType) -> None:
    path = parquet(tmp_path, {"ts": [1, 2, 3], "c": column})
    with open_source(config(path)) as source:
        chunks = drain(source, 2)
    assert source.info.schema.field("c").type.equals(plain_type(chunks[0].rows.column("c").type))
    assert [row["c"] for row in rows_of(chunks)] == unwrapped(column.to_pylist())
    assert pa.types.is_nested(expected) or source.info.schema.field("c").type == expected


def test_metadata_of_schema_and_fields_is_dropped_at_every_depth(tmp_path: Path) -> None:
    inner = pa.field("item", pa.int64(), metadata={"PARQUET:field_id": "7"})
    schema = pa.schema(
        [
            pa.field("ts", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("l", pa.list_(inner), nullable=False),
        ],
        metadata={"who": "me"},
    )
    path = tmp_path / "s.parquet"
    pyarrow.parquet.write_table(pa.Table.from_pydict({"ts": [1], "l": [[1, 2]]}, schema), path)
    with open_source(config(path)) as source:
        found = source.info.schema
        chunk = source.read(1)
    assert found.metadata is None
    assert found.field("ts").metadata is None
    assert found.field("l").type.value_field.metadata is None
    assert chunk.rows.column("l").type.value_field.metadata is None
    assert not found.field("l").nullable


def test_wide_rows_make_smaller_batches(tmp_path: Path) -> None:
    path = parquet(tmp_path, {"ts": list(range(64)), "wide": [os.urandom(1 << 20) for _ in range(64)]})
    with open_source(config(path)) as source:
        assert max(chunk.rows.num_rows for chunk in drain(source)) <= 8


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert refusal(config(tmp_path / "s.csv")) == "path: required a readable csv file; got no such file"


def test_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.parquet").mkdir()
    assert refusal(config(tmp_path / "s.parquet")) == "path: required a readable parquet file; got a directory"


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "s.csv")
    expected = "path: required a readable csv file; got something that is not a regular file"
    assert refusal(config(tmp_path / "s.csv")) == expected


def test_an_unreadable_file_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: str = "r") -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = parquet(tmp_path, {"ts": [1]})
    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(config(path)) == "path: required a readable parquet file; got Permission denied"


@pytest.mark.parametrize("content", ["", "not parquet at all, but long enough", "PAR1PAR1"])
def test_what_is_not_parquet_is_refused(tmp_path: Path, content: str) -> None:
    text = refusal(config(text_file(tmp_path, "s.parquet", content)))
    assert text.startswith("path: required an intact Parquet file; got Parquet ")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "Empty CSV file"),
        ("\n\n", "CSV parse error: Empty CSV file or block: cannot infer number of columns"),
        ("ts,a\n1,2\n3\n", "CSV parse error: Expected 2 columns, got 1: 3"),
        (b"ts,a\xff\n1,2\n", "'utf-8' codec can't decode byte 0xff in position 1: invalid start byte"),
    ],
)
def test_a_broken_csv_file_is_refused(tmp_path: Path, content: str | bytes, reason: str) -> None:
    assert refusal(config(text_file(tmp_path, "s.csv", content))) == f"path: required {CSV_FILE}; got {reason}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "Empty JSON stream"),
        ('[{"ts": 1}]', "JSON parse error: Column() changed from object to array in row 0"),
        ('{"ts": 1}\n{"ts": ', "JSON parse error: Invalid value. in row 1"),
        ('{"ts": 1, "ts": 2}', "JSON parse error: Column(/ts) was specified twice in row 0"),
        ('{"ts": 1}\n{"ts": "x"}', "JSON parse error: Column(/ts) changed from number to string in row 1"),
        (b'{"ts": 1, "a": "\xff"}', "In column 1: Invalid: Invalid UTF8 sequence at string index 0"),
    ],
)
def test_a_broken_json_file_is_refused(tmp_path: Path, content: str | bytes, reason: str) -> None:
    assert refusal(config(text_file(tmp_path, "s.jsonl", content))) == f"path: required {JSON_FILE}; got {reason}"


def test_a_missing_ts_column_is_answered_with_the_columns_there_are(tmp_path: Path) -> None:
    path = parquet(tmp_path, {"time": [1], "b c": [2]})
    assert refusal(config(path)) == 'ts: required a column of the file; got "ts"; the file has "time", "b c"'


def test_a_file_without_columns_says_so(tmp_path: Path) -> None:
    text = refusal(config(text_file(tmp_path, "s.jsonl", "{}\n")))
    assert text == 'ts: required a column of the file; got "ts"; the file has no columns'


def test_a_long_list_of_columns_is_cut(tmp_path: Path) -> None:
    text = refusal(config(parquet(tmp_path, {f"c{number}": [1] for number in range(40)})))
    assert text.endswith('"c29" and 10 more')


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pa.array(["1"]), "string"),
        (pa.array([1.0]), "double"),
        (pa.nulls(1), "null"),
        (pa.array([[1]]), "list<element: int64>"),
    ],
)
def test_a_ts_column_of_another_type_is_refused(tmp_path: Path, column: pa.Array, shown: str) -> None:
    text = refusal(config(parquet(tmp_path, {"ts": column})))
    required = 'a column of integers, of dates, or of times such as "2026-05-01 12:30:00"'
    assert text == f'ts: required {required}; got "ts" of type {shown}'


def test_a_unit_for_a_timestamp_column_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, {"ts": pa.array([1], pa.timestamp("us"))})
    assert refusal(config(path, unit=TimeUnit.US)) == (
        'unit: required no unit for a timestamp column, whose type has one; got "us", but "ts" is of type timestamp[us]'
    )


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_columns_of_one_name_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["ts", "a", "a"])
    write: Callable[..., None] = pyarrow.csv.write_csv if name == "s.csv" else pyarrow.parquet.write_table
    write(table, path)
    expected = 'path: required a file in which every column has its own name; got "a" more than once'
    assert refusal(config(path)) == expected


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("s.csv", "ts\n" + "1\n" * 5000 + "x\n", "In CSV column #0: CSV conversion error to int64: invalid value 'x'"),
        ("s.jsonl", '{"ts": 1}\n' * 2000 + '{"ts": 1.5}\n', "Failed to convert JSON to int64, couldn't parse:1.5"),
        ("s.jsonl", '{"ts": 1}\n' * 2000 + '{"ts": 1, "b": 1}\n', "JSON parse error: unexpected field"),
    ],
)
def test_a_type_that_changes_later_is_an_error_after_the_rows_before_it(
    tmp_path: Path, small_blocks: None, name: str, content: str, reason: str
) -> None:
    chunks: list[Chunk] = []

    def drain_due() -> None:
        while True:
            assert source.next_due_ts == 1
            chunks.append(source.read_due(1, 1000))
            assert chunks[-1].rows.num_rows > 0

    with open_source(config(text_file(tmp_path, name, content))) as source:
        with pytest.raises(SourceError) as caught:
            drain_due()
        assert sum(chunk.rows.num_rows for chunk in chunks) > 1000
        assert not any(chunk.ended for chunk in chunks)
        with pytest.raises(SourceError):
            source.read(1)
    expected = CSV_FILE if name == "s.csv" else JSON_FILE
    assert str(caught.value) == f"{tmp_path / name}: {KEY}.path: required {expected}; got {reason}"


@pytest.mark.parametrize(("codec", "checksum"), [("zstd", True), ("none", True), ("snappy", True), ("snappy", False)])
def test_a_damaged_page_is_refused_where_a_checksum_or_the_codec_shows_it(
    tmp_path: Path, codec: str, checksum: bool
) -> None:
    path = parquet(
        tmp_path,
        {"ts": list(range(300_000))},
        compression=codec,
        use_dictionary=False,
        write_page_checksum=checksum,
    )
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 50] = bytes(50)
    path.write_bytes(content)
    with open_source(config(path)) as source, pytest.raises(SourceError, match="required an intact Parquet file; got "):
        drain(source)


CLUSTER = """
tau = "1s"
[site.a]
listen = "h:1"
stream.good = {path = "s.parquet", ts = "ts"}
stream.gone = {path = "gone.csv", ts = "ts"}
[site.b]
listen = "h:2"
stream.far = {path = "far.csv", ts = "ts"}
[site.c]
listen = "h:3"
stream.fine = {path = "s.parquet", ts = "ts", unit = "ns"}
"""


def test_check_sources_opens_only_the_streams_of_its_sites(tmp_path: Path) -> None:
    parquet(tmp_path, {"ts": [1]})
    cluster = load_cluster(text_file(tmp_path, "cluster.toml", CLUSTER))
    infos = check_sources(cluster, ["c", "c"])
    assert list(infos) == ["fine"]
    assert (infos["fine"].unit, infos["fine"].site) == (TimeUnit.NS, "c")


def test_check_sources_reports_every_problem_at_once(tmp_path: Path) -> None:
    parquet(tmp_path, {"ts": [1]})
    cluster = load_cluster(text_file(tmp_path, "cluster.toml", CLUSTER))
    with pytest.raises(ConfigError) as caught:
        check_sources(cluster, ["a", "x", "b"])
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/gone.csv: site.a.stream.gone.path: required a readable csv file; got no such file",
        f'{tmp_path}/cluster.toml: site: required one of "a", "b", "c"; got "x"',
        f"{tmp_path}/far.csv: site.b.stream.far.path: required a readable csv file; got no such file",
    ]
