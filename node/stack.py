"""A whole node without IO: the site, its links and the wire format between them.

The daemon and the simulator drive this same object. They own connections,
clocks, files and engines; every decision is in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from node.codec import FrameReader, FrameWriter, Shipment
from node.core.effects import AskReceipt, Effect, KeepRecord, RemoveRecord, Send, WriteRecords
from node.core.errors import PeerProtocolError, PeerRefusedError
from node.core.events import (
    BandwidthMeasured,
    ClockAdvanced,
    Event,
    LinkMeasured,
    MessageReceived,
    PeerGreeted,
    PeerStateLost,
)
from node.core.limits import Limits
from node.core.links.bandwidth import BandwidthMeter
from node.core.links.causes import Cause, Traffic
from node.core.links.link import Identity, Link, LinkNews
from node.core.links.link_frames import Frame, Hello, Part, Pong, Refuse
from node.core.links.link_states import LinkState
from node.core.links.lives import Met
from node.core.queries.query_id import query_of
from node.core.query_records import Recovered
from node.core.records import Delete
from node.core.site import Site
from node.core.streams.stream import LocalStream
from node.wire import decode_about, decode_message, encode_about, encode_message, kind_of
from node.wire.records import record_out
from planner.algorithms.http2 import Framing


@dataclass(frozen=True, slots=True)
class Greeting:
    """The first shipment of a connection that a peer made: what was in it, and who read it and reads on."""

    hello: Hello
    frames: tuple[Frame, ...]
    reader: FrameReader


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """A connection to ``peer`` exists, which replaces an earlier one; or somebody made one and greets as ``peer``.

    Who greets replaces nothing before it is known to be the peer, and the earlier one not to live.
    """

    peer: str
    connection: int
    greeting: Greeting | None = None


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """That connection is gone."""

    peer: str
    connection: int
    reason: str


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """Bytes came on that connection: one shipment of frames, as ``SendFrame`` has them."""

    peer: str
    connection: int
    shipment: Shipment


@dataclass(frozen=True, slots=True)
class LifeRemembered:
    """Answers RememberLife: it is durable."""

    peer: str
    met: Met


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing happened but time; comes a few times a second."""


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Write a shipment of frames to that connection, after those before."""

    peer: str
    connection: int
    shipment: Shipment


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close that connection once what was to be sent on it is; or ``at_once``, with all that waits in it."""

    peer: str
    connection: int
    reason: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class RememberLife:
    """Write down that this life of the peer was met, before its link is up. Answered by LifeRemembered."""

    peer: str
    met: Met


Input = Event | ConnectionOpened | ConnectionClosed | FrameArrived | LifeRemembered | TimePassed
Output = Effect | SendFrame | CloseConnection | RememberLife


def greeting_of(shipment: Shipment) -> Greeting:
    """What the first shipment of an incoming connection says, and which site it says it is from.

    Raises PeerProtocolError if it does not begin with a greeting.
    """
    reader = FrameReader()
    frames = reader.read(shipment)
    if not isinstance(frames[0], Hello):
        raise PeerProtocolError(f"a connection requires Hello first; got {type(frames[0]).__name__}")
    return Greeting(frames[0], tuple(frames), reader)


def _as_bytes(effect: Effect) -> Effect:
    """Records as they are kept."""
    match effect:
        case KeepRecord():
            return WriteRecords((record_out(effect.record),))
        case RemoveRecord():
            return WriteRecords((Delete(effect.kind, effect.query_id),))
        case _:
            return effect


class _Connection:
    """A link's connection: its number, its two contexts, and the frames that leave when the turn is over."""

    def __init__(self, number: int, reader: FrameReader) -> None:
        self.number = number
        self.reader = reader
        self.writer = FrameWriter()
        self.frames: list[Frame] = []
        self.framing = Framing()


class _Newcomer:
    """Who greeted as a peer that has a connection: it waits for that one to show that it lives, or not."""

    def __init__(self, number: int, greeting: Greeting, asked_at_us: int) -> None:
        self.number = number
        self.greeting = greeting
        self.asked_at_us = asked_at_us


class Stack:
    """One site with its links.

    ``life`` rises with every start of the site's daemon. ``met`` are the highest ones of its peers that are written
    down, where somebody writes them down (RememberLife); else None. ``folder`` and ``lives``: as in Identity.
    """

    def __init__(
        self,
        cluster: str,
        site: str,
        peers: Iterable[str],
        tau_ms: int,
        life: int,
        streams: Sequence[LocalStream],
        limits: Limits,
        met: Mapping[str, Met] | None = None,
        recovered: Recovered | None = None,
        folder: int = 0,
        lives: tuple[int, ...] = (),
    ) -> None:
        about = encode_about(stream.info for stream in streams)
        me = Identity(cluster, tau_ms, site, life, about, folder, lives)
        seen, remembers = met or {}, met is not None
        self.site = Site(site, tau_ms, streams, limits, life, recovered)
        self.life = life
        self.tau_ms = tau_ms
        self.limits = limits
        self.links = {
            peer: Link(me, peer, limits, met=seen.get(peer, Met()), remembers=remembers) for peer in sorted(peers)
        }
        self.bandwidths = {peer: BandwidthMeter() for peer in self.links}
        self.site.watch_links(
            self.links,
            lambda peer: self.bandwidths[peer].flying_bytes + self.links[peer].waiting_bytes,
            lambda peer: self.links[peer].state is LinkState.UP,
        )
        # A query asks before it runs, under another name.
        self.traffic = Traffic(2 * limits.ended_queries_max)
        # By whatever plan the query ran.
        self.site.watch_traffic(lambda query_id: self.traffic.sent_for(lambda run: query_of(run) == query_id))
        #: For each link, what its parts that have not left yet are for.
        self._causes: dict[str, dict[int, Cause]] = {peer: {} for peer in self.links}
        self._connections: dict[str, _Connection] = {}
        self._newcomers: dict[str, _Newcomer] = {}
        #: What the site has not heard of yet.
        self._events: list[Event] = []
        self._out: list[Output] = []

    def handle(self, inputs: Iterable[Input], now_us: int) -> list[Output]:
        """Take what happened, in order; returns what to do, in order."""
        for item in inputs:
            match item:
                case ConnectionOpened():
                    self._on_opened(item, now_us)
                case ConnectionClosed():
                    self._on_closed(item, now_us)
                case FrameArrived():
                    self._on_shipment(item, now_us)
                case LifeRemembered():
                    link = self.links[item.peer]
                    self._apply(link, link.remembered(item.met, now_us), now_us)
                case TimePassed():
                    self._on_time(now_us)
                case _:
                    self._events.append(item)
        self._tell_site(now_us)
        # After all that was asked for in this turn: what others are told is durable before it leaves.
        for peer, connection in self._connections.items():
            self._flush(peer, connection)
        out, self._out = self._out, []
        return out

    @property
    def resting(self) -> bool:
        """Whether no query runs here: then nothing is due within a fraction of a second."""
        return not self.site.runs

    # -- the site -----------------------------------------------------------------------------

    def _tell_site(self, now_us: int, lost: str | None = None) -> None:
        """What happened so far; and send what it says, but to a peer with which the session is ``lost``."""
        while True:
            events, self._events = self._events, []
            void = {lost}
            for effect in self.site.handle(events, now_us):
                if isinstance(effect, AskReceipt):
                    if effect.peer not in void:
                        link = self.links[effect.peer]
                        self._carry_out(link, link.ask(now_us))
                elif not isinstance(effect, Send):
                    self._out.append(_as_bytes(effect))
                elif effect.peer not in void and self._send(self.links[effect.peer], effect):
                    # It did not know of that when it said the rest.
                    void.add(effect.peer)
            if not self._events:
                return

    def _send(self, link: Link, effect: Send) -> bool:
        """Whether the session was given up instead: the queue was too long."""
        first = link.next_part
        news = link.send(kind_of(effect.message), *encode_message(effect.message))
        if news.lost is not None:
            self._lose(link, news.lost)
        causes = self._causes[link.peer]
        for number in range(first, link.next_part):
            causes[number] = effect.cause
        self._carry_out(link, news)
        return news.lost is not None

    def _lose(self, link: Link, reason: str) -> None:
        self._causes[link.peer].clear()
        self._events.append(PeerStateLost(link.peer, reason))

    # -- connections --------------------------------------------------------------------------

    def _on_opened(self, item: ConnectionOpened, now_us: int) -> None:
        peer, greeting = item.peer, item.greeting
        link = self.links[peer]
        if greeting is None:
            self._open(link, _Connection(item.connection, FrameReader()), now_us)
            return
        if not self._may_come_in(link, item.connection, greeting):
            return
        if peer not in self._connections:
            self._let_in(link, item.connection, greeting, now_us)
        elif peer in self._newcomers:
            self._turn_away(link, item.connection, f"site {self.site.name} asks already whether another {peer} lives")
        else:
            self._newcomers[peer] = _Newcomer(item.connection, greeting, now_us)
            self._carry_out(link, link.ask(now_us))

    def _may_come_in(self, link: Link, number: int, greeting: Greeting) -> bool:
        """Whether who greeted so may talk to us. If not it is told why, and nothing of ours is said or changed."""
        try:
            link.check(greeting.hello)
        except PeerRefusedError as error:
            self._turn_away(link, number, str(error))
            return False
        if trouble := _unreadable(greeting.hello):
            self._turn_away(link, number, trouble)
            return False
        return True

    def _open(self, link: Link, connection: _Connection, now_us: int) -> None:
        # What was to leave on the one before waits in the link again.
        self._connections[link.peer] = connection
        self.bandwidths[link.peer].interrupted()
        self._apply(link, link.opened(now_us), now_us)

    def _let_in(self, link: Link, number: int, greeting: Greeting, now_us: int) -> None:
        connection = _Connection(number, greeting.reader)
        self._open(link, connection, now_us)
        self._take(link, connection, greeting.frames, now_us)

    def _turn_away(self, link: Link, number: int, reason: str) -> None:
        for shipment in FrameWriter().write([Refuse(reason)]):
            self._out.append(SendFrame(link.peer, number, shipment))
        self._out.append(CloseConnection(link.peer, number, f"refused: {reason}"))
        link.turned_away(reason)

    def _on_closed(self, item: ConnectionClosed, now_us: int) -> None:
        peer = item.peer
        connection, newcomer = self._connections.get(peer), self._newcomers.get(peer)
        if newcomer is not None and newcomer.number == item.connection:
            del self._newcomers[peer]
        elif connection is not None and connection.number == item.connection:
            del self._connections[peer]
            self.links[peer].closed(item.reason)
            self._make_room(peer, now_us)

    def _make_room(self, peer: str, now_us: int) -> None:
        """The connection is gone; who waited for that, if somebody did, has the link now."""
        newcomer, link = self._newcomers.pop(peer, None), self.links[peer]
        if newcomer is not None and self._may_come_in(link, newcomer.number, newcomer.greeting):
            self._let_in(link, newcomer.number, newcomer.greeting, now_us)

    def _on_time(self, now_us: int) -> None:
        for peer, link in self.links.items():
            self._apply(link, link.tick(now_us), now_us)
            newcomer = self._newcomers.get(peer)
            if newcomer is not None and link.owes_answer(newcomer.asked_at_us, now_us):
                self._close(link, f"{peer} dialled again, and this connection did not answer")
            if link.state is LinkState.DOWN:
                self._make_room(peer, now_us)
        self._events.append(ClockAdvanced())

    def _on_shipment(self, item: FrameArrived, now_us: int) -> None:
        peer = item.peer
        link, connection, newcomer = self.links[peer], self._connections.get(peer), self._newcomers.get(peer)
        if newcomer is not None and newcomer.number == item.connection:
            del self._newcomers[peer]
            self._turn_away(
                link, item.connection, f"site {self.site.name} requires Hello, and then an answer; got more"
            )
            return
        if connection is None or connection.number != item.connection:
            return
        try:
            frames = connection.reader.read(item.shipment)
        except PeerProtocolError as error:
            self._close(link, str(error))
        else:
            self._take(link, connection, frames, now_us)
        if link.state is LinkState.DOWN:
            self._make_room(peer, now_us)
        elif newcomer is not None:
            # Whatever is heard shows that the connection lives; the answer itself may be behind much else.
            del self._newcomers[peer]
            here = f"site {peer} is already here, on a connection that answers: does a second daemon of it run?"
            self._turn_away(link, newcomer.number, here)

    def _take(self, link: Link, connection: _Connection, frames: Iterable[Frame], now_us: int) -> None:
        connection.framing.came_back()
        meter = self.bandwidths[link.peer]
        for frame in frames:
            if isinstance(frame, Hello) and (trouble := _unreadable(frame)):
                self._close(link, trouble)
                return
            self._apply(link, link.received(frame, now_us), now_us)
            if self._connections.get(link.peer) is not connection:
                return
            if isinstance(frame, Pong) and link.rtt_us is not None:
                self._events.append(LinkMeasured(link.peer, link.rtt_us, meter.bytes_per_s))
        before = meter.bytes_per_s
        meter.acknowledged(link.peer_expects, now_us, link.rtt_us)
        if meter.bytes_per_s is not None and meter.bytes_per_s != before:
            self._events.append(BandwidthMeasured(link.peer, meter.bytes_per_s))

    def _apply(self, link: Link, news: LinkNews, now_us: int) -> None:
        """Do what came of something that the link was told."""
        if news.lost is not None:
            # What happened before belongs to the session that is lost, and so does what the site says to that.
            if self._events:
                self._tell_site(now_us, link.peer)
            self._lose(link, news.lost)
        try:
            if news.about is not None:
                self._events.append(PeerGreeted(link.peer, decode_about(news.about), link.session))
            for _, packed in news.messages:
                self._events.append(MessageReceived(link.peer, decode_message(packed)))
        except PeerProtocolError as error:
            # The link has counted this message as received, so it will not come again.
            self._carry_out(link, news)
            self._apply(link, link.reset(f"sent what cannot be read: {error}"), now_us)
        else:
            self._carry_out(link, news)

    def _carry_out(self, link: Link, news: LinkNews) -> None:
        if news.remember is not None:
            self._out.append(RememberLife(link.peer, news.remember))
        connection = self._connections.get(link.peer)
        if news.frames and connection is not None:
            connection.frames += news.frames
        if news.close is not None:
            self._close(link, news.close)

    def _flush(self, peer: str, connection: _Connection) -> None:
        if not connection.frames:
            return
        frames, connection.frames = connection.frames, []
        at = 0
        for shipment in connection.writer.write(frames):
            self._out.append(SendFrame(peer, connection.number, shipment))
            end = at + len(shipment.cuts)
            self._count(peer, connection, shipment, frames[at:end])
            at = end

    def _count(self, peer: str, connection: _Connection, shipment: Shipment, frames: Sequence[Frame]) -> None:
        """Count a shipment of these frames for the steps, copies and rows that it is for."""
        framing = connection.framing.went(len(shipment)) / len(frames)
        causes, last = self._causes[peer], None
        for frame, (kind, size) in zip(frames, shipment.shares, strict=True):
            if not isinstance(frame, Part):
                continue
            last = frame.seq
            cause = causes.pop(frame.seq, None)
            if cause is not None:
                self.traffic.count(cause, peer, kind.label, size, framing, not frame.more)
        if last is not None:
            self.bandwidths[peer].sent(last, len(shipment))

    def _close(self, link: Link, reason: str) -> None:
        """End the connection at once, with what waits in it, but for words that say why."""
        connection = self._connections.pop(link.peer, None)
        link.closed(reason)
        if connection is not None:
            refuses = bool(connection.frames) and isinstance(connection.frames[-1], Refuse)
            if refuses:
                self._flush(link.peer, connection)
            self._out.append(CloseConnection(link.peer, connection.number, reason, at_once=not refuses))


def _unreadable(hello: Hello) -> str:
    """Why what a site says about itself cannot be read; empty if it can."""
    try:
        decode_about(hello.about)
    except PeerProtocolError as error:
        return str(error)
    return ""
