"""``--from``: queries over one recording give the same rows whenever they are issued, also after its end or a crash."""

from __future__ import annotations

import random
import signal
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e.harness import Daemons, Join, Stream, assert_same_rows, eventually, narrows, write_cluster

SITES = ("alpha", "beta")
NOON_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)


def recording(name: str, site: str, seed: int) -> Stream:
    """Half an hour of it: at six times its speed it lasts as long as a test may."""
    draw = random.Random(seed)
    ts = [NOON_MS + n * 900 for n in range(2_000)]
    return Stream(name, pa.table({"k": [draw.randrange(12) for _ in ts], "ts": ts, "n": list(range(len(ts)))}), site)


def from_time(rows: pa.Table, begin_ms: int) -> int:
    """How many rows have all their tuples from a time on."""
    return sum(min(row["l_ts"], row["r_ts"]) >= begin_ms for row in rows.to_pylist())


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
        assert pq.read_table(out).num_rows == from_time(want, begin.from_ms)
        # The recordings are over.
        narrows(*query("--from", "start", "--out", out)).ok()
        assert_same_rows(pq.read_table(out), want)
        said = narrows(*query("--from", "2026-03-01 12:20:00.050", "--out", out)).ok()
        assert "rows are complete from 2026-03-01 12:20:00 on\n" in said.err
        assert pq.read_table(out).num_rows == from_time(want, NOON_MS + 20 * 60_000) > 0
