"""A query by a tree, by real daemons: a join is kept at a site, and the third stream is joined with that."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from node.rpc import control_pb2 as pb
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


def few_pairs() -> dict[str, Stream]:
    """Few orders have a payment, and each payment has many parcels: what is paid, and kept, is next to nothing."""
    found = {}
    draw = np.random.default_rng(5)
    rows, span_ms = 3_000, 15_000
    for alias, name, site in (("a", "orders", "alpha"), ("b", "payments", "beta"), ("c", "parcels", "gamma")):
        ts = np.sort(draw.integers(0, span_ms, rows))
        own = np.arange(rows) + 10_000 * "abc".index(alias)
        k = np.where(draw.random(rows) < 0.02, ts // 100, own)
        notes = [f"{alias} {number} {draw.bytes(60).hex()}" for number in range(rows)]
        table = pa.table({"k": k, "j": draw.integers(0, 40, rows), "ts": ts, "n": np.arange(rows), "note": notes})
        found[alias] = Stream(name, table, site)
    return found


CHOSEN = (
    "SELECT a.n AS an, b.n AS bn, c.n AS cn, a.note AS x, b.note AS y FROM orders [RANGE 900 MS] AS a, "
    "payments [RANGE 300 MS] AS b, parcels [RANGE 500 MS] AS c WHERE a.k = b.k AND b.j = c.j"
)


def chosen_rows(found: dict[str, Stream]) -> pa.Table:
    sides = []
    for alias, stream in found.items():
        sides.append(OracleStream(alias, stream.table, "ts", "ms", ("range", WINDOWS[alias] * 1000)))
    edges = [(("a", "k"), ("b", "k")), (("b", "j"), ("c", "j"))]
    outputs = [("an", "a", "n"), ("bn", "b", "n"), ("cn", "c", "n"), ("x", "a", "note"), ("y", "b", "note")]
    return expected(sides, edges, outputs)


def test_the_planner_keeps_a_join_by_itself_where_that_saves_much(tmp_path: Path) -> None:
    found = few_pairs()
    config = write_cluster(tmp_path, list(found.values()), sites=SITES)
    ran = run(config, CHOSEN, "--at", "gamma", "--plan", "auto", "--speed", "10")
    (kept,) = ran.stats["plan"]["kept"]
    assert kept["aliases"] == ["a", "b"]
    assert ran.rows.num_rows > 100
    assert_same_rows(ran.rows, chosen_rows(found))
    config.write_text(config.read_text() + "\n[planner]\nstorage = 0\n")
    without = run(config, CHOSEN, "--at", "gamma", "--plan", "auto", "--speed", "10")
    assert "kept" not in without.stats["plan"]
    assert_same_rows(without.rows, ran.rows)
    sent, more = (sum(link["bytes"] for link in each.stats["links"]) for each in (ran, without))
    assert sent < 0.9 * more


def test_what_a_tree_costs_is_explained_and_measured(tmp_path: Path) -> None:
    """All that is sent for the query is sent for one of its parts."""
    config = write_cluster(tmp_path, list(few_pairs().values()), sites=SITES)
    with Daemons(config, arguments=("--speed", "10")).start(*SITES).linked() as daemons:
        words = ("explain", "--config", config, "--at", "gamma")
        document = json.loads(narrows(*words, "--json", "analyze", CHOSEN).ok().out)
        (kept,) = document["expected"]["kept"]
        assert kept["aliases"] == ["a", "b"]
        assert 0 < kept["stored_bytes"] < kept["storage_bytes"] == 256e6
        measured = document["measured"]
        heads = {step["head"] for step in measured["steps"]}
        assert heads == {"a", "b", kept["name"], "c"}
        assert {step["head"] for step in measured["steps"] if step["rows_in"]} == heads
        assert 0.5 < measured["bytes"] / measured["seconds"] / document["expected"]["bytes_per_s"] < 2
        status = [daemons.status(site) for site in SITES]
        links = sum(sum(link.sent_bytes.values()) for site in status if site is not None for link in site.links)
        assert measured["bytes"] > 0.7 * links
        with daemons.client("gamma") as client:
            query_id = client.install(pb.IssueRequest(text=CHOSEN)).query_id
        said = narrows("explain", "--config", config, query_id).ok().out
        assert "of the best plan that keeps none" in said
