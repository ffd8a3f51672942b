"""Sketches keep the same keys of every stream, so that streams can be compared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from planner.estimate.sketches import below, distinct_keys, key_choices, key_groups, share_of, sketch_of
from planner.estimate.statistics import HASH_END
from planner.model.graph import closure
from planner.model.query import ColumnRef, Edge, JoinQuery, RangeWindow, StreamInfo, StreamRef
from planner.model.time_unit import TimeUnit


def _hashes(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def test_a_small_sketch_has_all_keys_with_counts_and_times() -> None:
    sketch = sketch_of(_hashes([7, 3, 7, 7]), np.array([10, 20, 5, 30]))
    assert sketch.hashes.tolist() == [3, 7]
    assert sketch.counts.tolist() == [1, 3]
    assert sketch.first_us is not None
    assert sketch.last_us is not None
    assert sketch.first_us.tolist() == [20, 5]
    assert sketch.last_us.tolist() == [20, 30]
    assert sketch.limit == HASH_END


def test_a_full_sketch_keeps_the_smallest_and_says_where_it_ends() -> None:
    sketch = sketch_of(_hashes([9, 1, 5, 5, 3]), None, keys_max=2)
    assert sketch.hashes.tolist() == [1, 3]
    assert sketch.limit == 5


def test_what_two_streams_have_in_common_is_seen_on_the_sample() -> None:
    random = np.random.default_rng(1)
    left = random.integers(0, 2**63, 20_000).astype(np.uint64) * np.uint64(2)
    right = np.concatenate([left[:5_000], random.integers(0, 2**63, 15_000).astype(np.uint64) * np.uint64(2)])
    one, other = sketch_of(left), sketch_of(right)
    limit = min(one.limit, other.limit)
    both = np.intersect1d(below(one, limit).hashes, below(other, limit).hashes)
    assert abs(len(both) / (limit / HASH_END) - 5_000) < 500
    assert abs(distinct_keys(one) - 20_000) < 1_500
    assert share_of(one) < 1


def _query(edges: list[tuple[str, str]], streams: str = "abc") -> JoinQuery:
    schema = pa.schema([("ts", pa.int64()), *((name, pa.int64()) for name in "xyz")])
    refs = tuple(
        StreamRef(alias, StreamInfo(alias, alias, schema, "ts", TimeUnit.MS), RangeWindow(1)) for alias in streams
    )
    made = [Edge(*(ColumnRef(*end.split(".")) for end in edge)) for edge in edges]
    return JoinQuery("", refs, closure(made, tuple(streams)), ())


def test_a_chain_of_equalities_on_one_key_is_one_group() -> None:
    query = _query([("a.x", "b.x"), ("b.x", "c.z")])
    assert key_groups(query) == ({"a": ("x",), "b": ("x",), "c": ("z",)},)
    assert key_choices(query, "c") == (("z",),)


def test_keys_of_several_columns_have_the_same_order_in_every_stream() -> None:
    query = _query([("a.x", "b.z"), ("a.y", "b.x")], "ab")
    assert key_groups(query) == ({"a": ("x", "y"), "b": ("z", "x")},)
    assert key_choices(query, "b") == (("z", "x"), ("z",), ("x",))


def test_keys_of_different_streams_are_different_groups() -> None:
    query = _query([("a.x", "b.x"), ("b.y", "c.y")])
    assert key_groups(query) == ({"a": ("x",), "b": ("x",)}, {"b": ("y",), "c": ("y",)})
    assert key_choices(query, "b") == (("x",), ("y",))
