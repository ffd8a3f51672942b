"""A whole node without IO: the site, its links and the wire format between them.

The daemon and the simulator drive this same object. They own connections,
clocks, files and engines; every decision is in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from node.codec import FrameReader, FrameWriter, Shipment
from node.core.effects import Effect, KeepRecord, RemoveRecord, Send, WriteRecords
from node.core.errors import PeerProtocolError
from node.core.events import ClockAdvanced, Event, LinkMeasured, MessageReceived, PeerGreeted, PeerStateLost
from node.core.limits import Limits
from node.core.links.bandwidth import BandwidthMeter
from node.core.links.causes import Cause, Traffic
from node.core.links.link import Identity, Link, LinkNews
from node.core.links.link_frames import Frame, Hello, Part, Pong
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

    site: str
    frames: tuple[Frame, ...]
    reader: FrameReader


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """A connection to or from ``peer`` exists; it replaces an earlier one. Who made it may have spoken already."""

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
    """Close that connection once what was to be sent on it is."""

    peer: str
    connection: int
    reason: str


Input = Event | ConnectionOpened | ConnectionClosed | FrameArrived | TimePassed
Output = Effect | SendFrame | CloseConnection


def greeting_of(shipment: Shipment) -> Greeting:
    """What the first shipment of an incoming connection says, and which site it says it is from.

    Raises PeerProtocolError if it does not begin with a greeting.
    """
    reader = FrameReader()
    frames = reader.read(shipment)
    if not isinstance(frames[0], Hello):
        raise PeerProtocolError(f"a connection requires Hello first; got {type(frames[0]).__name__}")
    return Greeting(frames[0].site, tuple(frames), reader)


class _Connection:
    """A link's connection: its number, its two contexts, and the frames that leave when the turn is over."""

    def __init__(self, number: int, reader: FrameReader) -> None:
        self.number = number
        self.reader = reader
        self.writer = FrameWriter()
        self.frames: list[Frame] = []
        self.framing = Framing()


class Stack:
    """One site with its links."""

    def __init__(
        self,
        cluster: str,
        site: str,
        peers: Iterable[str],
        tau_ms: int,
        session: int,
        streams: Sequence[LocalStream],
        limits: Limits,
        recovered: Recovered | None = None,
    ) -> None:
        about = encode_about(stream.info for stream in streams)
        me = Identity(cluster, tau_ms, site, session, about)
        self.site = Site(site, tau_ms, streams, limits, session, recovered)
        self.tau_ms = tau_ms
        self.limits = limits
        self.links = {peer: Link(me, peer, limits) for peer in sorted(peers)}
        self.site.watch_links(self.links, lambda peer: self.links[peer].backlog_bytes)
        self.bandwidths = {peer: BandwidthMeter() for peer in self.links}
        # A query asks before it runs, under another name.
        self.traffic = Traffic(2 * limits.ended_queries_max)
        #: For each link, what its parts that have not left yet are for.
        self._causes: dict[str, dict[int, Cause]] = {peer: {} for peer in self.links}
        self._connections: dict[str, _Connection] = {}
        self._out: list[Output] = []

    def handle(self, inputs: Iterable[Input], now_us: int) -> list[Output]:
        """Take what happened, in order; returns what to do, in order."""
        events: list[Event] = []
        for item in inputs:
            match item:
                case ConnectionOpened():
                    self._on_opened(item, now_us, events)
                case ConnectionClosed():
                    self._on_closed(item)
                case FrameArrived():
                    self._on_shipment(item, now_us, events)
                case TimePassed():
                    for link in self.links.values():
                        self._apply(link, link.tick(now_us), events)
                    events.append(ClockAdvanced())
                case _:
                    events.append(item)
        for effect in self.site.handle(events, now_us):
            self._pass_on(effect, events)
        # After all that was asked for in this turn: what others are told is durable before it leaves.
        for peer, connection in self._connections.items():
            self._flush(peer, connection)
        out, self._out = self._out, []
        return out

    def _pass_on(self, effect: Effect, events: list[Event]) -> None:
        match effect:
            case Send():
                self._send(self.links[effect.peer], effect, events)
            case KeepRecord():
                self._out.append(WriteRecords((record_out(effect.record),)))
            case RemoveRecord():
                self._out.append(WriteRecords((Delete(effect.kind, effect.query_id),)))
            case _:
                self._out.append(effect)

    @property
    def resting(self) -> bool:
        """Whether no query runs here: then nothing is due within a fraction of a second."""
        return not self.site.runs

    def _send(self, link: Link, effect: Send, events: list[Event]) -> None:
        first = link.next_part
        news = link.send(kind_of(effect.message), *encode_message(effect.message))
        causes = self._causes[link.peer]
        for number in range(first, link.next_part):
            causes[number] = effect.cause
        self._apply(link, news, events)

    def _on_opened(self, item: ConnectionOpened, now_us: int, events: list[Event]) -> None:
        link, greeting = self.links[item.peer], item.greeting
        # What was to leave on the one before waits in the link again.
        connection = _Connection(item.connection, greeting.reader if greeting is not None else FrameReader())
        self._connections[item.peer] = connection
        self.bandwidths[item.peer].interrupted()
        self._apply(link, link.opened(now_us), events)
        if greeting is not None:
            self._take(link, connection, greeting.frames, now_us, events)

    def _on_closed(self, item: ConnectionClosed) -> None:
        connection = self._connections.get(item.peer)
        if connection is not None and connection.number == item.connection:
            del self._connections[item.peer]
            self.links[item.peer].closed(item.reason)

    def _on_shipment(self, item: FrameArrived, now_us: int, events: list[Event]) -> None:
        connection = self._connections.get(item.peer)
        if connection is None or connection.number != item.connection:
            return
        link = self.links[item.peer]
        try:
            frames = connection.reader.read(item.shipment)
        except PeerProtocolError as error:
            self._close(link, str(error))
            return
        self._take(link, connection, frames, now_us, events)

    def _take(
        self, link: Link, connection: _Connection, frames: Iterable[Frame], now_us: int, events: list[Event]
    ) -> None:
        connection.framing.came_back()
        meter = self.bandwidths[link.peer]
        for frame in frames:
            self._apply(link, link.received(frame, now_us), events)
            if self._connections.get(link.peer) is not connection:
                return
            if isinstance(frame, Pong) and link.rtt_us is not None:
                events.append(LinkMeasured(link.peer, link.rtt_us, meter.bytes_per_s))
        meter.acknowledged(link.peer_expects, now_us, link.rtt_us)

    def _apply(self, link: Link, news: LinkNews, events: list[Event]) -> None:
        if news.peer_restarted:
            self._causes[link.peer].clear()
            events.append(PeerStateLost(link.peer, "the daemon was restarted and lost what it held"))
        try:
            if news.about is not None:
                events.append(PeerGreeted(link.peer, decode_about(news.about)))
            for _, packed in news.messages:
                events.append(MessageReceived(link.peer, decode_message(packed)))
        except PeerProtocolError as error:
            # The link has counted this message as received, so it will not come again.
            events.append(PeerStateLost(link.peer, f"sent what cannot be read: {error}"))
            news.close = str(error)
        if news.frames:
            self._connections[link.peer].frames += news.frames
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
        connection = self._connections.pop(link.peer, None)
        link.closed(reason)
        if connection is not None:
            self._flush(link.peer, connection)
            self._out.append(CloseConnection(link.peer, connection.number, reason))
