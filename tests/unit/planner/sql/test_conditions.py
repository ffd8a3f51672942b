"""Which condition becomes an edge, which a filter at a stream's site, which a residual, and what an expression is."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from planner.model.errors import QueryError
from planner.model.query import Call, ColumnRef, Edge, JoinQuery, Literal, StreamInfo
from planner.model.rendering import expr_text
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("ms")),
        ("k", pa.int64()),
        ("n", pa.int32()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(12, 2)),
        ("s", pa.string()),
        ("w", pa.dictionary(pa.int8(), pa.string())),
        ("day", pa.date32()),
        ("day64", pa.date64()),
        ("utc", pa.timestamp("us", "UTC")),
    ]
)
CATALOGUE = {name: StreamInfo(name, f"site-{name}", SCHEMA, "ts", TimeUnit.MS) for name in "abcd"}
THREE = "SELECT a.k FROM a [ROWS 1] JOIN b [ROWS 2] ON a.k = b.k JOIN c [ROWS 3] ON b.n = c.k"


def parse(text: str) -> JoinQuery:
    return parse_query(text, CATALOGUE)


def filters(query: JoinQuery) -> dict[str, str]:
    return {ref.alias: expr_text(ref.where) for ref in query.streams if ref.where is not None}


def residuals(query: JoinQuery) -> list[str]:
    return [expr_text(expr) for expr in query.residuals]


def edges(query: JoinQuery) -> list[str]:
    return [f"{edge.left} = {edge.right}" for edge in query.edges]


def refusal(text: str) -> str:
    with pytest.raises(QueryError) as refused:
        parse(text)
    return str(refused.value)


def pointed_at(message: str) -> str:
    _, line, caret = message.split("\n")
    return line[caret.index("^") :]


def test_conditions_are_sorted_into_edges_filters_and_residuals() -> None:
    query = parse(
        f"{THREE} AND c.s <> 'x' WHERE a.n < 5 AND c.f > a.f AND b.s = b.w AND 1 = 1 AND a.n IS NOT NULL AND b.d = c.d"
    )
    assert edges(query) == ["a.k = b.k", "b.n = c.k", "b.d = c.d"]
    assert filters(query) == {
        "a": "(a.n < 5) AND (1 = 1) AND (NOT (a.n IS NULL))",
        "b": "b.s = b.w",
        "c": "c.s <> 'x'",
    }
    assert residuals(query) == ["c.f > a.f"]


def test_on_and_where_and_commas_say_the_same() -> None:
    joined = parse(
        "SELECT a.k FROM a [ROWS 1] JOIN b [ROWS 2] ON a.k = b.k AND a.n > 1 JOIN c [ROWS 3] ON b.k < c.k AND b.n = c.n"
    )
    commas = parse(
        "SELECT a.k FROM a [ROWS 1], b [ROWS 2], c [ROWS 3] WHERE a.k = b.k AND (a.n > 1 AND (b.k < c.k AND b.n = c.n))"
    )
    assert (joined.streams, joined.edges, joined.residuals) == (commas.streams, commas.edges, commas.residuals)


def test_equalities_that_follow_from_others_are_edges_too() -> None:
    assert edges(parse("SELECT a.k FROM a [ROWS 1] JOIN b [ROWS 1] ON a.k = b.k JOIN c [ROWS 1] ON c.n = b.k")) == [
        "a.k = b.k",
        "b.k = c.n",
        "a.k = c.n",
    ]


def test_the_stream_earlier_in_from_is_the_left_of_an_edge() -> None:
    assert parse("SELECT a.k FROM a [ROWS 1], b [ROWS 1] WHERE b.n = a.k").edges == (
        Edge(ColumnRef("a", "k"), ColumnRef("b", "n")),
    )


@pytest.mark.parametrize(
    ("term", "residual"),
    [
        ("a.f = b.f", "a.f = b.f"),
        ("a.k = b.f", "CAST(a.k AS DOUBLE) = b.f"),
        ("a.u = b.k", "a.u = CAST(b.k AS DECIMAL(20, 0))"),
        ("a.d = b.n", "CAST(a.d AS DECIMAL(21, 2)) = CAST(b.n AS DECIMAL(21, 2))"),
        ("a.ts = b.day", "a.ts = CAST(b.day AS TIMESTAMP(ms))"),
        ("a.day = b.day64", "a.day = b.day64"),
        ("a.k + 0 = b.k", "(a.k + 0) = b.k"),
        ("a.k = b.k OR a.n = b.n", "(a.k = b.k) OR (a.n = b.n)"),
        ("NOT a.k = b.k", "NOT (a.k = b.k)"),
        ("a.k IS NOT DISTINCT FROM b.k", "NOT (a.k IS DISTINCT FROM b.k)"),
        ("a.s LIKE 'x%' = (b.n IN (1, a.n))", "(a.s LIKE 'x%') = (b.n IN (1, a.n))"),
        ("ABS(a.ts - b.ts) <= INTERVAL '2 s'", "ABS(a.ts - b.ts) <= INTERVAL '2000 ms'"),
    ],
)
def test_what_is_between_streams_and_no_equality_of_keys_is_a_residual(term: str, residual: str) -> None:
    query = parse(
        f"SELECT a.k FROM a [ROWS 1] JOIN b [ROWS 1] ON a.s = b.s AND {term if ' OR ' not in term else f'({term})'}"
    )
    assert residuals(query) == [residual]
    assert edges(query) == ["a.s = b.s"]


def test_a_between_over_two_streams_is_two_conditions() -> None:
    query = parse(f"{THREE} WHERE a.n BETWEEN b.n AND 9 AND a.n BETWEEN 1 AND 2")
    assert residuals(query) == ["a.n >= b.n"]
    assert filters(query) == {"a": "(a.n <= 9) AND (a.n BETWEEN 1 AND 2)"}


def test_a_condition_that_is_said_twice_counts_once() -> None:
    query = parse(f"{THREE} WHERE a.n < 5 AND a.n < 5 AND a.f < b.f AND a.k = b.k AND b.k = a.k AND a.f < b.f")
    assert (filters(query), residuals(query), len(query.edges)) == ({"a": "a.n < 5"}, ["a.f < b.f"], 2)


def test_a_stream_under_two_names_is_two_streams() -> None:
    query = parse("SELECT x.k FROM a [ROWS 1] x, a [ROWS 2] y WHERE x.k = y.k AND x.n < y.n AND y.n > 1 AND x.n = x.k")
    assert (filters(query), residuals(query)) == ({"x": "x.n = x.k", "y": "y.n > 1"}, ["x.n < y.n"])


def test_columns_of_filters_alone_are_not_needed_elsewhere() -> None:
    query = parse(f"{THREE} WHERE a.s = 'x' AND a.f < b.f")
    assert query.needed_columns("a") == ("k", "f")


# Products.


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("SELECT a.k FROM a [ROWS 1], b [ROWS 1]", "b is not linked to a by an equality", "b [ROWS 1]"),
        ("SELECT a.k FROM a [ROWS 1] JOIN b [ROWS 1] ON a.k < b.k", "or CROSS JOIN if every combination", "b ["),
        ("SELECT a.k FROM a [ROWS 1] JOIN b [ROWS 1] ON a.f = b.f", "equality of two columns of one type", "b ["),
        (
            "SELECT a.k FROM a [ROWS 1], b [ROWS 1], c [ROWS 1], d [ROWS 1] WHERE a.k = c.k AND d.n = b.n",
            "b, d are not linked to a, c by an equality",
            "b [ROWS 1]",
        ),
        ("SELECT a.k FROM a [ROWS 1] CROSS JOIN b [ROWS 1], c [ROWS 1]", "c is not linked to a, b", "c ["),
    ],
)
def test_a_product_that_nobody_asked_for_is_refused(text: str, message: str, at: str) -> None:
    found = refusal(text)
    assert message in found
    assert pointed_at(found).startswith(at)


def test_a_product_can_be_asked_for() -> None:
    assert parse("SELECT a.k FROM a [ROWS 1] CROSS JOIN b [ROWS 1]").edges == ()
    query = parse("SELECT a.k FROM a [ROWS 1] CROSS JOIN b [ROWS 1] JOIN c [ROWS 1] ON b.k = c.k AND a.n < c.n")
    assert (edges(query), residuals(query)) == (["b.k = c.k"], ["a.n < c.n"])


def test_a_cross_join_with_an_equality_is_a_join() -> None:
    assert edges(parse("SELECT a.k FROM a [ROWS 1] CROSS JOIN b [ROWS 1] WHERE a.k = b.k")) == ["a.k = b.k"]


# USING.


def test_using_is_short_for_equalities() -> None:
    query = parse("SELECT a.k FROM a [ROWS 1] JOIN b [ROWS 1] USING (k, S) JOIN c [ROWS 1] USING (k)")
    assert edges(query) == ["a.k = b.k", "a.s = b.s", "a.k = c.k", "b.k = c.k"]


def test_using_a_column_that_cannot_be_a_key_is_a_residual() -> None:
    query = parse("SELECT a.k FROM a [ROWS 1] JOIN b [ROWS 1] USING (k, f)")
    assert (edges(query), residuals(query)) == (["a.k = b.k"], ["a.f = b.f"])


# Expressions.


def selected(sql: str) -> Call | ColumnRef | Literal:
    return parse(f"SELECT {sql} AS x FROM a [ROWS 1] JOIN b [ROWS 1] ON a.k = b.k").outputs[0].source


@pytest.mark.parametrize(
    ("sql", "value", "kind"),
    [
        ("7", 7, pa.int64()),
        ("-9223372036854775808", -(2**63), pa.int64()),
        ("9223372036854775808", Decimal(2**63), pa.decimal128(19, 0)),
        ("1.50", Decimal("1.50"), pa.decimal128(3, 2)),
        ("-.05", Decimal("-0.05"), pa.decimal128(2, 2)),
        ("1e3", 1000.0, pa.float64()),
        ("0." + "1" * 40, float("0." + "1" * 40), pa.float64()),
        ("'it''s'", "it's", pa.string()),
        ("TRUE", True, pa.bool_()),
        ("DATE '1970-01-31'", 30, pa.date32()),
        ("TIMESTAMP '1970-01-01 00:01'", 60, pa.timestamp("s")),
        ("TIMESTAMP '1970-01-01 00:00:01.500'", 1_500, pa.timestamp("ms")),
        ("TIMESTAMP '1970-01-01T01:00:00.000001+01:00'", 1, pa.timestamp("us", "UTC")),
        ("TIMESTAMP '1970-01-01 00:00:00-14:00'", 14 * 3600, pa.timestamp("s", "UTC")),
        ("TIMESTAMP '1969-12-31 23:59:59.5'", -500, pa.timestamp("ms")),
        ("TIMESTAMP '2262-04-11 23:47:16.854775807'", 2**63 - 1, pa.timestamp("ns")),
        ("TIMESTAMP '1677-09-21 00:12:43.145224193'", -(2**63) + 1, pa.timestamp("ns")),
        ("TIMESTAMP '9999-12-31 23:59:59.999999'", 253402300799_999_999, pa.timestamp("us")),
        ("INTERVAL '5 minutes'", 300, pa.duration("s")),
        ("INTERVAL 1.5 SECONDS", 1_500, pa.duration("ms")),
        ("INTERVAL '3' MICROSECOND", 3, pa.duration("us")),
        ("CAST(NULL AS INT)", None, pa.int32()),
    ],
)
def test_constants_have_values_and_types(sql: str, value: object, kind: pa.DataType) -> None:
    assert selected(sql) == Literal(value, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("n + n", pa.int64()),
        ("n / 2", pa.float64()),
        ("n % 2", pa.int64()),
        ("n + f", pa.float64()),
        ("d + 1", pa.decimal128(13, 2)),
        ("d + k", pa.decimal128(22, 2)),
        ("d * 2", pa.decimal128(14, 2)),
        ("d * d", pa.decimal128(25, 4)),
        ("d * d * d * d", pa.float64()),
        ("u + 1", pa.decimal128(21, 0)),
        ("ROUND(d, 1)", pa.decimal128(12, 1)),
        ("FLOOR(f)", pa.int64()),
        ("FLOOR(d)", pa.decimal128(11, 0)),
        ("ts - utc::TIMESTAMP", pa.duration("us")),
        ("ts + INTERVAL '1 s'", pa.timestamp("ms")),
        ("ts + INTERVAL '1 us'", pa.timestamp("us")),
        ("day - day", pa.duration("s")),
        ("utc - INTERVAL '1 day'", pa.timestamp("us", "UTC")),
        ("day - NULL", pa.duration("s")),
        ("NULL - day", pa.duration("s")),
        ("NULL - ts", pa.duration("ms")),
        ("ts + NULL", pa.timestamp("ms")),
        ("NULL + day", pa.timestamp("s")),
        ("NULL + utc", pa.timestamp("us", "UTC")),
        ("COALESCE(n, 1.5)", pa.decimal128(20, 1)),
        ("CASE WHEN n > 1 THEN NULL ELSE w END", pa.string()),
        ("CAST(f AS SMALLINT)", pa.int16()),
        ("EXTRACT(EPOCH FROM ts)", pa.float64()),
        ("LENGTH(w)", pa.int64()),
    ],
)
def test_types_follow_from_those_of_the_arguments(sql: str, kind: pa.DataType) -> None:
    for column in ("n", "f", "d", "k", "u", "s", "w", "ts", "utc", "day"):
        sql = _qualified(sql, column)
    found = selected(sql)
    assert isinstance(found, Call)
    assert found.type == kind


def _qualified(sql: str, column: str) -> str:
    """The bare column names of these short texts belong to stream a."""
    words = sql.replace("(", "( ").replace(")", " )").replace("::", " ::").replace(",", " ,").split(" ")
    return " ".join(f"a.{column}" if word == column else word for word in words)


@pytest.mark.parametrize(
    ("sql", "meaning"),
    [
        ("a.k + 2 * 3 - 1", "(a.k + (2 * 3)) - 1"),
        ("a.k - 1 - 2", "(a.k - 1) - 2"),
        ("- a.k * 2", "(-a.k) * 2"),
        ("-a.n::VARCHAR = a.s", None),
        (
            "a.n % 2 = 1 AND NOT a.k > 3 OR a.f < 1",
            "(((a.n % 2) = 1) AND (NOT (a.k > 3))) OR (a.f < CAST(1 AS DOUBLE))",
        ),
        ("a.s || 'x' || a.w", "(a.s || 'x') || a.w"),
        ("a.k BETWEEN 1 AND 2 AND a.n = 1", "(a.k BETWEEN 1 AND 2) AND (a.n = 1)"),
        ("a.k NOT IN (1, 2) AND a.s NOT LIKE '%!%' ESCAPE '!'", "(NOT (a.k IN (1, 2))) AND (NOT (a.s LIKE '%\\%'))"),
        ("a.s ILIKE 'AB_'", "LOWER(a.s) LIKE 'ab_'"),
        ("CASE a.k WHEN 1 THEN 'x' ELSE 'y' END", "CASE WHEN a.k = 1 THEN 'x' ELSE 'y' END"),
        ("IF(a.k > 1, a.n, 0)", "CASE WHEN a.k > 1 THEN a.n ELSE 0 END"),
        ("a.k > 1 IS NOT TRUE", "NOT COALESCE(a.k > 1, FALSE)"),
        ("MOD(a.k, 7)", "a.k % 7"),
        ("NVL(a.s, 'x')", "COALESCE(a.s, 'x')"),
        ("SUBSTRING(a.s FROM 2 FOR 3)", "SUBSTRING(a.s, 2, 3)"),
        ("TRY_CAST(a.s AS DATE)", "CAST(a.s AS DATE)"),
        ("HOUR(a.ts)", "EXTRACT(HOUR FROM a.ts)"),
    ],
)
def test_operators_bind_as_in_sql_and_forms_are_made_plain(sql: str, meaning: str | None) -> None:
    if meaning is None:
        assert "required a number" in refusal(f"SELECT {sql} AS x FROM a [ROWS 1] JOIN b [ROWS 1] ON a.k = b.k")
    else:
        assert expr_text(selected(sql)).replace("1.0)", "CAST(1 AS DOUBLE))") == meaning


@pytest.mark.parametrize(
    "sql",
    [
        "CASE WHEN (a.k + 1) > a.n THEN a.s ELSE 'it''s' END",
        "(a.k IS NULL) OR (a.f <> 2.5) OR (NOT (a.s LIKE '_x%'))",
        "CAST(a.s AS DECIMAL(5, 2)) BETWEEN 1.00 AND 2.00",
        "EXTRACT(YEAR FROM a.ts) IN (2023, 2024)",
        "a.day > DATE '2024-02-29'",
        "COALESCE(ROUND(a.f, 2), SQRT(a.f), -1.5) IS DISTINCT FROM b.f",
        "a.ts < (b.ts + INTERVAL '5000 ms')",
        "(-(-5)) + a.k",
        "CAST(a.s AS TIMESTAMP) < CAST(b.utc AS TIMESTAMP)",
    ],
)
def test_the_text_of_an_expression_reads_back_as_the_same_expression(sql: str) -> None:
    once = selected(sql)
    again = selected(expr_text(once))
    assert expr_text(again) == expr_text(once)
    assert isinstance(again, Call)
    assert isinstance(once, Call)
    assert again.type == once.type


def test_what_needs_quotes_is_written_with_quotes() -> None:
    odd = pa.schema([("ts", pa.timestamp("ms")), ("k", pa.int64()), ("a b", pa.int64()), ('x"y', pa.int64())])
    catalogue = {name: StreamInfo(name, "oslo", odd, "ts", TimeUnit.MS) for name in "ab"}
    text = 'SELECT a."a b" + a."x""y" AS x FROM a [ROWS 1] JOIN b [ROWS 1] ON a.k = b.k'
    (output,) = parse_query(text, catalogue).outputs
    assert expr_text(output.source) == 'a."a b" + a."x""y"'


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("CASE WHEN a.n = 1 THEN a.n WHEN a.n = 2 THEN a.tags ELSE a.n END", "a.tags ELSE"),
        ("CASE WHEN a.n = 1 THEN a.n WHEN a.n = 2 THEN a.n ELSE a.tags END", "a.tags END"),
        ("CASE a.n WHEN 1 THEN a.tags END", "a.tags END"),
        ("IF(a.n = 1, a.n, a.tags)", "a.tags)"),
    ],
)
def test_the_value_of_a_case_that_cannot_be_chosen_is_pointed_at(sql: str, at: str) -> None:
    schema = SCHEMA.append(pa.field("tags", pa.list_(pa.int64())))
    catalogue = {name: StreamInfo(name, "oslo", schema, "ts", TimeUnit.MS) for name in "ab"}
    with pytest.raises(QueryError) as refused:
        parse_query(f"SELECT {sql} AS x FROM a [ROWS 1] JOIN b [ROWS 1] ON a.k = b.k", catalogue)
    assert "a.tags (list<item: int64>) cannot be compared or chosen" in str(refused.value)
    assert pointed_at(str(refused.value)).startswith(at)


@pytest.mark.parametrize("name", ["interval", "date", "timestamp", "extract"])
def test_a_column_may_be_called_like_what_begins_a_constant(name: str) -> None:
    schema = pa.schema([("ts", pa.timestamp("ms")), ("k", pa.int64()), (name, pa.int64())])
    other = pa.schema([("ts", pa.timestamp("ms")), ("k", pa.int64())])
    catalogue = {
        alias: StreamInfo(alias, "oslo", columns, "ts", TimeUnit.MS) for alias, columns in (("a", schema), ("b", other))
    }
    query = parse_query(
        f"SELECT {name} AS one, {name} two, a.{name} AS three, {name} + 1 AS four, a.ts + INTERVAL '5 s' AS five "
        f"FROM a [ROWS 1] JOIN b [ROWS 1] ON a.k = b.k WHERE {name} > 5",
        catalogue,
    )
    assert filters(query) == {"a": f"a.{name} > 5"}
    texts = [expr_text(output.source) for output in query.outputs]
    assert texts == [*[f"a.{name}"] * 3, f"a.{name} + 1", "a.ts + INTERVAL '5000 ms'"]


def test_ilike_does_not_ask_whether_a_sigma_ends_a_word() -> None:
    assert expr_text(selected("a.s ILIKE 'ΟΔΟΣ%'")) == "REPLACE(LOWER(a.s), 'ς', 'σ') LIKE 'οδοσ%'"
    assert expr_text(selected("a.s ILIKE 'İ_'")) == "LOWER(a.s) LIKE 'i̇_'"
