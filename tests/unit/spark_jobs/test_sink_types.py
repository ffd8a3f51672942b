"""How columns look in Spark, and which options ``format("narrows")`` takes. No Spark runs here."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from spark_jobs.sink.column_types import check_declared, spark_schema, to_spark
from spark_jobs.sink.options import SinkError, SinkOptions, parse_options

D = decimal.Decimal
DAY = datetime.datetime(2026, 1, 2, 3, 4, 5)

#: An Arrow type, Spark's name of what it becomes, values, and what they become if that is not the same.
TYPES: list[tuple[pa.DataType, str, list[Any], list[Any] | None]] = [
    (pa.bool_(), "boolean", [True, None], None),
    (pa.int8(), "tinyint", [-128, None], None),
    (pa.int64(), "bigint", [-(2**63), None], None),
    (pa.uint8(), "smallint", [255, None], None),
    (pa.uint16(), "int", [65_535, None], None),
    (pa.uint32(), "bigint", [2**32 - 1, None], None),
    (pa.uint64(), "decimal(20,0)", [2**64 - 1, None], [D(2**64 - 1), None]),
    (pa.float16(), "float", [0.5, None], None),
    (pa.float64(), "double", [0.1, None], None),
    (pa.large_string(), "string", ["é", "", None], None),
    (pa.string_view(), "string", ["é" * 20, None], None),
    (pa.binary(2), "binary", [b"a\0", None], None),
    (pa.large_binary(), "binary", [b"a\0", None], None),
    (pa.date32(), "date", [DAY.date(), None], None),
    (pa.date64(), "date", [DAY.date(), None], None),
    (pa.timestamp("s"), "timestamp_ntz", [DAY, None], None),
    (pa.timestamp("ns"), "timestamp_ntz", [DAY, None], None),
    (pa.timestamp("ms", "UTC"), "timestamp", [DAY.replace(tzinfo=datetime.UTC), None], None),
    (pa.timestamp("us", "Asia/Tokyo"), "timestamp", [DAY.replace(tzinfo=datetime.UTC), None], None),
    (pa.time32("s"), "time(0)", [DAY.time(), None], None),
    (pa.time64("us"), "time(6)", [DAY.time(), None], None),
    (pa.duration("ms"), "interval day to second", [datetime.timedelta(days=-1), None], None),
    (pa.decimal128(38, 38), "decimal(38,38)", [D("0.5"), None], None),
    (pa.decimal256(38, 2), "decimal(38,2)", [D("-1.25"), None], None),
    (pa.decimal32(5, 0), "decimal(5,0)", [D(7), None], None),
    (pa.null(), "void", [None, None], None),
    (pa.dictionary(pa.int8(), pa.string()), "string", ["a", None, "a"], None),
    (pa.list_(pa.uint8()), "array<smallint>", [[1, None], [], None], None),
    (pa.large_list(pa.string()), "array<string>", [["a"], None], None),
    (pa.list_(pa.int8(), 2), "array<tinyint>", [[1, 2], None], None),
    (pa.map_(pa.string(), pa.uint16()), "map<string,int>", [[("a", 1)], None], None),
    (
        pa.struct([("x", pa.float16()), ("y", pa.list_(pa.large_string()))]),
        "struct<x:float,y:array<string>>",
        [{"x": 1.0, "y": ["a", None]}, None],
        None,
    ),
]


@pytest.mark.parametrize(("kind", "name", "given", "becomes"), TYPES, ids=lambda value: str(value)[:40])
def test_every_type_keeps_its_values_and_has_exactly_the_form_that_spark_requires(
    kind: pa.DataType, name: str, given: list[Any], becomes: list[Any] | None
) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(given, kind)], names=["c"])
    schema = spark_schema(rows.schema, None)
    assert schema[0].dataType.simpleString() == name
    made = to_spark(rows, schema, floor_nanoseconds=False)
    assert made.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert made.column(0).to_pylist() == (becomes or given)
    made.validate(full=True)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (pa.decimal256(39, 0), "at most 38 digits"),
        (pa.decimal128(5, -2), "a scale of 0 to 5"),
        (pa.month_day_nano_interval(), "no such type"),
        (pa.list_(pa.struct([("x", pa.decimal256(76, 0))])), "at most 38 digits"),
        (pa.dense_union([pa.field("a", pa.int8())]), "no such type"),
    ],
    ids=str,
)
def test_what_spark_cannot_hold_is_refused_by_name_before_reading(kind: pa.DataType, why: str) -> None:
    schema = pa.schema([("good", pa.int8()), ("bad", kind)])
    with pytest.raises(SinkError, match=f"column bad is .*{why}"):
        spark_schema(schema, None)
    assert spark_schema(schema, ["good"]).names == ["good"]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")], ids=str)
def test_nanoseconds_are_never_lost_silently(kind: pa.DataType) -> None:
    whole = pa.RecordBatch.from_arrays([pa.array([-1_000, None, 5_000], kind)], names=["c"])
    broken = pa.RecordBatch.from_arrays([pa.array([-1, None, 1_999, 2_000], kind)], names=["c"])
    schema = spark_schema(whole.schema, None)
    assert to_spark(whole, schema, False).column(0).cast(pa.int64()).to_pylist() == [-1, None, 5]
    with pytest.raises(SinkError, match=r"column c: .*would lose data.*nanoseconds=floor"):
        to_spark(broken, schema, False)
    # Down, not towards zero: the order of times stays, also around 1970.
    assert to_spark(broken, schema, True).column(0).cast(pa.int64()).to_pylist() == [-1, None, 1, 2]


def test_seconds_beyond_what_microseconds_can_count_are_refused() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([2**60], pa.timestamp("s"))], names=["c"])
    with pytest.raises(SinkError, match="column c"):
        to_spark(rows, spark_schema(rows.schema, None), True)


SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.decimal256(60, 0))])


def test_columns_are_picked_by_name_and_in_order() -> None:
    assert spark_schema(SCHEMA, ["b", "a"]).simpleString() == "struct<b:string,a:bigint>"
    with pytest.raises(SinkError, match="required columns of a, b, c; got d"):
        spark_schema(SCHEMA, ["a", "d"])


def declared(*fields: tuple[str, spark.DataType, bool]) -> spark.StructType:
    return spark.StructType([spark.StructField(*field) for field in fields])


def test_a_declared_schema_may_leave_columns_out_and_is_checked_otherwise() -> None:
    check_declared(declared(("b", spark.StringType(), True)), SCHEMA)
    wrong = declared(("a", spark.IntegerType(), True), ("b", spark.StringType(), False), ("x", spark.LongType(), True))
    with pytest.raises(SinkError) as error:
        check_declared(wrong, SCHEMA)
    lines = str(error.value).splitlines()
    assert lines[1:] == [
        "column a: required bigint, got int",
        "column b: required nullable, got NOT NULL",
        "column x: required one of a, b, c",
    ]


GIVEN = {"address": "h:1", "query": "a-1"}


def test_options_are_read_whatever_their_case() -> None:
    every = {"Columns": "a, b", "PARTITIONS": "3", "maxRowsPerTrigger": "10", "partial": "TRUE", "nanoseconds": "floor"}
    assert parse_options(GIVEN) == SinkOptions("h:1", "a-1")
    assert parse_options(GIVEN | every) == SinkOptions("h:1", "a-1", ("a", "b"), 3, 10, True, True)
    assert parse_options(GIVEN | {"columns": '["a,b", " c"]'}).columns == ("a,b", " c")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"query": "a-1"}, "option address is required"),
        ({"address": "h:1", "query": " "}, "option query is required"),
        (GIVEN | {"colums": "a"}, "required options of address, .*; got colums"),
        (GIVEN | {"partitions": "0"}, "option partitions requires a number above 0; got '0'"),
        (GIVEN | {"maxRowsPerTrigger": "many"}, "option maxRowsPerTrigger requires a number above 0; got 'many'"),
        (GIVEN | {"partial": "maybe"}, "option partial requires true or false; got 'maybe'"),
        (GIVEN | {"nanoseconds": "round"}, "option nanoseconds requires exact or floor; got 'round'"),
        (GIVEN | {"columns": "a,,b"}, "option columns requires column names"),
        (GIVEN | {"columns": "[1]"}, "option columns requires column names"),
        (GIVEN | {"columns": '["a"'}, "option columns requires column names"),
        (GIVEN | {"columns": "a,b,a"}, "each column once"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_requires(given: dict[str, str], said: str) -> None:
    with pytest.raises(SinkError, match=said):
        parse_options(given)
