"""What newcomers get wrong in queries and files, and the hint that each mistake is answered with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from cli.cluster_file import load_cluster
from node.config import ConfigError, SourceFormat, StreamConfig
from node.io.sources.recordings import open_source
from planner.model.errors import QueryError, UnknownStreamError
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query

ORDERS = pa.schema([("ts", pa.int64()), ("id", pa.int64()), ("item", pa.string())])
PAYMENTS = pa.schema([("ts", pa.int64()), ("order_id", pa.int64()), ("odd", pa.float64()), ("none", pa.null())])
CATALOGUE = {
    "orders": StreamInfo("orders", "ash", ORDERS, "ts", TimeUnit.MS),
    "payments": StreamInfo("payments", "bow", PAYMENTS, "ts", TimeUnit.MS),
}
FROM = "FROM orders [ROWS 1] AS o JOIN payments [ROWS 1] AS p ON"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"SELECT uper(o.item) AS u {FROM} o.id = p.order_id", "did you mean UPPER?"),
        (f"SELECT count(*) AS n {FROM} o.id = p.order_id", "nor are aggregates such as COUNT"),
        (f'SELECT o.id {FROM} o.id = p.order_id WHERE o.item = "lamp"', "single quotes, such as 'lamp'"),
        (f"SELECT o.id {FROM} o.id == p.order_id", "equality is written with one ="),
        (f"SELECT o.`id` {FROM} o.id = p.order_id", 'a name is quoted as in "name"'),
        (f"SELECT “o”.id {FROM} o.id = p.order_id", "quotes are straight, not typographic"),
        (f"SELECT o.id {FROM} o.id = p.odd", "(o.id is int64 and p.odd is double)"),
        (f"SELECT o.id {FROM} o.id = p.none", "p.none is of no type, since its file has no values"),
    ],
)
def test_a_query_that_cannot_be_read_is_answered_with_what_was_probably_meant(text: str, hint: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse_query(text, CATALOGUE)
    assert hint in str(refused.value)


@pytest.mark.parametrize("name", ["item", "id"])
def test_a_quoted_name_that_is_near_a_column_is_not_taken_for_text(name: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse_query(f'SELECT "{name}s" {FROM} o.id = p.order_id', CATALOGUE)
    assert ("did you mean" in str(refused.value)) != ("single quotes" in str(refused.value))


def test_an_unknown_stream_can_be_told_from_other_mistakes() -> None:
    """A site that has it may be out of reach, and then the query is not to blame."""
    with pytest.raises(UnknownStreamError):
        parse_query(f"SELECT o.id {FROM} o.id = p.order_id", {"orders": CATALOGUE["orders"]})


def csv(folder: Path, content: str | bytes, ts: str = "ts") -> StreamConfig:
    path = folder / "s.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return StreamConfig("site.a.stream.s", "s", "a", path, SourceFormat.CSV, ts, None, 0)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_a_csv_file_may_use_any_usual_separator(tmp_path: Path, mark: str) -> None:
    content = f'\ufeffts{mark}name{mark}price\n5{mark}"a{mark}b"{mark}1.5\n'
    with open_source(csv(tmp_path, content)) as source:
        chunk = source.read(10)
    assert chunk.rows.to_pylist() == [{"ts": 5, "name": f"a{mark}b", "price": 1.5}]


def test_a_comma_in_the_header_wins_over_other_separators(tmp_path: Path) -> None:
    with open_source(csv(tmp_path, "ts,a;b\n5,x;y\n")) as source:
        assert source.read(10).rows.to_pylist() == [{"ts": 5, "a;b": "x;y"}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,TS\n1,5\n", 'got "ts"; the file has "id", "TS" (did you mean "TS"?)'),
        ("id, ts\n1,5\n", 'the file has "id", " ts" (did you mean " ts"?)'),
        ("id,ts\n1,01.02.2026\n", 'of times such as "2026-05-01 12:30:00"; got "ts" of type string'),
        (b"ts,name\n5,K\xe4se\n", "required text in UTF-8 (iconv -f LATIN1 -t UTF-8 converts it, if it is Latin-1)"),
    ],
)
def test_a_file_that_does_not_fit_is_answered_with_a_hint(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_source(csv(tmp_path, content))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        (("1700000000", "-3"), 'unit = "s"', [1_700_000_000_000, -3_000]),
        (("1700000000", "4611686018427388"), 'unit = "s"', [1_700_000_000_000, None]),
        (("1700000000", "7"), "", [1_700_000_000, 7]),
        (("1970-01-02", "1969-12-31"), "", [86_400_000, -86_400_000]),
    ],
)
def test_event_times_in_seconds_and_dates_become_milliseconds(
    tmp_path: Path, values: tuple[str, str], unit: str, expected: list[int | None]
) -> None:
    (tmp_path / "s.csv").write_text("ts\n" + "\n".join(values) + "\n")
    config = tmp_path / "cluster.toml"
    config.write_text(
        'tau = "1s"\nengine = "native"\n[site.a]\nlisten = "127.0.0.1:1"\n'
        f'[site.a.stream.s]\npath = "s.csv"\nts = "ts"\n{unit}\n'
    )
    (stream,) = load_cluster(config).sites[0].streams
    with open_source(stream) as source:
        assert source.info.unit is TimeUnit.MS
        assert source.first_ts == expected[0]
        assert source.read(10).ts.to_pylist() == expected
