"""What people declare about streams and links, which wins over what was measured.

A profile is a sample, so a declared number of distinct keys becomes a sample that has so many: keys are left out
evenly, or put in between. What is put in matches nothing in other streams. When keys lived is then unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from node.core.keys.hashing import U64, scramble
from planner.estimate.sketches import SKETCH_KEYS, below, distinct_keys, share_of
from planner.estimate.statistics import KeySketch, LinkStats, StreamProfile
from planner.model.declarations import DeclaredLink, DeclaredStream

#: A sample must have this many tuples for each distinct key, so that counts of whole tuples can say how many there are.
_TUPLES_PER_KEY = 4


def with_declared(profile: StreamProfile, declared: DeclaredStream, passed: float, tau_us: int) -> StreamProfile:
    """The profile with what was declared in place of what was measured.

    ``passed`` is the share of tuples that pass the query's filter: the rate is declared for all of them.
    """
    if declared.rate is not None and profile.rows:
        profile = _with_rate(profile, declared.rate * passed, tau_us)
    for column, count in declared.distinct.items():
        if (column,) in profile.keys:
            profile = _with_distinct(profile, column, count)
    sizes = {name: declared.column_bytes.get(name, size) for name, size in profile.column_bytes.items()}
    return replace(profile, column_bytes=sizes)


def _with_rate(profile: StreamProfile, rate: float, tau_us: int) -> StreamProfile:
    measured = profile.rate
    span_us = max(1, round(profile.rows * 1e6 / rate))
    by_tick = profile.batch_rows < 1.5 * max(1.0, measured * tau_us / 1e6)
    batch_rows = max(1.0, profile.batch_rows * rate / measured) if by_tick else profile.batch_rows
    keys = {names: replace(sketch, first_us=None, last_us=None) for names, sketch in profile.keys.items()}
    return replace(profile, span_us=span_us, batch_rows=batch_rows, keys=keys)


def _with_distinct(profile: StreamProfile, column: str, count: float) -> StreamProfile:
    profile = _repeated(profile, math.ceil(_TUPLES_PER_KEY * count / max(1, profile.rows)))
    return replace(profile, keys={**profile.keys, (column,): _resized(profile.keys[column,], count)})


def _repeated(profile: StreamProfile, times: int) -> StreamProfile:
    """As if the sample had come so many times, one after the other."""
    if times <= 1:
        return profile
    keys = {
        names: replace(sketch, counts=sketch.counts * times, first_us=None, last_us=None)
        for names, sketch in profile.keys.items()
    }
    return replace(profile, rows=profile.rows * times, span_us=profile.span_us * times, keys=keys)


def _resized(sketch: KeySketch, count: float) -> KeySketch:
    """The sketch of as many tuples with ``count`` distinct keys."""
    if not len(sketch.hashes):
        return sketch
    fewer = distinct_keys(sketch) / count
    usual = float(sketch.counts.mean())
    if count * share_of(sketch) > SKETCH_KEYS:
        limit = int(sketch.limit * SKETCH_KEYS / (count * share_of(sketch)))
        # The lower half of a hash is zero, and so is that of a limit.
        sketch = below(sketch, max(1, limit >> 32) << 32)
    wanted, had = max(1, round(count * share_of(sketch))), len(sketch.hashes)
    if wanted <= had:
        places = np.linspace(0, had - 1, wanted).round().astype(np.int64)
        hashes, counts = sketch.hashes[places], sketch.counts[places].astype(np.float64)
    else:
        added = _other_hashes(sketch, wanted - had)
        hashes = np.concatenate([sketch.hashes, added])
        counts = np.concatenate([sketch.counts, np.full(len(added), usual)])
        order = np.argsort(hashes)
        hashes, counts = hashes[order], counts[order]
    return KeySketch(hashes, np.maximum(1, np.round(counts * fewer)).astype(np.int64), sketch.limit)


def _other_hashes(sketch: KeySketch, count: int) -> U64:
    """So many hashes that the sketch does not have, spread like those of any keys, and always the same."""
    drawn = scramble(np.arange(1, 2 * count + 65, dtype=np.uint64)) >> np.uint64(32)
    spread = drawn * np.uint64((sketch.limit >> 32) - 1) >> np.uint64(32) << np.uint64(32)
    _, first = np.unique(spread, return_index=True)
    fresh = spread[np.sort(first)]
    found: U64 = fresh[~np.isin(fresh, sketch.hashes)][:count]
    return found


def links_with_declared(
    measured: Mapping[tuple[str, str], LinkStats], declared: tuple[DeclaredLink, ...]
) -> dict[tuple[str, str], LinkStats]:
    """The links between sites with what was declared of them. A round trip is the latency there and back."""
    by_way = {(link.source, link.target): link for link in declared}
    found = dict(measured)
    for way, link in by_way.items():
        known = found.get(way, LinkStats())
        back = by_way.get(way[::-1])
        rtt_us = known.rtt_us
        if link.latency_us is not None:
            rtt_us = link.latency_us + (
                back.latency_us if back is not None and back.latency_us is not None else link.latency_us
            )
        found[way] = LinkStats(
            rtt_us,
            known.bytes_per_s if link.bytes_per_s is None else link.bytes_per_s,
            known.price_per_gb if link.price_per_gb is None else link.price_per_gb,
        )
    return found
