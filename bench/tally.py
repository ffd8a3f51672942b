"""An engine for measuring bytes: it joins exactly, counts the rows, and keeps them to itself.

With many equal keys a join gives far more bytes than it takes, and a benchmark of what goes in would be busy with
what comes out. So probes are asked for no columns, counted, and answered with no rows. In a two-way join a probe's
rows are the result, which goes to a third site and never to the other stream's. What is found by key, and so may
travel between the two, is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from node.core.encoding.rows import empty_batch
from node.core.engine import Op, OpenTable, Outcome, Probe, probe_schema
from node.engine.native import NativeEngine


class TallyEngine:
    """An ``Engine``."""

    def __init__(self) -> None:
        #: Rows of all probes so far.
        self.joined = 0
        self._engine = NativeEngine()
        self._schemas: dict[str, pa.Schema] = {}

    def run(self, ops: Sequence[Op]) -> list[Outcome]:
        """Perform the operations; for each of them what became of it."""
        for op in ops:
            if isinstance(op, OpenTable):
                self._schemas[op.table] = op.schema
        asked = [replace(op, columns=()) if isinstance(op, Probe) else op for op in ops]
        return [self._counted(op, outcome) for op, outcome in zip(ops, self._engine.run(asked), strict=True)]

    def _counted(self, op: Op, outcome: Outcome) -> Outcome:
        if not isinstance(op, Probe) or not isinstance(outcome, pa.RecordBatch):
            return outcome
        self.joined += outcome.num_rows
        return empty_batch(probe_schema(op, self._schemas[op.table]))
