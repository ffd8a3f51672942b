"""The link between two sites: every message once, in order, whatever happens to connections.

Messages are cut into numbered parts. The sender keeps a part until the peer has
acknowledged it; after a reconnect it repeats what the peer does not have yet.
The receiver takes only the next number: an earlier one is a repetition and is
dropped, a later one is a gap and closes the connection, whose successor fills it.

Both sides open with Hello. It names the session (one life of a daemon) each side
believes it is talking to, so a restarted peer is noticed and never resumed.

    DOWN --opened--> GREETING --Hello--> UP --closed--> DOWN
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from node.core.errors import PeerProtocolError, PeerRefusedError, invariant
from node.core.limits import Limits
from node.core.links.link_frames import Ack, Frame, Hello, Kind, Packed, Part, Ping, Pong, Refuse

#: Raised whenever two builds would not understand each other.
PROTOCOL_VERSION = 4


class LinkState(Enum):
    """Where a link stands."""

    DOWN = "down"
    GREETING = "greeting"
    UP = "up"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this daemon is to its peers."""

    cluster: str
    tau_ms: int
    site: str
    session: int
    about: bytes


@dataclass(slots=True)
class LinkNews:
    """What one call to a link led to, in order of kind."""

    frames: list[Frame]
    messages: list[tuple[Kind, Packed]]
    about: bytes | None = None
    peer_restarted: bool = False
    close: str | None = None


class Link:
    """One side of a link."""

    def __init__(self, me: Identity, peer: str, limits: Limits) -> None:
        self._me = me
        self.peer = peer
        self._limits = limits
        self.state = LinkState.DOWN
        #: Why it is down, for people.
        self.trouble = "not connected yet"
        #: One side has refused the other: that is why, not that the connection ended then.
        self._refused = False
        self.rtt_us: int | None = None
        self.duplicates = 0
        self.reconnects = 0
        #: Payload that the peer has acknowledged, ever.
        self.delivered_bytes = 0
        self._peer_session = 0
        self._seq_next = 1
        self._flying: deque[Part] = deque()
        self._flying_bytes = 0
        self._waiting: deque[Part] = deque()
        self._waiting_bytes = 0
        self._expects = 1
        #: What has come of a message: its parts, the kind and the numbers that the first one named.
        self._parts: list[bytes] = []
        self._kind: Kind | None = None
        self._numbers: tuple[int, ...] = ()
        self._parts_bytes = 0
        self._unacked_bytes = 0
        self._ack_due_us: int | None = None
        self._heard_at_us = 0
        self._pinged_at_us = 0
        #: When the pings left that are not answered, the oldest first.
        self._pings: deque[int] = deque()

    @property
    def backlog_bytes(self) -> int:
        """What the peer does not have yet."""
        return self._flying_bytes + self._waiting_bytes

    @property
    def next_part(self) -> int:
        """The number that the next part to be sent will have."""
        return self._seq_next

    @property
    def peer_expects(self) -> int:
        """The peer has acknowledged all parts before this one."""
        oldest = self._flying or self._waiting
        return oldest[0].seq if oldest else self._seq_next

    def silent_us(self, now_us: int) -> int:
        """For how long the peer was not heard; 0 without a connection."""
        return 0 if self.state is LinkState.DOWN else max(0, now_us - self._heard_at_us)

    # -- connection ---------------------------------------------------------------------------

    def opened(self, now_us: int) -> LinkNews:
        """A connection exists: greet. Whatever flew on the old one and was not acknowledged waits again."""
        self._ground()
        self._pings.clear()
        self.state = LinkState.GREETING
        self._heard_at_us = now_us
        me = self._me
        hello = Hello(
            PROTOCOL_VERSION,
            me.cluster,
            me.tau_ms,
            me.site,
            self.peer,
            me.session,
            self._peer_session,
            self._expects,
            me.about,
        )
        return LinkNews([hello], [])

    def closed(self, reason: str) -> None:
        """The connection is gone; messages wait for the next one."""
        if self.state is LinkState.DOWN:
            return
        if self.state is LinkState.UP:
            self.reconnects += 1
            self.trouble = reason
        elif not self._refused:
            self.trouble = reason
        self._ground()
        self.state = LinkState.DOWN

    def _ground(self) -> None:
        self._waiting.extendleft(reversed(self._flying))
        self._waiting_bytes += self._flying_bytes
        self._flying.clear()
        self._flying_bytes = 0
        self._ack_due_us = None
        self._unacked_bytes = 0

    # -- sending ------------------------------------------------------------------------------

    def send(self, kind: Kind, payload: bytes, numbers: tuple[int, ...] = ()) -> LinkNews:
        """Queue a message; the frames that may leave now."""
        invariant(len(payload) <= self._limits.message_bytes_max, f"link requires smaller messages; got {len(payload)}")
        size = self._limits.part_bytes_max
        for start in range(0, max(1, len(payload)), size):
            piece = payload[start : start + size]
            more = start + size < len(payload)
            self._waiting.append(Part(self._seq_next, kind, more, piece, 0, () if start else numbers))
            self._seq_next += 1
            self._waiting_bytes += len(piece)
        news = LinkNews([], [])
        self._pump(news)
        return news

    def _pump(self, news: LinkNews) -> None:
        if not self._waiting or self.state is not LinkState.UP:
            return
        while self._waiting and self._flying_bytes < self._limits.inflight_bytes_max:
            waiting = self._waiting.popleft()
            kind, more, payload = waiting.kind, waiting.more, waiting.payload
            part = Part(waiting.seq, kind, more, payload, self._acknowledge_now(), waiting.numbers)
            self._waiting_bytes -= len(part.payload)
            self._flying.append(part)
            self._flying_bytes += len(part.payload)
            news.frames.append(part)

    def _acknowledge_now(self) -> int:
        self._ack_due_us = None
        self._unacked_bytes = 0
        return self._expects

    # -- receiving ----------------------------------------------------------------------------

    def received(self, frame: Frame, now_us: int) -> LinkNews:
        """Take a frame of the current connection. What is wrong with it, if anything, closes the connection."""
        news = LinkNews([], [])
        self._heard_at_us = now_us
        try:
            self._receive(frame, now_us, news)
        except PeerRefusedError as error:
            self._refused = True
            self.trouble = f"refused: {error}"
            news.frames.append(Refuse(str(error)))
            news.close = self.trouble
        except PeerProtocolError as error:
            news.close = f"{self.peer} broke the protocol: {error}"
        return news

    def _receive(self, frame: Frame, now_us: int, news: LinkNews) -> None:
        if isinstance(frame, Refuse):
            self._refused = True
            self.trouble = f"refused by {self.peer}: {frame.reason}"
            news.close = self.trouble
        elif isinstance(frame, Hello):
            self._on_hello(frame, news)
        elif self.state is not LinkState.UP:
            raise PeerProtocolError(f"link requires Hello first; got {type(frame).__name__}")
        elif isinstance(frame, Part):
            self._on_ack(frame.ack)
            self._on_part(frame, now_us, news)
            self._pump(news)
        elif isinstance(frame, Ack):
            self._on_ack(frame.expects)
            self._pump(news)
        elif isinstance(frame, Ping):
            news.frames.append(Pong(frame.sent_at_us))
        else:
            self._on_pong(frame, now_us)

    def _on_pong(self, pong: Pong, now_us: int) -> None:
        """An answer to one of our pings; round trips that a peer makes up are not believed."""
        if pong.sent_at_us not in self._pings:
            raise PeerProtocolError(f"link requires an answer to one of its pings; got one to {pong.sent_at_us}")
        while self._pings.popleft() != pong.sent_at_us:
            pass
        self.rtt_us = max(0, now_us - pong.sent_at_us)

    def _on_hello(self, hello: Hello, news: LinkNews) -> None:
        if self.state is not LinkState.GREETING:
            raise PeerProtocolError("link requires one Hello; got a second")
        self._check_identity(hello)
        if hello.session != self._peer_session:
            news.peer_restarted = self._peer_session != 0
            self._meet(hello.session)
        # A peer that knew another life of ours counts in numbers that no longer mean anything.
        wanted = hello.expects if hello.peer_session == self._me.session else 1
        self._forget_before(wanted)
        self.state = LinkState.UP
        self.trouble = ""
        self._refused = False
        news.about = hello.about
        self._pump(news)

    def _check_identity(self, hello: Hello) -> None:
        me = self._me
        for what, required, got in (
            ("protocol version", PROTOCOL_VERSION, hello.version),
            ("cluster", me.cluster, hello.cluster),
            ("tau in ms", me.tau_ms, hello.tau_ms),
            ("a call for site", me.site, hello.peer),
            ("a call from site", self.peer, hello.site),
        ):
            if required != got:
                raise PeerRefusedError(f"site {me.site} requires {what} {required!r}; got {got!r} from {hello.site!r}")
        if not hello.session:
            raise PeerRefusedError(f"site {me.site} requires a session other than 0; got 0 from {hello.site!r}")

    def _meet(self, session: int) -> None:
        """Start over with a peer in a new life: what was meant for its old one means nothing to it."""
        if self._peer_session != 0:
            self._waiting.clear()
            self._waiting_bytes = 0
            self._seq_next = 1
        self._peer_session = session
        self._expects = 1
        self._parts.clear()
        self._parts_bytes = 0

    def _forget_before(self, wanted: int) -> None:
        oldest = self._waiting[0].seq if self._waiting else self._seq_next
        if not oldest <= wanted <= self._seq_next:
            raise PeerProtocolError(f"link keeps parts {oldest} to {self._seq_next}; the peer wants {wanted}")
        while self._waiting and self._waiting[0].seq < wanted:
            payload = self._waiting.popleft().payload
            self._waiting_bytes -= len(payload)
            self.delivered_bytes += len(payload)

    def _on_ack(self, expects: int) -> None:
        sent_next = self._flying[-1].seq + 1 if self._flying else self._seq_next
        if expects > sent_next:
            raise PeerProtocolError(
                f"link has sent parts up to {sent_next - 1}; got an acknowledgement for {expects - 1}"
            )
        while self._flying and self._flying[0].seq < expects:
            payload = self._flying.popleft().payload
            self._flying_bytes -= len(payload)
            self.delivered_bytes += len(payload)

    def _on_part(self, part: Part, now_us: int, news: LinkNews) -> None:
        if part.seq < self._expects:
            self.duplicates += 1
            return
        if part.seq > self._expects:
            raise PeerProtocolError(f"link requires part {self._expects} next; got {part.seq}")
        self._check_part(part)
        if not self._parts:
            self._kind, self._numbers = part.kind, part.numbers
        self._parts_bytes += len(part.payload)
        self._parts.append(part.payload)
        self._expects += 1
        if not part.more:
            payload = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            news.messages.append((part.kind, Packed(payload, self._numbers)))
            self._parts = []
            self._parts_bytes = 0
        self._unacked_bytes += len(part.payload)
        if self._unacked_bytes >= self._limits.ack_bytes:
            news.frames.append(Ack(self._acknowledge_now()))
        elif self._ack_due_us is None:
            self._ack_due_us = now_us + self._limits.ack_us

    def _check_part(self, part: Part) -> None:
        """Whether it can be the next of its message."""
        if self._parts_bytes + len(part.payload) > self._limits.message_bytes_max:
            raise PeerProtocolError(
                f"link requires messages of at most {self._limits.message_bytes_max} bytes; got more"
            )
        if part.more and not part.payload:
            raise PeerProtocolError("link requires bytes in each part of a message that goes on; got none")
        if self._parts and (part.kind is not self._kind or part.numbers):
            raise PeerProtocolError(f"link requires more of a message of kind {self._kind}; got the start of another")

    # -- time ---------------------------------------------------------------------------------

    def tick(self, now_us: int) -> LinkNews:
        """Time passed: acknowledge, measure, and give up on a connection that went silent."""
        news = LinkNews([], [])
        if self.state is LinkState.DOWN:
            return news
        if now_us - self._heard_at_us > self._limits.silence_us:
            news.close = f"{self.peer} was silent for {(now_us - self._heard_at_us) / 1e6:.1f} s"
            return news
        if self.state is not LinkState.UP:
            return news
        if self._ack_due_us is not None and now_us >= self._ack_due_us:
            news.frames.append(Ack(self._acknowledge_now()))
        if now_us - self._pinged_at_us >= self._limits.ping_us:
            self._pinged_at_us = now_us
            self._pings.append(now_us)
            news.frames.append(Ping(now_us))
        return news
