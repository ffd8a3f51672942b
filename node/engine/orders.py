"""An order: the rows of one run as one index finds them, sorted by (code, position).

Rows mostly arrive in order of position, and then a sort by code alone is enough if it is stable, both for a new
order and for neighbouring ones put one behind the other; the latter is a merge of sorted pieces, which NumPy's
stable sort (timsort) does in linear passes. Where positions went back, the codes whose rows it concerns are put
in order afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from node.core.keys.hashing import I64, U64

Rows = NDArray[np.int32]
Filter = NDArray[np.bool_]

#: Orders below this many rows, and questions below the other number, are searched without a filter.
_FILTERED_ROWS = 4096
_FILTERED_QUERIES = 128
#: An odd constant with no pattern in its bits (the golden ratio).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Order:
    """Never empty. ``rows`` are places in the run's payload.

    ``filter`` has 4 to 8 places per row and says at the place of each code that it may
    occur. Most keys of a probe are in few runs, and a binary search in a large run costs
    several times the one look that mostly avoids it.

    ``rows`` has 32 bits: the cap on a run's bytes (tiers) keeps it far below 2**31 rows.
    """

    codes: I64
    positions: I64
    rows: Rows
    filter: Filter | None
    nbytes: int


@dataclass(frozen=True, slots=True)
class Queries:
    """Asking rows sorted by code: each wants the rows of its code with low <= position < high (or <= high)."""

    codes: I64
    spread: U64
    low: I64
    high: I64
    include_high: bool
    low_range: tuple[int, int]
    high_range: tuple[int, int]

    def misses(self, least: int, greatest: int) -> bool:
        """Whether no query can find anything between these positions."""
        return greatest < self.low_range[0] or least > self.high_range[1]


def build(codes: I64, positions: I64, rows: I64 | None) -> Order:
    """The order of rows of a new run: ``rows`` are their places in it, None when they are all of it, in its order.

    Assumes at least one row.
    """
    order = stable_order(codes)
    if (positions[1:] < positions[:-1]).any():
        order = _in_position(order, codes, positions)
    places = order if rows is None else rows[order]
    return _order(codes[order], positions[order], places.astype(np.int32))


def merge(parts: Sequence[tuple[int, Order]], in_order: bool) -> Order:
    """One order for those of neighbouring runs, each with where its run's rows begin in the merged payload.

    ``in_order``: no position is below one of an earlier part.
    """
    codes = np.concatenate([part.codes for _, part in parts])
    positions = np.concatenate([part.positions for _, part in parts])
    rows = np.concatenate([part.rows + np.int32(base) for base, part in parts])
    order = np.argsort(codes, kind="stable")
    if not in_order:
        order = _in_position(order, codes, positions)
    return _order(codes[order], positions[order], rows[order])


def live(order: Order, before: int, moved: Rows) -> Order | None:
    """The rows that are not before a position; ``moved`` says to which place of the payload each row goes."""
    keep = np.flatnonzero(order.positions >= before)
    if not keep.size:
        return None
    return _order(order.codes[keep], order.positions[keep], moved[order.rows[keep]])


def queries(codes: I64, low: I64, high: I64, include_high: bool) -> Queries:
    """Asking rows, which are sorted by code already. Assumes at least one."""
    return Queries(codes, spread(codes), low, high, include_high, _ends(low), _ends(high))


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


def find(order: Order, asked: Queries, least: int, greatest: int) -> tuple[I64, I64] | None:
    """All pairs (query, place in the order), or None if there are none. Touches no pair outside the answer.

    No position of the order is below ``least`` or above ``greatest``.
    """
    hits, first = _first_of_code(order, asked)
    if not hits.size:
        return None
    last = np.searchsorted(order.codes, asked.codes[hits], side="right")
    if greatest >= asked.high_range[0]:
        last = _partition_point(order.positions, first, last, asked.high[hits], asked.include_high)
    if least < asked.low_range[1]:
        first = _partition_point(order.positions, first, last, asked.low[hits], False)
    return _expand(hits, first, last - first)


def spread(codes: I64) -> U64:
    """Codes multiplied so that their high bits, which choose places in filters, differ."""
    return codes.view(np.uint64) * _SPREAD


def _order(codes: I64, positions: I64, rows: Rows) -> Order:
    seen = _make_filter(codes)
    nbytes = codes.nbytes + positions.nbytes + rows.nbytes + (0 if seen is None else seen.nbytes)
    return Order(codes, positions, rows, seen, nbytes)


def _make_filter(codes: I64) -> Filter | None:
    if codes.size < _FILTERED_ROWS:
        return None
    seen = np.zeros(4 << int(codes.size - 1).bit_length(), dtype=np.bool_)
    seen[_places(spread(codes), seen)] = True
    return seen


def _places(spread_codes: U64, seen: Filter) -> U64:
    return spread_codes >> np.uint64(65 - seen.size.bit_length())


def _first_of_code(order: Order, asked: Queries) -> tuple[I64, I64]:
    """The queries whose code occurs in the order, and where it first does."""
    codes = asked.codes
    maybe = None
    if order.filter is not None and codes.size >= _FILTERED_QUERIES:
        maybe = np.flatnonzero(order.filter[_places(asked.spread, order.filter)])
        codes = codes[maybe]
    at = np.searchsorted(order.codes, codes)
    hits = np.flatnonzero(order.codes.take(at, mode="clip") == codes)
    return hits if maybe is None else maybe[hits], at[hits]


def _in_position(order: I64, codes: I64, positions: I64) -> I64:
    """``order``, which sorts by code, changed to sort by (code, position); rows equal in both stay as they are.

    Sorts only the rows of codes in which positions go back: with many keys and a little disorder those are few.
    """
    codes, positions = codes[order], positions[order]
    same = codes[1:] == codes[:-1]
    back = np.flatnonzero(same & (positions[1:] < positions[:-1]))
    if not back.size:
        return order
    group = np.zeros(codes.size, dtype=np.int64)
    np.cumsum(~same, out=group[1:])
    wrong = np.zeros(int(group[-1]) + 1, dtype=np.bool_)
    wrong[group[back]] = True
    places = np.flatnonzero(wrong[group])
    sorted_ = order.copy()
    sorted_[places] = order[places[np.lexsort((positions[places], group[places]))]]
    return sorted_


def _partition_point(positions: I64, first: I64, last: I64, bound: I64, inclusive: bool) -> I64:
    """In each positions[first:last], which ascends, the place of the first not below (``inclusive``: above) bound."""
    first, last = first.copy(), last.copy()
    open_ = np.flatnonzero(first < last)
    while open_.size:
        middle = (first[open_] + last[open_]) >> 1
        here, limit = positions[middle], bound[open_]
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


def _ends(values: I64) -> tuple[int, int]:
    return int(values.min()), int(values.max())
