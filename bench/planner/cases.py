"""Random queries for ``bench.planner`` and for tests of the planner, the same for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from planner.algorithms.paper_terms import PaperSystem
from planner.cost.paper_model import PaperSpace, PaperStream
from planner.estimate.sketches import key_choices, sketch_of
from planner.estimate.statistics import LinkStats, Statistics, StreamProfile
from planner.model.graph import closure
from planner.model.query import ColumnRef, Edge, JoinQuery, OutputColumn, RangeWindow, StreamInfo, StreamRef
from planner.model.time_unit import TimeUnit

TOPOLOGIES = ("star", "chain", "cycle", "clique")

#: Table 2 of the paper.
ATTRIBUTES = (10, 50, 100, 150, 200)
FACTORS = (0.02, 0.04, 0.06, 0.08, 0.1)
RATES = (10, 50, 100, 150, 200)
WINDOWS_S = (0.4, 0.8, 1.2, 1.6, 2.0)
ATTRIBUTE_BYTES = 5.0

#: Where the keys of synthetic streams are spread; large odd numbers scatter them over all hashes.
_SCATTER = np.uint64(0x9E3779B97F4A7C15)
_TUPLES = 3_000


def edges_of(topology: str, streams: int) -> tuple[tuple[int, int], ...]:
    """Which streams are joined directly."""
    match topology:
        case "star":
            return tuple((0, other) for other in range(1, streams))
        case "chain":
            return tuple((place, place + 1) for place in range(streams - 1))
        case "cycle":
            ring = [(place, place + 1) for place in range(streams - 1)]
            return tuple([*ring, (0, streams - 1)] if streams > 2 else ring)
        case "clique":
            return tuple((one, other) for one in range(streams) for other in range(one + 1, streams))
        case _:
            raise ValueError(f"required one of {', '.join(TOPOLOGIES)}, got {topology!r}")


def paper_case(
    random: np.random.Generator, topology: str, streams: int, system: PaperSystem | None = None
) -> PaperSpace:
    """A query with parameters from Table 2, each stream at a site of its own, on the paper's links."""
    made = [
        PaperStream(
            f"s{place}",
            f"n{place}",
            float(random.choice(RATES)),
            float(random.choice(WINDOWS_S)),
            float(random.choice(ATTRIBUTES)) * ATTRIBUTE_BYTES,
            ATTRIBUTE_BYTES,
            float(random.choice(FACTORS)),
        )
        for place in range(streams)
    ]
    return PaperSpace(made, edges_of(topology, streams), system or PaperSystem())


@dataclass(frozen=True, slots=True)
class WireCase:
    """A query with what was measured of its streams."""

    query: JoinQuery
    sink: str
    statistics: Statistics


def wire_case(
    random: np.random.Generator,
    topology: str,
    streams: int,
    sites: int | None = None,
    shared: bool | None = None,
) -> WireCase:
    """A query with keys, widths, rates and windows of all kinds; ``sites`` is how many the streams share.

    ``shared``: a clique by one key that is the same in all streams; by chance if not said.
    """
    edges = edges_of(topology, streams)
    by_chance = topology == "clique" and bool(random.integers(2))
    shared = by_chance if shared is None else shared
    places = [f"n{place if sites is None else int(random.integers(sites))}" for place in range(streams)]
    names = [_key_names(place, edges, shared) for place in range(streams)]
    refs = [_ref(place, places[place], names[place], int(random.integers(1, 20))) for place in range(streams)]
    joins = [
        Edge(*(ColumnRef(f"s{end}", "k" if shared else f"k{number}") for end in pair))
        for number, pair in enumerate(edges)
    ]
    outputs = tuple(OutputColumn(f"v{place}", ColumnRef(f"s{place}", "v")) for place in range(streams))
    query = JoinQuery("", tuple(refs), closure(joins, tuple(ref.alias for ref in refs)), outputs)
    domains = {name: int(random.choice([5, 50, 500, 5000])) for own in names for name in own}
    profiles = {
        ref.alias: _profile(random, query, ref.alias, own, domains) for ref, own in zip(refs, names, strict=True)
    }
    known = sorted({*places, "n0"})
    links = {
        (one, other): LinkStats(int(random.integers(5, 200)) * 1000, float(random.choice([1e5, 1e6, 1e7])))
        for one in known
        for other in known
        if one != other
    }
    return WireCase(query, str(random.choice(known)), Statistics(100_000, profiles, links))


def _key_names(place: int, edges: Sequence[tuple[int, int]], shared: bool) -> list[str]:
    return ["k"] if shared else [f"k{number}" for number, pair in enumerate(edges) if place in pair]


def _ref(place: int, site: str, names: Sequence[str], window_s: int) -> StreamRef:
    schema = pa.schema([("ts", pa.int64()), *((name, pa.int64()) for name in names), ("v", pa.string())])
    info = StreamInfo(f"stream{place}", site, schema, "ts", TimeUnit.MS)
    return StreamRef(f"s{place}", info, RangeWindow(window_s * 1_000_000))


def _profile(
    random: np.random.Generator, query: JoinQuery, alias: str, names: Sequence[str], domains: dict[str, int]
) -> StreamProfile:
    """Keys evenly from a part of their domain, at even times."""
    rate = float(random.choice([2, 20, 100]))
    span_us = int(_TUPLES / rate * 1e6)
    times = np.linspace(0, span_us, _TUPLES).astype(np.int64)
    share = float(random.choice([0.1, 0.5, 1.0]))
    keys = {name: random.integers(0, domains[name], _TUPLES) for name in names}
    for name in names:
        away = random.random(_TUPLES) > share
        keys[name] = np.where(away, keys[name] + random.integers(1, 1000) * domains[name], keys[name])
    sketches = {}
    for choice in key_choices(query, alias):
        hashes = np.zeros(_TUPLES, np.uint64)
        for name in choice:
            hashes = (hashes + keys[name].astype(np.uint64) + np.uint64(1)) * _SCATTER
            hashes ^= hashes >> np.uint64(29)
        sketches[choice] = sketch_of(hashes, times)
    sizes = {"__ts": 1.0, "v": float(random.choice([2, 20, 200])), **dict.fromkeys(names, 2.5)}
    return StreamProfile(_TUPLES, span_us, max(1.0, rate * 0.1), sizes, sketches)
