"""Clusters on Spark: recorded streams with published answers, and a site on Spark beside one on the native engine."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.cluster import LocalCluster
from cli.cluster_file import load_cluster
from cli.tasks.follow import follow
from node.client import Client
from node.core.effects import QueryState
from tests.e2e.cases import CASES
from tests.e2e.conftest import _nothing_left_behind  # noqa: F401 - a fixture
from tests.e2e.harness import ALGORITHMS, SIX, assert_same_rows, free_port, run, write_cluster
from tests.e2e.test_multiway import SETS, Published, published, read
from tests.e2e.test_real_data import SETS as TWO_WAY_SETS
from tests.e2e.test_run import numbered
from tests.places import DATA

SITES = ("alpha", "beta")
ALL = bool(os.environ.get("NARROWS_ALL_QUERIES"))
#: Spark starts at every site of every cluster here, on two cores that others use too.
PATIENCE_S = 600.0
pytestmark = pytest.mark.timeout(900)
#: One core for each site's Spark: there are two of them.
ONE_CORE = {site: [f"[site.{site}.spark]", 'master = "local[1]"'] for site in SITES}


def two_way(name: str) -> dict[str, Published]:
    """The queries of a data set over two streams."""
    file = DATA / name / "manifest.json"
    if not file.is_file():
        pytest.skip(f"requires {file} (set NARROWS_DATA to the folder of the data sets)")
    manifest = json.loads(file.read_text())
    queries = [query for query in manifest["queries"] if len(query["streams"]) == 2]
    return {query["id"]: read(DATA / name, manifest["streams"], query) for query in queries}


def write_on_spark(folder: Path, tau: str, queries: Sequence[tuple[Published, str]]) -> Path:
    """Both sites on Spark; the streams of each query, with its suffix, on the sites in turn."""
    lines = [f'tau = "{tau}"']
    for place, site in enumerate(SITES):
        lines += [f"[site.{site}]", f'listen = "127.0.0.1:{free_port()}"', *ONE_CORE[site]]
        for query, suffix in queries:
            for stream, file in list(query.files.items())[place :: len(SITES)]:
                path = json.dumps(str(query.folder / file))
                lines += [f"[site.{site}.stream.{stream}{suffix}]", f"path = {path}", f'ts = "{query.ts}"']
    config = folder / "cluster.toml"
    config.write_text("\n".join(lines) + "\n")
    return config


def started(config: Path) -> LocalCluster:
    """The cluster, to be entered."""
    return LocalCluster(load_cluster(config), None)


def rows_of(client: Client, query_id: str, folder: Path) -> pa.Table:
    """The rows of a query that must complete."""
    out = folder / "rows.parquet"
    followed = follow(client, query_id, out, None, lambda info, rows: None)
    assert followed.info.state == QueryState.COMPLETED, followed.info.reason
    return pq.read_table(out)


@pytest.mark.parametrize(
    ("name", "query_id", "plan"),
    [
        ("lorawan_sainteynard", "frame_4way_250ms", ("--plan", "auto")),
    ],
)
def test_a_run_with_spark_at_every_site_gives_the_published_rows(
    tmp_path: Path, name: str, query_id: str, plan: tuple[str, str]
) -> None:
    query = (two_way(name) | published(name))[query_id]
    ran = run(write_on_spark(tmp_path, "100ms", [(query, "")]), query.text(""), *plan, timeout_s=PATIENCE_S)
    assert query.wrong(ran.rows) is None
    for site in SITES:
        assert f"site {site}: starting Spark, master local[1]" in ran.said.err
        assert f"site {site}: Spark is up" in ran.said.err
        assert f"site {site}: ready after " in ran.said.err
        engine = ran.stats["sites"][site]["engine"]
        assert (engine["name"], engine["master"], engine["restarts"]) == ("spark", "local[1]", 0)
    # Windows are asked at the sites where they are; a plan may leave one without.
    assert sum(ran.stats["sites"][site]["engine"]["jobs"] for site in SITES) > 0


@pytest.mark.skipif(not ALL, reason="NARROWS_ALL_QUERIES=1 runs all queries of the manifests on Spark")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SETS)
def test_every_published_query_gives_its_rows_on_spark(tmp_path: Path, name: str) -> None:
    """One after the other in one cluster, each by one of the algorithms in turn."""
    found = two_way(name) | published(name)
    queries = [(query, f"_{number}") for number, query in enumerate(found.values())]
    wrong = []
    with started(write_on_spark(tmp_path, TWO_WAY_SETS[name][0], queries)) as cluster:
        for number, (query, suffix) in enumerate(queries):
            client = cluster.clients[SITES[number % len(SITES)]]
            query_id = client.issue(query.text(suffix), SIX[number % len(SIX)]).query_id
            if said := query.wrong(rows_of(client, query_id, tmp_path)):
                wrong.append(f"{query.name}: {said}")
            client.drop(query_id)
    assert not wrong


def test_a_cluster_of_one_site_on_spark_and_one_on_the_native_engine_is_exact(tmp_path: Path) -> None:
    """Every data set by two of the algorithms, all at once; streams and homes at both sites."""
    chosen = [(place, name, turn) for place, name in enumerate(CASES) for turn in range(2)]
    joins = [numbered(CASES[name](), f"_{turn}") for _, name, turn in chosen]
    config = write_cluster(tmp_path, [stream for join in joins for stream in join.streams])
    text = config.read_text()
    spark = ["[site.alpha.spark]", 'master = "local[2]"', "partitions = 3"]
    config.write_text("\n".join([text.replace("[site.alpha]", '[site.alpha]\nengine = "spark"', 1), *spark, ""]))
    with started(config) as cluster:
        ids = []
        for number, ((place, _, turn), join) in enumerate(zip(chosen, joins, strict=True)):
            algorithm = ALGORITHMS[(2 * place + turn) % len(ALGORITHMS)]
            ids.append(cluster.clients[SITES[number % 2]].issue(join.text, algorithm).query_id)
        for number, (query_id, join) in enumerate(zip(ids, joins, strict=True)):
            assert_same_rows(rows_of(cluster.clients[SITES[number % 2]], query_id, tmp_path), join.expected())
        engines = {site: client.status().engine for site, client in cluster.clients.items()}
    assert (engines["alpha"].name, engines["beta"].name) == ("spark", "native")
    assert engines["alpha"].jobs > 0
