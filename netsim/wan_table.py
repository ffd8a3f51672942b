"""[wan] and [wan.A.B]: the network that is emulated between the sites of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from netsim.profiles import BYTES_PER_S_MAX, BYTES_PER_S_MIN, LATENCY_MS_MAX, PROFILES, REGIONS, Change, Wan
from node.config.keys import Key
from node.config.problems import RefusedError, one_of, shown
from node.config.table import Table
from node.config.texts import choice
from node.config.units import duration_between, parse_bandwidth
from node.config.ways import ways

_REGIONS, _UNLIMITED = "regions", "unlimited"

KEYS: Mapping[str, Key] = {
    "profile": Key("name", '"none"', "A named network: narrows wan --help lists them."),
    "latency": Key('duration, "0ms" to "4s"', "the profile's", "One way, of every link."),
    "jitter": Key("duration", "the profile's", "Delays are latency plus or minus up to this; at most the latency."),
    "bandwidth": Key(
        '"8 kbit/s" to "100 Gbit/s", or "unlimited"',
        "the profile's",
        "Of every link, each way; rounded to whole kilobytes per second, as Toxiproxy takes them.",
    ),
    "regions": Key("table", "the sites' names", 'Where sites are, with profile = "regions": its keys are below.'),
}
REGION_KEYS: Mapping[str, Key] = {
    "X": Key(", ".join(REGIONS), "the site's name", "The cloud region that site X stands for."),
}
LINK_KEYS: Mapping[str, Key] = {name: KEYS[name] for name in ("latency", "jitter", "bandwidth")}

#: The tables in the order in which one writes them: heading, what it is, keys.
TABLES: tuple[tuple[str, str, Mapping[str, Key]], ...] = (
    ("[wan]", "A network emulated between the daemons of one machine.", KEYS),
    (
        "[wan.A.B]",
        "Of both ways, or of the way from A to B alone if there is [wan.B.A] too. It wins over [wan].",
        LINK_KEYS,
    ),
    ("[wan.regions]", 'With profile = "regions": the regions of sites that have other names.', REGION_KEYS),
)

#: One way, or more or less of it. With more, links would be given up before they are up.
parse_wan_latency = duration_between(0, LATENCY_MS_MAX, 'from "0ms" to "4s"')


def parse_wan_bandwidth(text: str) -> float:
    """Bytes in a second, infinitely many of "unlimited"; ValueError otherwise, also beyond what can be emulated."""
    if text == _UNLIMITED:
        return inf
    rate = parse_bandwidth(text)
    if not BYTES_PER_S_MIN <= rate <= BYTES_PER_S_MAX:
        raise RefusedError(f'a bandwidth from "8 kbit/s" to "100 Gbit/s", or "{_UNLIMITED}"', shown(text))
    return rate


def read_wan(table: Table, sites: list[str]) -> Wan:
    """A profile, what holds for every link, and [wan.A.B] for the way from A to B, or both ways without [wan.B.A]."""
    own = tuple(KEYS)
    for name in table.names():
        if name not in own and name not in sites:
            table.note(name, f"{one_of(own, name)}, or a site: {one_of(sites, name)}", shown(name))
    said: dict[tuple[str, str], Change] = {}
    for source, target, way in ways(table, [name for name in table.names() if name in sites], sites):
        way.only(*LINK_KEYS)
        said[source, target] = _change(way)
    both = {way[::-1]: change for way, change in said.items()} | said
    profile = table.text("profile", one_of(PROFILES, ""), choice({name: name for name in PROFILES}), "none")
    return Wan(profile, _change(table), both, _regions(table, profile, sites))


def _regions(table: Table, profile: str, sites: list[str]) -> dict[str, str]:
    """Where sites are; they are where their names say, if they are not here."""
    if table.has(_REGIONS) and profile != _REGIONS:
        table.note(_REGIONS, f'profile = "{_REGIONS}" beside it', shown(profile))
    regions = table.table(_REGIONS)
    for name in regions.names():
        if name not in sites:
            regions.note(name, f"a site: {one_of(sites, name)}", shown(name))
    known = choice({region: region for region in REGIONS})
    return {name: regions.text(name, one_of(REGIONS, ""), known, "") for name in regions.names()}


def _change(table: Table) -> Change:
    latency = table.text("latency", 'a duration such as "40ms"', parse_wan_latency, -1)
    jitter = table.text("jitter", 'a duration such as "2ms"', parse_wan_latency, -1)
    rate = table.text("bandwidth", f'a bandwidth such as "256 kbit/s", or "{_UNLIMITED}"', parse_wan_bandwidth, 0.0)
    if jitter > latency >= 0:
        table.note("jitter", f"at most the latency, {latency} ms", f"{jitter} ms")
    return Change(
        None if latency < 0 else latency,
        None if jitter < 0 else jitter,
        rate if 0 < rate < inf else None,
        unlimited=rate == inf,
    )
