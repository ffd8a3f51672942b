"""Copying rows of any Arrow type.

Arrow cannot ``take`` from view types and run-end-encoded columns. Windows hold
such columns in a plain type of the same values, and answers are turned back.
(Views inside list views or unions, and nested run-end encodings, stay as
they are: Arrow has no cast for those. Opening a window on one is refused.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Places = NDArray[np.int32] | NDArray[np.int64]


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values of ``kind`` are held: ``kind`` itself wherever Arrow can take from it."""
    types = pa.types
    if kind.num_fields == 0 and not (types.is_string_view(kind) or types.is_binary_view(kind)):
        return kind
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind.fields])
    if types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), keys_sorted=kind.keys_sorted)
    if types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    return kind


def is_supported(kind: pa.DataType) -> bool:
    """Whether rows of this type can be held and answered."""
    try:
        take(pa.nulls(1, kind), np.zeros(1, dtype=np.int32))
    except pa.ArrowNotImplementedError:
        return False
    return True


def to_plain(column: pa.Array) -> pa.Array:
    """The column in its plain type; the same object if it has it already."""
    if pa.types.is_run_end_encoded(column.type):
        return to_plain(pc.run_end_decode(column))
    kind = plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def from_plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Undo ``to_plain``."""
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(from_plain(column, kind.value_type), run_end_type=kind.run_end_type)
    return column if kind == column.type else column.cast(kind)


def take(column: pa.Array, places: Places) -> pa.Array:
    """``column[places]``."""
    return from_plain(to_plain(column).take(pa.array(places)), column.type)


def take_batch(batch: pa.RecordBatch, places: Places) -> pa.RecordBatch:
    """The rows at ``places``."""
    if all(plain_type(kind) == kind for kind in batch.schema.types):
        return batch.take(pa.array(places))
    columns = [take(column, places) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def plain_batch(columns: Sequence[pa.Array], names: Sequence[str]) -> pa.RecordBatch:
    """Columns as a window holds them."""
    return pa.RecordBatch.from_arrays([to_plain(column) for column in columns], names=list(names))


def typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column; nulls of ``kind`` if it is one of which nothing is known, which has Arrow's null type."""
    return pa.nulls(len(column), kind) if pa.types.is_null(column.type) else column


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches with the same columns as one, also where nothing is known of a column in some of them."""
    if len(batches) == 1:
        return batches[0]
    first = batches[0].schema
    if all(batch.schema.equals(first) for batch in batches[1:]):
        return pa.concat_batches(batches)
    kinds = list(first.types)
    for batch in batches[1:]:
        kinds = [
            other if pa.types.is_null(kind) else kind for kind, other in zip(kinds, batch.schema.types, strict=True)
        ]
    return pa.concat_batches(
        pa.RecordBatch.from_arrays(
            [typed(column, kind) for column, kind in zip(batch.columns, kinds, strict=True)], names=first.names
        )
        for batch in batches
    )


def spread(column: pa.Array, places: NDArray[np.bool_]) -> pa.Array:
    """The values of the column where ``places`` is true, one after the other, and nulls elsewhere."""
    numbers = pa.array(np.cumsum(places) - 1, mask=~places)
    return from_plain(to_plain(column).take(numbers), column.type)


def owned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, copied if it is a small slice that would keep a much larger batch in memory."""
    if batch.get_total_buffer_size() <= 2 * batch.nbytes + 4096:
        return batch
    return batch.take(pa.array(np.arange(batch.num_rows)))


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))
