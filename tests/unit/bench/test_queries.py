"""The bench of many queries: its queries are as it says, its counts are exact, and its table judges rightly."""

from __future__ import annotations

import itertools
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.pair import Sample, Stretch, between
from bench.queries.data import burst_streams, steady_streams
from bench.queries.query_set import (
    COLUMNS,
    START_MS,
    STREAMS,
    Condition,
    Query,
    make_dashboard,
    make_queries,
    needed_bytes,
)
from bench.queries.report import UNDER_LOAD, Line, report, table, write_report
from bench.queries.results import DURABLE, NULL_LOG, PLANNED, Results
from bench.queries.runs import Climb, FullSpeed, Held
from bench.releases import FIRST, FIRST_COMMIT, NOW, ReleaseError, first_release
from bench.sites import BenchError
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.oracle.oracle import OracleStream, expected_pairs

COMMITS = {FIRST: FIRST_COMMIT, NOW: "0000000"}


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return steady_streams(300, 30, 100)


# -- queries ------------------------------------------------------------------------------------


SETS = pytest.mark.parametrize("queries", [make_queries(100), make_dashboard(100)], ids=["any", "dashboard"])


@SETS
def test_any_two_queries_differ_in_filter_select_list_aliases_and_windows(queries: list[Query]) -> None:
    for one, other in itertools.combinations(queries, 2):
        assert one.conditions != other.conditions
        assert set(one.selected) != set(other.selected)
        assert not set(one.aliases) & set(other.aliases)
        assert one.windows_ms[0] != other.windows_ms[0]
        assert one.windows_ms[1] != other.windows_ms[1]


def test_a_query_is_the_same_however_many_are_made() -> None:
    assert make_queries(100)[:20] == make_queries(20)
    assert make_dashboard(100)[:20] == make_dashboard(20)


@SETS
def test_the_planner_reads_every_query_as_it_is_meant(queries: list[Query], tables: dict[str, pa.Table]) -> None:
    streams = {name: StreamInfo(name, name, tables[name].schema, "ts", TimeUnit.MS) for name in STREAMS}
    for query in queries:
        parsed = parse_query(query.text, streams)
        assert parsed.aliases == query.aliases
        assert parsed.output_schema().names == [
            f"{query.aliases[STREAMS.index(stream)]}_{column}" for stream, column in query.selected
        ]


@SETS
def test_every_query_gives_rows_and_filters_drop_some(queries: list[Query], tables: dict[str, pa.Table]) -> None:
    for query in queries:
        assert 20 < query.rows(tables) < replace(query, conditions=()).rows(tables)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5])
def test_rows_are_counted_as_the_oracle_has_them(number: int) -> None:
    tables = steady_streams(100, 8, 100)
    query = make_queries(number + 1, (1_000, 3_000))[number]
    assert query.rows(tables) == _oracle_rows(query, tables) > 0


def _oracle_rows(query: Query, tables: dict[str, pa.Table]) -> int:
    a, b = (
        OracleStream(name, _passing(query, name, tables[name]), "ts", "ms", ("range", window_ms * 1_000))
        for name, window_ms in zip(STREAMS, query.windows_ms, strict=True)
    )
    return int(expected_pairs(a, b, [(("a", "key"), ("b", "key"))], [("key", "a", "key")]).num_rows)


def _passing(query: Query, stream: str, rows: pa.Table) -> pa.Table:
    """Row by row, in plain Python."""
    own = [condition for condition in query.conditions if condition.stream == stream]
    kept = [row for row in rows.to_pylist() if all(_holds(condition, row[condition.column]) for condition in own)]
    return pa.Table.from_pylist(kept, rows.schema)


def _holds(condition: Condition, value: Any) -> bool:
    bound: Any = condition.value
    if condition.operator == "IN":
        return value in bound
    return bool(value < bound if condition.operator == "<" else value > bound)


@SETS
def test_the_query_that_stands_alone_is_an_average_one(queries: list[Query], tables: dict[str, pa.Table]) -> None:
    """Else one query over many would say more about that one than about many."""
    for count in (10, 20, 100):
        first = queries[:count]
        assert first[0].rows(tables) == pytest.approx(sum(q.rows(tables) for q in first) / count, rel=0.35)
        for name in STREAMS:
            sizes = [_compressed(query, name, tables[name]) for query in first]
            assert sizes[0] == pytest.approx(sum(sizes) / count, rel=0.35), f"{name} of {count}"


def _compressed(query: Query, stream: str, rows: pa.Table) -> int:
    """Bytes of what the query needs of a stream."""
    for condition in query.conditions:
        if condition.stream == stream:
            rows = rows.filter(condition.holds(rows))
    names = {"ts", "key", *(column for name, column in query.selected if name == stream)}
    buffers = [buffer for name in sorted(names) for buffer in rows.column(name).combine_chunks().buffers() if buffer]
    return sum(pa.compress(buffer, "zstd").size for buffer in buffers)


def test_what_queries_need_is_each_value_once_of_results_and_of_all_that_passes(tables: dict[str, pa.Table]) -> None:
    queries = make_queries(3)
    (matching, passing), (more_matching, more_passing) = (
        needed_bytes(queries[:count], tables, "b", 30) for count in (1, 3)
    )
    assert 0 < matching < passing < more_passing
    assert matching < more_matching < more_passing
    assert needed_bytes([queries[0]] * 3, tables, "b", 30) == (matching, passing)
    used, passes = queries[0].used(tables, "b")
    assert not (used & ~passes).any()


def test_a_burst_comes_after_queries_are_issued_and_is_in_every_window() -> None:
    burst = burst_streams(2_000, lead_s=5, burst_s=2, hold_s=3)
    for name, rows in burst.tables.items():
        ts = rows.column("ts").to_numpy() - START_MS
        assert ts[1] >= burst.lead_ms, f"only the first tuple of {name} is early"
    queries = make_queries(12, (400_000, 800_000))
    assert all(query.rows(burst.tables) for query in queries)
    assert set(COLUMNS) <= set(burst.tables["b"].column_names)


# -- figures ------------------------------------------------------------------------------------


def _sample(at_s: float, rows: int, **more: object) -> Sample:
    counted = {
        "cpu_s": {"west": at_s / 10, "east": at_s / 5},
        "rss_peak": {"west": 1, "east": 1},
        "sent": {"keys": round(100 * at_s)},
        "sealed_ms": {"a": 1_000 * at_s, "b": 1_000 * at_s},
        "latency_us": {1_000: 10, 400_000: rows},
        "rows": {"q": rows},
    }
    return Sample(at_s, **{**counted, **more})  # type: ignore[arg-type]


def test_a_stretch_is_the_difference_of_two_samples_by_the_second() -> None:
    stretch = between(_sample(10, 50), _sample(20, 150, sealed_ms={"a": 20_000, "b": 17_000}))
    assert (stretch.queries, stretch.seconds, stretch.rows_per_s) == (1, 10, 10)
    assert stretch.cpu == pytest.approx(0.3)
    assert stretch.bytes_total == 100
    assert stretch.p50_ms == stretch.p99_ms == 400, "rows of before do not count"
    assert stretch.behind_s == 3, "the slower stream counts"


def test_a_query_that_gives_no_rows_while_it_is_measured_is_refused() -> None:
    with pytest.raises(BenchError, match="1 of 1 gave none"):
        between(_sample(10, 50), _sample(20, 50))


# -- the report ---------------------------------------------------------------------------------


def _stretch(queries: int, cpu: float, nbytes: float, p99_ms: float = 90.0, behind_s: float = 0.0) -> Stretch:
    return Stretch(queries, 10.0, cpu, {"keys": nbytes}, 5.0, 10.0, p99_ms, behind_s)


def _climb(*stretches: Stretch, trouble: str = "") -> Climb:
    return Climb(stretches, {"a@west b(SP-S)@west": stretches[-1].queries}, "native", 7, trouble, 0.1)


def _held(queries: int, mib: int) -> Held:
    return Held(queries, 2**20, mib * 2**20, mib * 2**20, {"a@west b(SP-S)@west": queries}, "")


def _results(load: float = 0.1) -> Results:
    steps = (_stretch(1, 0.1, 100.0), _stretch(10, 0.3, 250.0))
    results = Results(False, load, 100, 100, 1_000_000, 1_000_000)
    results.climbs = {
        (FIRST, PLANNED): [_climb(*steps, _stretch(20, 0.87, 2000.0))],
        (NOW, PLANNED): [_climb(*steps, _stretch(20, cpu, 2000.0)) for cpu in (0.2, 0.3, 9.0)],
    }
    results.many = {NOW: [_climb(_stretch(100, 1.0, 1.0, p99_ms=300.0))]}
    results.held = {FIRST: [_held(1, 100), _held(100, 1_090)], NOW: [_held(1, 100), _held(100, 150)]}
    results.full_speed = {
        side: [FullSpeed(seconds, 1_000, {"keys": 1_000}, 3.0, None, 7)] for side, seconds in ((FIRST, 2.7), (NOW, 2.5))
    }
    results.durable = {DURABLE: [_climb(_stretch(1, 0.25, 1.0))], NULL_LOG: [_climb(_stretch(1, 0.2, 1.0))]}
    return results


def _line(results: Results, begin: str) -> Line:
    return next(line for line in table(results) if line.measure.startswith(begin))


def test_the_table_has_medians_and_judges_them() -> None:
    results = _results()
    processor = _line(results, "both daemons' processor")
    assert (processor.first, processor.now, processor.met) == ("8.7", "3.0", True)
    assert _line(results, "bytes on the link").now == "2.5"
    memory = _line(results, "memory")
    assert (memory.first, memory.now, memory.met) == ("10.90", "1.50", False)
    assert _line(results, "full speed, 2 x 1,000,000 tuples, one query, planned: seconds").met is True
    durable = _line(results, "durable")
    assert (durable.now, durable.met) == ("+25 %", False)


def test_latency_is_not_met_by_daemons_that_fall_behind_the_clock() -> None:
    results = _results()
    assert _line(results, "100 queries").met is True
    results.many[NOW] = [_climb(_stretch(100, 1.0, 1.0, p99_ms=300.0, behind_s=4.0))]
    line = _line(results, "100 queries")
    assert (line.now, line.met) == ("300 ms, and 4.0 s behind the clock", False)


def test_many_queries_that_could_not_be_run_are_a_miss_and_said_so() -> None:
    results = Results(False, 0.0, 100, 1, 1, 1, too_slow={NOW: "too slow: 100 queries did not run within 90 s"})
    line = _line(results, "100 queries")
    assert (line.now, line.met) == ("too slow: 100 queries did not run within 90 s", False)


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert all(line.met is None for line in table(Results(False, 0.0, 1, 1, 1, 1)))


def test_a_quick_run_neither_meets_nor_misses_anything() -> None:
    assert all(line.met is None for line in table(replace(_results(), quick=True)))


def test_a_page_made_under_load_says_so() -> None:
    assert UNDER_LOAD in report(_results(load=0.8), COMMITS)
    assert UNDER_LOAD not in report(_results(load=0.6), COMMITS)


def test_wrong_rows_and_failed_runs_are_on_the_page() -> None:
    results = _results()
    assert not results.wrong_now()
    results.many[FIRST] = [_climb(_stretch(100, 1.0, 1.0), trouble="8 rows are required, got 7")]
    results.failures.append(f"100 queries, {FIRST}, 1 of 3: too slow")
    assert not results.wrong_now(), "it is the other side's"
    text = report(results, COMMITS)
    assert f"{FIRST}: 8 rows are required, got 7" in text
    assert "too slow" in text
    results.climbs[NOW, PLANNED][0] = replace(results.climbs[NOW, PLANNED][0], trouble="9 rows are required, got 6")
    assert results.wrong_now()
    assert f"{NOW}: 9 rows are required, got 6" in report(results, COMMITS)


def test_raw_figures_are_json(tmp_path: Path) -> None:
    results = _results()
    results.many[NOW].append(_climb(_stretch(100, 1.0, 1.0, p99_ms=float("nan"))))
    write_report(tmp_path, COMMITS, results)
    raw = json.loads((tmp_path / "queries.json").read_text())
    assert raw["climbs"][f"{NOW}, {PLANNED}"][0]["stretches"][2]["cpu"] == 0.2
    assert raw["many"][NOW][1]["stretches"][0]["p99_ms"] is None


def test_a_clone_without_the_first_release_is_refused(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    with pytest.raises(ReleaseError, match=f"requires commit {FIRST_COMMIT} in the clone.*--unshallow"):
        first_release(tmp_path / "first", tmp_path)
