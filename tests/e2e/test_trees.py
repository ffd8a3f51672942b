"""A query by a tree, by real daemons: a join is kept at a site, and the third stream is joined with that."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e.harness import (
    Background,
    Daemons,
    Stream,
    assert_same_rows,
    eventually,
    issued,
    narrows,
    run,
    write_cluster,
)
from tests.oracle.oracle import OracleStream, accepted, expected

SITES = ("alpha", "beta", "gamma")
#: Each component's window is another: what a kept pair has is not visible to all that its newest part is.
WINDOWS = {"a": 900, "b": 300, "c": 500}
TEXT = (
    "SELECT a.n AS an, b.n AS bn, c.n AS cn FROM orders [RANGE 900 MS] AS a, payments [RANGE 300 MS] AS b, "
    "parcels [RANGE 500 MS] AS c WHERE a.k = b.k AND b.j = c.j AND a.n <> c.n"
)


def streams(rows: int, every_ms: int) -> dict[str, Stream]:
    found = {}
    places = (("a", "orders", "alpha", "ms"), ("b", "payments", "beta", "us"), ("c", "parcels", "gamma", "ms"))
    for alias, name, site, unit in places:
        draw = random.Random(name)
        scale = 1000 if unit == "us" else 1
        ts = [scale * (n * every_ms + draw.randint(0, 3 * every_ms)) for n in range(rows)]
        keys = {key: [draw.randrange(8) for _ in range(rows)] for key in "kj"}
        table = pa.table({**keys, "ts": ts, "n": list(range(rows))})
        found[alias] = Stream(name, table, site, unit="us" if unit == "us" else None, lateness_ms=400)
    return found


def want(found: dict[str, Stream]) -> pa.Table:
    """What the definition says of the query, which knows of no trees."""
    sides = []
    for alias, stream in found.items():
        unit = stream.unit or "ms"
        scale = 1000 if unit == "us" else 1
        taken, _ = accepted(stream.table, "ts", 100 * scale, stream.lateness_ms * scale)
        sides.append(OracleStream(alias, taken, "ts", unit, ("range", WINDOWS[alias] * 1000)))
    edges = [(("a", "k"), ("b", "k")), (("b", "j"), ("c", "j"))]
    outputs = [("an", "a", "n"), ("bn", "b", "n"), ("cn", "c", "n")]
    return expected(sides, edges, outputs, lambda rows: rows["a"]["n"] != rows["c"]["n"])


def tree_plan(folder: Path, site: str = "gamma") -> Path:
    """Orders with payments, kept where neither is, or elsewhere; parcels are joined with that."""

    def sequence(head: str, *steps: tuple[str, str]) -> dict[str, object]:
        return {"head": head, "steps": [{"alias": alias, "algorithm": name} for alias, name in steps]}

    inner = [sequence("a", ("b", "SM-S1")), sequence("b", ("a", "SP-D"))]
    kept = {"name": "paid", "aliases": ["a", "b"], "site": site, "sequences": inner}
    plan = {"kept": [kept], "sequences": [sequence("paid", ("c", "SP-S")), sequence("c", ("paid", "SP-D"))]}
    path = folder / f"plan-{site}.json"
    path.write_text(json.dumps(plan))
    return path


def test_a_tree_gives_the_rows_of_the_definition(tmp_path: Path) -> None:
    found = streams(600, 20)
    config = write_cluster(tmp_path, list(found.values()), sites=SITES)
    ran = run(config, TEXT, "--plan", str(tree_plan(tmp_path)))
    assert ran.rows.num_rows > 0
    assert_same_rows(ran.rows, want(found))


def test_daemons_that_keep_a_join_or_feed_it_are_killed(tmp_path: Path) -> None:
    """The one that keeps it, twice, and one whose stream is in it; the home too."""
    found = streams(600, 20)
    config = write_cluster(tmp_path, list(found.values()), sites=SITES)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        out = tmp_path / "rows.parquet"
        words = ("query", "--config", config, "--at", "alpha", TEXT, "--plan", tree_plan(tmp_path), "--out", out)
        asked = Background(*words, name="asked", folder=tmp_path)
        query_id = issued(asked)
        for site in ("gamma", "beta", "gamma", "alpha"):
            before = daemons.query_info(query_id).rows
            eventually("rows are stored", lambda before=before: daemons.query_info(query_id).rows > before)  # type: ignore[misc]
            daemons.nodes[site].signal(signal.SIGKILL)
            daemons.nodes[site].process.wait()
            daemons.start(site).linked()
        daemons.hurry()
        asked.end().ok()
        assert_same_rows(pq.read_table(out), want(found))
        folder = tmp_path / "state" / "gamma"
        narrows("drop", "--config", config, query_id)
        eventually("what was kept is gone", lambda: not list(folder.glob(f"{query_id}.paid")))


def test_a_query_goes_over_to_a_tree_from_one_to_another_and_back(tmp_path: Path) -> None:
    """After each switch a daemon is killed: the query goes on by the plan that it has then."""
    found = streams(600, 25)
    config = write_cluster(tmp_path, list(found.values()), sites=SITES)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        out = tmp_path / "rows.parquet"
        words = ("query", "--config", config, "--at", "alpha", TEXT, "--algorithm", "SM-S1", "--out", out)
        asked = Background(*words, name="asked", folder=tmp_path)
        query_id = issued(asked)

        def more_rows() -> None:
            before = daemons.query_info(query_id).rows
            eventually("rows are stored", lambda: daemons.query_info(query_id).rows > before)

        trees: list[tuple[str, str | Path]] = [("--plan", tree_plan(tmp_path, site)) for site in ("gamma", "beta")]
        for plan, dead in zip([*trees, ("--algorithm", "SP-D")], ("gamma", "alpha", "beta"), strict=True):
            more_rows()
            narrows("replan", query_id, "--config", config, *plan).ok()
            assert daemons.query_info(query_id).last_switch.state == "switched"
            more_rows()
            daemons.nodes[dead].signal(signal.SIGKILL)
            daemons.nodes[dead].process.wait()
            daemons.start(dead).linked()
            eventually("it runs again", lambda: daemons.query_info(query_id).state == "running")
        daemons.hurry()
        asked.end().ok()
        assert_same_rows(pq.read_table(out), want(found))
        assert not [kept for site in SITES for kept in (tmp_path / "state" / site).glob(f"{query_id}*.paid")]
