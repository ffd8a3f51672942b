"""``narrows run`` delivers exactly the oracle's rows, from real processes, sockets and files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from cli.tasks.follow import follow
from node.core.effects import QueryState
from tests.e2e.cases import CASES, table, text_files
from tests.e2e.harness import (
    ALGORITHMS,
    CARRIED,
    NARROWS,
    PATIENCE_S,
    SIX,
    SM_D1,
    SM_D2,
    SM_S1,
    SM_S2,
    SP_D,
    SP_S,
    Daemons,
    Join,
    Stream,
    assert_same_rows,
    carried,
    environment,
    narrows,
    planned,
    run,
    shipped,
    write_cluster,
)
from tests.examples import examples
from tests.oracle.oracle import accepted

THREE_SITES = ("alpha", "beta", "gamma")

#: How each data set is run as one command: algorithm, home, and the speed that cuts it into many batches.
#: (The test after it runs every data set under every algorithm.)
RUNS = {
    "ties_and_skew": (SM_S2, "alpha", "10"),
    "range_zero_around_zero": (SP_D, "alpha", "2"),
    "very_large_times": (SP_S, "beta", None),
    "units_ms_and_us": (SM_S1, "alpha", None),
    "units_us_and_timestamp_ns": (SM_D2, "beta", "1"),
    "one_empty": (SM_D1, "alpha", None),
    "both_empty": (SP_S, "alpha", None),
    "self_join": (SP_D, "beta", None),
    "disordered": ("l=SM-S2,r=SP-D", "beta", None),
    "text_files": (SP_S, "beta", None),
    "every_type": (SM_D1, "alpha", None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_delivers_exactly_the_rows_of_the_oracle(tmp_path: Path, name: str) -> None:
    join = CASES[name]()
    algorithm, home, speed = RUNS[name]
    config = write_cluster(tmp_path, join.streams)
    paced = () if speed is None else ("--speed", speed)
    ran = run(config, join.text, "--algorithm", algorithm, "--at", home, *paced)
    want = join.expected()
    assert want.num_rows or "empty" in name
    assert_same_rows(ran.rows, want)
    assert ran.stats["rows"] == want.num_rows
    assert ran.stats["state"] == "completed"


@pytest.mark.parametrize("windows", [None, ("6 ROWS", "150 MILLISECONDS")], ids=str)
def test_every_data_set_is_exact_under_every_algorithm_and_all_at_once(
    tmp_path: Path, windows: tuple[str, str] | None
) -> None:
    """With the windows of the data set, and with one by count and one by time."""
    queries: list[Query] = []
    for place, case in enumerate(CASES.values()):
        # With other windows every second algorithm, in turn.
        for number, algorithm in enumerate(SIX[place % 2 :: 2] if windows else ALGORITHMS):
            home = THREE_SITES[(len(queries) + number) % 3]
            join = numbered(case(), f"_{number}")
            queries.append(Query(replace(join, windows=windows or join.windows), algorithm, home))
    assert_all_exact(tmp_path, queries, "100ms")


@dataclass(frozen=True)
class Query:
    """A join, how it is run, and where its rows are collected."""

    join: Join
    algorithm: str
    home: str


def assert_all_exact(folder: Path, queries: Sequence[Query], tau: str) -> None:
    """One cluster of three daemons; every query is issued before the first is followed."""
    streams = [stream for query in queries for stream in query.join.streams]
    config = write_cluster(folder, streams, sites=THREE_SITES, tau=tau)
    with Daemons(config).start(*THREE_SITES).linked() as daemons, ExitStack() as stack:
        clients = {site: stack.enter_context(daemons.client(site)) for site in THREE_SITES}
        ids = [clients[query.home].issue(query.join.text, query.algorithm).query_id for query in queries]
        for query_id, query in zip(ids, queries, strict=True):
            out = folder / "rows.parquet"
            followed = follow(clients[query.home], query_id, out, None, lambda info, rows: None)
            assert followed.info.state == QueryState.COMPLETED, (query, followed.info.reason)
            assert_same_rows(pq.read_table(out), query.join.expected(int(tau.removesuffix("ms"))))


def numbered(join: Join, suffix: str) -> Join:
    """The same join over streams of its own: a recording is played once in a daemon's life."""
    left = replace(join.left, name=join.left.name + suffix)
    right = left if join.right is join.left else replace(join.right, name=join.right.name + suffix)
    return replace(join, left=left, right=right)


def test_late_tuples_and_those_without_time_are_in_the_side_file_with_the_reason(tmp_path: Path) -> None:
    join = CASES["disordered"]()
    ran = run(write_cluster(tmp_path, join.streams), join.text)
    for stream in join.streams:
        _, rejected = accepted(stream.table, stream.ts, 100, stream.lateness_ms)
        assert rejected.num_rows
        with pa.ipc.open_stream(tmp_path / "late" / f"{stream.name}.arrows") as file:
            aside = file.read_all()
        assert_same_rows(aside.drop_columns(["narrows_reason"]), rejected)
        reasons = aside.column("narrows_reason").to_pylist()
        times = aside.column(stream.ts).to_pylist()
        assert reasons == ["no event time" if time is None else "late" for time in times]
        assert ran.stats["streams"][stream.name]["aside"] == rejected.num_rows
        assert f"{rejected.num_rows} tuples of {stream.name} at " in ran.said.err
        assert str(tmp_path / "late" / f"{stream.name}.arrows") in ran.said.err


def test_rows_set_aside_are_said_also_to_those_who_asked_for_quiet(tmp_path: Path) -> None:
    join = CASES["disordered"]()
    ran = run(write_cluster(tmp_path, join.streams), join.text, "--quiet")
    lines = ran.said.err.splitlines()
    assert len(lines) == len(join.streams), "and nothing else is"
    for stream in join.streams:
        _, rejected = accepted(stream.table, stream.ts, 100, stream.lateness_ms)
        assert any(f"{rejected.num_rows} tuples of {stream.name} at " in line for line in lines)


def test_a_row_dated_2099_ends_a_run_before_it_starts(tmp_path: Path) -> None:
    join = text_files()
    rows = join.left.table
    place = rows.column_names.index(join.left.ts)
    times = pa.array([4_070_908_800_000, *rows.column(place).to_pylist()[1:]], rows.field(place).type)
    wrong = replace(join.left, table=rows.set_column(place, rows.field(place), times))
    config = write_cluster(tmp_path, [wrong, join.right])
    said = narrows("run", config, "--query", join.text, "--out", tmp_path / "rows.csv")
    said.failed(2, "max_ahead", "row 1 at 2099-01-01", "would be late")
    assert not (tmp_path / "rows.csv").exists()


@pytest.mark.parametrize("how", ["closed", "unread"])
def test_a_run_that_nobody_listens_to_delivers_its_rows(tmp_path: Path, how: str) -> None:
    join = text_files()
    config, out = write_cluster(tmp_path, join.streams), tmp_path / "rows.parquet"
    command = [*NARROWS, *planned("run", config, "--query", join.text, "--out", out)]
    reader, writer = os.pipe()
    os.close(reader)
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command] if how == "closed" else command
    try:
        done = subprocess.run(shell, stderr=writer, timeout=PATIENCE_S, env=environment(), check=False)
    finally:
        os.close(writer)
    assert done.returncode == 0
    assert_same_rows(pq.read_table(out), join.expected())


@pytest.mark.parametrize("algorithm", [SP_S, SP_D, SM_S2, SM_D2])
def test_many_batches_in_flight_with_the_query_at_a_third_site_are_exact(tmp_path: Path, algorithm: str) -> None:
    """Larger than what is read at once, so that batches of both streams overlap in every way; ends are far apart."""
    random = np.random.default_rng(11)

    def side(name: str, site: str, rows: int, span_ms: int) -> Stream:
        ts = np.sort(random.integers(0, span_ms, rows))
        return Stream(name, table(ts.tolist(), random.integers(0, 4_000, rows)), site)

    left, right = side("many_l", "alpha", 70_000, 60_000), side("many_r", "beta", 40_000, 20_000)
    join = Join(left, right, windows=("2 SECONDS", "300 MILLISECONDS"), select=[("l", "seq", "a"), ("r", "seq", "b")])
    ran = run(
        write_cluster(tmp_path, join.streams, sites=THREE_SITES), join.text, "--algorithm", algorithm, "--at", "gamma"
    )
    want = join.expected()
    assert want.num_rows > 10_000
    assert_same_rows(ran.rows, want)
    sent = {(link["from"], link["to"]): link["bytes_by_kind"] for link in ran.stats["links"]}
    assert len(sent) == 6
    for ends in (("alpha", "beta"), ("beta", "alpha")):
        assert carried(sent[ends]) == CARRIED[algorithm]
        assert sum(sent[ends][kind] for kind in CARRIED[algorithm]) > 20_000
    for site in ("alpha", "beta"):
        # How well rows compress depends on how they fall into batches, which differs from run to run.
        assert sent[site, "gamma"]["results"] > 1_000
        assert not carried(sent[site, "gamma"])
    if algorithm == SM_S2:
        assert_shipped_once(ran.stats, join)


def assert_shipped_once(stats: Mapping[str, Any], join: Join) -> None:
    """No full tuple has crossed the link twice: not more went than there are, and all that went came."""
    counts = shipped(stats)
    assert set(counts) == {"l", "r"}
    for alias, stream in (("l", join.left), ("r", join.right)):
        sent, received = counts[alias]
        assert 0 < sent == received <= stream.table.num_rows


@st.composite
def random_queries(draw: st.DrawFn) -> Query:
    """A small random join, in disorder, and how it is run."""
    keys, kind = draw(
        st.sampled_from([(st.integers(-1, 2), pa.int64()), (st.sampled_from(["", "ü", "z"]), pa.string())])
    )

    def side(name: str) -> Stream:
        rows = draw(st.lists(st.tuples(st.integers(-300, 300), st.none() | keys), max_size=40))
        lateness_ms = draw(st.sampled_from([0, 40, 1_000]))
        data = table([ts for ts, _ in rows], pa.array([key for _, key in rows], kind))
        return Stream(name, data, draw(st.sampled_from(THREE_SITES)), lateness_ms=lateness_ms)

    lengths = st.sampled_from([f"{length} MILLISECONDS" for length in (0, 1, 30, 50, 250)] + ["1 ROWS", "9 ROWS"])
    join = Join(side("random_l"), side("random_r"), windows=(draw(lengths), draw(lengths)))
    return Query(join, draw(st.sampled_from(ALGORITHMS)), draw(st.sampled_from(THREE_SITES)))


@examples(3, suppress_health_check=list(HealthCheck))
@given(st.lists(random_queries(), min_size=10, max_size=16), st.sampled_from(["1ms", "50ms", "1000ms"]))
def test_random_data_in_random_places_gives_the_oracles_rows(tmp_path: Path, drawn: list[Query], tau: str) -> None:
    queries = [replace(query, join=numbered(query.join, f"_{number}")) for number, query in enumerate(drawn)]
    # Each example in a folder of its own: daemons go on with what they find.
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    assert_all_exact(folder, queries, tau)
