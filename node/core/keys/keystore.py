"""Key values by slot, one store per key column.

A slot is a small number that its user gives out and takes back. Each store keeps
the value of every live slot and gives values back as an Arrow column; strings
are large ones, whatever they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.core.keys.hashing import I64
from node.core.keys.keycodes import cells, from_integers, integers, is_fixed, is_whole, strings

_ROOM_MIN = 16


def large(kind: pa.DataType) -> pa.DataType:
    """The type of a family in which it is stored and compared, if it makes a difference to Arrow."""
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) else kind


def plain(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The columns, strings as large ones: Arrow cannot take rows of views, nor compare types that differ."""
    return [column.cast(large(column.type)) for column in columns]


def take(columns: Sequence[pa.Array], rows: I64) -> list[pa.Array]:
    """Some rows of plain columns."""
    places = pa.array(rows)
    return [column.take(places) for column in columns]


def with_room(values: NDArray[Any], count: int) -> NDArray[Any]:
    """The array if it has ``count`` rows, else a longer copy."""
    if len(values) >= count:
        return values
    longer = np.zeros((max(count, len(values) * 3 // 2, _ROOM_MIN), *values.shape[1:]), dtype=values.dtype)
    longer[: len(values)] = values
    return longer


class Cells:
    """A column of values of fixed width: an array with the slot as index."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._whole = is_whole(kind)
        self._values: NDArray[Any] = (
            np.empty(0, dtype=np.int64) if self._whole else np.empty((0, kind.byte_width), dtype=np.uint8)
        )

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def put(self, slots: I64, column: pa.Array, capacity: int) -> None:
        self._values = with_room(self._values, capacity)
        self._values[slots] = integers(column) if self._whole else cells(column)

    def drop(self, slots: I64) -> None:
        """Nothing to do: the next user of a slot takes over its memory."""

    def take(self, slots: I64) -> pa.Array:
        values = self._values[slots]
        if self._whole:
            return from_integers(values, self._kind)
        return pa.Array.from_buffers(self._kind, len(slots), [None, pa.py_buffer(values)])


class Log:
    """A column of strings: entries one behind the other, as Arrow has large ones, and the entry of each slot.

    New entries go to the end. When there is no room left, the live entries move to a
    log of twice the room they and the new ones need: work and memory stay in
    proportion to what is put in and to what is live.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = large(kind)
        self._entries = np.empty(0, dtype=np.int32)
        self._count = self._live = self._live_bytes = 0
        self._make_room(0, 0)

    @property
    def nbytes(self) -> int:
        return self._entries.nbytes + self._owners.nbytes + self._offsets.nbytes + self._data.nbytes

    def put(self, slots: I64, column: pa.Array, capacity: int) -> None:
        data, offsets = strings(column)
        self._entries = with_room(self._entries, capacity)
        if self._count + len(slots) > len(self._owners) or self._offsets[self._count] + len(data) > len(self._data):
            self._repack(len(slots), len(data))
        first, end = self._count, self._count + len(slots)
        start = int(self._offsets[first])
        self._data[start : start + len(data)] = data
        self._offsets[first + 1 : end + 1] = offsets[1:] + start
        self._owners[first:end] = slots
        self._entries[slots] = np.arange(first, end, dtype=np.int32)
        self._count, self._live, self._live_bytes = end, self._live + len(slots), self._live_bytes + len(data)

    def drop(self, slots: I64) -> None:
        entries = self._entries[slots]
        self._live -= len(slots)
        self._live_bytes -= int((self._offsets[entries + 1] - self._offsets[entries]).sum())
        self._entries[slots] = -1
        if self._is_hollow():
            self._repack(0, 0)

    def take(self, slots: I64) -> pa.Array:
        return self._values(self._entries[slots])

    def _values(self, entries: NDArray[np.int32] | I64) -> pa.Array:
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(self._kind, self._count, buffers).take(pa.array(entries))

    def _is_hollow(self) -> bool:
        room, room_bytes = self._room(self._live, self._live_bytes)
        return len(self._owners) > 4 * room or len(self._data) > 4 * room_bytes

    def _repack(self, more: int, more_bytes: int) -> None:
        """Move the live entries to a log that has room for so many more."""
        owners = self._owners[: self._count]
        living = np.flatnonzero(self._entries[owners] == np.arange(self._count, dtype=np.int32))
        data, offsets = strings(self._values(living))
        owners = owners[living]
        self._make_room(self._live + more, self._live_bytes + more_bytes)
        self._count = len(living)
        self._data[: len(data)] = data
        self._offsets[: len(offsets)] = offsets
        self._owners[: len(owners)] = owners
        self._entries[owners] = np.arange(len(owners), dtype=np.int32)

    def _make_room(self, count: int, count_bytes: int) -> None:
        room, room_bytes = self._room(count, count_bytes)
        self._owners = np.zeros(room, dtype=np.int32)
        self._offsets = np.zeros(room + 1, dtype=np.int64)
        self._data = np.zeros(room_bytes, dtype=np.uint8)

    @staticmethod
    def _room(count: int, count_bytes: int) -> tuple[int, int]:
        """Some bytes for each entry too: filling them must be worth moving all entries, however short those are."""
        room = 2 * count + _ROOM_MIN
        return room, 2 * count_bytes + 4 * room


Store = Cells | Log


def store(kind: pa.DataType) -> Store:
    """An empty store for a key column."""
    return Cells(kind) if is_whole(kind) or is_fixed(kind) else Log(kind)
