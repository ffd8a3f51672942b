"""Whether operations fit their window. The index would silently give wrong answers for what is refused here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from node.core.engine import TS, OpenWindow, Probe
from node.core.keycodes import integers
from node.engine import payload
from planner.keys import SUPPORTED, key_family


def check_open(op: OpenWindow) -> None:
    """A window has an int64 TS, keys that can be keys, and columns that can be held."""
    who = f"open window {op.window!r}"
    _check_ts(who, op.schema)
    if not op.keys or TS in op.keys:
        raise ValueError(f"{who}: at least one key required, none of them {TS}, got {list(op.keys)}")
    for name in op.keys:
        kind = _field_type(who, op.schema, name)
        if key_family(kind) is None or pa.types.is_dictionary(kind):
            raise ValueError(f"{who}: key {name!r} must be {SUPPORTED}, not dictionary encoded, got {kind}")
    for field in op.schema:
        if not payload.is_supported(field.type):
            raise ValueError(f"{who}: column {field.name!r} must have a type Arrow can gather, got {field.type}")


def check_append(window: str, schema: pa.Schema, newest: int, rows: pa.RecordBatch) -> None:
    """Rows have the window's schema, and time does not go back."""
    who = f"append to window {window!r}"
    if not rows.schema.equals(schema):
        raise ValueError(f"{who}: required schema\n{schema}\ngot\n{rows.schema}")
    ts = _times(who, rows)
    if ts.size and ts[0] < newest:
        raise ValueError(f"{who}: {TS} >= {newest} required, the newest of the window, got {ts[0]}")
    if (ts[1:] < ts[:-1]).any():
        raise ValueError(f"{who}: rows sorted by {TS} required, got {TS} going back")


def check_probe(op: Probe, schema: pa.Schema, keys: Sequence[str]) -> None:
    """Carry keys pair up with the window's keys, family by family, and carry rows have a time."""
    who = f"probe of window {op.window!r}"
    _check_ts(who, op.rows.schema)
    _times(who, op.rows)
    if len(op.carry_keys) != len(keys):
        raise ValueError(f"{who}: {len(keys)} keys required, for {list(keys)}, got {list(op.carry_keys)}")
    if op.range_length < 0:
        raise ValueError(f"{who}: range_length >= 0 required, got {op.range_length}")
    for mine, theirs in zip(keys, op.carry_keys, strict=True):
        required, got = schema.field(mine).type, _field_type(who, op.rows.schema, theirs)
        if (required != got and key_family(required) != key_family(got)) or pa.types.is_dictionary(got):
            raise ValueError(f"{who}: key {theirs!r} must be comparable with {mine!r}, {required}, got {got}")


def _times(who: str, rows: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if rows.column(TS).null_count:
        raise ValueError(f"{who}: {TS} in every row required, got {rows.column(TS).null_count} nulls")
    return integers(rows.column(TS))


def _check_ts(who: str, schema: pa.Schema) -> None:
    kind = _field_type(who, schema, TS)
    if kind != pa.int64():
        raise ValueError(f"{who}: {TS} must be int64, got {kind}")


def _field_type(who: str, schema: pa.Schema, name: str) -> pa.DataType:
    place = schema.get_field_index(name)
    if place < 0:
        raise ValueError(f"{who}: one column {name!r} required, got {schema.names}")
    return schema.field(place).type
