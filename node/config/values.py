"""What a cluster.toml says, as values: nothing here reads or checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from node.config.problems import ConfigError, Problem, one_of, shown
from planner.model.declarations import DeclaredLink, DeclaredStream
from planner.model.time_unit import TimeUnit

SPARK, NATIVE = "spark", "native"
JOB_TIMEOUT_MS = 600_000
#: One hour.
MAX_AHEAD_MS = 3_600_000
RESULTS_QUOTA_BYTES = 4 << 30
LOG_QUOTA_BYTES = 16 << 30
PAYBACK_WINDOWS = 10.0
STORAGE_BYTES = 256_000_000
_EPOCH_MS, _EPOCH_TICKS_MIN = 10_000, 10


class SourceFormat(StrEnum):
    """How the rows of a stream's file are written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


class Watermark(StrEnum):
    """What moves the event time of a stream on that Spark reads."""

    #: The newest tuple that came, less the lateness; while nothing comes, nothing moves.
    DATA = "data"
    #: Also the clock: what was there when a micro-batch began is in it, so nothing older than that, less the
    #: lateness, comes later; provided that a tuple is in the source at most the lateness after its event time.
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class SparkSource:
    """A source of Structured Streaming, and what Spark makes of its rows at the site."""

    format: str
    options: tuple[tuple[str, str], ...]
    #: Where its checkpoint, the micro-batches that wait and the position in them are kept.
    folder: Path
    #: As DDL; None: the source knows it.
    schema: str | None = None
    where: str | None = None
    select: tuple[str, ...] = ()
    #: A micro-batch begins so long after the last one began; None: every tau.
    trigger_ms: int | None = None
    #: Take what there is, then end; there is no other trigger then.
    available_now: bool = False
    watermark: Watermark = Watermark.DATA


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """One stream of a site; ``unit`` is None unless the file sets it."""

    key: str
    name: str
    site: str
    #: Its file. Of a stream that Spark reads: cluster.toml, the file that says from where.
    path: Path
    format: SourceFormat
    ts: str
    unit: TimeUnit | None
    lateness_ms: int
    #: How much event time of its past a new query may begin with.
    retain_ms: int = 0
    #: Its log keeps all of it, where it is on disk: a recording of which nothing else is said.
    keep_whole: bool = False
    #: How far ahead of the clock, or in a recording of the row before, a tuple may be.
    max_ahead_ms: int = MAX_AHEAD_MS
    #: What is declared of it, for planning.
    stats: DeclaredStream = field(default_factory=DeclaredStream)
    #: None: it is a file that is replayed.
    spark: SparkSource | None = None
    #: How many of its units an integer event time counts: of seconds, in milliseconds, 1000.
    ts_scale: int = 1


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """How a site's Spark is started: its master, and any option of Spark, as text."""

    master: str = "local[2]"
    #: Parts into which windows are cut by key; None: as many as Spark has cores.
    partitions: int | None = None
    #: After this a job is taken for one that hangs.
    job_timeout_ms: int = JOB_TIMEOUT_MS
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SiteConfig:
    """One site; ``address`` is what the others dial, ``listen`` what its daemon binds."""

    name: str
    listen: str
    address: str
    streams: tuple[StreamConfig, ...]
    engine: str = SPARK
    spark: SparkConfig = field(default_factory=SparkConfig)

    @property
    def needs_spark(self) -> bool:
        """For its joins, or to read a stream."""
        return self.engine == SPARK or any(stream.spark is not None for stream in self.streams)


@dataclass(frozen=True, slots=True)
class PlannerConfig:
    """What plans may keep; whether queries that run are planned again, and when."""

    adaptive: bool = True
    #: In ticks; None: as many as ten seconds have, but at least ten.
    epoch_ticks: int | None = None
    #: Within so many windows a switch must pay for what it sends first.
    payback_windows: float = PAYBACK_WINDOWS
    #: Bytes of kept joins that a site may have; 0: none is kept.
    storage_bytes: int = STORAGE_BYTES

    def epoch(self, tau_ms: int) -> int:
        """Ticks from one look at a query to the next."""
        return self.epoch_ticks or max(_EPOCH_TICKS_MIN, _EPOCH_MS // tau_ms)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster.toml that passed every check; paths in it are absolute, except its own."""

    path: Path
    name: str
    tau_ms: int
    late_dir: Path
    state_dir: Path
    sites: tuple[SiteConfig, ...]
    #: Bytes of result rows that wait for readers, at each site.
    results_quota_bytes: int = RESULTS_QUOTA_BYTES
    #: Bytes that the logs of a site's streams may hold.
    log_quota_bytes: int = LOG_QUOTA_BYTES
    #: What is declared of links, each direction on its own.
    links: tuple[DeclaredLink, ...] = ()
    planner: PlannerConfig = field(default_factory=PlannerConfig)
    #: What other packages read of the file, by the name of their table.
    others: Mapping[str, object] = field(default_factory=dict)

    def site(self, name: str) -> SiteConfig:
        """The site called ``name``; a ConfigError that lists the known ones when there is none."""
        for site in self.sites:
            if site.name == name:
                return site
        required = one_of([site.name for site in self.sites], name)
        raise ConfigError(Problem(str(self.path), "site", required, shown(name)))
