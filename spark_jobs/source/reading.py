"""In the child process: streams that Spark reads, each a streaming query whose micro-batches become files.

A micro-batch is one task, which sorts by event time (on disk, if it is large) and writes one Parquet file. Sorted,
because the order within a micro-batch means nothing, and no tuple may be late because of another one that came with
it. One task, because the other cores are for joins.
"""

from __future__ import annotations

import datetime
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.source.state import FolderLock, StateFolder

#: No micro-batch is begun while so many wait, or so many bytes do.
WAITING_BATCHES_MAX = 16
WAITING_BYTES_MAX = 64 << 20
_LOOK_EVERY_S = 0.02
#: The Spark of a daemon that was killed ends soon after it.
_FORMER_S = 60.0
_REASON_CHARS = 600

Reply = dict[str, Any]


class _WrongError(Exception):
    """What is wrong, and which key of the stream it is about."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key
        self.reason = reason


@dataclass(frozen=True)
class Definition:
    """A source as the daemon tells it."""

    stream: str
    format: str
    options: dict[str, str]
    schema: str | None
    where: str | None
    select: list[str]
    ts: str
    #: None: take what there is, then end.
    trigger_ms: int | None
    folder: str
    #: Whether executors can write to the folder; if not, rows go through this process.
    local: bool


class Sources:
    """The requests of the daemon that are about sources."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark
        self._queries: dict[str, StreamingQuery] = {}
        self._locks: dict[str, FolderLock] = {}
        self._changing = threading.Lock()

    def check(self, **definition: Any) -> Reply:
        """The columns that a source will give, or which key is wrong and why. Nothing is started."""
        try:
            frame = _frame(self._spark(), Definition(**definition))
            with _about("select"):
                schema = to_arrow_schema(frame.schema, timezone="UTC")
        except _WrongError as error:
            return {"wrong": error.key, "why": error.reason}
        return {"schema": schema.serialize().to_pybytes().hex()}

    def start(self, **arguments: Any) -> Reply:
        """Start its query, unless it runs."""
        definition = Definition(**arguments)
        name, folder = definition.stream, StateFolder(Path(definition.folder))
        with self._changing:
            query = self._queries.get(name)
            if query is not None and query.isActive:
                return {}
            if name not in self._locks:
                lock = FolderLock(folder.path / "child.lock")
                if not lock.take(_FORMER_S):
                    raise RuntimeError(f"stream {name}: another Spark still writes to {folder.path}")
                self._locks[name] = lock
            self._queries[name] = self._started(definition, folder)
        return {}

    def _started(self, definition: Definition, folder: StateFolder) -> StreamingQuery:
        spark = self._spark()
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        # Also of a trigger that finds nothing it must be known when it was.
        spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "0")
        frame = _frame(spark, definition)
        writer = frame.writeStream.foreachBatch(BatchWriter(definition, folder))
        writer = writer.queryName(definition.stream).option("checkpointLocation", folder.checkpoint.as_uri())
        if definition.trigger_ms is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{definition.trigger_ms} milliseconds").start()

    def state(self, stream: str) -> Reply:
        """How a query does."""
        query = self._queries.get(stream)
        if query is None:
            return {"active": True, "failure": None, "mark": None}  # it will be started, or was just now
        active = query.isActive
        failure = None if active else query.exception()
        progress = query.lastProgress
        return {
            "active": active,
            "failure": None if failure is None else reason_of(failure),
            "mark": None if progress is None else _mark(progress),
        }


def _mark(progress: Any) -> list[int] | None:
    """[n, t]: whatever was in the source at t (milliseconds) is in micro-batches up to n.

    Not of a micro-batch that was planned before Spark was started again: it may know less than its time says.
    """
    durations = progress["durationMs"]
    if "latestOffset" not in durations:
        return None
    began = datetime.datetime.fromisoformat(progress["timestamp"])
    through = progress["batchId"] if "addBatch" in durations else progress["batchId"] - 1
    return [through, int(began.timestamp() * 1000)]


class BatchWriter:
    """Makes a micro-batch a file, once."""

    def __init__(self, definition: Definition, folder: StateFolder) -> None:
        self._definition = definition
        self._folder = folder
        self._scratch = folder.path / "writing"

    def __call__(self, rows: DataFrame, number: int) -> None:
        """What Spark calls for every micro-batch."""
        folder = self._folder
        if number < folder.handed.part or folder.batch(number).exists():
            return  # Spark died after this was written, before it had noted so
        self._wait_for_room()
        shutil.rmtree(self._scratch, ignore_errors=True)
        in_order = rows.coalesce(1).sortWithinPartitions(col(_quoted(self._definition.ts)))
        written = self._by_executor(in_order) if self._definition.local else self._by_driver(in_order)
        written.replace(folder.batch(number))
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _by_executor(self, rows: DataFrame) -> Path:
        rows.write.option("maxRecordsPerFile", 0).parquet(self._scratch.as_uri())
        parts = [path for path in self._scratch.iterdir() if path.suffix == ".parquet"]
        if len(parts) != 1:
            raise RuntimeError(f"{self._scratch}: required one file that Spark wrote; got {len(parts)}")
        return parts[0]

    def _by_driver(self, rows: DataFrame) -> Path:
        """The executors are elsewhere. The micro-batch must fit into memory here."""
        self._scratch.mkdir()
        path = self._scratch / "rows.parquet"
        pq.write_table(rows.toArrow(), path, row_group_size=1 << 16, coerce_timestamps="us")
        return path

    def _wait_for_room(self) -> None:
        while True:
            taken = self._folder.taken.part
            sizes = [_size(self._folder.batch(number)) for number in self._folder.waiting() if number >= taken]
            if len(sizes) < WAITING_BATCHES_MAX and sum(sizes) < WAITING_BYTES_MAX:
                return
            time.sleep(_LOOK_EVERY_S)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _frame(spark: SparkSession, definition: Definition) -> DataFrame:
    """The rows of a stream, as a streaming DataFrame. Raises _WrongError."""
    reader = spark.readStream.format(definition.format)
    if definition.schema is not None:
        with _about("spark.schema"):
            reader = reader.schema(definition.schema)
    with _about("spark"):
        frame = reader.options(**definition.options).load()
    if definition.where is not None:
        with _about("where"):
            frame = frame.where(definition.where)
    if definition.select:
        with _about("select"):
            frame = frame.selectExpr(*definition.select)
    return frame


@contextmanager
def _about(key: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the daemon says it to whoever wrote the configuration
        raise _WrongError(key, reason_of(error)) from error


def reason_of(error: Exception) -> str:
    """What Spark says is wrong, on one line, without stacks and plans."""
    lines: list[str] = []
    for line in str(error).splitlines():
        if line.startswith(("\tat ", "JVM stacktrace", "'")):
            break
        if line.strip():
            lines.append(line.strip())
    text = " ".join(lines) or type(error).__name__
    return text if len(text) <= _REASON_CHARS else f"{text[:_REASON_CHARS]}..."
