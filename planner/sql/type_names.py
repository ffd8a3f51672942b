"""The names of types in CAST."""

from __future__ import annotations

import pyarrow as pa

from planner.model.types import DECIMAL_DIGITS_MAX
from planner.sql.cursor import Cursor
from planner.sql.tokens import TokenKind

_TYPES = {
    **dict.fromkeys(("TINYINT", "INT8", "BYTE"), pa.int8()),
    **dict.fromkeys(("SMALLINT", "INT16", "SHORT", "INT2"), pa.int16()),
    **dict.fromkeys(("INT", "INTEGER", "INT32", "INT4"), pa.int32()),
    **dict.fromkeys(("BIGINT", "INT64", "LONG"), pa.int64()),
    **dict.fromkeys(("REAL", "FLOAT", "FLOAT32", "FLOAT4"), pa.float32()),
    **dict.fromkeys(("DOUBLE", "DOUBLE PRECISION", "FLOAT64", "FLOAT8"), pa.float64()),
    **dict.fromkeys(("VARCHAR", "STRING", "TEXT"), pa.string()),
    **dict.fromkeys(("BOOLEAN", "BOOL"), pa.bool_()),
    "DATE": pa.date32(),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ", "DATETIME"), pa.timestamp("us")),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMP_LTZ"), pa.timestamp("us", "UTC")),
}
_DECIMALS = ("DECIMAL", "NUMERIC", "DEC")
_LISTED = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, REAL, DOUBLE, DECIMAL(p, s), VARCHAR, DATE, TIMESTAMP or TIMESTAMPTZ"
)


def type_name(cursor: Cursor) -> pa.DataType:
    """The type that comes next."""
    word = cursor.word()
    if word in _DECIMALS:
        cursor.take()
        return _decimal(cursor)
    if word not in _TYPES:
        raise cursor.error(f"required a type: {_LISTED}")
    cursor.take()
    return _TYPES[word]


def _decimal(cursor: Cursor) -> pa.DataType:
    at = cursor.before().start
    precision, scale = 10, 0
    if cursor.accept("("):
        precision = _whole(cursor)
        if cursor.accept(","):
            scale = _whole(cursor)
        cursor.expect(")", "after the digits of DECIMAL")
    if not 1 <= precision <= DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
        message = (
            f"DECIMAL(p, s) requires 1 to {DECIMAL_DIGITS_MAX} digits, at most p of them after the point; "
            f"got DECIMAL({precision}, {scale})"
        )
        raise cursor.source.error(message, at)
    return pa.decimal128(precision, scale)


def _whole(cursor: Cursor) -> int:
    token = cursor.peek()
    if token is None or token.kind is not TokenKind.NUMBER or not token.text.isdecimal() or len(token.text) > 4:
        raise cursor.error("required a number of digits")
    cursor.take()
    return int(token.text)
