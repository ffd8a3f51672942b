"""A slow engine by nested loops: what the fast one must agree with, and the simulator's second opinion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from node.core.engine import KEY, TS, Append, CloseWindow, Expire, Find, Op, OpenWindow, Probe, joined_schema
from tests.expressions import rows_that_hold

Row = dict[str, Any]


class ReferenceEngine:
    """Windows as lists of dicts. It forgets at once what it may forget, so that asking for it shows."""

    def __init__(self) -> None:
        self._schemas: dict[str, OpenWindow] = {}
        self._rows: dict[str, list[Row]] = {}
        self._before: dict[str, int] = {}

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
                    self._before[op.window] = -(2**63)
                case Append():
                    self._rows[op.window] += op.rows.to_pylist()
                    self._forget(op.window)
                case Expire():
                    self._before[op.window] = max(self._before[op.window], op.before_ts)
                    self._forget(op.window)
                case CloseWindow():
                    del self._schemas[op.window], self._rows[op.window], self._before[op.window]
                case Probe():
                    answers.append(self._probe(op))
                case Find():
                    answers.append(self._find(op))
        return answers

    def _forget(self, window: str) -> None:
        """Also what was appended when it had expired already."""
        self._rows[window] = [row for row in self._rows[window] if row[TS] >= self._before[window]]

    def _probe(self, op: Probe) -> pa.RecordBatch:
        opened = self._schemas[op.window]
        found = []
        for carry in op.rows.to_pylist():
            for row in self._rows[op.window]:
                same = _same([carry[name] for name in op.carry_keys], [row[name] for name in opened.keys])
                age = carry[op.position] - row[TS]
                seen = op.low is None or row[TS] >= op.low
                if same and seen and age <= op.range_length and (age > 0 or (age == 0 and op.include_ties)):
                    found.append({**row, **carry})
        rows = pa.RecordBatch.from_pylist(found, schema=joined_schema(op.rows.schema, opened.schema))
        if op.residual is not None:
            rows = rows.filter(pa.array(rows_that_hold(op.residual, rows), pa.bool_()))
        return rows if op.columns is None else rows.select(op.columns)

    def _find(self, op: Find) -> pa.RecordBatch:
        opened = self._schemas[op.window]
        found = []
        for number in range(op.keys.num_rows):
            key = [column[number].as_py() for column in op.keys.columns]
            for row in self._rows[op.window]:
                if op.low <= row[TS] < op.high and _same(key, [row[name] for name in opened.keys]):
                    found.append({**row, KEY: number})
        return pa.RecordBatch.from_pylist(found, schema=pa.schema([*opened.schema, pa.field(KEY, pa.int64())]))


def _same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return all(one is not None and one == other for one, other in zip(left, right, strict=True))
