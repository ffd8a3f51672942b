"""Where result rows go: a table on a terminal, CSV, JSON lines, or a file."""

from __future__ import annotations

import base64
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from planner.errors import NarrowsError

_WIDTH_MIN = 6
_WIDTH_MAX = 40
FILE_FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class OutputError(NarrowsError):
    """The rows cannot be written where they should go."""


class Output(Protocol):
    """Takes rows; ``finish`` makes what was written final."""

    #: Whether rows are safe as soon as ``write`` returns; otherwise only after ``finish``.
    safe_at_once: bool

    def write(self, rows: pa.RecordBatch) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


def open_output(out: Path | None, form: str | None, schema: pa.Schema) -> Output:
    """The output that the user asked for; OutputError if it cannot be."""
    if out is not None:
        return FileOutput(out, form, schema)
    if form == "none":
        return NoOutput()
    form = form or ("table" if sys.stdout.isatty() else "csv")
    if form == "table":
        return TableOutput(sys.stdout, schema)
    return StreamOutput(sys.stdout.buffer, form, schema)


class NoOutput:
    """Rows are counted by whoever writes them, and that is all."""

    safe_at_once = True

    def write(self, rows: pa.RecordBatch) -> None:
        """Nothing to do."""

    def finish(self) -> None:
        """Nothing to do."""

    def abandon(self) -> None:
        """Nothing to do."""


class TableOutput:
    """Aligned columns; widths are set by the header and the first rows."""

    safe_at_once = True

    def __init__(self, stream: TextIO, schema: pa.Schema) -> None:
        self._stream = stream
        self._names = schema.names
        self._widths: list[int] = []

    def write(self, rows: pa.RecordBatch) -> None:
        texts = [[_cell(value) for value in column.to_pylist()] for column in rows.columns]
        if not self._widths:
            self._widths = [_width(name, column) for name, column in zip(self._names, texts, strict=True)]
            self._line(self._names)
            self._line(["─" * width for width in self._widths])
        for row in zip(*texts, strict=True):
            self._line(list(row))
        self._stream.flush()

    def _line(self, cells: list[str]) -> None:
        fitted = [
            (cell if len(cell) <= width else cell[: width - 1] + "…").ljust(width)
            for cell, width in zip(cells, self._widths, strict=True)
        ]
        print("  ".join(fitted).rstrip(), file=self._stream)

    def finish(self) -> None:
        if not self._widths:
            print("no rows", file=self._stream)

    def abandon(self) -> None:
        self._stream.flush()


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("\n", "⏎")


def _width(name: str, texts: list[str]) -> int:
    longest = max([len(name), *(len(text) for text in texts[:1000])])
    return min(_WIDTH_MAX, max(_WIDTH_MIN, longest))


class StreamOutput:
    """CSV or JSON lines to an open stream."""

    safe_at_once = True

    def __init__(self, stream: BinaryIO, form: str, schema: pa.Schema) -> None:
        self._stream = stream
        self._write = self._csv if form == "csv" else self._jsonl
        if form == "csv":
            names = pa.table({str(i): [name] for i, name in enumerate(schema.names)})
            pa.csv.write_csv(names, stream, pa.csv.WriteOptions(include_header=False))

    def write(self, rows: pa.RecordBatch) -> None:
        self._write(rows)
        self._stream.flush()

    def _csv(self, rows: pa.RecordBatch) -> None:
        flat = pa.RecordBatch.from_arrays([_csv_column(column) for column in rows.columns], rows.schema.names)
        pa.csv.write_csv(flat, self._stream, pa.csv.WriteOptions(include_header=False))

    def _jsonl(self, rows: pa.RecordBatch) -> None:
        lines = (json.dumps(row, ensure_ascii=False, default=_json_value) for row in rows.to_pylist())
        self._stream.write("".join(f"{line}\n" for line in lines).encode())

    def finish(self) -> None:
        self._stream.flush()

    def abandon(self) -> None:
        """What was written stays."""


def _csv_column(column: pa.Array) -> pa.Array:
    """CSV knows numbers, booleans and text; everything else becomes text."""
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
    texts = [None if value is None else json.dumps(value, default=_json_value) for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _json_value(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


class FileOutput:
    """A file that appears under its name only when it is whole."""

    def __init__(self, path: Path, form: str | None, schema: pa.Schema) -> None:
        form = form or FILE_FORMATS.get(path.suffix)
        if form is None or form not in FILE_FORMATS.values():
            raise OutputError(f"--out requires a name ending in {', '.join(FILE_FORMATS)}; got {str(path)!r}")
        self.safe_at_once = False
        self._path = path
        self._part = path.with_name(path.name + ".part")
        try:
            self._file = self._part.open("wb")
            self._output = self._opened(form, schema)
        except OSError as error:
            raise self._cannot(error) from None

    def _opened(self, form: str, schema: pa.Schema) -> StreamOutput | pa.parquet.ParquetWriter:
        if form == "parquet":
            return pa.parquet.ParquetWriter(self._file, schema, compression="zstd")
        return StreamOutput(self._file, form, schema)

    def _cannot(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self._path}: {error.strerror or error}")

    def write(self, rows: pa.RecordBatch) -> None:
        try:
            self._output.write(rows)
        except OSError as error:
            raise self._cannot(error) from None

    def finish(self) -> None:
        try:
            if isinstance(self._output, pa.parquet.ParquetWriter):
                self._output.close()
            self._file.close()
            self._part.replace(self._path)
        except OSError as error:
            raise self._cannot(error) from None

    def abandon(self) -> None:
        """Leave no half file behind."""
        with suppress(OSError):
            self._file.close()
        self._part.unlink(missing_ok=True)
