"""The key table and ``distinct`` against Python dictionaries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.errors import LocalProtocolError
from node.core.keys.hashing import I64, U64, scramble
from node.core.keys.keycodes import Finish, exact, from_integers, integers
from node.core.keys.keystore import Log
from node.core.keys.keytable import _EMPTY, KeyTable, distinct
from tests.examples import new_examples

Key = tuple[Any, ...]


def colliding(words: U64) -> U64:
    return np.full_like(words, 77)


def nearly_colliding(words: U64) -> U64:
    return words & np.uint64(3)


FINISHES = [scramble, colliding, nearly_colliding]

INT8_TO_64 = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
STRINGS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary()]
EPOCH = dt.datetime(2026, 1, 1)

#: Types of one family, and values all of them can hold; few, so that keys come again.
FAMILIES: list[tuple[list[pa.DataType], list[Any]]] = [
    (INT8_TO_64, list(range(-20, 20))),
    ([pa.int64()], [-(2**63), 2**63 - 1, 0, -1, *range(100, 130)]),
    ([pa.uint64()], [0, 1, 2**63 - 1, 2**63, 2**64 - 1]),
    (STRINGS, ["", "a", "b", "ab", "\0", "\0\0", "é", "x" * 7, "x" * 8, "x" * 9, "y" * 100, *map(str, range(20))]),
    (BINARIES, [b"", b"\0", b"\0\0", b"\xff\xfe", b"z" * 33, *(bytes([i]) for i in range(20))]),
    ([pa.binary(3)], [bytes([i, 0, i]) for i in range(20)]),
    ([pa.binary(0)], [b""]),
    ([pa.bool_()], [False, True]),
    ([pa.date32()], [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(20)]),
    ([pa.date64()], [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(20)]),
    ([pa.uint8(), pa.uint32()], list(range(230, 256))),
    ([pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo")], [i * 10**6 for i in range(20)]),
    ([pa.timestamp("s")], [EPOCH + dt.timedelta(seconds=i) for i in range(20)]),
    ([pa.decimal64(9, 2)], [Decimal(i) / 4 for i in range(-10, 10)]),
    ([pa.decimal128(30, 2)], [Decimal(i) * 10**20 / 4 for i in range(-10, 10)]),
    ([pa.decimal256(60, 2)], [Decimal(i) * 10**20 / 4 for i in range(-10, 10)]),
]


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values in the middle of a longer array, so that offsets matter."""
    return pa.array([None, *values, None], kind).slice(1, len(values))


def columns(keys: Sequence[Key], kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    return [column([key[i] for key in keys], kind) for i, kind in enumerate(kinds)]


def as_keys(arrays: Sequence[pa.Array]) -> list[Key]:
    whole = [a.cast(pa.int64()) if pa.types.is_timestamp(a.type) and a.type.tz else a for a in arrays]
    return list(zip(*[a.to_pylist() for a in whole], strict=True))


def as_slots(slots: Sequence[int]) -> I64:
    return np.array(slots, dtype=np.int64)


class Model:
    """What a KeyTable must be, in plain Python."""

    def __init__(self) -> None:
        self.slots: dict[Key, int] = {}
        self.free: list[int] = []
        self.capacity = 0

    def add(self, keys: Sequence[Key]) -> list[int]:
        given = []
        for key in keys:
            if self.free:
                slot = self.free.pop(0)
            else:
                slot, self.capacity = self.capacity, self.capacity + 1
            assert key not in self.slots
            self.slots[key] = slot
            given.append(slot)
        return given

    def remove(self, keys: Sequence[Key]) -> list[int]:
        slots = [self.slots.pop(key) for key in keys]
        self.free += slots
        return slots

    def find(self, keys: Sequence[Key]) -> list[int]:
        return [self.slots.get(key, -1) for key in keys]


def check(table: KeyTable, model: Model, kinds: Sequence[pa.DataType]) -> None:
    assert len(table) == len(model.slots)
    assert table.capacity == model.capacity
    assert table._used == np.count_nonzero(table._table != _EMPTY) <= len(table._table) // 2
    assert table.live_slots().tolist() == sorted(model.slots.values())
    around = np.arange(-2, table.capacity + 2)
    assert around[table.is_live(around)].tolist() == sorted(model.slots.values())
    arrays = table.keys(as_slots(list(model.slots.values())))
    assert [array.type for array in arrays] == list(kinds)
    for array in arrays:
        array.validate(full=True)
    assert as_keys(arrays) == list(model.slots)


@st.composite
def families(draw: st.DrawFn) -> list[tuple[list[pa.DataType], list[Any]]]:
    return draw(st.lists(st.sampled_from(FAMILIES), min_size=1, max_size=2))


@given(st.data(), families(), st.sampled_from(FINISHES))
@new_examples(200)
def test_table_is_a_dictionary_with_a_fifo_of_free_slots(
    data: st.DataObject, chosen: list[tuple[list[pa.DataType], list[Any]]], finish: Finish
) -> None:
    some_kinds = st.tuples(*[st.sampled_from(kinds) for kinds, _ in chosen])
    some_key = st.tuples(*[st.sampled_from(values) for _, values in chosen])
    some_key_or_null = st.tuples(*[st.sampled_from([*values, None]) for _, values in chosen])
    kinds = data.draw(some_kinds)
    table, twin, model = KeyTable(kinds, finish), KeyTable(kinds, finish), Model()
    for _ in range(data.draw(st.integers(1, 8))):
        new = [key for key in data.draw(st.lists(some_key, unique=True, max_size=40)) if key not in model.slots]
        given_columns = columns(new, data.draw(some_kinds))
        slots = table.add(given_columns)
        assert slots.tolist() == model.add(new)
        assert slots.dtype == np.int64
        assert twin.add(given_columns).tolist() == slots.tolist()

        asked = data.draw(st.lists(some_key_or_null, max_size=40))
        assert table.find(columns(asked, data.draw(some_kinds))).tolist() == model.find(asked)
        check(table, model, kinds)

        if model.slots:
            old = as_slots(
                model.remove(data.draw(st.lists(st.sampled_from(sorted(model.slots, key=repr)), unique=True)))
            )
            table.remove(old)
            twin.remove(old)
        check(table, model, kinds)


@pytest.mark.parametrize("finish", FINISHES)
def test_many_small_calls(finish: Finish) -> None:
    """Long enough for the table, the queue of free slots and the stored strings to be packed anew, often."""
    kinds = [pa.string(), pa.int32()]
    table, model = KeyTable(kinds, finish), Model()
    rng = np.random.default_rng(3)
    next_key = 0
    for step in range(120):
        count = int(rng.integers(0, 30))
        new = [("k" * int(rng.integers(0, 40)) if i % 2 else "", i) for i in range(next_key, next_key + count)]
        next_key += count
        assert table.add(columns(new, kinds)).tolist() == model.add(new)
        live = list(model.slots)
        gone = [live[i] for i in rng.permutation(len(live))[: int(rng.integers(0, 30 if step < 60 else 60))]]
        table.remove(as_slots(model.remove(gone)))
        asked = live + gone[:5]
        assert table.find(columns(asked, kinds)).tolist() == model.find(asked)
    check(table, model, kinds)


def numbers(first: int, end: int, kind: pa.DataType) -> pa.Array:
    return pa.array(np.arange(first, end)).cast(kind)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.decimal128(20, 0)])
def test_churn_keeps_memory_bounded(kind: pa.DataType) -> None:
    table = KeyTable([kind])
    rng = np.random.default_rng(11)
    half, calls, most = 5_000, 300, 0
    table.add([numbers(0, half, kind)])
    for call in range(1, calls):
        new = table.add([numbers(call * half, (call + 1) * half, kind)])
        most = max(most, table.nbytes)
        table.remove(rng.permutation(table.live_slots())[:half])
    assert (len(table), table.capacity) == (half, 2 * half)
    assert most < 200 * 2 * half
    live = new[np.isin(new, table.live_slots())]
    assert (table.find([numbers((calls - 1) * half, calls * half, kind)]) >= 0).sum() == len(live)
    assert (table.find(table.keys(live)) == live).all()


def test_stored_strings_are_given_up_with_their_slots() -> None:
    table = KeyTable([pa.string()])
    slots = table.add([pa.array([f"{i:01000}" for i in range(5_000)])])
    full = table.nbytes
    assert full > 5_000_000
    table.remove(slots[10:])
    assert table.nbytes < full / 10
    assert table.keys(slots[:10])[0].to_pylist() == [f"{i:01000}" for i in range(10)]


def test_repacking_leaves_out_what_a_slot_held_before() -> None:
    log = Log(pa.string())
    log.put(np.arange(100), numbers(0, 100, pa.string()), 100)
    log.drop(np.arange(50))
    log.put(np.arange(50), numbers(100, 150, pa.string()), 100)
    log._repack(0, 0)
    assert log._count == 100
    assert log.take(np.arange(100)).to_pylist() == [str(i) for i in [*range(100, 150), *range(50, 100)]]


def test_large_calls() -> None:
    count = 1_500_000
    values = np.random.default_rng(5).permutation(count).astype(np.int64) * 7919 - 10**9
    table = KeyTable([pa.int64()])
    assert (table.add([pa.array(values[: count // 2])]) == np.arange(count // 2)).all()
    found = table.find([pa.array(values)])
    assert (found[: count // 2] == np.arange(count // 2)).all()
    assert (found[count // 2 :] == -1).all()
    table.remove(np.arange(0, count // 2, 2))
    assert (table.add([pa.array(values[count // 2 :][: count // 4])]) == np.arange(0, count // 2, 2)).all()
    assert (table.find(table.keys(table.live_slots())) == np.arange(count // 2)).all()


def test_keys_that_come_and_go_leave_nothing_behind() -> None:
    """In a large table, which has room for many marks: the chains of few keys must not get longer each time."""
    table = KeyTable([pa.int64()])
    table.add([pa.array(np.arange(300_000))])
    few = [pa.array(np.arange(-30, 0))]
    for _ in range(3_000):
        table.remove(table.add(few))
    assert longest_chain(table) < 200


def longest_chain(table: KeyTable) -> int:
    """How long the longest stretch of the table without an empty place is."""
    return int(np.diff(np.flatnonzero(table._table == _EMPTY)).max())


def test_dense_and_patterned_integers_stay_fast() -> None:
    """Multiples of a power of two would all begin at one place if codes were not spread."""
    table = KeyTable([pa.int64()])
    values = np.arange(200_000) << 40
    table.add([pa.array(values)])
    assert (table.find([pa.array(values)]) == np.arange(len(values))).all()


def test_no_rows_at_all() -> None:
    for kind in (pa.int64(), pa.string(), pa.binary(4)):
        table, none = KeyTable([kind]), as_slots([])
        assert table.find([pa.array([], kind)]).tolist() == []
        assert table.find([pa.array([None, None], kind)]).tolist() == [-1, -1]
        assert table.add([pa.array([], kind)]).tolist() == []
        table.remove(none)
        assert [array.type for array in table.keys(none)] == [kind]
        assert (len(table), table.capacity, table.live_slots().tolist()) == (0, 0, [])


@pytest.mark.parametrize("finish", FINISHES)
@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
class TestMisuse:
    def table(self, kind: pa.DataType, finish: Finish) -> KeyTable:
        table = KeyTable([kind], finish)
        table.add([pa.array(range(10)).cast(kind)])
        return table

    @pytest.mark.parametrize("keys", [[3], [20, 30, 3], [20, 20], [20, None]])
    def test_add(self, kind: pa.DataType, finish: Finish, keys: list[int | None]) -> None:
        table = self.table(kind, finish)
        with pytest.raises(LocalProtocolError):
            table.add([pa.array(keys, pa.int64()).cast(kind)])

    @pytest.mark.parametrize("slots", [[10], [-1], [5], [1, 2, 1]])
    def test_remove(self, kind: pa.DataType, finish: Finish, slots: list[int]) -> None:
        table = self.table(kind, finish)
        table.remove(as_slots([5]))
        with pytest.raises(LocalProtocolError):
            table.remove(as_slots(slots))

    def test_keys(self, kind: pa.DataType, finish: Finish) -> None:
        table = self.table(kind, finish)
        table.remove(as_slots([5]))
        with pytest.raises(LocalProtocolError):
            table.keys(as_slots([4, 5]))


def test_columns_given_out_do_not_change_later() -> None:
    kinds = [pa.int64(), pa.string(), pa.decimal128(5, 0)]
    keys = [(1, "a", Decimal(3)), (2, "b", Decimal(4))]
    table = KeyTable(kinds)
    slots = table.add(columns(keys, kinds))
    given_out = table.keys(slots)
    table.remove(slots)
    table.add(columns(keys[::-1], kinds))
    assert as_keys(given_out) == keys


@given(st.data(), families(), st.sampled_from(FINISHES))
@new_examples(200)
def test_distinct(data: st.DataObject, chosen: list[tuple[list[pa.DataType], list[Any]]], finish: Finish) -> None:
    kinds = [data.draw(st.sampled_from(kinds)) for kinds, _ in chosen]
    keys = data.draw(st.lists(st.tuples(*[st.sampled_from([*values, None]) for _, values in chosen]), max_size=60))
    rows, inverse = distinct(columns(keys, kinds), finish)
    whole = [key for key in keys if None not in key]
    assert sorted(rows.tolist()) == sorted({key: keys.index(key) for key in whole}.values())
    assert [keys[rows[i]] if i >= 0 else None for i in inverse] == [None if None in key else key for key in keys]
    if exact(kinds):
        assert [keys[row] for row in rows] == sorted(set(whole))


def test_distinct_of_many() -> None:
    values = np.random.default_rng(7).integers(0, 50_000, 300_000)
    expected, first, group = np.unique(values, return_index=True, return_inverse=True)
    rows, inverse = distinct([pa.array(values)])
    assert (rows == first).all()
    assert (inverse == group).all()
    rows, inverse = distinct([pa.array(values).cast(pa.string())])
    assert sorted(rows.tolist()) == sorted(first.tolist())
    assert (values[rows[inverse]] == values).all()
    assert len(expected) == len(rows)


@pytest.mark.parametrize(("kinds", "values"), FAMILIES)
def test_integers_and_back(kinds: list[pa.DataType], values: list[Any]) -> None:
    for kind in kinds:
        if exact([kind]):
            array = column(values, kind)
            back = from_integers(integers(array), kind)
            back.validate(full=True)
            assert back.equals(array)
