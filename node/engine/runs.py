"""A run: an immutable, indexed stretch of a window.

The payload keeps the order of arrival. Beside it, sorted by (code, ts): the
codes, the event times, and the payload row of each. Rows mostly arrive in order
of time, and then a sort by code alone is enough if it is stable, both for a new
run and for neighbouring runs put one behind the other; the latter is a merge of
sorted pieces, which NumPy's stable sort (timsort) does in linear passes. Where
time went back, the codes whose rows it concerns are put in order afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.core.hashing import I64, U64

Rows = NDArray[np.int32]
Filter = NDArray[np.bool_]

#: Runs below this many rows, and probes below the other number, are searched without a filter.
_FILTERED_ROWS = 4096
_FILTERED_QUERIES = 128
#: An odd constant with no pattern in its bits (the golden ratio).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Run:
    """Never empty.

    ``filter`` has 4 to 8 places per row and says at the place of each code that it may
    occur. Most keys of a probe are in few runs, and a binary search in a large run costs
    several times the one look that mostly avoids it.

    ``rows`` has 32 bits: the cap on a run's bytes (tiers) keeps it far below 2**31 rows.
    """

    codes: I64
    ts: I64
    rows: Rows
    filter: Filter | None
    payload: pa.RecordBatch
    min_ts: int
    max_ts: int
    nbytes: int

    @cached_property
    def half_ts(self) -> int:
        """More than half of the rows are not newer than this."""
        middle = self.ts.size // 2
        return int(np.partition(self.ts, middle)[middle])


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of a run that are to go into another one: index as in ``Run``."""

    codes: I64
    ts: I64
    rows: Rows
    payload: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Queries:
    """Probing rows sorted by code: each wants the rows of its code with low <= ts < high (or <= high)."""

    codes: I64
    spread: U64
    low: I64
    high: I64
    include_high: bool
    low_range: tuple[int, int]
    high_range: tuple[int, int]

    def misses(self, run: Run) -> bool:
        """Whether no query can find anything in the run, by time alone."""
        return run.max_ts < self.low_range[0] or run.min_ts > self.high_range[1]


def build(codes: I64, ts: I64, payload: pa.RecordBatch) -> Run:
    """Index a batch. Assumes at least one row."""
    order = stable_order(codes)
    if (ts[1:] < ts[:-1]).any():
        order = _in_time(order, codes, ts)
    return _run(codes[order], ts[order], order.astype(np.int32), payload)


def merge(runs: Sequence[Run], before: int) -> Run:
    """One run for neighbouring ones, in order of arrival, without rows older than ``before``. Assumes one is left."""
    parts = [_live(run, before) for run in runs]
    bases = np.cumsum([0] + [part.payload.num_rows for part in parts[:-1]])
    codes = np.concatenate([part.codes for part in parts])
    ts = np.concatenate([part.ts for part in parts])
    rows = np.concatenate([part.rows + np.int32(base) for part, base in zip(parts, bases, strict=True)])
    order = np.argsort(codes, kind="stable")
    if any(one.max_ts > other.min_ts for one, other in itertools.pairwise(runs)):
        order = _in_time(order, codes, ts)
    return _run(codes[order], ts[order], rows[order], pa.concat_batches([part.payload for part in parts]))


def trim(run: Run, before: int) -> Run:
    """The run without rows older than ``before``. Assumes one is left."""
    part = _live(run, before)
    return _run(part.codes, part.ts, part.rows, part.payload)


def stable_order(codes: I64) -> I64:
    """``argsort(codes, kind="stable")``, by NumPy's several times faster unstable sorts.

    Their order is right but within equal codes; sorting (rank of the code, row)
    as one integer puts that right too.
    """
    order = np.argsort(codes)
    if codes.size < 2:
        return order
    ordered = codes[order]
    steps = ordered[1:] != ordered[:-1]
    if steps.all():
        return order
    rank = np.zeros(codes.size, dtype=np.int64)
    np.cumsum(steps, out=rank[1:])
    bits = int(codes.size).bit_length()
    packed = np.sort((rank << bits) | order)
    mask = (1 << bits) - 1
    return packed & mask


def find(run: Run, queries: Queries) -> tuple[I64, I64] | None:
    """All pairs (query, place in the run's index), or None if there are none. Touches no pair outside the answer."""
    hits, first = _first_of_code(run, queries)
    if not hits.size:
        return None
    last = np.searchsorted(run.codes, queries.codes[hits], side="right")
    if run.max_ts >= queries.high_range[0]:
        last = _partition_point(run.ts, first, last, queries.high[hits], queries.include_high)
    if run.min_ts < queries.low_range[1]:
        first = _partition_point(run.ts, first, last, queries.low[hits], False)
    return _expand(hits, first, last - first)


def spread(codes: I64) -> U64:
    """Codes multiplied so that their high bits, which choose places in filters, differ."""
    return codes.view(np.uint64) * _SPREAD


def _make_filter(codes: I64) -> Filter | None:
    if codes.size < _FILTERED_ROWS:
        return None
    seen = np.zeros(4 << int(codes.size - 1).bit_length(), dtype=np.bool_)
    seen[_places(spread(codes), seen)] = True
    return seen


def _places(spread_codes: U64, seen: Filter) -> U64:
    return spread_codes >> np.uint64(65 - seen.size.bit_length())


def _first_of_code(run: Run, queries: Queries) -> tuple[I64, I64]:
    """The queries whose code occurs in the run, and where it first does."""
    codes = queries.codes
    maybe = None
    if run.filter is not None and codes.size >= _FILTERED_QUERIES:
        maybe = np.flatnonzero(run.filter[_places(queries.spread, run.filter)])
        codes = codes[maybe]
    at = np.searchsorted(run.codes, codes)
    hits = np.flatnonzero(run.codes.take(at, mode="clip") == codes)
    return hits if maybe is None else maybe[hits], at[hits]


def _live(run: Run, before: int) -> _Part:
    """The rows that are not older than ``before``, in their orders."""
    if run.min_ts >= before:
        return _Part(run.codes, run.ts, run.rows, run.payload)
    keep = np.flatnonzero(run.ts >= before)
    rows = run.rows[keep]
    alive = np.zeros(run.payload.num_rows, dtype=np.bool_)
    alive[rows] = True
    moved = np.cumsum(alive, dtype=np.int32) - np.int32(1)
    return _Part(run.codes[keep], run.ts[keep], moved[rows], run.payload.take(pa.array(np.flatnonzero(alive))))


def _in_time(order: I64, codes: I64, ts: I64) -> I64:
    """``order``, which sorts by code, changed to sort by (code, ts); rows equal in both stay as they are.

    Sorts only the rows of codes in which time goes back: with many keys and a little disorder those are few.
    """
    codes, ts = codes[order], ts[order]
    same = codes[1:] == codes[:-1]
    back = np.flatnonzero(same & (ts[1:] < ts[:-1]))
    if not back.size:
        return order
    group = np.zeros(codes.size, dtype=np.int64)
    np.cumsum(~same, out=group[1:])
    wrong = np.zeros(int(group[-1]) + 1, dtype=np.bool_)
    wrong[group[back]] = True
    places = np.flatnonzero(wrong[group])
    sorted_ = order.copy()
    sorted_[places] = order[places[np.lexsort((ts[places], group[places]))]]
    return sorted_


def _run(codes: I64, ts: I64, rows: Rows, payload: pa.RecordBatch) -> Run:
    seen = _make_filter(codes)
    nbytes = codes.nbytes + ts.nbytes + rows.nbytes + (0 if seen is None else seen.nbytes) + payload.nbytes
    return Run(codes, ts, rows, seen, payload, int(ts.min()), int(ts.max()), nbytes)


def _partition_point(ts: I64, first: I64, last: I64, bound: I64, inclusive: bool) -> I64:
    """In each ts[first:last], which ascends, the place of the first element not below (``inclusive``: above) bound."""
    first, last = first.copy(), last.copy()
    open_ = np.flatnonzero(first < last)
    while open_.size:
        middle = (first[open_] + last[open_]) >> 1
        here, limit = ts[middle], bound[open_]
        below = here <= limit if inclusive else here < limit
        first[open_] = np.where(below, middle + 1, first[open_])
        last[open_] = np.where(below, last[open_], middle)
        open_ = open_[first[open_] < last[open_]]
    return first


def _expand(hits: I64, first: I64, counts: I64) -> tuple[I64, I64] | None:
    ends = np.cumsum(counts)
    total = int(ends[-1])
    if not total:
        return None
    places = np.arange(total) + np.repeat(first - ends + counts, counts)
    return np.repeat(hits, counts), places
