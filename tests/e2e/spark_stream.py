"""A Spark of the tests' own, and a job on it that reads a query as a stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.sink.data_source import NarrowsDataSource
from tests.e2e.harness import PATIENCE_S, eventually

SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    # As the daemons' own: a JVM that lives for a minute gains nothing from what takes long to compile.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
}


@contextmanager
def local_spark() -> Iterator[SparkSession]:
    """With the data source; its JVM is gone afterwards."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("sink")
    for name, value in SPARK.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(NarrowsDataSource)
    gateway = session.sparkContext._gateway
    assert gateway is not None
    try:
        yield session
    finally:
        session.stop()
        # The JVM would stay until Python ends. Whoever needs one next starts their own.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(PATIENCE_S)
        SparkContext._gateway = SparkContext._jvm = None
        patch.undo()


class Sink:
    """Micro-batches as files, one folder for each: writing a batch again replaces it, as an idempotent sink does."""

    def __init__(self, spark: SparkSession, address: str, query: str, folder: Path, **options: str) -> None:
        given = {"address": address, "query": query} | options
        self._rows = spark.readStream.format("narrows").options(**given).load()
        self._folder = folder
        #: Every attempt to write a batch: its id, and its rows.
        self.attempts: list[tuple[int, pa.Table]] = []
        #: Raise after this batch was written, before Spark commits it.
        self.killed_after: int | None = None

    def _write(self, batch: DataFrame, number: int) -> None:
        rows = batch.toArrow()
        self._folder.mkdir(exist_ok=True)
        pq.write_table(rows, self._folder / f"{number}.parquet")
        # Only now: who sees an attempt reads its file.
        self.attempts.append((number, rows))
        if self.killed_after == number:
            self.killed_after = None
            raise RuntimeError("killed before the commit")

    def start(self, **trigger: Any) -> StreamingQuery:
        writer = self._rows.writeStream.foreachBatch(self._write)
        checkpoint = str(self._folder.with_suffix(".checkpoint"))
        writer = writer.option("checkpointLocation", checkpoint).trigger(**trigger)
        for _ in range(5):
            stream = writer.start()
            eventually("the stream begins", lambda stream=stream: _begun(stream))  # type: ignore[misc]
            if "failed to connect back" not in str(stream.exception()):
                break
        return stream

    @property
    def rows(self) -> pa.Table:
        return pa.concat_tables(pq.read_table(file) for file in sorted(self._folder.glob("*.parquet")))


def _begun(stream: StreamingQuery) -> bool:
    """It has asked its source something, or failed. Spark gives a source's process 10 s to start, busy or not."""
    return not stream.isActive or stream.status["message"] != "Initializing sources"
