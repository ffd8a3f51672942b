"""What a daemon says about itself: since when links are down, what waits for whom, and which links a plan uses."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pyarrow as pa
import pytest

from node.codec import Shipment
from node.core.effects import QueryState, StoreRows
from node.core.events import DropRequested
from node.core.limits import Limits
from node.core.links.link_frames import Kind
from node.core.links.link_states import LinkState
from node.core.status import CopyRole
from node.core.streams.stream import LocalStream
from node.core.streams.ticks import TICK_MIN, Span
from node.io.planning.outcome import Planned
from node.io.reports import status_report
from node.io.reports.engine_report import EngineReport
from node.io.reports.ledger import LinkLedger
from node.io.reports.status_report import StatusReport
from node.io.reports.walk_report import walk_rows
from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.transport import _cause
from node.rpc import control_pb2 as pb
from node.stack import ConnectionClosed, ConnectionOpened, FrameArrived, SendFrame, Stack
from planner.model.plans import forced_plan, links_of, ship_all_plan
from planner.model.query import Algorithm
from planner.sql.parser import parse_query
from spark_jobs.engine.meter import MeasuredSpark
from spark_jobs.process import SparkError, SparkProcess, SparkSettings
from tests.unit.files import AtOnce
from tests.unit.sites import QUERY, Cluster, info

ROWS = pa.RecordBatch.from_pydict({"n": list(range(100))})


class Daemon:
    """A real stack, real queries and their spool; time passes when the test says so."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(status_report, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        stream = LocalStream(info("l", "ash"))
        self.stack = Stack("c", "ash", ["bow"], 100, 1, [stream], Limits())
        self.peer = Stack("c", "bow", ["ash"], 100, 2, [], Limits())
        self.queries = Queries("ash", folder, AtOnce())
        clock = SimpleNamespace(now_us=lambda: self.now_us)
        self.runner = SimpleNamespace(
            stack=self.stack,
            clock=clock,
            core_seconds=0.0,
            ignored={},
            aside_files={"l": Path("f")},
            disk_trouble="",
        )
        transport = SimpleNamespace(trouble={}, ledgers={"bow": LinkLedger()})
        parts = [self.runner, transport, SimpleNamespace(busy_seconds=0.0), None, self.queries, EngineReport]
        self.report = StatusReport(*cast("list[Any]", parts))

    @property
    def now_us(self) -> int:
        return round(self.now_s * 1e6)

    def later(self, seconds: int) -> None:
        """Time passes, and is noticed each second."""
        for _ in range(seconds):
            self.now_s += 1
            self.report.sample()

    def connect(self, number: int) -> None:
        """A connection that both ends have greeted on."""
        here = self.stack.handle([ConnectionOpened("bow", number)], self.now_us)
        there = self.peer.handle([ConnectionOpened("ash", number)], self.now_us)
        self.stack.handle([FrameArrived("bow", number, data) for data in shipments(there)], self.now_us)
        self.peer.handle([FrameArrived("ash", number, data) for data in shipments(here)], self.now_us)
        assert self.stack.links["bow"].state is LinkState.UP

    def lose(self, number: int) -> None:
        self.stack.handle([ConnectionClosed("bow", number, "cable cut")], self.now_us)

    @property
    def link(self) -> pb.LinkStatus:
        return self.report.reply(peak=1).links[0]

    def issued(self) -> IssuedQuery:
        query = self.queries.new(Planned(Cluster().plan("ash")))
        self.queries.report(query.query_id, QueryState.RUNNING, "")
        return query

    def store(self, query: IssuedQuery, tick: int) -> None:
        self.queries.store([StoreRows(query.query_id, "a", Span(tick, tick + 1), 0, ROWS)], lambda: 0, lambda _: None)


def shipments(outputs: list[Any]) -> list[Shipment]:
    return [output.shipment for output in outputs if isinstance(output, SendFrame)]


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    return Daemon(tmp_path, monkeypatch)


def test_a_link_says_since_when_it_is_down_also_if_it_was_up_between_two_looks(daemon: Daemon) -> None:
    daemon.connect(1)
    daemon.later(5)
    daemon.lose(1)
    daemon.later(4)
    assert (daemon.link.state, daemon.link.state_seconds, daemon.link.trouble) == ("down", 3, "cable cut")
    daemon.connect(2)
    daemon.lose(2)
    assert daemon.link.state_seconds == 0
    assert daemon.link.reconnects_lately == 2
    daemon.later(70)
    assert daemon.link.reconnects_lately == 0
    assert daemon.link.silent_seconds == 0


def test_a_link_says_how_long_the_oldest_message_waits_and_how_long_it_heard_nothing(daemon: Daemon) -> None:
    daemon.connect(1)
    daemon.later(2)
    assert daemon.link.behind_seconds == 0
    link = daemon.stack.links["bow"]
    frames = link.send(Kind.TUPLES, b"x" * 1_000).frames
    daemon.later(7)
    link.send(Kind.TUPLES, b"x" * 50)
    daemon.later(1)
    assert (daemon.link.behind_seconds, daemon.link.backlog_bytes, daemon.link.delivered_per_s) == (7, 1_050, 0)
    assert daemon.link.silent_seconds == 10
    answer = daemon.peer.links["ash"]
    for frame in frames:
        answer.received(frame, daemon.now_us)
    for frame in answer.tick(daemon.now_us + 10_000_000).frames:
        link.received(frame, daemon.now_us)
    assert (daemon.link.behind_seconds, daemon.link.backlog_bytes) == (0, 50)
    assert link.delivered_bytes == 1_000
    assert daemon.link.delivered_per_s > 100


def test_rows_wait_until_the_follower_has_read_them_kept_or_not(daemon: Daemon) -> None:
    query = daemon.issued()
    daemon.store(query, 1)
    daemon.later(3)
    daemon.store(query, 2)
    daemon.later(2)
    (row,) = daemon.report.reply(peak=1).queries
    assert (row.unread_rows, row.unread_seconds, row.followed) == (200, 4, False)
    assert row.unread_bytes == query.spool.nbytes
    query.readers["default"].attach("somebody", 0)
    query.readers["default"].seen = 100
    (row,) = daemon.report.reply(peak=1).queries
    assert (row.unread_rows, row.unread_seconds) == (100, 1)
    assert row.unread_bytes == query.spool.nbytes // 2
    assert row.read_per_s > 0
    query.readers["default"].place = 200
    query.forget_taken()
    (row,) = daemon.report.reply(peak=1).queries
    assert (row.unread_rows, row.unread_seconds, row.unread_bytes) == (0, 0, 0)


def test_every_reader_is_told_with_its_place_and_the_slowest_is_what_waits(daemon: Daemon) -> None:
    query = daemon.issued()
    daemon.store(query, 1)
    daemon.store(query, 2)
    query.begin_reader("other", 50)
    query.readers["default"].place = 200
    (row,) = daemon.report.reply(peak=1).queries
    assert [(reader.name, reader.taken, reader.lag_rows) for reader in row.readers] == [
        ("default", 200, 0),
        ("other", 50, 150),
    ]
    assert (row.unread_rows, row.readers[1].lag_bytes) == (150, query.spool.nbytes)


def test_ended_queries_are_told_if_they_failed_lately_or_have_rows_for_somebody(daemon: Daemon) -> None:
    left, taken, failed = daemon.issued(), daemon.issued(), daemon.issued()
    for query in (left, taken):
        daemon.store(query, 1)
        daemon.queries.report(query.query_id, QueryState.COMPLETED, "")
    taken.readers["default"].place = 100
    taken.forget_taken()
    daemon.queries.report(failed.query_id, QueryState.FAILED, "no more disk")
    daemon.later(2)
    reply = daemon.report.reply(peak=1)
    assert not reply.queries
    assert [(row.query_id, row.reason, row.unread_rows) for row in reply.ended] == [
        (left.query_id, "", 100),
        (failed.query_id, "no more disk", 0),
    ]
    daemon.later(700)
    assert [row.query_id for row in daemon.report.reply(peak=1).ended] == [left.query_id]


def test_spark_says_for_how_long_it_is_being_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = MeasuredSpark(SparkSettings("ash"), tmp_path)
    seen = []

    def restart(_: SparkProcess) -> None:
        seen.append(spark.report(None).restarting_seconds)
        raise SparkError("no Java any more")

    monkeypatch.setattr(SparkProcess, "restart", restart)
    with pytest.raises(SparkError):
        spark.restart()
    assert seen[0] > 0
    assert spark.report(None).restarting_seconds == 0


def test_a_connection_that_broke_while_it_was_written_to_is_said_to_be_lost() -> None:
    nothing = grpc.aio.Metadata()
    error = grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, nothing, nothing, "Internal error from Core")
    assert _cause(error) == "connection lost"
    error = grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, nothing, nothing, "no such method")
    assert _cause(error) == "internal: no such method"


def test_a_stream_says_since_when_it_stands_still(daemon: Daemon) -> None:
    daemon.later(6)
    (stream,) = daemon.report.reply(peak=1).streams
    assert (stream.idle_seconds, stream.still_seconds, stream.state_seconds) == (5, 5, 5)


def test_a_stream_says_why_its_tuples_took_no_part_and_where_they_are(daemon: Daemon) -> None:
    daemon.stack.site.streams["l"].aside.update({"late": 3, "no event time": 2})
    (stream,) = daemon.report.reply(peak=1).streams
    assert (stream.aside, dict(stream.aside_by_reason), stream.aside_file) == (5, {"late": 3, "no event time": 2}, "f")


def test_on_a_full_disk_streams_say_so(daemon: Daemon) -> None:
    daemon.runner.disk_trouble = "state/ash required room; got No space left on device"
    reply = daemon.report.reply(peak=1)
    assert reply.disk_trouble == daemon.runner.disk_trouble
    (stream,) = reply.streams
    assert (stream.state, stream.reason) == (
        "held",
        "the disk is full: state/ash required room; got No space left on device",
    )


def test_at_their_quota_logs_say_for_whom_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(limits=Limits(news_us=0, log_bytes_max=40))
    cluster.issue("cam")
    cluster.settle()
    for ts in range(0, 40, 10):
        cluster.arrive("l", ts)
    daemon = Daemon(tmp_path, monkeypatch)
    daemon.stack.site, daemon.stack.limits = cluster.sites["ash"], cluster.limits
    daemon.report._engine = cast("Any", SimpleNamespace(rows=lambda _: 0, nbytes=lambda _: 0))
    reply = daemon.report.reply(peak=1)
    (stream,) = reply.streams
    assert (stream.state, stream.reason) == ("paused", "the logs have reached log_quota")
    assert (reply.log_bytes, reply.log_quota_bytes) == (96, 40)
    assert reply.kept == [
        pb.KeptLog(query_id="q1", home="cam", stream="l", since=TICK_MIN, bytes=96, runs=True),
    ]


def test_the_memory_of_a_daemon_does_not_include_that_of_who_started_it() -> None:
    ballast = b"x" * (400 << 20)
    command = [sys.executable, "-c", "from node.io.reports.status_report import peak_bytes; print(peak_bytes())"]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert 10 << 20 < int(said) < len(ballast)


def test_what_the_peer_had_before_a_connection_broke_is_delivered_when_it_says_so(daemon: Daemon) -> None:
    daemon.connect(1)
    link, peer = daemon.stack.links["bow"], daemon.peer.links["ash"]
    for frame in link.send(Kind.TUPLES, b"x" * 1_000).frames:
        peer.received(frame, daemon.now_us)
    daemon.lose(1)
    assert link.delivered_bytes == 0
    daemon.connect(2)
    assert link.delivered_bytes == 1_000


def test_a_plan_uses_the_links_it_sends_over_and_those_to_its_home() -> None:
    streams = {each.name: each for each in (info("l", "ash"), info("r", "bow"), info("s", "cam"))}
    two = parse_query(QUERY, streams)
    assert links_of(ship_all_plan(two, "cam")) == (("ash", "cam"), ("bow", "cam"))
    both = (("ash", "bow"), ("ash", "cam"), ("bow", "cam"))
    assert links_of(forced_plan(two, "cam", Algorithm.SP_D)) == both
    assert links_of(forced_plan(two, "ash", {"a": Algorithm.SM_S1, "b": Algorithm.SP_S})) == (("ash", "bow"),)
    three = parse_query(f"{QUERY} JOIN s [RANGE 30 MS] AS c ON b.n = c.n", streams)
    # a goes from ash to bow and from there to cam, c the other way round; b stays at bow.
    by_head = {"a": Algorithm.SP_D, "b": Algorithm.SP_S, "c": Algorithm.SP_D}
    plan = forced_plan(three, "dan", by_head)
    home = [("ash", "dan"), ("bow", "dan"), ("cam", "dan")]
    assert links_of(plan) == tuple(sorted([*home, ("ash", "bow"), ("bow", "cam")]))
    moved = replace(plan.sequences[0], start="eve")
    assert ("ash", "eve") in links_of(replace(plan, sequences=(moved, *plan.sequences[1:])))


def test_halves_of_a_copy_stay_with_an_ended_query_whoever_hears_of_its_end_first() -> None:
    """The holder closes its copy when home drops the query, and that can be at the owner before home's own word is."""
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SM_S1)
    cluster.settle()
    for stream in ("l", "r"):
        cluster.arrive(stream, 10, 20, 150)
    cluster.settle()
    cluster.give("cam", DropRequested("q1"))
    cluster.deliver("cam", "ash")
    while cluster.mail["ash", "bow"]:
        cluster.deliver("ash", "bow")
    cluster.settle()
    assert cluster.holds_nothing()
    halves = {(half.alias, half.role, name) for name in ("ash", "bow") for half in cluster.sites[name].copy_statuses()}
    assert halves == {
        ("a", CopyRole.OWNER, "ash"),
        ("a", CopyRole.HOLDER, "bow"),
        ("b", CopyRole.OWNER, "bow"),
        ("b", CopyRole.HOLDER, "ash"),
    }


def test_a_walk_tells_its_story_from_the_gate_to_the_engine() -> None:
    """Rows of l are at ash and their partners at bow, which has sealed nothing yet."""
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SP_D)
    cluster.settle()
    cluster.arrive("l", 10, 20, 150)
    cluster.settle()
    assert walk_rows(cluster.sites["ash"], "", cluster.now_us) == []
    cluster.now_us += 2_500_000
    (walk,) = walk_rows(cluster.sites["bow"], "q1", cluster.now_us)
    assert (walk.head, walk.rows, walk.step, walk.steps, walk.alias, walk.stream) == ("a", 2, 0, 1, "b", "r")
    assert (walk.stage, walk.asked, walk.seconds, walk.algorithm) == ("gate", False, 2.5, "SP-D")
    assert "to be sealed" in walk.cause
    cluster.arrive("r", 10, 150)
    (walk, *_) = [walk for walk in walk_rows(cluster.sites["bow"], "", cluster.now_us) if walk.head == "a"]
    assert (walk.stage, walk.seconds, walk.cause) == ("engine", 0.0, "2 rows to be joined")
    cluster.settle()
    assert walk_rows(cluster.sites["bow"], "", cluster.now_us) == []
    assert walk_rows(cluster.sites["bow"], "another", cluster.now_us) == []


def test_walks_are_told_under_their_query_whichever_its_plan_is() -> None:
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SP_S)
    cluster.settle()
    cluster.replan("cam", Algorithm.SP_D)
    cluster.settle()
    cluster.arrive("l", 10, 20, 150)
    cluster.settle()
    (walk, *_) = walk_rows(cluster.sites["bow"], "q1", cluster.now_us)
    assert (walk.query_id, walk.algorithm) == ("q1", "SP-D")


def test_what_a_site_has_for_two_plans_of_a_query_is_told_as_for_one() -> None:
    assert status_report.queries_of(["q1", "q2~7", "q1~8", "q2"]) == ["q1", "q2"]
