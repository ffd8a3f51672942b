"""``--from``: queries over one recording give the same rows whenever they are issued, also after its end or a crash.

Without it a query has at once what its windows show.
"""

from __future__ import annotations

import random
import signal
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e.harness import Daemons, Join, Stream, assert_same_rows, eventually, narrows, write_cluster

SITES = ("alpha", "beta")
NOON_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)


def recording(name: str, site: str, seed: int, count: int = 2_000) -> Stream:
    """Half an hour of it: at six times its speed it lasts as long as a test may."""
    draw = random.Random(seed)
    ts = [NOON_MS + n * 900 for n in range(count)]
    return Stream(name, pa.table({"k": [draw.randrange(12) for _ in ts], "ts": ts, "n": list(range(len(ts)))}), site)


def from_time(rows: pa.Table, begin_ms: int) -> int:
    """How many rows have all their tuples from a time on."""
    return sum(min(row["l_ts"], row["r_ts"]) >= begin_ms for row in rows.to_pylist())


def rows_from(rows: pa.Table, begin_ms: int) -> pa.Table:
    """Those of which the newest tuple is from a time on."""
    newest = [max(row["l_ts"], row["r_ts"]) for row in rows.to_pylist()]
    return rows.filter(pa.array([ts >= begin_ms for ts in newest], pa.bool_()))


def done_ms(daemons: Daemons, query_id: str) -> int:
    """The event time up to which a query is done."""
    return min((head.done_tick for head in daemons.query_info(query_id).heads), default=0) * 100


def test_a_query_from_the_start_of_a_recording_has_all_rows_whenever_it_is_issued(tmp_path: Path) -> None:
    join = Join(recording("orders", "alpha", 1), recording("payments", "beta", 2), windows=("9 SECONDS", "9 SECONDS"))
    config = write_cluster(tmp_path, join.streams)
    want, out = join.expected(), tmp_path / "rows.parquet"

    def query(*arguments: str | Path) -> tuple[str | Path, ...]:
        return ("query", "--config", config, "--at", "alpha", join.text, *arguments)

    with Daemons(config, arguments=("--speed", "6")).start(*SITES).linked() as daemons:
        first = narrows(*query("--detach")).ok().out.strip()
        eventually("rows arrive", lambda: daemons.query_info(first).rows > 50)
        whole, unsaid = (narrows(*query("--detach", *said)).ok().out.strip() for said in (("--from", "start"), ()))
        eventually("both run", lambda: all(daemons.query_info(one).state == "running" for one in (whole, unsaid)))
        assert all(daemons.status(site).streams[0].state == "reading" for site in SITES)  # type: ignore[union-attr]
        for site in SITES:
            daemons.nodes[site].signal(signal.SIGKILL)
            daemons.nodes[site].process.wait()
        daemons.arguments = ()
        daemons.start(*SITES).linked()
        for issued in (first, whole):
            said = narrows("follow", "--config", config, issued, "--out", out).ok()
            assert "narrows: rows are complete from the beginning of the query's streams on" in said.err
            assert_same_rows(pq.read_table(out), want)
        said = narrows("follow", "--config", config, unsaid, "--out", out).ok()
        begin = daemons.query_info(unsaid).complete_from
        assert begin.from_ms > NOON_MS, "one that says nothing begins now, though all is kept"
        assert f"(where these streams were, less their retain: {', '.join(begin.limited_by)})" in said.err
        assert_same_rows(pq.read_table(out), rows_from(want, begin.from_ms))
        # The recordings are over.
        narrows(*query("--from", "start", "--out", out)).ok()
        assert_same_rows(pq.read_table(out), want)
        said = narrows(*query("--from", "2026-03-01 12:20:00.050", "--out", out)).ok()
        assert "rows are complete from 2026-03-01 12:20:00 on\n" in said.err
        assert pq.read_table(out).num_rows == from_time(want, NOON_MS + 20 * 60_000) > 0


def test_a_query_over_streams_that_another_one_reads_is_complete_from_its_first_row_on(tmp_path: Path) -> None:
    """Nothing is retained: what is there is what the other one's windows need."""
    drawn = recording("orders", "alpha", 3, 500), recording("bills", "beta", 4, 500)
    left, right = (replace(stream, retain="0ms") for stream in drawn)
    join = Join(left, right, windows=("60 SECONDS", "40 SECONDS"))
    config = write_cluster(tmp_path, join.streams)
    want, ready = join.expected(), tmp_path / "ready.parquet"

    def query(*arguments: str | Path) -> tuple[str | Path, ...]:
        return ("query", "--config", config, "--at", "alpha", "--algorithm", "SM-D1", join.text, *arguments)

    with Daemons(config, arguments=("--speed", "30")).start(*SITES).linked() as daemons:
        first = narrows(*query("--detach")).ok().out.strip()
        eventually("windows are full", lambda: done_ms(daemons, first) > NOON_MS + 100_000)
        at_once, now = (narrows(*query("--detach", *said)).ok().out.strip() for said in ((), ("--from", "now")))
        said = narrows("follow", "--config", config, at_once, "--out", ready).ok()
        begin = daemons.query_info(at_once).complete_from
        assert (list(begin.lacking), begin.from_ms) == ([], begin.begin_ms)
        assert "narrows: rows are complete from 2026-03-01 12:" in said.err
        assert NOON_MS + 100_000 < begin.from_ms < NOON_MS + 400_000
        assert_same_rows(pq.read_table(ready), rows_from(want, begin.from_ms))
        narrows("follow", "--config", config, now, "--out", ready).ok()
        later = daemons.query_info(now).complete_from
        assert pq.read_table(ready).num_rows == from_time(want, later.from_ms) < rows_from(want, later.from_ms).num_rows
        narrows("follow", "--config", config, first, "--out", ready).ok()
        assert_same_rows(pq.read_table(ready), want)
