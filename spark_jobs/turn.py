"""A job that is being put together: what each partition has to do, and which answer belongs to which question."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from node.core import keycodes
from node.core.engine import Op, OpenWindow
from node.core.hashing import I64
from spark_jobs.append_log import WindowLog
from spark_jobs.exchange import Answer
from spark_jobs.packing import Message, Numbered, pack_ops, pack_rows, unpack_rows
from spark_jobs.partitions import picked


@dataclass(slots=True)
class WindowParts:
    """What the daemon knows of a window."""

    uid: str
    #: As the workers know it.
    op: OpenWindow
    log: WindowLog
    #: The job that opens it.
    opened: int
    #: What is before it is expired, as of the last job.
    before: int
    #: Rows and bytes in each partition, as of the last job, and all together.
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    total: tuple[int, int] = (0, 0)
    #: Why nobody may ask it any more, if so.
    broken: str | None = None

    def note(self, partition: int, size: tuple[int, int]) -> None:
        """Take the size of a partition; others may read the total meanwhile."""
        self.sizes[partition] = size
        self.total = sum(rows for rows, _ in self.sizes.values()), sum(nbytes for _, nbytes in self.sizes.values())


@dataclass(slots=True)
class Asked:
    """A question, and what of its rows went where."""

    group: int
    schema: pa.Schema
    is_find: bool = False
    #: Which of its rows each partition was asked for.
    places: dict[int, I64] = field(default_factory=dict)
    answers: dict[int, pa.RecordBatch] = field(default_factory=dict)

    def whole(self) -> pa.RecordBatch:
        """The answers of all partitions as one, in their order."""
        parts = [self.answers[number] for number in sorted(self.answers)]
        if not parts:
            return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in self.schema.types], schema=self.schema)
        filled = [part for part in parts if part.num_rows] or parts[:1]
        return filled[0] if len(filled) == 1 else pa.concat_batches(filled)


class Turn:
    """Operations in order, until somebody asks something."""

    def __init__(self, partitions: int) -> None:
        self._ops: list[list[tuple[Numbered, memoryview | None]]] = [[] for _ in range(partitions)]
        #: For each partition and group the questions it was sent, in order.
        self._sent: list[defaultdict[int, deque[Asked]]] = [defaultdict(deque) for _ in range(partitions)]
        self._groups = 0
        self.expired: dict[str, int] = {}
        self.closed: list[WindowParts] = []
        #: Groups that wait for an answer of Spark.
        self.asking: set[int] = set()
        #: Bytes of rows that wait.
        self.nbytes = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not any(self._ops)

    def new_group(self) -> int:
        """A number for operations that fail together."""
        self._groups += 1
        return self._groups

    def tell_all(self, group: int, bare: Op) -> None:
        """An operation without rows, for every partition."""
        for ops in self._ops:
            ops.append((Numbered(group, bare), None))

    def tell(self, partition: int, group: int, bare: Op, packed: memoryview) -> None:
        """An operation with rows, for one partition."""
        self._ops[partition].append((Numbered(group, bare), packed))
        self.nbytes += len(packed)

    def ask(self, bare: Op, rows: pa.RecordBatch, split: Sequence[I64], asked: Asked) -> None:
        """A question with its rows, for the partitions that may know."""
        packed = {number: pack_rows(picked(rows, places)) for number, places in enumerate(split) if len(places)}
        for number, body in packed.items():
            self.asking.add(asked.group)
            asked.places[number] = split[number]
            self._sent[number][asked.group].append(asked)
            self.tell(number, asked.group, bare, body)

    def work(self) -> list[Message]:
        """What each partition has to do."""
        return [pack_ops(ops) for ops in self._ops]

    def sort(self, partition: int, answer: Answer) -> tuple[dict[int, str], dict[str, tuple[int, int]]]:
        """Give the questions their answers; the groups that failed, with reasons, and the sizes of windows."""
        (head, failed, sizes), bodies = answer
        remaining = iter(bodies)
        for group, count in head:
            for _ in range(count):
                asked = self._sent[partition][group].popleft()
                rows = unpack_rows(next(remaining))
                asked.answers[partition] = _renumbered(rows, asked.places[partition]) if asked.is_find else rows
        return failed, sizes


def _renumbered(rows: pa.RecordBatch, places: I64) -> pa.RecordBatch:
    """The answer of a Find by the numbers of the keys as they were asked for."""
    last = rows.num_columns - 1
    numbers = pa.array(places[keycodes.integers(rows.column(last))])
    return pa.RecordBatch.from_arrays([*rows.columns[:last], numbers], schema=rows.schema)
