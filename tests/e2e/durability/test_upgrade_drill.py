"""The sites of a cluster are upgraded one after the other, under load: nobody who reads has to do anything."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq

from tests.e2e.cases import lasting, steady
from tests.e2e.harness import (
    PATIENCE_S,
    Background,
    Daemons,
    assert_same_rows,
    eventually,
    narrows,
    write_cluster,
)
from tests.e2e.spark_stream import Sink, local_spark

SITES = ("alpha", "beta", "gamma")
HOME = "gamma"


def test_every_site_is_stopped_and_started_again_under_load_and_each_reader_has_every_row_once(tmp_path: Path) -> None:
    join, warm = lasting(), steady(1, suffix="_warm")
    config = write_cluster(tmp_path, (*join.streams, *warm.streams), sites=SITES)
    want = join.expected()
    with local_spark() as spark, Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        # Spark takes half a minute to its first rows, so it has some before: the load is for what comes then.
        first = narrows("query", "--config", config, "--at", HOME, warm.text, "--detach").ok().out.strip()
        warming = Sink(spark, daemons.client(HOME).address, first, tmp_path / "warm").start(availableNow=True)
        assert warming.awaitTermination(int(PATIENCE_S))
        # Rows are kept until every reader has taken them, the one without a name too, who comes last.
        query_id = narrows("query", "--config", config, "--at", HOME, join.text, "--detach").ok().out.strip()
        follow, ledger = ("follow", "--config", config, query_id), tmp_path / "ledger.parquet"
        reader = Background(*follow, "--as", "ledger", "--out", ledger, name="ledger", folder=tmp_path)
        sink = Sink(spark, daemons.client(HOME).address, query_id, tmp_path / "spark", reader="spark")
        stream = sink.start(processingTime="0 seconds")
        names = {"default", "ledger", "spark"}
        eventually("all are known", lambda: {each.name for each in daemons.query_info(query_id).readers} == names)
        follower = Background(*follow, "--format", "csv", name="query", folder=tmp_path)
        eventually("rows are printed", lambda: follower.out)
        eventually("Spark has rows", lambda: sink.attempts)
        stopped = []
        for site in (HOME, "alpha", "beta"):
            rows = daemons.query_info(query_id).rows
            eventually("the load goes on", lambda rows=rows: daemons.query_info(query_id).rows > rows)  # type: ignore[misc]
            assert daemons.query_info(query_id).state == "running", "there is load when a site is stopped"
            stopped.append(daemons.nodes[site])
            stopped[-1].signal(signal.SIGTERM)
            stopped[-1].end().ok()
            daemons.start(site)
        rows = daemons.query_info(query_id).rows
        eventually("the load goes on", lambda: daemons.query_info(query_id).rows > rows)
        assert daemons.query_info(query_id).state == "running"
        stopped += daemons.nodes.values()
        daemons.hurry()
        assert reader.end().ok().err.count("all that there are") == 1
        follower.end().ok()

        def all_written() -> bool:
            assert stream.isActive, str(stream.exception())
            return bool(sum(rows.num_rows for _, rows in sink.attempts) >= want.num_rows)

        eventually("Spark has all rows", all_written)
        stream.stop()
        assert narrows("queries", "--config", config).ok().out.count(query_id) == 1
    (tmp_path / "printed.csv").write_text(follower.out)
    printed = pyarrow.csv.read_csv(tmp_path / "printed.csv").cast(want.schema)
    for got in (printed, pq.read_table(ledger), sink.rows):
        assert_same_rows(got, want)
    assert [number for number, _ in sink.attempts] == list(range(len(sink.attempts))), "no batch was tried twice"
    for node in [*stopped, *daemons.nodes.values()]:
        assert "Traceback" not in node.err, node.err
