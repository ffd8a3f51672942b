"""A query's rows as a DataFrame: real daemons, a real Spark, and rows that are exactly the oracle's.

One cluster and one Spark serve all tests. A recording is read once, so each test has streams of its own.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from node.client import Client
from spark_jobs.sink.data_source import issue
from tests.e2e.cases import every_type, table
from tests.e2e.harness import (
    PATIENCE_S,
    TAG,
    Daemons,
    Join,
    Stream,
    assert_same_rows,
    eventually,
    free_port,
    narrows,
    write_cluster,
)
from tests.e2e.spark_stream import Sink, local_spark

SITES = ("alpha", "beta")
#: Replay at this multiple of real time, so that queries go on while Spark reads.
SPEED = 2.0


def steady(name: str, seconds: float) -> Join:
    """Two streams that match all the time, for a while."""
    random = np.random.default_rng(len(name))

    def side(suffix: str, site: str) -> Stream:
        rows = int(seconds * 200)
        ts = np.sort(random.integers(0, int(seconds * 1000), rows))
        return Stream(f"{name}_{suffix}", table(ts.tolist(), random.integers(0, 100, rows)), site)

    return Join(side("l", "alpha"), side("r", "beta"))


TYPES = every_type()
TABLE, AGAIN = (steady(name, 2) for name in ("table", "again"))
LONG = steady("long", 30)
#: Nobody waits for the end of these.
FAILING = steady("failing", 300)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark() as session:
        yield session


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    streams = [stream for join in (TYPES, LONG, TABLE, AGAIN) for stream in join.streams]
    config = write_cluster(tmp_path_factory.mktemp("sink"), streams)
    with Daemons(config, arguments=("--speed", str(SPEED))).start(*SITES).linked() as daemons:
        yield daemons


def address(daemons: Daemons) -> str:
    return daemons.client("alpha").address


def completed(daemons: Daemons, join: Join, *, keep: bool = False) -> str:
    """A query that has all its rows at the sink."""
    query = issue(address(daemons), join.text, keep=keep)
    eventually("the query has ended", lambda: daemons.query_info(query).state == "completed")
    return query


def read(spark: SparkSession, daemons: Daemons, query: str, **options: str) -> DataFrame:
    given = {"address": address(daemons), "query": query} | options
    return spark.read.format("narrows").options(**given).load()


def failure(stream: StreamingQuery) -> str:
    """How a stream that must fail has failed."""
    with pytest.raises(Exception, match=r"narrows|killed") as error:
        stream.awaitTermination(int(PATIENCE_S))
    return str(error.value)


def test_a_site_that_is_not_there_is_named(spark: SparkSession) -> None:
    port = free_port()
    with pytest.raises(Exception, match=rf"a running daemon is required at 127\.0\.0\.1:{port}"):
        spark.read.format("narrows").options(address=f"127.0.0.1:{port}", query="alpha-1-1").load()
    with pytest.raises(Exception, match="option query is required"):
        spark.read.format("narrows").options(address=f"127.0.0.1:{port}").load()


def test_a_table_has_the_oracles_rows_in_every_type_that_spark_has(spark: SparkSession, cluster: Daemons) -> None:
    query = completed(cluster, TYPES, keep=True)
    want = TYPES.expected()
    fit = [name for name in want.column_names if name.startswith("l_") and name != "l_dec256"] + ["r_seq"]

    with pytest.raises(Exception, match=r"column l_dec256 is decimal256\(60, 0\): required at most 38 digits"):
        read(spark, cluster, query)
    with pytest.raises(Exception, match=r"column l_t_ns: .*nanoseconds=floor"):
        read(spark, cluster, query, columns="l_t_ns").toArrow()

    rows = read(spark, cluster, query, columns=",".join(fit), nanoseconds="floor", partitions="3")
    got = rows.toArrow()
    assert got.column_names == fit
    assert_same_rows(got, want.select(fit).cast(got.schema, safe=False))


def test_columns_are_pruned_by_option_or_by_a_declared_schema(spark: SparkSession, cluster: Daemons) -> None:
    query = completed(cluster, TABLE, keep=True)
    want = TABLE.expected()
    few = read(spark, cluster, query, columns="r_seq, l_seq")
    assert few.schema.simpleString() == "struct<r_seq:bigint,l_seq:bigint>"
    assert_same_rows(few.toArrow(), want.select(["r_seq", "l_seq"]))

    reader = spark.read.format("narrows").options(address=address(cluster), query=query)
    assert_same_rows(reader.schema("l_k BIGINT, l_seq BIGINT").load().toArrow(), want.select(["l_k", "l_seq"]))
    with pytest.raises(Exception, match="column l_k: required bigint, got int"):
        reader.schema("l_k INT").load().toArrow()
    with pytest.raises(Exception, match="got nix"):
        read(spark, cluster, query, columns="nix")

    followed = narrows("follow", "--config", cluster.config, query, "--format", "csv").ok()
    assert len(followed.out.splitlines()) == 1 + want.num_rows, "reading a table takes nothing"
    rows = read(spark, cluster, query, partitions="3")
    assert rows.rdd.getNumPartitions() == 3
    assert rows.count() == want.num_rows, "a query that keeps has its rows also after they were taken"


def test_a_stream_follows_a_query_while_it_runs_over_a_crash_of_its_home_and_idles_when_it_has_ended(
    spark: SparkSession, cluster: Daemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = LONG.expected()
    query = issue(address(cluster), LONG.text)
    eventually("some rows are there", lambda: cluster.query_info(query).rows > 0)
    # While beta sleeps the query cannot end, however long Spark takes to begin.
    cluster.nodes["beta"].signal(signal.SIGSTOP)
    try:
        sink = Sink(spark, address(cluster), query, tmp_path / "out", partitions="2")
        stream = sink.start(processingTime="0 seconds")
        eventually("the first rows are written", lambda: sink.attempts)
        assert cluster.query_info(query).state == "running"
        # The query's home dies, and comes back while the stream waits for it.
        cluster.nodes["alpha"].kill()
        with monkeypatch.context() as patch:
            patch.delenv(TAG)  # it stays for the other tests
            cluster.start("alpha")
    finally:
        cluster.nodes["beta"].signal(signal.SIGCONT)
    eventually("all rows are written", lambda: sum(rows.num_rows for _, rows in sink.attempts) >= want.num_rows)
    assert_same_rows(sink.rows, want)
    eventually("the query has ended", lambda: cluster.query_info(query).state == "completed")
    assert [number for number, _ in sink.attempts] == list(range(len(sink.attempts)))
    assert len(sink.attempts) > 1
    assert stream.isActive, "an ended query has no more rows; that is no error"
    stream.stop()


def test_a_stream_that_is_stopped_or_killed_before_its_commit_reads_the_same_rows_again(
    spark: SparkSession, cluster: Daemons, tmp_path: Path
) -> None:
    query = completed(cluster, AGAIN)
    want = AGAIN.expected()
    limit = want.num_rows // 6
    sink = Sink(spark, address(cluster), query, tmp_path / "out", maxRowsPerTrigger=str(limit))

    sink.killed_after = 2
    assert "killed before the commit" in failure(sink.start(processingTime="0 seconds"))
    assert [number for number, _ in sink.attempts] == [0, 1, 2]

    # One batch, the interrupted one, and then a long wait: stopped in the middle for sure.
    stream = sink.start(processingTime="1 hour")
    eventually("a batch is committed", lambda: stream.lastProgress)
    stream.stop()
    assert [number for number, _ in sink.attempts] == [0, 1, 2, 2]

    sink.start(availableNow=True).awaitTermination(int(PATIENCE_S))
    assert_same_rows(sink.rows, want)
    first: dict[int, pa.Table] = {}
    for number, rows in sink.attempts:
        assert first.setdefault(number, rows).equals(rows), f"batch {number} is another when it is read again"
    left = want.num_rows - 6 * limit
    assert left, "the last batch is a smaller one"
    assert [rows.num_rows for rows in first.values()] == [limit] * 6 + [left]

    # What is committed is forgotten, when Spark says so: it does as it begins the next batch. A gap is never silent.
    with Client.at(address(cluster)) as client:
        extent = client.extent(query)
    assert (extent.first, extent.end) == (want.num_rows - left, want.num_rows)
    with pytest.raises(Exception, match=rf"rows 0 to {want.num_rows - left - 1} were taken and are not kept"):
        read(spark, cluster, query).count()
    assert read(spark, cluster, query, partial="true").count() == left
    followed = narrows("follow", "--config", cluster.config, query, "--format", "csv").ok()
    assert len(followed.out.splitlines()) == 1 + left, "a follower goes on where Spark left off"


def test_a_query_that_fails_fails_the_stream_with_its_reason_after_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = write_cluster(tmp_path, FAILING.streams)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        detached = ("query", "--config", config, "--at", "alpha", "--detach", FAILING.text)
        narrows(*detached, "--format", "csv").failed(2, "--detach", "--format")
        query = narrows(*detached, "--keep").ok().out.strip()
        eventually("some rows are there", lambda: daemons.query_info(query).rows > 0)
        daemons.nodes["beta"].kill()
        replace(daemons, arguments=(*daemons.arguments, "--fresh")).start("beta")
        eventually("the query has failed", lambda: daemons.query_info(query).state == "failed")
        info = daemons.query_info(query)
        sink = Sink(spark, address(daemons), query, tmp_path / "out")
        reason = failure(sink.start(processingTime="0 seconds"))
        assert f"query {query} failed: {info.reason}" in reason
        assert sink.rows.num_rows == info.rows, "what was delivered before is delivered"
        with pytest.raises(Exception, match=f"query {query} failed"):
            read(spark, daemons, query).count()
        assert read(spark, daemons, query, partial="true").count() == info.rows
