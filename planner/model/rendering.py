"""How an expression reads: as SQL, for explain and for messages.

Our parser reads it back, but for what a query cannot say: a cast to a time of another unit than microseconds has its
unit in parentheses, and so on.
"""

from __future__ import annotations

import pyarrow as pa

from planner.model.query import Call, ColumnRef, Expr, Literal
from planner.model.types import TIME_FIELDS

_INFIX = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "and", "or", "like")
#: Written in a way of their own: with their operands in parentheses where those are operators too.
_FORMS = {
    "not": "NOT {0}",
    "unary -": "-{0}",
    "is null": "{0} IS NULL",
    "is distinct": "{0} IS DISTINCT FROM {1}",
    "between": "{0} BETWEEN {1} AND {2}",
}
_OPERATORS = (*_INFIX, *_FORMS, "in")


def expr_text(expr: Expr) -> str:
    """The expression as SQL; operators below another are in parentheses."""
    if isinstance(expr, ColumnRef):
        return f"{_name(expr.alias)}.{_name(expr.column)}"
    if isinstance(expr, Literal):
        return _literal(expr)
    args: list[str] = []
    for arg in expr.args:
        text = expr_text(arg)
        below = isinstance(arg, Call) and expr.function in _OPERATORS and arg.function in _OPERATORS
        # Two minus signs in a row begin a comment.
        negative = expr.function == "unary -" and text.startswith("-")
        args.append(f"({text})" if below or negative else text)
    return _call(expr, args)


def _name(name: str) -> str:
    """A name, in quotes if it would not be read as one without."""
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


def _call(call: Call, args: list[str]) -> str:
    name = call.function
    word = name.upper()
    if name in _INFIX:
        return f" {word} ".join(args)
    if name in _FORMS:
        return _FORMS[name].format(*args)
    if name in TIME_FIELDS:
        return f"EXTRACT({word} FROM {args[0]})"
    match name:
        case "in":
            return f"{args[0]} IN ({', '.join(args[1:])})"
        case "cast":
            return f"CAST({args[0]} AS {_type_text(call.type)})"
        case "case":
            pairs = zip(args[0:-1:2], args[1:-1:2], strict=True)
            branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
            return f"CASE {branches} ELSE {args[-1]} END"
        case _:
            return f"{word}({', '.join(args)})"


def _literal(literal: Literal) -> str:
    kind, value = literal.type, literal.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if pa.types.is_date(kind):
        return f"DATE '{pa.scalar(value, kind).cast(pa.string()).as_py()}'"
    if pa.types.is_timestamp(kind):
        return f"TIMESTAMP '{pa.scalar(value, kind).cast(pa.string()).as_py()}'"
    if pa.types.is_duration(kind):
        return f"INTERVAL '{value} {kind.unit}'"
    return str(value)


def _type_text(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        unit = "" if kind.unit == "us" else f"({kind.unit})"
        return f"TIMESTAMP{'' if kind.tz is None else 'TZ'}{unit}"
    return _NAMES.get(kind, str(kind).upper())


_NAMES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "REAL",
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.date32(): "DATE",
}
