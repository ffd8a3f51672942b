"""Files of rows, opened: Parquet, CSV and JSON lines give batches; whatever is wrong with one names file and key.

Memory does not grow with the file. Parquet is read in batches of about 8 MiB. Arrow's text readers read up to 32
blocks ahead, with no option to change it: at 8 MiB each, an open text file of that size holds up to 400 MiB
(measured with Arrow 26). Smaller blocks hold less, but then types are guessed from less and long lines
do not fit. Streams that share a small machine should be Parquet.

Text files (CSV, JSON lines) are typed from their first 8 MiB. When a later value does not fit, the source
stops with an error: guessing again would give one column two meanings within one stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from node.config import ConfigError, Problem, SourceFormat, StreamConfig, shown

_BLOCK_BYTES = 8 << 20
_BATCH_ROWS = 65_536
_COLUMNS_SHOWN = 30
_HEADER_BYTES = 64 << 10
_SEPARATORS = (",", ";", "\t", "|")
_REQUIRED = {
    SourceFormat.PARQUET: "an intact Parquet file",
    SourceFormat.CSV: "a CSV file: a header line, then rows with as many values as it has names",
    SourceFormat.JSONL: "a file of JSON lines, one object per line",
}
_ONE_TYPE = (
    f"each column of one type (taken from the first {_BLOCK_BYTES >> 20} MiB; "
    "make the values alike or convert the file to Parquet)"
)
_MICRO_BATCH = (
    "an intact micro-batch with the types that Spark announced, and text in UTF-8 "
    "(make_valid_utf8(...) in select makes it so)"
)


class SourceError(ConfigError):
    """A stream's file is missing, broken or not what the configuration says it is."""


@dataclass(frozen=True, slots=True)
class Reader:
    """An open file: its schema as written, and its batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    close: Callable[[], None]
    #: Rows of the file before the first batch.
    skipped: int = 0


def open_reader(stream: StreamConfig, skip: int = 0) -> Reader:
    """A stream's file, by its format. Raises what Arrow raises (``arrow_errors``), or SourceError.

    ``skip``: so many rows are not wanted; those of them that need not be read are ``skipped``.
    """
    file = str(stream.path)
    if stream.format is SourceFormat.PARQUET:
        return open_parquet(file, skip)
    if stream.format is SourceFormat.CSV:
        text = pyarrow.csv.open_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(delimiter=_separator(stream.path), newlines_in_values=True),
        )
        _check_letters(stream, text.schema)
    else:
        text = pyarrow.json.open_json(file, read_options=pyarrow.json.ReadOptions(block_size=_BLOCK_BYTES))
    return Reader(text.schema, iter(text), text.close)


def open_parquet(file: str, skip: int = 0) -> Reader:
    """Read through a small buffer: without one Arrow holds whole column chunks, however large.

    Page checksums are verified where the writer stored them (Arrow does neither by default). Without
    them a damaged page can decode to wrong values, and nothing here can notice.
    """
    parquet = pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
    rows = [parquet.metadata.row_group(group).num_rows for group in range(parquet.metadata.num_row_groups)]
    ends = list(accumulate(rows))
    first = bisect_right(ends, skip)
    batches = parquet.iter_batches(_parquet_batch_rows(parquet.metadata), range(first, len(rows)))
    return Reader(parquet.schema_arrow, batches, parquet.close, ends[first - 1] if first else 0)


def _parquet_batch_rows(metadata: Any) -> int:
    """Rows that make about one block, so that wide rows do not make large batches."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    widest = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return int(max(1, min(_BATCH_ROWS, _BLOCK_BYTES // max(widest, 1))))


def _separator(path: Path) -> str:
    """What stands between the values of a CSV file: a comma, unless its header has none, but another usual one."""
    with path.open("rb") as file:
        header = file.readline(_HEADER_BYTES)
    found = [mark for mark in _SEPARATORS if mark.encode() in header]
    return found[0] if found else _SEPARATORS[0]


def _check_letters(stream: StreamConfig, schema: pa.Schema) -> None:
    """Arrow takes a text column that is not UTF-8 for bytes, which join with no text and print as nonsense."""
    names = [field.name for field in schema if pa.types.is_binary(field.type)]
    if names:
        required = "text in UTF-8 (iconv -f LATIN1 -t UTF-8 converts it, if it is Latin-1)"
        raise source_error(stream, "path", required, f"other letters in {listed(names)}")


def check_file(stream: StreamConfig) -> None:
    """Whether there is a file that can be read: Arrow's own messages for this name no key."""
    required = f"a readable {stream.format} file"
    try:
        if stream.path.is_dir():
            raise source_error(stream, "path", required, "a directory")
        if stream.path.exists() and not stream.path.is_file():
            raise source_error(stream, "path", required, "something that is not a regular file")
        with stream.path.open("rb"):
            pass
    except FileNotFoundError:
        raise source_error(stream, "path", required, "no such file") from None
    except OSError as error:
        raise source_error(stream, "path", required, error.strerror or str(error)) from None


@contextmanager
def arrow_errors(stream: StreamConfig) -> Iterator[None]:
    """Whatever Arrow finds wrong while reading, as a SourceError."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if stream.spark is not None:
            raise source_error(stream, "spark", _MICRO_BATCH, str(error)) from error
        required = _REQUIRED[stream.format]
        if stream.format is not SourceFormat.PARQUET:
            required += f"; {_ONE_TYPE}"
        raise source_error(stream, "path", required, str(error)) from error


def source_error(stream: StreamConfig, key: str, required: str, got: str) -> SourceError:
    """Something wrong with what a key of a stream names."""
    return SourceError(Problem(str(stream.path), f"{stream.key}.{key}", required, got))


def listed(names: list[str]) -> str:
    """Names of columns for a message, not too many."""
    if not names:
        return "no columns"
    more = f" and {len(names) - _COLUMNS_SHOWN} more" if len(names) > _COLUMNS_SHOWN else ""
    return ", ".join(shown(name) for name in names[:_COLUMNS_SHOWN]) + more
