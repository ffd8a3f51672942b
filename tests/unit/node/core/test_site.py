"""A site among sites: what each message, failure and end does, told step by step."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from node.core.effects import IgnoreReason, QueryState, ReadSource, RunOp, Send, StoreRows
from node.core.encoding.rows import encode_rows
from node.core.engine import TS, Expire
from node.core.events import (
    BatchLogged,
    DropRequested,
    EngineFailed,
    MessageReceived,
    PeerGreeted,
    PeerStateLost,
    QueryIssued,
    RowsArrived,
    RowsStored,
    SourceFailed,
    StoreFailed,
)
from node.core.limits import Limits
from node.core.links.messages import (
    FIRST_GENERATION,
    AskMatches,
    Carry,
    CloseCopy,
    Done,
    Drop,
    Failed,
    Fetch,
    Fetched,
    KeyAnswer,
    LeaseCopy,
    Lost,
    Message,
    OpenCopy,
    Prepare,
    Prepared,
    Refused,
    Rows,
    Start,
    Sync,
    TupleAnswer,
)
from node.core.queries.shape import shape_of
from node.core.site import Site
from node.core.status import CopyStatus
from node.core.streams.stream import LocalStream
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from planner.model.plans import forced_plan
from planner.model.query import Algorithm, Sequence, Step
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.unit.sites import QUERY, SCHEMA, TAU_MS, Cluster, info, rows_of

BOTH = pytest.mark.parametrize("algorithm", list(Algorithm))


def running(
    algorithm: Algorithm = Algorithm.SP_D,
    sink: str = "cam",
    limits: Limits | None = None,
    units: tuple[TimeUnit, TimeUnit] = (TimeUnit.MS, TimeUnit.MS),
) -> Cluster:
    """A cluster with query q1 started everywhere and nothing read yet."""
    cluster = Cluster(limits, units=units)
    cluster.issue(sink, algorithm)
    cluster.settle()
    assert cluster.states == [("q1", QueryState.RUNNING, "")]
    assert sorted(cluster.reads) == ["l", "r"]
    return cluster


def carry_rows(alias: str, *ts: int) -> bytes:
    schema = pa.schema([(TS, pa.int64()), (f"{alias}.key", pa.int64()), (f"{alias}.n", pa.int64())])
    rows = pa.RecordBatch.from_arrays([pa.array(list(ts), pa.int64()) for _ in schema], schema=schema)
    return encode_rows(rows)


# -- a whole life -----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("sink", ["ash", "bow", "cam"])
def test_a_query_delivers_what_the_oracle_says_and_leaves_nothing_behind(algorithm: Algorithm, sink: str) -> None:
    cluster = running(algorithm, sink)
    cluster.arrive("l", 0, 5, 5, 12)
    cluster.arrive("r", 5, 11)
    cluster.settle()
    cluster.arrive("l", 40, 41, ended=True)
    cluster.settle()
    cluster.arrive("r", 35, 70, 71, ended=True)
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results() == cluster.oracle() != []
    assert cluster.holds_nothing()
    assert cluster.blamed == []


@BOTH
def test_both_streams_at_one_site_need_no_message(algorithm: Algorithm) -> None:
    cluster = Cluster(left="ash", right="ash")
    cluster.issue("ash", algorithm)
    cluster.arrive("l", 1, 11)
    cluster.arrive("r", 1, 12, ended=True)
    cluster.arrive("l", 13, ended=True)
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results() == cluster.oracle()
    assert not [effect for _, effect in cluster.effects if isinstance(effect, Send)]


def test_nothing_is_read_before_every_site_is_ready() -> None:
    cluster = Cluster()
    cluster.issue("cam")
    cluster.deliver("cam", "ash")
    cluster.deliver("ash", "cam")
    assert cluster.reads == {}
    assert cluster.sites["cam"].homes["q1"].waiting_for == ("bow",)
    cluster.settle()
    assert sorted(cluster.reads) == ["l", "r"]


def test_replays_are_aligned_by_the_earliest_first_tuple() -> None:
    cluster = Cluster()
    for name, first_ts in (("l", 7_000), ("r", 5_000)):
        stream = cluster.infos[name]
        own = [LocalStream(stream, first_ts=first_ts)]
        cluster.sites[stream.site] = Site(stream.site, TAU_MS, own, Limits())
    cluster.issue("cam")
    cluster.settle()
    assert cluster.reads == {"l": 5_000, "r": 5_000}  # milliseconds


def test_walks_wait_for_the_other_window_and_no_longer() -> None:
    #  tau 10        tick 0      |1       |2
    #  l                 4       |        |25  -> batch [.., 2) has 4
    #  r                     8   |12           -> sealed through tick 0: covers 4
    cluster = running(Algorithm.SP_D)
    cluster.arrive("l", 4, 25)
    cluster.deliver("ash", "bow")  # the walk of 4 comes to bow, which has sealed nothing
    assert not cluster.answers["bow"]
    cluster.arrive("r", 8)  # seals what is before tick 0 only
    assert not cluster.answers["bow"]
    cluster.arrive("r", 12)
    assert len(cluster.answers["bow"]) == 1


# -- the start --------------------------------------------------------------------------------


@BOTH
def test_tuples_that_overtake_the_start_wait_for_it(algorithm: Algorithm) -> None:
    #  cam -- Start --> ash -- OpenCopy, Carry, AskMatches --> bow
    #  cam -- Start --------------- slow --------------------> bow
    cluster = Cluster()
    cluster.issue("cam", algorithm)
    for site in ("ash", "bow"):
        cluster.deliver("cam", site)
        cluster.deliver(site, "cam")
    assert isinstance(cluster.deliver("cam", "ash"), Start)
    cluster.deliver("cam", "ash")  # Done: where it begins
    cluster.arrive("l", 1, 2, 25)
    cluster.arrive("l", 47)
    assert cluster.mail["ash", "bow"]
    while cluster.mail["ash", "bow"]:
        assert isinstance(cluster.deliver("ash", "bow"), OpenCopy | Carry | AskMatches)
    assert not cluster.sites["bow"].runs["q1"].started
    assert cluster.ignored == []
    cluster.settle()
    cluster.arrive("r", 3, 26, ended=True)
    cluster.arrive("l", ended=True)
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results() == cluster.oracle() != []


def test_a_wrong_message_that_came_before_the_start_is_blamed_on_who_sent_it() -> None:
    cluster = Cluster()
    cluster.issue("cam")
    cluster.deliver("cam", "bow")
    cluster.say("ash", "bow", Carry("q1", "a", SPAN, 0, 0, b""))
    assert cluster.blamed == []
    cluster.settle()
    assert [peer for peer, _ in cluster.blamed] == ["ash"]
    assert cluster.reason.startswith("site ash broke the protocol: ")
    assert cluster.holds_nothing()


def test_a_site_with_another_schema_refuses_and_nobody_starts() -> None:
    cluster = Cluster()
    stale = info("r", "bow", schema=pa.schema([*SCHEMA, ("extra", pa.string())]))
    cluster.give("cam", PeerGreeted("bow", (stale,)))
    cluster.issue("cam")
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert cluster.reason == (
        "site bow refused: stream r requires the same columns at both sites; "
        "got ['ts', 'key', 'n'] with event time ts here"
    )
    assert cluster.reads == {}
    assert cluster.holds_nothing()


@pytest.mark.parametrize(
    "stale",
    [info("r", "bow", TimeUnit.NS), replace(info("r", "bow"), ts="n"), info("r", "bow", schema=SCHEMA.remove(2))],
    ids=["unit", "event time", "fewer columns"],
)
def test_any_difference_in_a_stream_is_a_reason_to_refuse(stale: object) -> None:
    cluster = Cluster()
    prepare = prepare_of(cluster)
    streams = (cluster.infos["l"], stale)
    cluster.say("cam", "bow", replace(prepare, streams=streams))  # type: ignore[arg-type]
    (answer,) = cluster.mail["bow", "cam"]
    assert isinstance(answer, Refused)
    assert cluster.holds_nothing()


def test_a_stream_that_is_gone_is_refused() -> None:
    cluster = Cluster()
    cluster.sites["bow"] = Site("bow", TAU_MS, [], Limits())
    cluster.issue("cam")
    cluster.settle()
    assert cluster.reason == (
        "site bow refused: stream r requires the same columns at both sites; got no such stream here"
    )


def test_a_stream_that_failed_is_refused_with_its_reason() -> None:
    cluster = running()
    cluster.give("bow", SourceFailed("r", "disk on fire"))
    cluster.settle()
    cluster.issue("cam", query_id="q2")
    cluster.settle()
    assert cluster.states[-1] == (
        "q2",
        QueryState.FAILED,
        "site bow refused: stream r cannot be read: disk on fire",
    )
    assert cluster.holds_nothing()


def test_an_answer_that_comes_after_a_refusal_is_ignored() -> None:
    cluster = Cluster()
    cluster.sites["bow"] = Site("bow", TAU_MS, [], Limits())
    cluster.issue("cam")
    cluster.deliver("cam", "ash")
    cluster.deliver("cam", "bow")
    cluster.deliver("bow", "cam")  # refused
    cluster.deliver("ash", "cam")  # prepared, too late
    assert cluster.ignored == [IgnoreReason.QUERY_ENDED]
    cluster.settle()
    assert cluster.holds_nothing()


def test_nothing_is_done_before_it_is_stored() -> None:
    cluster = running()
    rows = pa.RecordBatch.from_pydict({"an": [1], "bn": [2]})
    taken = cluster.sites["cam"].handle(
        [MessageReceived("bow", Rows("q1", "a", Span(TICK_MIN, 3), 0, encode_rows(rows)))], 5
    )
    (store,) = taken
    assert isinstance(store, StoreRows)
    stored = cluster.sites["cam"].handle([RowsStored("q1", "a", store.span)], 6)
    done = Done("q1", (("a", 3), ("b", TICK_MIN)))
    assert [(send.peer, send.message) for send in stored if isinstance(send, Send)] == [("ash", done), ("bow", done)]


def test_a_table_keeps_what_the_slowest_of_the_other_heads_can_see() -> None:
    #  heads done up to   a 9   b 2   c 5      windows of 30, tau 10
    #  table of a: b and c still look back from 20: from -10 on is kept
    #  rows at   -20 -10 0 10 .. 90,  numbered from 0
    infos = {name: info(name, "ash") for name in "lrs"}
    site = Site("ash", TAU_MS, [LocalStream(stream) for stream in infos.values()], Limits())
    text = (
        "SELECT a.n AS an FROM l [RANGE 30 MS] AS a JOIN r [RANGE 30 MS] AS b ON a.key = b.key "
        "JOIN s [RANGE 30 MS] AS c ON b.key = c.key"
    )
    plan = forced_plan(parse_query(text, infos), "cam", Algorithm.SP_D)
    rows = rows_of(range(-20, 100, 10))
    arrived = [RowsArrived(name, rows, rows.column("ts"), 100, False) for name in infos]
    said: list[Message] = [
        Prepare("q1", text, "cam", plan.sequences, tuple(infos.values())),
        Start("q1", TICK_MIN, None),
        Done("q1", (("a", 9), ("b", 2), ("c", 5))),
    ]
    effects = site.handle([MessageReceived("cam", message) for message in said], 0)
    assert not [effect for effect in effects if isinstance(effect, RunOp) and isinstance(effect.op, Expire)]
    site.handle(arrived, 1)
    effects = site.handle([BatchLogged(name, 10) for name in infos], 2)
    ops = [effect.op for effect in effects if isinstance(effect, RunOp)]
    expired = {op.table.partition("/")[0]: op.before for op in ops if isinstance(op, Expire)}
    assert expired == {"l": 1, "r": 4, "s": 1}


def test_ties_belong_to_the_head_that_stands_later_in_the_query() -> None:
    # What a result is, docs/sql.md: at equal times the stream named first is before; so only b's walk sees ties.
    steps = shape_of(Cluster().plan("cam")).steps
    assert {head: step.include_ties for head, (step,) in steps.items()} == {"a": False, "b": True}


# -- what is ignored --------------------------------------------------------------------------

SPAN = Span(TICK_MIN, 3)


@pytest.mark.parametrize(
    "message",
    [
        Start("zz", 0, None),
        Carry("zz", "a", SPAN, 0, 0, b""),
        AskMatches("zz", "a", SPAN, 0, 0, 0, 0, 0, b""),
        KeyAnswer("zz", "a", SPAN, 0, b""),
        Rows("zz", "a", SPAN, 0, b""),
        Done("zz", ()),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_of_an_unknown_query_is_counted_and_does_nothing(message: Message) -> None:
    cluster = running()
    before = len(cluster.effects)
    cluster.say("ash", "cam", message)
    cluster.say("ash", "bow", message)
    assert cluster.ignored == [IgnoreReason.UNKNOWN_QUERY] * 2
    assert len(cluster.effects) == before + 2


def sync(copy: int, frontier: int, rows: bytes = b"", dead: bytes = b"") -> Sync:
    return Sync(copy, frontier, 0, 0, b"", b"", dead, rows)


@pytest.mark.parametrize(
    "message",
    [sync(9, 3), Fetch(9, 0, b""), Fetched(9, b""), CloseCopy(9), TupleAnswer("q1", "a", SPAN, 0, 9, b"")],
    ids=lambda message: type(message).__name__,
)
def test_a_message_of_an_unknown_copy_is_counted_and_does_nothing(message: Message) -> None:
    cluster = running(Algorithm.SM_S1)
    before = len(cluster.effects)
    cluster.say("ash", "bow", message)
    assert cluster.ignored == [IgnoreReason.UNKNOWN_COPY]
    assert len(cluster.effects) == before + 1


@pytest.mark.parametrize("message", [Drop("zz"), Failed("zz", "x"), Refused("zz", "x")])
def test_the_end_of_an_unknown_query_is_counted_and_changes_nothing(message: Message) -> None:
    cluster = running()
    before = len(cluster.effects)
    cluster.say("ash", "cam", message)
    assert cluster.ignored == [IgnoreReason.UNKNOWN_QUERY]
    assert len(cluster.effects) == before + 1


STRANGE = [
    Drop("q1"),
    Done("q1", (("a", 99), ("b", 99))),
    Start("q1", 0, None),
    Failed("q1", "x"),
    Refused("q1", "x"),
    Rows("q1", "a", SPAN, 0, b""),
    Carry("q1", "a", SPAN, 0, 0, b""),
]


@pytest.mark.parametrize("message", STRANGE, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("site", ["ash", "bow", "cam"])
def test_a_site_that_takes_no_part_in_a_query_cannot_change_it(site: str, message: Message) -> None:
    cluster = running(Algorithm.SP_D)
    cluster.say("dew", site, message)
    assert cluster.state is QueryState.RUNNING
    assert all("q1" in at.runs for at in cluster.sites.values())


def test_a_walk_that_comes_twice_is_stored_once_and_counted() -> None:
    cluster = running()
    rows = pa.RecordBatch.from_pydict({"an": [1], "bn": [2]})
    message = Rows("q1", "a", SPAN, 0, encode_rows(rows))
    cluster.say("bow", "cam", message)
    cluster.say("bow", "cam", message)
    assert cluster.results() == [(1, 2)]
    assert cluster.ignored == [IgnoreReason.DUPLICATE_WALK]


# -- what ends a query ------------------------------------------------------------------------


WRONG: dict[str, tuple[str, str, Message, str]] = {
    "a batch that goes back": ("ash", "bow", sync(1, TICK_MIN), "requires a batch with tuples alone, beyond tick"),
    "a batch that is no rows": ("ash", "bow", sync(1, 3, b"junk"), r"rows require columns \['__ts'"),
    "a batch with keys that die": ("ash", "bow", sync(1, 3, dead=b"x"), "requires a batch with tuples alone"),
    "fetched tuples for a full copy": ("ash", "bow", Fetched(1, b""), "fetched tuples require a mixed copy; got 1"),
    "tuples of an answer for a full copy": (
        "ash",
        "bow",
        TupleAnswer("q1", "a", SPAN, 0, 1, b""),
        "an answer with tuples requires a reduced copy; got 1",
    ),
    "a fetch from a full copy": ("bow", "ash", Fetch(1, 0, b""), "a fetch requires a mixed copy; got 1 of bow"),
    "a lease of a copy that is not open": ("bow", "ash", LeaseCopy("q1", 9, 0), "requires a copy that is open; got 9"),
    "a step that is done elsewhere": (
        "bow",
        "ash",
        Carry("q1", "a", SPAN, 7, 0, carry_rows("a", 1)),
        "requires a step that is done between us; got Carry for 'a' step 7",
    ),
    "a walk of no head": (
        "bow",
        "ash",
        Carry("q1", "x", SPAN, 0, 0, carry_rows("x", 1)),
        "requires a step that is done between us; got Carry for 'x' step 0",
    ),
    "results of no head": ("ash", "cam", Rows("q1", "x", SPAN, 0, b""), "requires rows of its heads; got 'x' from ash"),
    "results that are no rows": ("ash", "cam", Rows("q1", "a", SPAN, 0, b"junk"), "rows require columns"),
    "results at a site that is no sink": ("bow", "ash", Rows("q1", "a", SPAN, 0, b""), "at its sink; got 'a'"),
    "done going back": ("cam", "ash", Done("q1", (("a", TICK_END), ("a", 3))), "requires done frontiers that rise"),
    "done of no head": ("cam", "ash", Done("q1", (("x", 3),)), "requires done frontiers of heads; got x=3"),
    "the end of no head": ("cam", "ash", Done("q1", (("x", TICK_END),)), "requires done frontiers of heads; got x="),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_a_wrong_message_ends_its_query_and_names_the_peer(wrong: str) -> None:
    sender, receiver, message, text = WRONG[wrong]
    cluster = running(Algorithm.SP_S)
    cluster.say(sender, receiver, message)
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert cluster.reason.startswith(f"site {sender} broke the protocol: ")
    ((blamed, reason),) = cluster.blamed
    assert blamed == sender
    assert reason in cluster.reason
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(reason)
    assert cluster.holds_nothing()


def test_a_carry_without_rows_is_wrong() -> None:
    cluster = running(Algorithm.SP_D)
    cluster.say("ash", "bow", Carry("q1", "a", SPAN, 0, 0, b""))
    cluster.settle()
    assert "site ash broke the protocol: query q1 requires a carry with rows; got none from 'a'" in cluster.reason


def test_walks_that_overlap_are_wrong() -> None:
    cluster = running()
    cluster.say("ash", "cam", Rows("q1", "a", Span(0, 5), 0, b""))
    cluster.say("ash", "cam", Rows("q1", "a", Span(4, 6), 0, b""))
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert "site ash broke the protocol: head a requires walks that do not overlap" in cluster.reason


def test_a_query_id_that_is_taken_is_wrong() -> None:
    cluster = running()
    cluster.say("cam", "bow", prepare_of(cluster))
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    required = "site bow requires new queries, or new generations; got q1 again, generation 0"
    assert f"site cam broke the protocol: {required}" in cluster.reason


def test_a_wrong_message_of_one_query_leaves_the_others_alone() -> None:
    cluster = running()
    cluster.issue("cam", query_id="q2")
    cluster.settle()
    cluster.say("ash", "cam", Rows("q2", "x", SPAN, 0, b""))
    cluster.settle()
    assert cluster.states[-1][:2] == ("q2", QueryState.FAILED)
    for stream in ("l", "r"):
        cluster.arrive(stream, 1, 2, ended=True)
    cluster.settle()
    assert cluster.states[-1] == ("q1", QueryState.COMPLETED, "")
    assert cluster.results() == cluster.oracle()


def test_a_peer_that_lost_its_state_has_the_queries_it_took_part_in_begin_again() -> None:
    cluster = running()
    cluster.arrive("l", 1, 2, 30)
    cluster.give("cam", PeerStateLost("ash", "the daemon was restarted"))
    assert cluster.states[-1] == ("q1", QueryState.RECOVERING, "site ash: the daemon was restarted")
    cluster.settle()
    assert cluster.states[-1] == ("q1", QueryState.RUNNING, "")
    assert len({site.runs["q1"].generation for site in cluster.sites.values()}) == 1


def test_a_home_that_lost_its_state_leaves_nothing_at_the_others() -> None:
    cluster = running()
    for site in ("ash", "bow"):
        cluster.give(site, PeerStateLost("cam", "the daemon was restarted"))
        assert not cluster.sites[site].runs
        assert not cluster.open_tables[site]


def test_a_peer_that_takes_no_part_can_lose_its_state() -> None:
    cluster = running(sink="ash")
    cluster.give("ash", PeerStateLost("cam", "the daemon was restarted"))
    cluster.settle()
    assert cluster.state is QueryState.RUNNING


def test_a_third_site_that_cannot_read_what_a_peer_sent_tells_home_which_begins_again() -> None:
    # Only bow knows that a batch from ash is lost; home, cam, must hear of it, or it waits for ever.
    cluster = running(sink="cam")
    cluster.give("bow", PeerStateLost("ash", "sent what cannot be read: junk"))
    (lost,) = cluster.sent(Lost)
    assert lost == Lost("q1", FIRST_GENERATION, "site ash: sent what cannot be read: junk")
    assert "q1" not in cluster.sites["bow"].runs
    assert cluster.sites["bow"].pins == ("q1",)
    cluster.settle()
    assert [state for _, state, _ in cluster.states] == [QueryState.RUNNING, QueryState.RECOVERING, QueryState.RUNNING]
    assert {site.runs["q1"].generation for site in cluster.sites.values()} != {FIRST_GENERATION}


def test_a_source_that_fails_ends_its_queries_with_its_reason() -> None:
    cluster = running()
    cluster.give("ash", SourceFailed("l", "line 7 is not JSON"))
    cluster.settle()
    assert cluster.states[-1] == ("q1", QueryState.FAILED, "stream l at ash: line 7 is not JSON")
    assert cluster.sites["ash"].streams["l"].state == "failed"
    assert cluster.holds_nothing()


@pytest.mark.parametrize("site", ["ash", "bow"])
def test_an_engine_that_fails_on_a_table_ends_the_queries_that_use_it(site: str) -> None:
    cluster = running()
    (table,) = cluster.open_tables[site]
    cluster.give(site, EngineFailed(0, table, "out of memory"))
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert cluster.reason == f"at {site}: the engine failed: out of memory"
    assert cluster.holds_nothing()


def test_a_store_that_fails_ends_the_query() -> None:
    cluster = running()
    cluster.give("cam", StoreFailed("q1", "no space left"))
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert "no space left" in cluster.reason
    assert cluster.holds_nothing()


def test_a_failure_of_a_query_that_is_over_is_no_news() -> None:
    cluster = running()
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    reports = len(cluster.states)
    cluster.give("cam", StoreFailed("q1", "x"), EngineFailed(3, "l/1", "x"), DropRequested("q1"))
    cluster.settle()
    assert len(cluster.states) == reports


@BOTH
@pytest.mark.parametrize("progress", range(12))
def test_a_drop_while_walks_are_in_flight_leaves_nothing_behind(algorithm: Algorithm, progress: int) -> None:
    cluster = running(algorithm)
    cluster.arrive("l", 1, 2, 30)
    cluster.arrive("r", 3, 31, 95)
    for _ in range(progress):
        pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
        site = next((site for site, answers in cluster.answers.items() if answers), None)
        if pair is not None:
            cluster.deliver(*pair)
        elif site is not None:
            cluster.answer(site)
    cluster.give("cam", DropRequested("q1"))
    stored = len(cluster.stored["q1"])
    cluster.settle()
    assert cluster.states[-1] == ("q1", QueryState.DROPPED, "dropped by a user")
    assert cluster.holds_nothing()
    assert len(cluster.stored["q1"]) == stored
    assert cluster.blamed == []
    assert cluster.sites["ash"].streams["l"].state == "held"


def test_rows_stored_after_the_drop_change_nothing() -> None:
    cluster = running()
    cluster.give("cam", DropRequested("q1"))
    before = len(cluster.effects)
    cluster.give("cam", RowsStored("q1", "a", SPAN))
    cluster.give("cam", RowsStored("zz", "a", SPAN))
    assert len(cluster.effects) == before


# -- time that does not fit -------------------------------------------------------------------


@pytest.mark.parametrize("sink", ["ash", "cam"])
def test_a_time_too_large_for_the_finer_unit_of_the_other_stream_ends_the_query(sink: str) -> None:
    cluster = running(sink=sink, units=(TimeUnit.MS, TimeUnit.NS))
    cluster.arrive("l", 2**50, 2**50 + 100)
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert "stream l requires event times within 4611686018427 of zero" in cluster.reason
    assert cluster.holds_nothing()


@BOTH
def test_a_site_forgets_a_query_whose_time_did_not_fit_before_home_says_so(algorithm: Algorithm) -> None:
    # The batch that did not fit is in no window, so no later one may reach it while home's Drop is on its way.
    cluster = running(algorithm, sink="cam", units=(TimeUnit.MS, TimeUnit.NS))
    cluster.arrive("l", -(2**50))
    cluster.arrive("l", watermark=0)
    assert isinstance(cluster.mail["ash", "cam"][-1], Failed)
    assert not cluster.sites["ash"].runs
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert "stream l requires event times within 4611686018427 of zero" in cluster.reason
    assert cluster.blamed == []
    assert cluster.holds_nothing()


# -- a stream that is already running ---------------------------------------------------------


@pytest.mark.parametrize("sink", ["ash", "cam"])
def test_a_query_over_ended_streams_completes_with_no_rows(sink: str) -> None:
    cluster = running()
    for stream in ("l", "r"):
        cluster.arrive(stream, 1, ended=True)
    cluster.settle()
    cluster.issue(sink, query_id="q2")
    cluster.settle()
    nothing = (
        "a stream of the query had ended before it began, so there is nothing to join "
        "(query --from start begins with what is still in the logs of its streams)"
    )
    assert cluster.states[-1] == ("q2", QueryState.COMPLETED, nothing)
    assert cluster.results("q2") == []
    assert cluster.reads == {}
    assert cluster.holds_nothing()


@BOTH
def test_a_second_query_is_about_the_tuples_from_its_first_tick_on(algorithm: Algorithm) -> None:
    #  tick      0          |1        |2          |3
    #  l      1   5         |12       |21  24     |33        frontier when q2 comes: 2
    #  r      2             |11 14    |(22)       |31        frontier when q2 comes: 1
    #  q2                              from 20 on
    cluster = running(algorithm)
    cluster.arrive("l", 1, 5, 12, 21)
    cluster.arrive("r", 2, 11)
    cluster.settle()
    cluster.issue("bow", algorithm, "q2")
    cluster.arrive("r", 14, 22)  # while q2 is being prepared
    cluster.settle()
    assert cluster.states[-1] == ("q2", QueryState.RUNNING, "")
    cluster.arrive("l", 24, 33, ended=True)
    cluster.arrive("r", 31, ended=True)
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    assert cluster.results("q1") == cluster.oracle()
    assert cluster.results("q2") == cluster.oracle(from_ts=20) != []
    assert cluster.oracle() != cluster.oracle(from_ts=20)
    assert cluster.holds_nothing()


@BOTH
@pytest.mark.parametrize("delivered", range(7))
def test_what_is_sealed_while_a_query_is_being_prepared_is_not_lost(algorithm: Algorithm, delivered: int) -> None:
    cluster = running(algorithm)
    cluster.arrive("l", 1, 12)
    cluster.arrive("r", 1, 13)
    cluster.settle()
    plan = cluster.issue("cam", algorithm, "q2")
    for _ in range(delivered):
        pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
        if pair is not None:
            cluster.deliver(*pair)
    cluster.arrive("l", 15, 24)
    cluster.arrive("r", 16, 25, 38)
    cluster.settle()
    start = cluster.sites["cam"].homes["q2"].sink
    assert start is not None
    cluster.arrive("l", 31, ended=True)
    cluster.arrive("r", ended=True)
    cluster.settle()
    starts = [
        effect.message.tick
        for _, effect in cluster.effects
        if isinstance(effect, Send) and isinstance(effect.message, Start) and effect.message.query_id == "q2"
    ]
    assert len(set(starts)) == 1
    assert plan.sites == ("ash", "bow", "cam")
    assert cluster.results("q2") == cluster.oracle(from_ts=starts[0] * TAU_MS)


# -- memory -----------------------------------------------------------------------------------


def read_until_paused(cluster: Cluster, stream: str) -> int:
    """Let a source answer, a tick at a time, until it is not asked any more."""
    for tick in range(1, 10):
        cluster.arrive(stream, tick * TAU_MS)
        cluster.settle()
        if stream not in cluster.reads:
            return tick * TAU_MS
    raise AssertionError(f"{stream} is read without end")


@pytest.mark.parametrize("limits", [Limits(ahead_batches_max=2), Limits(ahead_bytes_max=40)], ids=["batches", "bytes"])
def test_a_source_is_not_read_further_while_nothing_is_done_and_goes_on_when_it_is(limits: Limits) -> None:
    cluster = running(limits=limits)
    ts = read_until_paused(cluster, "l")
    assert cluster.sites["ash"].streams["l"].state == "paused"  # r has sealed nothing, so no walk of l is done
    cluster.arrive("r", ts + TAU_MS)
    cluster.settle()
    assert "l" in cluster.reads
    assert cluster.sites["ash"].streams["l"].state == "reading"


def test_the_slowest_query_holds_the_stream_for_all() -> None:
    cluster = running(limits=Limits(ahead_batches_max=2))
    cluster.issue("bow", query_id="q2")
    cluster.settle()
    read_until_paused(cluster, "l")
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    assert "l" not in cluster.reads
    cluster.give("bow", DropRequested("q2"))
    cluster.settle()
    assert cluster.sites["ash"].streams["l"].state == "held"


def test_windows_forget_what_no_open_head_can_see() -> None:
    #  window 30, tau 10; both heads done up to tick 9: from 90 - 30 = 60 on is kept from the next batch on
    cluster = running(Algorithm.SP_D)
    for ts in range(0, 100, 10):
        cluster.arrive("l", ts)
        cluster.arrive("r", ts)
        cluster.settle()
    assert cluster.sites["cam"].homes["q1"].sink is not None
    for stream in ("l", "r"):
        cluster.arrive(stream, 100)
    for site in ("ash", "bow"):
        assert cluster.ops(Expire, site)[-1].before == 6  # the row of 60


def test_a_probe_that_the_engine_never_answers_is_not_remembered_for_ever() -> None:
    cluster = running()
    cluster.arrive("l", 1, 30)
    cluster.arrive("r", 2, 31)
    cluster.settle_mail()
    assert cluster.answers["bow"]
    cluster.answers.clear()
    cluster.give("bow", EngineFailed(next(iter(cluster.sites["bow"].asking)), "r/1", "gone"))
    cluster.settle()
    assert cluster.reason == "at bow: the engine failed: gone"
    assert cluster.holds_nothing()


# -- what a bad home could ask ----------------------------------------------------------------


def prepare_of(cluster: Cluster, query_id: str = "q1") -> Prepare:
    plan = cluster.plan("cam")
    return Prepare(query_id, QUERY, "cam", plan.sequences, tuple(cluster.infos.values()))


A, B = Step("a", Algorithm.SP_D), Step("b", Algorithm.SP_D)


NONSENSE: dict[str, dict[str, object]] = {
    "no query": {"text": "SELECT"},
    "no streams": {"streams": ()},
    "no sequences": {"sequences": ()},
    "a head without sequence": {"sequences": (Sequence("a", (B,)),)},
    "sequences without steps": {"sequences": (Sequence("a", ()), Sequence("b", ()))},
    "a step twice": {"sequences": (Sequence("a", (B, B)), Sequence("b", (A,)))},
    "a step to itself": {"sequences": (Sequence("a", (A,)), Sequence("b", (A,)))},
    "a step to nowhere": {"sequences": (Sequence("a", (Step("x", Algorithm.SP_D),)), Sequence("b", (A,)))},
    "a head that is none": {"sequences": (Sequence("a", (B,)), Sequence("b", (A,)), Sequence("x", (A,)))},
    "a sink that is no site": {"sink": "nowhere"},
    "ourselves as the sink": {"sink": "bow"},
    "a third site as the sink": {"sink": "ash"},
}


@pytest.mark.parametrize("nonsense", list(NONSENSE))
def test_a_plan_that_makes_no_sense_is_refused(nonsense: str) -> None:
    cluster = Cluster()
    cluster.say("cam", "bow", replace(prepare_of(cluster, "q9"), **NONSENSE[nonsense]))  # type: ignore[arg-type]
    answers = list(cluster.mail["bow", "cam"])
    assert [type(answer) for answer in answers] == [Refused] or cluster.blamed
    assert cluster.holds_nothing()


def test_a_second_start_is_wrong() -> None:
    cluster = running()
    cluster.arrive("l", 1, 12)
    cluster.say("cam", "ash", Start("q1", 5, None))
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert "site cam broke the protocol" in cluster.reason


def test_a_carry_without_event_times_is_wrong() -> None:
    cluster = running(Algorithm.SP_D)
    schema = pa.schema([(TS, pa.int64()), ("a.key", pa.int64()), ("a.n", pa.int64())])
    rows = pa.RecordBatch.from_pylist([{TS: None, "a.key": 1, "a.n": 1}], schema=schema)
    cluster.say("ash", "bow", Carry("q1", "a", SPAN, 0, 0, encode_rows(rows)))
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert "site ash broke the protocol" in cluster.reason


@pytest.mark.parametrize("ts", [(5, 4), (100,)], ids=["going back", "outside its span"])
def test_a_batch_whose_rows_are_not_those_of_its_span_is_wrong(ts: tuple[int, ...]) -> None:
    cluster = running(Algorithm.SP_S)
    schema = pa.schema([(TS, pa.int64()), ("key", pa.int64()), ("n", pa.int64())])
    rows = pa.RecordBatch.from_arrays([pa.array(list(ts), pa.int64()) for _ in schema], schema=schema)
    cluster.say("ash", "bow", sync(1, 3, encode_rows(rows)))
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert "site ash broke the protocol" in cluster.reason


# -- counts -----------------------------------------------------------------------------------


def test_what_a_query_saw_is_counted_and_kept_after_its_end() -> None:
    cluster = running(sink="cam")
    for stream, ts in (("l", (1, 2, 3)), ("r", (1,))):
        cluster.arrive(stream, *ts, ended=True)
    (before,) = cluster.sites["ash"].view_counts()
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    (after,) = cluster.sites["ash"].view_counts()
    assert after == before
    assert (after.query_id, after.alias, after.rows) == ("q1", "a", 3)
    assert after.ship_all_bytes > 0
    assert cluster.sites["cam"].view_counts() == []


def test_both_halves_of_a_copy_are_shown_and_kept_after_the_end() -> None:
    cluster = running(Algorithm.SM_S2)
    cluster.arrive("r", 1, 2)
    cluster.arrive("l", 3)
    for stream in ("l", "r"):
        cluster.settle()
        halves = {
            site: {(half.alias, half.role, half.peer) for half in _halves(cluster, site)} for site in cluster.sites
        }
        assert halves == {
            "ash": {("a", "owner", "bow"), ("b", "holder", "bow")},
            "bow": {("b", "owner", "ash"), ("a", "holder", "ash")},
            "cam": set(),
        }
        cluster.arrive(stream, ended=True)
    cluster.settle()
    assert cluster.state is QueryState.COMPLETED
    for site in ("ash", "bow"):
        (half,) = [half for half in _halves(cluster, site) if half.alias == "b"]
        assert (half.query_id, half.kind, half.tuples) == ("q1", "mixed", 2)


def _halves(cluster: Cluster, site: str) -> list[CopyStatus]:
    return cluster.sites[site].copy_statuses()


def test_at_the_sink_shipping_everything_costs_nothing() -> None:
    cluster = running(sink="ash")
    cluster.arrive("l", 1, 2, ended=True)
    (count,) = cluster.sites["ash"].view_counts()
    assert (count.rows, count.ship_all_bytes) == (2, 0)


def test_rows_set_aside_are_reported_and_counted() -> None:
    cluster = running()
    cluster.arrive("l", 50, 5)
    (aside,) = cluster.aside
    assert (aside.stream, aside.reason, aside.rows.num_rows) == ("l", "late", 1)
    stream = cluster.sites["ash"].streams["l"]
    assert (stream.rows_arrived, stream.rows_aside) == (2, 1)


def test_the_catalogue_has_own_and_peers_streams() -> None:
    cluster = Cluster()
    for site in cluster.sites.values():
        assert dict(site.catalogue) == cluster.infos


def test_events_of_one_turn_share_one_done_message() -> None:
    site = Site("ash", TAU_MS, [LocalStream(info("l", "ash")), LocalStream(info("r", "ash"))], Limits())
    cluster = Cluster()
    cluster.infos = {"l": info("l", "ash"), "r": info("r", "ash")}
    cluster.sites = {"ash": site}
    plan = cluster.plan("ash")
    remote = replace(plan, sink="ash")
    site.handle([QueryIssued("q1", remote)], 0)
    rows = rows_of([])
    site.handle([RowsArrived(name, rows, rows.column("ts"), None, True) for name in ("l", "r")], 1)
    effects = site.handle([BatchLogged(name, TICK_END) for name in ("l", "r")], 2)
    assert site.homes["q1"].state is QueryState.COMPLETED
    assert not [effect for effect in effects if isinstance(effect, ReadSource)]
    assert {type(effect) for effect in effects if isinstance(effect, RunOp | Send)} == {RunOp}


def test_a_site_hears_about_its_own_query_like_any_other() -> None:
    cluster = running(sink="ash")
    assert cluster.sites["ash"].homes["q1"].state is QueryState.RUNNING
    assert cluster.sites["ash"].runs["q1"].started
    cluster.give("ash", MessageReceived("bow", Failed("q1", "bow is tired")))
    cluster.settle()
    assert cluster.states[-1] == ("q1", QueryState.FAILED, "bow is tired")
    assert cluster.holds_nothing()


def test_an_answer_to_prepare_counts_once_for_each_site() -> None:
    cluster = Cluster()
    cluster.issue("cam")
    for _ in range(3):
        cluster.say("ash", "cam", Prepared("q1", TICK_MIN, None))
    assert cluster.sites["cam"].homes["q1"].waiting_for == ("bow",)


def test_a_query_that_never_starts_does_not_pile_up_the_batches_of_a_running_stream() -> None:
    cluster = running(limits=Limits(ahead_batches_max=3))
    plan = cluster.plan("bow")
    cluster.say("bow", "ash", Prepare("q9", QUERY, "bow", plan.sequences, tuple(cluster.infos.values())))
    for ts in range(0, 200, 10):
        for stream in ("r", "l"):
            if stream in cluster.reads:
                cluster.arrive(stream, ts)
                cluster.settle()
    assert "l" not in cluster.reads
    assert cluster.sites["ash"].runs["q9"].early_batches == 4  # one more was read while the third was being logged
    cluster.say("bow", "ash", Drop("q9"))
    assert "l" in cluster.reads


@BOTH
def test_a_shipment_that_no_link_takes_fails_the_query_and_says_what_helps(algorithm: Algorithm) -> None:
    cluster = running(algorithm, limits=Limits(shipment_bytes_max=3))
    cluster.arrive("l", 1, 30)
    cluster.settle()
    assert cluster.state is QueryState.FAILED
    assert "requires at most 3 bytes" in cluster.reason
    assert "a smaller tau or window" in cluster.reason
    assert cluster.holds_nothing()
