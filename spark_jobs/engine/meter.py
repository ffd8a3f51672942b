"""A site's Spark that remembers how long its jobs took and how often it had to be started, for the status."""

from __future__ import annotations

import logging
import statistics
import time
from collections import deque
from pathlib import Path

from node.io.reports.engine_report import EngineReport
from spark_jobs.engine.spark_engine import SparkEngine
from spark_jobs.process import SparkProcess, SparkSettings

log = logging.getLogger(__name__)

#: The median is of so many jobs: some minutes of them, so that it says how things are and not how they were.
_JOBS_REMEMBERED = 500


class MeasuredSpark(SparkProcess):
    """A ``SparkProcess``; figures may be asked for from another thread."""

    def __init__(self, settings: SparkSettings, folder: Path) -> None:
        super().__init__(settings, folder)
        self._job_s: deque[float] = deque(maxlen=_JOBS_REMEMBERED)
        self._starts = 0
        #: When it was begun to start it again; None when that is over.
        self._restarting_since_s: float | None = None

    def start(self) -> None:
        """Start it and wait until it can work. Raises NarrowsError that says what is missing."""
        self._starts += 1
        super().start()

    def restart(self) -> None:
        """Start Spark again after it died. Raises SparkError when that does not help."""
        began_s = self._restarting_since_s = self._restarting_since_s or time.monotonic()
        try:
            super().restart()
        finally:
            if self._restarting_since_s == began_s:
                self._restarting_since_s = None

    def serve_jobs(self, address: object, secret: bytes, partitions: int) -> None:
        """What the tasks of every job are told. A first job without work starts Spark's Python workers."""
        super().serve_jobs(address, secret, partitions)
        began = time.monotonic()
        super().run_job()
        log.info("site %s: Spark has its workers after %.1f s", self.settings.site, time.monotonic() - began)

    def run_job(self) -> None:
        """One job whose tasks take what the exchange offers."""
        began = time.monotonic()
        super().run_job()
        self._job_s.append(time.monotonic() - began)

    def report(self, engine: object) -> EngineReport:
        """How it does; ``engine`` is the site's, which may be another one: Spark can be there for streams alone."""
        times_ms = [1e3 * seconds for seconds in self._job_s.copy()]
        since_s = self._restarting_since_s
        joins = engine if isinstance(engine, SparkEngine) else None
        return EngineReport(
            name="spark" if joins else "native",
            master=self.settings.master,
            version=self.version,
            jobs=joins.jobs if joins else 0,
            job_ms_median=statistics.median(times_ms) if times_ms else None,
            job_ms_last=times_ms[-1] if times_ms else None,
            rebuilt=joins.catch_ups["rebuilt"] if joins else 0,
            restarts=max(0, self._starts - 1),
            restarting_seconds=0.0 if since_s is None else time.monotonic() - since_s,
        )
