"""A stream ``r`` with a key and a number, what queries see of it, and an engine for what is asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from node.core.arrangements.lease import Lease
from node.core.arrangements.reach import Reach, named_by
from node.core.effects import RunOp
from node.core.engine import Find, Op, Probe, SiteEngine
from node.core.keys.hashing import I64
from node.core.queries.waiting import Stage, Waiting, Walk
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.core.streams.view import SealedRows
from node.core.work import Asker, Work
from node.engine.native import NativeEngine
from planner.model.query import Call, ColumnRef, Expr, Literal
from tests.sim.reference_engine import ReferenceEngine

TAU = 10
STREAM = "r"
SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("n", pa.int64())])
KEYS = ("key",)
#: (event time, key); a tuple's ``n`` is its number in the stream.
Tuple = tuple[int, int | None]


def array(values: Sequence[int]) -> I64:
    return np.array(values, np.int64)


def odd(alias: str = "b") -> Expr:
    """A filter that lets tuples with an odd key pass."""
    rest = Call("%", (ColumnRef(alias, "key"), Literal(2, pa.int64())), pa.int64())
    return Call("=", (rest, Literal(1, pa.int64())), pa.bool_())


def below(value: int, alias: str = "b") -> Expr:
    """A filter that lets tuples with a key below a value pass."""
    return Call("<", (ColumnRef(alias, "key"), Literal(value, pa.int64())), pa.bool_())


def reach(
    length: int | None = 30, count: int | None = None, where: Expr | None = None, scale: int = 1, alias: str = "b"
) -> Reach:
    """What an alias sees of ``r``; of a count window if ``count`` is given."""
    by_stream = None if where is None else named_by(where, STREAM)
    return Reach(alias, STREAM, scale, TAU, None if count is not None else length, count, where, by_stream)


def lease(
    query_id: str = "q1",
    of: Reach | None = None,
    first_tick: int | None = 0,
    done: int = TICK_MIN,
    keys: tuple[str, ...] | None = KEYS,
    linger: int | None = None,
    columns: tuple[str, ...] = (),
) -> Lease:
    return Lease(query_id, 1, of or reach(), keys, columns, first_tick, done, done, linger)


def rows_of(tuples: Sequence[Tuple], first: int = 0) -> pa.RecordBatch:
    columns = [[ts for ts, _ in tuples], [key for _, key in tuples], list(range(first, first + len(tuples)))]
    return pa.RecordBatch.from_arrays([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)


def sealed(begin: int, end: int, tuples: Sequence[Tuple], first: int = 0, passed: Expr | None = None) -> SealedRows:
    """The batch of the ticks from ``begin`` to ``end``; ``first`` is the number of its first tuple."""
    times = array([ts for ts, _ in tuples])
    return SealedRows(STREAM, Span(begin, end), rows_of(tuples, first), times, first, 0, passed)


def waiting(query_id: str = "q1", tick: int = 0, sealed_at_us: int = 0, head: str = "a") -> Waiting:
    """A walk that waits for something; its rows do not matter."""
    rows = pa.RecordBatch.from_pylist([], schema=pa.schema([]))
    walk = Walk(query_id, 1, head, Span(tick, tick + 1), sealed_at_us, 0, rows)
    return Waiting(walk, Stage.GATE, True, "something", 0)


class EngineWork(Work):
    """The work of a site, done by an engine at once; answers wait until they are asked for."""

    def __init__(self, native: bool = False) -> None:
        super().__init__(self._perform)
        self.engine: SiteEngine = NativeEngine() if native else ReferenceEngine()
        self.ops: list[Op] = []
        self.answers: deque[tuple[int, pa.RecordBatch]] = deque()

    def _perform(self, effect: RunOp) -> None:
        self.ops.append(effect.op)
        (outcome,) = self.engine.run([effect.op])
        assert not isinstance(outcome, Exception), outcome
        if isinstance(effect.op, Probe | Find):
            assert outcome is not None
            self.answers.append((effect.op_id, outcome))

    def answer(self) -> tuple[int, Asker | None, pa.RecordBatch]:
        """The answer to the oldest question, and who asked."""
        op_id, rows = self.answers.popleft()
        return op_id, self.take(op_id), rows

    def of(self, *kinds: type[Op]) -> list[Any]:
        """The operations of some kinds, in order."""
        return [op for op in self.ops if isinstance(op, kinds)]

    def contents(self, table: str, tuples: Sequence[Tuple], columns: tuple[str, ...] = ("n",)) -> list[int]:
        """The numbers of the tuples with keys that a table has, nulls not among them."""
        keys = sorted({key for _, key in tuples if key is not None})
        if not keys:
            return []
        wanted = pa.RecordBatch.from_arrays([pa.array(keys, pa.int64())], names=["key"])
        (found,) = self.engine.run([Find(table, KEYS, wanted, TICK_MIN, TICK_END, STREAM, None, columns)])
        assert isinstance(found, pa.RecordBatch), found
        return sorted(found.column("n").to_pylist())
