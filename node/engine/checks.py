"""Whether operations fit their window. The index would silently give wrong answers for what is refused here."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from node.core import payload
from node.core.engine import TS, Find, OpenWindow, Probe
from planner.keys import SUPPORTED, key_family


def check_open(op: OpenWindow) -> None:
    """A window has an int64 TS, keys that can be keys, and columns that can be held."""
    who = f"open window {op.window!r}"
    _check_position(who, op.schema, TS)
    if TS in op.keys:
        raise ValueError(f"{who}: keys other than {TS} required, got {list(op.keys)}")
    for name in op.keys:
        kind = _field_type(who, op.schema, name)
        if key_family(kind) is None or pa.types.is_dictionary(kind):
            raise ValueError(f"{who}: key {name!r} must be {SUPPORTED}, not dictionary encoded, got {kind}")
    for field in op.schema:
        if not payload.is_supported(field.type):
            raise ValueError(f"{who}: column {field.name!r} must have a type Arrow can gather, got {field.type}")


def check_append(window: str, schema: pa.Schema, rows: pa.RecordBatch) -> None:
    """Rows have the window's schema, and each its time."""
    who = f"append to window {window!r}"
    if not rows.schema.equals(schema):
        raise ValueError(f"{who}: required schema\n{schema}\ngot\n{rows.schema}")
    _check_filled(who, rows, TS)


def check_probe(op: Probe, schema: pa.Schema, keys: Sequence[str]) -> None:
    """Carry keys pair up with the window's keys, family by family, and carry rows have a position."""
    who = f"probe of window {op.window!r}"
    _check_position(who, op.rows.schema, op.position)
    _check_filled(who, op.rows, op.position)
    if len(op.carry_keys) != len(keys):
        raise ValueError(f"{who}: {len(keys)} keys required, for {list(keys)}, got {list(op.carry_keys)}")
    if op.range_length < 0:
        raise ValueError(f"{who}: range_length >= 0 required, got {op.range_length}")
    for mine, theirs in zip(keys, op.carry_keys, strict=True):
        _check_comparable(who, schema.field(mine), theirs, _field_type(who, op.rows.schema, theirs))


def check_find(op: Find, schema: pa.Schema, keys: Sequence[str]) -> None:
    """Columns pair up with the window's keys, family by family, and the bounds are numbers that can be clamped."""
    who = f"find in window {op.window!r}"
    if op.keys.num_columns != len(keys):
        raise ValueError(f"{who}: {len(keys)} key columns required, for {list(keys)}, got {op.keys.schema.names}")
    if not (isinstance(op.low, int) and isinstance(op.high, int)):
        raise ValueError(f"{who}: low and high must be int, got {op.low!r} and {op.high!r}")
    for mine, theirs in zip(keys, op.keys.schema, strict=True):
        _check_comparable(who, schema.field(mine), theirs.name, theirs.type)


def _check_comparable(who: str, mine: pa.Field, theirs: str, got: pa.DataType) -> None:
    required = mine.type
    if (required != got and key_family(required) != key_family(got)) or pa.types.is_dictionary(got):
        raise ValueError(f"{who}: key {theirs!r} must be comparable with {mine.name!r}, {required}, got {got}")


def _check_filled(who: str, rows: pa.RecordBatch, name: str) -> None:
    if nulls := rows.column(name).null_count:
        raise ValueError(f"{who}: {name} in every row required, got {nulls} nulls")


def _check_position(who: str, schema: pa.Schema, name: str) -> None:
    kind = _field_type(who, schema, name)
    if kind != pa.int64():
        raise ValueError(f"{who}: {name} must be int64, got {kind}")


def _field_type(who: str, schema: pa.Schema, name: str) -> pa.DataType:
    place = schema.get_field_index(name)
    if place < 0:
        raise ValueError(f"{who}: one column {name!r} required, got {schema.names}")
    return schema.field(place).type
