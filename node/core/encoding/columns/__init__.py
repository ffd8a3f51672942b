"""One column of rows as bytes, without its type: both ends know it.

What is missing is left out and a bit for each row says where. How the rest is
laid out depends on the type alone:

    whole numbers, truth values, dates, times    packed (``ints.py``)
    floats            decimal fractions as whole numbers; others as they are, in planes of a byte
    text, binary      lengths packed, then the bytes; or distinct values, and which of them each row has
    decimals, binary of one size    as they are; decimals in planes of a byte
    all others        Arrow's own format for that column

A column that comes out as the same bytes as an earlier one is sent as its number:
event times travel twice, and so do the keys of two streams that were joined.
"""

from node.core.encoding.columns.column import ColumnReader, encode_column, rows_bytes, same_as

__all__ = ["ColumnReader", "encode_column", "rows_bytes", "same_as"]
