"""The Spark session of a site, with settings that suit many small jobs beside other daemons."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

#: Packages that Python workers on other machines are sent.
_PACKAGES = ("planner", "node", "spark_jobs")
_LOCAL = re.compile(r"local(?:\[(\d+|\*)\])?")


def build_session(master: str, options: dict[str, str], folder: Path) -> SparkSession:
    """A session; ``options`` win over our settings."""
    settings = {**_settings(folder), **options}
    builder = SparkSession.builder.master(_tolerant(master)).appName(settings.pop("spark.app.name", "narrows"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(os.environ.get("NARROWS_SPARK_LOG", "ERROR"))
    if not master.startswith("local"):
        spark.sparkContext.addPyFile(str(_zipped(folder)))
    return spark


def _tolerant(master: str) -> str:
    """In local mode Spark gives up at the first failure of a task unless told otherwise."""
    match = _LOCAL.fullmatch(master)
    return f"local[{match[1] or 1},4]" if match else master


def _settings(folder: Path) -> dict[str, str]:
    return {
        "spark.driver.memory": f"{_driver_megabytes()}m",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # What the driver remembers of the past must not grow: there is a job every tick, for ever.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "100",
        "spark.ui.retainedDeadExecutors": "5",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.sql.streaming.numRecentProgressUpdates": "5",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.worker.reuse": "true",
        # Between JVM and Python workers; by TCP an empty job takes twice as long.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.speculation": "false",
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def _driver_megabytes() -> int:
    """Heap of the driver: windows are not in it, so little does; a machine may run several sites."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (ValueError, OSError):
        machine = 4096
    return max(256, min(1024, machine // 16))


def _zipped(folder: Path) -> Path:
    """Our own code, for workers that do not have it."""
    root = Path(__file__).resolve().parent.parent
    path = folder / "narrows.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for source in sorted((root / package).rglob("*.py")):
                archive.write(source, source.relative_to(root))
    return path
