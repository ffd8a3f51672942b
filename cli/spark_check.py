"""Whether this machine can run the Spark of some sites, before anything is started."""

from __future__ import annotations

from collections.abc import Sequence

from node.config import SiteConfig
from spark_jobs.java import check_java


def check_spark(sites: Sequence[SiteConfig]) -> None:
    """Whether the sites can have their Spark on this machine. Raises NoJavaError that says what is missing."""
    for site in [site for site in sites if site.needs_spark][:1]:  # what one lacks, all lack
        check_java(site.name, [stream.name for stream in site.streams if stream.spark is not None])
