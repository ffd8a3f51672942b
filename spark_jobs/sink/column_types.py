"""How a query's columns look in Spark. What Spark cannot hold without loss is refused before a row is read.

Unsigned numbers become the next larger type, half floats floats, fixed and large strings and binaries their usual
form, durations day-time intervals. Times with a zone are timestamps, those without are timestamp_ntz. Spark counts
microseconds: nanoseconds are passed only if they are whole microseconds, unless they may be rounded down.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from spark_jobs.sink.options import SinkError

_DECIMAL_DIGITS_MAX = 38

_SIMPLE: dict[pa.DataType, spark.DataType] = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.uint8(): spark.ShortType(),
    pa.uint16(): spark.IntegerType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
    pa.float16(): spark.FloatType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.large_string(): spark.StringType(),
    pa.string_view(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.large_binary(): spark.BinaryType(),
    pa.binary_view(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.date64(): spark.DateType(),
    pa.null(): spark.NullType(),
}
_TIME_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def spark_schema(schema: pa.Schema, columns: Sequence[str] | None) -> spark.StructType:
    """Of all columns, or of these in this order. Raises SinkError that names each column that Spark cannot hold."""
    if unknown := [name for name in columns or () if name not in schema.names]:
        raise SinkError(f"narrows: required columns of {', '.join(schema.names)}; got {', '.join(unknown)}")
    fields, refused = [], []
    for name in columns or schema.names:
        field = schema.field(name)
        try:
            fields.append(spark.StructField(name, _spark_type(field.type), field.nullable))
        except _RefusedError as error:
            refused.append(f"column {name} is {field.type}: {error}")
    if refused:
        hint = "leave it out with option columns, or convert it in the query"
        raise SinkError("\n".join(["narrows: Spark cannot hold every column:", *refused, hint]))
    return spark.StructType(fields)


def check_declared(declared: spark.StructType, schema: pa.Schema) -> None:
    """That what the user or Spark says of the columns is so; raises SinkError that names each that is not.

    Fewer columns than there are, in another order, are fine: only those are read.
    """
    known = spark_schema(schema, [name for name in declared.names if name in schema.names])
    wrong = []
    for field in declared.fields:
        if field.name not in known.names:
            wrong.append(f"column {field.name}: required one of {', '.join(schema.names)}")
            continue
        there = known[field.name]
        if there.dataType != field.dataType:
            wrong.append(
                f"column {field.name}: required {there.dataType.simpleString()}, got {field.dataType.simpleString()}"
            )
        elif there.nullable and not field.nullable:
            wrong.append(f"column {field.name}: required nullable, got NOT NULL")
    if wrong:
        raise SinkError("\n".join(["narrows: the declared schema is not that of the query:", *wrong]))


def to_spark(rows: pa.RecordBatch, schema: spark.StructType, floor_nanoseconds: bool) -> pa.RecordBatch:
    """The rows in exactly those Arrow types that Spark requires for ``schema``.

    Raises SinkError if a value cannot be had without loss.
    """
    target = to_arrow_schema(schema, timezone="UTC")
    columns = [_converted(rows.column(field.name), field, floor_nanoseconds) for field in target]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _converted(column: pa.Array, field: pa.Field, floor_nanoseconds: bool) -> pa.Array:
    if column.type.equals(field.type):
        return column
    kind = column.type
    if floor_nanoseconds and (arrow.is_timestamp(kind) or arrow.is_duration(kind)) and kind.unit == "ns":
        column = _floored(column)
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        hint = "option nanoseconds=floor rounds columns of nanoseconds down"
        raise SinkError(
            f"narrows: column {field.name}: required values that Spark can hold: {error} ({hint})"
        ) from None


def _floored(column: pa.Array) -> pa.Array:
    """Whole microseconds, also before 1970, where Arrow's own cast would round up."""
    nulls = np.asarray(column.is_null())
    numbers = np.asarray(column.cast(pa.int64()).fill_null(0))
    whole = pa.array(numbers - numbers % 1000, pa.int64(), mask=nulls)
    return whole.cast(column.type)


class _RefusedError(Exception):
    """Why a type is not possible."""


def _spark_type(kind: pa.DataType) -> spark.DataType:
    if (simple := _SIMPLE.get(kind)) is not None:
        return simple
    if arrow.is_decimal(kind):
        return _decimal(kind)
    if arrow.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if arrow.is_duration(kind):
        return spark.DayTimeIntervalType()
    if arrow.is_time(kind):
        return spark.TimeType(_TIME_DIGITS[kind.unit])
    if arrow.is_fixed_size_binary(kind):
        return spark.BinaryType()
    if arrow.is_dictionary(kind):
        return _spark_type(kind.value_type)
    return _nested(kind)


def _decimal(kind: pa.DataType) -> spark.DataType:
    if kind.precision > _DECIMAL_DIGITS_MAX:
        raise _RefusedError(f"required at most {_DECIMAL_DIGITS_MAX} digits")
    if not 0 <= kind.scale <= kind.precision:
        raise _RefusedError(f"required a scale of 0 to {kind.precision}")
    return spark.DecimalType(kind.precision, kind.scale)


def _nested(kind: pa.DataType) -> spark.DataType:
    if arrow.is_struct(kind):
        return spark.StructType([spark.StructField(part.name, _spark_type(part.type), part.nullable) for part in kind])
    if arrow.is_map(kind):
        return spark.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type), kind.item_field.nullable)
    if arrow.is_list(kind) or arrow.is_large_list(kind) or arrow.is_fixed_size_list(kind):
        return spark.ArrayType(_spark_type(kind.value_type), kind.value_field.nullable)
    raise _RefusedError("there is no such type")
