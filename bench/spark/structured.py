"""The ticks of ``bench.spark`` as a stream-stream join of Structured Streaming itself: time per micro-batch.

The first files hold the window, each of the following a batch; a trigger takes one file of each stream. Rows come
to the driver as Arrow, as an engine's answer does, and are counted. State is in the JVM's heap, which the notes
found to be the faster of the two state stores.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.spark.streaming_join import start_session
from bench.spark.ticks import KEY, answers_of, carry_of, probe_of, rows_of
from node.core.engine import HIGH, LOW, POSITION, TS, Append, Expire, Op, OpenIndex, OpenTable
from node.engine.native import NativeEngine


def write_streams(folder: Path, window: int, batch: int, ticks: int) -> list[int]:
    """Write both streams; the rows that each trigger must give, by the native engine."""
    random = np.random.default_rng(window)
    engine = NativeEngine()
    answers_of(engine.run([OpenTable("w", rows_of(random, 0, 1, 1).schema), OpenIndex("w", (KEY,))]))
    expected, now = [], 0
    for name in ("window", "carry"):
        (folder / name).mkdir(parents=True)
    for number in range(ticks + 1):
        count = batch if number else window
        rows = rows_of(random, now, count, window)
        now += count
        carry = carry_of(random, now, batch if number else 1, window, window)
        asking = carry.drop_columns([LOW, HIGH])
        _write(folder / "window" / f"{number:06}.parquet", rows, {POSITION: "ts"})
        _write(folder / "carry" / f"{number:06}.parquet", asking, {TS: "ts", "c.key": "key", "c.id": "id"})
        ops: list[Op] = [Append("w", rows), Expire("w", now - window), probe_of("w", carry)]
        (answer,) = answers_of(engine.run(ops))
        expected.append(answer.num_rows)
    return expected


def _write(path: Path, rows: pa.RecordBatch, names: dict[str, str]) -> None:
    table = pa.Table.from_batches([rows])
    pq.write_table(table.rename_columns([names.get(name, name.replace(".", "_")) for name in table.column_names]), path)


def run(folder: Path, window: int, batch: int, ticks: int) -> dict[str, Any]:
    """Milliseconds of each micro-batch after the one that fills the window; rows found and expected."""
    expected = write_streams(folder, window, batch, ticks)
    session = start_session("memory")
    found: list[int] = []
    try:
        joined = _joined(session, folder, window)

        def count(rows: DataFrame, _: int) -> None:
            found.append(rows.toArrow().num_rows)

        writer = joined.writeStream.foreachBatch(count).outputMode("append")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
        progress = [json.loads(each.json) for each in query.recentProgress]
    finally:
        session.stop()
    took = [each["durationMs"]["triggerExecution"] for each in progress if each["numInputRows"]]
    return {"window": window, "batch": batch, "ms": took[1:], "rows": sum(found), "expected": sum(expected)}


def _joined(session: SparkSession, folder: Path, window: int) -> DataFrame:
    left, right = (_stream(session, folder / name) for name in ("window", "carry"))
    near = f.expr(f"w.at >= c.at - interval {window} milliseconds AND w.at < c.at")
    return left.alias("w").join(right.alias("c"), (f.col("w.key") == f.col("c.key")) & near).select("c.*", "w.text")


def _stream(session: SparkSession, folder: Path) -> DataFrame:
    schema = session.read.parquet(str(folder)).schema
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withColumn("at", f.timestamp_millis("ts")).withWatermark("at", "0 seconds")


def main() -> None:
    """Run from the command line; prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("window", type=int)
    parser.add_argument("batch", type=int)
    parser.add_argument("--ticks", type=int, default=12)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(Path(folder), given.window, given.batch, given.ticks)))


if __name__ == "__main__":
    main()
