"""An engine for measuring bytes: it joins exactly, counts the rows, and keeps them to itself.

With many equal keys a join gives far more bytes than it takes, and a benchmark of what goes in would be
busy with what comes out. So every window has a twin that holds positions and keys only; probes go there, are
counted, and answered with no rows. In a two-way join a probe's rows are the result, which goes to a third
site and never to the other stream's. What is found by key, and so may travel between the two, is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from node.core.engine import TS, Append, Find, Op, OpenWindow, Probe, joined_schema
from node.core.rows import empty_batch
from node.engine.native import NativeEngine


class TallyEngine:
    """An ``Engine``."""

    def __init__(self) -> None:
        #: Rows of all probes so far.
        self.joined = 0
        self._whole = NativeEngine()
        self._twins = NativeEngine()
        self._opened: dict[str, OpenWindow] = {}

    def run(self, ops: Sequence[Op]) -> list[pa.RecordBatch]:
        """Perform the operations in order; the answers of the probes and finds among them, in order."""
        answers: list[pa.RecordBatch] = []
        for op in ops:
            if isinstance(op, Probe):
                answers.append(self._probe(op))
            elif isinstance(op, Find):
                answers += self._whole.run([op])
            else:
                self._whole.run([op])
                self._twins.run([self._narrowed(op)])
        return answers

    def _narrowed(self, op: Op) -> Op:
        if isinstance(op, OpenWindow):
            self._opened[op.window] = op
            return replace(op, schema=pa.schema([field for field in op.schema if field.name in (TS, *op.keys)]))
        if isinstance(op, Append):
            return replace(op, rows=_select(op.rows, {TS, *self._opened[op.window].keys}))
        return op

    def _probe(self, op: Probe) -> pa.RecordBatch:
        carry = _select(op.rows, {TS, op.position, *op.carry_keys})
        (answer,) = self._twins.run([replace(op, rows=carry, columns=None)])
        self.joined += answer.num_rows
        return empty_batch(joined_schema(op.rows.schema, self._opened[op.window].schema))


def _select(rows: pa.RecordBatch, names: set[str]) -> pa.RecordBatch:
    return rows.select([name for name in rows.schema.names if name in names])
