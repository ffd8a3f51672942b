"""Small synthetic streams with what a site would measure of them, for tests of the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from planner.estimate.sketches import key_choices, sketch_of
from planner.estimate.statistics import LinkStats, Statistics, StreamProfile
from planner.model.graph import closure
from planner.model.query import (
    ColumnRef,
    Edge,
    Expr,
    JoinQuery,
    OutputColumn,
    RangeWindow,
    StreamInfo,
    StreamRef,
    Window,
)
from planner.model.time_unit import TimeUnit

I64 = NDArray[np.int64]
SPAN_S = 200


@dataclass(frozen=True)
class Made:
    """A stream: times in milliseconds, ascending, and its key columns."""

    ts: I64
    keys: Mapping[str, I64]


def made(random: np.random.Generator, rows: int, domains: Mapping[str, tuple[int, int]]) -> Made:
    """Evenly random times, and keys from ``[low, high)``."""
    ts = np.sort(random.integers(0, SPAN_S * 1000, rows))
    return Made(ts, {name: random.integers(*ends, rows) for name, ends in domains.items()})


def query_of(
    streams: Mapping[str, Made],
    windows: Mapping[str, Window],
    edges: Sequence[tuple[str, str]],
    sites: Mapping[str, str] | None = None,
    residuals: tuple[Expr, ...] = (),
) -> JoinQuery:
    """All keys equal as the edges say; each stream at a site of its name unless said otherwise."""
    refs = []
    for alias, stream in streams.items():
        fields = [("ts", pa.int64()), *((name, pa.int64()) for name in stream.keys), ("v", pa.string())]
        site = (sites or {}).get(alias, alias)
        refs.append(StreamRef(alias, StreamInfo(alias, site, pa.schema(fields), "ts", TimeUnit.MS), windows[alias]))
    ends = [Edge(*(ColumnRef(*end.split(".")) for end in edge)) for edge in edges]
    outputs = tuple(OutputColumn(f"v_{alias}", ColumnRef(alias, "v")) for alias in streams)
    return JoinQuery("", tuple(refs), closure(ends, tuple(streams)), outputs, residuals)


def statistics_of(
    query: JoinQuery,
    streams: Mapping[str, Made],
    tau_ms: int = 1_000,
    timed: bool = True,
    links: Mapping[tuple[str, str], LinkStats] | None = None,
    value_bytes: float = 20.0,
) -> Statistics:
    """What the sites would say."""
    profiles = {alias: _profile(query, alias, stream, tau_ms, timed, value_bytes) for alias, stream in streams.items()}
    return Statistics(tau_ms * 1000, profiles, links or {})


def _profile(query: JoinQuery, alias: str, stream: Made, tau_ms: int, timed: bool, value_bytes: float) -> StreamProfile:
    rows = len(stream.ts)
    sketches = {}
    for names in key_choices(query, alias):
        hashes = np.zeros(rows, np.uint64)
        for name in names:
            hashes = (hashes + stream.keys[name].astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
            hashes ^= hashes >> np.uint64(31)
            hashes *= np.uint64(0xBF58476D1CE4E5B9)
        sketches[names] = sketch_of(hashes, stream.ts * 1000 if timed else None)
    sizes = {"__ts": 1.0, "v": value_bytes, **dict.fromkeys(stream.keys, 3.0)}
    return StreamProfile(rows, SPAN_S * 1_000_000, max(1.0, rows * tau_ms / SPAN_S / 1000), sizes, sketches)


def range_s(seconds: float) -> RangeWindow:
    return RangeWindow(round(seconds * 1e6))
