"""Copies that run already: which of them serve, what a plan gains by them, and how they are told of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from node.core.errors import PeerProtocolError
from node.core.links.messages import Profiles
from node.rpc import link_pb2 as pb
from node.wire import decode_message, encode_message
from node.wire.copies import DEPTH_MAX, copy_in, copy_out
from planner.algorithms.descriptions import SPECS, Algorithm, CopyKind
from planner.estimate.statistics import Statistics
from planner.explain.figures import explain_dict
from planner.explain.text import explain_text
from planner.model.copies import CopyAxis, RunningCopy, can_serve, copy_of, looseness, missing_shares, serves, serving
from planner.model.query import Call, ColumnRef, Expr, JoinQuery, Literal, RowsWindow, StreamRef
from planner.model.selectivity import selectivity
from planner.search.alternatives import compared
from planner.search.choice import Choice, choose
from tests.examples import examples
from tests.unit.planner.model.test_implication import FILTERS, where
from tests.unit.streams import made, query_of, range_s, statistics_of

_STREAMS = {
    "a": made(np.random.default_rng(1), 400, {"k": (0, 300)}),
    "b": made(np.random.default_rng(2), 8000, {"k": (0, 300)}),
}
ROWS = query_of(_STREAMS, {"a": RowsWindow(200), "b": RowsWindow(200)}, [("a.k", "b.k")])
TIME = query_of(_STREAMS, {"a": range_s(10), "b": range_s(10)}, [("a.k", "b.k")])
BY_KIND = {spec.copy: algorithm for algorithm, spec in SPECS.items() if spec.copy is not None}


_IS_NULL = Call("is null", (ColumnRef("b", "v"),), pa.bool_())


def needed(kind: CopyKind, query: JoinQuery = TIME) -> RunningCopy:
    """A copy of b at a."""
    return copy_of(query, kind, "b", ("k",), "a")


def filtered(query: JoinQuery, condition: Expr | None) -> JoinQuery:
    """The query with a filter on b."""
    streams: list[StreamRef] = [replace(ref, where=condition) if ref.alias == "b" else ref for ref in query.streams]
    return replace(query, streams=tuple(streams))


def above(limit: int) -> Expr:
    return Call(">", (ColumnRef("b", "k"), Literal(limit, pa.int64())), pa.bool_())


def chosen(query: JoinQuery, *copies: RunningCopy) -> Choice:
    return choose(query, "a", replace(statistics_of(query, _STREAMS), copies=copies))


def step_of_a(choice: Choice) -> Algorithm:
    return choice.plan.sequence("a").steps[0].algorithm


# Which serve.


@pytest.mark.parametrize("kind", CopyKind)
@pytest.mark.parametrize("query", [TIME, ROWS], ids=["time", "rows"])
def test_a_copy_serves_where_the_same_is_needed(kind: CopyKind, query: JoinQuery) -> None:
    copy = needed(kind, query)
    assert serves(copy, copy)
    assert serves(replace(copy, columns=(*copy.columns, "more")), copy)


@pytest.mark.parametrize("kind", CopyKind)
def test_a_copy_of_something_else_does_not_serve(kind: CopyKind) -> None:
    copy = needed(kind)
    others = [kind for kind in CopyKind if kind is not copy.kind]
    assert not any(serves(replace(copy, kind=other), copy) for other in others)
    assert not serves(replace(copy, stream="a"), copy)
    assert not serves(replace(copy, owner="c"), copy)
    assert not serves(replace(copy, holder="c"), copy)
    assert not serves(replace(copy, columns=copy.columns[1:]), copy)
    if kind is not CopyKind.FULL:
        assert not serves(replace(copy, keys=("v",)), copy)


def test_a_full_copy_has_no_keys_and_serves_joins_by_any() -> None:
    assert needed(CopyKind.FULL).keys == ()


@pytest.mark.parametrize("kind", CopyKind)
def test_who_holds_tuples_one_by_one_must_count_them_alike(kind: CopyKind) -> None:
    other = replace(needed(kind), axis=CopyAxis.ROWS)
    assert serves(other, needed(kind)) == (kind is CopyKind.KEYS)


def test_a_wider_filter_serves_and_a_narrower_one_does_not() -> None:
    wide, narrow = (needed(CopyKind.FULL, filtered(TIME, above(limit))) for limit in (1, 2))
    assert wide.filter == above(1)
    assert serves(wide, narrow)
    assert serves(needed(CopyKind.FULL), narrow)
    assert not serves(narrow, wide)
    assert not serves(narrow, needed(CopyKind.FULL))


def test_in_a_count_window_only_the_same_filter_serves() -> None:
    wide, narrow = (needed(CopyKind.FULL, filtered(ROWS, above(limit))) for limit in (1, 2))
    assert serves(narrow, narrow)
    assert not serves(wide, narrow)


def test_tuples_that_must_be_filtered_again_need_the_columns_for_it() -> None:
    condition = Call(">", (ColumnRef("b", "ts"), Literal(5, pa.int64())), pa.bool_())
    narrow = needed(CopyKind.MIXED, filtered(TIME, condition))
    assert narrow.columns == ("k", "v")
    assert not serves(needed(CopyKind.MIXED), narrow)
    assert serves(replace(needed(CopyKind.MIXED), columns=("ts", "k", "v")), narrow)
    # A full copy is told of each tuple which filters it passes.
    assert serves(needed(CopyKind.FULL), needed(CopyKind.FULL, filtered(TIME, condition)))
    # W' has no filter, so who uses it always filters again.
    reduced = needed(CopyKind.REDUCED, filtered(TIME, condition))
    assert (reduced.filter, reduced.columns) == (None, ("ts", "k", "v"))
    assert not serves(needed(CopyKind.REDUCED), reduced)


def test_a_full_copy_can_be_let_grow_for_whatever_filter_and_columns() -> None:
    wide, narrow = (needed(CopyKind.FULL, filtered(TIME, condition)) for condition in (None, above(5)))
    for copy in (narrow, replace(narrow, columns=()), replace(wide, columns=("ts",))):
        assert not serves(copy, wide)
        assert can_serve(copy, wide)
    assert can_serve(wide, narrow)


def test_a_full_copy_of_something_else_cannot_be_let_grow() -> None:
    copy = needed(CopyKind.FULL)
    for other in (
        *(replace(copy, kind=kind) for kind in CopyKind if kind is not CopyKind.FULL),
        replace(copy, stream="a"),
        replace(copy, owner="c"),
        replace(copy, holder="c"),
        replace(copy, axis=CopyAxis.ROWS),
    ):
        assert not can_serve(other, copy)
        assert not can_serve(copy, other)


def test_a_full_copy_of_a_count_window_grows_only_by_columns() -> None:
    copy, other = (needed(CopyKind.FULL, filtered(ROWS, above(limit))) for limit in (1, 2))
    assert can_serve(replace(copy, columns=()), copy)
    assert not can_serve(other, copy)
    assert not can_serve(needed(CopyKind.FULL, ROWS), copy)
    assert not can_serve(copy, needed(CopyKind.FULL, ROWS))


@pytest.mark.parametrize("kind", [kind for kind in CopyKind if kind is not CopyKind.FULL])
@pytest.mark.parametrize("query", [TIME, ROWS], ids=["time", "rows"])
def test_copies_of_other_kinds_stay_as_they_are(kind: CopyKind, query: JoinQuery) -> None:
    copy = needed(kind, query)
    others = (copy, replace(copy, columns=()), needed(kind, filtered(query, above(1))))
    assert [can_serve(other, copy) for other in others] == [serves(other, copy) for other in others]
    assert not can_serve(replace(copy, columns=()), copy)


def portion(limit: int | None, columns: tuple[str, ...] = ("k", "v"), share: float | None = None) -> RunningCopy:
    """Of a full copy of b: what some query has needed; above a limit, or all."""
    copy = needed(CopyKind.FULL, filtered(TIME, None if limit is None else above(limit)))
    return replace(copy, columns=columns, share=share)


def below(limit: int) -> Expr:
    """Nothing follows from it about what is above a limit."""
    return Call("<", (ColumnRef("b", "k"), Literal(limit, pa.int64())), pa.bool_())


def portion_below(limit: int, columns: tuple[str, ...] = ("k", "v"), share: float | None = None) -> RunningCopy:
    return replace(portion(None, columns, share), filter=below(limit))


def missing(copies: Iterable[RunningCopy], wanted: RunningCopy) -> float:
    """Of the values of v."""
    return missing_shares(copies, wanted)["v"]


def test_what_no_other_query_needs_must_be_sent_whole() -> None:
    assert missing_shares((), portion(5)) == {None: 1, "k": 1, "v": 1}
    assert missing((portion(1, ("k",), 0.5),), portion(5)) == 1
    assert missing((portion(None, ("ts", "k"), 1.0),), portion(5)) == 1
    elsewhere = [replace(portion(1), holder="c"), replace(portion(1), axis=CopyAxis.ROWS), needed(CopyKind.MIXED)]
    assert missing_shares(elsewhere, portion(5)) == {None: 1, "k": 1, "v": 1}


@pytest.mark.parametrize("share", [None, 0.0, 0.01], ids=["guessed", "nothing passed yet", "measured"])
def test_of_tuples_that_pass_a_wider_filter_nothing_is_missing(share: float | None) -> None:
    for wide in (None, 1, 5):
        for copies in ((portion(wide, share=share),), (portion(9, share=0.3), portion(wide, ("k", "v"), share))):
            assert missing_shares(copies, portion(5)) == {None: 0, "k": 0, "v": 0}
    # Some columns may be there of all tuples, others not.
    assert missing_shares((portion(1, ("k",)),), portion(5)) == {None: 0, "k": 0, "v": 1}
    assert missing_shares((portion(1, ("k", "v")),), portion(5, ("k",))) == {None: 0, "k": 0}, "of what is needed"


def test_what_is_missing_beside_other_filters_goes_by_the_share_that_was_measured_of_each() -> None:
    wanted = portion(1)
    assert missing((portion_below(5, share=0.25),), wanted) == pytest.approx(0.75)
    both = (portion_below(5, share=0.25), replace(portion(9, share=0.1), filter=_IS_NULL))
    assert missing(both, wanted) == pytest.approx(0.75 * 0.9)
    apart = (portion_below(5, ("k",), 0.25), both[1])
    assert missing_shares(apart, wanted) == pytest.approx({None: 0.75 * 0.9, "k": 0.75 * 0.9, "v": 0.9})
    assert missing((portion_below(5, share=0.0),), wanted) == 1
    assert missing((portion_below(5, share=1.0),), wanted) == 0


def test_what_is_missing_beside_a_filter_of_which_nothing_is_measured_is_guessed() -> None:
    assert missing((portion_below(5),), portion(1)) == pytest.approx(1 - selectivity(below(5)))
    assert missing((portion_below(5), portion(9, share=0.1)), portion(None)) == pytest.approx(
        (1 - selectivity(below(5))) * 0.9
    )


def test_a_filter_from_which_the_needed_one_follows_covers_its_share_of_what_passes_that() -> None:
    whole = selectivity(above(1))
    assert missing((portion(5, share=whole / 4),), portion(1)) == pytest.approx(3 / 4)
    assert missing((portion(5, share=whole),), portion(1)) == pytest.approx(0)
    assert missing((portion(5, share=1.0),), portion(1)) == pytest.approx(0), "more passed than was guessed"
    assert missing((portion(5, share=0.0),), portion(1)) == 1
    assert missing((portion(5, share=0.25),), portion(None)) == pytest.approx(0.75)


def test_of_filters_of_which_one_follows_from_the_other_the_wider_one_counts_alone() -> None:
    nested = (portion_below(5, share=0.25), portion_below(3, share=0.1), portion_below(1, share=0.05))
    for copies in (nested, nested[::-1]):
        assert missing(copies, portion(1)) == pytest.approx(0.75)
    # Where the wider one does not have a column, the narrower one counts.
    narrow = (portion_below(5, ("k",), 0.25), portion_below(3, share=0.1))
    assert missing_shares(narrow, portion(1)) == pytest.approx({None: 0.75, "k": 0.75, "v": 0.9})


def test_of_filters_that_say_the_same_in_other_words_one_counts() -> None:
    one, other = below(5), Call("and", (below(5), below(9)), pa.bool_())
    copies = tuple(replace(portion_below(5, share=0.25), filter=each) for each in (one, other))
    for order in (copies, copies[::-1]):
        assert missing(order, portion(1)) == pytest.approx(0.75)


def test_the_share_that_has_passed_is_no_part_of_what_a_copy_is() -> None:
    assert portion(1, share=0.5) == portion(1, share=0.1) == portion(1)


def test_of_copies_that_serve_the_one_that_lets_least_pass_is_used() -> None:
    narrow = needed(CopyKind.KEYS, filtered(TIME, Call("and", (above(2), above(3)), pa.bool_())))
    near, far = needed(CopyKind.KEYS, filtered(TIME, above(2))), needed(CopyKind.KEYS)
    assert looseness(near, narrow) < looseness(far, narrow)
    assert serving((far, near), narrow) == near
    assert serving((), narrow) is None


def test_keys_that_let_nearly_everything_pass_are_of_no_use() -> None:
    one_key = Call("=", (ColumnRef("b", "k"), Literal(5, pa.int64())), pa.bool_())
    assert not serves(needed(CopyKind.KEYS), needed(CopyKind.KEYS, filtered(TIME, one_key)))
    assert serves(needed(CopyKind.FULL), needed(CopyKind.FULL, filtered(TIME, one_key)))


def test_names_are_those_of_the_stream_whatever_queries_call_it() -> None:
    ref = TIME.ref("b")
    called = replace(ref, stream=replace(ref.stream, name="orders"), where=above(1))
    query = replace(TIME, streams=(TIME.ref("a"), called))
    copy = copy_of(query, CopyKind.KEYS, "b", ("k",), "a")
    assert copy.stream == "orders"
    assert copy.filter == Call(">", (ColumnRef("orders", "k"), Literal(1, pa.int64())), pa.bool_())


# What a plan gains.


@pytest.mark.parametrize("kind", CopyKind)
def test_a_copy_that_runs_is_chosen_and_said_to_cost_nothing_more(kind: CopyKind) -> None:
    alone, choice = chosen(ROWS), chosen(ROWS, needed(kind, ROWS))
    assert step_of_a(alone) not in BY_KIND.values()
    assert step_of_a(choice) is BY_KIND[kind]
    assert choice.estimate.cost < alone.estimate.cost
    used = next(each for each in choice.estimate.copies if each.copy.kind is kind and each.copy.alias == "b")
    assert used.already_there
    (written,) = [
        each for each in explain_dict(choice, compared(choice))["expected"]["copies"] if each["already_there"]
    ]
    assert (written["kind"], written["alias"], written["holder"]) == (kind, "b", "a")
    assert f"{used.copy}, already there" in explain_text(choice, compared(choice))


@pytest.mark.parametrize("kind", CopyKind)
def test_a_copy_that_does_not_serve_changes_nothing(kind: CopyKind) -> None:
    alone = chosen(ROWS)
    for other in (
        replace(needed(kind, ROWS), columns=()),
        replace(needed(kind, ROWS), holder="c"),
        replace(needed(kind, ROWS), filter=above(1)),
    ):
        choice = chosen(ROWS, other)
        assert choice.plan == alone.plan
        assert choice.estimate.cost == pytest.approx(alone.estimate.cost)
        assert "already there" not in explain_text(choice, compared(choice))


def test_explain_says_what_is_already_there() -> None:
    choice = chosen(ROWS, needed(CopyKind.KEYS, ROWS))
    text = explain_text(choice, compared(choice))
    begin = text.index("copies  ")
    shown = text[begin : text.index("\n\n", begin)].splitlines()
    assert [line.split("  ")[0] for line in shown[2:]] == [
        "keys copy of a(k) at b",
        "keys copy of b(k) at a, already there",
        "already there: costs nothing more",
    ]
    assert shown[3].split()[-2:] == ["a", "0"]


def test_keys_with_a_wider_filter_are_taken_to_let_more_rows_pass() -> None:
    query = filtered(TIME, above(2))
    tight, loose = (chosen(query, copy) for copy in (needed(CopyKind.KEYS, query), needed(CopyKind.KEYS)))
    assert loose.estimate.cost >= tight.estimate.cost
    forced = {}
    for name, choice in (("tight", tight), ("loose", loose)):
        item = next(item for item in choice.alternatives if item.name == "SM-D1")
        (of_a,) = [head for head in item.estimate.heads if head.head == "a"]
        forced[name] = of_a.steps[0].bytes_per_s
    assert forced["loose"] > forced["tight"]


def test_one_running_copy_makes_no_other_estimate_worse() -> None:
    statistics: Statistics = statistics_of(TIME, _STREAMS)
    alone = choose(TIME, "a", statistics)
    for kind in CopyKind:
        choice = choose(TIME, "a", replace(statistics, copies=(needed(kind),)))
        assert choice.estimate.cost <= alone.estimate.cost + 1e-6
        assert choice.ship_all.cost <= alone.ship_all.cost + 1e-6


# On the wire.


@examples()
@given(condition=FILTERS)
def test_a_copy_comes_back_as_it_was(condition: Expr) -> None:
    for copy in (replace(needed(CopyKind.MIXED), stream="s", filter=condition), needed(CopyKind.FULL, ROWS)):
        message = Profiles("q", (), copies=(copy,))
        back = decode_message(encode_message(message))
        assert isinstance(back, Profiles)
        assert back.copies[0] == copy


@pytest.mark.parametrize(
    "condition",
    [
        "s.t LIKE 'a%' AND s.x * 1.5 > 2.25",
        "CAST(s.n AS DECIMAL(10, 2)) = 1.25",
        "s.t IS NOT NULL AND CASE WHEN s.n > 1 THEN s.t ELSE 'x' END = 'y'",
        "CAST(s.t AS TIMESTAMP) < TIMESTAMP '2020-01-01 00:00:00'",
    ],
)
def test_filters_of_all_types_come_back_as_they_were(condition: str) -> None:
    copy = replace(needed(CopyKind.KEYS), stream="s", filter=where(condition))
    assert copy_in(copy_out(copy)).filter == copy.filter


def _deep(levels: int) -> pb.RunningCopy:
    expr: Expr = ColumnRef("b", "k")
    for _ in range(levels):
        expr = Call("not", (expr,), pa.bool_())
    return copy_out(replace(needed(CopyKind.KEYS), filter=expr))


def _changed(**fields: str) -> pb.RunningCopy:
    out = copy_out(needed(CopyKind.KEYS, filtered(TIME, above(7))))
    for name, value in fields.items():
        setattr(out, name, value)
    return out


def _parts(*parts: pb.FilterPart, types: int = 0) -> pb.RunningCopy:
    schema = pa.schema([pa.field("", pa.int64())] * types).serialize().to_pybytes()
    out = _changed()
    out.filter.CopyFrom(pb.Filter(parts=parts, types=schema))
    return out


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (_changed(kind="half"), "a kind and an axis"),
        (_changed(axis="up"), "a kind and an axis"),
        (_deep(DEPTH_MAX), "functions upon one another"),
        (_parts(), "one expression"),
        (_parts(pb.FilterPart(column="k"), pb.FilterPart(column="k")), "one expression"),
        (_parts(pb.FilterPart(column="k"), types=1), "no more types"),
        (_parts(pb.FilterPart(text="k")), "a type for each part"),
        (_parts(pb.FilterPart(), types=1), "something that this version knows"),
        (_parts(pb.FilterPart(number="x"), types=1), "digits"),
        (_parts(pb.FilterPart(number="1" * 101), types=1), "digits"),
        (_parts(pb.FilterPart(applied=pb.Applied(function="not", args=1)), types=1), "parts to apply 'not' to"),
    ],
)
def test_a_copy_that_cannot_be_is_refused(message: pb.RunningCopy, text: str) -> None:
    copy_in(_changed())
    with pytest.raises(PeerProtocolError, match=text):
        copy_in(message)


def test_a_filter_without_the_types_of_its_parts_is_refused() -> None:
    message = _changed()
    message.filter.types = b"\x01"
    with pytest.raises(PeerProtocolError, match="types of its parts"):
        copy_in(message)
