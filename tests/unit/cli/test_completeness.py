"""From where on rows are complete: what a query asks by --from, and what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.main import main
from cli.show.completeness import completeness
from cli.show.tables import begin_time
from node.core.queries.home.home_query import HomeQuery
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.io.reports.complete_from import complete_from
from planner.model.beginning import AT_ONCE, DEFAULT_BEGINNING, BeginAt, Beginning
from planner.model.errors import QueryError
from planner.sql.beginning import parse_beginning
from tests.unit.sites import QUERY, Cluster

NOON_MS = 1_772_366_400_000  # 2026-03-01 12:00
START, NOW = Beginning(BeginAt.START), Beginning(BeginAt.NOW)


def at(time_ms: int) -> Beginning:
    return Beginning(BeginAt.TIME, time_ms)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", AT_ONCE),
        ("start", START),
        ("NOW", NOW),
        ("2026-03-01 12:00:00", at(NOON_MS)),
        ("2026-03-01T12:00", at(NOON_MS)),
        ("2026-03-01T13:00:00+01:00", at(NOON_MS)),
        ("2026-03-01 12:00:00Z", at(NOON_MS)),
        ("2026-03-01", at(NOON_MS - 43_200_000)),
        ("2026-03-01 12:00:00.1239", at(NOON_MS + 123)),
        ("1969-12-31 23:59:59.9999", at(-1)),
    ],
)
def test_a_timestamp_is_written_as_sql_writes_one(text: str, found: Beginning) -> None:
    assert parse_beginning(text) == found


@pytest.mark.parametrize(
    "text", ["yesterday", "12:00", "2026-02-30", "1772366400", "2026-03-01 25:00", "start now", " "]
)
def test_what_is_no_beginning_is_refused_before_anybody_is_asked(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(QueryError, match="start, now, or a timestamp"):
        parse_beginning(text)
    config = tmp_path / "cluster.toml"
    config.write_text('tau = "1s"\n[site.ash]\nlisten = "127.0.0.1:1"\n')
    assert main(["query", "--config", str(config), "--at", "ash", "--from", text, QUERY]) == 2
    said = capsys.readouterr().err
    assert f'got "{text}"' in said
    assert "requires a running daemon" not in said


def told(beginning: Beginning, first_tick: int | None, *limited_by: str) -> str:
    """In words, with ticks of 500 ms."""
    home = HomeQuery("q1", Cluster().plan("cam"), beginning=beginning)
    home.first_tick, home.limited_by = first_tick, limited_by
    return completeness(complete_from(home, 500))


@pytest.mark.parametrize(
    ("beginning", "first_tick", "limited_by", "text"),
    [
        (START, None, (), ""),
        (START, TICK_END, ("l",), ""),
        (START, TICK_MIN, ("l", "r"), "rows are complete from the beginning of the query's streams on"),
        (
            START,
            2 * NOON_MS // 1000,
            ("r",),
            "rows are complete from 2026-03-01 12:00:00 on (these streams have nothing older: r)",
        ),
        (
            NOW,
            2 * NOON_MS // 1000 + 1,
            ("l", "r"),
            "rows are complete from 2026-03-01 12:00:00.500 on (where these streams were: l, r)",
        ),
        (
            DEFAULT_BEGINNING,
            2 * NOON_MS // 1000,
            ("l",),
            "rows are complete from 2026-03-01 12:00:00 on (where these streams were, less their retain: l)",
        ),
        (at(NOON_MS + 499), 2 * NOON_MS // 1000, ("l", "r"), "rows are complete from 2026-03-01 12:00:00 on"),
        (
            at(NOON_MS - 1),
            2 * NOON_MS // 1000,
            ("l",),
            (
                "rows are complete only from 2026-03-01 12:00:00 on, not from 2026-03-01 11:59:59.999 on as asked "
                "(these streams have nothing older: l)"
            ),
        ),
    ],
)
def test_what_is_said_names_the_streams_that_are_the_reason(
    beginning: Beginning, first_tick: int | None, limited_by: tuple[str, ...], text: str
) -> None:
    assert told(beginning, first_tick, *limited_by) == text


#: Noon, in ticks of 500 ms. The windows of the query are 30 ms, less than a tick.
NOON = 2 * NOON_MS // 1000


@pytest.mark.parametrize(
    ("begins", "text"),
    [
        (
            {"a": NOON - 1, "b": TICK_MIN},
            "rows are complete from 2026-03-01 12:00:00 on (where these streams were, less their retain: l)",
        ),
        (
            {"a": NOON - 1, "b": NOON},
            "rows come from 2026-03-01 12:00:00 on, and are complete from 2026-03-01 12:00:00.500 on: of r",
        ),
        (
            {},
            "rows come from 2026-03-01 12:00:00 on, and are complete from 2026-03-01 12:00:00.500 on: of l, r",
        ),
    ],
)
def test_of_one_that_looks_back_it_is_said_when_its_windows_are_whole(begins: dict[str, int], text: str) -> None:
    home = HomeQuery("q1", Cluster().plan("cam"), beginning=AT_ONCE)
    home.first_tick, home.limited_by, home.begins = NOON, ("l",), tuple(begins.items())
    less = ": there is less than a window of what was before of "
    assert completeness(complete_from(home, 500)) == text.replace(": of ", less)


@pytest.mark.parametrize(("begin", "whole"), [(NOON - 1, True), (TICK_MIN, True), (NOON, False)])
def test_of_a_count_window_that_is_not_there_nobody_knows_when_it_is_whole(begin: int, whole: bool) -> None:
    home = HomeQuery("q1", Cluster(window=("rows", 3)).plan("cam"), beginning=AT_ONCE)
    home.first_tick, home.begins = NOON, (("a", begin), ("b", NOON - 7))
    said = complete_from(home, 500)
    assert said.HasField("from_ms") == whole
    if whole:
        assert completeness(said) == "rows are complete from 2026-03-01 12:00:00 on"
    else:
        assert begin_time(said) == "some time after 2026-03-01 12:00:00"
        less = "there is less than a window of what was before of l"
        assert completeness(said) == (
            f"rows come from 2026-03-01 12:00:00 on, and are complete once windows are full: {less}"
        )


def test_a_query_that_the_core_has_forgotten_says_nothing() -> None:
    assert completeness(complete_from(None, 500)) == ""
