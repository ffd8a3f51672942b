"""What runs in Spark's Python workers: the partitions a worker holds, and the task that works on one of them.

A worker process lives for many jobs (``spark.python.worker.reuse``), so what this module holds is there again in
the next one. It is a copy of what the log says, never the only one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from node.core.engine import Append, CloseWindow, Expire, Op, OpenWindow, Question
from node.engine.native import NativeEngine
from spark_jobs.channel import Address, Channel, connect
from spark_jobs.exchange import NOTHING, WORK
from spark_jobs.packing import Message, Numbered, pack_rows, unpack_ops, unpack_rows

#: A copy that was not asked for in so many jobs belongs to somebody else now, and takes memory for nothing.
STALE_JOBS = 32


@dataclass(slots=True)
class Partition:
    """One partition of all windows, as it is after some job."""

    job: int = NOTHING
    engine: NativeEngine = field(default_factory=NativeEngine)
    windows: set[str] = field(default_factory=set)
    #: Windows that lack something, and why. Whoever asks them is told.
    broken: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Copies:
    """What this process holds of one engine's windows."""

    owner: tuple[Address, int]
    channel: Channel
    partitions: dict[int, Partition] = field(default_factory=dict)


#: None or one: an engine that is new takes the place of the one before.
_copies: list[_Copies] = []


@dataclass(frozen=True, slots=True)
class Task:
    """The task of every job: work on one partition, if there is one left."""

    address: Address
    secret: bytes

    def __call__(self, _: Iterable[int]) -> Iterable[int]:
        copies = _copies_of(self.address, self.secret)
        try:
            yield _take_one(copies)
        except BaseException:
            # What is half done must not be taken for done.
            _forget()
            raise


def _copies_of(address: Address, secret: bytes) -> _Copies:
    # A forked process must not use the connection of its parent.
    owner = address, os.getpid()
    if not _copies or _copies[0].owner != owner:
        _forget()
        _copies.append(_Copies(owner, connect(address, secret)))
    return _copies[0]


def _forget() -> None:
    while _copies:
        _copies.pop().channel.close()


def _take_one(copies: _Copies) -> int:
    held, channel = copies.partitions, copies.channel
    channel.send({number: part.job for number, part in held.items()})
    given, _ = channel.receive()
    if given is None:
        return 0
    number, start, job = given
    part = held.pop(number, None)
    if part is None or start == NOTHING:
        part = Partition()
    work = catch_up(part, channel)
    answer = perform(part, work)
    part.job = job
    held[number] = part
    channel.send(answer.head, answer.bodies)
    # The task must not be over before its answer is taken: the daemon would think there is none.
    channel.receive()
    for other in [other for other, copy in held.items() if copy.job < job - STALE_JOBS]:
        del held[other]
    return 1


def catch_up(part: Partition, channel: Channel) -> list[Numbered]:
    """Take what the log has beyond this partition's state, up to the work that comes after it.

    First a list of the windows that are open, then rows, then the bounds before which all is expired.
    """
    while True:
        (what, content), bodies = channel.receive()
        if what == WORK:
            return unpack_ops(content, bodies)
        if what == "windows":
            _open_and_close(part, content)
        elif what == "rows":
            _append_all(part, content, [unpack_rows(body) for body in bodies])
        else:
            for window, before in content:
                _change(part, Expire(window, before))


def _append_all(part: Partition, window: str, batches: Sequence[pa.RecordBatch]) -> None:
    with contextlib.suppress(pa.ArrowNotImplementedError):  # for some types there is no such thing; one by one will do
        batches = [pa.concat_batches(batches)]
    for rows in batches:
        _change(part, Append(window, rows))


def _open_and_close(part: Partition, opens: Sequence[OpenWindow]) -> None:
    names = {op.window for op in opens}
    for window in sorted(part.windows - names):
        _change(part, CloseWindow(window))
    for op in opens:
        if op.window not in part.windows:
            _change(part, op)


def perform(part: Partition, work: Sequence[Numbered]) -> Message:
    """Do the operations; the message with the answers.

    A group whose question fails is the failure of its query, not of the job. What it changes is changed all the
    same: the log has it, others may ask for it.
    """
    failed: dict[int, str] = {}
    head: list[tuple[int, int]] = []
    bodies: list[memoryview] = []
    for group, ops in _neighbours(work):
        if not isinstance(ops[0], Question):
            for op in ops:
                _change(part, op)
        elif group not in failed:
            try:
                answers = [pack_rows(rows) for rows in _ask(part, ops)]
            except MemoryError:
                raise  # another try, in another worker, may do better
            except Exception as error:  # whatever it is, it belongs to that query
                failed[group] = f"{type(error).__name__}: {error}"
            else:
                bodies += answers
                head.append((group, len(answers)))
    touched = sorted({numbered.op.window for numbered in work} & part.windows)
    sizes = {window: (part.engine.rows(window), part.engine.nbytes(window)) for window in touched}
    return Message((head, failed, sizes), bodies)


def _ask(part: Partition, ops: Sequence[Op]) -> list[pa.RecordBatch]:
    for op in ops:
        if op.window in part.broken:
            raise ValueError(f"the window lacks rows that it should have: {part.broken[op.window]}")
    return part.engine.run(ops)


def _change(part: Partition, op: Op) -> None:
    """Operations without an answer. One that fails leaves a window that nobody may ask any more."""
    try:
        part.engine.run([op])
    except MemoryError:
        raise
    except Exception as error:
        part.broken[op.window] = f"{type(error).__name__}: {error}"
    else:
        if isinstance(op, OpenWindow):
            part.windows.add(op.window)
    if isinstance(op, CloseWindow):
        part.windows.discard(op.window)
        part.broken.pop(op.window, None)


def _neighbours(work: Sequence[Numbered]) -> Iterator[tuple[int, list[Op]]]:
    """Neighbours of one group, questions and changes apart."""
    start = 0
    for place in range(1, len(work) + 1):
        if place == len(work) or _kind(work[place]) != _kind(work[start]):
            yield work[start].group, [numbered.op for numbered in work[start:place]]
            start = place


def _kind(numbered: Numbered) -> tuple[int, bool]:
    return numbered.group, isinstance(numbered.op, Question)
