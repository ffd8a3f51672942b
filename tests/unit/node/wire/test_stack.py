"""Whole nodes and the bytes between them: connections, strangers, restarts, junk."""

from __future__ import annotations

import pytest

from node.codec import FrameReader, FrameWriter, Shipment, cut
from node.core.effects import AskReceipt, BlamePeer, Effect, QueryState, ReadSource, Send
from node.core.errors import PeerProtocolError
from node.core.events import BandwidthMeasured, ClockAdvanced, Event, LinkMeasured
from node.core.limits import Limits
from node.core.links.causes import Cause, Purpose
from node.core.links.link import PROTOCOL_VERSION
from node.core.links.link_frames import Ack, Frame, Hello, Kind, Part, Ping, Pong, Refuse
from node.core.links.link_states import LinkState
from node.core.links.messages import FIRST_GENERATION, Level, Prepare, Start
from node.core.query_records import PinRecord, Recovered
from node.stack import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    SendFrame,
    TimePassed,
    greeting_of,
)
from node.wire import encode_about, encode_message
from planner.model.plans import forced_plan
from planner.model.query import Algorithm
from planner.sql.parser import parse_query
from tests.unit.nodes import STREAMS, Nodes
from tests.unit.sites import QUERY, TAU_MS


def part(seq: int, payload: bytes, numbers: tuple[int, ...] = ()) -> Part:
    return Part(seq, Kind.CONTROL, False, payload, 1, numbers)


def first_shipment(*frames: Frame) -> Shipment:
    (shipment,) = FrameWriter().write(frames)
    return shipment


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
            nodes.step()
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
    sent = [output for _, output in nodes.outputs if isinstance(output, SendFrame)]
    seen = {kind for shipment in sent for kind, _ in shipment.shipment.shares}
    assert seen == {Kind.CONTROL, Kind.TUPLES, Kind.RESULTS}


def test_what_comes_on_a_replaced_connection_is_not_heard() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.connect()
    before = nodes.stacks["ash"].links["bow"].duplicates
    assert nodes.give("ash", FrameArrived("bow", 1, first_shipment(Ping(5)))) == []
    assert nodes.give("ash", FrameArrived("bow", 1, cut(b"junk"))) == []
    assert nodes.give("ash", ConnectionClosed("bow", 1, "late news")) == []
    assert nodes.state("ash") is LinkState.UP
    assert nodes.stacks["ash"].links["bow"].duplicates == before


def test_bytes_that_are_no_frame_close_the_connection() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.give("ash", FrameArrived("bow", 1, cut(b"\0\xff\xff\xff\xff\xff\xff\xff")))
    (close,) = nodes.closes("ash")
    assert close.reason.startswith("a frame requires")
    assert nodes.state("ash") is LinkState.DOWN
    nodes.lose()
    nodes.connect()
    assert nodes.state("ash") is LinkState.UP
    assert nodes.states() == []


def test_a_message_that_cannot_be_read_has_the_queries_with_that_peer_begin_again() -> None:
    # The link has taken it, so it does not come again: going on would leave a hole.
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    (junk,) = nodes.stacks["bow"].links["ash"].send(Kind.CONTROL, b"\2\xff\xff").frames
    nodes.say("bow", junk)
    state, reason = nodes.states()[-1]
    assert state is QueryState.RECOVERING
    assert reason.startswith("site bow: sent what cannot be read: the bytes received require a message")
    assert len(nodes.closes("ash")) == 1
    nodes.lose()
    nodes.connect()
    assert nodes.state("ash") is LinkState.UP
    assert nodes.states()[-1] == (QueryState.RUNNING, "")
    generations = {stack.site.runs["q1"].generation for stack in nodes.stacks.values()}
    assert len(generations) == 1
    assert generations != {FIRST_GENERATION}


def test_a_greeting_that_cannot_be_read_closes_the_connection() -> None:
    nodes = Nodes()
    nodes.give("ash", ConnectionOpened("bow", 1))
    hello = Hello(PROTOCOL_VERSION, "c", TAU_MS, "bow", "ash", 2, 0, 0, 1, b"\xff")
    nodes.give("ash", FrameArrived("bow", 1, first_shipment(hello)))
    (close,) = nodes.closes("ash")
    assert "require an about" in close.reason
    assert nodes.state("ash") is LinkState.DOWN


def test_a_restarted_peer_is_prepared_again_and_the_query_goes_on() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    nodes.arrive("l", 1, 30)
    nodes.lose()
    nodes.stacks["bow"] = nodes.new("bow", 77, recovered=Recovered(pins=(PinRecord("q1", "ash", ("r",)),)))
    nodes.connect()
    assert nodes.states()[-2:] == [
        (QueryState.RECOVERING, "site bow: the daemon was restarted and lost what it held"),
        (QueryState.RUNNING, ""),
    ]
    nodes.arrive("r", 2, ended=True)
    nodes.arrive("l", ended=True)
    nodes.run()
    assert nodes.states()[-1] == (QueryState.COMPLETED, "")
    assert sorted((row["an"], row["bn"]) for row in nodes.rows) == [(0, 0), (1, 0)]


def test_a_peer_that_comes_back_without_the_log_of_what_it_delivered_ends_the_query() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    nodes.arrive("l", 1, 30)
    nodes.arrive("r", 2, 31)
    nodes.run()
    nodes.lose()
    nodes.stacks["bow"] = nodes.new("bow", 77)
    nodes.connect()
    state, reason = nodes.states()[-1]
    assert state is QueryState.FAILED
    assert reason == (
        "site bow refused: data loss: stream r requires its log; "
        "got one without ticks start to 3, of which results were delivered: "
        "it was dropped here by a user, or had failed here, or the site began anew"
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
    nodes.now_us += 300
    # What is said in one turn is sent as one.
    assert [type(frame) for frame in nodes.step()] == [Ack, Ping]
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
    hello = Hello(1, "c", 10, "bow", "ash", 2, 0, 0, 1, b"")
    assert greeting_of(first_shipment(hello)).hello.site == "bow"
    assert greeting_of(first_shipment(hello, Ping(1))).frames == (hello, Ping(1))
    with pytest.raises(PeerProtocolError, match="a connection requires Hello first; got Ping"):
        greeting_of(first_shipment(Ping(1), hello))
    with pytest.raises(PeerProtocolError, match="a frame requires a head"):
        greeting_of(cut(b"\xff"))


def test_a_greeting_that_was_read_is_heard_once_and_its_reader_reads_on() -> None:
    nodes, writer = Nodes(), FrameWriter()
    hello = Hello(PROTOCOL_VERSION, "c", TAU_MS, "bow", "ash", 2, 0, 0, 1, encode_about([STREAMS["bow"]]))
    (first,), (second,) = writer.write([hello]), writer.write([Ping(5)])
    sent = nodes.give("ash", ConnectionOpened("bow", 1, greeting_of(first)))
    assert nodes.state("ash") is LinkState.UP
    assert set(nodes.stacks["ash"].site.catalogue) == {"l", "r"}
    sent += nodes.give("ash", FrameArrived("bow", 1, second))
    reader = FrameReader()
    frames = [frame for output in sent if isinstance(output, SendFrame) for frame in reader.read(output.shipment)]
    assert [type(frame) for frame in frames] == [Hello, Pong]


def test_a_query_with_a_sink_that_is_no_site_does_no_harm() -> None:
    nodes = Nodes()
    nodes.connect()
    query = parse_query(QUERY, nodes.stacks["ash"].site.catalogue)
    plan = forced_plan(query, "ash", Algorithm.SP_D)
    prepare = Prepare("q9", QUERY, "nowhere", plan.sequences, tuple(STREAMS.values()))
    nodes.say("ash", part(1, *encode_message(prepare)))
    nodes.say("ash", part(2, *encode_message(Start("q9", 0, None))))
    nodes.arrive("r", ended=True)


# -- time ---------------------------------------------------------------------------------------


def told(nodes: Nodes, site: str, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """What the site is told from now on; it does nothing about it."""
    seen: list[Event] = []

    def handle(events: list[Event], _: int) -> list[Effect]:
        seen.extend(events)
        return []

    monkeypatch.setattr(nodes.stacks[site].site, "handle", handle)
    return seen


def test_the_site_is_told_that_time_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes()
    seen = told(nodes, "ash", monkeypatch)
    nodes.give("ash", TimePassed())
    assert seen == [ClockAdvanced()]


def test_the_site_is_told_of_each_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes()
    nodes.connect()
    seen = told(nodes, "bow", monkeypatch)
    for rtt_us in (300, 700):
        nodes.now_us += nodes.limits.ping_us
        nodes.give("bow", TimePassed())
        nodes.now_us += rtt_us
        nodes.run()
    assert [event for event in seen if event != ClockAdvanced()] == [LinkMeasured("ash", 300), LinkMeasured("ash", 700)]


def test_the_site_is_told_of_a_bandwidth_before_the_next_round_trip_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes()
    nodes.connect()
    seen = told(nodes, "bow", monkeypatch)
    meter = nodes.stacks["bow"].bandwidths["ash"]
    monkeypatch.setattr(meter, "acknowledged", lambda *_: meter._rates.append((nodes.now_us, 5e4)))
    for _ in range(3):
        nodes.now_us += nodes.limits.ping_us
        nodes.give("bow", TimePassed())
        nodes.run()
    assert [event for event in seen if isinstance(event, BandwidthMeasured)] == [BandwidthMeasured("ash", 5e4)]


def test_a_peer_is_asked_behind_what_was_sent_and_says_that_it_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.run()
    ash, bow = nodes.stacks["ash"], nodes.stacks["bow"]
    said: list[list[Effect]] = [[Send("bow", Level(1), Cause("", Purpose.CONTROL)), AskReceipt("bow")]]
    monkeypatch.setattr(ash.site, "handle", lambda events, now_us: said.pop() if said else [])
    monkeypatch.setattr(bow.site, "handle", lambda events, now_us: [])
    nodes.give("ash")
    assert ash.links["bow"].backlog_bytes > 0
    nodes.run()
    assert ash.links["bow"].backlog_bytes == 0
    assert ash.bandwidths["bow"].flying_bytes == 0


def test_an_answer_before_the_greeting_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes()
    seen = told(nodes, "ash", monkeypatch)
    nodes.give("ash", ConnectionOpened("bow", 1))
    nodes.give("ash", FrameArrived("bow", 1, first_shipment(Pong(5))))
    assert seen == []
    assert len(nodes.closes("ash")) == 1


# -- the context of a connection -----------------------------------------------------------------


def test_a_lost_shipment_closes_the_connection_and_the_next_one_makes_good() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    nodes.arrive("l", 1, 2, 25)
    nodes.wire.popleft()
    nodes.say("ash", Ping(1))
    (close,) = nodes.closes("bow")
    assert close.reason.startswith("a frame requires a checksum that fits")
    nodes.lose()
    nodes.connect()
    nodes.arrive("r", 2, 26, ended=True)
    nodes.arrive("l", ended=True)
    nodes.run()
    assert nodes.states()[-1][0] is QueryState.COMPLETED
    assert len(nodes.rows) == 6


def test_what_follows_bad_news_in_a_shipment_is_not_heard() -> None:
    nodes = Nodes()
    nodes.connect()
    hello = Hello(1, "c", TAU_MS, "bow", "ash", 2, 0, 0, 1, b"")
    outputs = nodes.say("bow", hello, Refuse("too late to say so"))
    assert [type(output) for output in outputs] == [CloseConnection]
    assert "got a second" in nodes.closes("ash")[0].reason
    assert "got a second" in nodes.stacks["ash"].links["bow"].trouble


def test_a_connection_that_is_replaced_in_the_same_turn_takes_its_frames_along() -> None:
    nodes = Nodes()
    nodes.connect()
    nodes.now_us += nodes.limits.ping_us
    outputs = nodes.give("ash", TimePassed(), ConnectionOpened("bow", 9))
    assert [output.connection for output in outputs if isinstance(output, SendFrame)] == [9]
