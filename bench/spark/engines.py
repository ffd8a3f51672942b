"""The engines that ``bench.spark`` measures: Spark in one JVM, Spark on a standalone cluster, and the native one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.spark.standalone import Standalone, command_of, descendants
from bench.spark.ticks import System
from node.engine.native import NativeEngine
from spark_jobs.engine.spark_engine import SparkEngine
from spark_jobs.process import SparkProcess, SparkSettings

LOCAL, STANDALONE, NATIVE = "Spark local[2]", "Spark standalone", "native"
PARTITIONS = 2
_HOST = "127.0.0.1"
_AFTER_GC = re.compile(r"Pause Full .* \d+M->(\d+)M\(")


@dataclass(frozen=True)
class Memory:
    """Megabytes: of the JVM and of Spark's Python workers, as the machine sees them."""

    jvm: float
    workers: float


@contextmanager
def local_spark(folder: Path, options: tuple[tuple[str, str], ...] = ()) -> Iterator[tuple[System, SparkProcess]]:
    """Spark in a JVM of its own, as a site has it by default."""
    with _spark(LOCAL, SparkSettings("bench", "local[2]", options), folder, None) as made:
        yield made


@contextmanager
def standalone_spark(folder: Path) -> Iterator[tuple[System, SparkProcess]]:
    """Spark on a master and two workers of one core each, all on this machine."""
    with Standalone(folder / "cluster") as cluster:
        settings = SparkSettings("bench", cluster.master, cluster.options)
        with _spark(STANDALONE, settings, folder, _HOST) as made:
            yield made


def native() -> System:
    """The engine in this process."""
    return System(NATIVE, NativeEngine())


@contextmanager
def _spark(name: str, settings: SparkSettings, folder: Path, host: str | None) -> Iterator[tuple[System, SparkProcess]]:
    folder.mkdir(parents=True, exist_ok=True)
    process = SparkProcess(settings, folder)
    try:
        process.start()
        engine = SparkEngine(process, folder, host, PARTITIONS)
        try:
            # Nothing is offered between ticks: the tasks of such a job ask for work, get none and end.
            yield System(name, engine, process.run_job), process
        finally:
            engine.close()
    finally:
        process.stop()


def memory(process: SparkProcess) -> Memory:
    """What Spark takes now."""
    commands = {pid: command_of(pid) for pid in descendants([process.pid])}
    jvm = [pid for pid, command in commands.items() if "org.apache.spark" in command]
    workers = [pid for pid, command in commands.items() if "pyspark" in command and pid not in jvm]
    return Memory(sum(map(_resident_mb, jvm)), sum(map(_resident_mb, workers)))


def _resident_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else 0.0


def gc_options(log: Path) -> tuple[tuple[str, str], ...]:
    """Settings with which the JVM collects all garbage now and then and writes what was left of its heap."""
    flags = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:gc:file={log}"
    return (("spark.driver.extraJavaOptions", flags), ("spark.cleaner.periodicGC.interval", "5s"))


def heaps_mb(log: Path) -> list[int]:
    """Used heap after each full collection so far."""
    return [int(match[1]) for match in _AFTER_GC.finditer(log.read_text(errors="replace"))]
