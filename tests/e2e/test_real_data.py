"""Recorded streams with published answers: counts and checksums of the manifests, through real daemons."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cli.tasks.follow import follow
from node.core.effects import QueryState
from tests.e2e.harness import (
    CARRIED,
    SIX,
    SM_D1,
    SM_D2,
    SM_S1,
    SM_S2,
    Daemons,
    assert_same_rows,
    carried,
    free_port,
    oracle_window,
    run,
    shipped,
    window_text,
)
from tests.oracle.oracle import OracleStream, expected_pairs
from tests.places import DATA

SITES = ("alpha", "beta")
ALL_QUERIES = bool(os.environ.get("NARROWS_ALL_QUERIES"))

#: Per data set: tau, how many two-way queries are published, and which of them run always. NARROWS_ALL_QUERIES=1 runs
#: all 31 of them. Ticks from far below the data's resolution, where nearly every tick is empty, to far above it.
SETS = {
    "wc98_day50": ("100ms", 3, ("obj_2way_1s", "obj_2way_5s")),
    "nycflights13": ("1h", 11, ("tail_2way_24h_EWR-LGA", "dest_2way_30min_EWR-LGA")),
    "honeypots_aws": ("1min", 11, ("A_2way_1h", "B_2way_1min_collector")),
    "lorawan_sainteynard": ("100ms", 6, ("frame_2way_250ms", "device_2way_15min")),
}
#: Paced so that a recording comes in some hundred batches: data set, query, algorithm, tau, seconds of the recording.
PACED = [
    ("wc98_day50", "obj_2way_5s", SM_S2, "100ms", 42),
    ("nycflights13", "tail_2way_48h_EWR-LGA", SM_S1, "1h", 31_515_060),
    ("honeypots_aws", "B_2way_10min", SM_D2, "1min", 16_270_000),
    ("lorawan_sainteynard", "frame_2way_1000ms", SM_D1, "1s", 8_368_000),
]
PACED_S = 4
#: Of the paced and the counted ones the others run only with NARROWS_ALL_QUERIES=1.
ALWAYS = ("wc98_day50", "lorawan_sainteynard")
#: Windows by count: data set, a query for streams and key, the windows.
COUNTED = [
    ("wc98_day50", "obj_2way_1s", ("300 ROWS", "100 ROWS")),
    ("nycflights13", "tail_2way_12h_EWR-JFK", ("2000 ROWS", "1000 ROWS")),
    ("honeypots_aws", "B_2way_1min_collector", ("1 ROWS", "500 ROWS")),
    ("lorawan_sainteynard", "frame_2way_250ms", ("3 ROWS", "10 MINUTES")),
]


@dataclass(frozen=True)
class Published:
    """A two-way query of a manifest: streams and columns, and the count and the sums that its rows must have."""

    name: str
    files: tuple[Path, Path]
    streams: tuple[str, str]
    key: str
    ts: str
    window: str
    rows: int
    sums: tuple[int, int]

    def config(self, suffix: str = "") -> tuple[list[str], list[str]]:
        """The two streams as parts of a cluster file."""
        left, right = (
            [f"[site.{site}.stream.{stream}{suffix}]", f"path = {json.dumps(str(file))}", f'ts = "{self.ts}"']
            for site, stream, file in zip(SITES, self.streams, self.files, strict=True)
        )
        return left, right

    def text(self, suffix: str = "", windows: tuple[str, str] | None = None) -> str:
        (left, right), (a, b) = self.streams, map(window_text, windows or (self.window, self.window))
        return (
            f"SELECT a.seq AS a, b.seq AS b FROM {left}{suffix} {a} AS a JOIN {right}{suffix} {b} AS b "
            f"ON a.{self.key} = b.{self.key}"
        )

    def expected(self, windows: tuple[str, str]) -> pa.Table:
        """What the oracle says with other windows than the published ones."""
        left, right = (
            OracleStream(alias, pq.read_table(file), self.ts, "ms", oracle_window(window))
            for alias, file, window in zip("ab", self.files, windows, strict=True)
        )
        return expected_pairs(left, right, [(("a", self.key), ("b", self.key))], [("a", "a", "seq"), ("b", "b", "seq")])

    def wrong(self, rows: pa.Table) -> str | None:
        """What is wrong with the rows, if anything."""
        sums = tuple(pc.sum(rows.column(side)).as_py() for side in ("a", "b"))
        if (rows.num_rows, sums) == (self.rows, self.sums):
            return None
        return f"{rows.num_rows} rows with sums {sums}, published are {self.rows} with {self.sums}"


def published(name: str) -> dict[str, Published]:
    """The two-way queries of a data set."""
    file = DATA / name / "manifest.json"
    if not file.is_file():
        pytest.skip(f"requires {file} (set NARROWS_DATA to the folder of the data sets)")
    manifest = json.loads(file.read_text())
    return {
        query["id"]: read(name, manifest["streams"], query)
        for query in manifest["queries"]
        if len(query["streams"]) == 2
    }


def read(name: str, streams: dict[str, Any], query: dict[str, Any]) -> Published:
    left, right = query["streams"]
    return Published(
        query["id"],
        (DATA / name / streams[left]["file"], DATA / name / streams[right]["file"]),
        (left, right),
        query.get("key_column", "key"),
        query.get("ts_column", "ts"),
        f"{query['window_ms']} MILLISECONDS",
        query["results"],
        tuple(query["sum_seq"]),
    )


def write_config(folder: Path, tau: str, streams: Sequence[tuple[list[str], list[str]]]) -> Path:
    lines = [f'tau = "{tau}"', 'engine = "native"']
    for place, site in enumerate(SITES):
        lines += [f"[site.{site}]", f'listen = "127.0.0.1:{free_port()}"']
        lines += [line for pair in streams for line in pair[place]]
    config = folder / "cluster.toml"
    config.write_text("\n".join(lines) + "\n")
    return config


@pytest.mark.parametrize("name", SETS)
def test_two_way_queries_give_the_published_rows_under_all_six_algorithms(tmp_path: Path, name: str) -> None:
    """One query after the other in one cluster, each with recordings of its own, at full speed."""
    tau, count, always = SETS[name]
    queries = published(name)
    assert len(queries) == count
    chosen = queries if ALL_QUERIES else always
    runs = list(product([queries[query_id] for query_id in chosen], SIX))
    config = write_config(tmp_path, tau, [query.config(f"_{number}") for number, (query, _) in enumerate(runs)])
    wrong = []
    with Daemons(config).start(*SITES).linked() as daemons:
        for number, (query, algorithm) in enumerate(runs):
            rows = ask(daemons, SITES[number % 2], query.text(f"_{number}"), algorithm)
            if said := query.wrong(rows):
                wrong.append(f"{query.name} {algorithm}: {said}")
    assert not wrong


def ask(daemons: Daemons, home: str, text: str, algorithm: str) -> pa.Table:
    """The rows of a query that must complete."""
    out = daemons.config.parent / "rows.parquet"
    with daemons.client(home) as client:
        query_id = client.issue(text, algorithm).query_id
        followed = follow(client, query_id, out, None, lambda info, rows: None)
        assert followed.info.state == QueryState.COMPLETED, (text, algorithm, followed.info.reason)
        client.drop(query_id)
    return pq.read_table(out)


@pytest.mark.parametrize(
    ("name", "query_id", "algorithm", "tau", "seconds"), [case for case in PACED if ALL_QUERIES or case[0] in ALWAYS]
)
def test_a_paced_run_gives_the_published_rows_and_ships_no_tuple_twice(
    tmp_path: Path, name: str, query_id: str, algorithm: str, tau: str, seconds: int
) -> None:
    query = published(name)[query_id]
    config = write_config(tmp_path, tau, [query.config()])
    ran = run(config, query.text(), "--algorithm", algorithm, "--speed", str(seconds / PACED_S))
    assert query.wrong(ran.rows) is None
    assert all(carried(link["bytes_by_kind"]) == CARRIED[algorithm] for link in ran.stats["links"])
    if algorithm in (SM_S1, SM_S2):
        counts = shipped(ran.stats)
        for alias, stream in zip("ab", query.streams, strict=True):
            sent, received = counts[alias]
            assert 0 < sent == received <= ran.stats["streams"][stream]["rows"]


def test_windows_by_count_over_recorded_streams_give_the_rows_of_the_oracle(tmp_path: Path) -> None:
    queries = [
        (published(name)[query_id], windows) for name, query_id, windows in COUNTED if ALL_QUERIES or name in ALWAYS
    ]
    pairs = [query.config(f"_{number}") for query, _ in queries for number in range(len(SIX))]
    config = write_config(tmp_path, "1min", pairs)
    with Daemons(config).start(*SITES).linked() as daemons:
        for query, windows in queries:
            want = query.expected(windows)
            assert want.num_rows > 1_000
            for number, algorithm in enumerate(SIX):
                home = SITES[number % 2]
                assert_same_rows(ask(daemons, home, query.text(f"_{number}", windows), algorithm), want)
