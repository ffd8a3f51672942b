"""A query with kept joins is two queries: together they are what it asked for."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from node.core.kernels.evaluation import evaluate, holds
from planner.model.errors import PlanError
from planner.model.kept import event_time, inner_query, outer_query, tree_plan
from planner.model.plan_file import read_plan
from planner.model.plans import brief, describe, forced_plan, plan_dict
from planner.model.query import (
    Algorithm,
    JoinQuery,
    KeptJoin,
    Plan,
    Policy,
    PolicyName,
    RangeWindow,
    RowsWindow,
    StreamInfo,
    StreamRef,
)
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("n", pa.int32())])
UNITS = {"a": TimeUnit.MS, "b": TimeUnit.US, "c": TimeUnit.MS, "d": TimeUnit.MS}
STREAMS = {name: StreamInfo(name, f"at_{name}", SCHEMA, "ts", unit) for name, unit in UNITS.items()}
QUERY = parse_query(
    "SELECT a.n AS an, b.n + c.n AS bc FROM a [RANGE 10 MS], b [RANGE 4 MS], c [RANGE 7 MS] "
    "WHERE a.k = b.k AND b.k = c.k AND a.n > 3 AND b.n < a.n AND c.n <> a.n",
    STREAMS,
)


def kept(query: JoinQuery = QUERY, name: str = "pairs", aliases: tuple[str, ...] = ("a", "b")) -> KeptJoin:
    """Kept at a site of its own, by SP-D."""
    join = KeptJoin(name, aliases, "elsewhere", ())
    return replace(join, sequences=forced_plan(inner_query(query, join), "elsewhere", Algorithm.SP_D).sequences)


def tree(query: JoinQuery = QUERY, join: KeptJoin | None = None) -> Plan:
    join = join or kept(query)
    forced = forced_plan(outer_query(query, (join,)), "home", Algorithm.SM_S1)
    return tree_plan(query, "home", forced.sequences, (join,))


def test_predicates_are_asked_where_their_streams_are() -> None:
    inner, outer = inner_query(QUERY, kept()), outer_query(QUERY, (kept(),))
    assert inner.aliases == ("a", "b")
    assert outer.aliases == ("pairs", "c")
    assert inner.ref("a").where == QUERY.ref("a").where
    assert outer.ref("pairs").where is None
    assert len(inner.residuals) == 1
    # One between the kept join and c, and that each component is in its window as c sees it.
    assert len(outer.residuals) == 3
    assert outer.ref("pairs").window == RangeWindow(4_000), "the shortest"
    assert outer.ref("pairs").stream.unit is TimeUnit.US
    assert outer.output_schema() == QUERY.output_schema()


def test_columns_that_a_kept_join_makes_equal_are_one_to_others() -> None:
    outer = outer_query(QUERY, (kept(),))
    assert [(str(edge.left), str(edge.right)) for edge in outer.edges] == [("pairs.a.k", "c.k")]
    assert outer.ref("pairs").stream.schema.names == ["ts", "a@time", "b@time", "a.k", "a.n", "b.n"]


def is_result(times: dict[str, int], query: JoinQuery) -> bool:
    """The definition: every tuple is in its window as the last one sees it. Times are in the query's unit."""
    newest = max(times.values())
    windows = {ref.alias: ref.window for ref in query.streams}
    return all(
        isinstance(window, RangeWindow) and times[alias] >= newest - window.length(query.unit)
        for alias, window in windows.items()
    )


def found_by_tree(times: dict[str, int], checked: bool = True) -> bool:
    """Whether the tuples of these times, in milliseconds, are found by way of the kept join."""
    outer = outer_query(QUERY, (kept(),))
    pair = {alias: 1000 * times[alias] for alias in ("a", "b")}
    if not is_result(pair, inner_query(QUERY, kept())):
        return False
    newest = max(pair.values())
    if not is_result({"pairs": newest, "c": 1000 * times["c"]}, outer):
        return False
    columns = {"pairs.a@time": [pair["a"]], "pairs.b@time": [pair["b"]], "c.ts": [times["c"]]}
    rows = pa.RecordBatch.from_pydict({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return not checked or all(holds(expr, rows)[0] for expr in outer.residuals[-2:])


def test_a_tree_finds_what_the_definition_says_whatever_the_times_are() -> None:
    wrong = 0
    for a, b, c in itertools.product(range(-1, 14), repeat=3):
        times = {"a": a, "b": b, "c": c}
        by_definition = is_result({alias: 1000 * ts for alias, ts in times.items()}, QUERY)
        assert found_by_tree(times) == by_definition, times
        wrong += found_by_tree(times, checked=False) != by_definition
    assert wrong, "a kept pair is seen whose older part is not, where that is not asked"


def test_what_is_visible_although_its_older_part_is_not() -> None:
    """The counter-example: b sees a, c sees the pair, which is as old as b, and does not see a."""
    times = {"a": 0, "b": 8, "c": 11}
    assert found_by_tree(times, checked=False)
    assert not found_by_tree(times)


@pytest.mark.parametrize(
    ("kind", "unit", "scale", "value", "want_us"),
    [
        (pa.int32(), TimeUnit.MS, 1, 7, 7_000),
        (pa.int64(), TimeUnit.MS, 1_000, 7, 7_000_000),
        (pa.uint64(), TimeUnit.US, 1, 7, 7),
        (pa.timestamp("s"), TimeUnit.MS, 1, 7, 7_000_000),
        (pa.timestamp("us", "Europe/Berlin"), TimeUnit.US, 1, 7, 7),
        (pa.date32(), TimeUnit.MS, 1, 2, 2 * 86_400_000_000),
    ],
)
def test_event_times_are_as_the_stream_counts_them(
    kind: pa.DataType, unit: TimeUnit, scale: int, value: int, want_us: int
) -> None:
    """The second: seconds as integers, which the stream keeps as milliseconds."""
    info = StreamInfo("s", "x", pa.schema([("at", kind)]), "at", unit, scale)
    rows = pa.RecordBatch.from_arrays([pa.array([value], kind)], names=["a.at"])
    expr = event_time(StreamRef("a", info, RangeWindow(1)), TimeUnit.US)
    assert evaluate(expr, rows).to_pylist() == [want_us]


def test_a_plan_that_keeps_joins_is_read_back_and_told() -> None:
    plan = tree()
    assert read_plan(json.dumps(plan_dict(plan)), QUERY, "home") == plan
    assert plan.sites == ("at_c", "elsewhere", "home")
    assert "kept as pairs @elsewhere: a, b joined" in describe(plan)
    assert brief(plan).startswith("pairs@elsewhere = {a@at_a b(SP-D)@at_b; b@at_b a(SP-D)@at_a}; pairs@elsewhere")


def test_two_joins_can_be_kept_and_each_sees_the_other() -> None:
    query = parse_query(
        "SELECT a.n AS n FROM a [RANGE 10 MS], b [RANGE 4 MS], c [RANGE 7 MS], d [RANGE 9 MS] "
        "WHERE a.k = b.k AND b.k = c.k AND c.k = d.k",
        STREAMS,
    )
    outer = outer_query(query, (kept(query), kept(query, "others", ("c", "d"))))
    assert outer.aliases == ("pairs", "others")
    assert len(outer.residuals) == 4, "each component as the other join sees it"


def counted() -> JoinQuery:
    streams = tuple(replace(ref, window=RowsWindow(5)) if ref.alias == "c" else ref for ref in QUERY.streams)
    return replace(QUERY, streams=streams)


@pytest.mark.parametrize(
    ("query", "join", "required"),
    [
        (counted(), kept(), 'required time windows, got a count window of "c"'),
        (QUERY, replace(kept(), aliases=("a", "x")), 'required streams of the query, got "x"'),
        (QUERY, replace(kept(), aliases=("a",)), "required at least two streams"),
        (QUERY, replace(kept(), aliases=("a", "b", "c")), "required at least two streams, not all"),
        (QUERY, replace(kept(), name="c"), "required a name that nothing else of the query has"),
        (QUERY, replace(kept(), name="a/b"), "required a name of letters"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_reason(query: JoinQuery, join: KeptJoin, required: str) -> None:
    with pytest.raises(PlanError) as caught:
        outer_query(query, (join,))
    assert required in str(caught.value)


def test_policy_delta_is_refused() -> None:
    plan = tree()
    with pytest.raises(PlanError, match="required policy frontier"):
        tree_plan(QUERY, "home", plan.sequences, plan.kept, Policy(PolicyName.DELTA))


def test_rows_of_the_newest_time_are_those_of_the_newest_part() -> None:
    inner = inner_query(QUERY, kept())
    rows = pa.RecordBatch.from_pydict({"a.ts": pa.array([3, 9], pa.int64()), "b.ts": pa.array([5_000, 5_000])})
    assert np.array(evaluate(inner.outputs[0].source, rows)).tolist() == [5_000, 9_000]
