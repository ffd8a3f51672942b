"""cluster.toml, checked completely before anything starts.

A daemon that finds a wrong setting after an hour of replay has wasted the hour, and an operator who
is told one mistake at a time fixes a file with five mistakes in five rounds. So the whole file is
checked first and every problem is reported, each on one line that names the file, the dotted key,
what was required and what came.

Whether the streams' files exist is not asked here: every site reads the same cluster.toml, but only
has its own files. ``node.io.sources.recordings.check_sources`` asks that, for the sites that run on a machine.

``values`` is what comes out, ``load`` reads the file, and each table of it has a module: ``sites``,
``streams``, ``spark_sources``, ``links``; [wan] is read by ``netsim.wan_table``. ``keys`` lists every key, for
them and for the reference.
"""

from node.config.load import load_cluster
from node.config.problems import ConfigError, Problem, shown
from node.config.spark_sources import BATCH_LIMITS
from node.config.units import parse_bandwidth, parse_duration_ms
from node.config.values import (
    NATIVE,
    SPARK,
    ClusterConfig,
    PlannerConfig,
    SiteConfig,
    SourceFormat,
    SparkConfig,
    SparkSource,
    StreamConfig,
    Watermark,
)

__all__ = [
    "BATCH_LIMITS",
    "NATIVE",
    "SPARK",
    "ClusterConfig",
    "ConfigError",
    "PlannerConfig",
    "Problem",
    "SiteConfig",
    "SourceFormat",
    "SparkConfig",
    "SparkSource",
    "StreamConfig",
    "Watermark",
    "load_cluster",
    "parse_bandwidth",
    "parse_duration_ms",
    "shown",
]
