"""Questions of many queries to a table with several indexes, in one call: what each of them alone would get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from node.core.engine import (
    HIGH,
    LOW,
    POSITION,
    TS,
    Append,
    CloseIndex,
    Expire,
    Find,
    Op,
    OpenIndex,
    OpenTable,
    Outcome,
    Probe,
    Question,
)
from node.core.keys import keycodes as keys
from node.engine import fusion, orders, tiers
from planner.model.query import Call, ColumnRef, Expr, Literal
from tests.engines.judge import Engines, as_counter
from tests.sim.reference_engine import ReferenceEngine

SCHEMA = pa.schema([(POSITION, pa.int64()), ("k", pa.string()), ("j", pa.int16()), ("id", pa.int64())])
#: Keys that are their own codes, that are hashed, of two columns, and none.
INDEXES: list[tuple[str, ...]] = [("j",), ("k",), ("k", "j"), ("j", "k"), ()]
_POSITIONS = st.integers(-20, 20)
_WORDS = st.sampled_from(["a", "b", None])
_NUMBERS = st.sampled_from([1, 2, None])
_ROWS = st.lists(st.tuples(_POSITIONS, _WORDS, _NUMBERS, st.integers(0, 99)), min_size=1, max_size=10)


def compared(function: str, left: Expr, right: Expr) -> Expr:
    return Call(function, (left, right), pa.bool_())


def _conditions(alias: str) -> list[Expr | None]:
    """Of the table alone, of both, of the carry alone; one that is sometimes null."""
    number, own = ColumnRef(alias, "id"), ColumnRef("c", "n")
    return [
        None,
        None,
        compared(">", number, Literal(40, pa.int64())),
        compared("<", number, own),
        compared(">=", own, Literal(30, pa.int64())),
        compared("=", ColumnRef(alias, "j"), Literal(1, pa.int64())),
    ]


#: The carries of some queries: what else they have, of which types their keys are, and in which order.
CARRIES = [
    pa.schema([(LOW, pa.int64()), (HIGH, pa.int64()), ("c.k", pa.string()), ("c.j", pa.int16()), ("c.n", pa.int64())]),
    pa.schema([("c.n", pa.int64()), (TS, pa.int64()), ("c.k", pa.string()), (HIGH, pa.int64()), ("c.j", pa.int16())])
    .append(pa.field(LOW, pa.int64()))
    .append(pa.field("d.text", pa.string_view())),
    pa.schema([("c.j", pa.int64()), ("c.k", pa.large_string()), ("c.n", pa.int64()), (LOW, pa.int64())]).append(
        pa.field(HIGH, pa.int64(), nullable=False)
    ),
]


@st.composite
def probes(draw: st.DrawFn, expired: int, names: tuple[str, ...]) -> Probe:
    schema = draw(st.sampled_from(CARRIES))
    asked = st.tuples(st.integers(expired, 25), st.integers(-5, 15), _WORDS, _NUMBERS, st.integers(0, 99))
    rows = draw(st.lists(asked, max_size=6))
    columns = {
        LOW: [row[0] for row in rows],
        HIGH: [row[0] + row[1] for row in rows],
        TS: [row[0] for row in rows],
        "c.k": [row[2] for row in rows],
        "c.j": [row[3] for row in rows],
        "c.n": [row[4] for row in rows],
        "d.text": [str(row) for row in rows],
    }
    alias = draw(st.sampled_from(["t", "u"]))
    given = [name for name in schema.names if name not in (LOW, HIGH)] + [f"{alias}.{name}" for name in "kj"]
    return Probe(
        "t",
        names,
        pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema=schema),
        tuple(f"c.{name}" for name in names),
        alias,
        draw(st.sampled_from(_conditions(alias))),
        tuple(draw(st.lists(st.sampled_from([*given, f"{alias}.id"]), unique=True, max_size=5))),
    )


@st.composite
def finds(draw: st.DrawFn, expired: int, names: tuple[str, ...]) -> Find:
    kinds = {"k": draw(st.sampled_from([pa.string(), pa.large_string()])), "j": pa.int16()}
    keys_ = draw(st.lists(st.tuples(*[_WORDS if name == "k" else _NUMBERS for name in names]), unique=True, max_size=5))
    wanted = [pa.array([key[i] for key in keys_], kinds[name]) for i, name in enumerate(names)]
    low = draw(st.integers(expired, 25))
    alias = draw(st.sampled_from(["t", "u"]))
    return Find(
        "t",
        names,
        pa.RecordBatch.from_arrays(wanted, names=list(names)),
        low,
        draw(st.integers(low - 3, 30)),
        alias,
        draw(st.sampled_from([None, compared(">", ColumnRef(alias, "id"), Literal(40, pa.int64()))])),
        tuple(draw(st.lists(st.sampled_from(["k", "j", "id"]), unique=True))),
    )


def questions(expired: int, indexes: Sequence[tuple[str, ...]]) -> st.SearchStrategy[Question]:
    """Never for what has expired."""
    some = st.sampled_from(indexes)
    return some.flatmap(lambda names: probes(expired, names) | finds(expired, names) if names else probes(expired, ()))


def _rows(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return pa.record_batch(columns, schema=SCHEMA)


@st.composite
def calls(draw: st.DrawFn) -> list[list[Op]]:
    """Calls of an engine. What a question may see or not, rows that are appended after it in its call, is left out."""
    expired = -20
    opened = [draw(st.sampled_from(INDEXES))]
    made: list[list[Op]] = [[OpenTable("t", SCHEMA), OpenIndex("t", opened[0])]]
    for _ in range(draw(st.integers(1, 6))):
        call: list[Op] = [Append("t", _rows(rows)) for rows in draw(st.lists(_ROWS, max_size=3))]
        if len(opened) < 3 and draw(st.booleans()):
            opened.append(draw(st.sampled_from([names for names in INDEXES if names not in opened])))
            call.append(OpenIndex("t", opened[-1]))
        call += draw(st.lists(questions(expired, opened), max_size=5))
        if draw(st.booleans()):
            expired = max(expired, draw(_POSITIONS))
            call.append(Expire("t", expired))
            call += draw(st.lists(questions(expired, opened), max_size=2))
        if len(opened) > 1 and draw(st.booleans()):
            call.append(CloseIndex("t", opened.pop()))
        made.append(call)
    return made


def assert_alike(outcomes: Sequence[Outcome], expected: Sequence[Outcome]) -> None:
    for outcome, other in zip(outcomes, expected, strict=True):
        assert type(outcome) is type(other), outcome
        if outcome is not None and other is not None:
            assert isinstance(outcome, pa.RecordBatch)
            assert isinstance(other, pa.RecordBatch)
            outcome.validate(full=True)
            assert outcome.schema.equals(other.schema)
            assert as_counter(outcome) == as_counter(other)


def check_any_calls(engines: Engines, finish: keys.Finish, data: st.DataObject) -> None:
    """Against the reference, which answers pair by pair and question by question."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "_FLOOR", data.draw(st.sampled_from([1, 2000])))
        patch.setattr(orders, "_FILTERED_ROWS", 4)
        patch.setattr(orders, "_FILTERED_QUERIES", 2)
        patch.setattr(fusion, "_LATE_PAIRS", data.draw(st.sampled_from([1, 10, 4096])))
        engine, reference = engines(finish), ReferenceEngine()
        for call in data.draw(calls()):
            assert_alike(engine.run(call), reference.run(call))
    assert engine.rows("t") == reference.rows("t")


def check_fused_and_alone(engines: Engines, finish: keys.Finish, data: st.DataObject) -> None:
    """The same questions, in one call and each in its own; one that fails spoils no other."""
    engine = engines(finish)
    opened: list[Op] = [OpenTable("t", SCHEMA), *(OpenIndex("t", names) for names in INDEXES)]
    engine.run([*opened, *(Append("t", _rows(rows)) for rows in data.draw(st.lists(_ROWS, min_size=1, max_size=4)))])
    asked: list[Op] = [*data.draw(st.lists(questions(-20, INDEXES), max_size=12))]
    alone = [engine.run([op])[0] for op in asked]
    assert_alike(engine.run(asked), alone)
    place = data.draw(st.integers(0, len(asked)))
    outcomes = engine.run([*asked[:place], data.draw(st.sampled_from(guilty())), *asked[place:]])
    assert isinstance(outcomes.pop(place), Exception)
    assert_alike(outcomes, alone)


def guilty() -> list[Question]:
    """Questions that look well until they are answered."""
    schema = CARRIES[0]
    empty_bound = pa.record_batch([[None], [1], ["a"], pa.array([1], pa.int16()), [5]], schema=schema)
    # It sees every row, so that there is something to compute.
    whole = pa.record_batch([[-20], [99], ["a"], pa.array([1], pa.int16()), [5]], schema=schema)
    # A function of which there is no such kernel.
    impossible = Call("no such function", (ColumnRef("c", "n"),), pa.bool_())
    return [
        Probe("t", ("k",), empty_bound, ("c.k",), "t", None, ("t.id",)),
        Probe("t", ("j",), empty_bound, ("c.j",), "t", None, ("t.id",)),
        Probe("t", (), whole, (), "t", impossible, ("t.id",)),
    ]
