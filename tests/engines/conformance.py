"""What every engine must do: cases against a brute force over Python values, whatever the engine.

A module that wants them imports everything and has two fixtures: ``engines`` makes an engine without tables,
``finishes`` says with which hashes of keys it can be made.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import strategies as st

from node.core.engine import (
    HIGH,
    KEY,
    LOW,
    POSITION,
    TS,
    Append,
    CloseIndex,
    CloseTable,
    Expire,
    Find,
    Op,
    OpenIndex,
    OpenTable,
    Probe,
)
from node.core.keys import keycodes as keys
from node.engine import orders, tiers
from planner.model.query import Call, ColumnRef, Expr, Literal
from tests.engines.judge import (
    INT64_MAX,
    INT64_MIN,
    Engines,
    Judge,
    batch_of,
    bounded,
    done,
    key_values,
    rows_of,
    sliced,
    whole_probe,
)

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
    schema = pa.schema([(POSITION, pa.int64()), ("k", mine), ("id", pa.int32())])
    for finish in finishes:
        judge = Judge(engines, schema, ("k",), finish)
        for step in range(3):
            ids = pa.array(range(10 * step, 10 * step + 10), pa.int32())
            judge.append(shape(rows_of([step] * 10, k=pick(rng, values, mine, 10), id=ids)))
        carry = batch_of([2] * 12, **{"c.k": pick(rng, values, theirs, 12)})
        (answer,) = judge.check([carry if theirs == pa.string_view() else shape(carry)], ("c.k",), 1, True)
        assert answer.num_rows
        wanted = pa.record_batch({"any": column_of([*values[1:], None, values[0]], theirs)})
        assert judge.find(wanted if theirs == pa.string_view() else shape(wanted), 1, 3).num_rows


def test_a_negative_number_does_not_join_the_unsigned_one_of_the_same_bits(engines: Engines) -> None:
    judge = Judge(engines, pa.schema([(POSITION, pa.int64()), ("k", pa.int8())]), ("k",))
    judge.append(rows_of([0], k=pa.array([-56], pa.int8())))
    (answer,) = judge.check([batch_of([1], **{"c.k": pa.array([200], pa.uint8())})], ("c.k",), 9, False)
    assert answer.num_rows == 0
    assert judge.find(pa.record_batch({"k": pa.array([200], pa.uint8())}), 0, 9).num_rows == 0


@pytest.mark.parametrize(("family", "kind"), [(name, kind) for name, one, kind in PAIRS if one == kind], ids=str)
def test_null_keys_match_nothing_not_even_null(engines: Engines, family: str, kind: pa.DataType) -> None:
    judge = Judge(engines, pa.schema([(POSITION, pa.int64()), ("k", kind)]), ("k",))
    judge.append(rows_of([0] * 5, k=pa.nulls(5, kind)))
    judge.append(rows_of([0] * 2, k=pick(random.Random(0), FAMILIES[family][1], kind, 2, nulls=False)))
    (answer,) = judge.check([batch_of([1] * 3, **{"c.k": pa.nulls(3, kind)})], ("c.k",), 9, False)
    assert answer.num_rows == 0
    assert judge.find(pa.record_batch({"k": pa.nulls(1, kind)}), -9, 9).num_rows == 0
    assert judge.engine.rows("t") == 7


@pytest.mark.parametrize("seed", range(12))
def test_keys_of_several_columns_join_only_when_all_are_equal(engines: Engines, seed: int, finish: keys.Finish) -> None:
    rng = random.Random(seed)
    chosen = [(kinds, values[:3]) for kinds, values in rng.sample(list(FAMILIES.values()), rng.choice([2, 3]))]
    kinds = [rng.choice(options) for options, _ in chosen]
    schema = pa.schema([(POSITION, pa.int64()), *((f"k{i}", kind) for i, kind in enumerate(kinds))])
    judge = Judge(engines, schema, tuple(f"k{i}" for i in range(len(kinds))), finish)
    for step in range(3):
        columns = {f"k{i}": pick(rng, chosen[i][1], kind, 20) for i, kind in enumerate(kinds)}
        judge.append(rows_of([step] * 20, **columns))
    others = [rng.choice(options) for options, _ in chosen]
    carry = batch_of([3] * 20, **{f"c.{i}": pick(rng, chosen[i][1], kind, 20) for i, kind in enumerate(others)})
    judge.check([carry], tuple(f"c.{i}" for i in range(len(kinds))), 2, False)
    judge.find(distinct(carry.drop_columns([TS])), 1, 3)


def test_order_of_key_columns_counts(engines: Engines) -> None:
    judge = Judge(engines, pa.schema([(POSITION, pa.int64()), ("a", pa.int64()), ("b", pa.int64())]), ("a", "b"))
    judge.append(rows_of([0, 0], a=pa.array([1, 2]), b=pa.array([2, 1])))
    (answer,) = judge.check([batch_of([1], **{"c.a": pa.array([1]), "c.b": pa.array([2])})], ("c.a", "c.b"), 5, False)
    assert answer.num_rows == 1
    assert judge.find(pa.record_batch({"b": pa.array([1]), "a": pa.array([2])}), 0, 1).num_rows == 1


def test_empty_pieces_of_a_two_column_string_key_do_not_run_together(engines: Engines) -> None:
    judge = Judge(engines, pa.schema([(POSITION, pa.int64()), ("a", pa.string()), ("b", pa.string())]), ("a", "b"))
    judge.append(rows_of([0, 0, 0], a=pa.array(["ab", "a", ""]), b=pa.array(["", "b", "ab"])))
    carry = batch_of([1], **{"c.a": pa.array(["a"]), "c.b": pa.array(["b"])})
    (answer,) = judge.check([carry], ("c.a", "c.b"), 5, False)
    assert answer.num_rows == 1


# --- random programs ---------------------------------------------------------------------------------

SCHEMA = pa.schema([(POSITION, pa.int64()), ("k", pa.string()), pa.field("id", pa.int64(), nullable=False)])


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
        patch.setattr(orders, "_FILTERED_ROWS", 4)
        patch.setattr(orders, "_FILTERED_QUERIES", 2)
        judge = Judge(engines, SCHEMA, ("k",), finish)
        now, count, expired = 0, 0, -(2**62)
        for what, detail in program:
            if what == "append":
                positions = []
                for gap, _ in detail:
                    now += gap
                    positions.append(now)
                ids = pa.array(range(count, count + len(detail)), pa.int64())
                columns = {POSITION: positions, "k": [key for _, key in detail], "id": ids}
                judge.append(pa.record_batch(columns, schema=SCHEMA))
                count += len(detail)
            elif what == "expire":
                expired = max(expired, now - detail)
                judge.run(Expire("t", expired))
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


#: What ``check_any_order_of_arrival`` and ``check_extreme_positions`` are given.
ARRIVALS: dict[str, st.SearchStrategy[Any]] = {
    "rows": st.permutations([(position, key) for position in (0, 1, 1, 2, 5, 8) for key in "aab"]),
    "cuts": st.lists(st.integers(1, 7)),
}
_ANYWHERE = st.integers(INT64_MIN, INT64_MAX) | st.integers(-3, 3) | st.sampled_from([INT64_MIN, INT64_MAX])
EXTREMES: dict[str, st.SearchStrategy[Any]] = {
    "positions": st.lists(_ANYWHERE, max_size=20),
    "bounds": st.lists(st.tuples(_ANYWHERE, _ANYWHERE), max_size=8),
}


def check_any_order_of_arrival(engines: Engines, rows: list[tuple[int, str]], cuts: list[int]) -> None:
    judge = Judge(engines, SCHEMA, ("k",))
    whole = pa.record_batch({POSITION: [r[0] for r in rows], "k": [r[1] for r in rows], "id": [0] * 18}, schema=SCHEMA)
    ends = [*itertools.takewhile(lambda end: end < 18, itertools.accumulate(cuts)), 18]
    judge.run(*[Append("t", whole.slice(start, end - start)) for start, end in itertools.pairwise([0, *ends])])
    carry = bounded(batch_of([2, 1, 6], **{"c.k": pa.array(["a", "b", "a"])}), 1, True)
    probed, found = judge.run(whole_probe(carry, ("c.k",), SCHEMA, ("k",)), find_of(["b", "a"], low=1, high=5))
    assert Counter(probed[TS].to_pylist()) == {2: 6, 1: 3, 6: 2}
    pairs = zip(found[POSITION].to_pylist(), found[KEY].to_pylist(), strict=True)
    assert Counter(pairs) == {(1, 0): 2, (2, 0): 1, (1, 1): 4, (2, 1): 2}


def check_extreme_positions(engines: Engines, positions: list[int], bounds: list[tuple[int, int]]) -> None:
    judge = Judge(engines, pa.schema([(POSITION, pa.int64()), ("k", pa.int8())]), ("k",))
    judge.append(rows_of(positions, k=pa.array([0] * len(positions), pa.int8())))
    columns = {"c.k": pa.array([0] * len(bounds), pa.int64())}
    columns |= {LOW: pa.array([low for low, _ in bounds], pa.int64())}
    columns |= {HIGH: pa.array([high for _, high in bounds], pa.int64())}
    judge.check_bounds([pa.record_batch(columns)], ("c.k",))


def test_positions_and_bounds_at_the_ends_of_int64(engines: Engines) -> None:
    ends = [INT64_MIN, INT64_MIN + 1, 0, INT64_MAX - 1, INT64_MAX]
    check_extreme_positions(engines, ends, [(low, high) for low in ends for high in ends])


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
    rows = rows_of([0, 1, 2, 3], k=key, p=column)
    judge = Judge(engines, rows.schema, ("k",))
    carry = batch_of([99] * 3, **{"c.k": pa.array([1, 3, 1]), "c.p": column.slice(1)})
    judge.check([carry, carry.slice(0, 0), carry], ("c.k",), 99, False)
    for first in range(0, 40, 4):
        ts = pa.array(range(first, first + 4))
        judge.append(rows.set_column(0, POSITION, ts))
    answer, empty, same = judge.check([carry, carry.slice(0, 0), carry], ("c.k",), 99, False)
    assert empty.num_rows == 0
    assert answer.num_rows == same.num_rows == 50
    assert judge.find(pa.record_batch({"k": pa.array([3, 1])}), 10, 30).num_rows == 15


def test_answer_keeps_nullability_and_field_metadata(engines: Engines) -> None:
    schema = pa.schema(
        [
            (POSITION, pa.int64()),
            pa.field("k", pa.int64(), nullable=False),
            pa.field("p", pa.string(), metadata={"a": "b"}),
        ]
    )
    carry_schema = pa.schema([pa.field("c.k", pa.int64(), nullable=False), pa.field(TS, pa.int64(), nullable=False)])
    judge = Judge(engines, schema, ("k",))
    carry = pa.record_batch([pa.array([1]), pa.array([5])], schema=carry_schema)
    for _ in range(2):
        (answer,) = judge.check([carry], ("c.k",), 9, False)
        assert answer.schema.names == ["c.k", TS, "t.k", "t.p"]
        assert not answer.schema.field("t.k").nullable
        assert answer.schema.field("t.p").metadata == {b"a": b"b"}
        judge.append(pa.record_batch([pa.array([1]), pa.array([1]), pa.array(["x"])], schema=schema))


def test_expiring_everything_frees_everything(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("k",))
    for ts in range(50):
        judge.append(pa.record_batch({POSITION: [ts] * 3, "k": ["a", "b", None], "id": [1, 2, 3]}, schema=SCHEMA))
    assert judge.engine.rows("t") == 150
    assert judge.engine.nbytes("t") > 0
    judge.run(Expire("t", 50))
    assert judge.engine.rows("t") == judge.engine.nbytes("t") == 0
    judge.check([], ("c.k",), 0, False)


def test_expiry_keeps_rows_of_exactly_its_position(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("k",))
    judge.append(pa.record_batch({POSITION: [5, 5], "k": ["a", "a"], "id": [1, 2]}, schema=SCHEMA))
    judge.run(Expire("t", 5))
    assert judge.engine.rows("t") == 2
    (answer,) = judge.check([batch_of([9], **{"c.k": pa.array(["a"])})], ("c.k",), 4, False)
    assert answer.num_rows == 2


# --- the engine --------------------------------------------------------------------------------------


def probe_of(table: str = "t", key: str = "c.k", kind: pa.DataType | None = None, **changed: Any) -> Probe:
    """One row that sees what is at position 0."""
    carry = batch_of([1], **{key: pa.array(["a"]) if kind is None else pa.nulls(1, kind)})
    probe = whole_probe(bounded(carry, 1, False), (key,), SCHEMA, ("k",))
    return dataclasses.replace(probe, table=table, **changed)


def append_of(*positions: int | None) -> Append:
    rows = rows_of(positions, k=pa.array(["a"] * len(positions)), id=pa.array(range(len(positions))))
    return Append("t", rows.cast(SCHEMA))


def find_of(values: list[Any], low: Any = 0, high: Any = 9, **changed: Any) -> Find:
    find = Find("t", ("k",), pa.record_batch({"k": pa.array(values)}), low, high, "t", None, ("k", "id"))
    return dataclasses.replace(find, **changed)


def opened(*keys_: tuple[str, ...]) -> list[Op]:
    """Open a table, by ``k`` if nothing is said."""
    return [OpenTable("t", SCHEMA), *(OpenIndex("t", names) for names in keys_ or [("k",)])]


def bounds_of(low: pa.Array, high: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"c.k": pa.array(["a"]), LOW: low, HIGH: high})


def reads(name: str) -> Expr:
    """A condition on a column."""
    alias, column = name.split(".")
    return Call("=", (ColumnRef(alias, column), Literal(1, pa.int64())), pa.bool_())


ONE, NONE = pa.array([1]), pa.nulls(1, pa.int64())
BAD_SCHEMA = pa.schema([("k", pa.string())])
SHORT_SCHEMA = pa.schema([(POSITION, pa.int32()), ("k", pa.string())])
FLOATS = pa.schema([(POSITION, pa.int64()), ("k", pa.float64())])
DICTIONARY = pa.record_batch({"k": pa.array(["a"]).dictionary_encode()})
WRONG: dict[str, tuple[Op, str]] = {
    "probe of an unknown table": (probe_of("v"), "probe: an open table required, got 'v'; open are \\['f', 't'\\]"),
    "expiry of an unknown table": (Expire("v", 0), "open table required"),
    "closing an unknown table": (CloseTable("v"), "open table required"),
    "an index of an unknown table": (OpenIndex("v", ()), "open table required"),
    "closing an index of an unknown table": (CloseIndex("v", ()), "open table required"),
    "opening twice": (OpenTable("t", SCHEMA), "which is open"),
    "opening without positions": (OpenTable("v", BAD_SCHEMA), "one column '__position' required"),
    "opening with positions of another type": (OpenTable("v", SHORT_SCHEMA), "must be int64, got int32"),
    "an index that is open": (OpenIndex("t", ("k",)), "open index \\['k'\\] of table 't': an index that is not open"),
    "an index by position": (OpenIndex("t", ("k", POSITION)), "keys other than __position required"),
    "an index by a missing column": (OpenIndex("t", ("z",)), "one column 'z' required"),
    "an index by a float": (OpenIndex("f", ("k",)), "got double"),
    "closing an index that is not open": (CloseIndex("t", ("id",)), "got \\['id'\\]; open are \\[\\['k'\\]\\]"),
    "rows of another schema": (Append("t", rows_of([1], k=pa.array(["a"]))), "required schema"),
    "rows without position": (append_of(11, None), "append to table 't': __position in every row required, got 1 null"),
    "probe of an index that is not open": (probe_of(keys=("id",)), "probe of table 't': keys of an open index"),
    "carry without its key": (probe_of(carry_keys=("c.z",)), "one column 'c.z' required"),
    "carry with too many keys": (probe_of(carry_keys=("c.k", "c.k")), "1 keys required"),
    "carry of another family": (probe_of(kind=pa.int64()), "comparable with 'k'"),
    "carry without bounds": (probe_of(rows=bounds_of(ONE, ONE).drop_columns([LOW])), "one column '__low' required"),
    "carry with a short bound": (
        probe_of(rows=bounds_of(ONE, ONE.cast(pa.int32()))),
        "__high must be int64, got int32",
    ),
    "carry with a null bound": (
        probe_of(rows=bounds_of(NONE, ONE), columns=()),
        "probe of table 't': __low in every row required, got 1 nulls",
    ),
    "probe for a missing column": (probe_of(columns=("t.z",)), "one column 't.z' required"),
    "probe for a bound": (probe_of(columns=(LOW,)), "one column '__low' required"),
    "probe for the position": (probe_of(columns=("t.__position",)), "one column 't.__position' required"),
    "probe with a strange condition": (probe_of(condition=reads("v.id")), "got one that reads 'v.id'"),
    "find in an unknown table": (find_of(["a"], table="v"), "find: an open table required, got 'v'"),
    "find in an index that is not open": (find_of(["a"], keys=("id",)), "find of table 't': keys of an open index"),
    "find without a key": (find_of([], wanted=DICTIONARY.select([])), "1 key columns required, for \\['k'\\]"),
    "find with too many keys": (find_of([], wanted=bounds_of(ONE, ONE)), "got \\['c.k', '__low', '__high'\\]"),
    "find of another family": (find_of([1]), "find in table 't': key 'k' must be comparable with 'k'"),
    "find of a dictionary": (find_of([], wanted=DICTIONARY), "comparable with 'k', string, got dictionary"),
    "find from no number": (find_of(["a"], low=0.5), "low and high must be int, got 0.5 and 9"),
    "find to no number": (find_of(["a"], high=None), "low and high must be int, got 0 and None"),
    "find for a missing column": (find_of(["a"], columns=("z",)), "one column 'z' required"),
    "find with a strange condition": (find_of(["a"], condition=reads("c.k")), "got one that reads 'c.k'"),
}


@pytest.mark.parametrize(("op", "message"), [pytest.param(*case, id=name) for name, case in WRONG.items()])
def test_what_does_not_fit_is_refused_and_nothing_else(engines: Engines, op: Op, message: str) -> None:
    engine = engines()
    done(engine.run([*opened(), OpenTable("f", FLOATS), append_of(0)]))
    before, refused, after, found = engine.run([probe_of(), op, probe_of(), find_of(["a"])])
    assert isinstance(refused, ValueError)
    assert re.search(message, str(refused))
    assert [answer.num_rows for answer in done([before, after, found])] == [1, 1, 1]
    assert engine.rows("t") == 1


def test_a_closed_table_can_be_opened_anew_and_is_empty(engines: Engines) -> None:
    engine = engines()
    (answer,) = done(engine.run([*opened(), append_of(0), CloseTable("t"), *opened(), probe_of()]))
    assert answer.num_rows == engine.rows("t") == 0


def test_every_operation_has_its_outcome_at_its_place(engines: Engines) -> None:
    engine = engines()
    ops: list[Op] = [*opened(), append_of(0), probe_of(), Expire("v", 0), find_of(["a", "b"]), Expire("t", 0)]
    kinds = [type(outcome) for outcome in engine.run(ops)]
    nothing = type(None)
    assert kinds == [nothing, nothing, nothing, pa.RecordBatch, ValueError, pa.RecordBatch, nothing]


def test_a_question_sees_what_was_appended_before_it(engines: Engines) -> None:
    engine = engines()
    ops: list[Op] = [*opened(), append_of(0), probe_of(), append_of(0), find_of(["a"]), probe_of()]
    probed, found, again = done(engine.run(ops))
    assert probed.num_rows >= 1
    assert found.num_rows == again.num_rows == 2


def test_a_question_sees_what_expires_or_is_closed_after_it(engines: Engines) -> None:
    engine = engines()
    ops: list[Op] = [*opened(), append_of(0), probe_of(), find_of(["a"]), Expire("t", 1), find_of(["a"])]
    ops += [append_of(7), find_of(["a"]), CloseIndex("t", ("k",)), find_of(["a"]), OpenIndex("t", ("k",))]
    ops += [find_of(["a"]), CloseTable("t"), find_of(["a"])]
    answers = [outcome for op, outcome in zip(ops, engine.run(ops), strict=True) if isinstance(op, Probe | Find)]
    counts = [answer.num_rows if isinstance(answer, pa.RecordBatch) else None for answer in answers]
    assert counts[:2] == [1, 1]
    assert counts[2] in (0, 1)
    assert counts[3:] == [1, None, 1, None]


def test_a_question_to_what_is_opened_after_it_fails(engines: Engines) -> None:
    engine = engines()
    first, _, second, _, third = engine.run(
        [probe_of(), OpenTable("t", SCHEMA), probe_of(), OpenIndex("t", ("k",)), probe_of()]
    )
    assert isinstance(first, ValueError)
    assert isinstance(second, ValueError)
    assert isinstance(third, pa.RecordBatch)


# --- what is asked for -------------------------------------------------------------------------------


def test_a_probe_gives_the_columns_it_names_in_that_order(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("k",))
    judge.append(append_of(0, 0).rows)
    names = ("u.id", TS, "c.k", "u.k", "u.id")
    (answer,) = judge.run(probe_of(alias="u", columns=names))
    assert answer.schema.names == list(names)
    assert sorted(answer.column(0).to_pylist()) == [0, 1]
    assert answer.column(4).equals(answer.column(0))


@pytest.mark.parametrize("condition", [None, reads("u.id"), reads("c.n")], ids=["all", "theirs", "own"])
def test_a_probe_for_no_column_gives_the_number_of_rows(engines: Engines, condition: Expr | None) -> None:
    judge = Judge(engines, SCHEMA, ("k",))
    judge.append(append_of(0, 0, 0).rows)
    carry = bounded(batch_of([1, 1], **{"c.k": pa.array(["a", "a"]), "c.n": pa.array([1, 2])}), 1, False)
    probe = Probe("t", ("k",), carry, ("c.k",), "u", condition, ())
    (answer,) = judge.run(probe)
    assert answer.num_columns == 0
    assert answer.num_rows == (6 if condition is None else 2 if condition == reads("u.id") else 3)


def test_a_condition_on_nothing_holds_for_all_rows_or_none(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("k",))
    judge.append(append_of(0, 0).rows)
    for value, count in ((True, 2), (False, 0), (None, 0)):
        condition = Literal(value, pa.bool_())
        answers = judge.run(probe_of(condition=condition), find_of(["a"], condition=condition))
        assert [answer.num_rows for answer in answers] == [count, count]


# --- indexes -----------------------------------------------------------------------------------------


def test_a_row_with_a_null_in_the_keys_of_one_index_is_found_by_the_others(engines: Engines) -> None:
    schema = pa.schema([(POSITION, pa.int64()), ("k", pa.string()), ("j", pa.int16())])
    engine = engines()
    rows = pa.record_batch([[1, 2, 3, 4], ["a", None, "a", None], [1, 1, None, None]], schema=schema)
    ops: list[Op] = [OpenTable("t", schema), OpenIndex("t", ("k",)), Append("t", rows), OpenIndex("t", ("j",))]
    ops += [OpenIndex("t", ("k", "j")), OpenIndex("t", ())]
    finds: list[Op] = [
        Find("t", ("k",), pa.record_batch({"x": ["a"]}), 0, 9, "t", None, ()),
        Find("t", ("j",), pa.record_batch({"x": [1]}), 0, 9, "t", None, ()),
        Find("t", ("k", "j"), pa.record_batch({"x": ["a"], "y": [1]}), 0, 9, "t", None, ()),
        Probe("t", (), bounds_of(pa.array([0]), pa.array([9])), (), "t", None, ("t.k", "t.j")),
    ]
    for _ in range(3):
        answers = done(engine.run([*ops, *finds]))
        assert [answer.num_rows for answer in answers] == [2, 2, 1, 4]
        assert engine.rows("t") == 4
        ops = []


def test_an_index_opened_late_finds_what_is_there_and_what_comes(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("k",))
    for position in range(0, 60, 2):
        judge.append(append_of(position, position + 1).rows)
    judge.run(Expire("t", 11), OpenIndex("t", ("id",)))
    wanted = pa.record_batch({"id": pa.array([1, 0, 5])})
    by_id = Find("t", ("id",), wanted, 11, 99, "t", None, ("k",))
    (answer,) = judge.run(by_id)
    assert Counter(answer[KEY].to_pylist()) == {0: 25, 1: 24}
    judge.run(append_of(*range(60, 66)))
    (answer,) = judge.run(by_id)
    assert Counter(answer[KEY].to_pylist()) == {0: 26, 1: 25, 2: 1}


def test_rows_may_lack_columns_of_their_table(engines: Engines) -> None:
    """Those are null, whichever rows come first, also where they are keys, and runs of both kinds are merged."""
    schema = pa.schema(
        [(POSITION, pa.int64()), ("k", pa.string()), ("j", pa.int64()), ("t", pa.dictionary(pa.int8(), pa.string()))]
    )
    engine = engines()
    done(engine.run([OpenTable("t", schema), OpenIndex("t", ("k",)), OpenIndex("t", ("j",))]))
    texts = pa.array(["x"]).cast(schema.field("t").type)
    for position in range(40):
        known = position % 3 == 1
        j, t = (pa.array([7]), texts) if known else (pa.nulls(1), pa.nulls(1))
        rows = pa.RecordBatch.from_arrays([pa.array([position]), pa.array(["a"]), j, t], names=schema.names)
        (answer,) = done(engine.run([Append("t", rows), find_of(["a"], high=99, columns=("j", "t"))]))
        assert answer.schema.field("t").type == schema.field("t").type
        found = {row[POSITION]: (row["j"], row["t"]) for row in answer.to_pylist()}
        assert found == {each: (7, "x") if each % 3 == 1 else (None, None) for each in range(position + 1)}
    by_j = Find("t", ("j",), pa.record_batch({"j": [7]}), 2, 99, "t", None, ("k",))
    (answer,) = done(engine.run([Expire("t", 2), by_j]))
    assert sorted(answer[POSITION].to_pylist()) == [each for each in range(2, 40) if each % 3 == 1]
    (late,) = done(engine.run([CloseIndex("t", ("j",)), OpenIndex("t", ("j",)), by_j]))
    assert sorted(late[POSITION].to_pylist()) == sorted(answer[POSITION].to_pylist())


def test_a_table_keeps_its_rows_while_nobody_looks(engines: Engines) -> None:
    engine = engines()
    done(engine.run([OpenTable("t", SCHEMA), append_of(0, 1), append_of(2), Expire("t", 1)]))
    assert engine.rows("t") == 2
    done(engine.run([OpenIndex("t", ("k",)), CloseIndex("t", ("k",)), append_of(3), Expire("t", 2)]))
    (answer,) = done(engine.run([OpenIndex("t", ("k",)), find_of(["a"], low=2)]))
    assert sorted(answer[POSITION].to_pylist()) == [2, 3]
    assert engine.rows("t") == 2


def test_an_index_without_keys_finds_all_rows_in_the_bounds(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ())
    judge.append(append_of(5, 3, 9, 3).rows)
    judge.append(append_of(4, 8).rows)
    carry = batch_of([6, 4], **{"c.x": pa.array([None, 1])})
    (answer,) = judge.check([carry], (), 2, True)
    assert answer.num_rows == 2 + 3


def test_an_index_takes_room_and_gives_it_back(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("k",))
    judge.append(append_of(*range(200)).rows)
    one = judge.engine.nbytes("t")
    judge.run(OpenIndex("t", ("id",)))
    judge.run(find_of([1], keys=("id",)))
    assert judge.engine.nbytes("t") > one
    judge.run(CloseIndex("t", ("id",)), find_of(["a"]))
    assert judge.engine.nbytes("t") == one


# --- find --------------------------------------------------------------------------------------------

WIDE = pa.schema([(POSITION, pa.int64()), ("k", pa.string()), ("j", pa.int16()), ("id", pa.int64())])


def test_find_gives_positions_and_columns_and_the_number_of_their_key(engines: Engines) -> None:
    engine = engines()
    rows = pa.record_batch([[5, 4, 5, 2], ["b", "a", None, "b"], [1, 2, 3, None], [10, 11, 12, 13]], schema=WIDE)
    ops: list[Op] = [OpenTable("t", WIDE), OpenIndex("t", ("k",)), Append("t", rows)]
    asked = find_of(["z", "b", None, "a"], low=2, high=6, columns=("j", "k"))
    (answer,) = done(engine.run([*ops, asked]))
    assert answer.schema.names == [POSITION, "j", "k", KEY]
    assert answer.schema.types == [pa.int64(), pa.int16(), pa.string(), pa.int64()]
    assert sorted(zip(*[column.to_pylist() for column in answer.columns], strict=True)) == [
        (2, None, "b", 1),
        (4, 2, "a", 3),
        (5, 1, "b", 1),
    ]


TIMES = [-(2**63), -(2**63) + 1, -1, 0, 0, 1, 2**63 - 2, 2**63 - 1]
BOUNDS = [-(2**64), -(2**63) - 1, -(2**63), -(2**63) + 1, -1, 0, 1, 2, 2**63 - 2, 2**63 - 1, 2**63, 2**63 + 1, 2**65]


def test_find_takes_any_bounds(engines: Engines) -> None:
    judge = Judge(engines, SCHEMA, ("k",))
    judge.append(append_of(*TIMES).rows)
    pairs = [(low, high) for low in BOUNDS for high in BOUNDS]
    answers = judge.run(*[find_of(["a"], low=low, high=high) for low, high in pairs])
    for (low, high), answer in zip(pairs, answers, strict=True):
        assert sorted(answer[POSITION].to_pylist()) == [ts for ts in TIMES if low <= ts < high]


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_find_of_no_keys_gives_no_rows_of_the_right_columns(engines: Engines, kind: pa.DataType, filled: bool) -> None:
    schema = pa.schema(
        [
            pa.field(POSITION, pa.int64(), nullable=False),
            pa.field("k", kind, metadata={"a": "b"}),
            ("p", pa.string_view()),
        ]
    )
    judge = Judge(engines, schema, ("k",))
    if filled:
        judge.append(pa.record_batch([[1], pa.nulls(1, pa.int64()).fill_null(1).cast(kind), ["x"]], schema=schema))
    for wanted in (pa.nulls(0, kind), pa.nulls(1, kind), pa.array([7], pa.int64()).cast(kind)):
        answer = judge.find(pa.record_batch({"k": wanted}), -9, 9)
        assert answer.num_rows == 0
        assert answer.schema.field("k").metadata == {b"a": b"b"}
        assert not answer.schema.field(POSITION).nullable
