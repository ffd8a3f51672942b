"""All other types: Arrow's own format for that column."""

from __future__ import annotations

import pyarrow as pa

from node.core.encoding.columns.arrow_messages import charge_views, check_plain
from node.core.encoding.columns.layout import Layout, Piece, Tag
from node.core.encoding.varint import decode_varint, encode_varint
from node.core.errors import PeerProtocolError


def _encode_other(column: pa.Array) -> tuple[int, bytes]:
    batch = pa.RecordBatch.from_arrays([column], schema=_schema(column.type))
    if _has_dictionary(column.type):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
    else:
        data = batch.serialize()
    return Tag.PLAIN, encode_varint(data.size) + data.to_pybytes()


def _decode_other(piece: Piece) -> tuple[pa.Array, int]:
    piece.check_tag(Tag.PLAIN)
    if piece.valid is not None:
        raise PeerProtocolError(f"a column of type {piece.kind} requires its own marks of what is missing; got ours")
    size, at = decode_varint(piece.data, piece.at)
    data = pa.py_buffer(piece.bytes_at(at, size))
    schema = _schema(piece.kind)
    if _has_dictionary(piece.kind):
        for message in pa.ipc.MessageReader.open_stream(data):
            check_plain(message)
        reader = pa.ipc.open_stream(data)
        if not reader.schema.equals(schema):
            raise PeerProtocolError(f"a column requires type {piece.kind}; got {reader.schema}")
        batch = reader.read_next_batch()
    else:
        check_plain(pa.ipc.read_message(data))
        batch = pa.ipc.read_record_batch(data, schema)
    if batch.num_rows != piece.count:
        raise PeerProtocolError(f"a column requires {piece.count} rows; got {batch.num_rows}")
    piece.room.charge(size, f"a column of type {piece.kind}")
    column = batch.column(0)
    # Its views are read below, before the rows are checked as a whole.
    column.validate(full=True)
    charge_views(column, piece.room)
    return column, at + size


def _schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("", kind)])


def _has_dictionary(kind: pa.DataType) -> bool:
    """Arrow keeps dictionaries apart from batches, so such columns need a whole stream."""
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(number).type) for number in range(kind.num_fields))


OTHER = Layout(_encode_other, _decode_other)
