from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.model.durations import duration_text, duration_us
from planner.model.errors import PlanError
from planner.model.plans import (
    Hop,
    checked_plan,
    describe,
    forced_plan,
    parse_algorithm,
    parse_policy,
    plan_dict,
    policy_text,
    route,
    ship_all_plan,
    start_of,
    window_text,
)
from planner.model.query import (
    FRONTIER_POLICY,
    Algorithm,
    ColumnRef,
    Edge,
    JoinQuery,
    OutputColumn,
    Plan,
    Policy,
    PolicyName,
    RangeWindow,
    RowsWindow,
    Sequence,
    Step,
    StreamInfo,
    StreamRef,
    Window,
)
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.examples import new_examples

SECOND = RangeWindow(1_000_000)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])


def ref(alias: str, name: str, site: str, window: Window = SECOND) -> StreamRef:
    return StreamRef(alias, StreamInfo(name, site, SCHEMA, "ts", TimeUnit.MS), window)


def query(*refs: StreamRef, links: tuple[tuple[str, str], ...]) -> JoinQuery:
    edges = tuple(Edge(ColumnRef(left, "k"), ColumnRef(right, "k")) for left, right in links)
    return JoinQuery("the text", refs, edges, (OutputColumn("k", ColumnRef(refs[0].alias, "k")),))


ORDERS = ref("o", "orders", "frankfurt")
PAYMENTS = ref("p", "payments", "virginia", RowsWindow(20))
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


def test_a_stream_without_a_link_is_joined_last_and_by_shipping() -> None:
    torn = query(ref("a", "a", "x"), ref("c", "c", "z"), ref("b", "b", "y"), links=(("a", "b"),))
    of_a = forced_plan(torn, "x", Algorithm.SM_S1).sequence("a").steps
    assert of_a == (Step("b", Algorithm.SM_S1), Step("c", Algorithm.SP_S))
    of_c = forced_plan(torn, "x", Algorithm.SM_D2).sequence("c").steps
    assert of_c == (Step("a", Algorithm.SP_D), Step("b", Algorithm.SM_D2))
    first = Sequence("a", (Step("c", Algorithm.SM_D1), Step("b", Algorithm.SP_D)))
    wrong = Plan(torn, "x", (first, Sequence("b", ()), Sequence("c", ())))
    with pytest.raises(PlanError, match='required SP-S or SP-D to join "c"'):
        checked_plan(wrong)


@pytest.mark.parametrize(
    ("choice", "got"),
    [({"o": Algorithm.SP_S}, 'none for "p"'), ({"o": Algorithm.SP_S, "q": Algorithm.SP_S}, 'unknown head "q"')],
)
def test_a_choice_must_name_exactly_the_heads(choice: dict[str, Algorithm], got: str) -> None:
    with pytest.raises(PlanError, match=f"required heads o, p, got {got}"):
        forced_plan(TWO, "singapore", choice)


AT_SOURCE = (Algorithm.SP_S, Algorithm.SM_S1, Algorithm.SM_S2)
AT_STREAM = (Algorithm.SP_D, Algorithm.SM_D1, Algorithm.SM_D2)


@pytest.mark.parametrize("algorithm", AT_SOURCE)
def test_an_s_algorithm_joins_where_the_carry_is(algorithm: Algorithm) -> None:
    plan = forced_plan(TWO, "singapore", algorithm)
    assert route(plan, "o") == (Hop("p", algorithm, "frankfurt"),)
    assert route(plan, "p") == (Hop("o", algorithm, "virginia"),)


@pytest.mark.parametrize("algorithm", AT_STREAM)
def test_a_d_algorithm_joins_where_the_stream_is(algorithm: Algorithm) -> None:
    plan = forced_plan(TWO, "singapore", algorithm)
    assert route(plan, "o") == (Hop("p", algorithm, "virginia"),)
    assert route(plan, "p") == (Hop("o", algorithm, "frankfurt"),)


def test_every_algorithm_joins_at_one_of_the_two() -> None:
    assert sorted([*AT_SOURCE, *AT_STREAM]) == sorted(Algorithm)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_streams_of_one_site_join_there_whatever_the_algorithm(algorithm: Algorithm) -> None:
    near = query(ORDERS, ref("p", "payments", "frankfurt"), links=(("o", "p"),))
    assert route(forced_plan(near, "oslo", algorithm), "o") == (Hop("p", algorithm, "frankfurt"),)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_the_carry_stays_where_the_last_step_left_it(algorithm: Algorithm) -> None:
    sites = [hop.site for hop in route(forced_plan(CHAIN, "x", algorithm), "a")]
    assert sites == (["x", "x"] if algorithm in AT_SOURCE else ["z", "y"])


def test_one_algorithm_name_holds_for_all_heads_in_any_case() -> None:
    assert parse_algorithm(" sp-d ", TWO) == {"o": Algorithm.SP_D, "p": Algorithm.SP_D}


@pytest.mark.parametrize("name", ["SP-S", "SP-D", "SM-S1", "SM-S2", "SM-D1", "SM-D2"])
def test_each_of_the_six_algorithms_can_be_named(name: str) -> None:
    for written in (name, name.lower()):
        assert {head: chosen.value for head, chosen in parse_algorithm(written, TWO).items()} == {"o": name, "p": name}


def test_algorithms_can_be_named_per_head_in_any_order() -> None:
    chosen = parse_algorithm("p=sp-d, o = SP-S", TWO)
    assert list(chosen.items()) == [("o", Algorithm.SP_S), ("p", Algorithm.SP_D)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'every head: required one of SP-S, SP-D, SM-S1, SM-S2, SM-D1, SM-D2, got ""'),
        ("SM-S3", 'every head: required one of SP-S, SP-D, SM-S1, SM-S2, SM-D1, SM-D2, got "SM-S3"'),
        ("o=SP-S,p=fast", 'head "p": required one of SP-S, SP-D, SM-S1, SM-S2, SM-D1, SM-D2, got "fast"'),
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


# Policies.


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("frontier", FRONTIER_POLICY),
        (" Frontier ", FRONTIER_POLICY),
        ("delta", Policy(PolicyName.DELTA)),
        ("DELTA", Policy(PolicyName.DELTA)),
        ("delta=250ms", Policy(PolicyName.DELTA, 250_000)),
        ("Delta = 2 S", Policy(PolicyName.DELTA, 2_000_000)),
        ("delta=0.5 seconds", Policy(PolicyName.DELTA, 500_000)),
        ("delta=1us", Policy(PolicyName.DELTA, 1)),
        ("delta=100000d", Policy(PolicyName.DELTA, 100_000 * 86_400_000_000)),
    ],
)
def test_a_policy_is_read_with_or_without_its_delta(text: str, policy: Policy) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'required frontier, delta or delta=DURATION such as delta=250ms, got ""'),
        ("fast", 'required frontier, delta or delta=DURATION such as delta=250ms, got "fast"'),
        ("frontier=1s", 'required frontier, delta or delta=DURATION such as delta=250ms, got "frontier=1s"'),
        ("250ms", 'required frontier, delta or delta=DURATION such as delta=250ms, got "250ms"'),
        ("delta=", 'policy delta: required a duration above 0 such as 250ms or 2s, at most 100000 days, got ""'),
        ("delta=0s", 'above 0 such as 250ms or 2s, at most 100000 days, got "0s"'),
        ("delta=-1s", 'got "-1s"'),
        ("delta=250", 'got "250"'),
        ("delta=1 parsec", 'got "1 parsec"'),
        ("delta=1s=2s", 'got "1s=2s"'),
        ("delta=2\u017f", 'got "2\u017f"'),
        ("delta=0.1us", 'got "0.1us"'),
        ("delta=100001d", 'got "100001d"'),
        (f"delta={'9' * 5_000}us", "at most 100000 days"),
    ],
)
def test_a_bad_policy_is_refused_with_required_and_got(text: str, message: str) -> None:
    with pytest.raises(PlanError) as refused:
        parse_policy(text)
    assert message in str(refused.value)


def test_a_forced_plan_waits_for_frontiers_unless_told_otherwise() -> None:
    delta = Policy(PolicyName.DELTA, 5)
    assert forced_plan(TWO, "singapore", Algorithm.SP_D).policy == Policy(PolicyName.FRONTIER, None)
    assert forced_plan(TWO, "singapore", Algorithm.SP_D, delta).policy == delta


@given(st.one_of(st.none(), st.integers(1, 100_000 * 86_400_000_000)))
@new_examples()
def test_a_policy_in_words_is_read_back(delta_us: int | None) -> None:
    policy = Policy(PolicyName.DELTA, delta_us)
    assert parse_policy(policy_text(policy)) == policy


@given(st.integers(0, 1_000).flatmap(lambda n: st.sampled_from([n, n * 1_000, n * 60_000_000, n * 86_400_000_000])))
@new_examples()
def test_a_duration_in_words_is_read_back(length_us: int) -> None:
    assert duration_us(duration_text(length_us)) == length_us


@pytest.mark.parametrize(
    ("length_us", "text"),
    [
        (0, "0 us"),
        (999, "999 us"),
        (1_500_000, "1500 ms"),
        (90_000_000, "90 s"),
        (120_000_000, "2 min"),
        (7_200_000_000, "2 h"),
        (172_800_000_000, "2 d"),
    ],
)
def test_a_duration_is_shown_in_the_largest_whole_unit(length_us: int, text: str) -> None:
    assert duration_text(length_us) == text


# Plans from elsewhere.


@pytest.mark.parametrize("delta_us", [0, -1, 100_000 * 86_400_000_000 + 1])
def test_a_plan_whose_delta_makes_no_sense_is_refused(delta_us: int) -> None:
    plan = forced_plan(TWO, "singapore", Algorithm.SM_S1, Policy(PolicyName.DELTA, delta_us))
    with pytest.raises(PlanError, match=f"policy: required a delta above 0 and at most 100000 days, got {delta_us} us"):
        checked_plan(plan)


@pytest.mark.parametrize("delta_us", [None, 1, 100_000 * 86_400_000_000])
@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_plan_as_we_make_it_passes_the_check(algorithm: Algorithm, delta_us: int | None) -> None:
    plan = forced_plan(CHAIN, "x", algorithm, Policy(PolicyName.DELTA, delta_us))
    assert checked_plan(plan) is plan


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ("oop", 'plan: required one sequence for each head, got several for "o"'),
        ("o", 'plan: required heads o, p, got none for "p"'),
        ("opq", 'plan: required heads o, p, got unknown head "q"'),
    ],
)
def test_a_plan_in_which_not_every_head_has_one_sequence_is_refused(sequences: str, message: str) -> None:
    others = {"o": "p", "p": "o", "q": "o"}
    made = tuple(Sequence(head, (Step(others[head], Algorithm.SP_D),)) for head in sequences)
    with pytest.raises(PlanError) as refused:
        checked_plan(Plan(TWO, "singapore", made))
    assert str(refused.value) == message


def test_who_gave_a_plan_is_named_where_it_is_refused() -> None:
    with pytest.raises(PlanError, match=r"^plan of oslo: required heads o, p, got none"):
        checked_plan(Plan(TWO, "singapore", ()), "plan of oslo")


def test_shipping_everything_starts_at_the_sink_and_that_is_nothing_special_where_the_head_is() -> None:
    plan = ship_all_plan(TWO, "virginia")
    assert [start_of(plan, head) for head in "op"] == ["virginia", "virginia"]
    assert [sequence.start for sequence in plan.sequences] == ["virginia", None]


# How a plan reads.


def test_a_plan_is_described_in_one_stable_line_per_head_and_one_for_the_policy() -> None:
    plan = forced_plan(TWO, "singapore", {"o": Algorithm.SM_D2, "p": Algorithm.SM_S1})
    assert describe(plan).splitlines() == [
        "orders o @frankfurt -> payments p [ROWS 20] @virginia by SM-D2, joined at virginia, rows to singapore",
        "payments p @virginia -> orders o [RANGE 1 s] @frankfurt by SM-S1, joined at virginia, rows to singapore",
        "policy frontier",
    ]


@pytest.mark.parametrize(("delta_us", "text"), [(None, "policy delta"), (250_000, "policy delta=250 ms")])
def test_the_policy_delta_is_described_with_what_it_goes_by(delta_us: int | None, text: str) -> None:
    plan = forced_plan(TWO, "singapore", Algorithm.SP_D, Policy(PolicyName.DELTA, delta_us))
    assert describe(plan).splitlines()[-1] == text


def test_a_stream_without_an_alias_is_described_once() -> None:
    first = describe(forced_plan(CHAIN, "x", Algorithm.SP_D)).splitlines()[0]
    assert first == (
        "a @x -> c [RANGE 1 s] @z by SP-D, joined at z -> b [RANGE 1 s] @y by SP-D, joined at y, rows to x"
    )


@pytest.mark.parametrize("window", [RangeWindow(0), RangeWindow(1_500), RangeWindow(7_200_000_000), RowsWindow(3)])
def test_a_window_in_words_is_one_that_a_query_may_write(window: Window) -> None:
    text = f"SELECT a.k FROM s {window_text(window)} a JOIN s [ROWS 1] b ON a.k = b.k"
    assert parse_query(text, {"s": ref("s", "s", "x").stream}).streams[0].window == window


def plan_with(policy: Policy) -> Plan:
    return forced_plan(TWO, "singapore", Algorithm.SP_D, policy)


def test_a_plan_as_a_dict_survives_json() -> None:
    found = plan_dict(plan_with(FRONTIER_POLICY))
    assert json.loads(json.dumps(found)) == found
    assert found == {
        "query": "the text",
        "sink": "singapore",
        "policy": {"name": "frontier"},
        "streams": [
            {"alias": "o", "stream": "orders", "site": "frankfurt", "window_us": 1_000_000},
            {"alias": "p", "stream": "payments", "site": "virginia", "window_rows": 20},
        ],
        "sequences": [
            {"head": "o", "start": "frankfurt", "steps": [{"alias": "p", "algorithm": "SP-D", "site": "virginia"}]},
            {"head": "p", "start": "virginia", "steps": [{"alias": "o", "algorithm": "SP-D", "site": "frankfurt"}]},
        ],
    }


def test_a_plan_as_a_dict_has_a_delta_only_if_one_was_given() -> None:
    assert plan_dict(plan_with(Policy(PolicyName.DELTA, 5)))["policy"] == {"name": "delta", "delta_us": 5}
    assert plan_dict(plan_with(Policy(PolicyName.DELTA)))["policy"] == {"name": "delta"}
