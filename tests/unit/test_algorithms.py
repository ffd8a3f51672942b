"""The halves of the six algorithms, message by message: many walks in flight, and peers that lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core.algorithms import sm_d2, sm_s1
from node.core.effects import QueryState, RunOp
from node.core.engine import TS, Append, CloseWindow, Engine, Expire, OpenWindow, Probe
from node.core.events import ClockAdvanced
from node.core.ints import decode_ints, encode_ints
from node.core.messages import (
    AskMatches,
    Carry,
    Fetch,
    Fetched,
    KeyAnswer,
    Message,
    ReplicaSync,
    Rows,
    Sync,
    TupleAnswer,
)
from node.core.rows import decode_rows, encode_rows
from node.core.ticks import TICK_MIN, Span
from node.core.walk import shape_of
from node.engine.native import NativeEngine
from planner.model import FRONTIER_POLICY, Algorithm, Policy, PolicyName
from tests.oracle.oracle import Window
from tests.sim.reference_engine import ReferenceEngine
from tests.unit.sites import TAU_MS, TIME_WINDOW, Cluster

SIX = pytest.mark.parametrize("algorithm", list(Algorithm))
ASKING = pytest.mark.parametrize("algorithm", [Algorithm.SM_S1, Algorithm.SM_D2])
COUNT_WINDOW: Window = ("rows", 3)
KEY_SCHEMA = pa.schema([("a.key", pa.int64())])
A_SCHEMA = pa.schema([(TS, pa.int64()), ("a.key", pa.int64()), ("a.n", pa.int64())])
B_SCHEMA = pa.schema([(TS, pa.int64()), ("b.key", pa.int64()), ("b.n", pa.int64())])


def running(
    algorithm: Algorithm,
    window: Window = TIME_WINDOW,
    policy: Policy = FRONTIER_POLICY,
    engine: Callable[[], Engine] = ReferenceEngine,
) -> Cluster:
    """Query q1 of head a at ash and head b at bow, with the sink at cam; nothing read yet."""
    cluster = Cluster(window=window, policy=policy, engine=engine)
    cluster.issue("cam", algorithm)
    cluster.settle()
    assert cluster.state is QueryState.RUNNING
    return cluster


def under_way(cluster: Cluster, kind: Any, sender: str = "ash", receiver: str = "bow") -> list[Any]:
    return [message for message in cluster.mail[sender, receiver] if isinstance(message, kind)]


def until(cluster: Cluster, sender: str, receiver: str, kind: type[Any]) -> Any:
    """Messages of one direction arrive, up to the first of a kind."""
    while not isinstance(message := cluster.deliver(sender, receiver), kind):
        pass
    return message


def watch(cluster: Cluster) -> list[tuple[str, Message]]:
    """Everything that was ever sent between sites, with its sender."""
    sent = []
    for site, effect in cluster.effects:
        message = getattr(effect, "message", None)
        if message is not None:
            sent.append((site, message))
    return sent


def half(cluster: Cluster, site: str, head: str) -> Any:
    """The half of the head's only step at a site."""
    parts = cluster.sites[site].runs["q1"]._parts
    assert parts is not None
    return parts.sources.get((head, 0)) or parts.destinations[head, 0]


def finish(cluster: Cluster) -> None:
    for stream in ("l", "r"):
        cluster.arrive(stream, ended=True)
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results() == cluster.oracle()
    assert cluster.holds_nothing()
    assert cluster.blamed == []


# -- any order of things ----------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from([0, 1, 2, None])), max_size=5)
STEPS = st.lists(
    st.one_of(st.tuples(st.sampled_from(["l", "r"]), ROWS), st.tuples(st.just("go"), st.integers(0, 1000))), max_size=60
)
WINDOWS = st.sampled_from([TIME_WINDOW, ("range", 5_000), COUNT_WINDOW, ("rows", 1)])


def go(cluster: Cluster, choice: int) -> None:
    """One of the things that can happen now: a message arrives, or an engine answers."""
    acts: list[Callable[[], object]] = [
        lambda pair=pair: cluster.deliver(*pair)  # type: ignore[misc]
        for pair, mail in sorted(cluster.mail.items())
        if mail
    ]
    acts += [
        lambda site=site: cluster.answer(site)  # type: ignore[misc]
        for site, answers in sorted(cluster.answers.items())
        if answers
    ]
    if acts:
        acts[choice % len(acts)]()


@SIX
@given(STEPS, WINDOWS)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_whatever_comes_when_the_rows_are_right_and_nothing_is_shipped_twice(
    algorithm: Algorithm, steps: list[tuple[str, Any]], window: Window
) -> None:
    cluster = running(algorithm, window)
    now = {"l": 0, "r": 0}
    for name, what in steps:
        if name == "go":
            go(cluster, what)
        elif name in cluster.reads:
            times = sorted(now[name] + offset for offset, _ in what)
            now[name] = times[-1] if times else now[name] + 5
            cluster.arrive(name, *times, keys=[key for _, key in what], watermark=now[name])
    for stream in ("l", "r"):
        if stream not in cluster.reads:
            cluster.settle()
        cluster.arrive(stream, ended=True)
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results() == cluster.oracle()
    assert cluster.blamed == []
    assert cluster.holds_nothing()
    if algorithm in (Algorithm.SM_S1, Algorithm.SM_S2):
        shipped = Counter(number for number in tuples_shipped(cluster))
        assert max(shipped.values(), default=0) <= 1


def tuples_shipped(cluster: Cluster) -> list[tuple[str, int]]:
    """Full tuples that crossed a link to a copy, by the stream's alias."""
    found = []
    for site, message in watch(cluster):
        data = {ReplicaSync: "full", Fetched: "rows", TupleAnswer: "rows"}.get(type(message))
        if data is not None:
            alias, schema = ("a", A_SCHEMA) if site == "ash" else ("b", B_SCHEMA)
            rows = decode_rows(getattr(message, data), schema)
            found += [(alias, number) for number in rows.column(f"{alias}.n").to_pylist()]
    return found


# -- walks never wait for one another ---------------------------------------------------------


@ASKING
def test_three_walks_ask_before_the_first_answer_arrives(algorithm: Algorithm) -> None:
    #  ash:  ask tick 0, ask tick 1, ask tick 2 ----> bow has not even heard of the first
    cluster = running(algorithm)
    cluster.arrive("r", 1, 2, 100)
    for ts in (5, 15, 25, 35):
        cluster.arrive("l", ts)
    asks = under_way(cluster, AskMatches)
    assert [(ask.low_ts, ask.high_ts) for ask in asks] == [(5, 5), (15, 15), (25, 25)]
    assert len(half(cluster, "ash", "a").asking) == 3
    while cluster.mail["ash", "bow"]:
        cluster.deliver("ash", "bow")
    assert len(cluster.answers["bow"]) == 3, "three questions to the engine, none answered"
    for answered in range(3):
        cluster.answer("bow")
        assert len(under_way(cluster, TupleAnswer | KeyAnswer, "bow", "ash")) == answered + 1
    finish(cluster)


def test_the_rows_of_three_walks_travel_before_the_first_is_joined() -> None:
    cluster = running(Algorithm.SM_D2)
    cluster.arrive("r", 1, 2, 100)
    for ts in (5, 15, 25, 35):
        cluster.arrive("l", ts)
    while cluster.mail["ash", "bow"]:
        cluster.deliver("ash", "bow")
    for _ in range(3):
        cluster.answer("bow")
    while cluster.mail["bow", "ash"]:
        cluster.deliver("bow", "ash")
    assert len(under_way(cluster, Carry)) == 3
    assert len(half(cluster, "bow", "a")) == 3
    while cluster.mail["ash", "bow"]:
        cluster.deliver("ash", "bow")
    assert len(cluster.answers["bow"]) == 3
    assert len(half(cluster, "bow", "a")) == 0
    finish(cluster)


def test_a_walk_that_has_its_tuples_overtakes_one_that_fetches() -> None:
    cluster = running(Algorithm.SM_S2)
    cluster.arrive("r", 1, 2, keys=[1, 2])
    cluster.arrive("r", 200)
    cluster.arrive("l", 5, key=1)
    cluster.arrive("l", 15, key=2)
    cluster.settle()  # key 1 is full at ash
    cluster.arrive("l", 25, key=1)  # seals the walk of 15, which fetches key 2
    (fetch,) = under_way(cluster, Fetch)
    assert len(decode_ints(fetch.slots, 9)) == 1
    cluster.arrive("l", 35, key=1)  # seals the walk of 25, which needs nothing
    assert len(cluster.answers["ash"]) == 1
    cluster.answer("ash")
    (rows,) = [message for message in cluster.mail["ash", "cam"] if isinstance(message, Rows)]
    assert rows.span == Span(2, 3)
    finish(cluster)


def test_two_walks_that_need_one_key_send_one_fetch_and_both_get_their_rows() -> None:
    cluster = running(Algorithm.SM_S2)
    cluster.arrive("r", 1, 2, keys=[1, 2])
    cluster.arrive("r", 200)
    cluster.settle_mail()
    for ts, keys in ((5, [1]), (15, [1]), (25, [2]), (35, [1])):
        cluster.arrive("l", ts, keys=keys)
    fetches = under_way(cluster, Fetch)
    assert [len(decode_ints(fetch.slots, 9)) for fetch in fetches] == [1, 1]  # key 1 once, then key 2
    finish(cluster)
    assert len(cluster.oracle()) == 3


def test_a_walk_with_both_kinds_of_rows_is_joined_in_two_parts_and_goes_on_once() -> None:
    cluster = running(Algorithm.SM_S2)
    cluster.arrive("r", 1, 2, 3, keys=[1, 2, 2])
    cluster.arrive("r", 200)
    cluster.arrive("l", 5, key=1)
    cluster.arrive("l", 15, 16, 17, 18, keys=[1, 2, 3, None])
    cluster.settle()
    cluster.arrive("l", 200)
    assert len(cluster.answers["ash"]) == 1  # the part whose tuples are here
    cluster.answer("ash")
    assert not under_way(cluster, Rows, "ash", "cam")
    cluster.settle()
    results = [message for site, message in watch(cluster) if isinstance(message, Rows) and message.head == "a"]
    assert len({message.span for message in results}) == len(results)
    finish(cluster)


# -- what travels -----------------------------------------------------------------------------


def test_a_walk_without_match_ends_at_the_destination_and_its_source_forgets_it_when_it_is_done() -> None:
    cluster = running(Algorithm.SM_D2)
    cluster.arrive("r", 1, 100, key=1)
    cluster.arrive("l", 5, 15, key=9)
    (ask,) = under_way(cluster, AskMatches)
    cluster.deliver("ash", "bow")
    cluster.answer("bow")
    assert not under_way(cluster, KeyAnswer, "bow", "ash")
    (rows,) = [message for message in cluster.mail["bow", "cam"] if isinstance(message, Rows) and message.head == "a"]
    assert (rows.span, rows.rows) == (ask.span, b"")
    assert len(half(cluster, "bow", "a")) == 0, "no Temp for a walk that is over"
    asking = half(cluster, "ash", "a").asking
    assert len(asking) == 1
    while cluster.mail["bow", "cam"]:
        cluster.deliver("bow", "cam")
    assert len(asking) == 1
    while cluster.mail["cam", "ash"]:
        cluster.deliver("cam", "ash")
    assert len(asking) == 0
    finish(cluster)


def test_done_forgets_only_walks_that_it_passes() -> None:
    cluster = running(Algorithm.SM_D2)
    cluster.arrive("r", 1, 12, 200, key=1)
    cluster.arrive("l", 5, key=9)
    cluster.arrive("l", 15, key=9)  # [.., 1) without match
    cluster.arrive("l", 25, key=1)  # [1, 2) without match
    cluster.arrive("l", 35, key=1)  # [2, 3) matches
    cluster.settle_mail()
    cluster.answer("bow")
    cluster.settle_mail()
    asking = half(cluster, "ash", "a").asking
    assert len(asking) == 2
    finish(cluster)
    assert cluster.results() == [(2, 0), (2, 1), (3, 1)]


def test_the_tuples_that_were_found_are_joined_even_if_the_window_forgets_them_meanwhile() -> None:
    cluster = running(Algorithm.SM_D2)
    cluster.arrive("r", 1, 2, 100)
    cluster.arrive("l", 5, 15)
    cluster.deliver("ash", "bow")
    cluster.answer("bow")
    until(cluster, "bow", "ash", KeyAnswer)
    (carry,) = under_way(cluster, Carry)
    cluster.engines["bow"].run([Expire("q1/b(b.key)", 10**9)])
    cluster.deliver("ash", "bow")
    cluster.settle()
    ops = [effect.op for site, effect in cluster.effects if site == "bow" and isinstance(effect, RunOp)]
    temp = f"q1/b(b.key)/temp/a/{carry.span.first}"
    assert [type(op) for op in ops if op.window == temp] == [OpenWindow, Append, Probe, CloseWindow]
    assert temp not in cluster.open_windows["bow"]
    assert cluster.results() == [(0, 0), (0, 1)]


def test_only_rows_whose_key_matches_are_shipped() -> None:
    for algorithm in (Algorithm.SM_D1, Algorithm.SM_D2):
        cluster = running(algorithm)
        cluster.arrive("r", 1, 2, 100, keys=[1, 3, 1])
        cluster.arrive("l", 4, 5, 6, 7, 15, keys=[1, 2, 3, None, 1])
        while not under_way(cluster, Carry):
            go(cluster, 0)
        (carry,) = under_way(cluster, Carry)
        assert decode_rows(carry.rows, A_SCHEMA).column("a.key").to_pylist() == [1, 3]
        finish(cluster)


def test_no_key_that_matches_ships_nothing() -> None:
    cluster = running(Algorithm.SM_D1)
    cluster.arrive("r", 1, 100, key=1)
    cluster.arrive("l", 4, 5, 15, keys=[2, 3, 2])
    cluster.settle()
    assert not [message for site, message in watch(cluster) if site == "ash" and isinstance(message, Carry)]
    ends = [message for site, message in watch(cluster) if site == "ash" and isinstance(message, Rows)]
    assert [message.rows for message in ends] == [b""]
    finish(cluster)


def test_distinct_keys_are_asked_for_once() -> None:
    cluster = running(Algorithm.SM_S1)
    cluster.arrive("l", 4, 5, 6, 7, 15, keys=[2, 1, 2, None, 1])
    (ask,) = under_way(cluster, AskMatches)
    assert decode_rows(ask.keys, KEY_SCHEMA).column(0).to_pylist() == [1, 2]
    assert (ask.low_ts, ask.high_ts) == (4, 6), "a row with a null key is no part of the walk"


@SIX
def test_rows_with_null_keys_never_travel_with_a_walk(algorithm: Algorithm) -> None:
    cluster = running(algorithm)
    cluster.arrive("r", 1, 2, 3, keys=[1, None, 2])
    cluster.arrive("l", 4, 5, 6, keys=[None, 1, None])
    cluster.arrive("l", 14, 15, keys=[None, None])
    cluster.arrive("l", 44)
    cluster.arrive("r", 45, keys=[None])
    cluster.settle()
    seen = 0
    for site, message in watch(cluster):
        schema = A_SCHEMA if site == "ash" else B_SCHEMA
        alias = "a" if site == "ash" else "b"
        key_schema = pa.schema([schema.field(f"{alias}.key")])
        match message:
            case Carry():
                columns = [decode_rows(message.rows, schema).column(f"{alias}.key")]
            case AskMatches():
                columns = [decode_rows(message.keys, key_schema).column(0)]
            case ReplicaSync():
                columns = [
                    decode_rows(message.born, key_schema).column(0),
                    decode_rows(message.full, schema).column(f"{alias}.key"),
                ]
            case TupleAnswer() | Fetched():
                columns = [decode_rows(message.rows, schema).column(f"{alias}.key")]
            case _:
                continue
        seen += 1
        assert not any(column.null_count for column in columns)
    assert seen or algorithm is Algorithm.SP_S
    finish(cluster)


# -- the paper's policy -----------------------------------------------------------------------

DELTA = Policy(PolicyName.DELTA, 1_000)


def pass_time(cluster: Cluster) -> None:
    """A tick of the clock, in milliseconds; messages and engines take none. Delta is one of them."""
    for _ in range(TAU_MS):
        cluster.settle()
        cluster.now_us += 1_000
        for site in cluster.sites:
            cluster.give(site, ClockAdvanced())
    cluster.settle()


@pytest.mark.parametrize("window", [TIME_WINDOW, COUNT_WINDOW], ids=["time", "count"])
@SIX
def test_by_the_clock_the_rows_are_right_and_nothing_is_counted_when_nothing_is_late(
    algorithm: Algorithm, window: Window
) -> None:
    cluster = running(algorithm, window, DELTA)
    for tick in range(12):
        for stream in ("l", "r"):
            cluster.arrive(stream, 10 * tick, 10 * tick + 3, 10 * tick + 7, keys=[tick % 3, 1, 2])
        pass_time(cluster)
    counts = [count for site in cluster.sites.values() for count in site.probe_counts()]
    for stream in ("l", "r"):
        cluster.arrive(stream, ended=True)
    pass_time(cluster)
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results() == cluster.oracle()
    assert [(count.early, count.late) for count in counts] == [(0, 0)] * 3
    assert {count.delta_us for count in counts} == {1_000}
    assert cluster.holds_nothing()


@SIX
def test_by_the_clock_windows_and_copies_forget(algorithm: Algorithm) -> None:
    cluster = running(algorithm, TIME_WINDOW, DELTA)
    for tick in range(60):
        for stream in ("l", "r"):
            cluster.arrive(stream, 10 * tick, 10 * tick + 3)
        pass_time(cluster)
    for site in ("ash", "bow"):
        engine = cluster.engines[site]
        for name in engine.windows:
            assert len(engine._rows[name]) < 20, f"{name} at {site} grows without end"


def test_a_window_that_is_late_makes_early_probes_and_they_are_counted() -> None:
    cluster = running(Algorithm.SP_D, policy=DELTA)
    cluster.arrive("l", 5, 15)
    cluster.settle()
    cluster.now_us += 1_000
    cluster.give("bow", ClockAdvanced())
    assert [count.early for count in cluster.sites["bow"].probe_counts()] == [1]
    cluster.arrive("r", 1, 100)  # too late for the walk of 5
    cluster.settle()
    assert cluster.results() == []


# -- what a bad peer could send ---------------------------------------------------------------

SPAN = Span(TICK_MIN, 1)


def ints(*values: int) -> bytes:
    return encode_ints(np.array(values, np.int64))


def keys(*values: int | None) -> bytes:
    return encode_rows(pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=KEY_SCHEMA))


def tuples(schema: pa.Schema, *rows: tuple[int | None, int | None, int]) -> bytes:
    return encode_rows(
        pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
    )


def asked(algorithm: Algorithm) -> Cluster:
    """Ash has asked about two keys, 1 and 2, of the walk before tick 1; bow has sealed what it needs."""
    cluster = running(algorithm)
    cluster.arrive("r", 1, 2, 100, keys=[1, 2, 1])
    cluster.arrive("l", 5, 6, 15, keys=[1, 2, 1])
    return cluster


ASK = AskMatches("q1", "a", SPAN, 0, 0, 5, 6, keys(1, 2))
CARRY = Carry("q1", "a", SPAN, 0, 0, tuples(A_SCHEMA, (5, 1, 0)))
SYNC = ReplicaSync("q1", 0, 5, TICK_MIN, b"", b"", b"", b"")
EVERY_MESSAGE: list[Message] = [
    ASK,
    KeyAnswer("q1", "a", SPAN, 0, b"\x80"),
    TupleAnswer("q1", "a", SPAN, 0, b""),
    CARRY,
    Sync("q1", "b", SPAN, 0, b""),
    SYNC,
    Fetch("q1", 0, 0, ints(0)),
    Fetched("q1", 0, b""),
]

#: By algorithm: what is wrong, who is told, the message, and what is said about it.
WRONG: list[tuple[Algorithm, str, str, Message, str]] = [
    (Algorithm.SM_D2, "no question", "ash", KeyAnswer("q1", "a", Span(7, 8), 0, b"\x80"), "what was asked"),
    (Algorithm.SM_D2, "another span", "ash", KeyAnswer("q1", "a", Span(TICK_MIN, 2), 0, b"\x80"), "what was asked"),
    (Algorithm.SM_D2, "too few bits", "ash", KeyAnswer("q1", "a", SPAN, 0, b""), "a bit for each of 2 keys"),
    (Algorithm.SM_D2, "too many bits", "ash", KeyAnswer("q1", "a", SPAN, 0, b"\x80\x80"), "a bit for each of 2 keys"),
    (Algorithm.SM_D2, "no match", "ash", KeyAnswer("q1", "a", SPAN, 0, b"\x3f"), "only when a key matches"),
    (Algorithm.SM_D2, "tuples for bits", "ash", TupleAnswer("q1", "a", SPAN, 0, b""), "a step that is done here"),
    (Algorithm.SM_D2, "rows before keys", "bow", replace(CARRY, span=Span(0, 1)), "keys before rows"),
    (Algorithm.SM_D2, "a question without keys", "bow", replace(ASK, keys=b""), "keys to look for"),
    (Algorithm.SM_D2, "a null key", "bow", replace(ASK, keys=keys(1, None)), "none of them null"),
    (Algorithm.SM_D2, "keys that are no rows", "bow", replace(ASK, keys=b"junk"), "rows require columns"),
    (Algorithm.SM_D2, "times outside the span", "bow", replace(ASK, high_ts=10), "times within"),
    (Algorithm.SM_D2, "times the wrong way round", "bow", replace(ASK, low_ts=7, high_ts=6), "sorted by time"),
    (Algorithm.SM_S1, "no question", "ash", TupleAnswer("q1", "a", Span(7, 8), 0, b""), "what was asked"),
    (Algorithm.SM_S1, "another span", "ash", TupleAnswer("q1", "a", Span(TICK_MIN, 2), 0, b""), "what was asked"),
    (Algorithm.SM_S1, "junk for tuples", "ash", TupleAnswer("q1", "a", SPAN, 0, b"junk"), "rows require columns"),
    (
        Algorithm.SM_S1,
        "a tuple without position",
        "ash",
        TupleAnswer("q1", "a", SPAN, 0, tuples(B_SCHEMA, (None, 1, 0))),
        "tuples with positions",
    ),
    (Algorithm.SM_S1, "bits for tuples", "ash", KeyAnswer("q1", "a", SPAN, 0, b"\x80"), "a step that is done here"),
    (Algorithm.SM_S1, "a carry", "bow", CARRY, "a step that is done here"),
    (Algorithm.SM_S1, "a sync that is not needed", "ash", SYNC, "requires times, of a count window"),
    (Algorithm.SM_S1, "a fetch", "bow", Fetch("q1", 0, 0, ints(0)), "a replica that is here"),
    (Algorithm.SM_S2, "a fetch of nobody", "bow", Fetch("q1", 0, 1, ints(7)), "keys that it was told of"),
    (Algorithm.SM_S2, "a fetch at the holder", "ash", Fetch("q1", 0, 0, ints(0)), "a replica that is here"),
    (Algorithm.SM_S2, "a fetch of another replica", "bow", Fetch("q1", 1, 0, ints(0)), "a replica that is here"),
    (Algorithm.SM_S2, "an answer to no fetch", "ash", Fetched("q1", 0, b""), "a question before an answer"),
    (Algorithm.SM_S2, "a replica that does not exist", "ash", replace(SYNC, replica=2), "a replica that is here"),
    (Algorithm.SM_S2, "a negative replica", "ash", replace(SYNC, replica=-1), "a replica that is here"),
    (Algorithm.SM_S2, "a sync at the owner", "bow", SYNC, "a replica that is here"),
    (Algorithm.SM_S2, "a sync that goes back", "ash", replace(SYNC, frontier=TICK_MIN - 1), "requires a sync from"),
    (Algorithm.SM_S2, "a question", "bow", ASK, "a step that is done here"),
    (Algorithm.SM_D1, "a question", "bow", ASK, "a step that is done here"),
    (Algorithm.SM_D1, "a fetch", "bow", Fetch("q1", 0, 0, ints(0)), "a replica that is here"),
    (Algorithm.SM_D1, "a full batch", "ash", Sync("q1", "b", SPAN, 0, b""), "requires no copy of 'b'"),
    (Algorithm.SM_D1, "a death of nobody", "ash", replace(SYNC, dead=ints(0)), "living keys to die"),
    (Algorithm.SM_D1, "tuples", "ash", replace(SYNC, full=b"\x01"), "requires keys only"),
    (Algorithm.SP_S, "a sync of keys", "ash", SYNC, "a replica that is here"),
    (Algorithm.SP_S, "a carry", "bow", CARRY, "a step that is done here"),
    (Algorithm.SP_D, "an answer", "ash", KeyAnswer("q1", "a", SPAN, 0, b"\x80"), "a step that is done here"),
]


@pytest.mark.parametrize("number", range(len(WRONG)), ids=lambda number: f"{WRONG[number][0]} {WRONG[number][1]}")
def test_a_wrong_message_ends_its_query_and_no_other(number: int) -> None:
    algorithm, _, receiver, message, text = WRONG[number]
    cluster = running(algorithm)
    cluster.window = ("range", 40_000)  # another one, or q2 would use q1's replicas
    cluster.issue("cam", algorithm, "q2")
    cluster.settle()
    cluster.arrive("r", 1, 2, 100, keys=[1, 2, 1])
    cluster.arrive("l", 5, 6, 15, keys=[1, 2, 1])
    sender = "bow" if receiver == "ash" else "ash"
    cluster.say(sender, receiver, message)
    ((blamed, reason),) = cluster.blamed
    assert blamed == sender
    assert text in reason
    cluster.settle()
    assert ("q1", QueryState.FAILED) in {state[:2] for state in cluster.states}
    assert "q1" not in {query_id for site in cluster.sites.values() for query_id in site.runs}
    for stream in ("l", "r"):
        cluster.arrive(stream, ended=True)
    cluster.settle()
    assert cluster.states[-1][:2] == ("q2", QueryState.COMPLETED)
    assert cluster.results("q2") == cluster.oracle() != []
    assert cluster.holds_nothing()


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=lambda message: type(message).__name__)
@SIX
def test_a_message_for_what_is_not_here_is_refused(algorithm: Algorithm, message: Message) -> None:
    names = {field.name for field in fields(message)}
    changes: list[dict[str, Any]] = [{"head": "x"}, {"step": 1}, {"step": -1}, {"replica": 99}, {"alias": "x"}]
    for change in [change for change in changes if change.keys() <= names]:
        for receiver, sender in (("ash", "bow"), ("bow", "ash")):
            cluster = asked(algorithm)
            cluster.say(sender, receiver, replace(message, **change))
            assert [peer for peer, _ in cluster.blamed] == [sender]


@ASKING
def test_an_answer_that_comes_twice_is_wrong(algorithm: Algorithm) -> None:
    cluster = asked(algorithm)
    cluster.deliver("ash", "bow")
    cluster.answer("bow")
    kind = TupleAnswer if algorithm is Algorithm.SM_S1 else KeyAnswer
    answer = until(cluster, "bow", "ash", kind)
    assert cluster.blamed == []
    cluster.say("bow", "ash", answer)
    assert [peer for peer, _ in cluster.blamed] == ["bow"]


def test_rows_that_come_twice_are_wrong() -> None:
    cluster = asked(Algorithm.SM_D2)
    cluster.deliver("ash", "bow")
    cluster.answer("bow")
    until(cluster, "bow", "ash", KeyAnswer)
    carry = until(cluster, "ash", "bow", Carry)
    assert cluster.blamed == []
    cluster.say("ash", "bow", carry)
    assert [peer for peer, _ in cluster.blamed] == ["ash"]


NUMBERS = st.sampled_from([-(2**63), TICK_MIN, -1, 0, 1, 2, 5, 7, 2**62, 2**63 - 1])
BYTES = st.one_of(st.binary(max_size=12), st.lists(st.integers(-3, 9), max_size=4).map(lambda v: ints(*v)))


@SIX
@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=100)
def test_whatever_a_peer_makes_of_an_honest_message_harms_its_query_at_most(
    algorithm: Algorithm, data: st.DataObject
) -> None:
    window = data.draw(st.sampled_from([TIME_WINDOW, COUNT_WINDOW]))
    engine = data.draw(st.sampled_from([ReferenceEngine, NativeEngine]))
    cluster = running(algorithm, window, engine=engine)
    cluster.arrive("r", 1, 2, 31, keys=[1, 2, 1])
    cluster.arrive("l", 5, 6, 35, keys=[1, 2, 1])
    for choice in data.draw(st.lists(st.integers(0, 99), max_size=12)):
        go(cluster, choice)
    pairs = [("ash", "bow"), ("bow", "ash")]
    mail = [(pair, message) for pair in pairs for message in cluster.mail[pair]]
    sent = [((site, "bow" if site == "ash" else "ash"), message) for site, message in watch(cluster) if site != "cam"]
    shipments = AskMatches | KeyAnswer | TupleAnswer | Carry | Sync | ReplicaSync | Fetch | Fetched
    honest = [(pair, message) for pair, message in mail + sent if isinstance(message, shipments)]
    for _ in range(data.draw(st.integers(1, 2))):
        pair, message = data.draw(st.sampled_from(honest))
        names = [field.name for field in fields(message) if field.name not in ("query_id", "span", "head")]
        name = data.draw(st.sampled_from(names))
        strategy = BYTES if isinstance(getattr(message, name), bytes) else NUMBERS
        change: dict[str, Any] = {name: data.draw(strategy)}
        cluster.say(*pair, replace(message, **change))
    cluster.settle()
    for stream in ("l", "r"):
        if stream in cluster.reads and cluster.state is QueryState.RUNNING:
            cluster.arrive(stream, 60)
    cluster.settle()
    if cluster.state is QueryState.FAILED:
        assert cluster.holds_nothing()


def test_steps_and_replicas_are_where_these_tests_think() -> None:
    for algorithm in Algorithm:
        cluster = running(algorithm)
        shape = shape_of(cluster.plan("cam", algorithm))
        assert [(step.source, step.owner) for head in "ab" for step in shape.steps[head]] == [
            ("ash", "bow"),
            ("bow", "ash"),
        ]
        assert [(replica.number, replica.alias, replica.holder) for replica in shape.replicas] == (
            [] if algorithm in (Algorithm.SP_D, Algorithm.SM_D2) else [(0, "b", "ash"), (1, "a", "bow")]
        )
    assert isinstance(half(running(Algorithm.SM_D2), "bow", "a"), sm_d2.Destination)
    assert isinstance(half(running(Algorithm.SM_S1), "bow", "a"), sm_s1.Destination)
