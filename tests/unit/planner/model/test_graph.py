"""What links a stream to those joined before it, and which columns are needed then."""

from __future__ import annotations

from itertools import permutations

import pyarrow as pa
import pytest

from planner.model.graph import closure, conjunction, is_linked, link_of, needed_after
from planner.model.query import (
    Call,
    ColumnRef,
    Edge,
    Expr,
    JoinQuery,
    OutputColumn,
    RangeWindow,
    StreamInfo,
    StreamRef,
    columns_of,
)
from planner.model.time_unit import TimeUnit

SCHEMA = pa.schema([(name, pa.int64()) for name in ("ts", "k", "j", "v", "w")])
BOOL = pa.bool_()


def column(text: str) -> ColumnRef:
    alias, _, name = text.partition(".")
    return ColumnRef(alias, name)


def edge(text: str) -> Edge:
    left, _, right = text.partition("=")
    return Edge(column(left), column(right))


def less(left: str, right: str) -> Call:
    return Call("<", (column(left), column(right)), BOOL)


def query(
    aliases: str, *edges: str, outputs: tuple[str, ...] = ("a.v",), residuals: tuple[Expr, ...] = (), close: bool = True
) -> JoinQuery:
    """One stream per letter; the edges with those that follow from them, unless ``close`` is false."""
    refs = tuple(
        StreamRef(alias, StreamInfo(f"s_{alias}", alias, SCHEMA, "ts", TimeUnit.MS), RangeWindow(1_000_000))
        for alias in aliases
    )
    given = tuple(map(edge, edges))
    columns = tuple(OutputColumn(text.replace(".", "_"), column(text)) for text in outputs)
    return JoinQuery("the text", refs, closure(given, aliases) if close else given, columns, residuals)


def names(columns: tuple[ColumnRef, ...]) -> list[str]:
    return [str(item) for item in columns]


# -- closure ----------------------------------------------------------------------------------


def test_a_chain_on_one_key_links_every_stream_with_every_other() -> None:
    edges = closure(map(edge, ("a.k=b.k", "b.k=c.k", "c.k=d.k")), "abcd")
    assert {frozenset((item.left.alias, item.right.alias)) for item in edges} == {
        frozenset(pair) for pair in ("ab", "ac", "ad", "bc", "bd", "cd")
    }
    assert len(edges) == 6


def test_a_chain_on_different_keys_links_neighbours_only() -> None:
    given = tuple(map(edge, ("a.k=b.k", "b.j=c.j")))
    assert closure(given, "abc") == given


def test_equalities_that_meet_in_one_column_follow_across_names() -> None:
    edges = closure(map(edge, ("a.k=b.j", "c.v=b.j")), "abc")
    assert Edge(column("a.k"), column("c.v")) in edges


def test_columns_of_one_stream_that_become_equal_are_no_edge() -> None:
    edges = closure(map(edge, ("a.k=b.k", "a.j=b.k")), "ab")
    assert all(item.left.alias != item.right.alias for item in edges)
    assert len(edges) == 2


@pytest.mark.parametrize("order", list(permutations(("a.k=b.k", "c.k=d.k", "b.k=c.k"))), ids=str)
def test_closure_does_not_depend_on_the_order_of_the_conditions(order: tuple[str, ...]) -> None:
    """Two groups that a later condition makes one."""
    assert set(closure(map(edge, order), "abcd")) == set(closure(map(edge, ("a.k=b.k", "b.k=c.k", "c.k=d.k")), "abcd"))


# -- link_of ----------------------------------------------------------------------------------


def test_keys_are_in_the_order_of_the_windows_names_from_whichever_stream_they_come() -> None:
    two = query("abc", "a.k=c.k", "a.j=c.j", "b.v=c.j", "b.w=c.k", close=False)
    for head in "ab":
        assert names(link_of(two, "c", (head,)).window_keys) == ["c.j", "c.k"]
    assert names(link_of(two, "c", ("a",)).carry_keys) == ["a.j", "a.k"]
    assert names(link_of(two, "c", ("b",)).carry_keys) == ["b.v", "b.w"]


def test_one_key_however_many_streams_before_have_it() -> None:
    star = query("abcd", "a.k=b.k", "a.k=c.k", "a.k=d.k")
    link = link_of(star, "d", ("c", "b", "a"))
    assert (names(link.carry_keys), names(link.window_keys), link.residual) == (["a.k"], ["d.k"], None)


def test_a_column_that_must_equal_two_that_are_not_yet_equal_is_a_key_and_a_condition() -> None:
    """c.k = a.k and c.k = b.k, while a and b were joined by j: a.k = b.k is first known to hold when c is there."""
    cycle = query("abc", "a.j=b.j", "c.k=a.k", "c.k=b.k", close=False)
    link = link_of(cycle, "c", ("a", "b"))
    assert names(link.window_keys) == ["c.k"]
    assert names(link.carry_keys) == ["a.k"]
    assert link.residual == Call("=", (column("b.k"), column("c.k")), BOOL)


def test_in_a_cycle_all_edges_to_those_before_are_used() -> None:
    cycle = query("abc", "a.k=b.k", "b.j=c.j", "c.v=a.v")
    assert names(link_of(cycle, "b", ("a",)).window_keys) == ["b.k"]
    assert names(link_of(cycle, "c", ("a", "b")).window_keys) == ["c.j", "c.v"]
    assert names(link_of(cycle, "c", ("a", "b")).carry_keys) == ["b.j", "a.v"]


def test_a_residual_is_asked_at_the_step_that_brings_its_last_stream_and_only_there() -> None:
    due = less("a.v", "c.w")
    chain = query("abc", "a.k=b.k", "b.j=c.j", residuals=(due,))
    assert link_of(chain, "b", ("a",)).residual is None
    assert link_of(chain, "c", ("b", "a")).residual == due
    assert link_of(chain, "c", ("b",)).residual is None
    assert link_of(chain, "a", ("b", "c")).residual == due


@pytest.mark.parametrize("order", list(permutations("abcd")), ids="".join)
def test_every_predicate_is_asked_exactly_once_on_every_way(order: tuple[str, ...]) -> None:
    residuals = (less("a.v", "b.w"), less("b.v", "d.w"))
    clique = query(
        "abcd", "a.k=b.k", "a.j=c.j", "a.v=d.v", "b.j=c.v", "b.w=d.w", "c.k=d.k", residuals=residuals, close=False
    )
    asked: list[Expr] = []
    for place in range(1, len(order)):
        link = link_of(clique, order[place], order[:place])
        asked += [
            Call("=", tuple(sorted(pair, key=str)), BOOL)
            for pair in zip(link.carry_keys, link.window_keys, strict=True)
        ]
        asked += _terms(link.residual)
    wanted = [Call("=", (item.left, item.right), BOOL) for item in clique.edges] + list(residuals)
    assert sorted(map(str, asked)) == sorted(str(_sorted(item)) for item in wanted)


def _terms(expr: Expr | None) -> list[Expr]:
    if expr is None:
        return []
    if isinstance(expr, Call) and expr.function == "and":
        return [term for arg in expr.args for term in _terms(arg)]
    return [_sorted(expr)]


def _sorted(expr: Expr) -> Expr:
    if isinstance(expr, Call) and expr.function == "=":
        return Call("=", tuple(sorted(expr.args, key=str)), expr.type)
    return expr


def test_without_an_edge_there_are_no_keys() -> None:
    product = query("ab", residuals=(less("a.v", "b.v"),))
    link = link_of(product, "b", ("a",))
    assert (link.carry_keys, link.window_keys, link.residual) == ((), (), less("a.v", "b.v"))
    assert not is_linked(product, "b", ("a",))


def test_is_linked_looks_at_all_that_were_joined() -> None:
    chain = query("abc", "a.k=b.k", "b.j=c.j")
    assert is_linked(chain, "c", ("a", "b"))
    assert not is_linked(chain, "c", ("a",))


# -- needed_after -----------------------------------------------------------------------------


def test_a_key_is_needed_until_its_partner_is_joined() -> None:
    chain = query("abc", "a.k=b.k", "b.j=c.j", outputs=("a.v",))
    assert sorted(names(needed_after(chain, ("a",)))) == ["a.k", "a.v"]
    assert sorted(names(needed_after(chain, ("a", "b")))) == ["a.v", "b.j"]
    assert names(needed_after(chain, ("a", "b", "c"))) == ["a.v"]


def test_of_columns_that_are_equal_by_now_one_is_kept_for_later_steps() -> None:
    star = query("abcd", "a.k=b.k", "a.k=c.k", "a.k=d.k", outputs=("c.v",))
    for joined in permutations("abc", 2):
        first = min(joined)
        assert sorted(names(needed_after(star, joined))) == sorted([f"{first}.k"] + ["c.v"] * ("c" in joined))


def test_all_that_a_later_column_must_equal_are_kept_while_they_may_differ() -> None:
    """Both columns of a equal b.k in the end, so each other; but nobody has asked that before b is there."""
    both = query("cab", "c.v=a.v", "a.k=b.k", "a.j=b.k", outputs=("c.w",))
    assert sorted(names(needed_after(both, ("c", "a")))) == ["a.j", "a.k", "c.w"]
    assert names(link_of(both, "b", ("c", "a")).carry_keys) == ["a.k"]
    assert link_of(both, "b", ("c", "a")).residual == Call("=", (column("a.j"), column("b.k")), BOOL)


def test_a_residuals_columns_are_needed_until_it_was_asked() -> None:
    chain = query("abc", "a.k=b.k", "b.k=c.k", outputs=("b.v",), residuals=(less("a.v", "c.w"),))
    assert "a.v" in names(needed_after(chain, ("a", "b")))
    assert names(needed_after(chain, ("a", "b", "c"))) == ["b.v"]
    assert names(needed_after(chain, ("a", "c"))) == ["a.k"]


@pytest.mark.parametrize("order", list(permutations("abcd")), ids="".join)
def test_what_a_step_reads_is_always_still_there(order: tuple[str, ...]) -> None:
    residuals = (less("a.v", "c.w"), less("d.v", "b.w"))
    cycle = query("abcd", "a.k=b.k", "b.j=c.j", "c.k=d.k", "d.j=a.j", outputs=("b.v", "d.w"), residuals=residuals)
    for place in range(1, len(order)):
        carried = set(needed_after(cycle, order[:place]))
        link = link_of(cycle, order[place], order[:place])
        read = set(link.carry_keys) | (columns_of(link.residual) if link.residual is not None else frozenset())
        assert {item for item in read if item.alias in order[:place]} <= carried
    assert set(names(needed_after(cycle, order))) == {"b.v", "d.w"}


def test_conjunction_of_nothing_is_nothing() -> None:
    assert conjunction([]) is None
    one, two = less("a.v", "b.v"), less("b.v", "c.v")
    assert conjunction([one]) == one
    assert conjunction([one, two]) == Call("and", (one, two), BOOL)
