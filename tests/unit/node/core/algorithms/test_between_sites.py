"""The six algorithms between sites: things happen in any order, policies differ, and peers lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.effects import IgnoreReason, QueryState
from node.core.encoding.ints import encode_ints
from node.core.encoding.rows import decode_rows, encode_rows
from node.core.engine import TS, Engine
from node.core.events import ClockAdvanced
from node.core.links.messages import (
    AskMatches,
    Carry,
    CloseCopy,
    Fetch,
    Fetched,
    KeyAnswer,
    LeaseCopy,
    Message,
    Rows,
    Sync,
    TupleAnswer,
)
from node.core.streams.ticks import TICK_MIN, Span
from node.engine.native import NativeEngine
from planner.algorithms.descriptions import Algorithm
from planner.model.query import FRONTIER_POLICY, Policy, PolicyName
from tests.examples import examples
from tests.oracle.oracle import Window
from tests.sim.reference_engine import ReferenceEngine
from tests.unit.sites import TAU_MS, TIME_WINDOW, Cluster

SIX = pytest.mark.parametrize("algorithm", list(Algorithm))
ASKING = pytest.mark.parametrize("algorithm", [Algorithm.SM_S1, Algorithm.SM_D2])
COUNT_WINDOW: Window = ("rows", 3)
KEY_SCHEMA = pa.schema([("a.key", pa.int64())])
A_SCHEMA = pa.schema([(TS, pa.int64()), ("a.key", pa.int64()), ("a.n", pa.int64())])
B_SCHEMA = pa.schema([(TS, pa.int64()), ("b.key", pa.int64()), ("b.n", pa.int64())])
#: Tuples for a copy, as they travel; and the keys of one.
TUPLES = pa.schema([(TS, pa.int64()), ("key", pa.int64()), ("n", pa.int64())])
COPY_KEYS = pa.schema([("key", pa.int64())])


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
@examples(60)
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
    """Full tuples that crossed a link to a copy, by the stream's site."""
    found = []
    for site, message in watch(cluster):
        if isinstance(message, Sync | Fetched | TupleAnswer):
            rows = decode_rows(message.rows, TUPLES)
            found += [(site, number) for number in rows.column("n").to_pylist()]
    return found


# -- what travels -----------------------------------------------------------------------------


def test_no_key_that_matches_ships_nothing() -> None:
    cluster = running(Algorithm.SM_D1)
    cluster.arrive("r", 1, 100, key=1)
    cluster.arrive("l", 4, 5, 15, keys=[2, 3, 2])
    cluster.settle()
    assert not [message for site, message in watch(cluster) if site == "ash" and isinstance(message, Carry)]
    ends = [message for site, message in watch(cluster) if site == "ash" and isinstance(message, Rows)]
    assert [message.rows for message in ends] == [b""]
    finish(cluster)


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
            case Sync() if algorithm is not Algorithm.SP_S:
                columns = [
                    decode_rows(message.born, COPY_KEYS).column(0),
                    decode_rows(message.rows, TUPLES).column("key"),
                ]
            case TupleAnswer() | Fetched():
                columns = [decode_rows(message.rows, TUPLES).column("key")]
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
        for name in engine.tables:
            assert engine.rows(name) < 20, f"{name} at {site} grows without end"


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


ASK = AskMatches("q1", "a", SPAN, 0, 0, 5, 6, 1, keys(1, 2))
QUESTION = replace(ASK, copy=0)
CARRY = Carry("q1", "a", SPAN, 0, 0, tuples(A_SCHEMA, (5, 1, 0)))
#: Ash holds copy 1, of b, and bow holds copy 1, of a.
SYNC = Sync(1, 5, TICK_MIN, 0, b"", b"", b"", b"")
KEY_ANSWER = KeyAnswer("q1", "a", SPAN, 0, b"\x80")
TUPLE_ANSWER = TupleAnswer("q1", "a", SPAN, 0, 1, b"")
STEP_MESSAGES: list[Message] = [ASK, KEY_ANSWER, TUPLE_ANSWER, CARRY]
COPY_MESSAGES: list[Message] = [SYNC, Fetch(1, 0, ints(0)), Fetched(1, b""), CloseCopy(1), LeaseCopy("q1", 1, 0)]

#: By algorithm: what is wrong, who is told, the message, and what is said about it.
WRONG: list[tuple[Algorithm, str, str, Message, str]] = [
    (Algorithm.SM_D2, "no question", "ash", replace(KEY_ANSWER, span=Span(7, 8)), "what was asked"),
    (Algorithm.SM_D2, "another span", "ash", replace(KEY_ANSWER, span=Span(TICK_MIN, 2)), "what was asked"),
    (Algorithm.SM_D2, "too few bits", "ash", replace(KEY_ANSWER, matches=b""), "a bit for each of 2 keys"),
    (Algorithm.SM_D2, "too many bits", "ash", replace(KEY_ANSWER, matches=b"\x80\x80"), "a bit for each of 2 keys"),
    (Algorithm.SM_D2, "no match", "ash", replace(KEY_ANSWER, matches=b"\x3f"), "only when a key matches"),
    (Algorithm.SM_D2, "a question without keys", "bow", replace(QUESTION, keys=b""), "keys to look for"),
    (Algorithm.SM_D2, "a null key", "bow", replace(QUESTION, keys=keys(1, None)), "none of them null"),
    (Algorithm.SM_D2, "keys that are no rows", "bow", replace(QUESTION, keys=b"junk"), "rows require columns"),
    (Algorithm.SM_D2, "times outside the span", "bow", replace(QUESTION, high_ts=10), "times within"),
    (Algorithm.SM_D2, "times the wrong way round", "bow", replace(QUESTION, low_ts=7, high_ts=6), "times in order"),
    (Algorithm.SM_S1, "no question", "ash", replace(TUPLE_ANSWER, span=Span(7, 8)), "what was asked"),
    (Algorithm.SM_S1, "another span", "ash", replace(TUPLE_ANSWER, span=Span(TICK_MIN, 2)), "what was asked"),
    (Algorithm.SM_S1, "junk for tuples", "ash", replace(TUPLE_ANSWER, rows=b"junk"), "rows require columns"),
    (
        Algorithm.SM_S1,
        "a tuple without position",
        "ash",
        replace(TUPLE_ANSWER, rows=tuples(TUPLES, (None, 1, 0))),
        "tuples with positions",
    ),
    (Algorithm.SM_S1, "bits for tuples", "ash", KEY_ANSWER, "a step that is done between us"),
    (Algorithm.SM_S1, "a carry", "bow", CARRY, "a step that is done between us"),
    (
        Algorithm.SM_S1,
        "a question for no copy",
        "bow",
        replace(ASK, copy=9),
        "a reduced copy of its own",
    ),
    (Algorithm.SM_S1, "a sync that is not needed", "ash", SYNC, "requires times, of a count window"),
    (Algorithm.SM_S1, "a fetch", "bow", Fetch(1, 0, ints(0)), "a fetch requires a mixed copy"),
    (Algorithm.SM_S2, "a fetch of nobody", "bow", Fetch(1, 1, ints(7)), "keys that it was told of"),
    (Algorithm.SM_S2, "an answer to no fetch", "ash", Fetched(1, b""), "a question before an answer"),
    (Algorithm.SM_S2, "a sync that goes back", "ash", replace(SYNC, frontier=TICK_MIN - 1), "requires a sync from"),
    (Algorithm.SM_S2, "tuples for what was not asked", "ash", TUPLE_ANSWER, "requires a reduced copy"),
    (Algorithm.SM_S2, "a question", "bow", ASK, "a step that is done between us"),
    (Algorithm.SM_D1, "a question", "bow", ASK, "a step that is done between us"),
    (Algorithm.SM_D1, "a fetch", "bow", Fetch(1, 0, ints(0)), "a fetch requires a mixed copy"),
    (Algorithm.SM_D1, "an answer to no fetch", "ash", Fetched(1, b""), "fetched tuples require a mixed copy"),
    (Algorithm.SM_D1, "a death of nobody", "ash", replace(SYNC, before=0, dead=ints(0)), "a count from 1 to 0; got 1"),
    (Algorithm.SM_D1, "tuples", "ash", replace(SYNC, rows=b"\x01"), "requires keys only"),
    (Algorithm.SP_S, "a sync of keys", "ash", replace(SYNC, born=b"\x01"), "a batch with tuples alone"),
    (Algorithm.SP_S, "a carry", "bow", CARRY, "a step that is done between us"),
    (Algorithm.SP_D, "an answer", "ash", KEY_ANSWER, "a step that is done between us"),
    (Algorithm.SP_D, "a carry without rows", "bow", replace(CARRY, rows=b""), "a carry with rows"),
    (
        Algorithm.SP_D,
        "a row without time",
        "bow",
        replace(CARRY, rows=tuples(A_SCHEMA, (None, 1, 0))),
        "an event time in every row",
    ),
    (Algorithm.SP_D, "a row of another time", "bow", replace(CARRY, rows=tuples(A_SCHEMA, (10, 1, 0))), "times within"),
]


@pytest.mark.parametrize("number", range(len(WRONG)), ids=lambda number: f"{WRONG[number][0]} {WRONG[number][1]}")
def test_a_wrong_message_ends_its_query_and_no_other(number: int) -> None:
    algorithm, _, receiver, message, text = WRONG[number]
    cluster = running(algorithm)
    # By another one, or it would use the same copies.
    cluster.issue("cam", Algorithm.SM_D2 if algorithm is Algorithm.SP_D else Algorithm.SP_D, "q2")
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


@pytest.mark.parametrize("message", STEP_MESSAGES, ids=lambda message: type(message).__name__)
@SIX
def test_a_message_for_a_step_that_is_not_here_is_refused(algorithm: Algorithm, message: Message) -> None:
    changes: list[dict[str, Any]] = [{"head": "x"}, {"step": 1}, {"step": -1}]
    for change in changes:
        for receiver, sender in (("ash", "bow"), ("bow", "ash")):
            cluster = asked(algorithm)
            if isinstance(message, TupleAnswer) and algorithm is not Algorithm.SM_S1:
                continue  # its tuples are for a copy that is not here, or not such a one
            cluster.say(sender, receiver, replace(message, **change))
            assert [peer for peer, _ in cluster.blamed] == [sender]


@pytest.mark.parametrize("message", COPY_MESSAGES, ids=lambda message: type(message).__name__)
@SIX
def test_a_message_for_a_copy_that_is_not_here_does_no_harm(algorithm: Algorithm, message: Message) -> None:
    """It may have been closed while the message was under way; only a lease of what was never open is wrong."""
    for copy in (99, 0, -1):
        for receiver, sender in (("ash", "bow"), ("bow", "ash")):
            cluster = asked(algorithm)
            cluster.say(sender, receiver, replace(message, copy=copy))  # type: ignore[arg-type]
            if isinstance(message, LeaseCopy):
                assert [peer for peer, _ in cluster.blamed] == [sender]
                continue
            assert cluster.ignored[-1] is IgnoreReason.UNKNOWN_COPY
            cluster.settle()
            finish(cluster)


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


NUMBERS = st.sampled_from([-(2**63), TICK_MIN, -1, 0, 1, 2, 5, 7, 2**62, 2**63 - 1])
BYTES = st.one_of(st.binary(max_size=12), st.lists(st.integers(-3, 9), max_size=4).map(lambda v: ints(*v)))


@SIX
@given(st.data())
@examples(100)
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
    shipments = AskMatches | KeyAnswer | TupleAnswer | Carry | Sync | Fetch | Fetched
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
