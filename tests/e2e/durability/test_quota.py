"""A home that is gone for good: what its query needs fills the logs of other sites, until somebody drops it there."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pyarrow as pa

from tests.e2e.harness import Daemons, Join, Stream, eventually, narrows, write_cluster

SITES = ("alpha", "beta", "gamma")


#: Over an hour of event time, which plays for five minutes: as long as a test may take.
ROWS = 90_000


def stream(name: str, site: str, seed: int) -> Stream:
    draw = random.Random(seed)
    table = pa.table({"k": [draw.randrange(40) for _ in range(ROWS)], "ts": [n * 50 for n in range(ROWS)]})
    return Stream(name, table, site)


def detached(config: Path, join: Join, home: str) -> str:
    return narrows("query", "--config", config, "--at", home, "--detach", join.text).ok().out.strip()


def about(config: Path, site: str) -> str:
    """What is said of a site that is at its quota; nothing if it is not."""
    said: list[str] = json.loads(narrows("status", "--config", config, "--json").ok().out)["going_on"]
    return next((line for line in said if f"the logs of {site} have reached log_quota" in line), "")


def read(daemons: Daemons, site: str) -> int:
    """How many tuples a site has read of its stream."""
    status = daemons.status(site)
    assert status is not None
    return status.streams[0].rows


def test_a_query_of_a_lost_home_is_dropped_at_other_sites_and_streams_go_on(tmp_path: Path) -> None:
    join = Join(stream("orders", "alpha", 1), stream("payments", "beta", 2))
    config = write_cluster(tmp_path, join.streams, sites=SITES)
    config.write_text(f'log_quota = "60kB"\n{config.read_text()}')
    with Daemons(config, arguments=("--speed", "15")).start(*SITES).linked() as daemons:
        other, lost = detached(config, join, "alpha"), detached(config, join, "gamma")
        eventually("it runs", lambda: daemons.query_info(lost).rows > 0)
        daemons.nodes["gamma"].signal(signal.SIGKILL)
        daemons.nodes["gamma"].process.wait()
        eventually("alpha is at its quota", lambda: "orders is not read on" in about(config, "alpha"))
        eventually("beta is too", lambda: about(config, "beta"))
        line = about(config, "alpha")
        assert f"are kept for query {lost} of home gamma" in line
        assert f"bring gamma back, or narrows drop {lost} --at alpha" in line
        rows, paused = daemons.query_info(other).rows, {site: read(daemons, site) for site in ("alpha", "beta")}
        # Only who is asked for it drops it, and only where it is known.
        narrows("drop", "--config", config, lost).failed(1, f"narrows drop {lost} --at SITE")
        narrows("drop", "--config", config, "gamma-1-1", "--at", "alpha").failed(2, "unknown query 'gamma-1-1' at site")
        for site in ("alpha", "beta"):
            gone = narrows("drop", "--config", config, lost, "--at", site).ok()
            assert "Rows that nobody has taken stay at gamma" in gone.err
        for site in ("alpha", "beta"):
            eventually(f"{site} reads on", lambda site=site: read(daemons, site) > paused[site])  # type: ignore[misc]
        eventually("the other goes on by itself", lambda: daemons.query_info(other).rows > rows)
        # It was not gone for good: what it was to go on with is.
        daemons.start("gamma")
        eventually("its home ends it", lambda: daemons.query_info(lost).state == "failed")
        assert "it was dropped here by a user" in daemons.query_info(lost).reason
