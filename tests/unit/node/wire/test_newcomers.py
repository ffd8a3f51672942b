"""Who greets as a site that is here already, or that it is not: the good connection lives on, and nothing is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from node.codec import FrameReader, FrameWriter, Shipment
from node.core.effects import QueryState, Send
from node.core.events import PeerStateLost
from node.core.limits import Limits
from node.core.links.causes import Cause, Purpose
from node.core.links.link import PROTOCOL_VERSION
from node.core.links.link_frames import Frame, Hello, Kind, Packed, Part, Ping, Pong, Refuse
from node.core.links.link_states import LinkState
from node.core.links.lives import Met, Session
from node.core.links.messages import Drop, Returned
from node.stack import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Greeting,
    LifeRemembered,
    Output,
    RememberLife,
    SendFrame,
    Stack,
    TimePassed,
    greeting_of,
)
from node.wire import decode_message, encode_about
from tests.unit.nodes import STREAMS, Nodes
from tests.unit.sites import TAU_MS

HELLO = Hello(PROTOCOL_VERSION, "c", TAU_MS, "ash", "bow", 1, 0, 0, 1, encode_about([STREAMS["ash"]]))


def greeting(hello: Hello = HELLO, *more: Frame) -> Greeting:
    (shipment,) = FrameWriter().write([hello, *more])
    return greeting_of(shipment)


def running() -> Nodes:
    """Ash dialled bow, as connection 1, and a query of ash runs at both."""
    nodes = Nodes()
    nodes.connect()
    nodes.issue()
    nodes.run()
    assert nodes.states()[-1][0] is QueryState.RUNNING
    nodes.outputs.clear()
    return nodes


def said(outputs: list[Output], connection: int) -> list[Frame]:
    """What bow said on a connection."""
    reader = FrameReader()
    shipments = [one for one in outputs if isinstance(one, SendFrame) and one.connection == connection]
    return [frame for one in shipments for frame in reader.read(one.shipment)]


def closes(outputs: list[Output]) -> list[CloseConnection]:
    return [output for output in outputs if isinstance(output, CloseConnection)]


def go_on(nodes: Nodes) -> None:
    """The query that runs comes to its end, with all its rows."""
    nodes.arrive("l", 1, 2, 25, ended=True)
    nodes.arrive("r", 2, 26, ended=True)
    nodes.run()
    assert [state for state, _ in nodes.states()] == [QueryState.COMPLETED]
    assert len(nodes.rows) == 6


# -- strangers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cluster": "d"}, "site bow requires cluster 'c'; got 'd' from 'ash'"),
        ({"version": 4}, f"site bow requires protocol version {PROTOCOL_VERSION}; got 4 from 'ash'"),
        ({"tau_ms": 7}, f"site bow requires tau in ms {TAU_MS}; got 7 from 'ash'"),
        ({"peer": "cam"}, "site bow requires a call for site 'bow'; got 'cam' from 'ash'"),
        ({"life": 0}, "site bow requires a life above 0"),
        ({"about": b"\xff"}, "the bytes received require an about"),
    ],
)
@pytest.mark.parametrize("connected", [True, False])
def test_a_stranger_is_refused_before_anything_is_said_or_replaced(
    change: dict[str, object], text: str, connected: bool
) -> None:
    nodes = running()
    if not connected:
        nodes.lose()
    forged = greeting(replace(HELLO, **change))  # type: ignore[arg-type]
    outputs = nodes.give("bow", ConnectionOpened("ash", 9, forged))
    (refusal,) = said(outputs, 9)
    assert isinstance(refusal, Refuse)
    assert refusal.reason.startswith(text)
    assert closes(outputs) == [CloseConnection("ash", 9, f"refused: {refusal.reason}")]
    link = nodes.stacks["bow"].links["ash"]
    assert link.trouble == ("" if connected else f"refused: {refusal.reason}")
    assert nodes.give("bow", FrameArrived("ash", 9, shipment(Ping(1))), ConnectionClosed("ash", 9, "gone")) == []
    if not connected:
        nodes.connect()
    go_on(nodes)


def test_an_old_life_is_refused_and_the_life_that_is_here_goes_on() -> None:
    nodes = running()
    outputs = nodes.give("bow", ConnectionOpened("ash", 9, greeting(replace(HELLO, life=7))))
    nodes.give("bow", ConnectionClosed("ash", 9, "it gave up"))
    assert not closes(outputs)
    nodes.stacks["ash"] = nodes.new("ash", 5)
    nodes.lose()
    nodes.connect()
    outputs = nodes.give("bow", ConnectionOpened("ash", 9, greeting(replace(HELLO, life=4))))
    (close,) = closes(outputs)
    assert "site bow has met life 5 of site ash, and requires no earlier one; got life 4" in close.reason
    assert nodes.state("bow") is LinkState.UP


@pytest.mark.parametrize(
    ("hello", "refused"),
    [
        ({"lives": (3, 4), "folder": 3}, True),
        # It was started before, and refused then too.
        ({"lives": (3, 4, 6, 8), "folder": 3}, True),
        ({"lives": (3, 4, 5), "folder": 3}, False),
        ({"lives": (3, 4, 5, 7), "folder": 3}, False),
        # Begun anew, restored by the command, or a folder of its own: nothing of what was met is in it, and it says so.
        ({"lives": (), "folder": 9}, False),
        ({"lives": (4,), "folder": 4}, False),
        ({"lives": (), "folder": 0}, False),
    ],
)
def test_an_old_copy_of_a_folder_is_refused_although_its_life_is_new(hello: dict[str, Any], refused: bool) -> None:
    stack = Stack("c", "bow", ["ash"], TAU_MS, 2, [], Limits(), {"ash": Met(5, 3)})
    outputs = stack.handle([ConnectionOpened("ash", 1, greeting(replace(HELLO, life=9, **hello)))], 0)
    if refused:
        (refusal,) = said(outputs, 1)
        assert isinstance(refusal, Refuse)
        assert refusal.reason == (
            "site bow has met life 5 of site ash, and requires its folder; got life 9 that goes on from life 4: "
            "an old copy of the folder (narrows restore begins anew with a backup)"
        )
    else:
        assert [out for out in outputs if isinstance(out, RememberLife)] == [
            RememberLife("ash", Met(9, hello["folder"]))
        ]


# -- a second of the same ------------------------------------------------------------------------


@pytest.mark.parametrize("life", [1, 2, 1 << 40])
def test_who_is_here_is_asked_and_its_answer_sends_the_newcomer_away(life: int) -> None:
    """A second daemon of a site, or a forged greeting, ended all queries and wedged the link for good."""
    nodes = running()
    outputs = nodes.give("bow", ConnectionOpened("ash", 9, greeting(replace(HELLO, life=life))))
    assert (said(outputs, 9), closes(outputs)) == ([], [])
    assert [type(frame) for frame in nodes.step()] == [Ping]
    nodes.run()  # ash answers
    outputs = [output for site, output in nodes.outputs if site == "bow"]
    (refusal,) = said(outputs, 9)
    reason = "site ash is already here, on a connection that answers: does a second daemon of it run?"
    assert refusal == Refuse(reason)
    assert closes(outputs) == [CloseConnection("ash", 9, f"refused: {reason}")]
    assert nodes.stacks["bow"].links["ash"].met.life == 1
    go_on(nodes)


def test_who_does_not_answer_in_time_is_replaced() -> None:
    nodes = running()
    nodes.now_us += nodes.limits.ack_us
    nodes.give("ash", TimePassed())
    nodes.run()  # nothing flies any more
    nodes.outputs.clear()
    nodes.give("bow", ConnectionOpened("ash", 9, greeting(replace(HELLO, peer_life=2, expects=2))))
    nodes.wire.clear()  # ash does not hear the question
    nodes.now_us += nodes.limits.answer_us
    assert closes(nodes.give("bow", TimePassed())) == []
    nodes.now_us += 1
    outputs = nodes.give("bow", TimePassed())
    reason = "ash dialled again, and this connection did not answer"
    assert closes(outputs) == [CloseConnection("ash", 1, reason, at_once=True)]
    assert [type(frame) for frame in said(outputs, 9)] == [Hello]
    assert outputs.index(closes(outputs)[0]) < next(
        at for at, output in enumerate(outputs) if isinstance(output, SendFrame) and output.connection == 9
    )
    assert nodes.state("bow") is LinkState.UP


def test_a_question_that_waits_behind_other_things_has_until_silence() -> None:
    """On a thin link the answer may take longer than 2 s: a stranger must not cut such a connection."""
    nodes = running()
    nodes.stacks["bow"].links["ash"].send(Kind.TUPLES, b"on its way")
    nodes.give("bow", opened(9, life=5))
    nodes.wire.clear()
    nodes.now_us += nodes.limits.silence_us
    assert closes(nodes.give("bow", TimePassed())) == []
    nodes.now_us += 1
    (close,) = closes(nodes.give("bow", TimePassed()))
    assert (close.connection, close.reason) == (1, "ash was silent for 10.0 s")
    assert nodes.stacks["bow"]._connections["ash"].number == 9


def test_the_newcomer_has_the_link_when_the_connection_ends_by_itself() -> None:
    nodes = running()
    nodes.give("bow", ConnectionOpened("ash", 9, greeting(replace(HELLO, life=5))))
    outputs = nodes.give("bow", ConnectionClosed("ash", 1, "ash hung up"))
    hello, returned = said(outputs, 9)  # and it is asked about the query of its life before
    assert isinstance(hello, Hello)
    assert isinstance(returned, Part)
    assert decode_message(Packed(returned.payload, returned.numbers)) == Returned("q1")
    assert nodes.stacks["bow"].links["ash"].session == Session(5, 2, 0)
    assert not nodes.stacks["bow"].site.runs  # of the life before


def test_the_newcomer_has_the_link_when_what_comes_on_the_connection_cannot_be_read() -> None:
    nodes = running()
    nodes.give("bow", ConnectionOpened("ash", 9, greeting(replace(HELLO, life=5))))
    outputs = nodes.give("bow", FrameArrived("ash", 1, shipment(Ping(1))))  # a checksum that does not go on
    assert [close.connection for close in closes(outputs)] == [1]
    assert nodes.stacks["bow"]._connections["ash"].number == 9


def test_a_newcomer_that_gives_up_leaves_nothing() -> None:
    nodes = running()
    nodes.give("bow", ConnectionOpened("ash", 9, greeting()), ConnectionClosed("ash", 9, "it gave up"))
    nodes.wire.clear()
    nodes.now_us += nodes.limits.answer_us + 1
    assert closes(nodes.give("bow", TimePassed())) == []
    assert nodes.state("bow") is LinkState.UP


def test_there_is_one_newcomer_at_a_time_and_it_waits_quietly() -> None:
    nodes = running()
    nodes.give("bow", ConnectionOpened("ash", 8, greeting()))
    outputs = nodes.give("bow", ConnectionOpened("ash", 9, greeting()))
    (close,) = closes(outputs)
    assert (close.connection, close.reason) == (9, "refused: site bow asks already whether another ash lives")
    outputs = nodes.give("bow", FrameArrived("ash", 8, shipment(Pong(1))))
    (close,) = closes(outputs)
    assert close.connection == 8
    assert "requires Hello, and then an answer; got more" in close.reason
    nodes.run()
    go_on(nodes)


def test_a_newcomer_is_looked_at_again_when_its_turn_comes() -> None:
    """While it waited a later life was met on the connection before it."""
    stack = Stack("c", "bow", ["ash"], TAU_MS, 2, [], Limits(), {})
    (remember,) = [out for out in stack.handle([opened(1, life=7)], 0) if isinstance(out, RememberLife)]
    assert remember == RememberLife("ash", Met(7))
    stack.handle([opened(2, life=6)], 0)
    stack.handle([LifeRemembered("ash", Met(7))], 0)
    assert stack.links["ash"].state is LinkState.UP
    outputs = stack.handle([ConnectionClosed("ash", 1, "gone")], 0)
    (refusal,) = said(outputs, 2)
    assert isinstance(refusal, Refuse)
    assert "has met life 7 of site ash" in refusal.reason


# -- lives that are written down ------------------------------------------------------------------


def test_a_life_is_written_down_once_and_known_after_a_restart() -> None:
    durable: dict[str, Met] = {}
    for life, remembered in ((7, True), (7, False), (8, True)):
        stack = Stack("c", "bow", ["ash"], TAU_MS, 2 + life, [], Limits(), durable)
        outputs = stack.handle([opened(1, life=life)], 0)
        asked = [output for output in outputs if isinstance(output, RememberLife)]
        assert asked == ([RememberLife("ash", Met(life))] if remembered else [])
        assert (stack.links["ash"].state is LinkState.UP) != remembered
        if remembered:
            durable["ash"] = Met(life)
            stack.handle([LifeRemembered("ash", Met(life))], 0)
        assert stack.links["ash"].state is LinkState.UP


def test_where_nobody_writes_lives_down_the_link_is_up_at_once() -> None:
    stack = Stack("c", "bow", ["ash"], TAU_MS, 2, [], Limits())
    outputs = stack.handle([opened(1, life=7)], 0)
    assert not [output for output in outputs if isinstance(output, RememberLife)]
    assert stack.links["ash"].state is LinkState.UP


# -- what a site says while it does not know that a session is lost -------------------------------


def test_what_was_said_before_a_loss_was_known_is_not_said_in_the_next_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would answer what the peer's new life never asked."""
    nodes = running()
    stack = nodes.stacks["bow"]
    heard: list[list[object]] = []

    def handle(events: list[object], _: int) -> list[Send]:
        heard.append(list(events))
        return [Send("ash", Drop("an answer"), Cause("q1", Purpose.CONTROL))] if len(heard) == 1 else []

    monkeypatch.setattr(stack.site, "handle", handle)
    stack.handle(
        [
            TimePassed(),  # what happened before
            ConnectionClosed("ash", 1, "gone"),
            opened(9, life=5),
        ],
        nodes.now_us,
    )
    assert [type(event).__name__ for event in heard[1]] == ["PeerStateLost", "PeerGreeted"]
    assert stack.links["ash"].backlog_bytes == 0


def test_a_queue_that_is_too_long_ends_the_session_and_what_was_said_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = Limits(shipment_bytes_max=0, message_bytes_max=1 << 20, queue_bytes_max=1 << 20)
    nodes = Nodes(limits)
    nodes.connect()
    nodes.lose()
    stack = nodes.stacks["ash"]
    heard: list[object] = []

    def handle(events: list[object], _: int) -> list[Send]:
        heard.extend(events)
        lost = any(isinstance(event, PeerStateLost) for event in events)
        texts = ["after"] if lost else ["x" * (1 << 19), "y" * (1 << 19), "before"]
        return [Send("bow", Drop(text), Cause("q1", Purpose.CONTROL)) for text in texts]

    monkeypatch.setattr(stack.site, "handle", handle)
    stack.handle([TimePassed()], nodes.now_us)
    (lost,) = [event for event in heard if isinstance(event, PeerStateLost)]
    assert lost.reason.startswith("link requires at most 1048576 bytes that wait for bow; got 10")
    assert stack.links["bow"].backlog_bytes < 20
    monkeypatch.undo()
    nodes.connect()
    assert [nodes.stacks[site].links[peer].session for site, peer in (("ash", "bow"), ("bow", "ash"))] == [
        Session(1, 2, 1)
    ] * 2


# -- helpers ---------------------------------------------------------------------------------------


def opened(number: int, life: int) -> ConnectionOpened:
    return ConnectionOpened("ash", number, greeting(replace(HELLO, life=life)))


def shipment(frame: Frame) -> Shipment:
    (one,) = FrameWriter().write([frame])
    return one
