"""State that an earlier version left is gone on with, exactly; one that nobody knows is not touched.

The fixtures are of the code that wrote them (``tests/fixtures/state/make.py``).
"""

from __future__ import annotations

import io
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.e2e.harness import Daemons, Join, assert_same_rows, narrows, write_cluster
from tests.fixtures.state.make import ROWS, SITES, stream
from tests.places import ROOT
from tests.unit.logged import logged_column

FIXTURES = ROOT / "tests" / "fixtures" / "state"
JOIN = Join(stream("orders", "alpha", 1), stream("payments", "beta", 2), select=(("l", "n", "a"), ("r", "n", "b")))


def unpacked(folder: Path, version: int) -> Path:
    """A cluster that was killed in the middle of a query."""
    config = write_cluster(folder, JOIN.streams)
    with tarfile.open(FIXTURES / f"version-{version}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return config


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_logs(folder: Path) -> None:
    for one in JOIN.streams:
        numbers = logged_column(folder / "state" / one.site / one.name / "log", "n")
        assert sorted(numbers) == list(range(ROWS)), "each tuple is sealed once"


def test_streams_of_the_version_before_go_on(tmp_path: Path) -> None:
    """Its queries ended with their daemons; a new one sees all that was logged then, and all that comes after."""
    config = unpacked(tmp_path, 2)
    before = {one.name: logged_column(tmp_path / "state" / one.site / one.name / "log", "n") for one in JOIN.streams}
    assert all(0 < len(numbers) < ROWS for numbers in before.values())
    out = tmp_path / "rows.parquet"
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked():
        narrows("query", "--config", config, "--at", "alpha", JOIN.text, "--out", out).ok()
    assert_same_rows(pq.read_table(out), JOIN.expected())
    check_logs(tmp_path)


@pytest.mark.parametrize("version", [3, 4])
def test_queries_and_readers_of_the_version_before_and_of_this_one_go_on(tmp_path: Path, version: int) -> None:
    """The next release reads this one too: then it is the version before."""
    config = unpacked(tmp_path, version)
    query_id = (tmp_path / "query.txt").read_text().strip()
    taken = pa.csv.read_csv(io.BytesIO((tmp_path / "taken.csv").read_bytes()))
    assert 0 < taken.num_rows < JOIN.expected().num_rows
    follow = ("follow", "--config", config, query_id)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked():
        narrows(*follow, "--as", "one", "--out", tmp_path / "rest.parquet").ok()
        narrows(*follow, "--out", tmp_path / "rows.parquet").ok()
    want = JOIN.expected()
    rest = pq.read_table(tmp_path / "rest.parquet")
    assert_same_rows(pa.concat_tables([taken.cast(want.schema), rest.cast(want.schema)]), want)
    assert_same_rows(pq.read_table(tmp_path / "rows.parquet"), want)
    check_logs(tmp_path)


@pytest.mark.parametrize("needed", [True, False], ids=["needed", "not needed"])
def test_a_damaged_log_is_refused_until_the_loss_is_accepted(tmp_path: Path, needed: bool) -> None:
    """The query that was killed in the middle needs the last ticks of the log, and not the first ones any more."""
    config = unpacked(tmp_path, 3)
    query_id = (tmp_path / "query.txt").read_text().strip()
    (log,) = (tmp_path / "state" / "beta" / "payments" / "log").iterdir()
    data = bytearray(log.read_bytes())
    data[-700 if needed else 1_000] ^= 1
    log.write_bytes(data)
    said = narrows("node", "--config", config, "--site", "beta")
    said.failed(1, "stream payments required a whole log", f"{log} at byte ", "are lost", "--accept-data-loss")
    assert log.read_bytes() == data
    ticks = said.err.partition(": ticks ")[2].partition(" are lost")[0]
    with Daemons(config, arguments=("--speed", "1", "--accept-data-loss")).start(*SITES).linked() as daemons:
        assert f"ticks {ticks} are lost" in daemons.nodes["beta"].err
        out = tmp_path / "rows.parquet"
        follow = narrows("follow", "--config", config, query_id, "--out", out)
        if needed:
            follow.failed(1, f"data loss: stream payments requires its log; got one without ticks {ticks}, which were")
        else:
            follow.ok()
            assert_same_rows(pq.read_table(out), JOIN.expected())
        # The streams go on, for others too.
        narrows("query", "--config", config, "--at", "beta", JOIN.text, "--out", tmp_path / "more.parquet").ok()
    assert log.with_name(f"{log.name}.damaged").read_bytes() == data


def test_a_version_that_is_not_known_is_refused_and_no_byte_is_changed(tmp_path: Path) -> None:
    config = unpacked(tmp_path, 4)
    with closing(sqlite3.connect(tmp_path / "state" / "alpha" / "site.db")) as later:
        later.execute("PRAGMA user_version = 9")
    narrows("node", "--config", config, "--site", "alpha").failed(1, "state of version 2 or 3 or 4; got version 9")
    before = content(tmp_path / "state")
    narrows("node", "--config", config, "--site", "alpha").failed(1, "state of version 2 or 3 or 4; got version 9")
    lock = "alpha/daemon.lock"
    after = content(tmp_path / "state")
    assert before.pop(lock) != after.pop(lock), "who looked at it last is in the lock"
    assert after == before


@pytest.mark.parametrize("version", [2, 3, 4])
def test_nothing_that_is_kept_knows_where_it_is(version: int) -> None:
    """Else a site could not be moved to another folder, or another machine."""
    with tarfile.open(FIXTURES / f"version-{version}.tar.gz") as packed:
        for entry in packed:
            file = packed.extractfile(entry)
            assert file is not None
            data = file.read()
            assert b"/tmp/" not in data
            assert b"/home/" not in data
            assert (entry.uname, entry.uid) == ("", 0)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_recordings_of_the_fixtures_are_those_of_the_test(tmp_path: Path, version: int) -> None:
    unpacked(tmp_path, version)
    for one in JOIN.streams:
        assert pq.read_table(tmp_path / f"{one.name}.parquet").equals(one.table)
