"""The daemon of a site, with what it must be told: where the others are, and how its Spark is made."""

from __future__ import annotations

from pathlib import Path

from cli.cluster_file import wan_of
from node.config import ClusterConfig, SiteConfig
from node.daemon import ServeOptions, Surroundings, serve
from node.io.spark_site import SparkSite


def serve_site(config: ClusterConfig, site: str, options: ServeOptions) -> None:
    """Run the daemon of ``site`` until it is told to stop; raises NarrowsError if it cannot start."""
    serve(config, site, options, Surroundings(_peers(config, site), _spark))


def _peers(config: ClusterConfig, site: str) -> dict[str, str]:
    """Where the other sites are; behind the proxies of the emulated network, if there is one."""
    addresses = {other.name: other.address for other in config.sites}
    if wan_of(config) is not None:
        # A daemon without an emulated network has none of what drives it in memory.
        from netsim.network import dialled, found  # noqa: PLC0415

        return dialled(found(config.path), site, addresses)
    return {name: address for name, address in addresses.items() if name != site}


def _spark(here: SiteConfig, folder: Path) -> SparkSite:
    # A daemon that runs joins itself has none of Spark in memory.
    from spark_jobs.site_spark import SiteSpark  # noqa: PLC0415

    return SiteSpark(here, folder)
