"""Arrow's own messages, read only as far as to know that they do not become more than they are.

A message whose buffers are compressed names the size of each, and Arrow takes the memory before it looks. Our own are
never compressed: links do that. A text view may name the same bytes for every row, and those are copied later.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from node.core.encoding.room import Room
from node.core.errors import PeerProtocolError

#: Fields of Arrow's Message, RecordBatch and DictionaryBatch, by their place in the format's tables.
_HEADER = 2
_COMPRESSION = 3
_DICTIONARY_ROWS = 1


def check_plain(message: pa.Message) -> None:
    """Raises PeerProtocolError if the buffers of a message are compressed."""
    data = memoryview(message.metadata)
    try:
        table = _field(data, _read("<I", data, 0), _HEADER)
        if table is not None and message.type == "dictionary":
            table = _field(data, table, _DICTIONARY_ROWS)
        compressed = message.type in ("record batch", "dictionary") and (
            table is None or _field(data, table, _COMPRESSION) is not None
        )
    except struct.error:
        compressed = True
    if compressed:
        raise PeerProtocolError("a column requires buffers that are not compressed; got compressed ones")


def charge_views(column: pa.Array, room: Room) -> None:
    """Charge what the views of a column, or in it, will take once each has bytes of its own."""
    types, kind = pa.types, column.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        views = column.buffers()[1]
        sizes = np.frombuffer(views, "<i4")[::4][column.offset : column.offset + len(column)]
        room.charge(int(sizes.astype(np.int64).clip(0).sum()), f"a column of type {kind}")
    elif types.is_struct(kind):
        for number in range(kind.num_fields):
            charge_views(column.field(number), room)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind) or types.is_fixed_size_list(kind):
        charge_views(column.values, room)
    elif types.is_run_end_encoded(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        raise PeerProtocolError(f"a column requires a place for each value; got one of type {kind}")


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Where the table is that a field of the table at ``table`` refers to; None if it has no such field."""
    layout = table - _read("<i", data, table)
    place = 4 + 2 * number
    if place >= _read("<H", data, layout):
        return None
    offset = _read("<H", data, layout + place)
    return table + offset + _read("<I", data, table + offset) if offset else None


def _read(form: str, data: memoryview, at: int) -> int:
    """Raises struct.error outside of the data."""
    if at < 0:
        raise struct.error(f"a message requires places from 0 on; got {at}")
    return int(struct.unpack_from(form, data, at)[0])
