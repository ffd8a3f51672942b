"""Rows on the wire: Arrow record batches without their schema, which both ends derive from the plan.

What a peer sends is never trusted. The frame's checksum has caught accidents;
here the structure is validated in full, because a damaged Arrow buffer that is
used unchecked can crash the process.
"""

from __future__ import annotations

import pyarrow as pa

from node.core.errors import PeerProtocolError


def encode_rows(rows: pa.RecordBatch) -> bytes:
    """The rows as bytes; no rows are no bytes."""
    if rows.num_rows == 0:
        return b""
    return rows.serialize().to_pybytes()  # type: ignore[no-any-return]


def decode_rows(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of ``schema`` from bytes.

    Raises PeerProtocolError if the bytes are not that.
    """
    if not data:
        return empty_batch(schema)
    try:
        rows = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
        rows.validate(full=True)
    except (pa.ArrowException, ValueError, OSError, EOFError) as error:
        raise PeerProtocolError(f"rows require columns {schema.names}; got bytes that are not: {error}") from error
    if rows.num_rows == 0:
        raise PeerProtocolError("rows require at least one row when bytes are sent; got 0")
    return rows


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """No rows of ``schema``."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def encoded_size(rows: pa.RecordBatch) -> int:
    """How many bytes ``encode_rows`` would give, without encoding."""
    return pa.ipc.get_record_batch_size(rows) if rows.num_rows else 0
