"""Arrow as plain as it can be: dictionaries decoded, views and extension types replaced by what they stand for.

Two sites may write one column in different encodings, and a join must not care. Metadata is dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that ``plain_batch`` gives: no encodings, no metadata."""
    return pa.schema([_plain_field(field) for field in schema])


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the same values without encoding: what a dictionary, view or extension stands for."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    return _plain_nested_type(kind) if types.is_nested(kind) else kind


def _plain_nested_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_list(kind) or types.is_list_view(kind):
        return pa.list_(_plain_field(kind.value_field))
    if types.is_large_list(kind) or types.is_large_list_view(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), kind.keys_sorted)
    if types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    return kind


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of ``schema``, which is its own schema made plain."""
    columns = [plain_array(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same values as ``target``, the plain type of this array.

    Nested arrays are rebuilt here and not by Arrow's cast: in Arrow 26 a cast from list_view to list
    ignores the sizes and silently loses values (apache/arrow#50994).
    """
    if array.type.equals(target, check_metadata=True):
        return array
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage, target)
    if isinstance(array, pa.DictionaryArray):
        return plain_array(array.dictionary_decode(), target)
    if pa.types.is_nested(target):
        return _plain_nested(array, target)
    return array.cast(target)


def _plain_nested(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_struct(target):
        children = [plain_array(array.field(index), field.type) for index, field in enumerate(target)]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
    if pa.types.is_fixed_size_list(target):
        size = target.list_size
        values = plain_array(array.values.slice(array.offset * size, len(array) * size), target.value_type)
        return pa.FixedSizeListArray.from_arrays(values, type=target, mask=array.is_null())
    if pa.types.is_map(target):
        return _plain_map(array, target)
    large = pa.types.is_large_list(target)
    sizes = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = _offsets(sizes, pa.int64() if large else pa.int32())
    values = plain_array(array.flatten(), target.value_type)
    kind = pa.LargeListArray if large else pa.ListArray
    return kind.from_arrays(offsets, values, type=target, mask=array.is_null())


def _plain_map(array: pa.MapArray, target: pa.DataType) -> pa.Array:
    """Arrow cannot flatten a map, so the part of its entries that this slice covers is cut out."""
    offsets = array.offsets.to_numpy()
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = plain_array(array.keys.slice(start, length), target.key_type)
    items = plain_array(array.items.slice(start, length), target.item_type)
    return pa.MapArray.from_arrays(pa.array(offsets - start), keys, items, type=target, mask=array.is_null())


def _offsets(sizes: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    ends = np.cumsum(sizes, dtype=np.int64)
    return pa.array(np.concatenate([np.zeros(1, np.int64), ends])).cast(kind)
