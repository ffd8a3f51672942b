"""Whether operations fit their table. The index would silently give wrong answers for what is refused here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from node.core.encoding import payload
from node.core.engine import HIGH, LOW, POSITION, Find, OpenIndex, OpenTable, Probe, Question, joined_schema
from planner.model.key_types import SUPPORTED, key_family
from planner.model.query import Expr, columns_of


def check_table(op: OpenTable) -> None:
    """A table has an int64 POSITION, and columns that can be held."""
    who = f"open table {op.table!r}"
    _check_whole(who, op.schema, POSITION)
    for field in op.schema:
        if not payload.is_supported(field.type):
            raise ValueError(f"{who}: column {field.name!r} must have a type Arrow can gather, got {field.type}")


def check_index(op: OpenIndex, schema: pa.Schema, opened: Iterable[Sequence[str]]) -> None:
    """An index is a new one, of columns that can be keys."""
    who = f"open index {list(op.keys)} of table {op.table!r}"
    if op.keys in opened:
        raise ValueError(f"{who}: an index that is not open required, got one that is")
    if POSITION in op.keys:
        raise ValueError(f"{who}: keys other than {POSITION} required, got {list(op.keys)}")
    for name in op.keys:
        kind = _field_type(who, schema, name)
        if key_family(kind) is None or pa.types.is_dictionary(kind):
            raise ValueError(f"{who}: key {name!r} must be {SUPPORTED}, not dictionary encoded, got {kind}")


def check_opened(who: str, table: str, keys: Sequence[str], opened: Iterable[Sequence[str]]) -> None:
    """The index is open."""
    if keys not in opened:
        raise ValueError(
            f"{who} of table {table!r}: keys of an open index required, got {list(keys)}; "
            f"open are {[list(others) for others in opened]}"
        )


def check_append(table: str, schema: pa.Schema, rows: pa.RecordBatch) -> None:
    """Rows have the table's schema, but for columns of which nothing is known, and each its position."""
    who = f"append to table {table!r}"
    if not rows.schema.equals(schema) and not _is_part_of(rows.schema, schema):
        raise ValueError(f"{who}: required schema\n{schema}\ngot\n{rows.schema}")
    _check_filled(who, POSITION, rows.column(POSITION))


def check_probe(op: Probe, schema: pa.Schema) -> None:
    """Carry keys pair up with the index's keys, family by family, and what is asked for is there."""
    who = f"probe of table {op.table!r}"
    carry = op.rows.schema
    for bound in (LOW, HIGH):
        _check_whole(who, carry, bound)
    if len(op.carry_keys) != len(op.keys):
        raise ValueError(f"{who}: {len(op.keys)} keys required, for {list(op.keys)}, got {list(op.carry_keys)}")
    for mine, theirs in zip(op.keys, op.carry_keys, strict=True):
        _check_comparable(who, schema.field(mine), theirs, _field_type(who, carry, theirs))
    joined = joined_schema(carry, schema, op.alias)
    for name in op.columns:
        _field_type(who, joined, name)
    _check_condition(who, op.condition, joined)


def check_find(op: Find, schema: pa.Schema) -> None:
    """Columns pair up with the index's keys, family by family, and what is asked for is there."""
    who = f"find in table {op.table!r}"
    if op.wanted.num_columns != len(op.keys):
        raise ValueError(
            f"{who}: {len(op.keys)} key columns required, for {list(op.keys)}, got {op.wanted.schema.names}"
        )
    for mine, theirs in zip(op.keys, op.wanted.schema, strict=True):
        _check_comparable(who, schema.field(mine), theirs.name, theirs.type)
    for name in op.columns:
        _field_type(who, schema, name)
    _check_condition(who, op.condition, joined_schema(pa.schema([]), schema, op.alias))


def check_probe_bounds(table: str, low: pa.Array, high: pa.Array) -> None:
    """Every carry row has both of its bounds."""
    for name, column in ((LOW, low), (HIGH, high)):
        _check_filled(f"probe of table {table!r}", name, column)


def check_find_bounds(op: Find) -> None:
    """The bounds are numbers that can be clamped."""
    if not (isinstance(op.low, int) and isinstance(op.high, int)):
        raise ValueError(f"find in table {op.table!r}: low and high must be int, got {op.low!r} and {op.high!r}")


def check_question(op: Question, schema: pa.Schema) -> None:
    """All that can be said of one question, whose index is open."""
    if isinstance(op, Probe):
        check_probe(op, schema)
        check_probe_bounds(op.table, op.rows.column(LOW), op.rows.column(HIGH))
    else:
        check_find(op, schema)
        check_find_bounds(op)


def _is_part_of(rows: pa.Schema, table: pa.Schema) -> bool:
    """Whether rows have the table's columns, some of them perhaps of the null type."""
    return rows.names == table.names and all(
        mine == theirs or pa.types.is_null(mine) for mine, theirs in zip(rows.types, table.types, strict=True)
    )


def _check_condition(who: str, condition: Expr | None, joined: pa.Schema) -> None:
    if condition is None:
        return
    for name in sorted(str(column) for column in columns_of(condition)):
        if joined.get_field_index(name) < 0:
            raise ValueError(f"{who}: a condition on columns {joined.names} required, got one that reads {name!r}")


def _check_comparable(who: str, mine: pa.Field, theirs: str, got: pa.DataType) -> None:
    required = mine.type
    if (required != got and key_family(required) != key_family(got)) or pa.types.is_dictionary(got):
        raise ValueError(f"{who}: key {theirs!r} must be comparable with {mine.name!r}, {required}, got {got}")


def _check_filled(who: str, name: str, column: pa.Array) -> None:
    if nulls := column.null_count:
        raise ValueError(f"{who}: {name} in every row required, got {nulls} nulls")


def _check_whole(who: str, schema: pa.Schema, name: str) -> None:
    kind = _field_type(who, schema, name)
    if kind != pa.int64():
        raise ValueError(f"{who}: {name} must be int64, got {kind}")


def _field_type(who: str, schema: pa.Schema, name: str) -> pa.DataType:
    place = schema.get_field_index(name)
    if place < 0:
        raise ValueError(f"{who}: one column {name!r} required, got {schema.names}")
    return schema.field(place).type
