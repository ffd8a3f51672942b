"""What every engine must do: cases against a brute force over Python values, whatever the engine.

A module that wants them imports everything and has two fixtures: ``engines`` makes an engine without windows,
``finishes`` says with which hashes of keys it can be made.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import strategies as st

from node.core import hashing
from node.core import keycodes as keys
from node.core.engine import (
    KEY,
    TS,
    Append,
    CloseWindow,
    Expire,
    Find,
    Op,
    OpenWindow,
    Probe,
    Question,
    SiteEngine,
    joined_schema,
)
from node.core.hashing import U64
from node.engine import runs, tiers
from tests.sim.reference_engine import ReferenceEngine


class Engines(Protocol):
    """Makes an engine without windows. The one made before may be of no use any more."""

    def __call__(self, finish: keys.Finish = hashing.scramble) -> SiteEngine: ...


# --- the brute force ---------------------------------------------------------------------------------


def values_of(column: pa.Array) -> list[Any]:
    """Python values; instants and durations as integers, for want of nanoseconds in Python."""
    kind = column.type
    whole = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    values: list[Any] = (column.cast(pa.int64()) if whole else column).to_pylist()
    return values


def key_values(batch: pa.RecordBatch, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return list(zip(*[values_of(batch.column(name)) for name in names], strict=True))


def brute_force(window: pa.RecordBatch, window_keys: tuple[str, ...], probe: Probe) -> Counter[str]:
    """The definition in node.core.engine, pair by pair."""
    kept = [name for name in window.schema.names if name != TS]
    mine = list(zip(key_values(window, window_keys), window[TS].to_pylist(), cells(window.select(kept)), strict=True))
    rows: Counter[str] = Counter()
    for key, ts, cell in zip(
        key_values(probe.rows, probe.carry_keys), probe.rows[probe.position].to_pylist(), cells(probe.rows), strict=True
    ):
        for other, other_ts, other_cell in mine:
            in_time = ts - probe.range_length <= other_ts and (other_ts <= ts if probe.include_ties else other_ts < ts)
            visible = in_time and (probe.low is None or other_ts >= probe.low)
            if visible and None not in key and key == other:
                rows[repr(cell + other_cell)] += 1
    return rows


def brute_find(window: pa.RecordBatch, window_keys: tuple[str, ...], find: Find) -> Counter[str]:
    """The definition of Find, pair by pair."""
    mine = list(zip(key_values(window, window_keys), window[TS].to_pylist(), cells(window), strict=True))
    rows: Counter[str] = Counter()
    for number, key in enumerate(zip(*[values_of(column) for column in find.keys.columns], strict=True)):
        for other, ts, cell in mine:
            if find.low <= ts < find.high and None not in key and key == other:
                rows[repr((*cell, repr(number)))] += 1
    return rows


def found_schema(window: pa.Schema) -> pa.Schema:
    return pa.schema([*window, (KEY, pa.int64())])


def cells(batch: pa.RecordBatch) -> list[tuple[str, ...]]:
    if not batch.num_columns:
        return [()] * batch.num_rows
    return list(zip(*[[repr(value) for value in values_of(column)] for column in batch.columns], strict=True))


def as_counter(answer: pa.RecordBatch) -> Counter[str]:
    return Counter(repr(row) for row in cells(answer))


class Judge:
    """Feeds an engine and a plain list of batches alike, and compares every answer."""

    def __init__(
        self,
        engines: Engines,
        schema: pa.Schema,
        window_keys: tuple[str, ...],
        finish: keys.Finish = hashing.scramble,
    ) -> None:
        self.engine = engines(finish)
        self.schema, self.window_keys = schema, window_keys
        self.batches = [pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)]
        self.engine.run([OpenWindow("w", schema, window_keys)])

    def append(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.engine.run([Append("w", batch)])

    def check(
        self, carries: list[pa.RecordBatch], carry_keys: tuple[str, ...], reach: int, ties: bool
    ) -> list[pa.RecordBatch]:
        window = pa.concat_batches(self.batches)
        probes = [Probe("w", carry, carry_keys, reach, ties) for carry in carries]
        answers = self.engine.run(probes)
        assert len(answers) == len(probes)
        for answer, probe in zip(answers, probes, strict=True):
            answer.validate(full=True)
            assert answer.schema.equals(joined_schema(probe.rows.schema, self.schema))
            assert as_counter(answer) == brute_force(window, self.window_keys, probe)
        return answers

    def find(self, wanted: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
        find = Find("w", wanted, low, high)
        (answer,) = self.engine.run([find])
        answer.validate(full=True)
        assert answer.schema.equals(found_schema(self.schema))
        assert as_counter(answer) == brute_find(pa.concat_batches(self.batches), self.window_keys, find)
        return answer


def batch_of(ts: list[int], **columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({TS: pa.array(ts, pa.int64()), **columns})


def sliced(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, but at offset 3 of a longer batch."""
    if not batch.num_rows:
        return batch
    rows = [batch.num_rows - 1, 0, 0, *range(batch.num_rows), 0]
    return pa.RecordBatch.from_arrays([c.take(pa.array(rows)) for c in batch.columns], schema=batch.schema).slice(
        3, batch.num_rows
    )


# --- hashes that collide -----------------------------------------------------------------------------


def all_collide(words: U64) -> U64:
    return np.zeros_like(words)


def most_collide(words: U64) -> U64:
    return hashing.scramble(words) & np.uint64(3)


FINISHES = [hashing.scramble, most_collide, all_collide]

# --- key types ---------------------------------------------------------------------------------------

WORDS = ["", "\0", "\0\0", "a", "a\0", "a\0b", "é", "日本", "12345678", "12345678\0", "123456789", "x" * 31, "x" * 32]
WORDS += ["x" * 33, "x" * 40_000, "x" * 39_999 + "y", "y" + "x" * 39_999]
BLOBS = [word.encode() for word in WORDS] + [b"\xff\xfe", b"\xff" * 8]
SIXTEEN = [b"0" * 16, b"0" * 15 + b"1", b"1" + b"0" * 15, b"\0" * 16]
MOMENTS = [-(2**62), -1, 0, 1, 1_700_000_000, 2**62]
DECIMALS = [Decimal(text) for text in ("0.00", "0.01", "-0.01", "12.34", "-99.99")]
BIG_DECIMALS = [*DECIMALS, Decimal("-" + "9" * 30 + ".00"), Decimal("9" * 30 + ".01")]
DAYS = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]

FAMILIES: dict[str, tuple[list[pa.DataType], list[Any]]] = {
    "integer": (
        [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()],
        [0, 1, 2, 127],
    ),
    "signed integer": ([pa.int8(), pa.int16(), pa.int32(), pa.int64()], [-128, -1, 0, 127]),
    "beyond int8": ([pa.int16(), pa.int64(), pa.uint8(), pa.uint32()], [0, 127, 128, 200, 255]),
    "beyond int32": ([pa.int64(), pa.uint32()], [0, 2**31 - 1, 2**31, 2**32 - 1]),
    "uint64": ([pa.uint64()], [0, 1, 2**63 - 1, 2**63, 2**64 - 1]),
    "string": ([pa.string(), pa.large_string(), pa.string_view()], WORDS),
    "binary": ([pa.binary(), pa.large_binary()], BLOBS),
    "bool": ([pa.bool_()], [True, False]),
    "date32": ([pa.date32()], DAYS),
    "date64": ([pa.date64()], DAYS),
    "timestamp": ([pa.timestamp("ns"), pa.timestamp("ns")], MOMENTS),
    "timestamp tz": ([pa.timestamp("us", tz) for tz in ("UTC", "Europe/Paris", "+03:00")], [0, 1, 10**15]),
    "decimal32": ([pa.decimal32(6, 2)], DECIMALS),
    "decimal64": ([pa.decimal64(16, 2)], DECIMALS),
    "decimal128": ([pa.decimal128(38, 2)], BIG_DECIMALS),
    "decimal256": ([pa.decimal256(60, 2)], BIG_DECIMALS),
    "fixed 16": ([pa.binary(16)], SIXTEEN),
    "fixed 3": ([pa.binary(3)], [b"abc", b"ab\0", b"\0ab"]),
    "fixed 0": ([pa.binary(0)], [b""]),
}
PAIRS = [(name, one, other) for name, (kinds, _) in FAMILIES.items() for one in kinds for other in kinds]


def pick(rng: random.Random, values: list[Any], kind: pa.DataType, count: int, nulls: bool = True) -> pa.Array:
    return column_of([rng.choice([*values, None] if nulls else values) for _ in range(count)], kind)


def column_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


def distinct(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The first row of each key."""
    numbered = list(enumerate(key_values(batch, tuple(batch.schema.names))))
    return batch.take(pa.array(sorted({key: place for place, key in reversed(numbered)}.values()), pa.int64()))


@pytest.mark.parametrize("slicing", [False, True], ids=["whole", "sliced"])
@pytest.mark.parametrize(("family", "mine", "theirs"), PAIRS, ids=str)
def test_keys_of_one_family_join_whatever_their_widths(
    engines: Engines,
    finishes: Sequence[keys.Finish],
    family: str,
    mine: pa.DataType,
    theirs: pa.DataType,
    slicing: bool,
) -> None:
    rng = random.Random(f"{family}{mine}{theirs}")
    values = FAMILIES[family][1]
    shape: Callable[[pa.RecordBatch], pa.RecordBatch] = sliced if slicing and mine != pa.string_view() else lambda b: b
    schema = pa.schema([(TS, pa.int64()), ("w.k", mine), ("w.id", pa.int32())])
    for finish in finishes:
        judge = Judge(engines, schema, ("w.k",), finish)
        for step in range(3):
            ids = pa.array(range(10 * step, 10 * step + 10), pa.int32())
            judge.append(shape(batch_of([step] * 10, **{"w.k": pick(rng, values, mine, 10), "w.id": ids})))
        carry = batch_of([2] * 12, **{"c.k": pick(rng, values, theirs, 12)})
        (answer,) = judge.check([carry if theirs == pa.string_view() else shape(carry)], ("c.k",), 1, True)
        assert answer.num_rows
        wanted = pa.record_batch({"any": column_of([*values[1:], None, values[0]], theirs)})
        assert judge.find(wanted if theirs == pa.string_view() else shape(wanted), 1, 3).num_rows


def test_a_negative_number_does_not_join_the_unsigned_one_of_the_same_bits(engines: Engines) -> None:
    judge = Judge(engines, pa.schema([(TS, pa.int64()), ("w.k", pa.int8())]), ("w.k",))
    judge.append(batch_of([0], **{"w.k": pa.array([-56], pa.int8())}))
    (answer,) = judge.check([batch_of([1], **{"c.k": pa.array([200], pa.uint8())})], ("c.k",), 9, False)
    assert answer.num_rows == 0
    assert judge.find(pa.record_batch({"k": pa.array([200], pa.uint8())}), 0, 9).num_rows == 0


@pytest.mark.parametrize(("family", "kind"), [(name, kind) for name, one, kind in PAIRS if one == kind], ids=str)
def test_null_keys_match_nothing_not_even_null(engines: Engines, family: str, kind: pa.DataType) -> None:
    judge = Judge(engines, pa.schema([(TS, pa.int64()), ("w.k", kind)]), ("w.k",))
    judge.append(batch_of([0] * 5, **{"w.k": pa.nulls(5, kind)}))
    assert judge.engine.rows("w") == 0
    judge.append(batch_of([0] * 2, **{"w.k": pick(random.Random(0), FAMILIES[family][1], kind, 2, nulls=False)}))
    (answer,) = judge.check([batch_of([1] * 3, **{"c.k": pa.nulls(3, kind)})], ("c.k",), 9, False)
    assert answer.num_rows == 0
    assert judge.find(pa.record_batch({"k": pa.nulls(1, kind)}), -9, 9).num_rows == 0
    assert judge.engine.rows("w") == 2


@pytest.mark.parametrize("seed", range(12))
def test_keys_of_several_columns_join_only_when_all_are_equal(engines: Engines, seed: int, finish: keys.Finish) -> None:
    rng = random.Random(seed)
    chosen = [(kinds, values[:3]) for kinds, values in rng.sample(list(FAMILIES.values()), rng.choice([2, 3]))]
    kinds = [rng.choice(options) for options, _ in chosen]
    schema = pa.schema([(TS, pa.int64()), *((f"w.{i}", kind) for i, kind in enumerate(kinds))])
    judge = Judge(engines, schema, tuple(f"w.{i}" for i in range(len(kinds))), finish)
    for step in range(3):
        columns = {f"w.{i}": pick(rng, chosen[i][1], kind, 20) for i, kind in enumerate(kinds)}
        judge.append(batch_of([step] * 20, **columns))
    others = [rng.choice(options) for options, _ in chosen]
    carry = batch_of([3] * 20, **{f"c.{i}": pick(rng, chosen[i][1], kind, 20) for i, kind in enumerate(others)})
    judge.check([carry], tuple(f"c.{i}" for i in range(len(kinds))), 2, False)
    judge.find(distinct(carry.drop_columns([TS])), 1, 3)


def test_order_of_key_columns_counts(engines: Engines) -> None:
    judge = Judge(engines, pa.schema([(TS, pa.int64()), ("w.a", pa.int64()), ("w.b", pa.int64())]), ("w.a", "w.b"))
    judge.append(batch_of([0, 0], **{"w.a": pa.array([1, 2]), "w.b": pa.array([2, 1])}))
    (answer,) = judge.check([batch_of([1], **{"c.a": pa.array([1]), "c.b": pa.array([2])})], ("c.a", "c.b"), 5, False)
    assert answer.num_rows == 1
    assert judge.find(pa.record_batch({"b": pa.array([1]), "a": pa.array([2])}), 0, 1).num_rows == 1


def test_empty_pieces_of_a_two_column_string_key_do_not_run_together(engines: Engines) -> None:
    judge = Judge(engines, pa.schema([(TS, pa.int64()), ("w.a", pa.string()), ("w.b", pa.string())]), ("w.a", "w.b"))
    judge.append(batch_of([0, 0, 0], **{"w.a": pa.array(["ab", "a", ""]), "w.b": pa.array(["", "b", "ab"])}))
    carry = batch_of([1], **{"c.a": pa.array(["a"]), "c.b": pa.array(["b"])})
    (answer,) = judge.check([carry], ("c.a", "c.b"), 5, False)
    assert answer.num_rows == 1


# --- random programs ---------------------------------------------------------------------------------

SCHEMA = pa.schema([(TS, pa.int64()), ("w.k", pa.string()), pa.field("w.id", pa.int64(), nullable=False)])


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Appends with gaps and ties in time, expiry, and groups of probes; few distinct keys, one of them hot."""
    key = st.sampled_from(["hot", "hot", "hot", "a", "b", "c", "rare" * 9, None])
    rows = st.lists(st.tuples(st.integers(0, 2), key), max_size=12)
    probe = st.lists(st.tuples(st.integers(-3, 8), key), max_size=6)
    step = st.one_of(
        st.tuples(st.just("append"), rows),
        st.tuples(st.just("append"), rows),
        st.tuples(st.just("expire"), st.integers(0, 10)),
        st.tuples(st.just("probe"), st.tuples(st.lists(probe, max_size=3), st.integers(0, 12), st.booleans())),
    )
    return draw(st.lists(step, max_size=25))


def check_any_program(engines: Engines, finish: keys.Finish, program: list[tuple[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "_FLOOR", 1)
        patch.setattr(runs, "_FILTERED_ROWS", 4)
        patch.setattr(runs, "_FILTERED_QUERIES", 2)
        judge = Judge(engines, SCHEMA, ("w.k",), finish)
        now, count, expired = 0, 0, -(2**62)
        for what, detail in program:
            if what == "append":
                ts = []
                for gap, _ in detail:
                    now += gap
                    ts.append(now)
                ids = pa.array(range(count, count + len(detail)), pa.int64())
                columns = {TS: ts, "w.k": [key for _, key in detail], "w.id": ids}
                judge.append(pa.record_batch(columns, schema=SCHEMA))
                count += len(detail)
            elif what == "expire":
                expired = max(expired, now - detail)
                judge.engine.run([Expire("w", expired)])
            else:
                probes, reach, ties = detail
                carries = [
                    pa.record_batch(
                        {
                            TS: pa.array([max(now - back, expired + reach) for back, _ in rows], pa.int64()),
                            "c.k": pa.array([key for _, key in rows], pa.large_string()),
                        }
                    )
                    for rows in probes
                ]
                judge.check(carries, ("c.k",), reach, ties)


#: Windows over the same kind of rows: a key that is its own code, one that is hashed, one of two columns.
WIDE = pa.schema([("w.k", pa.string()), (TS, pa.int64()), ("w.j", pa.int16()), ("w.id", pa.int64())])
KEYED = {"whole": ("w.j",), "hashed": ("w.k",), "both": ("w.k", "w.j"), "turned": ("w.j", "w.k")}
ASKED = {"w.k": ("c.k", pa.large_string()), "w.j": ("c.j", pa.int64())}


@st.composite
def disorder(draw: st.DrawFn, names: tuple[str, ...]) -> list[Op]:
    """Appends, expiry, probes and finds in any order of time, never asking for what has expired."""
    times, words, numbers = st.integers(-20, 20), st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, None])
    rows = st.lists(st.tuples(words, times, numbers, st.integers(0, 99)), max_size=10)
    questions = st.lists(st.tuples(times, words, numbers, times), max_size=6)
    expired = -20
    ops: list[Op] = [OpenWindow("w", WIDE, names)]
    for what in draw(st.lists(st.sampled_from(["append", "append", "append", "expire", "probe", "find"]), max_size=25)):
        if what == "append":
            columns = list(zip(*draw(rows.filter(len)), strict=True))
            ops.append(
                Append(
                    "w", pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, WIDE, strict=True)], schema=WIDE)
                )
            )
        elif what == "expire":
            before = draw(times)
            expired = max(expired, before)
            ops.append(Expire("w", before))
        elif what == "probe":
            ops.append(
                a_probe(
                    draw(questions),
                    names,
                    expired,
                    draw(st.integers(0, 9)),
                    draw(st.booleans()),
                    draw(st.sampled_from([TS, "c.at"])),
                    draw(st.none() | st.integers(-5, 30)),
                )
            )
        else:
            low = draw(st.integers(expired, 25))
            ops.append(a_find(draw(questions), names, low, draw(st.integers(low - 3, 30))))
    return ops


def a_probe(
    rows: Sequence[tuple[Any, ...]],
    names: tuple[str, ...],
    expired: int,
    reach: int,
    ties: bool,
    position: str,
    low: int | None,
) -> Probe:
    carry = pa.record_batch(
        {
            "c.k": pa.array([row[1] for row in rows], pa.large_string()),
            TS: pa.array([max(row[0], expired + reach) for row in rows], pa.int64()),
            "c.at": pa.array([max(row[3], expired + reach) for row in rows], pa.int64()),
            "c.j": pa.array([row[2] for row in rows], pa.int64()),
        }
    )
    return Probe("w", carry, tuple(ASKED[name][0] for name in names), reach, ties, position, low=low)


def a_find(rows: Sequence[tuple[Any, ...]], names: tuple[str, ...], low: int, high: int) -> Find:
    distinct = list(dict.fromkeys(tuple(row[1] if name == "w.k" else row[2] for name in names) for row in rows))
    columns = [pa.array([key[i] for key in distinct], ASKED[name][1]) for i, name in enumerate(names)]
    return Find("w", pa.RecordBatch.from_arrays(columns, names=[ASKED[name][0] for name in names]), low, high)


def assert_alike(answers: Sequence[pa.RecordBatch], expected: Sequence[pa.RecordBatch]) -> None:
    for answer, other in zip(answers, expected, strict=True):
        answer.validate(full=True)
        assert answer.schema.equals(other.schema)
        assert as_counter(answer) == as_counter(other)


def check_any_order_of_time(engines: Engines, keyed: str, finish: keys.Finish, data: st.DataObject) -> None:
    ops = data.draw(disorder(KEYED[keyed]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "_FLOOR", data.draw(st.sampled_from([1, 2000])))
        patch.setattr(runs, "_FILTERED_ROWS", 4)
        patch.setattr(runs, "_FILTERED_QUERIES", 2)
        engine, reference = engines(finish), ReferenceEngine()
        assert_alike(engine.run(ops), reference.run(ops))
    live = [row for row in reference._rows["w"] if None not in [row[name] for name in KEYED[keyed]]]
    assert engine.rows("w") == len(live)


#: What ``check_any_order_of_arrival`` and ``check_extreme_times`` are given.
ARRIVALS: dict[str, st.SearchStrategy[Any]] = {
    "rows": st.permutations([(ts, key) for ts in (0, 1, 1, 2, 5, 8) for key in "aab"]),
    "cuts": st.lists(st.integers(1, 7)),
}
EXTREMES: dict[str, st.SearchStrategy[Any]] = {
    "window": st.lists(st.integers(-(2**62) + 1, 2**62 - 1), max_size=20),
    "carry": st.lists(st.integers(-(2**62) + 1, 2**62 - 1), max_size=8),
    "reach": st.integers(0, 2**62),
    "ties": st.booleans(),
}


def check_any_order_of_arrival(engines: Engines, rows: list[tuple[int, str]], cuts: list[int]) -> None:
    engine = engines()
    engine.run([OpenWindow("w", SCHEMA, ("w.k",))])
    whole = pa.record_batch({TS: [r[0] for r in rows], "w.k": [r[1] for r in rows], "w.id": [0] * 18}, schema=SCHEMA)
    ends = [*itertools.takewhile(lambda end: end < 18, itertools.accumulate(cuts)), 18]
    engine.run([Append("w", whole.slice(start, end - start)) for start, end in itertools.pairwise([0, *ends])])
    carry = batch_of([2, 1, 6], **{"c.k": pa.array(["a", "b", "a"])})
    probed, found = engine.run(
        [Probe("w", carry, ("c.k",), 1, True), Find("w", pa.record_batch({"k": pa.array(["b", "a"])}), 1, 5)]
    )
    assert Counter(probed[TS].to_pylist()) == {2: 6, 1: 3, 6: 2}
    pairs = zip(found[TS].to_pylist(), found[KEY].to_pylist(), strict=True)
    assert Counter(pairs) == {(1, 0): 2, (2, 0): 1, (1, 1): 4, (2, 1): 2}


def check_extreme_times(engines: Engines, window: list[int], carry: list[int], reach: int, ties: bool) -> None:
    judge = Judge(engines, pa.schema([(TS, pa.int64()), ("w.k", pa.int8())]), ("w.k",))
    judge.append(batch_of(sorted(window), **{"w.k": pa.array([0] * len(window), pa.int8())}))
    judge.check([batch_of(carry, **{"c.k": pa.array([0] * len(carry), pa.int64())})], ("c.k",), reach, ties)


@pytest.mark.parametrize("ts", [-(2**63), -(2**62), 0, 2**62, 2**63 - 1])
@pytest.mark.parametrize("reach", [0, 2**62, 2**63 - 1, 2**64])
def test_times_at_the_ends_of_int64_saturate(engines: Engines, ts: int, reach: int) -> None:
    judge = Judge(engines, pa.schema([(TS, pa.int64()), ("w.k", pa.int64())]), ("w.k",))
    judge.append(batch_of([-(2**63), -(2**62), 0, 2**62, 2**63 - 1], **{"w.k": pa.array([7] * 5)}))
    for ties in (False, True):
        judge.check([batch_of([ts], **{"c.k": pa.array([7])})], ("c.k",), reach, ties)


# --- payload -----------------------------------------------------------------------------------------


def payload_columns() -> Iterator[tuple[str, pa.Array]]:
    """Four rows of every type, with nulls where the type has them."""
    simple: dict[Any, list[Any]] = {
        pa.null(): [None] * 4,
        pa.bool_(): [True, None, False, True],
        pa.float16(): [1.5, None, -0.0, 2.0],
        pa.float64(): [math.inf, None, 0.1, -1.0],
        pa.time32("s"): [dt.time(1), None, dt.time(2), dt.time(3)],
        pa.duration("ns"): [1, None, 2, 3],
        pa.month_day_nano_interval(): [(1, 2, 3), None, (4, 5, 6), (0, 0, 0)],
        pa.decimal256(70, 3): [Decimal("1.5"), None, Decimal("-2"), Decimal("9" * 60)],
        pa.decimal32(5, 1): [Decimal("1.5"), None, Decimal("-2"), Decimal("0")],
        pa.string(): ["", None, "é", "x" * 100],
        pa.string_view(): ["", None, "é", "x" * 100],
        pa.binary_view(): [b"", None, b"\xff", b"x" * 100],
        pa.binary(0): [b"", None, b"", b""],
        pa.list_(pa.list_(pa.int8())): [[[1], []], None, [], [None, [2]]],
        pa.list_(pa.string_view()): [["a" * 20], None, [], [None]],
        pa.list_view(pa.int8()): [[1], None, [], [2, 3]],
        pa.list_(pa.int8(), 2): [[1, 2], None, [3, None], [4, 5]],
        pa.large_list(pa.bool_()): [[True], None, [], [None]],
        pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.string_view())]))]): [
            {"a": 1, "b": {"c": "x"}},
            None,
            {"a": None, "b": None},
            {"a": 2, "b": {"c": None}},
        ],
        pa.map_(pa.string(), pa.int8()): [[("a", 1)], None, [], [("b", None)]],
        pa.dictionary(pa.int8(), pa.string()): ["a", None, "b", "a"],
    }
    for kind, values in simple.items():
        yield str(kind), pa.array(values, kind)
    yield "run ends", pc.run_end_encode(pa.array(["a", "a", None, "b"]), run_end_type=pa.int32())
    codes = pa.array([0, 1, 0, 1], pa.int8())
    yield "sparse union", pa.UnionArray.from_sparse(codes, [pa.array([1, 2, 3, 4]), pa.array(["a", "b", "c", "d"])])
    places = pa.array([0, 0, 1, 1], pa.int32())
    yield "dense union", pa.UnionArray.from_dense(codes, places, [pa.array([1, None]), pa.array(["a", "b"])])
    yield "extension", pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 4, pa.binary(16)))


@pytest.mark.parametrize("column", [pytest.param(column, id=name) for name, column in payload_columns()])
def test_payload_of_every_type_comes_back_as_it_went_in(engines: Engines, column: pa.Array) -> None:
    key = pa.array([1, 2, 1, 3])
    window = batch_of([0, 1, 2, 3], **{"w.k": key, "w.p": column})
    judge = Judge(engines, window.schema, ("w.k",))
    carry = batch_of([99] * 3, **{"c.k": pa.array([1, 3, 1]), "c.p": column.slice(1)})
    judge.check([carry, carry.slice(0, 0), carry], ("c.k",), 99, False)
    for first in range(0, 40, 4):
        ts = pa.array(range(first, first + 4))
        judge.append(window.set_column(0, TS, ts))
    answer, empty, same = judge.check([carry, carry.slice(0, 0), carry], ("c.k",), 99, False)
    assert empty.num_rows == 0
    assert answer.num_rows == same.num_rows == 50
    assert judge.find(pa.record_batch({"k": pa.array([3, 1])}), 10, 30).num_rows == 15


def test_answer_keeps_nullability_and_field_metadata(engines: Engines) -> None:
    schema = pa.schema(
        [
            (TS, pa.int64()),
            pa.field("w.k", pa.int64(), nullable=False),
            pa.field("w.p", pa.string(), metadata={"a": "b"}),
        ]
    )
    carry_schema = pa.schema([pa.field("c.k", pa.int64(), nullable=False), pa.field(TS, pa.int64(), nullable=False)])
    judge = Judge(engines, schema, ("w.k",))
    carry = pa.record_batch([pa.array([1]), pa.array([5])], schema=carry_schema)
    for _ in range(2):
        (answer,) = judge.check([carry], ("c.k",), 9, False)
        assert answer.schema.names == ["c.k", TS, "w.k", "w.p"]
        assert not answer.schema.field("w.k").nullable
        assert answer.schema.field("w.p").metadata == {b"a": b"b"}
        judge.append(pa.record_batch([pa.array([1]), pa.array([1]), pa.array(["x"])], schema=schema))


def test_expiring_everything_frees_everything(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("w.k",))
    for ts in range(50):
        judge.append(pa.record_batch({TS: [ts] * 3, "w.k": ["a", "b", None], "w.id": [1, 2, 3]}, schema=SCHEMA))
    assert judge.engine.rows("w") == 100
    assert judge.engine.nbytes("w") > 0
    judge.engine.run([Expire("w", 50)])
    assert judge.engine.rows("w") == judge.engine.nbytes("w") == 0
    judge.check([], ("c.k",), 0, False)


def test_expiry_keeps_rows_of_exactly_its_time(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("w.k",))
    judge.append(pa.record_batch({TS: [5, 5], "w.k": ["a", "a"], "w.id": [1, 2]}, schema=SCHEMA))
    judge.engine.run([Expire("w", 5)])
    assert judge.engine.rows("w") == 2
    (answer,) = judge.check([batch_of([9], **{"c.k": pa.array(["a"])})], ("c.k",), 4, False)
    assert answer.num_rows == 2
    judge.engine.run([Expire("w", 6)])
    assert judge.engine.rows("w") == 0


# --- the engine --------------------------------------------------------------------------------------


def probe_of(window: str = "w", key: str = "c.k", kind: pa.DataType | None = None) -> Probe:
    carry = batch_of([1], **{key: pa.array(["a"]) if kind is None else pa.nulls(1, kind)})
    return Probe(window, carry, (key,), 1, False)


def append_of(*ts: int | None) -> Append:
    columns = {TS: ts, "w.k": ["a"] * len(ts), "w.id": range(len(ts))}
    return Append("w", pa.record_batch(columns, schema=SCHEMA))


def positioned(name: str, kind: pa.DataType) -> Probe:
    return Probe("w", batch_of([1], **{"c.k": pa.array(["a"]), "c.at": pa.nulls(1, kind)}), ("c.k",), 1, False, name)


def find_of(values: list[Any], low: Any = 0, high: Any = 9, window: str = "w") -> Find:
    return Find(window, pa.record_batch({"k": pa.array(values)}), low, high)


BAD_SCHEMA = pa.schema([("w.k", pa.string())])
WRONG: dict[str, tuple[Op, str]] = {
    "probe of an unknown window": (probe_of("v"), "'v'; open are \\['w'\\]"),
    "expiry of an unknown window": (Expire("v", 0), "open window required"),
    "closing an unknown window": (CloseWindow("v"), "open window required"),
    "opening twice": (OpenWindow("w", SCHEMA, ("w.k",)), "which is open"),
    "opening without TS": (OpenWindow("v", BAD_SCHEMA, ("w.k",)), "one column '__ts' required"),
    "opening with time as a key": (OpenWindow("v", SCHEMA, ("w.k", TS)), "keys other than __ts required"),
    "opening with a missing key": (OpenWindow("v", SCHEMA, ("w.z",)), "one column 'w.z' required"),
    "opening with a float key": (
        OpenWindow("v", pa.schema([(TS, pa.int64()), ("w.k", pa.float64())]), ("w.k",)),
        "got double",
    ),
    "opening with a TS of another type": (
        OpenWindow("v", pa.schema([(TS, pa.int32()), ("w.k", pa.string())]), ("w.k",)),
        "must be int64, got int32",
    ),
    "rows of another schema": (Append("w", batch_of([1], **{"w.k": pa.array(["a"])})), "required schema"),
    "rows without time": (append_of(11, None), "append to window 'w': __ts in every row required, got 1 nulls"),
    "carry without its key": (Probe("w", batch_of([1]), ("c.k",), 1, False), "one column 'c.k' required"),
    "carry with too many keys": (Probe("w", probe_of().rows, ("c.k", "c.k"), 1, False), "1 keys required"),
    "carry of another family": (probe_of(kind=pa.int64()), "comparable with 'w.k'"),
    "a negative range": (Probe("w", probe_of().rows, ("c.k",), -1, False), "range_length >= 0"),
    "carry without its position": (positioned("c.z", pa.int64()), "probe of window 'w': one column 'c.z' required"),
    "carry with a position of another type": (positioned("c.at", pa.int32()), "c.at must be int64, got int32"),
    "carry with a position that is null": (positioned("c.at", pa.int64()), "c.at in every row required, got 1 nulls"),
    "find in an unknown window": (find_of(["a"], window="v"), "find: an open window required, got 'v'"),
    "find without a key": (Find("w", batch_of([]).select([]), 0, 1), "1 key columns required, for \\['w.k'\\]"),
    "find with too many keys": (Find("w", pa.record_batch({"a": ["a"], "b": ["b"]}), 0, 1), "got \\['a', 'b'\\]"),
    "find of another family": (find_of([1]), "find in window 'w': key 'k' must be comparable with 'w.k'"),
    "find of a dictionary": (
        Find("w", pa.record_batch({"k": pa.array(["a"]).dictionary_encode()}), 0, 1),
        "comparable with 'w.k', string, got dictionary",
    ),
    "find from no number": (find_of(["a"], low=0.5), "low and high must be int, got 0.5 and 9"),
    "find to no number": (find_of(["a"], high=None), "low and high must be int, got 0 and None"),
}


@pytest.mark.parametrize(("op", "message"), [pytest.param(*case, id=name) for name, case in WRONG.items()])
def test_engine_refuses(engines: Engines, op: Op, message: str) -> None:
    engine = engines()
    engine.run([OpenWindow("w", SCHEMA, ("w.k",)), append_of(10)])
    with pytest.raises(ValueError, match=message):
        engine.run([op])
    assert engine.rows("w") == 1


def test_a_closed_window_can_be_opened_anew_and_is_empty(engines: Engines) -> None:
    engine = engines()
    again: list[Op] = [
        OpenWindow("w", SCHEMA, ("w.k",)),
        append_of(0),
        CloseWindow("w"),
        OpenWindow("w", SCHEMA, ("w.k",)),
    ]
    (answer,) = engine.run([*again, probe_of()])
    assert answer.num_rows == engine.rows("w") == 0


def test_operations_take_effect_in_order_and_probes_answer_in_order(engines: Engines) -> None:
    engine = engines()
    ops: list[Op] = [
        OpenWindow("w", SCHEMA, ("w.k",)),
        probe_of(),
        append_of(0),
        probe_of(),
        append_of(0),
        probe_of(),
        probe_of(),
    ]
    assert [answer.num_rows for answer in engine.run(ops)] == [0, 1, 2, 2]


def test_probes_that_differ_are_not_answered_as_one(engines: Engines) -> None:
    engine = engines()
    rows = batch_of([5], **{"c.k": pa.array(["a"])})
    other = batch_of([5], **{"c.j": pa.array(["a"])})
    large = batch_of([5], **{"c.k": pa.array(["a"], pa.large_string())})
    placed = batch_of([5], **{"c.k": pa.array(["a"]), "c.at": pa.array([1])})
    variants = [
        Probe("w", rows, ("c.k",), 5, False),
        Probe("w", rows, ("c.k",), 5, True),
        Probe("w", rows, ("c.k",), 2, True),
        Probe("w", other, ("c.j",), 2, True),
        Probe("w", large, ("c.k",), 2, True),
        Probe("w", placed, ("c.k",), 2, True),
        Probe("w", placed, ("c.k",), 2, True, "c.at"),
    ]
    answers = engine.run([OpenWindow("w", SCHEMA, ("w.k",)), append_of(0, 1, 1, 3, 5), *variants])
    assert [answer.num_rows for answer in answers] == [4, 5, 2, 2, 2, 2, 3]
    assert [answer.schema.field(1).type for answer in answers[3:5]] == [pa.string(), pa.large_string()]


# --- positions ---------------------------------------------------------------------------------------


def test_a_position_column_places_the_carry_and_stays_in_the_answer(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("w.k",))
    judge.append(append_of(*range(10)).rows)
    carry = batch_of([0, 100], **{"c.at": pa.array([3, 7]), "c.k": pa.array(["a", "a"])})
    (answer,) = judge.engine.run([Probe("w", carry, ("c.k",), 2, False, "c.at")])
    assert answer.schema.names == [TS, "c.at", "c.k", "w.k", "w.id"]
    rows = zip(*[answer[name].to_pylist() for name in (TS, "c.at", "w.id")], strict=True)
    assert sorted(rows) == [(0, 3, 1), (0, 3, 2), (100, 7, 5), (100, 7, 6)]


def test_a_carry_with_another_position_needs_no_time(engines: Engines) -> None:
    engine = engines()
    carry = pa.record_batch({"c.k": pa.array(["a"]), "c.at": pa.array([3])})
    probe = Probe("w", carry, ("c.k",), 1, True, "c.at")
    (answer,) = engine.run([OpenWindow("w", SCHEMA, ("w.k",)), append_of(1, 2, 3, 4), probe])
    assert answer.schema.names == ["c.k", "c.at", "w.k", "w.id"]
    assert sorted(answer["w.id"].to_pylist()) == [1, 2]


# --- find --------------------------------------------------------------------------------------------


def test_find_gives_whole_rows_with_their_times_and_the_number_of_their_key(engines: Engines) -> None:
    engine = engines()
    rows = pa.record_batch(
        [["b", "a", None, "b"], [5, 4, 5, 2], [1, 2, 3, None], [10, 11, 12, 13]],
        schema=WIDE,
    )
    (answer,) = engine.run(
        [OpenWindow("w", WIDE, ("w.k",)), Append("w", rows), find_of(["z", "b", None, "a"], low=2, high=6)]
    )
    assert answer.schema.names == ["w.k", TS, "w.j", "w.id", KEY]
    assert answer.schema.types == [*WIDE.types, pa.int64()]
    assert sorted(zip(*[column.to_pylist() for column in answer.columns], strict=True), key=lambda row: row[1]) == [
        ("b", 2, None, 13, 1),
        ("a", 4, 2, 11, 3),
        ("b", 5, 1, 10, 1),
    ]


TIMES = [-(2**63), -(2**63) + 1, -1, 0, 0, 1, 2**63 - 2, 2**63 - 1]
BOUNDS = [-(2**64), -(2**63) - 1, -(2**63), -(2**63) + 1, -1, 0, 1, 2, 2**63 - 2, 2**63 - 1, 2**63, 2**63 + 1, 2**65]


@pytest.mark.parametrize("low", BOUNDS)
def test_find_takes_any_bounds(engines: Engines, low: int) -> None:
    judge = Judge(engines, SCHEMA, ("w.k",))
    judge.append(append_of(*TIMES).rows)
    for high in BOUNDS:
        answer = judge.find(pa.record_batch({"k": ["a"]}), low, high)
        assert sorted(answer[TS].to_pylist()) == [ts for ts in TIMES if low <= ts < high]


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_find_of_no_keys_gives_no_rows_of_the_right_columns(engines: Engines, kind: pa.DataType, filled: bool) -> None:
    schema = pa.schema(
        [
            pa.field("w.k", kind, metadata={"a": "b"}),
            pa.field(TS, pa.int64(), nullable=False),
            ("w.p", pa.string_view()),
        ]
    )
    judge = Judge(engines, schema, ("w.k",))
    if filled:
        judge.append(pa.record_batch([pa.nulls(1, pa.int64()).fill_null(1).cast(kind), [1], ["x"]], schema=schema))
    for wanted in (pa.nulls(0, kind), pa.nulls(1, kind), pa.array([7], pa.int64()).cast(kind)):
        answer = judge.find(pa.record_batch({"k": wanted}), -9, 9)
        assert answer.num_rows == 0
        assert answer.schema.field("w.k").metadata == {b"a": b"b"}
        assert not answer.schema.field(TS).nullable


def test_probes_and_finds_take_effect_and_answer_in_order(engines: Engines) -> None:
    engine = engines()
    ops: list[Op] = [OpenWindow("w", SCHEMA, ("w.k",)), find_of(["a"]), append_of(0), probe_of(), find_of(["a"])]
    ops += [append_of(5, 0), find_of(["b", "a"]), probe_of(), probe_of(), find_of(["a"], high=5), find_of(["b"])]
    answers = engine.run(ops)
    assert [answer.num_rows for answer in answers] == [0, 1, 1, 3, 2, 2, 2, 0]
    assert [KEY in answer.schema.names for answer in answers] == [
        isinstance(op, Find) for op in ops if isinstance(op, Question)
    ]
