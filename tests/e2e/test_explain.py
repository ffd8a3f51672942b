"""Planning by cost and explaining, with real daemons: what is measured, what is declared, what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.e2e.harness import Daemons, Stream, assert_same_rows, narrows, run, write_cluster
from tests.oracle.oracle import OracleStream, expected

SITES = ("alpha", "beta", "gamma")
QUERY = (
    "SELECT o.n AS o_n, p.n AS p_n, s.n AS s_n FROM ordered [RANGE 500 MS] AS o "
    "JOIN paid [RANGE 400 MS] AS p ON o.k = p.k JOIN sent [RANGE 300 MS] AS s ON p.k = s.k"
)
WINDOWS_US = {"o": 500_000, "p": 400_000, "s": 300_000}
ROWS = 600


def stream(name: str, site: str, seed: int) -> Stream:
    random = np.random.default_rng(seed)
    ts = np.sort(random.integers(0, 6_000, ROWS))
    notes = pa.array([f"{name} {number} has something to say" for number in range(ROWS)])
    return Stream(
        name, pa.table({"ts": ts, "k": random.integers(0, 40, ROWS), "n": np.arange(ROWS), "note": notes}), site
    )


STREAMS = (stream("ordered", "alpha", 1), stream("paid", "beta", 2), stream("sent", "gamma", 3))


def truth() -> pa.Table:
    sides = [
        OracleStream(alias, part.table, "ts", "ms", ("range", WINDOWS_US[alias]))
        for alias, part in zip("ops", STREAMS, strict=True)
    ]
    edges = [(("o", "k"), ("p", "k")), (("p", "k"), ("s", "k"))]
    return expected(sides, edges, [(f"{alias}_n", alias, "n") for alias in "ops"])


def cluster(folder: Path, declared: str = "") -> Path:
    """Without kept joins, which have heads of their own (``test_trees``)."""
    path = write_cluster(folder, STREAMS, sites=SITES)
    path.write_text(f"{path.read_text()}\n[planner]\nstorage = 0\n{declared}")
    return path


@pytest.mark.parametrize("options", [("--plan", "auto"), ("--plan", "auto", "--search", "greedy", "--cost", "paper")])
def test_a_planned_query_delivers_the_rows_of_the_oracle(tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = run(cluster(tmp_path), QUERY, *options)
    assert_same_rows(ran.rows, truth())
    rows = {(step["head"], step["step"]): step["rows"] for step in ran.stats["steps"]}
    # Every tuple starts a walk, and what walks end with are the results.
    assert [rows[alias, 0] for alias in "ops"] == [ROWS] * 3
    assert sum(rows.get((alias, 2), 0) for alias in "ops") == ran.rows.num_rows
    # What is counted by cause is what the ledgers of the links counted by kind.
    by_kind: dict[str, int] = {}
    for link in ran.stats["links"]:
        for kind, size in link["bytes_by_kind"].items():
            by_kind[kind] = by_kind.get(kind, 0) + size
    for kind in ("tuples", "keys", "key_answers", "sync", "results"):
        assert sum(sent["bytes"] for sent in ran.stats["sent"] if sent["kind"] == kind) == by_kind[kind]


DECLARED = """
[site.beta.stream.paid.stats]
rate = 12345
[link.alpha.gamma]
latency = "40ms"
bandwidth = "10 Mbit/s"
price_per_gb = 0.05
"""


def explained(config: Path, *words: str) -> dict[str, Any]:
    said = narrows("explain", "--config", config, "--json", *words).ok()
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_explain_says_what_a_query_would_do_and_analyze_what_it_did(tmp_path: Path) -> None:
    """One cluster for all of it, in the order in which a user would ask."""
    config, picture = cluster(tmp_path, DECLARED), tmp_path / "plan.svg"
    with Daemons(config).start(*SITES).linked() as daemons:
        said = narrows("explain", "--config", config, "--at", "gamma", "--picture", picture, QUERY).ok()
        for words in (
            "head o at alpha",
            "head p at beta",
            "head s at gamma",
            "rows to gamma",
            "of shipping everything",
        ):
            assert words in said.out, said.out
        assert "a month" in said.out
        assert picture.read_text().startswith("<svg")
        # Declared values win, and it is said which they are.
        assert "declared: rate of paid: 12345 tuples/s" in said.out
        assert "declared: latency alpha to gamma: 40 ms" in said.out
        document = explained(config, "--at", "gamma", QUERY)
        rates = {head["head"]: head["rows_per_s"] for head in document["expected"]["heads"]}
        assert rates["p"] == pytest.approx(12345, rel=0.01)
        assert rates["o"] == pytest.approx(ROWS / 6, rel=0.05)
        assert document["expected"]["bytes_per_s"] <= document["ship_all"]["bytes_per_s"]
        # Nothing was read for that: a query still begins with the first tuple.
        for site in SITES:
            status = daemons.status(site)
            assert status is not None
            assert [(stream.state, stream.rows) for stream in status.streams] == [("held", 0)]
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(document))
        document = explained(config, "--at", "gamma", "--plan", str(plan), "analyze", QUERY)
        judge(document["measured"])
        with daemons.client("gamma") as client:
            assert client.queries() == []
        with daemons.client("gamma") as client:
            query_id = client.issue(QUERY, "SM-D1").query_id
        assert {"expected", "measured"} <= set(explained(config, query_id))
        # A stream that was read is known by what came last, and a site that is gone is reported.
        assert explained(config, "--at", "gamma", QUERY)["warnings"] == []
        daemons.nodes["beta"].kill()
        said = narrows("explain", "--config", config, "--at", "gamma", QUERY).ok()
        assert 'warning: stream "p": site beta did not answer within 5 s' in said.out
        assert "warning: site beta cannot be reached" in said.out
        assert "everything is shipped" in said.out


def judge(measured: dict[str, Any]) -> None:
    rows = {(step["head"], step["step"]): (step["rows_in"], step["rows_out"]) for step in measured["steps"]}
    assert [rows[alias, 0][0] for alias in "ops"] == [ROWS] * 3
    assert all(rows[alias, 0][1] == rows[alias, 1][0] for alias in "ops")
    assert sum(rows[alias, 1][1] for alias in "ops") == truth().num_rows
    assert measured["seconds"] == pytest.approx(6, rel=0.02)
    assert measured["bytes"] > 0


def test_a_cluster_that_does_not_run_is_started_for_it(tmp_path: Path) -> None:
    config = cluster(tmp_path)
    document = explained(config, "--start", "--algorithm", "SP-D", "analyze", QUERY)
    judge(document["measured"])
    assert {step["algorithm"] for item in document["sequences"] for step in item["steps"]} == {"SP-D"}
    assert document["declared"] == document["warnings"] == []


def test_what_cannot_be_explained_is_said_clearly(tmp_path: Path) -> None:
    config = cluster(tmp_path)
    explain = ("explain", "--config", config)
    narrows(*explain, "--picture", tmp_path / "plan.png", QUERY).failed(2, "plan.png", ".svg or .dot")
    narrows(*explain, "--start", "SELECT nothing").failed(2, "SELECT nothing")
    narrows(*explain, "--for", "10s", QUERY).failed(2, "--for requires narrows explain analyze")
    narrows(*explain, "analyze").failed(2, "requires a query")
    narrows(*explain, QUERY).failed(1, "requires a running daemon")
    narrows(*explain, "--start", "alpha-1-1").failed(2, "alpha-1-1 is a query that runs")
