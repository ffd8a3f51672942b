"""The join of ``bench.generate`` by Spark Structured Streaming, for comparison.

A stream-stream inner join on ``id`` with ``|l.ts - r.ts| <= 10 s``, which is
our result (docs/sql.md) for windows of 10 s on both sides. The watermark delay is zero: files are
cut at the same instants in both streams and read in order, so no row is late
(``rows_dropped_late`` reports it). Rows go to Parquet, as a sink that keeps them would.

``seconds`` is wall time and grows with whatever else the machine does; ``cpu_seconds``,
what the JVM used in that time (compiling included), says how far to trust it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

STATE_STORES = {
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


def start_session(state_store: str) -> SparkSession:
    """A local session with two threads, two shuffle partitions and no web page."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORES[state_store],
        # The final batch without data only evicts state; it can produce no row of an inner join.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("spark_join")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def read_stream(session: SparkSession, folder: Path, files_per_trigger: int) -> DataFrame:
    """One stream with its event time as ``at``."""
    schema = session.read.parquet(str(folder)).schema
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", files_per_trigger)
    return reader.parquet(str(folder)).withColumn("at", f.timestamp_millis("ts")).withWatermark("at", "0 seconds")


def join_streams(left: DataFrame, right: DataFrame) -> DataFrame:
    """The rows of ``bench.generate.QUERY``."""
    near = f.expr("l.at >= r.at - interval 10 seconds AND l.at <= r.at + interval 10 seconds")
    joined = left.alias("l").join(right.alias("r"), (f.col("l.id") == f.col("r.id")) & near)
    return joined.select(
        "l.id",
        f.col("l.ts").alias("l_ts"),
        f.col("r.ts").alias("r_ts"),
        "l.account",
        "l.note",
        "r.amount_cents",
        "r.score",
    )


def run(folder: Path, files_per_trigger: int, state_store: str) -> dict[str, Any]:
    """Join the pair in ``folder`` once and report what it took."""
    process_start = time.monotonic()
    session = start_session(state_store)
    sides = [read_stream(session, folder / name, files_per_trigger) for name in ("left", "right")]
    with tempfile.TemporaryDirectory() as scratch:
        sink = Path(scratch) / "rows"
        writer = join_streams(*sides).writeStream.format("parquet").outputMode("append")
        writer = writer.option("checkpointLocation", str(Path(scratch) / "checkpoint")).option("path", str(sink))
        start, cpu_start = time.monotonic(), jvm_cpu_seconds(session)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        end, cpu_end = time.monotonic(), jvm_cpu_seconds(session)
        rows_out = ds.dataset(sink, format="parquet").count_rows()
        report = progress_report(query)
    session.stop()
    seconds = end - start
    return {
        "rows_out": rows_out,
        **report,
        "seconds": round(seconds, 3),
        "seconds_with_jvm_start": round(end - process_start, 3),
        "cpu_seconds": round(cpu_end - cpu_start, 3),
        "cpu_seconds_with_jvm_start": round(cpu_end + time.process_time(), 3),
        "tuples_per_s": round(report["rows_in"] / seconds),
        "files_per_trigger": files_per_trigger,
        "state_store": state_store,
    }


def jvm_cpu_seconds(session: SparkSession) -> float:
    """Processor time the session's JVM has used since it started, from Linux's process table."""
    gateway: Any = session.sparkContext._gateway
    after_name = Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def progress_report(query: StreamingQuery) -> dict[str, Any]:
    """What the micro-batches of a finished query say they read and dropped."""
    batches = [json.loads(progress.json) for progress in query.recentProgress]
    operators = [operator for batch in batches for operator in batch["stateOperators"]]
    return {
        "rows_in": sum(batch["numInputRows"] for batch in batches),
        "rows_dropped_late": sum(operator["numRowsDroppedByWatermark"] for operator in operators),
        "batches": len(batches),
        "batch_seconds": [batch["durationMs"]["triggerExecution"] / 1_000 for batch in batches],
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="written by bench.generate")
    parser.add_argument("--files-per-trigger", type=int, default=10)
    parser.add_argument("--state-store", choices=sorted(STATE_STORES), default="memory")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    report = run(given.folder, given.files_per_trigger, given.state_store)
    if given.json:
        print(json.dumps(report))
    else:
        print("\n".join(f"{name:24} {value}" for name, value in report.items()))


if __name__ == "__main__":
    main()
