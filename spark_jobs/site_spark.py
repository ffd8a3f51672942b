"""The Spark of a site: what its daemon asks of it, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from node.config import SiteConfig, StreamConfig
from node.core.streams.position import Position
from spark_jobs.engine.meter import MeasuredSpark
from spark_jobs.engine.spark_engine import SparkEngine
from spark_jobs.process import SparkSettings
from spark_jobs.source.spark_stream import SparkStream, open_streams


class SiteSpark(MeasuredSpark):
    """A ``node.io.spark_site.SparkSite``."""

    def __init__(self, here: SiteConfig, folder: Path) -> None:
        spark = here.spark
        super().__init__(SparkSettings(here.name, spark.master, spark.options, spark.job_timeout_ms / 1000), folder)
        self._config = spark

    def open_streams(
        self, streams: Sequence[StreamConfig], tau_ms: int, places: Mapping[str, Position] | None
    ) -> dict[str, SparkStream]:
        """The streams that it reads, by name. Raises ConfigError with all that is wrong with them."""
        return open_streams(streams, tau_ms, self, places)

    def open_engine(self) -> SparkEngine:
        """The engine that runs joins on it."""
        host = None if self.settings.is_local else dict(self._config.options).get("spark.driver.host", "127.0.0.1")
        return SparkEngine(self, self._folder, host, self._config.partitions or self.parallelism)
