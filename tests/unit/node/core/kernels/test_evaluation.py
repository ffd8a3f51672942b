"""Vectorised expressions agree with their row-wise meaning, for any types and any values."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.kernels import KERNELS
from node.core.kernels.evaluation import EvaluationError, evaluate, holds
from planner.model.errors import QueryError
from planner.model.functions import CAST, FUNCTIONS
from planner.model.query import Call, ColumnRef, Expr, StreamInfo
from planner.model.rendering import expr_text
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.examples import new_examples
from tests.expressions import python_values, rows_that_hold, values_of

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("i", pa.int64()),
        ("j", pa.int32()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.decimal128(12, 2)),
        ("e", pa.decimal128(38, 10)),
        ("s", pa.string()),
        ("t", pa.large_string()),
        ("v", pa.string_view()),
        ("w", pa.dictionary(pa.int8(), pa.string())),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("ms")),
        ("us", pa.timestamp("us")),
        ("ns", pa.timestamp("ns")),
        ("tz", pa.timestamp("us", "Europe/Oslo")),
        ("span", pa.duration("ms")),
        ("list", pa.list_(pa.int64())),
    ]
)
CATALOGUE = {
    name: StreamInfo(name, "oslo", SCHEMA if name == "o" else pa.schema([("k", pa.int64())]), "k", TimeUnit.MS)
    for name in ("o", "p")
}


def bound(sql: str) -> Expr:
    """The expression of a select list."""
    query = parse_query(f"SELECT {sql} AS x FROM o [ROWS 1] JOIN p [ROWS 1] ON o.k = p.k", CATALOGUE)
    return query.outputs[0].source


def bound_or_untyped(sql: str) -> Expr | None:
    """The expression, or None if it is nothing but nulls; any other refusal is an error."""
    try:
        return bound(sql)
    except QueryError as error:
        if "NULL has no type" in str(error):
            return None
        raise


def batch(**columns: list[Any]) -> pa.RecordBatch:
    """Rows with the given columns, null in all others."""
    count = len(next(iter(columns.values())))
    arrays = [pa.array(columns.get(field.name, [None] * count), field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, [f"o.{name}" for name in SCHEMA.names])


def computed(sql: str, **columns: list[Any]) -> list[Any]:
    rows = batch(**columns or {"k": [1]})
    expr = bound(sql)
    return python_values(evaluate(expr, rows))


def test_every_function_has_a_rule_and_a_kernel() -> None:
    assert {*FUNCTIONS, CAST} == set(KERNELS)


# Random expressions.

TEXTS = [
    *["", "a", "B", "ab", "aB%", "a_b", "\\%", " a ", "é", "语A", "😀b", "b\na", ".", "'"],
    *[
        "12",
        " -7 ",
        "+0009223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "1.5e3",
        ".5",
        "5.",
        "-0.5",
    ],
    *[
        "1e999",
        "nan",
        "true",
        " F ",
        "2024-02-29",
        "2023-02-29",
        "2024-12-31 23:59:59.123456789",
        "0000-01-01",
        "1.005",
    ],
    *["2024-01-01T00:00Z", "2024-01-01 00:00:00+05:30", "2024-13-01", "9999-12-31 24:00"],
    *["9" * 38, "0." + "4" * 38, "9" * 36 + ".99"],
]
FLOATS = [0.0, -0.0, 0.5, -2.5, 1e300, -1e300, 2.0**63, math.nan, math.inf, -math.inf, 1e-320, 2.675, 1.0, -1.0]


def random_value(rng: random.Random, name: str) -> Any:
    """A value of a column: null, small, extreme, or anything."""
    kind = SCHEMA.field(name).type
    if rng.random() < 0.15:
        return None
    if name in "stvw":
        return rng.choice(TEXTS)
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        value = rng.choice([rng.choice(FLOATS), rng.uniform(-5, 5), rng.uniform(-1e19, 1e19)])
        return value if name == "f" else struct.unpack("f", struct.pack("f", max(-3e38, min(3e38, value))))[0]
    if pa.types.is_decimal(kind):
        most = 10 ** (12 if name == "d" else 30) - 1
        digits = rng.choice([rng.randint(-999, 999), rng.randint(-most, most), -most, most, 0])
        return Decimal(digits).scaleb(-kind.scale)
    if pa.types.is_list(kind):
        return []
    low, high = (0, 2**64 - 1) if name == "u" else (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    small = rng.randint(max(low, -5), 5)
    if pa.types.is_temporal(kind):
        edges = [-62135596800000, -62135596800001, 253402300799999, 253402300800000, 10**9, -1]
        small = rng.choice([small, max(low, min(high, rng.choice(edges))), rng.randint(-(10**5), 10**5)])
    return rng.choice([small, small, rng.randint(low, high), low, high])


def random_rows(seed: int, count: int = 25) -> pa.RecordBatch:
    rng = random.Random(seed)
    return batch(**{name: [random_value(rng, name) for _ in range(count)] for name in SCHEMA.names})


ROWS = st.integers(0, 10**6).map(random_rows)


Sql = st.SearchStrategy[str]


def one_of_sql(*choices: str, **parts: Sql) -> Sql:
    """A template with its holes filled: {n} a number, {s} a string, {c} a condition, {t} a time, {d} an interval."""

    def fill(template: str) -> Sql:
        pieces = template.split("{")
        holes = [parts[piece[0]] for piece in pieces[1:]]
        return st.tuples(*holes).map(
            lambda filled: pieces[0] + "".join(text + piece[2:] for text, piece in zip(filled, pieces[1:], strict=True))
        )

    return st.sampled_from(choices).flatmap(fill)


NUMBER_LEAVES = st.sampled_from(
    [
        *["i", "j", "u", "f", "g", "d", "e", "0", "1", "-3", "2.50", "9223372036854775807", "-9223372036854775808"],
        "NULL",
    ]
)
TEXT_LEAVES = st.sampled_from(["s", "t", "v", "w", "''", "'aB'", "'é%'", "'2024-02-29'", "CAST(NULL AS VARCHAR)"])
CONDITION_LEAVES = st.sampled_from(["b", "TRUE", "FALSE", "NULL", "(list IS NULL)", "(i > 0)", "(s LIKE '%a_')"])
TIME_LEAVES = st.sampled_from(["ts", "us", "ns", "day", "DATE '2024-02-29'", "TIMESTAMP '1999-12-31 23:59:59.999'"])
SPAN_LEAVES = st.sampled_from(["span", "INTERVAL '90 minutes'", "INTERVAL 3 MICROSECONDS", "(ts - us)", "(tz - tz)"])


def numbers(**kinds: Sql) -> Sql:
    return one_of_sql(
        *["({n} + {n})", "({n} - {n})", "({n} * {n})", "({n} / {n})", "({n} % {n})", "(- {n})", "ABS({n})"],
        *["ROUND({n})", "ROUND({n}, 2)", "FLOOR({n})", "CEIL({n})", "SQRT({n})", "LENGTH({s})", "COALESCE({n}, {n})"],
        *["NULLIF({n}, {n})", "GREATEST({n}, {n}, {n})", "LEAST({n}, {n})", "CASE WHEN {c} THEN {n} ELSE {n} END"],
        *["CASE {n} WHEN {n} THEN {n} END", "IF({c}, {n}, {n})", "CAST({n} AS BIGINT)", "CAST({n} AS SMALLINT)"],
        *["CAST({s} AS BIGINT)", "{s}::INT", "CAST({s} AS DOUBLE)", "CAST({n} AS DOUBLE)", "CAST({n} AS REAL)"],
        *["CAST({s} AS DECIMAL(20, 3))", "CAST({c} AS INT)", "CAST({c} AS DECIMAL(3, 1))", "MOD({n}, {n})"],
        "CAST({s} AS DECIMAL(38, 0))",
        *[
            "CAST(d AS DECIMAL(6, 1))",
            "CAST(e AS DECIMAL(38, 0))",
            "CAST(u AS DECIMAL(38, 0))",
            "CAST(i AS DECIMAL(9, 2))",
        ],
        *["EXTRACT(YEAR FROM {t})", "EXTRACT(MONTH FROM {t})", "EXTRACT(DAY FROM {t})", "EXTRACT(HOUR FROM {t})"],
        *["EXTRACT(MINUTE FROM {t})", "EXTRACT(SECOND FROM {t})", "EXTRACT(EPOCH FROM {t})", "EXTRACT(DAY FROM tz)"],
        **kinds,
    )


def texts(**kinds: Sql) -> Sql:
    return one_of_sql(
        *["({s} || {s})", "CONCAT({s}, {s}, 'x')", "LOWER({s})", "UPPER({s})", "TRIM({s})", "LTRIM({s})", "RTRIM({s})"],
        *["SUBSTRING({s}, 2)", "SUBSTRING({s} FROM 1 FOR 2)", "SUBSTR({s}, -3, 2)", "SUBSTR({s}, 0, 1)"],
        *["SUBSTRING({s}, -2, 9)", "SUBSTRING({s}, 2, -1)", "REPLACE({s}, 'a', 'bb')", "REPLACE({s}, '', 'x')"],
        *["CASE WHEN {c} THEN {s} WHEN {c} THEN {s} END", "COALESCE({s}, {s})", "NULLIF({s}, {s})", "LEAST({s}, {s})"],
        *["CAST(i AS VARCHAR)", "CAST({c} AS VARCHAR)", "CAST(day AS VARCHAR)"],
        **kinds,
    )


def conditions(**kinds: Sql) -> Sql:
    return one_of_sql(
        *["({n} = {n})", "({n} <> {n})", "({n} < {n})", "({n} <= {n})", "({n} > {n})", "({n} >= {n})"],
        *["({s} = {s})", "({s} < {s})", "({s} >= {s})", "({t} < {t})", "({t} = {t})", "({d} <= {d})", "({c} = {c})"],
        *["({c} AND {c})", "({c} OR {c} OR {c})", "(NOT {c})", "({n} IS NULL)", "({s} IS NOT NULL)", "({c} IS TRUE)"],
        *["({c} IS NOT FALSE)", "({n} IS DISTINCT FROM {n})", "({s} IS NOT DISTINCT FROM {s})"],
        *["({n} BETWEEN {n} AND {n})", "({s} NOT BETWEEN {s} AND {s})", "({n} IN ({n}, 1, 2.5, NULL))"],
        *["(i IN (1, 2, -3))", "({s} IN ('aB', {s}))", "({n} NOT IN ({n}, {n}))", "(day IN (DATE '1970-01-02', day))"],
        *[
            "({s} LIKE 'a%')",
            "({s} LIKE '_\\%%')",
            "({s} LIKE '%')",
            "({s} NOT LIKE '%!_%' ESCAPE '!')",
            "({s} ILIKE '%AB%')",
        ],
        *[
            "STARTS_WITH({s}, 'a')",
            "ENDS_WITH({s}, '')",
            "CONTAINS({s}, 'b')",
            "CAST({s} AS BOOLEAN)",
            "CAST({n} AS BOOLEAN)",
        ],
        *[
            "CASE WHEN {c} THEN {c} ELSE {c} END",
            "({d} = INTERVAL '1 day')",
            "(tz > TIMESTAMP '2024-01-01 00:00:00+02:00')",
        ],
        **kinds,
    )


def times(**kinds: Sql) -> Sql:
    return one_of_sql(
        *[
            "({t} + {d})",
            "({t} - {d})",
            "({d} + {t})",
            "CAST({t} AS DATE)",
            "CAST({t} AS TIMESTAMP)",
            "CAST({s} AS DATE)",
        ],
        *[
            "CAST({s} AS TIMESTAMP)",
            "COALESCE({t}, {t})",
            "GREATEST({t}, {t})",
            "CAST(CAST({s} AS TIMESTAMPTZ) AS TIMESTAMP)",
        ],
        **kinds,
    )


def spans(**kinds: Sql) -> Sql:
    return one_of_sql(
        *["({t} - {t})", "({d} + {d})", "({d} - {d})", "(- {d})", "ABS({d})", "CASE WHEN {c} THEN {d} END"],
        **kinds,
    )


def grown(levels: int) -> tuple[Sql, ...]:
    """Strategies for each kind of expression, up to so many levels deep."""
    makers = {"n": numbers, "s": texts, "c": conditions, "t": times, "d": spans}
    kinds = {"n": NUMBER_LEAVES, "s": TEXT_LEAVES, "c": CONDITION_LEAVES, "t": TIME_LEAVES, "d": SPAN_LEAVES}
    for _ in range(levels):
        kinds = {name: st.one_of(maker(**kinds), kinds[name]) for name, maker in makers.items()}
    return tuple(kinds.values())


@new_examples(120)
@given(st.one_of(*grown(1), *grown(3)), ROWS)
def test_vectorised_and_row_wise_agree(sql: str, rows: pa.RecordBatch) -> None:
    expr = bound_or_untyped(sql)
    if expr is None:
        return
    found = evaluate(expr, rows)
    found.validate(full=True)
    assert isinstance(expr, ColumnRef) or found.type == expr.type
    for number, (one, other) in enumerate(zip(python_values(found), values_of(expr, rows), strict=True)):
        assert alike(one, other), f"{expr_text(expr)} in row {number}: vectorised {one!r}, row-wise {other!r}"
    if not isinstance(expr, ColumnRef) and expr.type == pa.bool_():
        assert holds(expr, rows).tolist() == rows_that_hold(expr, rows)


def alike(one: Any, other: Any) -> bool:
    """The same value; -0.0 is 0.0, NaN is NaN."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


# What the documentation of planner.model.functions says, by example.

INF, NAN = math.inf, math.nan
MIN, MAX = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("sql", "columns", "expected"),
    [
        ("i + j", {"i": [1, MAX, None, -1, MIN, 5], "j": [1, 1, 1, 5, -1, -7]}, [2, None, None, 4, None, -2]),
        ("i - j", {"i": [1, MIN, None, 5, MAX, -5], "j": [1, 1, 1, -3, -1, 4]}, [0, None, None, 8, None, -9]),
        ("i * i", {"i": [3037000499, 3037000500, -3037000500, MIN]}, [9223372030926249001, None, None, None]),
        ("i * -1", {"i": [MIN, MAX]}, [None, -MAX]),
        ("-1 * i", {"i": [MIN, MAX]}, [None, -MAX]),
        ("-i", {"i": [MIN, 5]}, [None, -5]),
        ("ABS(i)", {"i": [MIN, -5]}, [None, 5]),
        ("i % 3", {"i": [7, -7, MIN]}, [1, -1, -2]),
        ("7 % i", {"i": [0, -3, -1]}, [None, 1, 0]),
        ("i % -1", {"i": [MIN]}, [0]),
        ("i / 2", {"i": [3, -3]}, [1.5, -1.5]),
        ("i / 0", {"i": [3]}, [None]),
        ("f / 0", {"f": [1.0, 0.0]}, [None, None]),
        ("f % 0.3", {"f": [1.0, INF]}, [0.1, NAN]),
        ("f = f", {"f": [NAN, -0.0, None]}, [True, True, None]),
        ("f = 0", {"f": [NAN, -0.0]}, [False, True]),
        ("f > 1e308", {"f": [NAN, INF, 5.0]}, [True, True, False]),
        ("1.5 < f", {"f": [NAN, INF, 1.5, None]}, [True, True, False, None]),
        ("1.5 >= f", {"f": [NAN, INF, 1.5, None]}, [False, False, True, None]),
        ("f IN (0.0, 1.5)", {"f": [-0.0, 1.5, NAN, None]}, [True, True, False, None]),
        ("u > i", {"u": [2**64 - 1, 1], "i": [MAX, 1]}, [True, False]),
        ("u + 1", {"u": [2**64 - 1]}, [Decimal(2**64)]),
        ("d * d", {"d": [Decimal("1234567890.12")]}, [Decimal("1524157875315348393.6144")]),
        ("d * f", {"d": [Decimal("4.81")], "f": [1.0]}, [4.81]),
        ("ROUND(d, 1)", {"d": [Decimal("9999999999.95")]}, [Decimal("10000000000.0")]),
        ("ROUND(d, 1)", {"d": [Decimal("-0.05"), Decimal("0.04")]}, [Decimal("-0.1"), Decimal("0.0")]),
        ("ROUND(f)", {"f": [2.5, -2.5, 0.49999999999999994, 1e300, NAN]}, [3.0, -3.0, 0.0, 1e300, NAN]),
        ("ROUND(f, 2)", {"f": [1.005, 2.675, -0.125]}, [1.0, 2.68, -0.13]),
        ("FLOOR(f)", {"f": [-0.5, 1e300, NAN]}, [-1, None, None]),
        ("CEIL(d)", {"d": [Decimal("9999999999.01"), Decimal("-0.5")]}, [Decimal(10000000000), Decimal(0)]),
        ("SQRT(f)", {"f": [4.0, -1.0, None]}, [2.0, None, None]),
        ("LN(f)", {"f": [1.0, 0.0, -1.0, INF]}, [0.0, None, None, INF]),
        ("EXP(f)", {"f": [0.0, 1.0, 1000.0, -INF]}, [1.0, math.e, INF, 0.0]),
        ("POWER(f, 0.5)", {"f": [9.0, -9.0, NAN]}, [3.0, None, NAN]),
        ("POW(f, 3)", {"f": [2.0, -2.0, 1e200, -1e200]}, [8.0, -8.0, INF, -INF]),
        ("b AND NULL", {"b": [True, False, None]}, [None, False, None]),
        ("b OR NULL", {"b": [True, False, None]}, [True, None, None]),
        ("NOT b", {"b": [True, False, None]}, [False, True, None]),
        ("b IS TRUE", {"b": [True, False, None]}, [True, False, False]),
        ("b IS FALSE", {"b": [True, False, None]}, [False, True, False]),
        ("b IS NOT FALSE", {"b": [True, False, None]}, [True, False, True]),
        ("i IN (1, NULL)", {"i": [1, 2, None]}, [True, None, None]),
        ("i NOT IN (1, 2)", {"i": [1, 3, None]}, [False, True, None]),
        ("i BETWEEN 5 AND NULL", {"i": [1, 7]}, [False, None]),
        ("i IS DISTINCT FROM j", {"i": [1, 1, None], "j": [1, None, None]}, [False, True, False]),
        ("GREATEST(i, j)", {"i": [1, None, None], "j": [2, 3, None]}, [2, 3, None]),
        ("LEAST(f, 1.5)", {"f": [NAN, 1.0, None]}, [1.5, 1.0, 1.5]),
        ("NULLIF(i, 1)", {"i": [1, 2, None]}, [None, 2, None]),
        ("s < t", {"s": ["a", "Z", "é", "\uffff"], "t": ["b", "a", "z", "\U00010000"]}, [True, True, False, True]),
        ("LENGTH(s)", {"s": ["é😀", ""]}, [2, 0]),
        ("s || w", {"s": ["a", None], "w": ["b", "b"]}, ["ab", None]),
        ("SUBSTRING(s, -3, 2)", {"s": ["abcd", "ab", ""]}, ["bc", "a", ""]),
        ("SUBSTRING(s, -2, 2)", {"s": ["abcd", "a"]}, ["cd", "a"]),
        ("SUBSTRING(s, -3, 4)", {"s": ["abcd", "é😀"]}, ["bcd", "é😀"]),
        ("SUBSTRING(s, 0, 2)", {"s": ["abcd"]}, ["ab"]),
        ("TRIM(s)", {"s": ["  a b\t "]}, ["a b\t"]),
        ("s LIKE '_%a'", {"s": ["ba", "a", "b\na", "xyza"]}, [True, False, True, True]),
        ("s LIKE 'a\\_%'", {"s": ["a_b", "axb", "a_"]}, [True, False, True]),
        ("s LIKE '%.%'", {"s": ["a.b", "ab"]}, [True, False]),
        ("v ILIKE 'ÉA%'", {"v": ["éab", "ea"]}, [True, False]),
        ("CAST(s AS BIGINT)", {"s": [" 12 ", "1.5", "", "9223372036854775808"]}, [12, None, None, None]),
        ("CAST(s AS BIGINT)", {"s": ["-9223372036854775808", "-9223372036854775809"]}, [MIN, None]),
        ("CAST(f AS INT)", {"f": [-1.9, 3e9, NAN]}, [-1, None, None]),
        ("CAST(i AS TINYINT)", {"i": [127, 128, -128]}, [127, None, -128]),
        ("CAST(d AS DECIMAL(3, 1))", {"d": [Decimal("99.94"), Decimal("99.95")]}, [Decimal("99.9"), None]),
        ("CAST(d AS DECIMAL(3, 1))", {"d": [Decimal("-0.05"), None]}, [Decimal("-0.1"), None]),
        ("CAST(s AS DOUBLE)", {"s": ["1e999", "x", ".5"]}, [INF, None, 0.5]),
        ("CAST(s AS BOOLEAN)", {"s": ["Yes", "0", "2"]}, [True, False, None]),
        ("CAST(b AS VARCHAR)", {"b": [True, False]}, ["true", "false"]),
        ("CAST(s AS DATE)", {"s": ["1970-01-02", "1970-02-30"]}, [1, None]),
        ("CAST(day AS TIMESTAMP)", {"day": [1, 2**31 - 1]}, [86_400_000_000, None]),
        ("CAST(ts AS DATE)", {"ts": [-1, 86_400_000]}, [-1, 1]),
        ("ts + INTERVAL '1 s'", {"ts": [0, MAX]}, [1_000, None]),
        ("ts - us", {"ts": [1, MAX], "us": [1, 0]}, [999, None]),
        ("ts < us", {"ts": [1, 2], "us": [1_001, 2_000]}, [True, False]),
        ("EXTRACT(YEAR FROM tz)", {"tz": [-1, 0]}, [1969, 1970]),
        ("EXTRACT(HOUR FROM day)", {"day": [1]}, [0]),
        ("EXTRACT(YEAR FROM ts)", {"ts": [253402300799999, 253402300800000]}, [9999, None]),
        ("EXTRACT(SECOND FROM us)", {"us": [1_999_999]}, [1]),
        ("EXTRACT(EPOCH FROM us)", {"us": [1_500_000]}, [1.5]),
        ("list IS NULL", {"list": [None, []]}, [True, False]),
        ("CASE i WHEN 1 THEN 'one' WHEN NULL THEN 'none' END", {"i": [1, None]}, ["one", None]),
    ],
)  # fmt: skip
def test_a_function_does_what_its_documentation_says(
    sql: str, columns: dict[str, list[Any]], expected: list[Any]
) -> None:
    expr, rows = bound(sql), batch(**columns)
    for found in (python_values(evaluate(expr, rows)), values_of(expr, rows)):
        assert len(found) == len(expected)
        assert all(close(one, other) for one, other in zip(found, expected, strict=True)), found


def close(one: Any, other: Any) -> bool:
    """Alike, but for the last bits of doubles."""
    both = isinstance(one, float) and isinstance(other, float)
    return alike(one, other) or (both and math.isclose(one, other, rel_tol=1e-12))


NINES = "9" * 38
HALVES = [f"{NINES}.5", f"{NINES}.{'4' * 38}", f"{NINES}.{NINES}", f"0.{'5' * 38}", NINES[1:] + ".95"]
DIGITS = [NINES, f"0.{NINES}", *HALVES, "9.4", "9.5", "0.5", "0.4", "1", "0", "x", "0.94", "0.95"]
LARGE: dict[str, list[Any]] = {
    "s": [*DIGITS, *(f"-{text}" for text in DIGITS), None],
    "i": [2**63 - 1, -(2**63), 0, 1, -1, None],
    "u": [2**64 - 1, 2**63, 0, 1, None],
    "e": [*(Decimal(text) for text in ("9" * 28, "-" + "9" * 28, "0.5", "-0.5", "0.4999999999", "0")), None],
}


@pytest.mark.parametrize("column", list(LARGE))
@pytest.mark.parametrize("digits", ["38, 0", "38, 1", "38, 37", "38, 38", "20, 1", "1, 0"])
def test_casts_to_decimals_use_all_digits_that_there_are(column: str, digits: str) -> None:
    expr, rows = bound(f"CAST({column} AS DECIMAL({digits}))"), batch(**{column: LARGE[column]})
    assert python_values(evaluate(expr, rows)) == values_of(expr, rows)


@pytest.mark.parametrize("source", [(38, 38), (38, 37), (38, 0), (20, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("target", [(38, 0), (38, 38), (38, 1), (20, 3), (1, 0)], ids=str)
def test_casts_between_decimals_use_all_digits_that_there_are(source: tuple[int, int], target: tuple[int, int]) -> None:
    units = [0, 1, 4, 5, *(int(digit * source[0]) for digit in "12459"), 5 * 10 ** (source[0] - 1)]
    values = [Decimal(f"{sign}{unit}e-{source[1]}") for unit in units for sign in ("", "-")]
    rows = pa.RecordBatch.from_arrays([pa.array([*values, None], pa.decimal128(*source))], ["o.x"])
    expr = Call("cast", (ColumnRef("o", "x"),), pa.decimal128(*target))
    assert python_values(evaluate(expr, rows)) == values_of(expr, rows)


def test_what_a_kernel_raises_is_one_error_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for raised in (pa.ArrowInvalid("as the test says"), KeyError("as the test says"), RecursionError()):

        def broken(_call: Call, _args: list[pa.Array], raised: Exception = raised) -> pa.Array:
            raise raised

        monkeypatch.setitem(KERNELS, "abs", broken)
        for compute in (evaluate, holds):
            with pytest.raises(EvaluationError, match=f"an expression cannot be computed: {type(raised).__name__}"):
                compute(bound("i > 0 AND ABS(i) = 1"), batch(i=[1]))


def test_a_condition_holds_only_where_it_is_true() -> None:
    assert holds(bound("b"), batch(b=[True, False, None])).tolist() == [True, False, False]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), max_size=5))
@new_examples(50)
def test_functions_of_the_platform_agree_but_for_the_last_bits(numbers_: list[float | None]) -> None:
    rows = batch(f=numbers_) if numbers_ else batch(f=[None])
    for sql in ("LN(f)", "EXP(f)", "POWER(f, 2)", "POWER(2, f)", "POWER(f, 0.5)", "POWER(f, -3)"):
        expr = bound(sql)
        for one, other in zip(python_values(evaluate(expr, rows)), values_of(expr, rows), strict=True):
            assert close(one, other), f"{sql}: vectorised {one!r}, row-wise {other!r}"


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.large_string())])
def test_every_kind_of_string_is_a_string(kind: pa.DataType) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(["a", None, "b"]).cast(kind)], ["o.s"])
    assert evaluate(bound("s || 'x'"), rows).to_pylist() == ["ax", None, "bx"]
    assert evaluate(bound("s = 'b'"), rows).to_pylist() == [False, None, True]


def test_a_selected_column_keeps_its_own_type() -> None:
    rows = batch(j=[1], w=["a"], tz=[5])
    for name in ("j", "w", "tz"):
        assert evaluate(bound(name), rows).type == SCHEMA.field(name).type


def test_slices_of_columns_are_computed_as_such() -> None:
    rows = batch(i=[1, 2, None, 4], s=["a", "b", None, "d"], ts=[1, 2, None, 4], b=[True, None, False, True]).slice(
        1, 3
    )
    for sql in (
        "i + 1",
        "s || 'x'",
        "ts + INTERVAL '1 s'",
        "CASE WHEN b THEN i END",
        "i IN (2, 4)",
        "CAST(i AS VARCHAR)",
    ):
        assert python_values(evaluate(bound(sql), rows)) == values_of(bound(sql), rows)
