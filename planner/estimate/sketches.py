"""Samples of keys that can be compared between streams: the keys with the smallest hashes, with their counts.

The same keys are in the sample whichever stream they come from, so what two streams have in common is
seen on the sample, for any number of streams: with independent samples it would not be.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from planner.estimate.statistics import HASH_END, KeySketch
from planner.model.graph import closure
from planner.model.query import ColumnRef, JoinQuery

#: The most keys a sketch keeps: 128 KiB, and match rates within a few percent of a hundred.
SKETCH_KEYS = 4096

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


def key_choices(query: JoinQuery, alias: str) -> tuple[tuple[str, ...], ...]:
    """The columns of which sketches are made: as a group of streams shares them, and alone.

    Columns of a group come in an order that is the same for all its streams: so hashes can be compared. How many keys
    there are of columns that different streams join by follows from these, well enough, for less bytes.
    """
    groups = [columns[alias] for columns in key_groups(query) if alias in columns]
    return tuple(dict.fromkeys([*groups, *((name,) for names in groups for name in names)]))


def key_groups(query: JoinQuery) -> tuple[Mapping[str, tuple[str, ...]], ...]:
    """The columns of each stream that must be equal in all of them; several where the same streams share several.

    A chain of equalities on one key is one group. Groups that hold for different streams stay apart.
    """
    classes: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for members in _classes(query):
        columns: dict[str, str] = {}
        for column in members:
            columns.setdefault(column.alias, column.column)
        if len(columns) > 1:
            classes.setdefault(tuple(columns), []).append(columns)
    return tuple(
        {alias: tuple(columns[alias] for columns in found) for alias in aliases} for aliases, found in classes.items()
    )


def _classes(query: JoinQuery) -> list[list[ColumnRef]]:
    """For each column those of other streams that must equal it, and itself, in the query's order; each list once."""
    equal: dict[ColumnRef, dict[ColumnRef, None]] = {}
    for edge in closure(query.edges, query.aliases):
        for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
            equal.setdefault(one, {one: None})[other] = None
    place = {alias: number for number, alias in enumerate(query.aliases)}
    found: dict[tuple[ColumnRef, ...], None] = {}
    for members in equal.values():
        found[tuple(sorted(members, key=lambda column: (place[column.alias], column.column)))] = None
    return [list(members) for members in found]


def sketch_of(hashes: U64, times_us: I64 | None = None, keys_max: int = SKETCH_KEYS) -> KeySketch:
    """The sketch of tuples whose keys have these hashes, and these event times if they are given."""
    distinct, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    first, last = None, None
    if times_us is not None:
        first = np.full(len(distinct), np.iinfo(np.int64).max)
        last = np.full(len(distinct), np.iinfo(np.int64).min)
        np.minimum.at(first, inverse, times_us)
        np.maximum.at(last, inverse, times_us)
    whole = KeySketch(distinct, counts.astype(np.int64), HASH_END, first, last)
    return whole if len(distinct) <= keys_max else _head(whole, keys_max, int(distinct[keys_max]))


def below(sketch: KeySketch, limit: int) -> KeySketch:
    """The part of a sketch with hashes below ``limit``."""
    if limit >= sketch.limit:
        return sketch
    return _head(sketch, int(np.searchsorted(sketch.hashes, np.uint64(limit))), limit)


def share_of(sketch: KeySketch) -> float:
    """The share of all keys that the sketch keeps."""
    return sketch.limit / HASH_END


def distinct_keys(sketch: KeySketch) -> float:
    """How many different keys the stream has."""
    return len(sketch.hashes) / share_of(sketch)


def _head(sketch: KeySketch, keys: int, limit: int) -> KeySketch:
    first = None if sketch.first_us is None else sketch.first_us[:keys]
    last = None if sketch.last_us is None else sketch.last_us[:keys]
    return KeySketch(sketch.hashes[:keys], sketch.counts[:keys], limit, first, last)
