from __future__ import annotations

import json

import pyarrow as pa
import pytest

from planner.errors import PlanError
from planner.model import (
    Algorithm,
    ColumnRef,
    Edge,
    JoinQuery,
    OutputColumn,
    RangeWindow,
    Step,
    StreamInfo,
    StreamRef,
    TimeUnit,
)
from planner.plans import Hop, describe, forced_plan, parse_algorithm, plan_dict, route

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])


def ref(alias: str, name: str, site: str) -> StreamRef:
    return StreamRef(alias, StreamInfo(name, site, SCHEMA, "ts", TimeUnit.MS), RangeWindow(1_000_000))


def query(*refs: StreamRef, links: tuple[tuple[str, str], ...]) -> JoinQuery:
    edges = tuple(Edge(ColumnRef(left, "k"), ColumnRef(right, "k")) for left, right in links)
    return JoinQuery("the text", refs, edges, (OutputColumn("k", ColumnRef(refs[0].alias, "k")),))


ORDERS = ref("o", "orders", "frankfurt")
PAYMENTS = ref("p", "payments", "virginia")
TWO = query(ORDERS, PAYMENTS, links=(("o", "p"),))
# A chain a - c - b, so that FROM order and link order differ.
CHAIN = query(ref("a", "a", "x"), ref("b", "b", "y"), ref("c", "c", "z"), links=(("a", "c"), ("c", "b")))


def test_a_forced_plan_has_one_sequence_per_head_in_from_order() -> None:
    plan = forced_plan(TWO, "singapore", Algorithm.SP_S)
    assert [sequence.head for sequence in plan.sequences] == ["o", "p"]
    assert plan.sequence("o").steps == (Step("p", Algorithm.SP_S),)
    assert plan.sequence("p").steps == (Step("o", Algorithm.SP_S),)
    assert plan.sites == ("frankfurt", "singapore", "virginia")


def test_heads_can_use_different_algorithms() -> None:
    plan = forced_plan(TWO, "singapore", {"p": Algorithm.SP_D, "o": Algorithm.SP_S})
    assert plan.sequence("o").steps == (Step("p", Algorithm.SP_S),)
    assert plan.sequence("p").steps == (Step("o", Algorithm.SP_D),)


def test_a_stream_waits_in_the_sequence_until_a_predicate_links_it() -> None:
    plan = forced_plan(CHAIN, "x", Algorithm.SP_D)
    assert [step.alias for step in plan.sequence("a").steps] == ["c", "b"]
    assert [step.alias for step in plan.sequence("b").steps] == ["c", "a"]
    assert [step.alias for step in plan.sequence("c").steps] == ["a", "b"]


def test_a_stream_without_a_link_cannot_be_planned() -> None:
    torn = query(ref("a", "a", "x"), ref("b", "b", "y"), ref("c", "c", "z"), links=(("a", "b"),))
    with pytest.raises(PlanError, match='head "a": required an equality that links c with a, b'):
        forced_plan(torn, "x", Algorithm.SP_D)


@pytest.mark.parametrize(
    ("choice", "got"),
    [({"o": Algorithm.SP_S}, 'none for "p"'), ({"o": Algorithm.SP_S, "q": Algorithm.SP_S}, 'unknown head "q"')],
)
def test_a_choice_must_name_exactly_the_heads(choice: dict[str, Algorithm], got: str) -> None:
    with pytest.raises(PlanError, match=f"required heads o, p, got {got}"):
        forced_plan(TWO, "singapore", choice)


def test_sp_s_joins_where_the_carry_is_and_sp_d_where_the_stream_is() -> None:
    plan = forced_plan(TWO, "singapore", {"o": Algorithm.SP_S, "p": Algorithm.SP_D})
    assert route(plan, "o") == (Hop("p", Algorithm.SP_S, "frankfurt"),)
    assert route(plan, "p") == (Hop("o", Algorithm.SP_D, "frankfurt"),)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_streams_of_one_site_join_there_whatever_the_algorithm(algorithm: Algorithm) -> None:
    near = query(ORDERS, ref("p", "payments", "frankfurt"), links=(("o", "p"),))
    assert route(forced_plan(near, "oslo", algorithm), "o") == (Hop("p", algorithm, "frankfurt"),)


def test_the_carry_stays_where_the_last_step_left_it() -> None:
    by_d = forced_plan(CHAIN, "x", Algorithm.SP_D)
    by_s = forced_plan(CHAIN, "x", Algorithm.SP_S)
    assert [hop.site for hop in route(by_d, "a")] == ["z", "y"]
    assert [hop.site for hop in route(by_s, "a")] == ["x", "x"]


def test_one_algorithm_name_holds_for_all_heads_in_any_case() -> None:
    assert parse_algorithm(" sp-d ", TWO) == {"o": Algorithm.SP_D, "p": Algorithm.SP_D}


def test_algorithms_can_be_named_per_head_in_any_order() -> None:
    chosen = parse_algorithm("p=sp-d, o = SP-S", TWO)
    assert list(chosen.items()) == [("o", Algorithm.SP_S), ("p", Algorithm.SP_D)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'every head: required one of SP-S, SP-D, got ""'),
        ("SM-S1", 'every head: required one of SP-S, SP-D, got "SM-S1"'),
        ("o=SP-S,p=fast", 'head "p": required one of SP-S, SP-D, got "fast"'),
        ("o=SP-S", 'required heads o, p, got none for "p"'),
        ("o=SP-S,q=SP-S", 'required heads o, p, got unknown head "q"'),
        ("o=SP-S,o=SP-D", 'required each head once, got "o" twice'),
        ("o=SP-S,SP-D", 'required head=algorithm, got "SP-D"'),
        ("o=SP-S,", 'required head=algorithm, got ""'),
        ("=SP-S", 'unknown head ""'),
    ],
)
def test_a_bad_choice_is_refused_with_who_required_and_got(text: str, message: str) -> None:
    with pytest.raises(PlanError) as refused:
        parse_algorithm(text, TWO)
    assert message in str(refused.value)


def test_a_plan_is_described_in_one_stable_line_per_head() -> None:
    plan = forced_plan(TWO, "singapore", {"o": Algorithm.SP_D, "p": Algorithm.SP_S})
    assert describe(plan).splitlines() == [
        "orders o @frankfurt -> payments p @virginia by SP-D, joined at virginia, rows to singapore",
        "payments p @virginia -> orders o @frankfurt by SP-S, joined at virginia, rows to singapore",
    ]


def test_a_stream_without_an_alias_is_described_once() -> None:
    first = describe(forced_plan(CHAIN, "x", Algorithm.SP_D)).splitlines()[0]
    assert first == "a @x -> c @z by SP-D, joined at z -> b @y by SP-D, joined at y, rows to x"


def test_a_plan_as_a_dict_survives_json() -> None:
    found = plan_dict(forced_plan(TWO, "singapore", Algorithm.SP_D))
    assert json.loads(json.dumps(found)) == found
    assert found == {
        "query": "the text",
        "sink": "singapore",
        "streams": [
            {"alias": "o", "stream": "orders", "site": "frankfurt", "window_us": 1_000_000},
            {"alias": "p", "stream": "payments", "site": "virginia", "window_us": 1_000_000},
        ],
        "sequences": [
            {"head": "o", "steps": [{"alias": "p", "algorithm": "SP-D", "site": "virginia"}]},
            {"head": "p", "steps": [{"alias": "o", "algorithm": "SP-D", "site": "frankfurt"}]},
        ],
    }
