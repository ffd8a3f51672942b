"""The shape of a plan: keys, residuals, columns and ties of every step, and the copies that steps share."""

from __future__ import annotations

import pyarrow as pa
import pytest

from node.core.queries.shape import Shape, shape_of
from planner.algorithms.descriptions import Algorithm, CopyKind
from planner.model.graph import closure
from planner.model.query import (
    Call,
    ColumnRef,
    Edge,
    JoinQuery,
    OutputColumn,
    Plan,
    RangeWindow,
    Sequence,
    Step,
    StreamInfo,
    StreamRef,
)
from planner.model.time_unit import TimeUnit

SCHEMA = pa.schema([(name, pa.int64()) for name in ("ts", "k", "j", "v")])
LESS = Call("<", (ColumnRef("a", "v"), ColumnRef("c", "v")), pa.bool_())


def chain(one_key: bool = False) -> JoinQuery:
    """a, b and c, each at a site of its name; a.v and c.v are compared, b.v is the output."""
    refs = tuple(
        StreamRef(alias, StreamInfo(alias * 2, alias, SCHEMA, "ts", TimeUnit.MS), RangeWindow(1_000)) for alias in "abc"
    )
    second = "k" if one_key else "j"
    edges = (
        Edge(ColumnRef("a", "k"), ColumnRef("b", "k")),
        Edge(ColumnRef("b", second), ColumnRef("c", second)),
    )
    return JoinQuery("text", refs, closure(edges, "abc"), (OutputColumn("v", ColumnRef("b", "v")),), (LESS,))


def shape(one_key: bool = False, sink: str = "z", **ways: str) -> Shape:
    """Of ways such as ``a="b:SP-D c:SM-S1"``, with ``@site`` in front for a start elsewhere."""
    sequences = []
    for head, text in ways.items():
        words = text.split()
        start = words.pop(0)[1:] if text.startswith("@") else None
        steps = (word.split(":") for word in words)
        sequences.append(Sequence(head, tuple(Step(alias, Algorithm(name)) for alias, name in steps), start))
    return shape_of(Plan(chain(one_key), sink, tuple(sequences)))


def plain(name: str = "SP-D", one_key: bool = False) -> Shape:
    return shape(one_key, a=f"b:{name} c:{name}", b=f"a:{name} c:{name}", c=f"b:{name} a:{name}")


def test_a_step_reads_its_keys_from_the_carry_and_asks_a_residual_when_it_can() -> None:
    first, second = plain().steps["a"]
    assert (first.carry_keys, first.keys, first.residual) == (("a.k",), ("k",), None)
    assert (second.carry_keys, second.keys, second.residual) == (("b.j",), ("j",), LESS)


def test_a_carry_keeps_only_what_is_needed_later() -> None:
    first, second = plain().steps["a"]
    assert first.carry_schema.names == ["__ts", "a.k", "a.v"]
    assert first.answer_schema.names == second.carry_schema.names == ["__ts", "a.v", "b.j", "b.v"]
    assert second.answer_schema.names == ["__ts", "b.v"]


def test_ties_are_before_the_head_in_streams_that_stand_before_it() -> None:
    steps = plain().steps
    assert {head: [step.include_ties for step in steps[head]] for head in "abc"} == {
        "a": [False, False],
        "b": [True, False],
        "c": [True, True],
    }


def test_the_carry_is_where_the_last_step_left_it() -> None:
    moved = shape(a="b:SP-D c:SM-S1", b="a:SP-S c:SM-D2", c="b:SM-D1 a:SP-D").steps
    assert [(step.source, step.owner) for step in moved["a"]] == [("a", "b"), ("b", "c")]
    assert [(step.source, step.owner) for step in moved["b"]] == [("b", "a"), ("b", "c")]
    assert [(step.source, step.owner) for step in moved["c"]] == [("c", "b"), ("b", "a")]


def test_a_walk_that_starts_elsewhere_needs_a_full_copy_there_and_steps_share_it() -> None:
    everything = shape(a="@z b:SP-S c:SP-S", b="@z a:SP-S c:SP-S", c="@z b:SP-S a:SP-S")
    assert everything.starts == {"a": "z", "b": "z", "c": "z"}
    assert all(step.source == "z" for step in everything.all_steps)
    assert [(item.kind, item.alias, item.owner, item.holder) for item in everything.needs] == [
        (CopyKind.FULL, alias, alias, "z") for alias in "abc"
    ]


def test_a_walk_that_starts_where_its_next_stream_is_joins_there_without_a_copy_of_that() -> None:
    moved = shape(a="@b b:SM-S1 c:SP-D", b="a:SP-S c:SP-D", c="b:SP-D a:SP-D")
    assert not moved.steps["a"][0].remote
    assert [(item.alias, item.holder) for item in moved.needs] == [("a", "b")]


@pytest.mark.parametrize("kind", ["SM-S1", "SM-S2", "SM-D1"])
def test_heads_that_look_for_the_same_keys_at_the_same_site_share_a_copy(kind: str) -> None:
    """Walks of a and of c both come to b before they look into the other's window, by one key."""
    shared = shape(one_key=True, a=f"b:SP-D c:{kind}", b=f"c:{kind} a:SP-D", c="b:SP-D a:SP-D")
    assert [(item.alias, item.keys, item.holder) for item in shared.needs] == [("c", ("k",), "b")]
    (_, a_then_c), (b_then_c, _) = shared.steps["a"], shared.steps["b"]
    assert shared.need_of(a_then_c) is shared.need_of(b_then_c)


def test_copies_by_other_keys_or_at_other_sites_are_other_copies_but_a_full_one_serves_all_keys() -> None:
    copies = shape(a="c:SP-S b:SM-D1", b="a:SM-D1 c:SM-D1", c="b:SM-D1 a:SM-D1").needs
    assert [(item.kind, item.alias, item.keys, item.holder) for item in copies] == [
        (CopyKind.FULL, "c", (), "a"),
        (CopyKind.KEYS, "b", ("j", "k"), "a"),
        (CopyKind.KEYS, "a", ("k",), "b"),
        (CopyKind.KEYS, "c", ("j",), "a"),
        (CopyKind.KEYS, "b", ("j",), "c"),
    ]


@pytest.mark.parametrize("name", ["SM-S1", "SM-S2", "SM-D1"])
def test_walks_at_one_site_that_look_for_other_keys_of_a_stream_use_other_copies(name: str) -> None:
    """Walks of c start at a, where those of a do too: one looks into b by k, the other by j."""
    moved = shape(a=f"b:{name} c:SP-D", b="a:SP-D c:SP-D", c=f"@a b:{name} a:SP-D")
    copies = [need for need in moved.needs if need.alias == "b"]
    assert [(item.keys, item.holder) for item in copies] == [(("k",), "a"), (("j",), "a")]
    assert moved.need_of(moved.steps["a"][0]) is not moved.need_of(moved.steps["c"][0])


def test_needs_are_numbered_alike_wherever_they_are_derived() -> None:
    one, other = (shape(a="c:SP-S b:SM-D1", b="a:SM-D1 c:SM-D1", c="b:SM-D1 a:SM-D1") for _ in range(2))
    assert one.needs == other.needs
    assert [need.number for need in one.needs] == list(range(len(one.needs)))


def test_tuples_are_looked_for_where_their_stream_is_unless_all_are_at_the_carrys() -> None:
    steps = shape(a="b:SP-S c:SM-S2", b="a:SM-D1 c:SP-D", c="b:SM-S1 a:SM-D2").steps
    looked = {(head, step.hop.alias): step.looks_at_owner for head in "abc" for step in steps[head]}
    assert [place for place, here in looked.items() if not here] == [("a", "b")]


def test_a_step_within_a_site_needs_no_copy_whatever_its_algorithm() -> None:
    moved = shape(a="@b b:SM-D1 c:SP-D", b="a:SP-D c:SP-D", c="b:SP-D a:SP-D")
    (step, _) = moved.steps["a"]
    assert step.copy is None
    assert moved.need_of(step) is None


def test_a_finished_walk_becomes_output_rows() -> None:
    shaped = plain()
    rows = pa.RecordBatch.from_pydict({"__ts": [1, 2], "b.v": [7, 8]})
    assert shaped.output(rows).to_pydict() == {"v": [7, 8]}
    assert shaped.output(rows).schema == shaped.output_schema
