"""Compare two tables as multisets of rows, for any Arrow types.

Values are equal when they are the same value of the same type: NaN equals NaN,
null equals null, 0.0 and -0.0 differ. Row order, chunking, nullability and
metadata do not matter.

Every column becomes whole numbers, equal iff the values are equal, over both
tables at once; then rows become numbers the same way. Nested values are numbered
from their children up, so no value has to survive a trip through Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

#: Rows of each kind shown in a difference.
ROWS_SHOWN = 3


def same_rows(got: pa.Table, want: pa.Table) -> str | None:
    """None if both tables hold the same rows equally often, else a short text with the differences."""
    fields = schema_difference(got.schema, want.schema)
    if fields:
        return f"schema differs: {fields}; got {got.num_rows} rows, want {want.num_rows}"
    codes = row_codes(got, want)
    balance = np.bincount(codes[got.num_rows :], minlength=len(codes)) - np.bincount(
        codes[: got.num_rows], minlength=len(codes)
    )
    if not balance.any():
        return None
    missing, unexpected = int(balance.clip(min=0).sum()), int((-balance).clip(min=0).sum())
    return "\n".join(
        [
            f"got {got.num_rows} rows, want {want.num_rows}: {missing} missing, {unexpected} unexpected",
            *(f"  missing {line}" for line in shown(want, codes[got.num_rows :], balance)),
            *(f"  unexpected {line}" for line in shown(got, codes[: got.num_rows], -balance)),
        ]
    )


def schema_difference(got: pa.Schema, want: pa.Schema) -> str | None:
    """What differs in names and types, or None."""
    if got.names != want.names:
        return f"got columns {got.names}, want {want.names}"
    differing = [
        f"{have.name} is {have.type}, want {need.type}"
        for have, need in zip(got, want, strict=True)
        if have.type != need.type
    ]
    return ", ".join(differing) or None


def shown(table: pa.Table, codes: Ints, balance: Ints) -> list[str]:
    """The first few rows whose code has too many copies on this side, and how many."""
    wanted = np.flatnonzero(balance[codes] > 0)
    distinct, first = np.unique(codes[wanted], return_index=True)
    picked = sorted(zip(wanted[first].tolist(), balance[distinct].tolist(), strict=True))[:ROWS_SHOWN]
    return [f"x{copies}: {row_text(table, row)}" for row, copies in picked]


def row_text(table: pa.Table, row: int) -> str:
    """One row as text."""
    cells = (f"{name}={cell_text(table.column(index)[row])}" for index, name in enumerate(table.column_names))
    return "{" + ", ".join(cells) + "}"


def cell_text(cell: Any) -> str:
    """A value as text, also when Python has no type for it (nanoseconds)."""
    try:
        return repr(cell.as_py())
    except ValueError:
        return f"{cell.type}({getattr(cell, 'value', '?')})"


def row_codes(got: pa.Table, want: pa.Table) -> Ints:
    """One number per row of got, then want: equal iff all columns are equal."""
    both = pa.concat_tables([bare(got), bare(want)])
    codes = np.zeros(both.num_rows, dtype=np.int64)
    for column in both.columns:
        codes = paired(codes, column_codes(column))
    return codes


def bare(table: pa.Table) -> pa.Table:
    """The table without metadata and nullability, under names that cannot clash."""
    fields = [pa.field(str(index), kind) for index, kind in enumerate(table.schema.types)]
    return pa.table(table.columns, schema=pa.schema(fields))


def paired(first: Ints, second: Ints) -> Ints:
    """One number per pair of numbers, dense from 0; both inputs are at least -1."""
    if not len(first):
        return first
    _, codes = np.unique((first + 1) * (int(second.max()) + 2) + second + 1, return_inverse=True)
    return np.asarray(codes, dtype=np.int64)


def column_codes(column: pa.ChunkedArray) -> Ints:
    """One number per value, -1 for null."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    return array_codes(pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type))


def array_codes(array: pa.Array) -> Ints:
    """One number per value of a contiguous array, -1 for null."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return array_codes(array.storage)
    if pa.types.is_null(kind):
        return np.full(len(array), -1, dtype=np.int64)
    if pa.types.is_dictionary(kind):
        return decoded_codes(array)
    if pa.types.is_run_end_encoded(kind):
        return array_codes(pc.run_end_decode(array))
    if pa.types.is_struct(kind):
        return struct_codes(array)
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        return list_codes(array)
    if pa.types.is_floating(kind):
        return leaf_codes(float_bits(array))
    try:
        return leaf_codes(array)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return python_codes(array)


def leaf_codes(array: pa.Array) -> Ints:
    """Codes of a flat type Arrow can hash."""
    return np.asarray(pc.fill_null(array.dictionary_encode().indices, -1), dtype=np.int64)


def decoded_codes(array: pa.DictionaryArray) -> Ints:
    """Codes of a dictionary array by its values: a dictionary may hold a value twice, or null."""
    values = array_codes(array.dictionary)
    indices = np.asarray(pc.fill_null(array.indices.cast(pa.int64()), -1))
    return np.asarray(np.append(values, -1)[indices], dtype=np.int64)


def struct_codes(array: pa.StructArray) -> Ints:
    """Codes of structs: their fields' codes together."""
    codes = np.zeros(len(array), dtype=np.int64)
    for child in array.flatten():
        codes = paired(codes, array_codes(child))
    return masked(codes, array)


def list_codes(array: pa.Array) -> Ints:
    """Codes of lists and maps: the sequence of their items' codes."""
    kind = array.type
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0), dtype=np.int64)
    items = array_codes(array.flatten())
    ends = np.cumsum(lengths)
    known: dict[bytes, int] = {}
    codes = [
        known.setdefault(items[end - length : end].tobytes(), len(known))
        for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
    ]
    return masked(np.array(codes, dtype=np.int64), array)


def masked(codes: Ints, array: pa.Array) -> Ints:
    """The codes, with -1 where the array is null."""
    return np.where(np.asarray(array.is_null()), np.int64(-1), codes)


def float_bits(array: pa.Array) -> pa.Array:
    """Floating point values as their bits, every NaN as the same one."""
    width = array.type.bit_width
    nan = pa.array(np.array([np.nan], dtype=f"f{width // 8}"), type=array.type)
    values = np.array(pc.fill_null(array, nan[0]))
    values[np.isnan(values)] = np.nan
    return pa.array(values.view(f"i{width // 8}"), mask=np.asarray(array.is_null()))


def python_codes(array: pa.Array) -> Ints:
    """Codes of a type Arrow cannot hash, by the text of its Python values."""
    known: dict[str, int] = {}
    codes = [-1 if value is None else known.setdefault(repr(value), len(known)) for value in array.to_pylist()]
    return np.array(codes, dtype=np.int64)
