"""Random chains and stars of streams, by how much of each other their streams match.

As in MultiStream, a query is named after its edges: L, M or H says how many tuples a tuple finds in the window at the
other end, one in twenty, one in two, or four. (There: 0.01, 1 and 10 in relations of a million, which would be no rows
at all, or far too many, in streams of some thousand.) Besides, a few things happen that every stream sees: so every
query has rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bench.generate import sentences, vocabulary
from demo.ports import free_ports

SITES = ("ash", "bow", "cam")
TAU_MS = 500
LENGTH_S = 20
START_MS = 1_760_000_000_000
#: How many tuples a tuple finds in the window at the other end of an edge.
FOUND = {"L": 0.05, "M": 0.5, "H": 4.0}
#: Things that all streams see, in a second, one soon after the other.
_SEEN_PER_S = 0.25
_SEEN_WITHIN_MS = 400
#: Keys of such things are above all others.
_SEEN_FROM = 10**9

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One query with its streams on disk."""

    name: str
    shape: str
    #: The selectivity of each edge.
    edges: str
    text: str
    sink: str
    folder: Path
    #: Which site each stream is at, by the alias it has in the query.
    places: Mapping[str, str]

    @property
    def kind(self) -> str:
        """L, M or H if all edges are alike."""
        return self.edges[0] if len({*self.edges}) == 1 else "mixed"

    def table(self, alias: str) -> pa.Table:
        """The rows of a stream."""
        return pq.read_table(self.folder / f"s_{alias}.parquet")

    def write_cluster(self, path: Path, storage: str) -> None:
        """A cluster file with ports of its own."""
        lines = ['cluster = "trees"', f'tau = "{TAU_MS}ms"', 'engine = "native"']
        lines += ["", "[planner]", f"storage = {storage}"]
        for site, port in zip(SITES, free_ports(len(SITES)), strict=True):
            lines += ["", f"[site.{site}]", f'listen = "127.0.0.1:{port}"']
            for alias in (alias for alias, place in self.places.items() if place == site):
                lines += ["", f"[site.{site}.stream.s_{alias}]", f'path = "{self.folder / f"s_{alias}.parquet"}"']
                lines += ['ts = "ts"', 'unit = "ms"']
        path.write_text("\n".join(lines) + "\n")


def make_case(folder: Path, seed: int, edges: str, shape: str = "chain") -> Case:
    """The query of a seed, always the same, and its streams."""
    random = np.random.default_rng([seed, len(edges), *map(ord, edges)])
    aliases = "abcde"[: len(edges) + 1]
    pairs = list(itertools.pairwise(aliases)) if shape == "chain" else [("a", each) for each in aliases[1:]]
    rates = {alias: int(random.choice([60, 120, 240])) for alias in aliases}
    windows_s = {alias: float(random.choice([2.0, 3.0, 5.0])) for alias in aliases}
    places = {alias: SITES[int(random.integers(len(SITES)))] for alias in aliases}
    if len({*places.values()}) == 1:
        places[aliases[-1]] = SITES[(SITES.index(places["a"]) + 1) % len(SITES)]
    folder.mkdir(parents=True)
    words = vocabulary(random)
    seen = np.sort(random.integers(0, (LENGTH_S - 1) * 1000, round(_SEEN_PER_S * LENGTH_S)))
    domains = [_domain(rates, windows_s, pair, found) for pair, found in zip(pairs, edges, strict=True)]
    for alias in aliases:
        columns = _columns(random, alias, rates[alias], pairs, domains, seen)
        columns["note"] = sentences(random, len(columns["ts"]), words, int(random.choice([20, 100, 300])))
        pq.write_table(pa.table(columns), folder / f"s_{alias}.parquet", compression="zstd")
    sink = SITES[int(random.integers(len(SITES)))]
    text = _text(random, aliases, pairs, windows_s)
    return Case(f"{shape} {edges} {seed}", shape, edges, text, sink, folder, places)


def _domain(rates: Mapping[str, int], windows_s: Mapping[str, float], pair: tuple[str, str], found: str) -> int:
    """So many keys that a tuple finds as many as it shall, at either end on the average."""
    tuples = [rates[alias] * windows_s[alias] for alias in pair]
    return max(1, round(sum(tuples) / 2 / FOUND[found]))


def _columns(
    random: np.random.Generator,
    alias: str,
    rate: int,
    pairs: Sequence[tuple[str, str]],
    domains: Sequence[int],
    seen: Ints,
) -> dict[str, Any]:
    """The rows of a stream, by time: what all see, and what is its own."""
    own = rate * LENGTH_S
    ts = np.concatenate(
        [random.integers(0, LENGTH_S * 1000, own), seen + random.integers(0, _SEEN_WITHIN_MS, len(seen))]
    )
    order = np.argsort(ts, kind="stable")
    columns: dict[str, Any] = {"ts": START_MS + ts[order]}
    for number, (pair, domain) in enumerate(zip(pairs, domains, strict=True)):
        if alias in pair:
            keys = np.concatenate([random.integers(0, domain, own), _SEEN_FROM + np.arange(len(seen))])
            columns[f"k{number}"] = keys[order]
    columns["v"] = random.integers(0, 100, len(ts))
    return columns


def _text(
    random: np.random.Generator, aliases: str, pairs: Sequence[tuple[str, str]], windows_s: Mapping[str, float]
) -> str:
    parts = []
    for place, alias in enumerate(aliases):
        on = f" ON {pairs[place - 1][0]}.k{place - 1} = {alias}.k{place - 1}" if place else ""
        parts.append(f"s_{alias} [RANGE {round(windows_s[alias] * 1000)} MS] AS {alias}{on}")
    chosen = [f"{alias}.{column}" for alias in aliases for column in ("v", "note") if random.random() < 0.5]
    outputs = ", ".join(f"{name} AS {name.replace('.', '_')}" for name in ["a.ts", *chosen])
    return f"SELECT {outputs} FROM {' JOIN '.join(parts)}"
