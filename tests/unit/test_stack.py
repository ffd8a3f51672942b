"""Whole nodes and the bytes between them: connections, strangers, restarts, junk."""

from __future__ import annotations

from collections import deque

import pytest

from node.core.effects import BlamePeer, QueryState, ReadSource, ReportQuery, RunOp, StoreRows
from node.core.engine import Probe
from node.core.errors import PeerProtocolError
from node.core.events import ProbeFinished, QueryIssued, RowsArrived, RowsStored
from node.core.limits import Limits
from node.core.link import Ack, Hello, Kind, LinkState, Part, Ping
from node.core.messages import Prepare
from node.core.stream import LocalStream
from node.stack import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    Output,
    SendFrame,
    Stack,
    TimePassed,
    caller_of,
)
from node.wire import decode_frame, encode_frame, encode_message, sealed
from planner.model import Algorithm, StreamInfo
from planner.plans import forced_plan
from planner.sql import parse_query
from tests.sim.reference_engine import ReferenceEngine
from tests.unit.sites import QUERY, TAU_MS, info, rows_of

STREAMS: dict[str, StreamInfo] = {"ash": info("l", "ash"), "bow": info("r", "bow")}
PEER = {"ash": "bow", "bow": "ash"}


class Nodes:
    """Ash and bow, one wire, and nothing that happens by itself."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.now_us = 1_000_000
        self.stacks = {site: self.new(site, number) for number, site in enumerate(STREAMS, 1)}
        self.engines = {site: ReferenceEngine() for site in STREAMS}
        self.connection = 0
        self.wire: deque[tuple[str, SendFrame]] = deque()
        self.outputs: list[tuple[str, Output]] = []
        self.rows: list[dict[str, int]] = []

    def new(self, site: str, session: int, cluster: str = "c") -> Stack:
        streams = [LocalStream(STREAMS[site])]
        return Stack(cluster, site, [PEER[site]], TAU_MS, session, streams, self.limits)

    def give(self, site: str, *inputs: Input) -> list[Output]:
        outputs = self.stacks[site].handle(inputs, self.now_us)
        for output in outputs:
            self.outputs.append((site, output))
            match output:
                case SendFrame():
                    self.wire.append((site, output))
                case RunOp():
                    answers = self.engines[site].run([output.op])
                    if isinstance(output.op, Probe):
                        self.give(site, ProbeFinished(output.op_id, answers[0]))
                case StoreRows():
                    self.rows += output.rows.to_pylist()
                    self.give(site, RowsStored(output.query_id, output.head, output.span))
                case _:
                    pass
        return outputs

    def connect(self) -> None:
        self.connection += 1
        for site, peer in PEER.items():
            self.give(site, ConnectionOpened(peer, self.connection))
        self.run()

    def run(self) -> None:
        while self.wire:
            site, frame = self.wire.popleft()
            self.give(frame.peer, FrameArrived(site, frame.connection, frame.data))

    def lose(self) -> None:
        """The connection is cut; what was on its way is lost."""
        self.wire.clear()
        for site, peer in PEER.items():
            self.give(site, ConnectionClosed(peer, self.connection, "cut"))

    def issue(self, site: str = "ash", query_id: str = "q1") -> None:
        query = parse_query(QUERY, self.stacks[site].site.catalogue)
        self.give(site, QueryIssued(query_id, forced_plan(query, site, Algorithm.SP_D)))

    def arrive(self, stream: str, *ts: int, ended: bool = False) -> None:
        site = {"l": "ash", "r": "bow"}[stream]
        rows = rows_of(ts)
        self.give(site, RowsArrived(stream, rows, rows.column("ts"), None, ended))

    def states(self) -> list[tuple[QueryState, str]]:
        return [(output.state, output.reason) for _, output in self.outputs if isinstance(output, ReportQuery)]

    def closes(self, site: str) -> list[CloseConnection]:
        return [output for where, output in self.outputs if where == site and isinstance(output, CloseConnection)]

    def state(self, site: str) -> LinkState:
        return self.stacks[site].links[PEER[site]].state


def part(seq: int, payload: bytes) -> bytes:
    return encode_frame(Part(seq, Kind.CONTROL, False, payload, 1))


def test_greeting_makes_each_others_streams_known() -> None:
    nodes = Nodes()
    assert list(nodes.stacks["ash"].site.catalogue) == ["l"]
    nodes.connect()
    for site in STREAMS:
        assert nodes.state(site) is LinkState.UP
        assert dict(nodes.stacks[site].site.catalogue) == {"l": STREAMS["ash"], "r": STREAMS["bow"]}


@pytest.mark.parametrize("part_bytes", [7, 1000])
@pytest.mark.parametrize("cut_after", [None, 0, 5, 11, 23])
def test_a_query_runs_over_encoded_frames_and_survives_a_cut(part_bytes: int, cut_after: int | None) -> None:
    limits = Limits(part_bytes_max=part_bytes, inflight_bytes_max=2000, ack_bytes=1)
    nodes = Nodes(limits)
    nodes.connect()
    nodes.issue()
    nodes.run()
    nodes.arrive("l", 1, 2, 25)
    nodes.arrive("r", 2, 26)
    if cut_after is not None:
        for _ in range(min(cut_after, len(nodes.wire))):
            site, frame = nodes.wire.popleft()
            nodes.give(frame.peer, FrameArrived(site, frame.connection, frame.data))
        nodes.lose()
        nodes.connect()
    nodes.run()
    nodes.arrive("l", ended=True)
    nodes.arrive("r", ended=True)
    nodes.run()
    assert [state for state, _ in nodes.states()] == [QueryState.RUNNING, QueryState.COMPLETED]
    assert sorted((row["an"], row["bn"]) for row in nodes.rows) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert not [output for _, output in nodes.outputs if isinstance(output, BlamePeer)]


def test_frames_are_counted_by_what_is_in_them() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    nodes.arrive("l", 1, 25)
    nodes.arrive("r", 2, 26)
    nodes.run()
    seen = {output.kind for _, output in nodes.outputs if isinstance(output, SendFrame)}
    assert seen == {Kind.CONTROL, Kind.TUPLES, Kind.RESULTS}


def test_what_comes_on_a_replaced_connection_is_not_heard() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.connect()
    before = nodes.stacks["ash"].links["bow"].duplicates
    assert nodes.give("ash", FrameArrived("bow", 1, encode_frame(Ping(5)))) == []
    assert nodes.give("ash", FrameArrived("bow", 1, b"junk")) == []
    assert nodes.give("ash", ConnectionClosed("bow", 1, "late news")) == []
    assert nodes.state("ash") is LinkState.UP
    assert nodes.stacks["ash"].links["bow"].duplicates == before


def test_bytes_that_are_no_frame_close_the_connection() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.give("ash", FrameArrived("bow", 1, sealed(b"\xff\xff\xff")))
    (close,) = nodes.closes("ash")
    assert close == CloseConnection("bow", 1, "the bytes received require a frame; got 3 that are not")
    assert nodes.state("ash") is LinkState.DOWN
    nodes.lose()
    nodes.connect()
    assert nodes.state("ash") is LinkState.UP
    assert nodes.states() == []


def test_a_message_that_cannot_be_read_fails_the_queries_with_that_peer() -> None:
    # The link has taken it, so it does not come again: going on would leave a hole.
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    (junk,) = nodes.stacks["bow"].links["ash"].send(Kind.CONTROL, b"\xff\xff").frames
    nodes.give("ash", FrameArrived("bow", 1, encode_frame(junk)))
    state, reason = nodes.states()[-1]
    assert state is QueryState.FAILED
    assert reason.startswith("site bow: sent what cannot be read: the bytes received require a message")
    assert len(nodes.closes("ash")) == 1
    nodes.lose()
    nodes.connect()
    assert nodes.state("ash") is LinkState.UP
    assert not nodes.stacks["bow"].site.runs


def test_a_greeting_that_cannot_be_read_closes_the_connection() -> None:
    nodes = Nodes()
    nodes.give("ash", ConnectionOpened("bow", 1))
    nodes.give("ash", FrameArrived("bow", 1, encode_frame(Hello(1, "c", TAU_MS, "bow", "ash", 2, 0, 1, b"\xff"))))
    (close,) = nodes.closes("ash")
    assert "require an about" in close.reason
    assert nodes.state("ash") is LinkState.DOWN


def test_a_restarted_peer_fails_the_queries_it_was_part_of() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    nodes.arrive("l", 1, 30)
    nodes.lose()
    nodes.stacks["bow"] = nodes.new("bow", 77)
    nodes.connect()
    assert nodes.states()[-1] == (
        QueryState.FAILED,
        "site bow: the daemon was restarted and lost what it held",
    )
    assert not nodes.stacks["ash"].site.runs
    assert not nodes.stacks["bow"].site.runs
    nodes.issue("ash", "q2")
    nodes.run()
    assert nodes.states()[-1][0] is QueryState.RUNNING


def test_a_restarted_home_leaves_nothing_at_its_peers() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    assert nodes.stacks["bow"].site.runs
    nodes.lose()
    nodes.stacks["ash"] = nodes.new("ash", 77)
    nodes.connect()
    assert not nodes.stacks["bow"].site.runs


def test_a_stranger_is_told_before_the_connection_closes() -> None:
    nodes = Nodes()
    nodes.stacks["bow"] = nodes.new("bow", 2, cluster="other")
    nodes.connect()
    text = "site ash requires cluster 'c'; got 'other' from 'bow'"
    (close,) = nodes.closes("ash")
    assert close.reason == f"refused: {text}"
    at = nodes.outputs.index(("ash", close))
    last = nodes.outputs[at - 1][1]
    assert isinstance(last, SendFrame)  # Refuse goes out first
    assert nodes.stacks["bow"].links["ash"].trouble.startswith("refused")
    assert nodes.states() == []


def test_a_silent_connection_is_closed_by_time_alone() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.now_us += nodes.limits.silence_us + 1
    nodes.give("ash", TimePassed())
    (close,) = nodes.closes("ash")
    assert close.reason == "bow was silent for 10.0 s"
    assert nodes.state("ash") is LinkState.DOWN
    assert nodes.give("ash", TimePassed()) == []


def test_time_brings_acknowledgements_and_measures_the_round_trip() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    nodes.now_us += nodes.limits.ping_us
    nodes.give("bow", TimePassed())
    frames = [decode_frame(frame.data) for _, frame in nodes.wire]
    assert [type(frame) for frame in frames] == [Ack, Ping]
    nodes.now_us += 300
    nodes.run()
    assert nodes.stacks["bow"].links["ash"].rtt_us == 300
    assert nodes.stacks["ash"].links["bow"].backlog_bytes == 0


def test_nothing_is_sent_while_the_link_is_down_and_nothing_is_lost() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.lose()
    nodes.issue()
    assert not nodes.wire
    assert nodes.stacks["ash"].links["bow"].backlog_bytes > 0
    nodes.connect()
    assert nodes.states()[-1][0] is QueryState.RUNNING


def test_events_go_to_the_site_and_come_back_as_effects() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    reads = [output for _, output in nodes.outputs if isinstance(output, ReadSource)]
    assert sorted(read.stream for read in reads) == ["l", "r"]


def test_the_caller_of_a_connection_is_who_its_greeting_says() -> None:
    assert caller_of(encode_frame(Hello(1, "c", 10, "bow", "ash", 2, 0, 1, b""))) == "bow"
    with pytest.raises(PeerProtocolError, match="a connection requires Hello first; got Ping"):
        caller_of(encode_frame(Ping(1)))
    with pytest.raises(PeerProtocolError, match="a checksum that fits"):
        caller_of(b"\xff")


def test_a_query_with_a_sink_that_is_no_site_does_no_harm() -> None:
    nodes = Nodes()
    nodes.connect()
    query = parse_query(QUERY, nodes.stacks["ash"].site.catalogue)
    plan = forced_plan(query, "ash", Algorithm.SP_D)
    prepare = Prepare("q9", QUERY, "nowhere", plan.sequences, tuple(STREAMS.values()))
    nodes.give("bow", FrameArrived("ash", 1, part(1, encode_message(prepare))))
    nodes.give("bow", FrameArrived("ash", 1, part(2, b"\x0a\x02q9\x2a\x02\x08\x00")))  # Start
    nodes.arrive("r", ended=True)
