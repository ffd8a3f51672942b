"""Rows on the wire: one column after another, without their schema, which both ends derive from the plan.

    number of rows, columns (``columns.py``)

What a peer sends is never trusted. The frame's checksum has caught accidents;
here counts, lengths and numbers are checked before anything is made from them,
and the columns are validated in full, because a damaged Arrow buffer that is used
unchecked can crash the process.
"""

from __future__ import annotations

import pyarrow as pa

from node.core.encoding.columns import ColumnReader, encode_column, rows_bytes, same_as
from node.core.encoding.room import SENT_BYTES_MAX, Room
from node.core.encoding.varint import decode_varint, encode_varint
from node.core.errors import PeerProtocolError, QueryFailedError

#: A column of one value costs the same for any number of rows, so bytes do not bound rows. These do:
#: 16 million rows, and 128 million values, which are 1 GiB of whole numbers; ``room.py`` bounds what they take.
ROWS_MAX = 2**24
VALUES_MAX = 2**27


class TooManyRowsError(QueryFailedError):
    """More rows at once than may travel."""


def encode_rows(rows: pa.RecordBatch) -> bytes:
    """The rows as bytes; no rows are no bytes.

    Raises TooManyRowsError beyond ROWS_MAX, VALUES_MAX and SENT_BYTES_MAX.
    """
    if rows.num_rows == 0:
        return b""
    check_fits(rows.num_rows, rows.num_columns, rows.nbytes)
    columns: list[bytes] = []
    out = [encode_varint(rows.num_rows)]
    for column in rows.columns:
        data = encode_column(column)
        out.append(same_as(columns.index(data)) if data in columns else data)
        columns.append(data)
    return b"".join(out)


def decode_rows(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of ``schema`` from bytes.

    Raises PeerProtocolError if the bytes are not that.
    """
    if not data:
        return empty_batch(schema)
    reader = RowsReader(data)
    rows = reader.read(schema)
    reader.check_empty()
    return rows


class RowsReader:
    """Batches of rows, one behind the other, from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._room = Room()

    def read(self, schema: pa.Schema, among: int = 0) -> pa.RecordBatch:
        """The next batch, which has rows; they will be spread among so many, if those are more.

        Raises PeerProtocolError if the bytes are not that.
        """
        count, at = decode_varint(self._data, self._at)
        if count == 0:
            raise PeerProtocolError("rows require at least one row when bytes are sent; got 0")
        if not fits(count, len(schema)):
            raise PeerProtocolError(f"rows require at most {ROWS_MAX} and {VALUES_MAX} values; got {count} rows")
        reader = ColumnReader(self._data, at, count, self._room)
        try:
            self._room.charge(rows_bytes(schema, max(count, among)), f"columns {schema.names}")
            columns = [reader.read(field.type) for field in schema]
            rows = pa.RecordBatch.from_arrays(columns, schema=schema)
            rows.validate(full=True)
        except PeerProtocolError as error:
            raise PeerProtocolError(f"rows require columns {schema.names}; got bytes that are not: {error}") from None
        except (pa.ArrowException, ValueError, OSError, EOFError, StopIteration) as error:
            raise PeerProtocolError(f"rows require columns {schema.names}; got bytes that are not: {error}") from error
        self._at = reader.at
        return rows

    def check_empty(self) -> None:
        """Raises PeerProtocolError if there is more."""
        if self._at != len(self._data):
            over = len(self._data) - self._at
            raise PeerProtocolError(f"rows require their own bytes; got {over} bytes too many")


def fits(rows: int, columns: int) -> bool:
    """Whether so many rows of so many columns may travel at once."""
    return rows <= ROWS_MAX and rows * columns <= VALUES_MAX


def check_fits(rows: int, columns: int, nbytes: int) -> None:
    """Raises TooManyRowsError unless so many rows of so many columns, with so many bytes, may travel at once."""
    if not fits(rows, columns):
        raise TooManyRowsError(
            f"rows of one message require at most {ROWS_MAX} and {VALUES_MAX} values; got {rows} rows of {columns} "
            f"columns: a smaller tau or window makes smaller batches"
        )
    if nbytes > SENT_BYTES_MAX:
        raise TooManyRowsError(
            f"rows of one message require at most {SENT_BYTES_MAX} bytes; got {nbytes} in {rows} rows of {columns} "
            f"columns: a smaller tau or window makes smaller batches"
        )


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """No rows of ``schema``."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
