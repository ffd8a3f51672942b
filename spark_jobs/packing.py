"""Operations and answers as messages between the daemon and Spark's Python workers: a small head, Arrow IPC streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from node.core.engine import Append, CloseWindow, Expire, Find, Op, OpenWindow, Probe
from spark_jobs.channel import Body


@dataclass(frozen=True, slots=True)
class Numbered:
    """An operation of a job. What fails together has the same group."""

    group: int
    op: Op


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent at once."""

    head: object
    bodies: Sequence[Body] = ()


def pack_rows(rows: pa.RecordBatch) -> memoryview:
    """Rows with their schema, because a log of them must be readable by itself."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_batch(rows)
    return memoryview(stream.getvalue())


def unpack_rows(body: Body) -> pa.RecordBatch:
    """What ``pack_rows`` packed."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_next_batch()


def pack_ops(ops: Sequence[tuple[Numbered, memoryview | None]]) -> Message:
    """Operations; those with rows come without them, with their packed rows beside."""
    head = [(numbered.group, numbered.op, rows is not None) for numbered, rows in ops]
    return Message(head, [rows for _, rows in ops if rows is not None])


def unpack_ops(head: Sequence[tuple[int, Op, bool]], bodies: Sequence[Body]) -> list[Numbered]:
    """What ``pack_ops`` packed, whole again."""
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
