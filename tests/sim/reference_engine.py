"""A slow engine by nested loops: what the fast one must agree with, and the simulator's second opinion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from node.core.engine import (
    HIGH,
    KEY,
    LOW,
    POSITION,
    Append,
    CloseIndex,
    CloseTable,
    Expire,
    Find,
    Op,
    OpenIndex,
    OpenTable,
    Outcome,
    Probe,
    find_schema,
    joined_schema,
)
from planner.model.query import Expr
from tests.expressions import rows_that_hold

Row = dict[str, Any]


@dataclass
class _Table:
    schema: pa.Schema
    rows: list[Row] = field(default_factory=list)
    indexes: list[tuple[str, ...]] = field(default_factory=list)
    before: int = -(2**63)

    def forget(self) -> None:
        """Also what was appended when it had expired already."""
        self.rows = [row for row in self.rows if row[POSITION] >= self.before]


class ReferenceEngine:
    """Tables as lists of dicts. It forgets at once what it may forget, so that asking for it shows."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}

    @property
    def tables(self) -> list[str]:
        return list(self._tables)

    def rows(self, table: str) -> int:
        return len(self._table(table).rows)

    def nbytes(self, table: str) -> int:
        return sum(len(repr(row)) for row in self._table(table).rows)

    def close(self) -> None:
        self._tables.clear()

    def run(self, ops: Sequence[Op]) -> list[Outcome]:
        return [self._outcome(op) for op in ops]

    def _outcome(self, op: Op) -> Outcome:
        try:
            return self._do(op)
        except ValueError as error:
            return error

    def _do(self, op: Op) -> pa.RecordBatch | None:
        if isinstance(op, OpenTable):
            if op.table in self._tables:
                raise ValueError(f"table {op.table!r} is open")
            self._tables[op.table] = _Table(op.schema)
            return None
        table = self._table(op.table)
        if isinstance(op, Probe):
            return _probe(table, op)
        if isinstance(op, Find):
            return _find(table, op)
        if isinstance(op, CloseTable):
            del self._tables[op.table]
        else:
            _change(table, op)
        return None

    def _table(self, name: str) -> _Table:
        if name not in self._tables:
            raise ValueError(f"table {name!r} is not open")
        return self._tables[name]


def _change(table: _Table, op: OpenIndex | CloseIndex | Append | Expire) -> None:
    match op:
        case OpenIndex():
            if op.keys in table.indexes:
                raise ValueError(f"index {op.keys} of {op.table!r} is open")
            table.indexes.append(op.keys)
        case CloseIndex():
            _check_index(table, op.keys)
            table.indexes.remove(op.keys)
        case Append():
            table.rows += op.rows.to_pylist()
            table.forget()
        case Expire():
            table.before = max(table.before, op.before)
            table.forget()


def _check_index(table: _Table, keys: tuple[str, ...]) -> None:
    if keys not in table.indexes:
        raise ValueError(f"index {keys} is not open")


def _probe(table: _Table, op: Probe) -> pa.RecordBatch:
    _check_index(table, op.keys)
    found = []
    for carry in op.rows.to_pylist():
        for row in table.rows:
            same = _same([carry[name] for name in op.carry_keys], [row[name] for name in op.keys])
            if same and carry[LOW] <= row[POSITION] < carry[HIGH]:
                found.append({**_named(op.alias, row), **carry})
    schema = joined_schema(op.rows.schema, table.schema, op.alias)
    held = _holding(op.condition, pa.RecordBatch.from_pylist(found, schema=schema))
    kept = [row for row, holds in zip(found, held, strict=True) if holds]
    return pa.RecordBatch.from_pylist(kept, schema=schema).select(op.columns)


def _find(table: _Table, op: Find) -> pa.RecordBatch:
    _check_index(table, op.keys)
    found = []
    for number in range(op.wanted.num_rows):
        key = [column[number].as_py() for column in op.wanted.columns]
        for row in table.rows:
            if op.low <= row[POSITION] < op.high and _same(key, [row[name] for name in op.keys]):
                found.append({**row, KEY: number})
    names = joined_schema(pa.schema([]), table.schema, op.alias)
    joined = pa.RecordBatch.from_pylist([_named(op.alias, row) for row in found], schema=names)
    kept = [row for row, holds in zip(found, _holding(op.condition, joined), strict=True) if holds]
    return pa.RecordBatch.from_pylist(kept, schema=find_schema(op, table.schema))


def _named(alias: str, row: Row) -> Row:
    return {f"{alias}.{name}": value for name, value in row.items()}


def _holding(condition: Expr | None, rows: pa.RecordBatch) -> list[bool]:
    return [True] * rows.num_rows if condition is None else rows_that_hold(condition, rows)


def _same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return all(one is not None and one == other for one, other in zip(left, right, strict=True))
