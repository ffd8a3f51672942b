"""Daemons of a cluster, by site or by query."""

from __future__ import annotations

from node.client import Client
from node.config import ClusterConfig
from node.core.queries.query_id import home_of
from planner.model.errors import QueryError


def client_of(config: ClusterConfig, site: str) -> Client:
    """Of a site's daemon. Raises ConfigError if there is no such site."""
    return Client(site, config.site(site).address)


def home_site(config: ClusterConfig, query_id: str) -> str:
    """The query's home, with which its id starts: frankfurt-1mhqyjj-1. Raises QueryError if it does not."""
    site = home_of(query_id)
    if site not in [known.name for known in config.sites]:
        raise QueryError(f"a query id requires the form SITE-LIFE-NUMBER, as narrows queries shows; got {query_id!r}")
    return site


def home_client(config: ClusterConfig, query_id: str) -> Client:
    """Of the query's home. Raises QueryError if its id names none."""
    return client_of(config, home_site(config, query_id))
