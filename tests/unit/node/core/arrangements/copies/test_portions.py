"""What a full copy has for each query, how a batch of it travels, and how its two halves agree on that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.arrangements.copies import portions as module
from node.core.arrangements.copies.full_copy import FullHolder, FullOwner
from node.core.arrangements.copies.portions import (
    PASSES,
    PORTIONS_MAX,
    Arrived,
    Coverage,
    Portion,
    Portions,
    is_in,
    numbered,
    portions_of,
    table_schema,
)
from node.core.arrangements.lease import Lease
from node.core.encoding import rows as rows_module
from node.core.encoding.rows import ROWS_MAX, VALUES_MAX, TooManyRowsError, encode_rows
from node.core.encoding.varint import encode_varint
from node.core.engine import TS
from node.core.errors import PeerProtocolError
from node.core.kernels.evaluation import holds
from node.core.links.messages import DropPortion, SetPortion, Sync
from node.core.streams.ticks import TICK_MIN, Span
from node.core.streams.view import SealedRows
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy
from planner.model.query import Call, ColumnRef, Expr, Literal
from tests.examples import examples
from tests.expressions import rows_that_hold
from tests.unit.node.core.arrangements.kit import KEYS, STREAM, TAU, EngineWork, array, below, lease, odd, reach
from tests.unit.node.core.arrangements.kit import SCHEMA as NUMBERS
from tests.unit.node.core.arrangements.world import World, spec_of

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("key", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us")),
        ("note", pa.string_view()),
        ("tags", pa.list_(pa.string())),
    ]
)
NAMES = tuple(SCHEMA.names)


def compared(column: str, function: str, value: Any, kind: pa.DataType) -> Expr:
    return Call(function, (ColumnRef(STREAM, column), Literal(value, kind)), pa.bool_())


FILTERS: list[Expr] = [
    odd(STREAM),
    below(2, STREAM),
    compared("name", "=", "x", pa.string()),
    compared("name", "<>", "x", pa.string()),
    compared("price", ">=", 0.5, pa.float64()),
    Call("is null", (ColumnRef(STREAM, "at"),), pa.bool_()),
    ColumnRef(STREAM, "ok"),
    Literal(False, pa.bool_()),
    Literal(True, pa.bool_()),
]


def ordered(names: Sequence[str] | set[str]) -> tuple[str, ...]:
    return tuple(name for name in NAMES if name in names)


TUPLES = st.lists(
    st.tuples(
        st.integers(0, TAU - 1),
        st.none() | st.integers(0, 4),
        st.none() | st.sampled_from(["", "x", "y", "a longer text that is not within a view"]),
        st.none() | st.sampled_from([0.0, 0.5, -1.5]),
        st.none() | st.booleans(),
        st.none() | st.integers(0, 9),
        st.none() | st.sampled_from(["", "a note that is too long for twelve bytes"]),
        st.none() | st.lists(st.none() | st.sampled_from(["", "tag"]), max_size=2),
    ),
    max_size=8,
)
NEEDS = st.lists(
    st.builds(
        Portion, st.none() | st.sampled_from(FILTERS), st.sets(st.sampled_from(NAMES), max_size=len(NAMES)).map(ordered)
    ),
    max_size=6,
)


def batch(tick: int, tuples: Sequence[tuple[Any, ...]]) -> SealedRows:
    """The tuples of a tick, each with the offset of its time in it and the values of the other columns."""
    in_order = sorted(((tick * TAU + offset, *rest) for offset, *rest in tuples), key=lambda each: each[0])
    arrays = [pa.array([each[place] for each in in_order], field.type) for place, field in enumerate(SCHEMA)]
    rows = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return SealedRows(STREAM, Span(tick, tick + 1), rows, array([each[0] for each in in_order]), 0, 0)


def passing(sealed: SealedRows, condition: Expr | None) -> list[bool]:
    """The second opinion on a filter."""
    if condition is None:
        return [True] * len(sealed)
    return rows_that_hold(condition, sealed.rows.rename_columns([f"{STREAM}.{name}" for name in NAMES]))


def of(*portions: tuple[int, Expr | None, tuple[str, ...]]) -> Portions:
    found = Portions(SCHEMA)
    for number, condition, columns in portions:
        found.put(number, Portion(condition, columns))
    return found


def change(portions: Portions, now: dict[int, Portion]) -> None:
    for number in portions.all.keys() - now.keys():
        portions.drop(number)
    for number, portion in now.items():
        portions.put(number, portion)


# -- what is sent is what is needed -----------------------------------------------------------


@given(st.lists(st.tuples(NEEDS, TUPLES), min_size=1, max_size=3), st.integers(0, TAU), st.sampled_from([2, 3, 62]))
@examples(150)
def test_what_arrives_is_for_each_need_exactly_the_tuples_that_pass_with_their_columns_and_nothing_else(
    steps: list[tuple[list[Portion], list[tuple[Any, ...]]]], first_ts: int, most: int
) -> None:
    sender, receiver = Portions(SCHEMA), Portions(SCHEMA)
    numbers: dict[Expr | None, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PORTIONS_MAX", most)
        for tick, (needs, tuples) in enumerate(steps):
            numbers = numbered(dict.fromkeys(each.filter for each in needs), numbers)
            now = portions_of(needs, numbers, SCHEMA)
            change(sender, now)
            change(receiver, now)
            sealed = batch(tick, tuples)
            data, count = sender.encode(sealed, first_ts)
            came = receiver.decode(data)
            assert count == came.rows.num_rows == len(came.ts)
            check_portions(sealed, first_ts, now, came)
            for need in needs:
                check_need(sealed, first_ts, need, numbers[need.filter], came)


def check_portions(sealed: SealedRows, first_ts: int, portions: dict[int, Portion], came: Arrived) -> None:
    """All that passes some filter came, once and in order, and of each tuple what its portions have, and no more."""
    passes = {number: passing(sealed, each.filter) for number, each in portions.items()}
    bits = [sum(passes[number][place] << number for number in portions) for place in range(len(sealed))]
    sent = [place for place, ts in enumerate(sealed.ts.tolist()) if ts >= first_ts and bits[place]]
    assert came.ts.tolist() == [sealed.ts[place] for place in sent]
    assert came.rows.schema.names == table_schema(SCHEMA).names
    assert came.rows.column(PASSES).to_pylist() == [bits[place] for place in sent]
    for name in NAMES:
        having = sum(1 << number for number, each in portions.items() if name in each.columns)
        values, column = sealed.rows.column(name).to_pylist(), came.rows.column(name)
        assert column.to_pylist() == [values[place] if bits[place] & having else None for place in sent]
        if sent:
            assert column.type == (SCHEMA.field(name).type if having else pa.null())
    if sent:
        wanted = {
            each.filter: [at for at, place in enumerate(sent) if passes[number][place]]
            for number, each in portions.items()
            if each.filter is not None
        }
        assert {condition: places_of(came, condition) for condition in wanted} == wanted
    unknown = [condition for condition in FILTERS if condition not in {each.filter for each in portions.values()}]
    assert [came.passes.places(condition) for condition in unknown] == [None] * len(unknown)


def places_of(came: Arrived, condition: Expr) -> list[int]:
    found = came.passes.places(condition)
    assert found is not None
    return list(found.tolist())


def check_need(sealed: SealedRows, first_ts: int, need: Portion, number: int, came: Arrived) -> None:
    """A query that looks at what came, as it may look, finds its tuples."""
    whole = sealed.rows.select(list(need.columns)).to_pylist()
    late, passed = sealed.ts >= first_ts, passing(sealed, need.filter)
    rows = SealedRows(STREAM, sealed.span, came.rows, came.ts, 0, 0, None, came.passes)
    found, times = rows.select(need.filter, TICK_MIN, need.columns)
    assert found.to_pylist() == [row for place, row in enumerate(whole) if late[place] and passed[place]]
    assert times.tolist() == [ts for place, ts in enumerate(sealed.ts.tolist()) if late[place] and passed[place]]
    if number and came.rows.num_rows:
        assert need.filter is not None
        marked = holds(
            is_in(STREAM, number), came.rows.rename_columns([f"{STREAM}.{name}" for name in [*NAMES, PASSES]])
        )
        assert np.flatnonzero(marked).tolist() == places_of(came, need.filter)


def test_a_batch_in_which_nothing_passes_is_no_bytes() -> None:
    portions, sealed = of((1, below(0, STREAM), ("key",)), (2, odd(STREAM), ("key",))), batch(0, [row(key=2)])
    assert portions.encode(sealed, 0) == (b"", 0)
    assert Portions(SCHEMA).encode(sealed, 0) == (b"", 0), "nor if nobody needs anything"
    came = portions.decode(b"")
    assert (came.ts.tolist(), came.rows.num_rows) == ([], 0)
    assert [places_of(came, each.filter) for each in portions.all.values() if each.filter is not None] == [[], []]
    assert came.rows.schema.names == table_schema(SCHEMA).names


def row(offset: int = 0, key: int | None = None, name: str | None = None) -> tuple[Any, ...]:
    return offset, key, name, None, None, None, None, None


def test_where_there_is_one_portion_nothing_says_which_one_a_tuple_is_in() -> None:
    sealed = batch(0, [row(1, key=1), row(2, key=3), row(3, key=2)])
    alone, other = of((5, odd(STREAM), ("key",))), of((5, odd(STREAM), ("key",)), (6, below(0, STREAM), ("key",)))
    assert len(alone.encode(sealed, 0)[0]) < len(other.encode(sealed, 0)[0])
    came = alone.decode(alone.encode(sealed, 0)[0])
    assert came.rows.column(PASSES).to_pylist() == [1 << 5] * 2


def test_a_value_that_several_portions_need_travels_once() -> None:
    texts = np.random.default_rng(1).bytes(4_000).hex()
    sealed = batch(0, [row(0, key=place % 4, name=texts[40 * place : 40 * place + 40]) for place in range(200)])
    one = len(of((1, odd(STREAM), ("name",))).encode(sealed, 0)[0])
    all_ = len(of((0, None, ("name",))).encode(sealed, 0)[0])
    several = [(number, below(number, STREAM), ("name",)) for number in (4, 5, 6)]
    both = len(of((0, None, ("name",)), (1, odd(STREAM), ("name",)), *several).encode(sealed, 0)[0])
    assert one < all_ * 0.6
    assert both < all_ * 1.1


def test_a_batch_that_the_other_half_would_refuse_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    # Times, what passes, and two columns: each group of columns fits alone, all of them together do not.
    portions = of((1, odd(STREAM), ("key",)), (2, below(9, STREAM), ("name",)))
    sealed = batch(0, [row(at, key=1, name="x") for at in range(4)])
    monkeypatch.setattr(rows_module, "VALUES_MAX", 15)
    with pytest.raises(TooManyRowsError, match="and 15 values; got 4 rows of 4 columns: a smaller tau"):
        portions.encode(sealed, 0)
    monkeypatch.setattr(rows_module, "VALUES_MAX", 16)
    data, count = portions.encode(sealed, 0)
    assert len(portions.decode(data).ts) == count == 4


# -- numbers of filters -----------------------------------------------------------------------


def test_filters_keep_their_numbers_while_others_come_and_go() -> None:
    first, second, third, fourth = FILTERS[:4]
    now = numbered([first, second, None], {})
    assert now == {first: 1, second: 2, None: 0}
    now = numbered([second, third, first], now)
    assert now == {second: 2, third: 3, first: 1}
    now = numbered([third, second], now)
    assert now == {third: 3, second: 2}
    now = numbered([None, fourth, third, second], now)
    assert now == {None: 0, fourth: 1, third: 3, second: 2}, "a number that is free is given away again"


@given(st.lists(st.sets(st.sampled_from([None, *FILTERS])), max_size=8), st.integers(2, 12))
@examples(150)
def test_no_two_filters_have_a_number_but_0_and_none_gets_another_while_it_is_there(
    steps: list[set[Expr | None]], most: int
) -> None:
    before: dict[Expr | None, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PORTIONS_MAX", most)
        for filters in steps:
            now = numbered(sorted(filters, key=repr), before)
            assert now.keys() == filters
            own = [number for number in now.values() if number]
            assert len(own) == len(set(own))
            assert all(number < most for number in own)
            assert all(now[each] == before[each] for each in now.keys() & before.keys())
            assert now.get(None, 0) == 0
            new = [each for each in now if each is not None and each not in before]
            assert all(now[each] for each in new) or len(own) == most - 1, "0 is for those for whom no other is left"
            before = now


def test_more_filters_than_there_are_numbers_go_to_0_with_the_columns_that_they_read_and_stay_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PORTIONS_MAX", 3)
    needs = [Portion(each, ("price",)) for each in FILTERS[:4]]  # they read key, key, name and name
    numbers = numbered([each.filter for each in needs], {})
    assert list(numbers.values()) == [1, 2, 0, 0]
    assert portions_of(needs, numbers, SCHEMA) == {
        0: Portion(None, ("name", "price")),
        1: Portion(FILTERS[0], ("price",)),
        2: Portion(FILTERS[1], ("price",)),
    }
    kept = needs[1:]
    numbers = numbered([each.filter for each in kept], numbers)
    assert list(numbers.values()) == [2, 0, 0], "older tuples have no bit for them"
    numbers = numbered([FILTERS[4], *(each.filter for each in kept)], numbers)
    assert list(numbers.values()) == [1, 2, 0, 0], "the number that is free is for another"


def test_needs_with_one_filter_are_one_portion_with_the_columns_of_all_in_the_streams_order() -> None:
    condition, other = FILTERS[0], FILTERS[2]
    needs = [
        Portion(condition, ("price", "ts")),
        Portion(None, ("ok",)),
        Portion(condition, ("key", "price")),
        Portion(other, ()),
        Portion(None, ("key",)),
    ]
    assert portions_of(needs, {condition: 7, other: 3, None: 0}, SCHEMA) == {
        0: Portion(None, ("key", "ok")),
        3: Portion(other, ()),
        7: Portion(condition, ("ts", "key", "price")),
    }
    assert portions_of([], {}, SCHEMA) == {}


@pytest.mark.parametrize("number", [1, 2, 30, PORTIONS_MAX - 1])
def test_a_tuple_is_in_a_portion_if_it_has_its_bit_whatever_other_bits_it_has(number: int) -> None:
    every = (1 << PORTIONS_MAX) - 1
    passes = [1 << number, every, 1, every - (1 << number), (1 << number) - 1]
    rows = pa.RecordBatch.from_arrays([pa.array(passes, pa.int64())], names=[f"b.{PASSES}"])
    assert holds(is_in("b", number), rows).tolist() == [each >> number & 1 == 1 for each in passes]


def test_the_last_number_travels_like_every_other() -> None:
    sealed = batch(0, [row(1, key=1), row(2, key=2)])
    portions = of((0, None, ("key",)), (PORTIONS_MAX - 1, odd(STREAM), ("name",)))
    came = portions.decode(portions.encode(sealed, 0)[0])
    assert came.rows.column(PASSES).to_pylist() == [1 + (1 << 61), 1]


# -- since when a portion has what -------------------------------------------------------------


def test_a_portion_has_columns_since_the_last_of_them_came() -> None:
    coverage = Coverage()
    coverage.put(1, ("key",), 3)
    coverage.put(1, ("key", "n"), 5)
    coverage.put(0, ("n",), 7)
    assert [coverage.since(1, names) for names in (("key",), ("n",), ("n", "key"), ("n", "n"))] == [3, 5, 5, 5]
    assert coverage.since(1, ()) == 3, "its tuples are there since it is"
    assert coverage.since(0, ("n",)) == 7
    assert coverage.since(1, ("ts",)) is coverage.since(1, ("key", "ts")) is None
    assert coverage.since(2, ()) is None


def test_what_was_not_sent_for_some_time_is_there_since_it_came_again() -> None:
    coverage = Coverage()
    coverage.put(1, ("key", "n"), 3)
    coverage.put(1, ("key",), 5)
    assert coverage.since(1, ("n",)) is None
    coverage.put(1, ("key", "n"), 6)
    assert [coverage.since(1, names) for names in (("key",), ("n",), ())] == [3, 6, 3], "there is a gap in n alone"
    coverage.drop(1)
    assert coverage.since(1, ("key",)) is coverage.since(1, ()) is None
    coverage.put(1, ("key",), 8)
    assert [coverage.since(1, names) for names in (("key",), ("n",), ())] == [8, None, 8]
    coverage.drop(9)


# -- how much of the stream a portion is ------------------------------------------------------


def test_a_portion_counts_what_passed_since_it_is_there() -> None:
    portions = of((0, None, ("key",)), (1, odd(STREAM), ("key",)))
    assert (portions.share_of(0), portions.share_of(1)) == (None, None)
    portions.encode(batch(0, [row(key=1), row(key=2), row(key=4), row(key=None)]), 0)
    assert (portions.share_of(0), portions.share_of(1)) == (1.0, 0.25)
    portions.put(2, Portion(below(9, STREAM), ("key",)))
    portions.put(1, Portion(odd(STREAM), ("key", "name")))
    assert portions.share_of(2) is None
    portions.encode(batch(1, []), 0)
    portions.encode(batch(2, [row(key=1), row(key=3), row(key=9), row(key=2)]), 0)
    assert portions.share_of(1) == 0.5, "other columns make it no other portion"
    assert portions.share_of(2) == 0.75
    portions.drop(1)
    portions.put(1, Portion(below(0, STREAM), ("key",)))
    assert portions.share_of(1) is None, "another filter that has its number"
    portions.encode(batch(3, [row(key=1)]), 0)
    assert portions.share_of(1) == 0.0


def test_an_owner_says_how_much_of_its_stream_each_portion_is() -> None:
    owner, told = new_owner(), list[SetPortion | DropPortion]()
    owner.add(("q1", 0), spec(odd(STREAM), "n"), told.append)
    owner.add(("q2", 0), spec(None, "key"), told.append)
    next_sync(owner, 1, 2, 3, 5)
    assert owner.specs == [spec(None, "key"), spec(odd(STREAM), "n")]
    assert [each.share for each in owner.specs] == [1.0, 0.75]


# -- what a bad peer could send ---------------------------------------------------------------

ODD_AND_ALL = ((0, None, ("key",)), (2, odd(STREAM), ("name",)))


def head(times: list[int | None], passes: list[int | None]) -> bytes:
    arrays = [pa.array(times, pa.int64()), pa.array(passes, pa.int64())]
    return encode_rows(pa.RecordBatch.from_arrays(arrays, names=[TS, PASSES]))


def column(name: str, *values: Any) -> bytes:
    return encode_rows(pa.RecordBatch.from_arrays([pa.array(values, SCHEMA.field(name).type)], names=[name]))


def test_what_the_bytes_of_a_batch_are() -> None:
    sealed = batch(0, [row(1, key=2, name="even"), row(2, key=3, name="odd")])
    honest = head([1, 2], [1, 5]) + column("key", 2, 3) + column("name", "odd")
    assert of(*ODD_AND_ALL).encode(sealed, 0) == (honest, 2)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"junk", "require"),
        (b"\x00", "at least one row"),
        (b"\xff\xff\xff", "require"),
        (head([1], [8]) + column("key", 2), "in some of portions"),
        (head([1], [1 + 2]) + column("key", 2), "in some of portions"),
        (head([1], [-1]) + column("key", 2) + column("name", "x"), "in some of portions"),
        (head([1, 2], [1, 0]) + column("key", 2), "in some of portions"),
        (head([1, None], [1, 1]) + column("key", 2, 3), "of every tuple"),
        (head([1, 2], [1, None]) + column("key", 2), "of every tuple"),
        (head([1, 2], [1, 1]) + column("key", 2), "require 2 tuples; got 1"),
        (head([1, 2], [1, 5]) + column("key", 2, 3) + column("name", "x", "y"), "require 1 tuples; got 2"),
        (head([1, 2], [1, 5]) + column("key", 2, 3), "require"),
        (head([1, 2], [1, 5]), "require"),
        (head([1, 2], [1, 1]) + column("key", 2, 3) + column("name", "x"), "bytes too many"),
        (head([1], [1]) + column("key", 2) + b"\x00", "bytes too many"),
        (head([1], [1]) + column("name", "x"), "require"),
    ],
    ids=[
        "junk",
        "no rows",
        "no number",
        "a portion that is not there",
        "one that is and one that is not",
        "a negative number",
        "a tuple that is in no portion",
        "no time",
        "a tuple of which it is not said where it is",
        "a value too few",
        "a value too many",
        "a column too few",
        "no columns",
        "a column too many",
        "a byte too many",
        "another column",
    ],
)
def test_bytes_that_are_no_batch_are_refused(data: bytes, text: str) -> None:
    with pytest.raises(PeerProtocolError, match=text):
        of(*ODD_AND_ALL).decode(data)


def test_a_batch_of_other_portions_than_were_agreed_is_refused() -> None:
    honest = of(*ODD_AND_ALL).encode(batch(0, [row(key=1), row(key=2)]), 0)[0]
    for portions in (of(), of(ODD_AND_ALL[0]), of(ODD_AND_ALL[1])):
        with pytest.raises(PeerProtocolError):
            portions.decode(honest)


def test_a_batch_that_claims_too_many_values_is_refused_by_its_size_before_anything_is_made_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    #  A column of one value costs the same however many tuples there are, and so each column of each portion may.
    def of_one_column_each(names: Sequence[str]) -> Portions:
        return of(*((number, FILTERS[number - 1], (name,)) for number, name in enumerate(names, start=1)))

    count, few = encode_varint(ROWS_MAX), head([0, 0], [2, 2])
    claimed = count + few[len(encode_varint(2)) :]
    assert (ROWS_MAX, len(claimed)) == (2**24, 10)
    most = VALUES_MAX // ROWS_MAX - 2  # beside the times, and what passes
    with pytest.raises(PeerProtocolError, match="require"):
        of_one_column_each(NAMES[:most]).decode(claimed)  # no column comes
    made: list[str] = []
    monkeypatch.setattr(module, "spread", lambda *_: made.append("spread"))
    monkeypatch.setattr(Portions, "_rows", lambda *_: made.append("rows"))
    for names in (NAMES[: most + 1], NAMES):
        with pytest.raises(PeerProtocolError, match="requires fewer values; got 16777216 tuples"):
            of_one_column_each(names).decode(claimed + column("ts", *[0] * 2))
    assert made == []


@given(TUPLES, st.integers(0, 400), st.integers(0, 255), st.booleans())
@examples(150)
def test_a_damaged_batch_is_refused_or_is_another_one_and_never_anything_else(
    tuples: list[tuple[Any, ...]], at: int, byte: int, short: bool
) -> None:
    portions = of((0, None, ("key", "ok")), (2, odd(STREAM), ("name", "tags")), (3, FILTERS[2], ("key", "note")))
    data = portions.encode(batch(0, tuples), 0)[0]
    at %= len(data) + 1
    try:
        came = portions.decode(data[:at] if short else data[:at] + bytes([byte]) + data[at + 1 :])
    except PeerProtocolError:
        return
    came.rows.validate(full=True)
    assert len(came.ts) == came.rows.num_rows
    assert all(passes & ~0b1101 == 0 and passes for passes in came.rows.column(PASSES).to_pylist())


# -- the owner's half -------------------------------------------------------------------------


def spec(condition: Expr | None, *columns: str, axis: CopyAxis = CopyAxis.TIME) -> RunningCopy:
    return RunningCopy(CopyKind.FULL, STREAM, (), columns, condition, axis, "bow", "ash")


def new_owner(of_: RunningCopy | None = None) -> FullOwner:
    return FullOwner("ash", 1, of_ or spec(None, "key"), NUMBERS, TAU, 0)


def new_holder(of_: RunningCopy | None = None) -> FullHolder:
    return FullHolder(EngineWork(), 1, of_ or spec(None, "key"), NUMBERS, TAU, 0)


def next_sync(owner: FullOwner, *keys: int) -> Sync:
    """What an owner sends for a tick with tuples of these keys."""
    sent: list[Sync] = []

    def post(message: Sync) -> None:
        sent.append(message)

    owner.take(sealed_keys(owner.frontier, *keys), post)
    (sync,) = sent
    return sync


def sealed_keys(tick: int, *keys: int) -> SealedRows:
    count = len(keys)
    columns = [[tick * TAU] * count, list(keys), list(range(count))]
    rows = pa.RecordBatch.from_arrays([pa.array(each, pa.int64()) for each in columns], schema=NUMBERS)
    return SealedRows(STREAM, Span(tick, tick + 1), rows, array([tick * TAU] * count), 0, 0)


def test_an_owner_tells_what_changes_and_nothing_else() -> None:
    owner, told = new_owner(), list[SetPortion | DropPortion]()

    def happened() -> list[SetPortion | DropPortion]:
        found = list(told)
        told.clear()
        return found

    owner.add(("q1", 0), spec(odd(STREAM), "n"), told.append)
    assert happened() == [SetPortion(1, 1, spec(odd(STREAM), "n"))]
    owner.add(("q2", 0), spec(odd(STREAM), "n"), told.append)
    assert happened() == []
    owner.add(("q3", 0), spec(None, "n"), told.append)
    assert happened() == [SetPortion(1, 0, spec(None, "n"))]
    owner.add(("q3", 1), spec(odd(STREAM), "ts"), told.append)
    assert happened() == [SetPortion(1, 1, spec(odd(STREAM), "ts", "n"))]
    owner.remove({("q9", 0)}, told.append)
    owner.remove({("q1", 0)}, told.append)
    assert happened() == []
    owner.remove({("q2", 0)}, told.append)
    assert happened() == [SetPortion(1, 1, spec(odd(STREAM), "ts"))]
    assert list(owner.needed) == [("q3", 0), ("q3", 1)]
    assert [each.filter for each in owner.portions.all.values()] == [None, odd(STREAM)]
    owner.remove({("q3", 0), ("q3", 1)}, told.append)
    assert sorted(happened(), key=lambda message: message.portion) == [DropPortion(1, 0), DropPortion(1, 1)]
    assert (list(owner.needed), [each.filter for each in owner.portions.all.values()], owner.specs) == ([], [], [])


def test_a_copy_takes_queries_along_its_axis_and_of_a_count_window_only_those_with_its_filter() -> None:
    by_time, by_rows = spec(odd(STREAM), "n"), spec(odd(STREAM), "n", axis=CopyAxis.ROWS)
    owner = new_owner(by_time)
    assert owner.takes(by_time)
    assert owner.takes(replace(by_time, filter=None, columns=("ts",)))
    assert not owner.takes(by_rows)
    owner = new_owner(by_rows)
    assert owner.takes(replace(by_rows, columns=("ts",)))
    assert not owner.takes(replace(by_rows, filter=None))
    assert not owner.takes(by_time)


def test_a_sync_has_the_portions_that_were_told_before_it_and_counts_its_tuples() -> None:
    owner, holder = new_owner(), new_holder()
    owner.add(("q1", 0), spec(odd(STREAM), "key"), holder.on_portion)
    for keys, sees in (((1, 2), [{"ts": None, "key": 1, "n": None, PASSES: 2}]), ((2, 4), [])):
        assert holder.on_sync(next_sync(owner, *keys)).rows.to_pylist() == sees
    owner.add(("q2", 0), spec(None, "n"), holder.on_portion)
    assert holder.on_sync(next_sync(owner, 3, 4)).rows.to_pylist() == [
        {"ts": None, "key": 3, "n": 0, PASSES: 3},
        {"ts": None, "key": None, "n": 1, PASSES: 1},
    ]
    assert owner.status().tuples == holder.status().tuples == 3


# -- the holder's half ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        DropPortion(1, 1),
        DropPortion(1, 3),
        SetPortion(1, 0, spec(odd(STREAM), "key")),
        SetPortion(1, 1, spec(None, "key")),
        SetPortion(1, PORTIONS_MAX, spec(odd(STREAM), "key")),
        SetPortion(1, -1, spec(odd(STREAM), "key")),
        SetPortion(1, 2, spec(odd(STREAM), "key")),
        SetPortion(1, 1, spec(below(3, STREAM), "n")),
        SetPortion(1, 1, spec(odd(STREAM), "key", "zip")),
        SetPortion(1, 1, spec(odd(STREAM), "key", PASSES)),
        SetPortion(1, 1, replace(spec(odd(STREAM), "key"), stream="l")),
        SetPortion(1, 1, replace(spec(odd(STREAM), "key"), owner="cam")),
        SetPortion(1, 1, replace(spec(odd(STREAM), "key"), holder="cam")),
        SetPortion(1, 1, replace(spec(odd(STREAM), "key"), keys=KEYS)),
        SetPortion(1, 1, replace(spec(odd(STREAM), "key"), kind=CopyKind.MIXED)),
        SetPortion(1, 1, spec(odd(STREAM), "key", axis=CopyAxis.ROWS)),
    ],
    ids=[
        "an end of what is not there",
        "nor this one",
        "a filter where all pass",
        "no filter where some pass",
        "a number too large",
        "a number too small",
        "another filter under its number",
        "another number for its filter",
        "a column that the stream has not",
        "what passes as a column",
        "of another stream",
        "of another owner",
        "of another holder",
        "with keys",
        "of another kind",
        "along another axis",
    ],
)
def test_a_wrong_portion_is_refused_and_changes_nothing(message: SetPortion | DropPortion) -> None:
    holder = new_holder()
    holder.on_portion(SetPortion(1, 2, spec(below(3, STREAM), "n")))
    was = holder.portions.all
    text = (
        r"copy/r/1 requires (a portion (that it has|of its stream)|portions below 62, 0 for|one number for each filter)"
    )
    with pytest.raises(PeerProtocolError, match=text):
        holder.on_portion(message)
    assert holder.portions.all == was == {2: Portion(below(3, STREAM), ("n",))}


def test_all_portions_of_a_count_window_have_its_filter() -> None:
    condition = odd(STREAM)
    holder = new_holder(spec(condition, "key", axis=CopyAxis.ROWS))
    holder.on_portion(SetPortion(1, 1, spec(condition, "n", axis=CopyAxis.ROWS)))
    for number, other in ((0, None), (2, below(3, STREAM))):
        with pytest.raises(PeerProtocolError, match="a portion of its stream"):
            holder.on_portion(SetPortion(1, number, spec(other, "n", axis=CopyAxis.ROWS)))
    assert list(holder.portions.all) == [1]


def leased(
    holder: FullHolder, query_id: str, where: Expr | None, first_tick: int | None, *columns: str, alias: str = "b"
) -> Lease:
    """A query at a holder that has found its copy to be right."""
    made = lease(query_id, reach(30, where=where, alias=alias), first_tick=first_tick, columns=columns)
    holder.lease(made)
    return made


def nothing_until(tick: int) -> Sync:
    """A batch without tuples that ends at a tick."""
    return Sync(1, tick, 0, 0, b"", b"", b"", b"")


def hear(holder: FullHolder, tick: int) -> list[str]:
    """A batch comes that ends at a tick; who is missing something of it."""
    missing = holder.on_batch(nothing_until(tick))
    holder.on_sync(nothing_until(tick))
    return missing


def test_a_query_asks_the_bit_of_its_portion_and_its_filter_only_where_it_has_none() -> None:
    holder = new_holder()
    mine, called_c = leased(holder, "q1", odd(), 0, "n"), leased(holder, "q2", odd("c"), 0, "n", alias="c")
    other, every = leased(holder, "q3", below(3), 0, "n"), leased(holder, "q4", None, 0, "n")
    holder.on_portion(SetPortion(1, 4, spec(odd(STREAM), "n")))
    holder.on_portion(SetPortion(1, 0, spec(None, "key", "n")))
    assert [holder.portion_of(each) for each in (mine, called_c, other, every)] == [None] * 4
    assert hear(holder, 1) == []
    assert [holder.portion_of(each) for each in (mine, called_c, other, every)] == [4, 4, 0, 0]
    table = holder.table
    assert table.where(mine) == is_in("b", 4)
    assert table.where(mine) is table.where(mine), "an engine knows the question again by the object"
    assert table.where(called_c) == is_in("c", 4)
    assert table.where(other) == below(3)
    assert table.where(every) is None
    counted = new_holder(spec(odd(STREAM), "n", axis=CopyAxis.ROWS))
    by_count = lease("q1", reach(count=3, where=odd()), columns=("n",))
    counted.lease(by_count)
    counted.on_portion(SetPortion(1, 1, spec(odd(STREAM), "n", axis=CopyAxis.ROWS)))
    assert hear(counted, 1) == []
    assert counted.portion_of(by_count) == 1
    assert counted.table.where(by_count) is None


def test_queries_that_begin_with_a_batch_and_of_which_something_is_missing_are_named() -> None:
    holder = new_holder()
    for query_id, where, first_tick, columns in (
        ("odd", odd(), 3, ("n",)),
        ("odd", odd(), 3, ("ts",)),
        ("odd later", odd(), 5, ("n",)),
        ("below", below(3), 0, ("key",)),
        ("all", None, 0, ("n",)),
        ("not begun", odd(), None, ("n",)),
    ):
        leased(holder, query_id, where, first_tick, *columns)
    tell = holder.on_portion

    def missing(end: int) -> list[str]:
        """In a batch that ends at a tick; nobody is named twice to whoever ends them."""
        found = holder.on_batch(nothing_until(end))
        return list(dict.fromkeys(found))

    assert missing(0) == []
    assert missing(3) == ["below", "all"], "the others see nothing of a batch that ends before they begin"
    assert missing(4) == ["odd", "below", "all"]
    assert missing(6) == ["odd", "odd later", "below", "all"]
    assert tell(SetPortion(1, 1, spec(odd(STREAM), "n"))) == []
    assert missing(6) == ["odd", "below", "all"], "a column is missing"
    assert tell(SetPortion(1, 1, spec(odd(STREAM), "ts", "n"))) == []
    assert missing(6) == ["below", "all"]
    assert tell(SetPortion(1, 2, spec(below(3, STREAM), "n"))) == []
    assert missing(6) == ["below", "all"]
    assert tell(SetPortion(1, 0, spec(None, "n"))) == []
    assert missing(6) == ["below"]
    assert tell(SetPortion(1, 0, spec(None, "key", "n"))) == []
    assert missing(6) == ["below"], "what others need may end with them, so its own portion has to have it"
    assert tell(SetPortion(1, 2, spec(below(3, STREAM), "key", "n"))) == []
    assert missing(6) == []
    assert hear(holder, 6) == []


def test_what_comes_after_a_query_has_begun_comes_too_late_for_it() -> None:
    holder = new_holder()
    holder.on_portion(SetPortion(1, 1, spec(odd(STREAM), "key")))
    assert hear(holder, 4) == []
    leased(holder, "begins at 3", odd(), 3, "key", "n")
    leased(holder, "begins at 4", odd(), 4, "key", "n")
    holder.on_portion(SetPortion(1, 1, spec(odd(STREAM), "key", "n")))
    holder.on_portion(SetPortion(1, 0, spec(None, "key", "n")))
    assert holder.on_batch(nothing_until(5)) == ["begins at 3"], "n is there since tick 4, of all tuples too"


def test_a_query_that_has_begun_and_loses_what_it_has_joined_is_named_at_once_and_no_other() -> None:
    holder = new_holder()
    tell = holder.on_portion
    tell(SetPortion(1, 1, spec(odd(STREAM), "key", "n")))
    tell(SetPortion(1, 2, spec(below(3, STREAM), "key", "n")))
    leased(holder, "both columns", odd(), 0, "key", "n")
    leased(holder, "one column", odd(), 0, "key")
    leased(holder, "another filter", below(3), 0, "n")
    leased(holder, "begins later", odd(), 9, "key", "n")
    assert hear(holder, 5) == []
    assert tell(SetPortion(1, 1, spec(odd(STREAM), "key"))) == ["both columns"]
    assert tell(SetPortion(1, 1, spec(odd(STREAM), "key", "n"))) == ["both columns"], "there is a gap"
    assert tell(SetPortion(1, 0, spec(None, "key", "n"))) == ["both columns"]
    assert tell(DropPortion(1, 1)) == ["both columns", "one column"]
    assert tell(SetPortion(1, 1, spec(odd(STREAM), "key", "n"))) == ["both columns", "one column"]
    for gone in [each for each in holder.leases if each.query_id in ("both columns", "one column")]:
        holder.release(gone)
    assert tell(DropPortion(1, 1)) == []
    assert hear(holder, 10) == [], "all that begins at 9 is in the portion without a filter"


def test_a_query_keeps_the_portion_in_which_it_began_whatever_comes_later() -> None:
    holder = new_holder()
    mine = leased(holder, "q1", odd(), 0, "n")
    assert holder.on_portion(SetPortion(1, 0, spec(None, "key", "n"))) == []
    assert hear(holder, 2) == []
    assert holder.on_portion(SetPortion(1, 3, spec(odd(STREAM), "key", "n"))) == []
    assert hear(holder, 4) == []
    newer = leased(holder, "q2", odd(), 3, "n")
    assert holder.portion_of(newer) == 3, "which has all since tick 2"
    assert (holder.portion_of(mine), holder.table.where(mine)) == (0, odd()), "older tuples have no bit of 3"
    assert holder.table.where(newer) == is_in("b", 3)
    assert holder.on_portion(DropPortion(1, 3)) == ["q2"]
    assert holder.on_portion(DropPortion(1, 0)) == ["q1", "q2"]
    holder.release(mine)
    assert (holder.portion_of(mine), holder.table.where(mine)) == (None, odd())


def test_a_query_finds_all_in_a_full_copy_from_when_it_was_prepared_or_that_had_it_all_before() -> None:
    holder = new_holder()
    holder.on_portion(SetPortion(1, 1, spec(odd(STREAM), "key")))
    assert hear(holder, 2) == []
    holder.on_portion(SetPortion(1, 1, spec(odd(STREAM), "key", "n")))
    leased(holder, "keeps rows", odd(), 0, "key")
    assert hear(holder, 6) == []

    def serves(first_tick: int, prepared_at: int, *columns: str, where: Expr | None = None) -> bool:
        made = lease("q", reach(30, where=where or odd()), first_tick=first_tick, columns=columns)
        return holder.serves_from(made, prepared_at)

    assert serves(6, 6, "ts"), "what it needs is sent from then on"
    assert serves(7, 6, "ts")
    assert not serves(6, 7, "ts")
    assert not serves(5, 5, "ts"), "batches have come without it, so it is over at the owner, or will be prepared"
    assert serves(2, 6, "n")
    assert serves(5, 9, "key", "n")
    assert not serves(1, 6, "n")
    assert serves(1, 6, "key"), "n came later, and it does not need that"
    assert not serves(5, 6, "key", where=below(3))


# -- both, through their messages -------------------------------------------------------------


def full(world: World, query_id: str, where: Callable[[], Expr] | None = None, length: int = 30) -> Any:
    return world.start(query_id, CopyKind.FULL, reach(length, where=None if where is None else where()))


def portion_messages(world: World) -> list[SetPortion | DropPortion]:
    return [message for message in world.mail["ash"] if isinstance(message, SetPortion | DropPortion)]


def test_a_query_is_sent_what_it_needs_since_it_was_prepared_beside_what_others_need() -> None:
    world = World()
    first = full(world, "q1", odd)
    world.up()
    world.batch(1, (1, 1), (2, 2))
    second = world.prepare("q2", CopyKind.FULL, reach(30))
    world.batch(1, (11, 3), (12, 4))
    world.settle()
    world.start_at_bow(second, 1)
    world.start_at_ash(second, 1)
    world.settle()
    assert second.copy is first.copy
    assert [n for _, n in world.contents(second.copy)] == [0, 2, 3]
    assert portion_messages(world) == []
    assert not world.lost
    world.check()


def test_a_claim_is_added_to_every_full_copy_that_it_may_turn_out_to_use_and_stays_in_the_one_that_it_uses() -> None:
    world = World(retain_ms=1_000)
    world.batch(3, (5, 1))
    full(world, "q1")
    past = world.prepare("q2", CopyKind.FULL, reach(30, where=below(9)))
    world.start_at_bow(past, 0)
    world.start_at_ash(past, 0)  # not the first copy: that was sent nothing for it then
    rows = world.start("q3", CopyKind.FULL, reach(count=3))
    world.settle()
    assert [query.copy.number for query in world.queries.values() if query.copy] == [1, 2, 3]
    world.prepare("q4", CopyKind.FULL, reach(30, where=odd()))
    needed = spec_of(CopyKind.FULL, reach(30, where=odd()))
    assert portion_messages(world) == [SetPortion(1, 1, needed), SetPortion(2, 2, needed)]
    world.settle()
    world.start_at_bow(world.queries["q4"], 3)
    world.start_at_ash(world.queries["q4"], 3)
    world.up()
    assert world.queries["q4"].copy is world.ash.held.get(1)
    assert portion_messages(world) == [DropPortion(2, 2)]
    owners = {number: world.bow.owned.get("ash", number) for number in (1, 2, 3)}
    users = {number: list(owner.needed) for number, owner in owners.items() if isinstance(owner, FullOwner)}
    assert users == {1: [("q1", 0), ("q4", 0)], 2: [("q2", 0)], 3: [("q3", 0)]}
    world.end_at_bow(world.queries["q4"])
    assert portion_messages(world) == [DropPortion(2, 2), DropPortion(1, 1)]
    assert rows.copy is world.ash.held.get(3)


def test_a_query_that_has_begun_and_is_over_at_the_owner_is_lost_at_the_holder_with_its_portion_and_no_other() -> None:
    world = World()
    first, second = full(world, "q1", odd), full(world, "q2", lambda: below(3))
    world.up()
    world.up()
    world.batch(1, (1, 1), (2, 2))
    world.settle()
    world.end_at_bow(first)
    del world.queries["q1"]
    message = world.mail["ash"].popleft()
    assert message == DropPortion(1, 1)
    assert world.ash.on_portion("bow", message).lost == {"q1": "site bow no longer sends what it needs"}
    world.end_at_ash(first)
    world.batch(1, (11, 1), (12, 5))
    (sync,) = world.mail["ash"]
    assert isinstance(sync, Sync)
    fed = world.ash.on_sync("bow", sync)
    assert fed.lost == {}
    assert [sealed.rows.column("n").to_pylist() for _, sealed in fed.batches] == [[2]], "5 is nobody's any more"
    assert second.copy is not None
    assert second.copy.number == 1


def test_a_query_that_has_not_begun_and_is_over_at_the_owner_is_lost_with_the_first_batch_that_it_sees() -> None:
    world = World()
    full(world, "q1", lambda: below(3))
    world.settle()
    later = world.prepare("q2", CopyKind.FULL, reach(30, where=odd()))
    world.start_at_bow(later, 2)
    world.start_at_ash(later, 2)
    world.settle()
    world.end_at_bow(later)
    del world.queries["q2"]
    world.batch(2, (1, 1), (2, 2))
    world.settle()
    assert not world.lost, "it sees nothing of it"
    world.batch(1, (21, 1), (22, 5))
    (sync,) = world.mail["ash"]
    assert isinstance(sync, Sync)
    assert world.ash.on_sync("bow", sync).lost == {"q2": "site bow no longer sends what it needs"}


def test_portions_of_what_is_no_full_copy_or_of_another_owner_are_refused_and_of_none_are_ignored() -> None:
    world = World()
    full(world, "q1")
    world.start("q2", CopyKind.KEYS, reach(30))
    message = SetPortion(2, 0, spec(None, "key"))
    with pytest.raises(PeerProtocolError, match="a portion requires a full copy; got 2"):
        world.ash.on_portion("bow", message)
    with pytest.raises(PeerProtocolError, match="requires messages of bow; got one of cam"):
        world.ash.on_portion("cam", replace(message, copy=1))
    for gone in (replace(message, copy=9), DropPortion(9, 0)):
        world.ash.on_portion("bow", gone)
    copy = world.ash.held.get(1)
    assert isinstance(copy, FullHolder)
    assert copy.portions.all == {}


def test_a_number_that_is_given_away_again_does_not_show_its_new_query_the_tuples_of_the_old_one() -> None:
    world = World()
    full(world, "keeps it")
    first = full(world, "q1", odd)
    world.settle()
    world.batch(1, (1, 1), (2, 2))
    world.settle()
    world.end_at_ash(first)
    world.end_at_bow(first)
    del world.queries["q1"]
    second = full(world, "q2", lambda: below(3))
    world.batch(1, (11, 5), (12, 2))
    world.settle()
    copy = second.copy
    assert isinstance(copy, FullHolder)
    assert copy.portions.number_of(below(3, STREAM)) == 1
    assert copy.table.where(second.copy_lease) == is_in("b", 1)
    low, high = copy.table.bounds(second.copy_lease, array([19]), True)
    assert (low.tolist(), high.tolist()) == ([2], [4])
    world.check()


def test_more_queries_than_there_are_numbers_all_find_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTIONS_MAX", 3)
    world = World()
    wheres = [odd(), *(below(key) for key in range(1, 6))]
    queries = [world.start(f"q{at}", CopyKind.FULL, reach(30, where=where)) for at, where in enumerate(wheres)]
    world.settle()
    world.batch(1, (1, 1), (2, 2), (3, None), (4, 4))
    world.settle()
    assert {query.copy.number for query in queries if query.copy} == {1}
    owner = world.bow.owned.get("ash", 1)
    assert isinstance(owner, FullOwner)
    assert list(owner.portions.all) == [0, 1, 2]
    world.end_at_ash(queries[0])
    world.end_at_bow(queries[0])
    del world.queries["q0"]
    for query in [full(world, "q6"), full(world, "q7", lambda: below(9))]:
        world.settle()
        world.batch(1, (world.stream.fed * TAU, 1), (world.stream.fed * TAU, 5))
        world.settle()
        assert query.copy is world.ash.held.get(1)
    assert not world.lost
    world.check()
