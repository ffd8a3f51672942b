"""What a site measures of its streams: exact on small data, comparable between streams, cheap to send."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from node.core.encoding.rows import encode_rows
from node.core.links.compression import Compressor
from node.core.links.messages import Profiles
from node.core.planning.declared_profile import links_with_declared, with_declared
from node.core.planning.profile import Sample, for_the_wire, key_hashes, profile_of, sample_of
from node.core.streams.recent_batches import RecentBatches
from node.core.streams.sealer import Batch
from node.core.streams.ticks import Span
from node.wire import decode_message, encode_message
from planner.estimate.sketches import distinct_keys
from planner.estimate.statistics import HASH_END, LinkStats
from planner.model.declarations import DeclaredLink, DeclaredStream
from planner.model.query import JoinQuery, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query

TAU_MS = 100
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("j", pa.string()), ("v", pa.int64()), ("w", pa.int64())])
OTHER = pa.schema([("ts", pa.int64()), ("k", pa.int16()), ("j", pa.large_string()), ("v", pa.int64())])


def query(text: str = "", **schemas: pa.Schema) -> JoinQuery:
    text = text or "SELECT a.v FROM a [RANGE 1 S] AS a JOIN b [RANGE 1 S] AS b ON a.k = b.k"
    known = {"a": SCHEMA, "b": SCHEMA, "c": SCHEMA} | schemas
    catalogue = {name: StreamInfo(name, f"at_{name}", schema, "ts", TimeUnit.MS) for name, schema in known.items()}
    return parse_query(text, catalogue)


def sample(count: int, *, schema: pa.Schema = SCHEMA, batch_rows: float | None = None, keys: int = 10) -> Sample:
    """A tuple every 10 ms; keys go round."""
    numbers = np.arange(count)
    columns = {
        "ts": numbers * 10,
        "k": numbers % keys,
        "j": [f"j{n % keys}" for n in numbers],
        "v": numbers,
        "w": numbers,
    }
    rows = pa.record_batch(
        [pa.array(columns[name], kind) for name, kind in zip(schema.names, schema.types, strict=True)], schema=schema
    )
    return Sample(rows, numbers * 10, batch_rows)


def test_rate_span_batch_and_columns_of_a_small_stream() -> None:
    found = profile_of(query(), "a", TAU_MS, sample(1000))
    assert (found.rows, found.span_us) == (1000, 10_000_000)
    assert found.rate == pytest.approx(100)
    assert found.batch_rows == pytest.approx(10)
    assert set(found.column_bytes) == {"__ts", "k", "v"}
    (names,) = found.keys
    sketch = found.keys[names]
    assert names == ("k",)
    assert (len(sketch.hashes), sketch.limit) == (10, HASH_END)
    assert sketch.counts.tolist() == [100] * 10
    assert (np.diff(sketch.hashes.astype(np.float64)) > 0).all()
    # Key n is there first at 10 * n ms, and last in the hundredth round.
    assert sketch.first_us is not None
    assert sketch.last_us is not None
    assert sorted(sketch.first_us.tolist()) == [10_000 * n for n in range(10)]
    assert (sketch.last_us - sketch.first_us == 9_900_000).all()


def test_a_filter_is_applied_and_does_not_change_the_span() -> None:
    text = "SELECT a.v FROM a [RANGE 1 S] AS a JOIN b [RANGE 1 S] AS b ON a.k = b.k WHERE a.w < 250"
    found = profile_of(query(text), "a", TAU_MS, sample(1000))
    assert found.rows == 250
    assert found.rate == pytest.approx(25)
    assert found.batch_rows == pytest.approx(2.5)
    assert "w" not in found.column_bytes


def test_an_empty_stream_has_a_profile() -> None:
    found = profile_of(query(), "a", TAU_MS, sample(0))
    assert (found.rows, found.rate) == (0, 0)
    assert found.column_bytes == {"__ts": 0.0, "k": 0.0, "v": 0.0}
    assert len(found.keys["k",].hashes) == 0


@pytest.mark.parametrize("unit", [TimeUnit.MS, TimeUnit.US, TimeUnit.NS])
def test_times_as_large_as_any_do_no_harm(unit: TimeUnit) -> None:
    infos = {name: StreamInfo(name, name, SCHEMA, "ts", unit) for name in "ab"}
    large = parse_query(query().text, infos)
    ts = np.array([-(2**62) + 1, 0, 2**62 - 1])
    found = profile_of(large, "a", TAU_MS, Sample(sample(3).rows, ts))
    message = Profiles("q", (("a", for_the_wire(found, 1000 * TAU_MS)),))
    ((_, back),) = decode_message(encode_message(message)).profiles  # type: ignore[union-attr]
    assert back.rows == 3
    assert (back.keys["k",].first_us is None) == (unit is not TimeUnit.NS)


def test_the_sizes_of_all_columns_add_up_to_what_the_rows_take_on_a_link() -> None:
    random = np.random.default_rng(1)
    count, size = 20_000, 500
    text = [f"some words {n} and more" for n in random.integers(0, 300, count)]
    ts = np.sort(random.integers(0, 100_000, count))
    columns = [ts, random.integers(0, 9999, count), text, random.integers(0, 9, count), ts]
    rows = pa.record_batch(
        [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA
    )
    wide = "SELECT a.v, a.j AS aj FROM a [RANGE 1 S] AS a JOIN b [RANGE 1 S] AS b ON a.k = b.k"
    found = profile_of(query(wide), "a", TAU_MS, Sample(rows, ts, float(size)))
    link, sent = Compressor(), 0
    taken = rows.select(["ts", "k", "j", "v"])
    for start in range(0, count, size):
        sent += len(link.compress(encode_rows(taken.slice(start, size))))
    assert sum(found.column_bytes.values()) * count == pytest.approx(sent, rel=0.02)
    assert found.column_bytes["j"] > found.column_bytes["v"] > 0


def test_equal_keys_have_equal_hashes_whatever_their_type_and_order() -> None:
    text = "SELECT a.v FROM a [RANGE 1 S] AS a JOIN b [RANGE 1 S] AS b ON a.k = b.k AND a.j = b.j"
    both = query(text, b=OTHER)
    left = profile_of(both, "a", TAU_MS, sample(50))
    right = profile_of(both, "b", TAU_MS, sample(50, schema=OTHER))
    assert list(left.keys) == list(right.keys)
    assert {tuple(sorted(names)) for names in left.keys} == {("k",), ("j",), ("j", "k")}
    for names in left.keys:
        assert left.keys[names].hashes.tolist() == right.keys[names].hashes.tolist()
    crossed = pa.schema([("ts", pa.int64()), ("z", pa.int64()), ("y", pa.string()), ("v", pa.int64())])
    text = "SELECT a.v FROM a [RANGE 1 S] AS a JOIN b [RANGE 1 S] AS b ON a.k = b.z AND a.j = b.y"
    other = query(text, b=crossed)
    far = profile_of(
        other, "b", TAU_MS, Sample(sample(50).rows.select([0, 1, 2, 3]).rename_columns(crossed.names), sample(50).ts)
    )
    near = profile_of(other, "a", TAU_MS, sample(50))
    (far_pair,), (near_pair,) = ([names for names in one.keys if len(names) == 2] for one in (far, near))
    assert far.keys[far_pair].hashes.tolist() == near.keys[near_pair].hashes.tolist()


def test_the_smallest_hashes_of_consecutive_numbers_are_a_random_sample() -> None:
    hashes = key_hashes([pa.array(np.arange(100_000))])
    lowest = np.argsort(hashes)[:1000]
    assert abs(lowest.mean() - 50_000) < 3_000
    assert abs((lowest % 2).mean() - 0.5) < 0.06


def test_keys_with_a_null_are_not_counted() -> None:
    rows = pa.record_batch(
        [pa.array([1, 2, 3]), pa.array([7, None, 7]), pa.nulls(3, pa.string()), *[pa.array([1, 2, 3])] * 2],
        schema=SCHEMA,
    )
    found = profile_of(query(), "a", TAU_MS, Sample(rows, np.array([1, 2, 3])))
    assert found.rows == 3
    assert found.keys["k",].counts.tolist() == [2]


def test_what_is_sent_of_a_profile_is_small_and_still_a_sample() -> None:
    whole = profile_of(query(), "a", TAU_MS, sample(20_000, keys=5_000))
    sent = for_the_wire(whole, 1000 * TAU_MS)
    sketch = sent.keys["k",]
    assert 128 <= len(sketch.hashes) < 1_100
    assert distinct_keys(sketch) == pytest.approx(5_000, rel=0.3)
    assert sketch.first_us is not None
    assert not (sketch.first_us % (1000 * TAU_MS)).any()
    assert sketch.hashes.tolist() == whole.keys["k",].hashes[: len(sketch.hashes)].tolist()


def test_of_a_small_sample_less_is_sent() -> None:
    """A tenth of it, if that is less than usual, and never so little that nothing could be seen."""
    sent = {}
    for rows in (200, 2_000, 20_000):
        found = for_the_wire(profile_of(query(), "a", TAU_MS, sample(rows, keys=50_000)), 1000 * TAU_MS)
        sent[rows] = len(found.keys["k",].hashes)
        assert sent[rows] * 5 <= max(32 * 5, 0.1 * rows * sum(found.column_bytes.values()) + 5)
    assert 32 == sent[200] < sent[2_000] < sent[20_000] == 128


# The newest batches.


def batch(first: int, count: int) -> Batch:
    rows = pa.record_batch([pa.array(np.arange(count))], names=["ts"])
    return Batch(Span(first, first + 1), rows, np.arange(count) + first)


def test_a_stream_keeps_its_newest_batches_up_to_a_bound() -> None:
    recent = RecentBatches(rows_max=25)
    for first in range(5):
        recent.add(batch(first, 10))
        recent.add(batch(first, 0))
    assert [kept.span.first for kept in recent.batches()] == [3, 4]
    taken = sample_of(recent.batches())
    assert (taken.rows.num_rows, taken.batch_rows) == (20, 10.0)


def test_the_newest_batch_stays_however_large_it_is() -> None:
    recent = RecentBatches(bytes_max=8)
    recent.add(batch(1, 10))
    recent.add(batch(2, 10))
    assert [kept.span.first for kept in recent.batches()] == [2]


# What is declared.


def test_a_declared_rate_wins() -> None:
    measured = profile_of(query(), "a", TAU_MS, sample(1000))
    found = with_declared(measured, DeclaredStream(rate=400.0), 0.5, 1000 * TAU_MS)
    assert found.rate == pytest.approx(200)
    assert found.batch_rows == pytest.approx(20)
    assert found.rows == measured.rows


@pytest.mark.parametrize("count", [4, 10, 300, 100_000])
def test_a_declared_number_of_keys_wins(count: int) -> None:
    measured = profile_of(query(), "a", TAU_MS, sample(1000))
    found = with_declared(measured, DeclaredStream(distinct={"k": count}), 1.0, 1000 * TAU_MS)
    sketch = found.keys["k",]
    assert distinct_keys(sketch) == pytest.approx(count, rel=0.02)
    assert float(sketch.counts.sum()) * HASH_END / sketch.limit == pytest.approx(found.rows, rel=0.1)
    assert found.rate == pytest.approx(measured.rate)
    assert sketch.limit % 2**32 == 0
    assert int(sketch.hashes[-1]) < sketch.limit


def test_declared_sizes_win() -> None:
    measured = profile_of(query(), "a", TAU_MS, sample(1000))
    found = with_declared(measured, DeclaredStream(column_bytes={"v": 55.0, "unknown": 1.0}), 1.0, 1000 * TAU_MS)
    assert found.column_bytes == {**measured.column_bytes, "v": 55.0}


def test_what_is_declared_of_a_link_wins_and_the_rest_is_measured() -> None:
    measured = {("a", "b"): LinkStats(7_000, 5e6), ("b", "a"): LinkStats(7_000), ("a", "c"): LinkStats(1)}
    declared = (DeclaredLink("a", "b", None, 40_000, 0.05), DeclaredLink("b", "a", 1e6, 10_000))
    found = links_with_declared(measured, declared)
    assert found["a", "b"] == LinkStats(50_000, 5e6, 0.05)
    assert found["b", "a"] == LinkStats(50_000, 1e6)
    assert found["a", "c"] == LinkStats(1)
