from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.model.errors import QueryError
from planner.model.query import (
    ColumnRef,
    Edge,
    JoinQuery,
    Literal,
    OutputColumn,
    RangeWindow,
    RowsWindow,
    StreamInfo,
    Window,
)
from planner.model.rendering import expr_text
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from planner.sql.text import CHARACTERS_MAX, ROWS_MAX
from tests.examples import new_examples


def info(name: str, site: str, *columns: tuple[str, pa.DataType]) -> StreamInfo:
    return StreamInfo(name, site, pa.schema([("ts", pa.timestamp("ms")), *columns]), "ts", TimeUnit.MS)


CATALOGUE = {
    "orders": info(
        "orders",
        "frankfurt",
        ("id", pa.int64()),
        ("region", pa.string()),
        ("amount", pa.float64()),
        ("big", pa.uint64()),
    ),
    "payments": info("payments", "virginia", ("order_id", pa.int32()), ("region", pa.string()), ("Card", pa.string())),
    "odd-name": info("odd-name", "oslo", ("id", pa.int64()), ("a b", pa.int64()), ("Id", pa.int64())),
    "Orders2": info("Orders2", "oslo", ("__id", pa.int64()), ("limit", pa.int64())),
}
FROM = "FROM orders [RANGE 10 SECONDS] AS o JOIN payments [RANGE 5 SECONDS] AS p"
ON = "ON o.id = p.order_id"
QUERY = f"SELECT o.id, p.Card AS card {FROM} {ON} AND o.region = p.region"
RICH = (
    "SELECT o.*, CASE WHEN o.amount / 2 > 1.5 THEN UPPER ( p.Card ) ELSE 'x' END AS y , CAST ( o.id AS VARCHAR ) z , "
    "EXTRACT ( HOUR FROM o.ts ) AS h FROM orders [ROWS 9] AS o JOIN payments [ROWS 5] p USING ( region ) CROSS JOIN "
    "\"odd-name\" [RANGE 1 S] AS n WHERE - o.id % 7 <> n.Id + 1 AND p.Card LIKE 'a%' ESCAPE '!' AND NOT o.big IN ( 1 , "
    "NULL ) AND ( o.region IS NOT NULL OR n.id BETWEEN o.id AND 9 ) AND o.ts - p.ts < INTERVAL '5' SECOND"
)


def parse(text: str) -> JoinQuery:
    return parse_query(text, CATALOGUE)


def names(query: JoinQuery) -> list[str]:
    return [output.name for output in query.outputs]


def refusal(text: str) -> str:
    with pytest.raises(QueryError) as refused:
        parse(text)
    return str(refused.value)


def pointed_at(message: str) -> str:
    """The rest of the shown line from the caret on."""
    _, line, caret = message.split("\n")
    return line[caret.index("^") :]


def window_of(text: str) -> Window:
    query = parse(f"SELECT * FROM orders {text} AS o JOIN payments [RANGE 5 SECONDS] AS p {ON}")
    return query.streams[0].window


# What is accepted.


def test_a_rich_query_is_read() -> None:
    query = parse(RICH)
    assert query.aliases == ("o", "p", "n")
    assert names(query)[-3:] == ["y", "z", "h"]
    assert [expr_text(expr) for expr in query.residuals] == [
        "((-o.id) % 7) <> (n.Id + 1)",
        "(NOT (o.region IS NULL)) OR (n.id BETWEEN o.id AND 9)",
        "(o.ts - p.ts) < INTERVAL '5000 ms'",
    ]


def test_a_query_is_bound_to_streams_windows_edges_and_outputs() -> None:
    query = parse(QUERY)
    assert query.text == QUERY
    assert [(ref.alias, ref.stream, ref.window) for ref in query.streams] == [
        ("o", CATALOGUE["orders"], RangeWindow(10_000_000)),
        ("p", CATALOGUE["payments"], RangeWindow(5_000_000)),
    ]
    assert query.edges == (
        Edge(ColumnRef("o", "id"), ColumnRef("p", "order_id")),
        Edge(ColumnRef("o", "region"), ColumnRef("p", "region")),
    )
    assert query.outputs == (
        OutputColumn("id", ColumnRef("o", "id")),
        OutputColumn("card", ColumnRef("p", "Card")),
    )
    assert query.output_schema().names == ["id", "card"]


def test_star_names_each_column_after_its_alias_in_from_order() -> None:
    assert names(parse(f"SELECT * {FROM} {ON}")) == [
        *["o_ts", "o_id", "o_region", "o_amount", "o_big"],
        *["p_ts", "p_order_id", "p_region", "p_Card"],
    ]


def test_a_qualified_star_takes_one_stream() -> None:
    assert names(parse(f"SELECT p.*, o.id {FROM} {ON}")) == ["p_ts", "p_order_id", "p_region", "p_Card", "id"]


@pytest.mark.parametrize(
    "text",
    [
        QUERY + ";",
        QUERY + " ;; -- the end",
        QUERY.replace("SELECT", "select").replace("RANGE", "range").replace("JOIN", "inner join"),
        QUERY.replace(" AS o", " o").replace(" AS p", "/* [RANGE 1 DAY] */ p"),
        QUERY.replace(" ", "\n\t"),
        QUERY.replace(" ", "\r\n"),
        QUERY.replace("[RANGE 10 SECONDS]", "-- the [window]\n[ RANGE 10 /* s */ SECONDS ]"),
        QUERY.replace("orders [RANGE", "orders[RANGE"),
        QUERY.replace("orders", '"orders"').replace("o.id", '"o"."id"'),
        QUERY.replace("orders", "ORDERS").replace("p.Card", "P.CARD"),
        QUERY.replace("o.id = p.order_id", "(p.order_id = o.id)"),
        QUERY.replace("o.id = p.order_id", "o.id = p.order_id AND (p.order_id = o.id)"),
        QUERY.replace("o.id =", "id =").replace("p.order_id", "order_id"),
    ],
)
def test_spelling_does_not_change_what_a_query_means(text: str) -> None:
    query, plain = parse(text), parse(QUERY)
    assert (query.streams, query.edges, query.outputs) == (plain.streams, plain.edges, plain.outputs)


def test_a_stream_without_an_alias_goes_by_its_own_name() -> None:
    query = parse("SELECT orders.id FROM ORDERS [RANGE 1 S] JOIN payments [RANGE 1 S] ON Orders.id = order_id")
    assert query.aliases == ("orders", "payments")


def test_a_stream_can_be_joined_with_itself_under_two_aliases() -> None:
    query = parse("SELECT a.id, b.id AS other FROM orders [RANGE 1 S] a JOIN orders [RANGE 2 S] b ON a.id = b.id")
    assert query.aliases == ("a", "b")
    assert query.streams[0].stream is query.streams[1].stream
    assert [ref.window for ref in query.streams] == [RangeWindow(1_000_000), RangeWindow(2_000_000)]


def test_an_exact_name_beats_one_that_differs_in_case() -> None:
    text = 'SELECT x.Id FROM "odd-name" [RANGE 1 S] x JOIN orders [RANGE 1 S] o ON x.id = o.id'
    assert parse(text).outputs == (OutputColumn("Id", ColumnRef("x", "Id")),)


def test_a_column_may_be_named_like_a_keyword_or_hold_spaces() -> None:
    text = 'SELECT y.limit, x."a b" FROM "odd-name" [RANGE 1 S] x JOIN orders2 [RANGE 1 S] y ON x.id = y.limit'
    assert names(parse(text)) == ["limit", "a b"]


def test_brackets_in_quotes_and_comments_are_not_windows() -> None:
    (output,) = parse(f"SELECT '[RANGE 1 S]' AS x {FROM} {ON}").outputs
    assert output.source == Literal("[RANGE 1 S]", pa.string())
    assert parse(f"/* [ */ {QUERY} -- ]").edges == parse(QUERY).edges


# Windows.


@pytest.mark.parametrize(
    ("text", "length_us"),
    [
        ("[RANGE 10 SECONDS]", 10_000_000),
        ("[RANGE 1 SECOND]", 1_000_000),
        ("[RANGE 10S]", 10_000_000),
        ("[RANGE 0 SECONDS]", 0),
        ("[RANGE 0.5 S]", 500_000),
        ("[RANGE .5 S]", 500_000),
        ("[range 1.5 ms]", 1_500),
        ("[RANGE 3 MILLISECONDS]", 3_000),
        ("[RANGE 7 US]", 7),
        ("[RANGE 1 MICROSECOND]", 1),
        ("[RANGE 2 MIN]", 120_000_000),
        ("[RANGE 2 MINUTES]", 120_000_000),
        ("[RANGE 1 H]", 3_600_000_000),
        ("[RANGE 1 HOUR]", 3_600_000_000),
        ("[RANGE 1 D]", 86_400_000_000),
        ("[RANGE 2 WEEKS]", 14 * 86_400_000_000),
        ("[RANGE 100000 DAYS]", 100_000 * 86_400_000_000),
    ],
)
def test_a_time_window_is_a_whole_number_of_microseconds(text: str, length_us: int) -> None:
    assert window_of(text) == RangeWindow(length_us)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("[ROWS 1]", 1),
        ("[rows 100]", 100),
        ("[ ROWS /* last */ 7 ]", 7),
        ("[ROWS 007]", 7),
        (f"[ROWS {'0' * 40}7]", 7),
        (f"[ROWS {ROWS_MAX}]", 2**40),
    ],
)
def test_a_count_window_is_a_whole_number_of_tuples(text: str, count: int) -> None:
    assert window_of(text) == RowsWindow(count)


def test_a_query_can_mix_time_and_count_windows() -> None:
    mixed = parse(QUERY.replace("[RANGE 5 SECONDS]", "[ROWS 20]"))
    assert [ref.window for ref in mixed.streams] == [RangeWindow(10_000_000), RowsWindow(20)]
    counted = parse(QUERY.replace("[RANGE 5 SECONDS]", "[ROWS 20]").replace("[RANGE 10 SECONDS]", "[ROWS 3]"))
    assert [ref.window for ref in counted.streams] == [RowsWindow(3), RowsWindow(20)]


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("[RANGE -1 SECONDS]", "cannot be negative", "-1 SECONDS]"),
        ("[RANGE 0.1 US]", 'whole number of microseconds, got "0.1 US"', "0.1 US]"),
        ("[RANGE 100001 DAYS]", 'at most 100000 days, got "100001 DAYS"', "100001 DAYS]"),
        ("[RANGE 1e3 SECONDS]", "cannot read the window's length", "1e3 SECONDS]"),
        (f"[RANGE {'9' * 50} S]", "cannot read the window's length", "999"),
        ("[RANGE 1 0 SECONDS]", "cannot read the window's length", "1 0 SECONDS]"),
        ("[RANGE 1 PARSECS]", 'unknown unit of time "PARSECS"', "PARSECS]"),
        ("[ROWS 0]", 'required 1 or more, got "0"', "0]"),
        ("[ROWS 000]", 'required 1 or more, got "000"', "000]"),
        ("[ROWS -1]", 'required 1 or more, got "-1"', "-1]"),
        ("[ROWS 1.5]", 'a whole number of tuples: required 1 or more, got "1.5"', "1.5]"),
        ("[ROWS 1e3]", 'a whole number of tuples: required 1 or more, got "1e3"', "1e3]"),
        ("[ROWS ten]", 'a whole number of tuples: required 1 or more, got "ten"', "ten]"),
        ("[ROWS ٣]", "a whole number of tuples", "٣]"),
        ("[ROWS 1 0]", 'got "1 0"', "1 0]"),
        ("[ROWS 10 PRECEDING]", 'got "10 PRECEDING"', "10 PRECEDING]"),
        ("[ROWS 10 SECONDS]", 'got "10 SECONDS"', "10 SECONDS]"),
        (f"[ROWS {ROWS_MAX + 1}]", f"at most {ROWS_MAX} tuples", str(ROWS_MAX + 1)),
        (f"[ROWS {'9' * 5_000}]", f"at most {ROWS_MAX} tuples", "999"),
        ("[ROWS]", "required [RANGE n unit] or [ROWS n]", "[ROWS]"),
        ('["ROWS" 10]', "required [RANGE n unit] or [ROWS n]", '["ROWS" 10]'),
        ("[LAST 10 ROWS]", "required [RANGE n unit] or [ROWS n]", "[LAST 10 ROWS]"),
        ("[10 SECONDS]", "required [RANGE n unit]", "[10 SECONDS]"),
        ("[RANGE 10]", "required [RANGE n unit]", "[RANGE 10]"),
        ("[]", "required [RANGE n unit]", "[]"),
        ("[RANGE 10 SECONDS", "not closed", "[RANGE 10 SECONDS"),
        ("", 'stream "orders" has no window: required orders [RANGE 10 SECONDS] AS o', "orders"),
        ("[RANGE 1 S] [RANGE 1 S]", "only supported once", "[RANGE 1 S] AS o"),
        ("[RANGE 1 S] [ROWS 1]", "only supported once", "[ROWS 1] AS o"),
    ],
)
def test_a_bad_window_is_refused_at_its_place(text: str, message: str, at: str) -> None:
    found = refusal(f"SELECT * FROM orders {text} AS o JOIN payments [RANGE 5 SECONDS] AS p {ON}")
    assert message in found
    assert pointed_at(found).startswith(at)


def test_a_window_after_the_alias_is_refused_with_the_right_order() -> None:
    found = refusal(QUERY.replace("[RANGE 5 SECONDS] AS p", "AS p [RANGE 5 SECONDS]"))
    assert "a window goes before the alias: required payments [RANGE 10 SECONDS] AS p" in found


# What is refused.


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        (QUERY + " GROUP BY o.id ORDER BY o.id", "GROUP BY is not supported yet", "GROUP BY"),
        (QUERY + " HAVING o.id = 1", "HAVING is not supported yet", "HAVING"),
        (QUERY + " ORDER BY o.id", "ORDER BY is not supported yet", "ORDER BY"),
        (QUERY + " LIMIT 5", "LIMIT is not supported yet", "LIMIT"),
        (QUERY + " OFFSET 5", "OFFSET is not supported yet", "OFFSET"),
        (QUERY.replace("SELECT", "SELECT DISTINCT"), "DISTINCT is not supported yet", "DISTINCT"),
        (QUERY.replace("JOIN", "LEFT JOIN"), "LEFT JOIN is not supported yet", "LEFT"),
        (QUERY.replace("JOIN", "FULL OUTER JOIN"), "FULL OUTER JOIN is not supported yet", "FULL"),
        (QUERY.replace("JOIN", "CROSS JOIN"), 'cannot read the query near "ON"', "ON o.id"),
        (QUERY.replace("JOIN", "NATURAL JOIN"), "NATURAL JOIN is not supported yet", "NATURAL"),
        (f"SELECT * {FROM}", "required ON", "JOIN"),
        (f"SELECT * {FROM} ON", "a condition is missing after ON", "ON"),
        (f"{QUERY} WHERE", "a condition is missing after WHERE", "WHERE"),
        (f"SELECT * {FROM} USING region", "required ( and columns after USING", "region"),
        (f"SELECT * {FROM} USING (region, Region)", "is in USING twice", "Region)"),
        (f"SELECT * {FROM} USING (id)", 'unknown column "id" of p', "id)"),
        (f"SELECT * {FROM} USING (Card)", 'unknown column "Card": required one of o.ts', "Card)"),
        (
            f"SELECT o.id {FROM} {ON} JOIN orders [ROWS 1] x USING (region)",
            'column "region" is ambiguous: required ON with o.region or p.region',
            "region)",
        ),
        ("SELECT * FROM orders [RANGE 1 S]", "a query over one stream is not supported yet", "orders"),
        ("SELECT 1", "the query has no FROM", "SELECT"),
        (f"{QUERY} UNION {QUERY}", "UNION, EXCEPT and INTERSECT are not supported yet", "UNION"),
        (f"WITH x AS ({QUERY}) SELECT * FROM x", "WITH is not supported yet", "WITH"),
        (QUERY.replace("orders", "(SELECT 1)"), "subqueries are not supported yet", "SELECT 1"),
        (QUERY.replace("orders", "site.orders"), "a stream's name has no dots", "site.orders"),
        (QUERY.replace("o.id, ", "o.id + 1, "), "an expression needs a name: required o.id + 1 AS name", "o.id + 1"),
        (QUERY.replace("o.id, ", "NULL AS x, "), "NULL has no type of its own here", "NULL AS x"),
        (QUERY.replace("o.id, ", "p.Card, count(o.id), "), "aggregates such as COUNT are not supported", "count(o.id)"),
        (QUERY.replace("o.id, ", "count(*), "), "* is not supported yet here", "*)"),
        (QUERY.replace("o.id, ", "lag(o.id) OVER (), "), "OVER is not supported yet", "OVER"),
        (QUERY.replace("o.id, ", "soundex(p.Card) x, "), 'unknown function "SOUNDEX": required one of ABS', "soundex("),
        (QUERY.replace("o.id, ", "now() x, "), 'unknown function "NOW"', "now()"),
        (
            QUERY.replace("o.id, ", "10s, "),
            'cannot read this number: required digits such as 10, 0.5 or 1e3, and a space, got "10s"',
            "10s",
        ),
        (QUERY.replace("o.id, ", "1.2.3 AS x, "), "cannot read", "1.2"),
        (QUERY.replace("o.id, ", "DATE '2023-02-29' x, "), "cannot read a date", "DATE"),
        (QUERY.replace("o.id, ", "TIMESTAMP 'noon' x, "), "cannot read a timestamp", "TIMESTAMP"),
        (
            QUERY.replace("o.id, ", "TIMESTAMP '2024-01-01 00:00:00+99:99' x, "),
            "a zone of at most 14 hours",
            "TIMESTAMP",
        ),
        (
            QUERY.replace("o.id, ", "TIMESTAMP '2024-01-01 00:00:00-14:01' x, "),
            "a zone of at most 14 hours",
            "TIMESTAMP",
        ),
        (
            QUERY.replace("o.id, ", "TIMESTAMP '2024-01-01 00:00:00+0160' x, "),
            "a zone of at most 14 hours",
            "TIMESTAMP",
        ),
        (
            QUERY.replace("o.id, ", "TIMESTAMP '2300-01-01 00:00:00.123456789' x, "),
            "of the years 1678 to 2261",
            "TIMESTAMP",
        ),
        (QUERY.replace("o.id, ", "INTERVAL '2 fortnights' x, "), "cannot read this interval", "INTERVAL"),
        (QUERY.replace("o.id, ", "CAST(o.id AS MONEY) x, "), "required a type: BOOLEAN", "MONEY"),
        (QUERY.replace("o.id, ", "CAST(o.id AS DECIMAL(39)) x, "), "requires 1 to 38 digits", "DECIMAL"),
        (QUERY.replace("o.id, ", "EXTRACT(WEEK FROM o.ts) x, "), "required one of YEAR, MONTH", "WEEK"),
        (QUERY.replace("o.id, ", "CASE o.id END x, "), "required WHEN ... THEN", "END"),
        (QUERY + " AND o.id IN (SELECT 1)", "subqueries are not supported yet", "SELECT 1"),
        (QUERY + " AND EXISTS (SELECT 1)", "subqueries are not supported yet", "EXISTS"),
        (QUERY + " AND o.id NOT 5", "required BETWEEN, IN, LIKE or ILIKE after NOT", "5"),
        (QUERY + " AND (o.id = 1", "the query ends too early: required ) to close the parenthesis", "1"),
        (QUERY.replace("o.id, ", "o.tags[1], "), "a bracket is only supported", "[1]"),
        (QUERY.replace("o.id, ", "o.id,, "), 'a column or an expression is missing after ","', ",,"),
        (QUERY.replace("o.id, ", "o., "), "required a column's name after the dot", ", p.Card"),
        (QUERY.replace("AS card", "AS"), "required a name after AS", "FROM"),
        (QUERY + "; SELECT 1", "one query at a time", "; SELECT 1"),
        ("DROP TABLE orders", 'starts with SELECT, got "DROP"', "DROP"),
        (QUERY + " x y", 'cannot read the query near "x"', "x y"),
        ("[]", "a window without a query", "[]"),
        ("[RANGE 1 S] " + QUERY, "a window is only supported once", "[RANGE 1 S]"),
        ("SELECT 'x", "not closed: required a closing '", "'x"),
        ("SELECT /* x", "not closed", "/* x"),
        ("SELECT " + "(" * 100, "nested too deeply: required at most 64 levels", "("),
    ],
)
def test_what_cannot_be_run_yet_is_refused_at_its_place(text: str, message: str, at: str) -> None:
    found = refusal(text)
    assert message in found
    assert pointed_at(found).startswith(at)


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        (
            QUERY.replace("orders", "ordrs"),
            'unknown stream "ordrs": required one of Orders2, odd-name, orders',
            "ordrs",
        ),
        (QUERY.replace("orders", "ordrs"), 'did you mean "orders"?', "ordrs"),
        (QUERY.replace("orders", '"ORDERS"'), 'unknown stream "ORDERS"', '"ORDERS"'),
        (QUERY.replace("p.order_id", "p.ordr_id"), 'unknown column "ordr_id" of p (stream payments)', "ordr_id"),
        (QUERY.replace("p.order_id", "p.ordr_id"), 'order_id, region, Card; did you mean "order_id"?', "ordr_id"),
        (QUERY.replace("p.order_id", "q.order_id"), 'unknown alias "q": required one of o, p', "q.order_id"),
        (QUERY.replace("o.id,", "region,"), 'column "region" is ambiguous: required o.region or p.region', "region,"),
        (QUERY.replace("o.id,", "cart,"), 'unknown column "cart"', "cart,"),
        (QUERY.replace("AS p", "AS o"), 'two streams are named "o"', "o ON"),
        (QUERY.replace("AS p", "AS O"), 'two streams are named "O"', "O ON"),
        (
            QUERY.replace("payments", "orders").replace("AS p", "").replace("AS o", ""),
            "two streams are named",
            "orders",
        ),
        (QUERY.replace("AS p", "AS __p"), 'alias "__p" cannot be used', "__p"),
        (QUERY.replace("AS p", 'AS "p q"'), 'alias "p q" cannot be used', '"p q"'),
        (QUERY.replace("AS card", "AS __card"), 'name "__card" cannot be used', "__card"),
        (QUERY.replace("AS card", "AS id"), 'two output columns are named "id", o.id and p.Card', "p.Card"),
        (QUERY.replace("p.Card", "o.id").replace(" AS card", ""), "AS o_id", "o.id FROM"),
        (QUERY.replace("= p.order_id", "= p.region"), "o.id (int64) and p.region (string) are not comp", "o.id ="),
        (QUERY + " AND o.region + 1 > 2", "+: required a number, got o.region (string)", "o.region + 1"),
        (QUERY + " AND 1 + o.region > 2", "+: required a number, got o.region (string)", "o.region > 2"),
        (QUERY + " AND o.region", "required a condition such as a.key = b.key, got o.region (string)", "o.region"),
        (QUERY + " AND NOT o.id", "NOT: required a condition, got o.id (int64)", "o.id"),
        (QUERY + " AND LOWER(o.id) = 'x'", "LOWER: required a string, got o.id (int64)", "o.id)"),
        (QUERY + " AND LOWER() = 'x'", "LOWER requires 1 arguments, got 0", "LOWER"),
        (QUERY + " AND IF(o.id > 1, 2) = 1", "IF requires 3 arguments, got 2", "IF("),
        (QUERY + " AND IIF() = 1", "IIF requires 3 arguments, got 0", "IIF("),
        (QUERY + " AND o.region LIKE 'a' ESCAPE '!!'", 'requires a string of one character, got "!!"', "'!!'"),
        (QUERY + " AND ROUND(o.id, o.id) = 1", "ROUND: required a constant integer from 0 to 15", "o.id)"),
        (QUERY + " AND o.region LIKE p.Card", "LIKE: required a constant string", "p.Card"),
        (QUERY + " AND o.region LIKE 'a!' ESCAPE '!'", "the pattern ends in its escape character", "'a!'"),
        (QUERY + " AND o.ts > '2024-01-01'", "o.ts (timestamp[ms]) and '2024-01-01' (string) are not comp", "o.ts >"),
        (QUERY + " AND o.ts + p.ts > o.ts", "cannot be added to", "o.ts + p.ts"),
        (QUERY + " AND CAST(o.ts AS BIGINT) = 1", "o.ts (timestamp[ms]) cannot be cast to int64", "CAST"),
        (QUERY + " AND CASE WHEN o.id THEN 1 END = 1", "CASE: required a condition, got o.id", "o.id THEN"),
        (QUERY + " AND o.id IN (1, 'x')", "are not comparable", "o.id IN"),
    ],
)
def test_a_wrong_name_or_type_is_refused_at_its_place(text: str, message: str, at: str) -> None:
    found = refusal(text)
    assert message in found
    assert pointed_at(found).startswith(at)


def test_an_error_shows_the_line_with_a_caret() -> None:
    assert refusal(
        "SELECT *\nFROM ordrs [RANGE 1 SECOND] AS o\nJOIN payments [RANGE 1 S] AS p ON o.id = p.order_id"
    ) == (
        'unknown stream "ordrs": required one of Orders2, odd-name, orders, payments; did you mean "orders"?\n'
        "  FROM ordrs [RANGE 1 SECOND] AS o\n"
        "       ^"
    )


def test_an_unnamed_stream_whose_name_is_no_identifier_needs_an_alias() -> None:
    text = 'SELECT order_id FROM payments [RANGE 1 S] JOIN "odd-name" [RANGE 1 S] ON order_id = "a b"'
    assert 'stream "odd-name" needs an alias' in refusal(text)


def test_a_reserved_column_can_be_selected_only_under_another_name() -> None:
    text = "SELECT {} FROM orders2 [RANGE 1 S] x JOIN orders [RANGE 1 S] o ON x.__id = o.id"
    assert "reserved name" in refusal(text.format("x.__id"))
    assert names(parse(text.format("x.__id AS id"))) == ["id"]


def test_a_stream_with_a_doubled_column_makes_that_column_ambiguous() -> None:
    doubled = {**CATALOGUE, "orders": info("orders", "oslo", ("id", pa.int64()), ("id", pa.int64()))}
    with pytest.raises(QueryError, match=r'column "id" of o .* is ambiguous'):
        parse_query(f"SELECT p.Card {FROM} {ON}", doubled)
    with pytest.raises(QueryError, match='two output columns are named "o_id"'):
        parse_query(f"SELECT * {FROM} ON o.ts = p.ts", doubled)


@pytest.mark.parametrize("text", ["", " \n", ";", "-- nothing"])
def test_an_empty_query_is_refused_as_empty(text: str) -> None:
    assert "the query is empty" in refusal(text)


def test_a_query_over_no_known_streams_says_so() -> None:
    with pytest.raises(QueryError, match=r'unknown stream "orders": required one of \(none are known\)'):
        parse_query(QUERY, {})


# Hostile text.


def test_a_message_cannot_steer_the_terminal() -> None:
    found = refusal(QUERY.replace("orders", '"\x1b[31m\u202e\ud800"'))
    assert found.replace("\n", "").isprintable()


def test_a_chain_of_joins_without_on_is_refused_at_once() -> None:
    assert "JOIN without a condition" in refusal("SELECT a FROM b " + "JOIN c " * 9_000)


@pytest.mark.parametrize(
    "joined", [", orders [ROWS 1]", " CROSS JOIN orders [ROWS 1]", " JOIN orders [ROWS 1] ON 1 = 1"]
)
def test_more_streams_than_can_be_planned_are_refused_at_once(joined: str) -> None:
    assert "too many streams: required at most 16" in refusal("SELECT a FROM orders [ROWS 1]" + joined * 1_500)


def test_nested_types_are_refused_at_once() -> None:
    assert "nested too deeply" in refusal("SELECT " + "decimal(" * 8_000)


@pytest.mark.parametrize("opening", ["(", "NOT ", "- ", "abs(", "CASE ", "CASE WHEN ", "CAST(", "x + (", "x IN ("])
def test_deep_nesting_is_refused_at_once(opening: str) -> None:
    assert "nested too deeply" in refusal("SELECT " + opening * 4_000)


@pytest.mark.parametrize("more", [" + o.id", " :: INT", " || o.region", " IS NULL", " BETWEEN 1 AND 2", " = 1"])
def test_operators_upon_one_another_are_refused_at_once_when_too_many(more: str) -> None:
    assert "nested too deeply" in refusal("SELECT o.id" + more * 3_000 + f" AS x {FROM} {ON}")


@pytest.mark.parametrize("level", ["({})", "({} + 1)", "ABS({})", "CASE WHEN o.id > 1 THEN {} END", "COALESCE({}, 2)"])
def test_thirty_levels_are_no_problem(level: str) -> None:
    text = "o.id"
    for _ in range(30):
        text = level.format(text)
    assert names(parse(f"SELECT {text} AS x {FROM} {ON}")) == ["x"]


def test_forms_that_repeat_their_operand_do_not_multiply() -> None:
    """Each CASE names what is in it three times: 3**20 expressions would stop a daemon."""
    text = "o.id"
    for _ in range(20):
        text = f"CASE {text} WHEN 1 THEN 2 WHEN 3 THEN 4 WHEN 5 THEN 6 END"
    assert "the query is too large" in refusal(f"SELECT {text} AS x {FROM} {ON}")
    between = "o.id > 1" + " BETWEEN TRUE AND FALSE" * 90
    assert len(expr_text(parse(f"SELECT {between} AS x {FROM} {ON}").outputs[0].source)) < 4_000


def test_a_list_of_conditions_may_be_long_but_not_endless() -> None:
    terms = ["o.id < 1", "o.id < p.order_id", "o.id IN (1, 2)", "o.region LIKE 'a%'"] * 100
    for word in (" AND ", " OR "):
        parse(f"{QUERY} WHERE {word.join(terms)}")
    assert "at most 20000 words and signs" in refusal(f"{QUERY} WHERE {' AND '.join(['o.id<1'] * 5_000)}")


def test_a_list_of_semicolons_is_read_at_once() -> None:
    assert parse(QUERY + ";" * 60_000).edges == parse(QUERY).edges


def test_deep_recursion_in_the_parser_is_a_query_error() -> None:
    assert "nested too deeply" in refusal("SELECT " + "NOT " * 5_000 + "a")


def test_a_long_and_chain_is_read_without_recursion() -> None:
    assert len(parse(QUERY + f" AND {ON[3:]}" * 1_000).edges) == 2


def test_equalities_between_very_many_columns_are_refused() -> None:
    wide = info("wide", "oslo", *((f"c{number}", pa.int64()) for number in range(100)))
    terms = " AND ".join(f"a.c{number} = b.c{(number + 1) % 100}" for number in range(100))
    with pytest.raises(QueryError, match="too many columns in equalities: required at most 128"):
        parse_query(f"SELECT a.c0 FROM wide [ROWS 1] a, wide [ROWS 1] b WHERE {terms}", {"wide": wide})


def test_a_text_beyond_the_limit_is_refused() -> None:
    assert "too long" in refusal(" " * (CHARACTERS_MAX + 1))


def test_other_statements_do_not_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        refusal("ALTER SYSTEM SOMETHING ODD")
        refusal("CALL x")
    assert caplog.records == []


def answers(text: str) -> None:
    """Any text gives a query or a ``QueryError`` whose caret is inside the shown line."""
    try:
        query = parse(text)
    except QueryError as error:
        message, *shown = str(error).split("\n")
        assert message.isprintable()
        assert not shown or len(shown[1]) <= len(shown[0]) + 2
    else:
        assert query.edges or "CROSS" in text.upper()
        assert query.output_schema().names == names(query)


@new_examples()
@given(st.text())
def test_any_text_gets_an_answer(text: str) -> None:
    answers(text)


@new_examples()
@given(st.text(alphabet="[](),.;*='\"`-/$@{}:#\\ \n0e_oıKSELECTFROMJINRANGE", max_size=60))
def test_any_text_made_of_syntax_gets_an_answer(text: str) -> None:
    answers(text)
    answers(f"SELECT {text} {FROM} {ON}")
    answers(f"{QUERY} {text}")


WORDS = [
    *QUERY.split(" "),
    *["(", ")", "[", "]", ",", ".", ";", "*", "=", "'", '"', "--", "/*", "*/", "{{", "|>", "::", "->", "?", "@", "\\"],
    *["WHERE", "LEFT", "UNION", "SELECT", "CASE", "LATERAL", "UNNEST(", "PIVOT", "OVER", "INTERVAL", "CAST(", "VALUES"],
    *[
        "<",
        "<>",
        "+",
        "||",
        "%",
        "AND",
        "OR",
        "NOT",
        "BETWEEN",
        "LIKE",
        "IS",
        "THEN",
        "END",
        "WHEN",
        "USING",
        "CROSS JOIN",
    ],
    *["ROWS", "10", "0.5", "-1", "o.*", "NULL", "EXISTS", "IN", "WITH", "FOR", "WINDOW", "TABLESAMPLE", "ONLY", "DATE"],
]


@new_examples(150)
@given(
    st.sampled_from([QUERY, RICH]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), st.sampled_from(WORDS)), max_size=6),
    st.data(),
)
def test_any_mutation_of_a_query_gets_an_answer(
    base: str, edits: list[tuple[float, int, str]], data: st.DataObject
) -> None:
    words = base.split(" ")
    for part, removed, added in edits:
        place = int(part * len(words))
        words[place : place + removed] = [added]
    text = " ".join(words)
    cut = data.draw(st.integers(0, len(text)))
    answers(text)
    answers(text[:cut])
    answers(text[:cut] + text[cut + 1 :])


def meaning(query: JoinQuery) -> tuple[object, ...]:
    return query.streams, query.edges, query.outputs, query.residuals


@new_examples()
@given(st.sampled_from([QUERY, RICH]), st.sampled_from(WORDS), st.floats(0, 1))
def test_a_word_more_is_never_silently_ignored(base: str, word: str, part: float) -> None:
    words = base.split(" ")
    words.insert(int(part * len(words)), word)
    try:
        query = parse(" ".join(words))
    except QueryError:
        return
    # A plus sign before a number, and AS before an alias, say nothing.
    assert word in (";", "--", "+", "AS") or meaning(query) != meaning(parse(base))
