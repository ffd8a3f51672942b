"""What runs in Spark's Python workers: the partitions a worker holds, and the task that works on one of them.

A worker process lives for many jobs (``spark.python.worker.reuse``), so what this module holds is there again in
the next one. It is a copy of what the log says, never the only one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from node.core.engine import Append, CloseTable, Expire, Op, OpenIndex, OpenTable, Outcome, Question
from node.engine.native import NativeEngine
from spark_jobs.engine.channel import Address, Channel, connect
from spark_jobs.engine.exchange import NOTHING, WORK
from spark_jobs.engine.packing import Message, Numbered, pack_rows, together, unpack_ops, unpack_rows

#: A copy that was not asked for in so many jobs belongs to somebody else now, and takes memory for nothing.
STALE_JOBS = 32


@dataclass(slots=True)
class Partition:
    """One partition of all stores, as it is after some job."""

    job: int = NOTHING
    engine: NativeEngine = field(default_factory=NativeEngine)
    stores: set[str] = field(default_factory=set)
    #: Stores that lack something, and why. Whoever asks them is told.
    broken: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Copies:
    """What this process holds of one engine's stores."""

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

    First a list of the stores that are open, then rows, then the bounds before which all is expired.
    """
    while True:
        (what, content), bodies = channel.receive()
        if what == WORK:
            return unpack_ops(content, bodies)
        if what == "stores":
            _open_and_close(part, content)
        elif what == "rows":
            _run(part, [Append(content, rows) for rows in together([unpack_rows(body) for body in bodies])])
        else:
            _run(part, [Expire(store, before) for store, before in content])


def _open_and_close(part: Partition, openings: Sequence[tuple[OpenTable, OpenIndex]]) -> None:
    names = {op.table for op, _ in openings}
    _run(part, [CloseTable(store) for store in sorted(part.stores - names)])
    for opening in openings:
        if opening[0].table not in part.stores:
            _run(part, opening)


def perform(part: Partition, work: Sequence[Numbered]) -> Message:
    """Do the operations, all at once so that questions are answered together; the message with the answers.

    A question that fails is the failure of whoever asked it, not of the job.
    """
    failed: dict[int, str] = {}
    numbers: list[int] = []
    bodies: list[memoryview] = []
    outcomes = _run(part, [numbered.op for numbered in work])
    for numbered, outcome in zip(work, outcomes, strict=True):
        if isinstance(numbered.op, Question):
            try:
                bodies.append(pack_rows(_answer(outcome)))
                numbers.append(numbered.number)
            except Exception as error:  # whatever it is, it belongs to that question
                failed[numbered.number] = f"{type(error).__name__}: {error}"
    touched = sorted({numbered.op.table for numbered in work} & part.stores)
    sizes = {store: (part.engine.rows(store), part.engine.nbytes(store)) for store in touched}
    return Message((numbers, failed, sizes), bodies)


def _answer(outcome: Outcome) -> pa.RecordBatch:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _run(part: Partition, ops: Sequence[Op]) -> list[Outcome]:
    """Do operations. A change that fails leaves a store that nobody may ask any more, not even later in these."""
    outcomes = part.engine.run(ops)
    for place, (op, outcome) in enumerate(zip(ops, outcomes, strict=True)):
        if isinstance(outcome, MemoryError):
            raise outcome  # another try, in another worker, may do better
        if isinstance(op, Question):
            if op.table in part.broken:
                outcomes[place] = ValueError(f"the table lacks rows that it should have: {part.broken[op.table]}")
        elif isinstance(outcome, Exception):
            part.broken[op.table] = f"{type(outcome).__name__}: {outcome}"
        elif isinstance(op, OpenTable):
            part.stores.add(op.table)
        if isinstance(op, CloseTable):
            part.stores.discard(op.table)
            part.broken.pop(op.table, None)
    return outcomes
