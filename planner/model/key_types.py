"""Which column types can be joined with which.

Two columns can be equal only within one family. Floating point is left out on
purpose: NaN and -0.0 make equality of floats a question, not an answer.
"""

from __future__ import annotations

import pyarrow as pa

SUPPORTED = "an integer, string, binary, boolean, date, timestamp or decimal"


def key_family(kind: pa.DataType) -> str | None:
    """The family of values this type's values can equal, or None if it cannot be a join key."""
    types = pa.types
    if types.is_dictionary(kind):
        return key_family(kind.value_type)
    if types.is_uint64(kind):
        return "uint64"
    if types.is_integer(kind):
        return "integer"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "string"
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "binary"
    if types.is_timestamp(kind):
        return f"timestamp[{kind.unit}{', tz' if kind.tz else ''}]"
    if types.is_boolean(kind) or types.is_date(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind):
        return str(kind)
    return None
