"""A daemon that is killed and started again goes on: no tuple is sealed twice or left out; --fresh begins anew."""

from __future__ import annotations

import random
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.storage.disk_log import DiskLog
from node.storage.folder import Folder
from tests.e2e.harness import (
    Background,
    Daemons,
    Join,
    Stream,
    assert_same_rows,
    eventually,
    narrows,
    write_cluster,
)
from tests.oracle.oracle import accepted
from tests.unit.logged import read_all

SITES = ("alpha", "beta")
#: Five minutes of event time in steps of 25 ms: by the clock no test sees the end of it.
ROWS = 12_000


def stream(name: str, site: str, rows: int, every_ms: int, jitter_ms: int, seed: int) -> Stream:
    """Tuples that come a little out of order."""
    draw = random.Random(seed)
    ts = [n * every_ms + draw.randint(0, jitter_ms) for n in range(rows)]
    table = pa.table({"k": [draw.randrange(12) for _ in range(rows)], "ts": ts, "n": list(range(rows))})
    return Stream(name, table, site, lateness_ms=400, retain="1h")


def query(config: Path, join: Join, *arguments: str | Path) -> tuple[str | Path, ...]:
    return ("query", "--config", config, "--at", "alpha", join.text, *arguments)


def logged_numbers(folder: Path, site: str, name: str) -> list[int]:
    """The tuples that a log has, in its order."""
    log = DiskLog(Folder(folder / "state" / site / name / "log"))
    extent = log.recover().extent
    assert extent is not None
    found = read_all(log, extent.begin)
    assert [one.first for one in found] == [sum(part.rows.num_rows for part in found[:at]) for at in range(len(found))]
    return [number for one in found for number in one.rows.column("n").to_pylist()]


@pytest.mark.parametrize("killed", [("alpha",), ("beta",), SITES])
def test_a_daemon_killed_between_two_queries_goes_on_with_its_streams(tmp_path: Path, killed: tuple[str, ...]) -> None:
    """Their recordings play by the clock until then; the second query begins where they began: it sees both lives."""
    left, right = stream("orders", "alpha", ROWS, 25, 300, 1), stream("payments", "beta", ROWS, 25, 300, 2)
    join = Join(left, right)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*(site for site in SITES if site not in killed)) as daemons:
        daemons.arguments = ("--speed", "1")
        daemons.start(*killed).linked()
        first = Background(*query(config, join, "--format", "csv"), name="first", folder=tmp_path)
        eventually("rows arrive", lambda: first.out.count("\n") > 50)
        first.signal(signal.SIGINT)
        first.process.wait()
        narrows("drop", "--config", config, first.err.split()[1]).ok()
        for site in killed:
            daemons.nodes[site].signal(signal.SIGKILL)
            daemons.nodes[site].process.wait()
        before = {s.name: logged_numbers(tmp_path, s.site, s.name) for s in (left, right) if s.site in killed}
        assert all(0 < len(numbers) < ROWS for numbers in before.values())
        daemons.arguments = ()
        daemons.start(*killed).linked()
        for site in killed:
            assert "goes on at tick" in daemons.nodes[site].err
        out = tmp_path / "rows.parquet"
        narrows(*query(config, join, "--out", out)).ok()
        assert_same_rows(pq.read_table(out), join.expected())
        for node in daemons.nodes.values():
            node.signal(signal.SIGTERM)
            assert node.end().code == 0
    for one in (left, right):
        numbers = logged_numbers(tmp_path, one.site, one.name)
        assert sorted(numbers) == list(range(ROWS)), "each once"
        if one.name in before:
            assert numbers[: len(before[one.name])] == before[one.name]
    assert not (tmp_path / "late").exists()


def test_late_tuples_are_set_aside_once_over_all_lives_and_an_ended_recording_stays_so(tmp_path: Path) -> None:
    left, right = stream("orders", "alpha", 1_500, 10, 900, 3), stream("payments", "beta", 1_500, 10, 900, 4)
    left, right = replace(left, lateness_ms=100), replace(right, lateness_ms=100)
    join = Join(left, right, windows=("200 MILLISECONDS", "200 MILLISECONDS"))
    config = write_cluster(tmp_path, join.streams)
    want = join.expected()
    rows = []
    with Daemons(config).start(*SITES).linked() as daemons:
        for life in range(3):
            out = tmp_path / f"rows{life}.parquet"
            narrows(*query(config, join, "--out", out)).ok()
            rows.append(pq.read_table(out))
            for node in daemons.nodes.values():
                node.signal(signal.SIGKILL)
                node.process.wait()
            daemons.start(*SITES).linked()
            status = daemons.status("alpha")
            assert status is not None
            assert [one.state for one in status.streams] == ["ended"]
    for got in rows:
        assert_same_rows(got, want)
    for one in (left, right):
        _, late = accepted(one.table, one.ts, 100, 100)
        assert late.num_rows > 10
        with pa.ipc.open_stream(tmp_path / "late" / f"{one.name}.arrows") as reader:
            aside = reader.read_all()
        assert sorted(aside.column("n").to_pylist()) == late.column("n").to_pylist()
        assert aside.column("narrows_row").to_pylist() == aside.column("n").to_pylist(), "where they are in the file"
        assert not (tmp_path / "late" / f"{one.name}.1.arrows").exists()


def test_fresh_says_what_it_forgets_and_plays_again(tmp_path: Path) -> None:
    left = replace(stream("orders", "alpha", 300, 25, 0, 1), retain="")
    right = replace(stream("payments", "beta", 300, 25, 0, 2), retain="")
    join = Join(left, right)
    config = write_cluster(tmp_path, join.streams)
    out = tmp_path / "rows.parquet"
    want, said, lives, names = join.expected(), "", [], list[str]()
    for arguments in ((), ("--fresh",)):
        with Daemons(config, arguments=arguments).start(*SITES).linked() as daemons:
            said = daemons.nodes["alpha"].err
            lives.append(int(said.partition("begins life ")[2].split()[0]))
            names.append(narrows(*query(config, join, "--detach")).ok().out.strip())
            narrows("follow", "--config", config, names[-1], "--as", "two", "--out", out).ok()
            assert_same_rows(pq.read_table(out), want)
    assert "--fresh: site alpha forgets stream orders: ticks start to end, 300 tuples, " in said
    rows = f"{want.num_rows:,}"
    assert f"forgets query {names[0]} (completed), {rows} rows: {rows} not taken by reader default\n" in said
    assert lives[0] < lives[1]
    assert names[0] != names[1]
    # Without it nothing is forgotten: what ended has ended.
    with Daemons(config).start(*SITES).linked() as daemons:
        narrows(*query(config, join, "--out", out)).ok()
        assert pq.read_table(out).num_rows == 0
        assert "forgets" not in daemons.nodes["alpha"].err
    narrows("node", "--config", config, "--site", "alpha", "--fresh", "--no-log").failed(2, "--fresh or --no-log")


def test_a_recording_that_changed_is_refused_by_name(tmp_path: Path) -> None:
    left, right = stream("orders", "alpha", 300, 25, 0, 1), stream("payments", "beta", 300, 25, 0, 2)
    join = Join(left, right)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*SITES).linked():
        narrows(*query(config, join, "--out", tmp_path / "rows.parquet")).ok()
    replace(left, table=left.table.slice(1)).write(tmp_path)
    said = narrows("node", "--config", config, "--site", "alpha")
    said.failed(2, "site.alpha.stream.orders.path", "when its log was begun", "--fresh")
    # A folder of the first version, and one of another cluster.
    for file in (tmp_path / "state" / "beta").glob("site.db*"):
        file.unlink()
    narrows("node", "--config", config, "--site", "beta").failed(
        1, "state of version 2 or 3 or 4; got version 1", "--fresh"
    )
    text = config.read_text().replace('cluster = "e2e"', 'cluster = "other"')
    (tmp_path / "other.toml").write_text(text)
    said = narrows("node", "--config", tmp_path / "other.toml", "--site", "alpha")
    said.failed(1, "required the state of site alpha of cluster other; got that of site alpha of cluster e2e")
