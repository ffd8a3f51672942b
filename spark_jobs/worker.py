"""What runs in Spark's Python workers: the partitions a worker holds, and the task that works on one of them.

A worker process lives for many jobs (``spark.python.worker.reuse``), so what this module holds is there again in
the next one. It is a copy of what the log says, never the only one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection

import pyarrow as pa

from node.core.engine import Append, CloseWindow, Expire, OpenWindow
from node.engine.native import NativeEngine
from spark_jobs.exchange import NOTHING, without_delay
from spark_jobs.packing import Numbered, pack, pack_rows, unpack, unpack_ops, unpack_rows

Address = str | tuple[str, int]


@dataclass(slots=True)
class Partition:
    """One partition of all windows, as it is after some job."""

    job: int = NOTHING
    engine: NativeEngine = field(default_factory=NativeEngine)
    windows: set[str] = field(default_factory=set)


_held: dict[tuple[Address, int], Partition] = {}
_links: dict[tuple[Address, int], Connection] = {}


@dataclass(frozen=True, slots=True)
class Task:
    """The task of every job: take partitions until there are none left, and say how many they were."""

    address: Address
    secret: bytes

    def __call__(self, _: Iterable[int]) -> Iterable[int]:
        link = _link(self.address, self.secret)
        try:
            yield _take_all(self.address, link)
        except BaseException:
            # What is half done must not be taken for done.
            _forget(self.address)
            raise


def _link(address: Address, secret: bytes) -> Connection:
    """The connection of this process; a forked one must not use its parent's."""
    me = address, os.getpid()
    link = _links.get(me)
    if link is None:
        link = _links[me] = Client(address, authkey=secret)
        without_delay(link)
    return link


def _forget(address: Address) -> None:
    _held.clear()
    link = _links.pop((address, os.getpid()), None)
    if link is not None:
        link.close()


def _take_all(address: Address, link: Connection) -> int:
    taken = 0
    while True:
        link.send_bytes(pack({number: part.job for (owner, number), part in _held.items() if owner == address}))
        given, _ = unpack(link.recv_bytes())
        if given is None:
            return taken
        number, start, job = given
        part = _held.pop((address, number), None)
        if part is None or start == NOTHING:
            part = Partition()
        catch_up(part, link)
        answer, intact = perform(part, unpack_ops(link.recv_bytes()))
        part.job = job
        if intact:
            _held[address, number] = part
        link.send_bytes(answer)
        taken += 1


def catch_up(part: Partition, link: Connection) -> None:
    """Take what the log has beyond this partition's state.

    First a list of the windows that are open, then rows, then the bounds before which all is expired.
    """
    while True:
        head, bodies = unpack(link.recv_bytes())
        if head == "now":
            return
        what, content = head
        if what == "windows":
            _open_and_close(part, content)
        elif what == "rows":
            rows = [unpack_rows(body) for body in bodies]
            part.engine.run([Append(content, rows[0] if len(rows) == 1 else pa.concat_batches(rows))])
        else:
            part.engine.run([Expire(window, before) for window, before in content])


def _open_and_close(part: Partition, opens: list[OpenWindow]) -> None:
    names = {op.window for op in opens}
    part.engine.run([CloseWindow(window) for window in sorted(part.windows - names)])
    part.engine.run([op for op in opens if op.window not in part.windows])
    part.windows = names


def perform(part: Partition, ops: list[Numbered]) -> tuple[bytes, bool]:
    """Do the operations; the message with the answers, and whether the partition is what the log says it should be.

    A group that fails is the failure of its query, not of the job.
    """
    failed: dict[int, str] = {}
    head: list[tuple[int, int]] = []
    bodies: list[memoryview] = []
    for group, neighbours in _neighbours(ops):
        members = [numbered for numbered in neighbours if group not in failed or isinstance(numbered.op, CloseWindow)]
        try:
            answers = part.engine.run([numbered.op for numbered in members])
        except Exception as error:  # whatever it is, it belongs to that query
            failed[group] = f"{type(error).__name__}: {error}"
            continue
        bodies += [pack_rows(rows) for rows in answers]
        head.append((group, len(answers)))
        _note_windows(part, members)
    sizes = {window: (part.engine.rows(window), part.engine.nbytes(window)) for window in sorted(part.windows)}
    return pack((head, failed, sizes), bodies), not failed


def _neighbours(ops: list[Numbered]) -> Iterator[tuple[int, list[Numbered]]]:
    start = 0
    for place in range(1, len(ops) + 1):
        if place == len(ops) or ops[place].group != ops[start].group:
            yield ops[start].group, ops[start:place]
            start = place


def _note_windows(part: Partition, members: list[Numbered]) -> None:
    for numbered in members:
        if isinstance(numbered.op, OpenWindow):
            part.windows.add(numbered.op.window)
        elif isinstance(numbered.op, CloseWindow):
            part.windows.discard(numbered.op.window)
