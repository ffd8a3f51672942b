"""Rows in the formats of files: CSV, JSON lines, Arrow streams, Parquet; for clients, and for what a site writes."""

from __future__ import annotations

import base64
import json
import math
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

#: Rows are written to Parquet when they take this much memory.
_ROW_GROUP_BYTES = 64 << 20
FILE_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrows": "arrows",
}
#: A file of these can be cut after any rows and be written on; the others are whole or nothing.
GROWING_FORMATS = ("csv", "jsonl", "arrows")


def row_output(file: BinaryIO, form: str, schema: pa.Schema, *, begins: bool = True) -> RowOutput:
    """What writes rows to a file in this format. Unless it ``begins``, there are rows in the file already."""
    if form == "parquet":
        return ParquetOutput(file, schema)
    if form == "arrows":
        return ArrowOutput(file, schema, begins=begins)
    return StreamOutput(file, form, schema, begins=begins)


class StreamOutput:
    """CSV or JSON lines to an open stream."""

    safe_at_once = True

    def __init__(self, stream: BinaryIO, form: str, schema: pa.Schema, *, begins: bool = True) -> None:
        self._stream = stream
        self._write = self._csv if form == "csv" else self._jsonl
        if form == "csv" and begins:
            names = pa.table({str(i): [name] for i, name in enumerate(schema.names)})
            pa.csv.write_csv(names, stream, pa.csv.WriteOptions(include_header=False))

    def write(self, rows: pa.RecordBatch) -> None:
        self._write(rows)
        self._stream.flush()

    def _csv(self, rows: pa.RecordBatch) -> None:
        flat = pa.RecordBatch.from_arrays([_csv_column(column) for column in rows.columns], rows.schema.names)
        pa.csv.write_csv(flat, self._stream, pa.csv.WriteOptions(include_header=False))

    def _jsonl(self, rows: pa.RecordBatch) -> None:
        plain = pa.RecordBatch.from_arrays([sayable(column) for column in rows.columns], rows.schema.names)
        self._stream.write("".join(f"{_json(row)}\n" for row in plain.to_pylist()).encode())

    def finish(self) -> None:
        self._stream.flush()


def _csv_column(column: pa.Array) -> pa.Array:
    """CSV knows numbers, booleans and text; everything else becomes text."""
    column = sayable(column)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return column
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    if not pa.types.is_nested(kind) and not _is_bytes(kind):
        try:
            return pc.cast(column, pa.string())
        except pa.ArrowNotImplementedError:
            pass
    texts = [None if value is None else _json(value) for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def sayable(column: pa.Array) -> pa.Array:
    """The column with every time as Arrow writes it and every duration as a number of its units.

    Python has no type for nanoseconds, nor for years before 1 or after 9999.
    """
    kind = _sayable_type(column.type)
    return column if kind == column.type else pc.cast(column, kind)


def _sayable_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_duration(kind):
        return pa.int64()
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        return pa.string()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_sayable_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_sayable_type(kind.key_type), _sayable_type(kind.item_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_sayable_type(kind.value_type), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(_sayable_type(kind.value_type))
    return pa.list_(_sayable_type(kind.value_type)) if types.is_list(kind) else kind


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_json_value)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=_json_value)


def _finite(value: Any) -> Any:
    """JSON has no word for what is not a finite number, so that becomes text."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _json_value(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


class _ParquetWriter(pa.parquet.ParquetWriter):  # type: ignore[misc]
    """One that writes nothing when it is given up: its file may be closed by then, and has no end on purpose."""

    def __del__(self) -> None:
        """Only ``close`` makes a file whole."""


class ParquetOutput:
    """Parquet to an open file. Rows are collected: a row group per chunk would make a large, slow file."""

    safe_at_once = False

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = _ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)
        self._schema = schema
        self._rows: list[pa.RecordBatch] = []
        self._nbytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._rows.append(rows)
        self._nbytes += rows.nbytes
        if self._nbytes >= _ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._rows, schema=self._schema))
        self._rows, self._nbytes = [], 0

    def finish(self) -> None:
        self._write_group()
        self._writer.close()


class ArrowOutput:
    """The streaming format of Arrow to an open file: the schema, record batches, and at the end a mark."""

    safe_at_once = True

    def __init__(self, file: BinaryIO, schema: pa.Schema, *, begins: bool = True) -> None:
        self._file = file
        if begins:
            file.write(schema.serialize().to_pybytes())

    def write(self, rows: pa.RecordBatch) -> None:
        self._file.write(rows.serialize().to_pybytes())

    def finish(self) -> None:
        self._file.write(b"\xff\xff\xff\xff\x00\x00\x00\x00")


RowOutput = StreamOutput | ArrowOutput | ParquetOutput
