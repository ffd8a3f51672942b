"""[link.A.B]: what is declared of links, each direction on its own."""

from __future__ import annotations

from node.config import keys
from node.config.problems import one_of, shown
from node.config.table import Table
from node.config.units import latency_ms, parse_bandwidth
from node.config.ways import ways
from planner.model.declarations import DeclaredLink


def read_links(table: Table, sites: list[str]) -> tuple[DeclaredLink, ...]:
    """Both directions of every declared link: what is said of one holds for the other, unless that says more."""
    found: dict[tuple[str, str], DeclaredLink] = {}
    for source in table.names():
        if source not in sites:
            table.note(source, f"a site: {one_of(sites, source)}", shown(source))
    for source, target, link in ways(table, table.names(), sites):
        found[source, target] = _link(source, target, link)
    both = list(found)
    both += [way[::-1] for way in both if way[::-1] not in found]
    return tuple(_either(found.get(way), found.get(way[::-1]), *way) for way in both)


def _link(source: str, target: str, table: Table) -> DeclaredLink:
    table.only(*keys.LINK)
    bandwidth = table.text("bandwidth", 'a bandwidth such as "10 Mbit/s"', parse_bandwidth, 0.0)
    latency = table.text("latency", 'a duration such as "40ms"', latency_ms, -1)
    price = table.number("price_per_gb", "a price from 0 on", zero=True)
    return DeclaredLink(source, target, bandwidth or None, None if latency < 0 else latency * 1000, price)


def _either(own: DeclaredLink | None, other: DeclaredLink | None, source: str, target: str) -> DeclaredLink:
    said = [link for link in (own, other) if link is not None]
    return DeclaredLink(
        source,
        target,
        next((link.bytes_per_s for link in said if link.bytes_per_s is not None), None),
        next((link.latency_us for link in said if link.latency_us is not None), None),
        next((link.price_per_gb for link in said if link.price_per_gb is not None), None),
    )
