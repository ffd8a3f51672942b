"""The functions of the SQL reference: how each is written, what it takes and gives, and examples.

The values of the examples are computed by the system when the page is made; a test has them confirmed by the row-wise
meaning that the kernels are tested against, and sees that no function is missing.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from node.core.kernels.evaluation import evaluate
from planner.model.query import Expr, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.model.types import UNITS
from planner.sql.parser import parse_query


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the reference. ``covers`` is its name in ``planner.model.functions``, if not in ``form``."""

    form: str
    types: str
    meaning: str
    examples: tuple[str, ...]
    covers: tuple[str, ...]


def _entry(form: str, types: str, meaning: str, *examples: str, covers: str = "") -> Entry:
    name = form.partition("(")[0].strip().lower()
    return Entry(form, types, meaning, examples, tuple(covers.split(", ")) if covers else (name,))


_WORDS = "a string, constant strings"

GROUPS: Mapping[str, tuple[Entry, ...]] = {
    "Conditions": (
        _entry(
            "a = b, a <> b, a != b, a < b, a <= b, a > b, a >= b",
            "two of a kind → boolean",
            "Comparison. Numbers of any type compare with each other, times with dates. Null if one side is null.",
            "2 = 2.0",
            "'b' > 'a'",
            "1 < cast(null AS INT)",
            covers="=, <>, <, <=, >, >=",
        ),
        _entry(
            "a AND b, a OR b, NOT a",
            "booleans → boolean",
            "Three values: false AND null is false, true OR null is true, else null stays null.",
            "false AND cast(null AS BOOLEAN)",
            "true OR cast(null AS BOOLEAN)",
            "NOT cast(null AS BOOLEAN)",
            covers="and, or, not",
        ),
        _entry(
            "a IS [NOT] NULL",
            "anything → boolean",
            "Never null. The only condition for columns that nothing is computed from, such as lists.",
            "cast(null AS INT) IS NULL",
            covers="is null",
        ),
        _entry(
            "a IS [NOT] TRUE, a IS [NOT] FALSE",
            "boolean → boolean",
            "Never null.",
            "cast(null AS BOOLEAN) IS TRUE",
            "cast(null AS BOOLEAN) IS NOT FALSE",
            covers="coalesce",
        ),
        _entry(
            "a IS [NOT] DISTINCT FROM b",
            "two of a kind → boolean",
            "Comparison in which null equals null. Never null.",
            "cast(null AS INT) IS DISTINCT FROM 1",
            covers="is distinct",
        ),
        _entry(
            "a [NOT] BETWEEN low AND high",
            "three of a kind → boolean",
            "`low <= a AND a <= high`.",
            "2 BETWEEN 1 AND 3",
            covers="between",
        ),
        _entry(
            "a [NOT] IN (b, c, ...)",
            "all of a kind → boolean",
            "`a = b OR a = c ...`; so it is null if none is equal and one is null.",
            "'FR' IN ('DE', 'FR')",
            "1 IN (2, cast(null AS INT))",
            covers="in",
        ),
        _entry(
            "a [NOT] LIKE pattern [ESCAPE c], a ILIKE pattern",
            "a string, a constant string → boolean",
            "`%` is any text, `_` any character, `\\` takes the next one as it is. ILIKE: both in lower case.",
            "'desk lamp' LIKE 'desk%'",
            "'50%' LIKE '50!%' ESCAPE '!'",
            "'Visa' ILIKE 'VISA'",
            covers="like",
        ),
    ),
    "Choosing": (
        _entry(
            "CASE WHEN c THEN a ... [ELSE b] END, CASE x WHEN v THEN a ... END",
            "conditions, values of a kind → that kind",
            "The value of the first condition that is true; ELSE, or null, if none is. `if(c, a, b)` is the same.",
            "CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END",
            "CASE 3 WHEN 3 THEN 'three' END",
            "if(cast(null AS BOOLEAN), 1, 2)",
            covers="case",
        ),
        _entry("coalesce(a, b, ...)", "all of a kind → that kind", "The first that is not null.", "coalesce(null, 7)"),
        _entry("nullif(a, b)", "two of a kind → that kind", "Null if they are equal, else a.", "nullif(0, 0)"),
        _entry(
            "greatest(a, b, ...), least(a, b, ...)",
            "all of a kind → that kind",
            "Nulls are skipped; null if all are null.",
            "greatest(3, null, 5)",
            "least('b', 'a')",
            covers="greatest, least",
        ),
    ),
    "Numbers": (
        _entry(
            "a + b, a - b, -a",
            "numbers → number; a time and an interval → time; two times → interval",
            "Integers stay integers, decimals are exact. Null where it does not fit into 64 bits.",
            "2 + 0.50",
            "9223372036854775807 + 1",
            "TIMESTAMP '2026-01-01 00:00:00' + INTERVAL '90 seconds'",
            covers="+, -, unary -",
        ),
        _entry("a * b", "numbers → number", "As above.", "3 * 1.50", covers="*"),
        _entry("a / b", "numbers → double", "Always of doubles; null if b is 0.", "7 / 2", "1 / 0", covers="/"),
        _entry(
            "a % b, mod(a, b)",
            "numbers → bigint, or double",
            "The remainder, with the sign of a; null if b is 0.",
            "-7 % 3",
            "mod(7, 0)",
            covers="%",
        ),
        _entry("abs(a)", "number or interval → the same", "Without its sign.", "abs(-3)"),
        _entry(
            "round(a [, digits])",
            "a number, a constant from 0 to 15 → the same",
            "Half up, away from zero.",
            "round(2.5)",
            "round(-2.345, 2)",
        ),
        _entry(
            "floor(a), ceil(a)",
            "number → bigint, or decimal without a fraction",
            "The next whole number below, above.",
            "floor(-1.5)",
            "ceil(1.2e0)",
            covers="floor, ceil",
        ),
        _entry("sqrt(a)", "number → double", "Null if a is negative.", "sqrt(2.25)", "sqrt(-1)"),
        _entry("power(a, b)", "numbers → double", "a to the power of b; null if that is no number.", "power(2, 10)"),
        _entry(
            "ln(a), exp(a)",
            "number → double",
            "Natural logarithm, null unless a is positive; e to the power of a.",
            "ln(1)",
            "ln(0)",
            "exp(0)",
            covers="ln, exp",
        ),
    ),
    "Strings": (
        _entry("a || b, concat(a, ...)", "strings → string", "One after the other.", "'a' || 'b'", covers="||"),
        _entry(
            "lower(a), upper(a)",
            "string → string",
            "In lower, in upper case.",
            "upper('visa')",
            "lower('ÄB')",
            covers="lower, upper",
        ),
        _entry(
            "trim(a), ltrim(a), rtrim(a)",
            "string → string",
            "Without spaces at both ends, at the beginning, at the end.",
            "trim(' a ') || '.'",
            "ltrim(' a ') || '.'",
            "rtrim(' a ') || '.'",
            covers="trim, ltrim, rtrim",
        ),
        _entry("length(a)", "string → bigint", "How many code points.", "length('für')"),
        _entry(
            "substring(a, start [, count]), substring(a FROM start FOR count)",
            "a string, constant integers → string",
            "From the start-th code point on, the first being 1; from the end if start is negative.",
            "substring('desk lamp', 6)",
            "substring('desk lamp', 1, 4)",
            "substring('desk lamp', -4, 2)",
            covers="substring",
        ),
        _entry("replace(a, old, new)", f"{_WORDS} → string", "Every `old` becomes `new`.", "replace('a-b-c', '-', '')"),
        _entry(
            "starts_with(a, b), ends_with(a, b), contains(a, b)",
            "a string, a constant string → boolean",
            "Whether b is at the beginning, at the end, anywhere.",
            "starts_with('visa', 'vi')",
            "contains('visa', 'x')",
            covers="starts_with, ends_with, contains",
        ),
    ),
    "Times": (
        _entry(
            "year(t), month(t), day(t), hour(t), minute(t), second(t)",
            "date or timestamp → bigint",
            "A part of it, in UTC. `extract(YEAR FROM t)` is the same.",
            "year(DATE '2026-05-31')",
            "extract(HOUR FROM TIMESTAMP '2026-05-31 12:30:00')",
            covers="year, month, day, hour, minute, second",
        ),
        _entry(
            "epoch(t)",
            "date or timestamp → double",
            "Seconds since 1970. Also `extract(EPOCH FROM t)`.",
            "epoch(TIMESTAMP '1970-01-02 00:00:00.5')",
        ),
    ),
    "Casts": (
        _entry(
            "cast(a AS type), try_cast(a AS type), a::type",
            "see below → the type",
            "Null if a has no such value; all three are the same.",
            "cast('12' AS INT)",
            "'abc'::INT",
            "cast(2.7 AS INT)",
            "'2026-05-31'::DATE",
            covers="cast",
        ),
    ),
}

_SCHEMA = pa.schema([("k", pa.int64())])
_QUERY = "SELECT {} AS x FROM l [ROWS 1] JOIN r [ROWS 1] ON l.k = r.k"
_STREAMS = {name: StreamInfo(name, "here", _SCHEMA, "k", TimeUnit.MS) for name in ("l", "r")}


def bound(expression: str) -> Expr:
    """An example as the system reads it."""
    query = parse_query(_QUERY.format(expression), _STREAMS)
    return query.outputs[0].source


def value(expression: str) -> Any:
    """What an example gives."""
    row = pa.RecordBatch.from_pydict({"l.k": [1]})
    return _plain(evaluate(bound(expression), row))


def _plain(column: pa.Array) -> Any:
    kind = column.type
    if pa.types.is_timestamp(kind) and column[0].is_valid:
        seconds = column.cast(pa.int64())[0].as_py() / UNITS[kind.unit]
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return column[0].as_py()


def shown(found: Any) -> str:
    """A value as one would write it."""
    if found is None:
        return "null"
    if isinstance(found, bool):
        return str(found).lower()
    return f"'{found}'" if isinstance(found, str) else str(found)


def reference() -> str:
    """The tables."""
    parts = []
    for name, entries in GROUPS.items():
        rows = ["| written | takes → gives | meaning | for example |", "|---|---|---|---|"]
        for entry in entries:
            form = ", ".join(f"`{_cell(each)}`" for each in _forms(entry.form))
            examples = "<br>".join(f"`{_cell(each)}` is `{_cell(shown(value(each)))}`" for each in entry.examples)
            rows.append(f"| {form} | {entry.types} | {_cell(entry.meaning)} | {examples} |")
        parts += [f"### {name}", "\n".join(rows)]
    return "\n\n".join(parts)


def _forms(text: str) -> list[str]:
    """The forms of an entry: commas within brackets do not separate."""
    forms, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            forms.append("")
        else:
            forms[-1] += letter
    return [form.strip() for form in forms]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
