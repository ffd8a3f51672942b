"""A batch as bytes: every type comes back as it was, and no change of a byte goes unnoticed."""

from __future__ import annotations

import decimal
import random
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from node.core.streams.sealer import Batch
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.storage.disk_log import DiskLog
from node.storage.record import HEAD_BYTES, decode_batch, decode_head, encode_record, is_whole
from node.storage.segment import encode_segment_head, segment_name
from tests.sim.disk import SimulatedDisk
from tests.unit.logged import batch, log_all, read_all, same

NOW = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
COLUMNS = {
    "bool": pa.array([True, None, False]),
    "int8": pa.array([1, None, -3], pa.int8()),
    "uint64": pa.array([1, None, 2**64 - 1], pa.uint64()),
    "float16": pa.array([1.5, None, 2.5], pa.float16()),
    "float": pa.array([1.5, None, float("inf")], pa.float64()),
    "decimal": pa.array([decimal.Decimal("1.23"), None, decimal.Decimal("-4.56")], pa.decimal128(20, 2)),
    "decimal256": pa.array([decimal.Decimal("1.23"), None, decimal.Decimal("-4.56")], pa.decimal256(60, 2)),
    "string": pa.array(["a", None, "ä" * 40]),
    "large string": pa.array(["a", None, "b" * 40], pa.large_string()),
    "string view": pa.array(["a", None, "b" * 40], pa.string_view()),
    "binary": pa.array([b"a", None, b"\x00\xff"]),
    "binary view": pa.array([b"a", None, b"\xff" * 40], pa.binary_view()),
    "fixed binary": pa.array([b"abc", None, b"def"], pa.binary(3)),
    "date": pa.array([date(2024, 2, 29), None, date(1969, 1, 1)]),
    "timestamp": pa.array([NOW, None, NOW], pa.timestamp("us", "UTC")),
    "time": pa.array([1, None, 3], pa.time64("ns")),
    "duration": pa.array([timedelta(1), None, timedelta(2)]),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([0, 0, 0])]),
    "null": pa.nulls(3),
    "list": pa.array([[1, 2], None, []]),
    "fixed list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
    "list view": pa.array([[1, 2], None, []], pa.list_view(pa.int64())),
    "list of views": pa.array([["a" * 20], None, []], pa.list_(pa.string_view())),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}]),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    "dictionary in a struct": pa.StructArray.from_arrays([pa.array(["a", "b", "a"]).dictionary_encode()], ["d"]),
    "dictionary in a list": pa.ListArray.from_arrays([0, 1, 1, 2], pa.array(["a", "b"]).dictionary_encode()),
    "run ends": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", "b"])),
    "union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_of_every_type_are_logged_and_read_as_they_were(name: str) -> None:
    rows = pa.RecordBatch.from_arrays([COLUMNS[name], pa.array([1, 2, 3])], names=["x", "n"])
    made = [
        Batch(Span(0, 1), rows, np.array([1, 2, 3]), 10),
        Batch(Span(1, 2), rows.slice(1, 2), np.array([4, 5]), 13),
        Batch(Span(2, 9), rows.slice(1, 0), np.empty(0, np.int64), 15),
    ]
    log = DiskLog(SimulatedDisk(random.Random(1)))
    log_all(log, made)
    found = read_all(log, 0)
    assert same(found, made)
    for one in found:
        one.rows.validate(full=True)


def test_a_stream_without_columns_keeps_its_rows() -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 5, pa.struct([])))
    made = [Batch(Span(TICK_MIN, TICK_END), rows, np.arange(5))]
    log = DiskLog(SimulatedDisk(random.Random(1)))
    log_all(log, made)
    assert same(read_all(log, TICK_MIN), made)


def test_a_few_rows_of_a_large_column_of_views_take_little_room() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(["x" * 100] * 10_000, pa.string_view())], names=["x"])
    record = encode_record(Batch(Span(0, 1), rows.slice(5, 2), np.array([1, 2])), 0)
    assert sum(map(len, record)) < 1_000


def test_times_that_are_not_neighbours_in_memory_are_logged() -> None:
    one = batch(0, 10, 4)
    strided = Batch(one.span, one.rows, np.repeat(one.ts, 2)[::2], one.first)
    data = b"".join(encode_record(strided, 0))
    head = decode_head(data, 0)
    assert head is not None
    assert same([decode_batch(head, memoryview(data)[HEAD_BYTES:], one.rows.schema)], [one])


def test_all_of_a_record_is_a_multiple_of_eight_bytes() -> None:
    """Arrow reads numbers where they are, and wants them aligned."""
    for rows in range(20):
        assert [len(part) % 8 for part in encode_record(batch(0, 1, rows), 0)] == [0, 0, 0]
    assert len(encode_segment_head(batch(0, 1, 1).rows.schema)) % 8 == 0


def test_a_flipped_bit_anywhere_in_a_record_is_noticed() -> None:
    data = bytearray(b"".join(encode_record(batch(0, 1, 2), 24)))
    for place in range(len(data) * 8):
        data[place // 8] ^= 1 << place % 8
        head = decode_head(data, 0)
        assert head is None or not is_whole(head, data[HEAD_BYTES:]), f"bit {place}"
        data[place // 8] ^= 1 << place % 8
    head = decode_head(data, 0)
    assert head is not None
    assert is_whole(head, data[HEAD_BYTES:])


def test_names_of_segments_are_in_the_order_of_their_ticks() -> None:
    ticks = [TICK_MIN, -(10**12), -1, 0, 1, 9, 10, 10**12, TICK_END - 1]
    names = [segment_name(tick) for tick in ticks]
    assert names == sorted(names)
    assert len({len(name) for name in names}) == 1
