"""Queries over three to eight streams through real daemons: published answers, conditions, and several at once."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cli.tasks.follow import follow
from node.client import Client
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb
from tests.e2e.harness import (
    SIX,
    SM_D2,
    SM_S1,
    SM_S2,
    SP_D,
    Daemons,
    Stream,
    assert_same_rows,
    eventually,
    free_port,
    write_cluster,
)
from tests.oracle.oracle import OracleStream, expected
from tests.places import DATA

SITES = ("alpha", "beta", "gamma", "delta")
#: Per data set: how many queries over more than two streams are published, and which of them run always.
SETS = {
    "wc98_day50": (6, ("obj_4way_5s",)),
    "nycflights13": (7, ("tail_3way_7d_EWR-JFK-LGA",)),
    "honeypots_aws": (22, ("B_4way_1min",)),
    "lorawan_sainteynard": (18, ("frame_8way_250ms",)),
}
ALL = bool(os.environ.get("NARROWS_ALL_QUERIES"))


@dataclass(frozen=True)
class Published:
    """A query of a manifest, and the count and the sums that its rows must have."""

    name: str
    folder: Path
    #: By stream its file.
    files: dict[str, str]
    key: str
    ts: str
    window_ms: int
    rows: int
    sums: tuple[int, ...]

    @property
    def aliases(self) -> str:
        return "abcdefgh"[: len(self.files)]

    def text(self, suffix: str) -> str:
        """All on one key: the first stream with each of the others."""
        window = f"[RANGE {self.window_ms} MILLISECONDS]"
        named = [
            f"{stream}{suffix} {window} AS {alias}" for stream, alias in zip(self.files, self.aliases, strict=True)
        ]
        joins = [f"JOIN {ref} ON a.{self.key} = {ref[-1]}.{self.key}" for ref in named[1:]]
        outputs = ", ".join(f"{alias}.seq AS {alias}" for alias in self.aliases)
        return f"SELECT {outputs} FROM {named[0]} {' '.join(joins)}"

    def config(self, suffix: str) -> dict[str, list[str]]:
        """By site the streams there as parts of a cluster file: one after the other on the sites in turn."""
        parts: dict[str, list[str]] = {site: [] for site in SITES}
        for number, (stream, file) in enumerate(self.files.items()):
            site = SITES[number % len(SITES)]
            path = json.dumps(str(self.folder / file))
            parts[site] += [f"[site.{site}.stream.{stream}{suffix}]", f"path = {path}", f'ts = "{self.ts}"']
        return parts

    def mixed(self, first: int) -> str:
        """Another algorithm for each head."""
        return ",".join(f"{alias}={SIX[(first + place) % len(SIX)]}" for place, alias in enumerate(self.aliases))

    def wrong(self, rows: pa.Table) -> str | None:
        """What is wrong with the rows, if anything."""
        sums = tuple(pc.sum(rows.column(alias)).as_py() or 0 for alias in self.aliases)
        if (rows.num_rows, sums) == (self.rows, self.sums):
            return None
        return f"{rows.num_rows} rows with sums {sums}, published are {self.rows} with {self.sums}"


def published(name: str) -> dict[str, Published]:
    """The queries of a data set over more than two streams."""
    folder = DATA / name
    if not (folder / "manifest.json").is_file():
        pytest.skip(f"requires {folder / 'manifest.json'} (set NARROWS_DATA to the folder of the data sets)")
    manifest = json.loads((folder / "manifest.json").read_text())
    queries = [query for query in manifest["queries"] if len(query["streams"]) > 2]
    return {query["id"]: read(folder, manifest["streams"], query) for query in queries}


def read(folder: Path, streams: dict[str, Any], query: dict[str, Any]) -> Published:
    return Published(
        query["id"],
        folder,
        {stream: streams[stream]["file"] for stream in query["streams"]},
        query.get("key_column", "key"),
        query.get("ts_column", "ts"),
        query["window_ms"],
        query["results"],
        tuple(query.get("sum_seq", [0] * len(query["streams"]))),
    )


def write_config(folder: Path, tau: str, parts: Sequence[dict[str, list[str]]]) -> Path:
    lines = [f'tau = "{tau}"', 'engine = "native"']
    for site in SITES:
        lines += [f"[site.{site}]", f'listen = "127.0.0.1:{free_port()}"']
        lines += [line for part in parts for line in part[site]]
    config = folder / "cluster.toml"
    config.write_text("\n".join(lines) + "\n")
    return config


@pytest.mark.parametrize("names", [(name,) for name in SETS] if ALL else [tuple(SETS)], ids=lambda names: names[0])
def test_queries_over_many_streams_give_the_published_rows_by_any_plan(tmp_path: Path, names: Sequence[str]) -> None:
    """One after the other in one cluster, each with recordings of its own: by all six algorithms, and by one alone.

    NARROWS_ALL_QUERIES=1 runs all 53.
    """
    chosen = []
    for name in names:
        count, always = SETS[name]
        queries = published(name)
        assert len(queries) == count
        chosen += [query for query in queries.values() if ALL or query.name in always]
    runs = []
    for number, query in enumerate(chosen):
        runs += [(query, query.mixed(number)), (query, (SM_S2, SM_D2, SM_S1, SP_D)[number % 4])]
    config = write_config(tmp_path, "1s", [query.config(f"_{number}") for number, (query, _) in enumerate(runs)])
    wrong = []
    with Daemons(config).start(*SITES).linked() as daemons:
        for number, (query, algorithm) in enumerate(runs):
            home = SITES[(number + len(query.files)) % len(SITES)]
            with daemons.client(home) as client:
                query_id = client.issue(query.text(f"_{number}"), algorithm).query_id
                rows = rows_of(client, query_id, tmp_path)
                client.drop(query_id)
            if said := query.wrong(rows):
                wrong.append(f"{query.name} {algorithm}: {said}")
    assert not wrong


def rows_of(client: Client, query_id: str, folder: Path) -> pa.Table:
    """The rows of a query that must complete."""
    out = folder / f"{query_id}.parquet"
    followed = follow(client, query_id, out, None, lambda info, rows: None)
    assert followed.info.state == QueryState.COMPLETED, (followed.info.text, followed.info.reason)
    return pq.read_table(out)


# -- conditions, and several queries on the same streams ----------------------------------------

ROWS = 500
NAMES = ("plano", "herndon", "paris", "santa_clara")
RANGE_MS = 4_000


def recorded(rows: int = ROWS) -> list[Stream]:
    """The beginning of the four streams of wc98, one at each site."""
    folder = DATA / "wc98_day50"
    if not folder.is_dir():
        pytest.skip(f"requires {folder} (set NARROWS_DATA to the folder of the data sets)")
    return [
        Stream(name, pq.read_table(folder / f"{name}.parquet").slice(0, rows), site)
        for name, site in zip(NAMES, SITES, strict=True)
    ]


def oracle_streams(streams: Sequence[Stream], aliases: str) -> list[OracleStream]:
    """Each stream as the oracle reads it."""
    return [
        OracleStream(alias, stream.table, "ts", "ms", ("range", RANGE_MS * 1000))
        for stream, alias in zip(streams, aliases, strict=True)
    ]


SOURCES = {alias: f"{name} [RANGE {RANGE_MS} MS] AS {alias}" for alias, name in zip("abcd", NAMES, strict=True)}
SEQS = [(alias, alias, "seq") for alias in "abcd"]
#: Another column on each edge of the chain, filters on two streams, conditions between streams that are no neighbours.
CONDITIONS = (
    f"SELECT a.seq AS a, b.seq AS b, c.seq AS c, d.seq AS d, a.size_bytes + d.size_bytes AS size "
    f"FROM {', '.join(SOURCES.values())} "
    f"WHERE a.object_id = b.object_id AND b.file_type = c.file_type AND b.method = c.method "
    f"AND c.object_id = d.object_id "
    f"AND a.size_bytes > 100 AND c.file_type IN (1, 2, 3) AND d.size_bytes IS NOT NULL "
    f"AND a.seq < d.seq + 200 AND (b.size_bytes <> c.size_bytes OR a.client_id < d.client_id)"
)


def conditions_expected(streams: Sequence[Stream]) -> pa.Table:
    a, b, c, d = oracle_streams(streams, "abcd")
    a = OracleStream("a", a.table.filter(pc.field("size_bytes") > 100), a.ts, a.unit, a.window)
    c = OracleStream("c", c.table.filter(pc.field("file_type").isin([1, 2, 3])), c.ts, c.unit, c.window)
    edges = [
        (("a", "object_id"), ("b", "object_id")),
        (("b", "file_type"), ("c", "file_type")),
        (("b", "method"), ("c", "method")),
        (("c", "object_id"), ("d", "object_id")),
    ]
    sizes = [("as", "a", "size_bytes"), ("ds", "d", "size_bytes")]
    rows = expected(
        [a, b, c, d],
        edges,
        [*SEQS, *sizes],
        lambda row: (
            row["a"]["seq"] < row["d"]["seq"] + 200
            and (row["b"]["size_bytes"] != row["c"]["size_bytes"] or row["a"]["client_id"] < row["d"]["client_id"])
        ),
    )
    size = pc.add(rows.column("as"), rows.column("ds"))
    return rows.drop_columns(["as", "ds"]).append_column("size", size)


def test_filters_and_conditions_between_streams_hold_by_any_plan(tmp_path: Path) -> None:
    streams = recorded(200)
    want = conditions_expected(streams)
    assert 1_000 < want.num_rows < 20_000
    plans = [
        pb.IssueRequest(algorithm="a=SM-S1,b=SM-S2,c=SM-D1,d=SM-D2"),
        pb.IssueRequest(algorithm="a=SP-S,b=SM-D2,c=SP-D,d=SM-S2"),
        pb.IssueRequest(plan="ship-all"),
        pb.IssueRequest(plan="auto"),
    ]
    copies = [
        Stream(f"{stream.name}_{number}", stream.table, stream.site)
        for number in range(len(plans))
        for stream in streams
    ]
    config = write_cluster(tmp_path, copies, sites=SITES, tau="1s")
    with Daemons(config).start(*SITES).linked() as daemons:
        for number, plan in enumerate(plans):
            text = CONDITIONS
            for name in NAMES:
                text = text.replace(f"{name} [", f"{name}_{number} [")
            plan.text = text
            with daemons.client(SITES[number]) as client:
                assert_same_rows(rows_of(client, client.install(plan).query_id, tmp_path), want)


TWO = f"SELECT a.seq AS a, b.seq AS b FROM {SOURCES['a']} JOIN {SOURCES['b']} ON a.key = b.key"
THREE = (
    f"SELECT a.seq AS a, b.seq AS b, c.seq AS c FROM {SOURCES['a']} JOIN {SOURCES['b']} ON a.key = b.key "
    f"JOIN {SOURCES['c']} ON b.key = c.key"
)
OTHER = f"SELECT c.seq AS c, b.seq AS b FROM {SOURCES['c']} JOIN {SOURCES['b']} ON c.key = b.key WHERE b.size_bytes > 0"


def test_queries_come_and_go_while_others_run_undisturbed(tmp_path: Path) -> None:
    """Two from the beginning, a third and a fourth while those run, of which one is dropped in the middle."""
    streams = recorded()
    config = write_cluster(tmp_path, streams, sites=SITES, tau="1s")
    with Daemons(config, arguments=("--speed", "2")).start(*SITES).linked() as daemons, ThreadPoolExecutor(3) as pool:
        homes = {site: daemons.client(site) for site in SITES}
        three = homes["delta"].issue(THREE, "a=SM-S1,b=SM-D2,c=SM-S2").query_id
        two = homes["beta"].issue(TWO, "a=SM-D1,b=SP-D").query_id
        whole = [
            pool.submit(rows_of, homes["delta"], three, tmp_path),
            pool.submit(rows_of, homes["beta"], two, tmp_path),
        ]
        eventually("the first queries have rows", lambda: daemons.query_info(three).rows > 50)
        dropped = homes["alpha"].issue(THREE, "SM-D1").query_id
        late = homes["gamma"].issue(OTHER, "c=SM-S2,b=SM-S1").query_id
        late_rows = pool.submit(rows_of, homes["gamma"], late, tmp_path)
        eventually("the one to be dropped has rows", lambda: daemons.query_info(dropped).rows > 0)
        homes["alpha"].drop(dropped)
        results = [future.result() for future in (*whole, late_rows)]
        for client in homes.values():
            client.close()
    assert_same_rows(results[0], expected_of("abc", streams[:3]))
    assert_same_rows(results[1], expected_of("ab", streams[:2]))
    assert_late(results[2], streams)


def expected_of(aliases: str, streams: Sequence[Stream]) -> pa.Table:
    """All on one key."""
    edges = [((aliases[0], "key"), (alias, "key")) for alias in aliases[1:]]
    return expected(oracle_streams(streams, aliases), edges, [(alias, alias, "seq") for alias in aliases])


def assert_late(got: pa.Table, streams: Sequence[Stream]) -> None:
    """The rows of ``OTHER`` from some tick on, each with all that its windows have; the first of them says which it is.

    The streams are recordings, of which everything is kept.
    """
    full = expected_other(streams)
    assert 0 < got.num_rows < full.num_rows
    first = min(newest_ticks(got, streams))
    late = pa.array([tick >= first for tick in newest_ticks(full, streams)], pa.bool_())
    assert_same_rows(got, full.filter(late))


def newest_ticks(rows: pa.Table, streams: Sequence[Stream]) -> list[int]:
    """The tick of the newest tuple of each row of ``OTHER``."""
    times = []
    for alias, stream in (("c", streams[2]), ("b", streams[1])):
        by_seq = dict(zip(*(stream.table.column(name).to_pylist() for name in ("seq", "ts")), strict=True))
        times.append([by_seq[seq] for seq in rows.column(alias).to_pylist()])
    return [max(pair) // 1000 for pair in zip(*times, strict=True)]


def expected_other(streams: Sequence[Stream]) -> pa.Table:
    c, b = oracle_streams([streams[2], streams[1]], "cb")
    b = OracleStream("b", b.table.filter(pc.field("size_bytes") > 0), b.ts, b.unit, b.window)
    return expected([c, b], [(("c", "key"), ("b", "key"))], [("c", "c", "seq"), ("b", "b", "seq")])
