"""Operations and answers as messages between the daemon and Spark's Python workers: a small head, Arrow IPC streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from node.core.encoding import payload
from node.core.engine import Append, Find, Op, Probe
from spark_jobs.engine.channel import Body


@dataclass(frozen=True, slots=True)
class Numbered:
    """An operation of a job. Questions have a number of their own, by which they are answered; changes need none."""

    number: int
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


def together(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """The batches as one, if there is any, and if Arrow can do that for their types."""
    try:
        return [payload.concat(batches)] if batches else []
    except pa.ArrowNotImplementedError:
        return batches


def pack_ops(ops: Sequence[tuple[Numbered, memoryview | None]]) -> Message:
    """Operations; those with rows come without them, with their packed rows beside."""
    head = [(numbered.number, numbered.op, rows is not None) for numbered, rows in ops]
    return Message(head, [rows for _, rows in ops if rows is not None])


def unpack_ops(head: Sequence[tuple[int, Op, bool]], bodies: Sequence[Body]) -> list[Numbered]:
    """What ``pack_ops`` packed, whole again."""
    remaining = iter(bodies)
    return [Numbered(number, with_rows(op, unpack_rows(next(remaining))) if rows else op) for number, op, rows in head]


def without_rows(op: Probe | Find, table: str) -> Op:
    """The operation on a table of another name, without the rows that it brings."""
    if isinstance(op, Find):
        return dataclasses.replace(op, table=table, wanted=None)
    return dataclasses.replace(op, table=table, rows=None)


def with_rows(op: Op, rows: pa.RecordBatch) -> Op:
    """The operation with the rows that it brings."""
    match op:
        case Append() | Probe():
            return dataclasses.replace(op, rows=rows)
        case Find():
            return dataclasses.replace(op, wanted=rows)
        case _:
            raise ValueError(f"{type(op).__name__} brings no rows")
