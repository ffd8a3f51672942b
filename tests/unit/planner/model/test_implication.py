"""When one filter is said to follow from another, it does, on every row."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.model import implication
from planner.model.implication import implies
from planner.model.query import Call, ColumnRef, Expr, Literal, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.examples import examples
from tests.expressions import rows_that_hold

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("n", pa.int32()), ("x", pa.float64()), ("t", pa.string())])
NAN = float("nan")
VALUES: dict[str, tuple[Any, ...]] = {
    "s.n": (None, -1, 0, 1, 2),
    "s.x": (None, NAN, -0.0, 0.5, 1.0, float("inf")),
    "s.t": (None, "", "a", "b"),
}
ROWS = pa.RecordBatch.from_pydict(
    dict(zip(VALUES, map(list, zip(*itertools.product(*VALUES.values()), strict=True)), strict=True)),
    schema=pa.schema([("s.n", pa.int32()), ("s.x", pa.float64()), ("s.t", pa.string())]),
)


def where(condition: str) -> Expr:
    """The filter as the planner has it, of a stream called s."""
    streams = {name: StreamInfo(name, name, SCHEMA, "ts", TimeUnit.MS) for name in ("s", "o")}
    text = f"SELECT s.k FROM s [RANGE 1 SECOND] JOIN o [RANGE 1 SECOND] ON s.k = o.k WHERE {condition}"
    found = parse_query(text, streams).ref("s").where
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("s.n = 1", "s.n = 1"),
        ("s.n = 1", "s.n > 0"),
        ("s.n = 1", "s.n <> 2"),
        ("s.n < 1", "s.n <= 1"),
        ("s.n < 1", "s.n <> 1"),
        ("1 > s.n", "s.n < 2"),
        ("s.n BETWEEN 2 AND 3", "s.n BETWEEN 1 AND 4"),
        ("s.n > 1 AND s.n < 3", "s.n BETWEEN 1 AND 3"),
        ("s.n IN (1, 2)", "s.n IN (2, 3, 1)"),
        ("s.n IN (1, 2)", "s.n > 0"),
        ("s.n = 2", "s.n IN (1, 2, NULL)"),
        ("s.n = 1 OR s.n = 2", "s.n BETWEEN 1 AND 2"),
        ("s.t = 'a' AND s.n = 1", "s.n = 1"),
        ("s.n = 1 AND s.t = 'a'", "s.t = 'a' OR s.x > 1"),
        ("s.t >= 'b'", "s.t > 'a'"),
        ("s.x > 2", "s.x > 1.5"),
        ("s.n > 1", "s.n IS NOT NULL"),
        ("LENGTH(s.t) > 3", "LENGTH(s.t) > 2"),
        ("s.t LIKE 'a%' AND s.n = 1", "s.t LIKE 'a%'"),
    ],
)
def test_what_is_narrower_is_known_to_be(narrow: str, wide: str) -> None:
    assert implies(where(narrow), where(wide))
    assert implies(where(narrow), None)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("s.n > 0", "s.n = 1"),
        ("s.n >= 1", "s.n > 1"),
        ("s.n <= 1", "s.n < 1"),
        ("s.n <> 1", "s.n <> 2"),
        ("s.n <> 1", "s.n > 1"),
        ("s.n = 1", "s.x = 1"),
        ("s.n = 1", "s.t = '1'"),
        ("s.n = 1 OR s.t = 'a'", "s.n = 1"),
        ("s.n = NULL", "s.n = 1"),
        ("s.n IS NULL", "s.n < 1"),
        ("NOT s.n > 1", "s.n > 0"),
        ("s.n IN (1, 4)", "s.n BETWEEN 1 AND 3"),
    ],
)
def test_what_is_not_narrower_is_not_said_to_be(narrow: str, wide: str) -> None:
    assert not implies(where(narrow), where(wide))
    assert not implies(None, where(wide))


def test_constants_of_different_types_are_not_compared() -> None:
    column = ColumnRef("s", "n")
    narrow = Call(">", (column, Literal(2, pa.int64())), pa.bool_())
    wide = Call(">", (column, Literal(1.0, pa.float64())), pa.bool_())
    assert not implies(narrow, wide)
    # As it may come from another site.
    for odd in ((column, Literal("1", pa.int64())), (column,), ()):
        assert not implies(narrow, Call(">", odd, pa.bool_()))


def test_what_is_not_a_number_is_not_compared() -> None:
    """It equals itself here, but not in Python."""
    is_nan, is_not = (
        Call(operator, (ColumnRef("s", "x"), Literal(NAN, pa.float64())), pa.bool_()) for operator in ("=", "<>")
    )
    assert any(rows_that_hold(is_nan, ROWS))
    assert not implies(is_nan, is_not)


def test_zeros_of_different_signs_and_numbers_of_different_types_are_not_the_same() -> None:
    assert Literal(0.0, pa.float64()) != Literal(-0.0, pa.float64())
    assert Literal(1, pa.int64()) != Literal(True, pa.int64())
    nans = {Literal(NAN, pa.float64()), Literal(float("nan"), pa.float64())}
    assert len(nans) == 1


def test_long_lists_are_given_up_rather_than_compared_for_long() -> None:
    long = [where(f"s.n IN ({', '.join(map(str, range(begin, begin + 3000)))})") for begin in (0, 1)]
    assert not implies(*long)
    assert implies(long[0], long[0])


_COLUMNS = {
    "n": (pa.int64(), st.sampled_from([-1, 0, 1, 2, None])),
    "x": (pa.float64(), st.sampled_from([-0.0, 0.0, 0.5, 1.0, float("inf"), NAN, None])),
    "t": (pa.string(), st.sampled_from(["", "a", "b", None])),
}


@st.composite
def comparisons(draw: st.DrawFn) -> Expr:
    name = draw(st.sampled_from(sorted(_COLUMNS)))
    kind, values = _COLUMNS[name]
    subject = ColumnRef("s", name)

    def literal() -> Literal:
        return Literal(draw(values), kind)

    match draw(st.sampled_from(["compared", "compared", "flipped", "between", "in", "null"])):
        case "compared":
            operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
            return Call(operator, (subject, literal()), pa.bool_())
        case "flipped":
            operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
            return Call(operator, (literal(), subject), pa.bool_())
        case "between":
            return Call("between", (subject, literal(), literal()), pa.bool_())
        case "in":
            return Call("in", (subject, *(literal() for _ in range(draw(st.integers(1, 3))))), pa.bool_())
        case _:
            return Call("is null", (subject,), pa.bool_())


FILTERS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.builds(lambda args: Call("and", tuple(args), pa.bool_()), st.lists(inner, min_size=2, max_size=3)),
        st.builds(lambda args: Call("or", tuple(args), pa.bool_()), st.lists(inner, min_size=2, max_size=3)),
        st.builds(lambda arg: Call("not", (arg,), pa.bool_()), inner),
    ),
    max_leaves=4,
)


@examples(500)
@given(narrow=FILTERS, wide=FILTERS)
def test_every_row_that_passes_the_narrow_filter_passes_the_wide_one(narrow: Expr, wide: Expr) -> None:
    if implies(narrow, wide):
        for passed, passes in zip(rows_that_hold(narrow, ROWS), rows_that_hold(wide, ROWS), strict=True):
            assert passes or not passed


@examples(300)
@given(narrow=comparisons(), wide=comparisons())
def test_single_comparisons_follow_only_if_they_do(narrow: Expr, wide: Expr) -> None:
    if implies(narrow, wide):
        for passed, passes in zip(rows_that_hold(narrow, ROWS), rows_that_hold(wide, ROWS), strict=True):
            assert passes or not passed


@examples()
@given(one=FILTERS, other=FILTERS)
def test_more_conditions_are_narrower_and_more_choices_wider(one: Expr, other: Expr) -> None:
    assert implies(Call("and", (one, other), pa.bool_()), one)
    assert implies(one, Call("or", (other, one), pa.bool_()))


def test_long_lists_are_spelled_out_once_and_not_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = (where(f"s.n IN ({', '.join(map(str, values))})") for values in ([1] * 300, range(1, 301)))
    made: list[None] = []

    def counted() -> pa.DataType:
        made.append(None)
        return pa.bool_()

    monkeypatch.setattr(implication, "pa", SimpleNamespace(bool_=counted))
    assert implies(narrow, wide)
    assert len(made) <= 2 * (300 + 300)
