"""Operations and answers as bytes, between the daemon and Spark's Python workers.

A message is a small pickled head and Arrow IPC streams. It travels only on the exchange, where both ends
have proved that they know the secret, so unpickling is no more than running our own code.
"""

from __future__ import annotations

import dataclasses
import pickle
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from node.core.engine import Append, CloseWindow, Expire, Find, Op, OpenWindow, Probe

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Numbered:
    """An operation of a job. What fails together has the same group."""

    group: int
    op: Op


def pack(head: object, bodies: Sequence[bytes | memoryview] = ()) -> bytes:
    """A message of a head and some bodies."""
    first = pickle.dumps(head, protocol=5)
    lengths = [_LENGTH.pack(len(part)) for part in (first, *bodies)]
    return b"".join((_COUNT.pack(1 + len(bodies)), *lengths, first, *bodies))


def unpack(message: bytes) -> tuple[Any, list[memoryview]]:
    """The head and the bodies of a message."""
    view = memoryview(message)
    (count,) = _COUNT.unpack_from(view)
    start = _COUNT.size + count * _LENGTH.size
    parts = []
    for number in range(count):
        (length,) = _LENGTH.unpack_from(view, _COUNT.size + number * _LENGTH.size)
        parts.append(view[start : start + length])
        start += length
    return pickle.loads(parts[0]), parts[1:]  # noqa: S301 - both ends know the secret


def pack_rows(rows: pa.RecordBatch) -> memoryview:
    """Rows with their schema, because a log of them must be readable by itself."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_batch(rows)
    return memoryview(stream.getvalue())


def unpack_rows(body: bytes | memoryview) -> pa.RecordBatch:
    """What ``pack_rows`` packed."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_next_batch()


def pack_ops(ops: Sequence[tuple[Numbered, memoryview | None]]) -> bytes:
    """Operations; those with rows come without them, with their packed rows beside."""
    bodies = [rows for _, rows in ops if rows is not None]
    return pack([(numbered.group, numbered.op, rows is not None) for numbered, rows in ops], bodies)


def unpack_ops(message: bytes) -> list[Numbered]:
    """What ``pack_ops`` packed, whole again."""
    head, bodies = unpack(message)
    remaining = iter(bodies)
    return [Numbered(group, with_rows(op, unpack_rows(next(remaining))) if rows else op) for group, op, rows in head]


def without_rows(op: Op, window: str) -> Op:
    """The operation on a window of another name, without the rows that it brings."""
    match op:
        case Append() | Probe():
            return dataclasses.replace(op, window=window, rows=None)
        case Find():
            return dataclasses.replace(op, window=window, keys=None)
        case OpenWindow() | Expire() | CloseWindow():
            return dataclasses.replace(op, window=window)


def with_rows(op: Op, rows: pa.RecordBatch) -> Op:
    """The operation with the rows that it brings."""
    match op:
        case Append() | Probe():
            return dataclasses.replace(op, rows=rows)
        case Find():
            return dataclasses.replace(op, keys=rows)
        case _:
            raise ValueError(f"{type(op).__name__} brings no rows")
