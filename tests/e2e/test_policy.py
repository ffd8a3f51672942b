"""Policy ``delta``, which goes by the clock: exact while no delay is longer, and it says when one was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cases import steady
from tests.e2e.harness import SM_D1, SM_S2, assert_same_rows, eventually, narrows, run, write_cluster
from tests.e2e.proxy import behind_proxy
from tests.e2e.test_faults import SITES, link, query


@pytest.mark.parametrize("algorithm", [SM_S2, SM_D1])
def test_under_delta_rows_are_exact_while_no_delay_is_longer(tmp_path: Path, algorithm: str) -> None:
    """A machine can be too busy for one delta; then that is counted, and a longer one must do."""
    join = steady(3)
    config = write_cluster(tmp_path, join.streams)
    for delta_s in (2, 8, 25):
        arguments = ("--algorithm", algorithm, "--speed", "1", "--policy", f"delta={delta_s}s")
        ran = run(config, join.text, *arguments)
        probes = ran.stats["probes"]
        assert ran.stats["plan"]["policy"] == {"name": "delta", "delta_us": delta_s * 1_000_000}
        assert probes["delta_us"] == delta_s * 1_000_000
        if not probes["early"] + probes["late"]:
            break
    assert not probes["early"] + probes["late"]
    assert_same_rows(ran.rows, join.expected())


def test_delays_longer_than_delta_are_counted_and_shown(tmp_path: Path) -> None:
    join = steady(3)
    with behind_proxy(tmp_path, join.streams, "--speed", "1") as (daemons, proxy):
        proxy.delay_s = 0.3
        out = tmp_path / "rows.parquet"
        said = narrows(*query(daemons.config, join, "--policy", "delta=1ms", "--out", out)).ok()
        assert "narrows: policy delta: rows may be wrong. A delay was longer than delta, 1 ms: " in said.err
        counts = [probes for site in SITES if (status := daemons.status(site)) for probes in status.probes]
        assert {probes.delta_us for probes in counts} == {1_000}
        assert sum(probes.early + probes.late for probes in counts) > 0
        shown = narrows("status", "--config", daemons.config).ok().out
        assert "Policy delta" in shown
        assert "probes too early" in shown
        assert "1.0 ms" in shown


def test_a_delta_that_is_not_given_is_measured_on_the_links(tmp_path: Path) -> None:
    join = steady(2)
    with behind_proxy(tmp_path, join.streams, "--speed", "1") as (daemons, proxy):
        proxy.delay_s = 0.15
        eventually("the delay is measured", lambda: link(daemons, "alpha").rtt_us > 250_000)
        narrows(*query(daemons.config, join, "--policy", "delta", "--out", tmp_path / "rows.parquet")).ok()
        counts = [probes for site in SITES if (status := daemons.status(site)) for probes in status.probes]
    assert counts
    assert all(probes.delta_us > 125_000 for probes in counts)
