"""Samples of keys that can be compared between streams: the keys with the smallest hashes, with their counts.

The same keys are in the sample whichever stream they come from, so what two streams have in common is
seen on the sample, for any number of streams: with independent samples it would not be.
Two sketches of parts of a stream merge to the sketch of the whole, apart from where it was cut off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.graph import closure
from planner.model import ColumnRef, JoinQuery
from planner.stats import HASH_END, KeySketch

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
    """Columns that the query makes equal, each class in the order of the query."""
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
    return _cut(distinct, counts.astype(np.int64), HASH_END, first, last, keys_max)


def merged(one: KeySketch, other: KeySketch, keys_max: int = SKETCH_KEYS) -> KeySketch:
    """The sketch of both parts of a stream."""
    limit = min(one.limit, other.limit)
    parts = [below(one, limit), below(other, limit)]
    hashes, inverse = np.unique(np.concatenate([part.hashes for part in parts]), return_inverse=True)
    counts = np.zeros(len(hashes), np.int64)
    np.add.at(counts, inverse, np.concatenate([part.counts for part in parts]))
    first, last = None, None
    firsts = [part.first_us for part in parts if part.first_us is not None]
    lasts = [part.last_us for part in parts if part.last_us is not None]
    if len(firsts) == len(lasts) == len(parts):
        first = np.full(len(hashes), np.iinfo(np.int64).max)
        last = np.full(len(hashes), np.iinfo(np.int64).min)
        np.minimum.at(first, inverse, np.concatenate(firsts))
        np.maximum.at(last, inverse, np.concatenate(lasts))
    return _cut(hashes, counts, limit, first, last, keys_max)


def below(sketch: KeySketch, limit: int) -> KeySketch:
    """The part of a sketch with hashes below ``limit``."""
    if limit >= sketch.limit:
        return sketch
    return _head(sketch, int(np.searchsorted(sketch.hashes, np.uint64(limit))), limit)


def common(sketches: Sequence[KeySketch]) -> tuple[U64, tuple[I64, ...], float]:
    """The keys that are in all of them, their places in each, and the share of all keys that was sampled."""
    limit = min(sketch.limit for sketch in sketches)
    cut = [below(sketch, limit) for sketch in sketches]
    hashes = cut[0].hashes
    for sketch in cut[1:]:
        hashes = np.intersect1d(hashes, sketch.hashes, assume_unique=True)
    return hashes, tuple(np.searchsorted(sketch.hashes, hashes) for sketch in cut), limit / HASH_END


def share_of(sketch: KeySketch) -> float:
    """The share of all keys that the sketch keeps."""
    return sketch.limit / HASH_END


def distinct_keys(sketch: KeySketch) -> float:
    """How many different keys the stream has."""
    return len(sketch.hashes) / share_of(sketch)


def _cut(hashes: U64, counts: I64, limit: int, first: I64 | None, last: I64 | None, keys_max: int) -> KeySketch:
    whole = KeySketch(hashes, counts, limit, first, last)
    return whole if len(hashes) <= keys_max else _head(whole, keys_max, int(hashes[keys_max]))


def _head(sketch: KeySketch, keys: int, limit: int) -> KeySketch:
    first = None if sketch.first_us is None else sketch.first_us[:keys]
    last = None if sketch.last_us is None else sketch.last_us[:keys]
    return KeySketch(sketch.hashes[:keys], sketch.counts[:keys], limit, first, last)
