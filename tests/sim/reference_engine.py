"""A slow engine by nested loops: what the fast one must agree with, and the simulator's second opinion."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from node.core.engine import TS, Append, CloseWindow, Expire, Op, OpenWindow, Probe, joined_schema


class ReferenceEngine:
    """Windows as lists of dicts. It forgets at once what it may forget, so that asking for it shows."""

    def __init__(self) -> None:
        self._schemas: dict[str, OpenWindow] = {}
        self._rows: dict[str, list[dict[str, object]]] = {}

    @property
    def windows(self) -> list[str]:
        return list(self._rows)

    def run(self, ops: Sequence[Op]) -> list[pa.RecordBatch]:
        answers = []
        for op in ops:
            match op:
                case OpenWindow():
                    self._schemas[op.window] = op
                    self._rows[op.window] = []
                case Append():
                    self._rows[op.window] += op.rows.to_pylist()
                case Expire():
                    self._rows[op.window] = [r for r in self._rows[op.window] if r[TS] >= op.before_ts]  # type: ignore[operator]
                case CloseWindow():
                    del self._schemas[op.window], self._rows[op.window]
                case Probe():
                    answers.append(self._probe(op))
        return answers

    def _probe(self, op: Probe) -> pa.RecordBatch:
        opened = self._schemas[op.window]
        found = []
        for carry in op.rows.to_pylist():
            for row in self._rows[op.window]:
                same = all(
                    carry[mine] is not None and carry[mine] == row[theirs]
                    for mine, theirs in zip(op.carry_keys, opened.keys, strict=True)
                )
                age = carry[TS] - row[TS]
                if same and age <= op.range_length and (age > 0 or (age == 0 and op.include_ties)):
                    found.append({**row, **carry})
        return pa.RecordBatch.from_pylist(found, schema=joined_schema(op.rows.schema, opened.schema))
