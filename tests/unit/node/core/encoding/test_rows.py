"""Rows and whole numbers on the wire: what goes in comes out, and damage is refused, whatever the type."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.encoding.ints import decode_ints, encode_ints
from node.core.encoding.rows import ROWS_MAX, VALUES_MAX, decode_rows, empty_batch, encode_rows
from node.core.encoding.varint import decode_varint, encode_varint, signed, unzigzag, zigzag
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.links.compression import Compressor
from node.core.planning.ship_all import ShipAllMeter
from tests.examples import examples
from tests.unit import fuzz

s64 = st.integers(-(2**63), 2**63 - 1)
EXTREMES = [-(2**63), 2**63 - 1, 0, -1, 1]


def ints(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high) | st.sampled_from([low, high])


#: Values of every type, as numbers or text that ``pa.array`` takes.
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.null(): st.none(),
    pa.bool_(): st.booleans(),
    **{getattr(pa, f"int{bits}")(): ints(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): ints(0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    pa.float16(): st.floats(width=16).map(np.float16),
    pa.float32(): st.floats(width=32) | st.integers(-99, 99).map(lambda cents: cents / 4),
    pa.float64(): st.floats() | st.integers(-9999, 9999).map(lambda cents: cents / 100),
    pa.date32(): ints(-(2**31), 2**31 - 1),
    pa.date64(): ints(-(2**30), 2**30).map(lambda days: days * 86_400_000),
    pa.time32("s"): ints(0, 86_399),
    pa.time32("ms"): ints(0, 86_399_999),
    pa.time64("us"): ints(0, 86_399_999_999),
    pa.time64("ns"): ints(0, 86_399_999_999_999),
    **{pa.timestamp(unit): s64 for unit in ("s", "ms", "us", "ns")},
    pa.timestamp("us", "UTC"): s64,
    **{pa.duration(unit): s64 for unit in ("s", "ms", "us", "ns")},
    pa.month_day_nano_interval(): st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)),
    **{kind: st.text(max_size=6) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{kind: st.binary(max_size=6) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())},
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.binary(0): st.just(b""),
    pa.decimal128(12, 2): st.integers(-(10**12) + 1, 10**12 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    pa.decimal256(60, 0): st.integers(-(10**20), 10**20).map(Decimal),
    pa.decimal32(5, 1): st.integers(-9999, 9999).map(lambda tenths: Decimal(tenths).scaleb(-1)),
    pa.list_(pa.int32()): st.lists(st.integers(0, 9), max_size=3),
    pa.list_(pa.string(), 2): st.lists(st.text(max_size=2), min_size=2, max_size=2),
    pa.large_list(pa.bool_()): st.lists(st.booleans(), max_size=3),
    pa.map_(pa.string(), pa.int8()): st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2).map(
        lambda entries: list(entries.items())
    ),
    pa.struct([("x", pa.int64()), ("y", pa.string())]): st.fixed_dictionaries(
        {"x": st.none() | s64, "y": st.none() | st.text(max_size=3)}
    ),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b", ""]),
    pa.list_(pa.dictionary(pa.int32(), pa.int64())): st.lists(st.integers(0, 3), max_size=3),
}


def exact(rows: pa.RecordBatch) -> list[bytes]:
    """Every bit: NaN differs from itself, and minus zero equals zero, by any comparison of values."""
    return [pa.RecordBatch.from_arrays([column], [""]).serialize().to_pybytes() for column in rows.columns]


def comes_back(rows: pa.RecordBatch) -> None:
    got = decode_rows(encode_rows(rows), rows.schema)
    assert got.schema == rows.schema
    for ours, theirs in zip(got.columns, rows.columns, strict=True):
        if pa.types.is_floating(theirs.type):
            bits = {2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[theirs.type.bit_width // 8]
            assert ours.view(bits).equals(theirs.view(bits))
        else:
            assert ours.equals(theirs)


@st.composite
def batches(draw: st.DrawFn, kind: pa.DataType) -> pa.RecordBatch:
    """Columns of one type: with and without gaps, repeated, and cut out of something longer."""
    value = VALUES[kind]
    plain = draw(st.lists(value, min_size=1, max_size=40))
    gaps = [draw(st.none() | value) for _ in plain]
    if draw(st.booleans()):
        plain, gaps = plain * 9, gaps * 9
    columns = [pa.array(values, kind) for values in (plain, gaps, gaps[::-1], plain, [None] * len(plain))]
    rows = pa.RecordBatch.from_arrays(columns, [f"c{number}" for number in range(len(columns))])
    start = draw(st.integers(0, rows.num_rows - 1))
    return rows.slice(start, draw(st.integers(1, rows.num_rows - start)))


@pytest.mark.parametrize("kind", VALUES, ids=str)
@examples(60)
@given(data=st.data())
def test_rows_of_every_type_come_back_as_they_were(kind: pa.DataType, data: st.DataObject) -> None:
    comes_back(data.draw(batches(kind)))


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("ns"), pa.uint64()], ids=str)
@examples(200)
@given(values=st.lists(s64 | st.sampled_from(EXTREMES), min_size=1, max_size=30), order=st.booleans())
def test_steps_across_the_whole_range_of_64_bits_come_back(kind: pa.DataType, values: list[int], order: bool) -> None:
    numbers = np.array(sorted(values) if order else values, np.int64)
    comes_back(pa.RecordBatch.from_arrays([pa.array(numbers).view(kind)], ["n"]))
    assert decode_ints(encode_ints(numbers), len(numbers)).tolist() == numbers.tolist()


@pytest.mark.parametrize("width", range(65))
def test_numbers_of_every_width_take_that_many_bits(width: int) -> None:
    rng = random.Random(width)
    values = np.array([rng.getrandbits(width) for _ in range(800)] + [2**width - 1, 0], np.uint64).view(np.int64)
    packed = encode_ints(values)
    assert len(packed) <= 802 * width / 8 + 16
    assert decode_ints(packed, 802).tolist() == values.tolist()


def test_an_extension_type_comes_back() -> None:
    kind = pa.uuid()
    storage = pa.array([b"0123456789abcdef", None], pa.binary(16))
    comes_back(pa.RecordBatch.from_arrays([pa.ExtensionArray.from_storage(kind, storage)], ["u"]))


def test_every_bit_of_a_float_comes_back() -> None:
    nan = np.array([0x7FF8000000000001, 0xFFF0000000000000, 1, 2**63], np.uint64).view(np.float64)
    for values in (nan, np.array([-0.0, 1.0]), np.array([0.1 + 0.2, 0.3]), np.array([1e300, 2.0**53, 1e-300])):
        rows = pa.RecordBatch.from_arrays([pa.array(values)], ["x"])
        assert exact(decode_rows(encode_rows(rows), rows.schema)) == exact(rows)


# -- what it costs ----------------------------------------------------------------------------


def size_of(column: pa.Array | np.ndarray[Any, Any]) -> int:
    return len(encode_rows(pa.RecordBatch.from_arrays([pa.array(column)], ["c"])))


def test_what_is_regular_costs_next_to_nothing() -> None:
    assert size_of(np.full(10_000, 1_760_000_000_123)) < 15
    assert size_of(np.arange(10_000) * 250 + 1_760_000_000_123) < 20
    assert size_of(np.array([True] * 10_000)) < 10
    assert size_of(pa.array([""] * 10_000)) < 25
    assert size_of(np.arange(10_000) / 100) < 20


def test_sorted_keys_cost_their_steps() -> None:
    keys = np.sort(np.random.default_rng(1).choice(1_000_000, 30, replace=False))
    # log2 of the number of ways to choose them is 492 bits.
    assert len(encode_ints(keys)) < 78


def test_text_that_repeats_costs_which_of_it() -> None:
    words = np.array(["pending", "shipped", "returned to sender"])
    assert size_of(words[np.random.default_rng(1).integers(0, 3, 8_000)]) < 8_000 * 2 / 8 + 60


def test_a_column_that_was_there_before_costs_its_number() -> None:
    noise = np.random.default_rng(1).integers(-(2**62), 2**62, 1_000)
    one = pa.RecordBatch.from_arrays([pa.array(noise)], ["a"])
    two = pa.RecordBatch.from_arrays([pa.array(noise), pa.array(noise).view(pa.timestamp("ns"))], ["a", "b"])
    assert len(encode_rows(two)) == len(encode_rows(one)) + 2
    comes_back(two)


def test_a_slice_is_sent_without_the_rest() -> None:
    rows = pa.RecordBatch.from_pydict({"n": list(range(0, 70_000, 7)), "t": ["x" * 99] * 10_000})
    assert len(encode_rows(rows.slice(5_000, 3))) < 330
    comes_back(rows.slice(5_000, 3))


# -- what must be refused ---------------------------------------------------------------------

N = pa.schema([("n", pa.int64())])


def refuses(schema: pa.Schema, data: bytes, text: str) -> None:
    with pytest.raises(PeerProtocolError, match=text):
        decode_rows(data, schema)


def test_more_rows_than_may_travel_are_refused_before_any_is_made() -> None:
    constant = b"\x02\x00\x00"
    for count in (ROWS_MAX + 1, 2**60):
        refuses(N, encode_varint(count) + constant, "rows require at most")
    wide = pa.schema([(f"c{number}", pa.int64()) for number in range(20)])
    refuses(wide, encode_varint(VALUES_MAX // 20 + 1) + constant * 20, "rows require at most")


def test_more_rows_than_may_travel_are_not_sent() -> None:
    rows = pa.RecordBatch.from_arrays([pa.nulls(ROWS_MAX + 1)], ["n"])
    with pytest.raises(QueryFailedError, match="smaller tau or window"):
        encode_rows(rows)


@pytest.mark.parametrize(
    ("schema", "data", "text"),
    [
        (N, b"\x01", "a column requires 1 bytes; got 0"),
        (N, b"\x02\x02\x08\x00\x01", "2 numbers of 8 bits require 2 bytes; got 1"),
        (N, b"\x02\x02\x41\x00" + b"\0" * 99, "at most 64 bits each; got 65"),
        (N, b"\x01\x02\x00\x02\x00", "1 bytes too many"),
        (N, b"\x01\x00\x00", "column 0 requires an earlier one; got 0"),
        (N, b"\x01\x04\x00\x02", "requires a tag among"),
        (N, b"\x00\x02\x00\x02", "at least one row"),
        (pa.schema([("n", pa.int8())]), b"\x01\x02\x00\x80\x02", "from -128 to 127"),
        (pa.schema([("n", pa.uint16())]), b"\x01\x02\x00\x01", "from 0 to 65535"),
        (pa.schema([("b", pa.bool_())]), b"\x01\x02\x00\x04", "from 0 to 1"),
        (pa.schema([("t", pa.time32("s"))]), b"\x01\x02\x00" + encode_varint(2 * 86_400), "got bytes that are not"),
        (pa.schema([("t", pa.string())]), b"\x01\x02\x00\x02\xff", "UTF8|UTF-8"),
        (pa.schema([("t", pa.string())]), b"\x01\x02\x00\x06ab", "from 0 to 2; got others"),
        (pa.schema([("t", pa.string())]), b"\x02\x02\x00\x04abc", "a column requires 4 bytes; got 3"),
        (pa.schema([("t", pa.string())]), b"\x01\x02\x00\x01", "from 0 to 0; got others"),
        (pa.schema([("t", pa.string())]), b"\x01\x04\x02\x00\x00\x00\x00", "fewer distinct ones; got 2"),
        (pa.schema([("t", pa.string())]), b"\x01\x04\x01\x00\x02a\x00\x02", "from 0 to 0; got others"),
        (pa.schema([("x", pa.float64())]), b"\x01\x04\x77\x00\x00", "a scale below 6; got 119"),
        (pa.schema([("x", pa.float64())]), b"\x01\x021234567", "requires 8 bytes; got 7"),
        (pa.schema([("l", pa.list_(pa.int8()))]), b"\x01\x03\x01\x00", "its own marks"),
    ],
)
def test_columns_that_are_none_are_refused(schema: pa.Schema, data: bytes, text: str) -> None:
    refuses(schema, data, text)


def test_distinct_values_cannot_be_blown_up_beyond_measure() -> None:
    count, text = 2**20, b"x" * 2**12
    data = encode_varint(count) + b"\x04\x01\x00" + encode_varint(zigzag(len(text))) + text + b"\x00\x00"
    refuses(
        pa.schema([("t", pa.string())]),
        data,
        "at most 1073741824 bytes in memory; got 4299161600 up to a column of text",
    )


def test_a_dictionary_column_of_another_type_is_refused() -> None:
    ours, theirs = pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.binary())
    rows = pa.RecordBatch.from_arrays([pa.array([b"a"]).dictionary_encode().cast(theirs)], ["d"])
    refuses(pa.schema([("d", ours)]), encode_rows(rows), "a column requires type dictionary<values=string")


@pytest.mark.parametrize(
    ("data", "count_max", "text"),
    [
        (b"\x05\x00\x00", 4, "from 1 to 4; got 5"),
        (b"\x00", 4, "from 1 to 4; got 0"),
        (encode_varint(2**60) + b"\x00\x00", 10**6, "got 1152921504606846976"),
        (b"\x01\x00\x00\x00", 4, "require 3 bytes; got 4"),
        (b"\x01", 4, "1 numbers require bytes; got none"),
        (b"\x02\x08\x00\x01", 4, "require 2 bytes; got 1"),
        (b"\xff" * 11, 4, "at most 10 bytes and 64 bits"),
    ],
)
def test_numbers_that_are_none_are_refused(data: bytes, count_max: int, text: str) -> None:
    with pytest.raises(PeerProtocolError, match=text):
        decode_ints(data, count_max)


def test_none_are_no_bytes() -> None:
    assert encode_ints(np.empty(0, np.int64)) == b""
    assert decode_ints(b"", 0).tolist() == []
    assert encode_rows(empty_batch(N)) == b""
    assert decode_rows(b"", N).equals(empty_batch(N))


@examples()
@given(st.integers(0, 2**64 - 1))
def test_a_number_of_any_length_comes_back(value: int) -> None:
    assert decode_varint(b"?" + encode_varint(value) + b"\xff", 1) == (value, 1 + len(encode_varint(value)))
    assert unzigzag(zigzag(value)) == signed(value)
    assert zigzag(signed(value)) == zigzag(value) < 2**64


# -- noise ------------------------------------------------------------------------------------


def survives(decode: Callable[[], object]) -> None:
    with contextlib.suppress(PeerProtocolError):
        decode()


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind != pa.null()], ids=str)
@examples(40)
@given(noise=st.binary(max_size=60))
def test_random_bytes_are_refused_or_taken_and_nothing_else(kind: pa.DataType, noise: bytes) -> None:
    survives(lambda: decode_rows(noise, pa.schema([("a", kind), ("b", kind)])))
    for tag in range(6):
        survives(lambda: decode_rows(bytes((3, tag)) + noise, pa.schema([("a", kind)])))  # noqa: B023
    survives(lambda: decode_ints(noise, 1_000))


@examples(100)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_damaged_rows_are_refused_or_taken_and_nothing_else(data: st.DataObject, seed: int) -> None:
    kind = data.draw(st.sampled_from([kind for kind in VALUES if not pa.types.is_nested(kind)]))
    rows = data.draw(batches(kind))
    survives(lambda: decode_rows(fuzz.mutate(random.Random(seed), encode_rows(rows)), rows.schema))


# -- what shipping everything would cost ------------------------------------------------------


def batch_of(number: int, rows: int = 200) -> pa.RecordBatch:
    rng = np.random.default_rng(number)
    ts = np.sort(rng.integers(0, 1_000, rows)) + 1_000 * number
    columns = {
        "__ts": ts,
        "key": rng.integers(0, 10_000, rows),
        "pad": [f"row {key}" for key in rng.integers(0, 99, rows)],
    }
    return pa.RecordBatch.from_pydict(columns)


def measured(batches: int) -> tuple[int, int]:
    """What the meter says, and what it is."""
    meter, compressor = ShipAllMeter(), Compressor()
    exactly = 0
    for number in range(batches):
        rows = batch_of(number, 100 + number % 200)
        meter.add(rows)
        exactly += len(compressor.compress(encode_rows(rows)))
    return meter.nbytes, exactly


def test_the_first_batches_are_measured_as_they_would_travel() -> None:
    said, exactly = measured(40)
    assert said == exactly > 10_000


@pytest.mark.parametrize("batches", [65, 100, 400])
def test_later_ones_are_estimated_within_a_few_percent(batches: int) -> None:
    said, exactly = measured(batches)
    assert said == pytest.approx(exactly, rel=0.03)


def test_no_rows_cost_nothing() -> None:
    meter = ShipAllMeter()
    meter.add(batch_of(0).slice(0, 0))
    assert meter.nbytes == 0
