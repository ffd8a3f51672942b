"""A job that is being put together: what each partition has to do, and which answer belongs to which question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from node.core.engine import Append, CloseTable, Expire, Find, Op
from node.core.keys import keycodes
from node.core.keys.hashing import I64
from spark_jobs.engine.exchange import Answer
from spark_jobs.engine.packing import Message, Numbered, pack_ops, pack_rows, unpack_rows
from spark_jobs.engine.partitions import picked
from spark_jobs.engine.stores import LEAST, Store


@dataclass(slots=True)
class Asked:
    """A question, and what of its rows went where."""

    number: int
    schema: pa.Schema
    is_find: bool = False
    #: Which of its rows each partition was asked for.
    places: dict[int, I64] = field(default_factory=dict)
    answers: dict[int, pa.RecordBatch] = field(default_factory=dict)
    #: Why it has no answer, if so.
    failed: Exception | None = None

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
        #: Questions that wait for an answer of Spark, by their numbers.
        self.asking: dict[int, Asked] = {}
        self._asked = 0
        self.expired: dict[str, int] = {}
        self.closed: list[Store] = []
        #: Bytes of rows that wait.
        self.nbytes = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not any(self._ops)

    def open(self, store: Store) -> None:
        """A store that is new."""
        for op in store.opening:
            self._tell_all(op)

    def expire(self, store: Store, before: int) -> None:
        """What a store may forget."""
        self.expired[store.uid] = max(self.expired.get(store.uid, LEAST), before)
        self._tell_all(Expire(store.uid, before))

    def close(self, store: Store) -> None:
        """A store that nobody needs any more."""
        self.closed.append(store)
        self._tell_all(CloseTable(store.uid))

    def append(self, partition: int, store: Store, packed: memoryview) -> None:
        """Rows for one partition."""
        self._tell(partition, Numbered(0, Append(store.uid, None)), packed)

    def ask(self, bare: Op, schema: pa.Schema, rows: pa.RecordBatch, split: Sequence[I64]) -> Asked:
        """A question with its rows, for the partitions that may know."""
        self._asked += 1
        asked = Asked(self._asked, schema, isinstance(bare, Find))
        packed = {number: pack_rows(picked(rows, places)) for number, places in enumerate(split) if len(places)}
        for partition, body in packed.items():
            self.asking[asked.number] = asked
            asked.places[partition] = split[partition]
            self._tell(partition, Numbered(asked.number, bare), body)
        return asked

    def work(self) -> list[Message]:
        """What each partition has to do."""
        return [pack_ops(ops) for ops in self._ops]

    def sort(self, partition: int, answer: Answer) -> dict[str, tuple[int, int]]:
        """Give the questions their answers, or the reason why there is none; the sizes of stores."""
        sizes: dict[str, tuple[int, int]]
        (numbers, failed, sizes), bodies = answer
        for number, body in zip(numbers, bodies, strict=True):
            asked = self.asking[number]
            rows = unpack_rows(body)
            asked.answers[partition] = _renumbered(rows, asked.places[partition]) if asked.is_find else rows
        for number, reason in failed.items():
            self.asking[number].failed = RuntimeError(reason)
        return sizes

    def _tell_all(self, op: Op) -> None:
        for ops in self._ops:
            ops.append((Numbered(0, op), None))

    def _tell(self, partition: int, numbered: Numbered, packed: memoryview) -> None:
        self._ops[partition].append((numbered, packed))
        self.nbytes += len(packed)


def _renumbered(rows: pa.RecordBatch, places: I64) -> pa.RecordBatch:
    """The answer of a Find by the numbers of the keys as they were asked for."""
    last = rows.num_columns - 1
    numbers = pa.array(places[keycodes.integers(rows.column(last))])
    return pa.RecordBatch.from_arrays([*rows.columns[:last], numbers], schema=rows.schema)
