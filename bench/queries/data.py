"""The streams of ``bench.queries``: steady ones, and one that brings a large window at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.queries.query_set import START_MS, STREAMS, WIDTH
from bench.records import SEED, KeyPlan, Stream, pair_of_streams, record_batch

#: A fifth of the tuples has keys of both streams, each about twice in a window: some rows, and many that match nothing.
_MATCH_RATE, _REPEATS = 0.2, 2.0
_WINDOW_MS = 12_500
#: So few tuples cost nothing.
QUIET_PER_S = 10
#: Tuples of the burst are narrower: it is their number that matters.
_BURST_WIDTH = 100


def steady_streams(per_s: int, seconds: int, tau_ms: int) -> dict[str, pa.Table]:
    """Both streams with the same rate all the time."""
    plan = KeyPlan(_MATCH_RATE, 100 * per_s, _REPEATS)
    ticks = seconds * 1_000 // tau_ms
    streams = pair_of_streams(plan, per_s * tau_ms // 1_000, ticks, tau_ms, _WINDOW_MS)
    return {name: _table(streams[name], name, WIDTH) for name in STREAMS}


@dataclass(frozen=True, slots=True)
class Burst:
    """Nothing for a while, then ``rows`` of stream b in some seconds, then little; stream a has little all the time.

    Before the burst each stream has one tuple only, so that it plays, with a key that meets nothing: queries that are
    issued meanwhile all have the same rows.
    """

    tables: dict[str, pa.Table]
    lead_ms: int
    end_ms: int


def burst_streams(rows: int, lead_s: int, burst_s: int, hold_s: int) -> Burst:
    """``lead_s`` to issue queries in, and ``hold_s`` after the burst to look at what they keep."""
    rng = np.random.default_rng([SEED, rows])
    lead_ms, end_ms = 1_000 * lead_s, 1_000 * (lead_s + burst_s)
    keys = rng.integers(1, 2**40, rows // 2)
    quiet = [rng.integers(lead_ms, end_ms + 1_000 * hold_s, QUIET_PER_S * (burst_s + hold_s)) for _ in STREAMS]
    times = {"a": quiet[0], "b": np.concatenate([quiet[1], rng.integers(lead_ms, end_ms, rows)])}
    tables = {}
    for place, (name, ts) in enumerate(times.items()):
        drawn = np.concatenate([[-1 - place], keys[rng.integers(0, len(keys), len(ts))]])
        tables[name] = _table(Stream(np.concatenate([[0], np.sort(ts)]), drawn), name, _BURST_WIDTH)
    return Burst(tables, lead_ms, end_ms)


def _table(stream: Stream, name: str, width: int) -> pa.Table:
    return pa.Table.from_batches([record_batch(stream, width, name, START_MS)])
