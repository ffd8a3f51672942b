"""The link between two sites: every message once, in order, whatever happens to connections.

Messages are cut into numbered parts. The sender keeps a part until the peer has acknowledged it; after a reconnect it
repeats what the peer does not have yet. The receiver takes only the next number: an earlier one is a repetition and is
dropped, a later one is a gap and closes the connection, whose successor fills it.

Both ends open with Hello, which names the session that they believe in (``node.core.links.lives``). From the two
greetings of a connection both find the same session: the lives of both, and the higher number of resets that either
knows for these lives. Whoever believed in another one has lost it, with all that waited for the peer.

Nothing that a peer was or did stops a link for good. What cannot be explained by a connection that was cut (a message
that cannot be read, numbers that do not fit, a queue that is too long) is a reset: one end begins the next session,
the other follows when they next meet, and both tell their site. A life that is over is never met again: a greeting
from one is refused.

What can happen in which state is in ``node.core.links.link_states``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from node.core.errors import PeerProtocolError, PeerRefusedError, invariant
from node.core.limits import Limits
from node.core.links.incoming import Incoming, UnfitPartError
from node.core.links.link_frames import Ack, Frame, Hello, Kind, Packed, Part, Ping, Pong, Refuse
from node.core.links.link_states import LinkEvent, LinkState, Reaction, step
from node.core.links.lives import NEVER_MET, Met, Session, knows_life
from node.core.links.outgoing import Outgoing

#: Raised whenever two builds would not understand each other.
PROTOCOL_VERSION = 7

#: Lives and resets are below this: a peer that counts higher is none of ours.
_COUNT_MAX = 1 << 62


class BrokenSessionError(PeerProtocolError):
    """The two ends do not agree on what was sent and received: no connection can mend that."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this daemon is to its peers."""

    cluster: str
    tau_ms: int
    site: str
    life: int
    about: bytes
    #: The life in which the site's folder was begun, 0: there is none; and those before this one in it, the latest.
    folder: int = 0
    lives: tuple[int, ...] = ()


@dataclass(slots=True)
class LinkNews:
    """What one call to a link led to, in order of kind."""

    frames: list[Frame]
    messages: list[tuple[Kind, Packed]]
    about: bytes | None = None
    #: The session is lost, and why: what the peer knew of ours is gone, and what was under way never arrives.
    lost: str | None = None
    #: Write this life of the peer down, and say so (``Link.remembered``): the link is not up before.
    remember: Met | None = None
    close: str | None = None


class Link:
    """One side of a link.

    ``met`` is the highest life of the peer that was ever met. With ``remembers`` somebody writes down each new
    one before the link is up with it; without, it is known as long as this object.
    """

    def __init__(
        self, me: Identity, peer: str, limits: Limits, *, met: Met = NEVER_MET, remembers: bool = False
    ) -> None:
        self._me = me
        self.peer = peer
        self._limits = limits
        self.met = met
        self._remembers = remembers
        self.state = LinkState.DOWN
        #: Why it is down, for people.
        self.trouble = "not connected yet"
        #: One side has refused the other: that is why, not that the connection ended then.
        self._refused = False
        self.rtt_us: int | None = None
        self.duplicates = 0
        self.reconnects = 0
        #: How often the two ends could not go on as they were and began again.
        self.sessions_lost = 0
        #: Payload that the peer has acknowledged, ever.
        self.delivered_bytes = 0
        #: The session: the peer's life in it, 0 before the first; resets; what is under way in it.
        self._peer_life = 0
        self._resets = 0
        self._out = Outgoing(limits)
        self._in = Incoming(limits)
        #: While a life is being written down: the greeting that named it, and what came after that.
        self._hello: Hello | None = None
        self._held: list[Frame] = []
        self._unacked_bytes = 0
        self._ack_due_us: int | None = None
        self._heard_at_us = 0
        self._pinged_at_us = 0
        #: When the pings left that are not answered, the oldest first.
        self._pings: deque[int] = deque()

    @property
    def session(self) -> Session | None:
        """The session with the peer, which knows it if the link is up; None before the first."""
        if not self._peer_life:
            return None
        first, second = self._me.life, self._peer_life
        if self.peer < self._me.site:
            first, second = second, first
        return Session(first, second, self._resets)

    @property
    def backlog_bytes(self) -> int:
        """What the peer does not have yet."""
        return self._out.nbytes

    @property
    def waiting_bytes(self) -> int:
        """What has not left yet, because so much is on its way or there is no connection."""
        return self._out.waiting_bytes

    @property
    def next_part(self) -> int:
        """The number that the next part to be sent will have."""
        return self._out.next_part

    @property
    def peer_expects(self) -> int:
        """The peer has acknowledged all parts before this one."""
        return self._out.oldest

    def silent_us(self, now_us: int) -> int:
        """For how long the peer was not heard; 0 without a connection."""
        return 0 if self.state is LinkState.DOWN else max(0, now_us - self._heard_at_us)

    # -- connection ---------------------------------------------------------------------------

    def opened(self, now_us: int) -> LinkNews:
        """A connection exists: greet. Whatever flew on the old one and was not acknowledged waits again."""
        _, self.state = step(self.state, LinkEvent.OPENED)
        self._ground()
        self._heard_at_us = now_us
        me = self._me
        hello = Hello(
            PROTOCOL_VERSION,
            me.cluster,
            me.tau_ms,
            me.site,
            self.peer,
            me.life,
            self._peer_life,
            self._resets,
            self._in.expects,
            me.about,
            me.folder,
            me.lives,
        )
        return LinkNews([hello], [])

    def closed(self, reason: str) -> None:
        """The connection is gone; messages wait for the next one."""
        before = self.state
        reaction, self.state = step(before, LinkEvent.CLOSED)
        if reaction is Reaction.LEAVE:
            self._leave(before, reason)

    def _leave(self, before: LinkState, reason: str) -> None:
        if before is LinkState.UP:
            self.reconnects += 1
            self.trouble = reason
        elif not self._refused:
            self.trouble = reason
        self._ground()

    def _ground(self) -> None:
        """Let go of all that belonged to a connection."""
        self._out.ground()
        self._pings.clear()
        self._hello = None
        self._held = []
        self._ack_due_us = None
        self._unacked_bytes = 0

    def ask(self, now_us: int) -> LinkNews:
        """Ask the connection there is to show that it lives, and the peer to say what it has."""
        return LinkNews([self._ping(now_us)] if self.state is LinkState.UP else [], [])

    def owes_answer(self, asked_at_us: int, now_us: int) -> bool:
        """Whether it has had its time to answer. A question waits behind what flies, so then it has until silence."""
        patience_us = self._limits.silence_us if self._out.flies else self._limits.answer_us
        return now_us - asked_at_us > patience_us

    def turned_away(self, reason: str) -> None:
        """Who greeted as the peer was refused: why there is no link, if there is none."""
        if self.state is LinkState.DOWN:
            self._refused = True
            self.trouble = f"refused: {reason}"

    def reset(self, reason: str) -> LinkNews:
        """What the two ends have in common cannot be relied on: begin another session, which the peer will follow."""
        news = LinkNews([], [])
        before = self.state
        _, self.state = step(before, LinkEvent.BROKEN)
        if before is not LinkState.DOWN:
            news.close = reason
            self._leave(before, reason)
        if self._peer_life:
            self._resets += 1
        self._lose(reason, news)
        return news

    def _lose(self, reason: str, news: LinkNews) -> None:
        news.lost = reason
        self.sessions_lost += 1
        self._out = Outgoing(self._limits)
        self._in = Incoming(self._limits)

    # -- sending ------------------------------------------------------------------------------

    def send(self, kind: Kind, payload: bytes, numbers: tuple[int, ...] = ()) -> LinkNews:
        """Queue a message; the frames that may leave now. A queue that is too long is given up, with the message."""
        invariant(len(payload) <= self._limits.message_bytes_max, f"link requires smaller messages; got {len(payload)}")
        if self._out.nbytes + len(payload) > self._limits.queue_bytes_max:
            most = f"link requires at most {self._limits.queue_bytes_max} bytes that wait for {self.peer}"
            return self.reset(f"{most}; got {self._out.nbytes + len(payload)}")
        reaction, _ = step(self.state, LinkEvent.MESSAGE)
        self._out.put(kind, payload, numbers)
        news = LinkNews([], [])
        if reaction is Reaction.SEND:
            news.frames += self._out.fly(self._acknowledge_now)
        return news

    def _acknowledge_now(self) -> int:
        self._ack_due_us = None
        self._unacked_bytes = 0
        return self._in.expects

    # -- receiving ----------------------------------------------------------------------------

    def received(self, frame: Frame, now_us: int) -> LinkNews:
        """Take a frame of the current connection. What is wrong with it, if anything, closes the connection."""
        news = LinkNews([], [])
        self._heard_at_us = now_us
        self._attempt(lambda: self._receive(frame, now_us, news), news)
        return news

    def remembered(self, met: Met, now_us: int) -> LinkNews:
        """A life of the peer is written down: what waited for that goes on."""
        news = LinkNews([], [])
        self.met = max(self.met, met)
        hello, held = self._hello, self._held
        if hello is not None and hello.life <= self.met.life:
            _, self.state = step(self.state, LinkEvent.REMEMBERED)
            self._hello, self._held = None, []
            self._attempt(lambda: self._meet(hello, news), news)
            for frame in held:
                if self.state is LinkState.UP:
                    self._attempt(lambda frame=frame: self._receive(frame, now_us, news), news)  # type: ignore[misc]
        return news

    def _attempt(self, take: Callable[[], None], news: LinkNews) -> None:
        try:
            take()
        except PeerRefusedError as error:
            news.frames.append(Refuse(str(error)))
            self._end_refused(f"refused: {error}", news)
        except (BrokenSessionError, UnfitPartError) as error:
            lost = self.reset(f"{self.peer} broke the protocol: {error}")
            news.lost, news.close, news.about = lost.lost, lost.close, None
        except PeerProtocolError as error:
            news.close = f"{self.peer} broke the protocol: {error}"
            self.closed(news.close)

    def _end_refused(self, trouble: str, news: LinkNews) -> None:
        self._refused = True
        news.close = trouble
        self.closed(trouble)
        self.trouble = trouble

    def _receive(self, frame: Frame, now_us: int, news: LinkNews) -> None:
        before = self.state
        if isinstance(frame, Hello):
            self._on_hello(frame, news)
            return
        event = LinkEvent.REFUSED if isinstance(frame, Refuse) else LinkEvent.FRAME
        reaction, _ = step(before, event, type(frame).__name__)
        if isinstance(frame, Refuse):
            self._end_refused(f"refused by {self.peer}: {frame.reason}", news)
        elif reaction is Reaction.HOLD:
            self._held.append(frame)
        elif isinstance(frame, Part):
            self.delivered_bytes += self._out.acknowledged(frame.ack)
            self._on_part(frame, now_us, news)
            news.frames += self._out.fly(self._acknowledge_now)
        elif isinstance(frame, Ack):
            self.delivered_bytes += self._out.acknowledged(frame.expects)
            news.frames += self._out.fly(self._acknowledge_now)
        elif isinstance(frame, Ping):
            news.frames.append(Pong(frame.sent_at_us))
            if self._ack_due_us is not None:
                # Who asks may wait for it to send more.
                news.frames.append(Ack(self._acknowledge_now()))
        else:
            self._on_pong(frame, now_us)

    def _on_pong(self, pong: Pong, now_us: int) -> None:
        """An answer to one of our pings; round trips that a peer makes up are not believed."""
        if pong.sent_at_us not in self._pings:
            raise PeerProtocolError(f"link requires an answer to one of its pings; got one to {pong.sent_at_us}")
        while self._pings.popleft() != pong.sent_at_us:
            pass
        self.rtt_us = max(0, now_us - pong.sent_at_us)

    def _on_part(self, part: Part, now_us: int, news: LinkNews) -> None:
        if self._in.is_known(part):
            self.duplicates += 1
            return
        message = self._in.take(part)
        if message is not None:
            news.messages.append((part.kind, message))
        self._unacked_bytes += len(part.payload)
        if self._unacked_bytes >= self._limits.ack_bytes:
            news.frames.append(Ack(self._acknowledge_now()))
        elif self._ack_due_us is None:
            self._ack_due_us = now_us + self._limits.ack_us

    # -- greeting -----------------------------------------------------------------------------

    def check(self, hello: Hello) -> None:
        """Whether who greets so may talk to us; changes nothing.

        Raises PeerRefusedError, which says why not.
        """
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
        if not (0 < hello.life < _COUNT_MAX and hello.resets < _COUNT_MAX):
            got_counts = f"{hello.life} and {hello.resets} from {hello.site!r}"
            raise PeerRefusedError(
                f"site {me.site} requires a life above 0 and resets that were counted; got {got_counts}"
            )
        _require_life(me.site, hello.site, self.met.life, hello.life)
        _require_life(hello.site, me.site, hello.peer_life, me.life)
        self._require_whole_folder(hello)

    def _require_whole_folder(self, hello: Hello) -> None:
        """Raises PeerRefusedError if the peer goes on with a folder that is older than what we have seen of it.

        However often that was started since: the life that we have met is none of its lives.
        """
        if not hello.folder or hello.folder != self.met.folder or hello.life <= self.met.life:
            return
        if not knows_life(hello.lives, self.met.life):
            met = f"site {self._me.site} has met life {self.met.life} of site {hello.site}"
            before = max((life for life in hello.lives if life < self.met.life), default=0)
            got = f"got life {hello.life} that goes on from life {before}: an old copy of the folder"
            raise PeerRefusedError(f"{met}, and requires its folder; {got} (narrows restore begins anew with a backup)")

    def _on_hello(self, hello: Hello, news: LinkNews) -> None:
        step(self.state, LinkEvent.GREETED, "a second")
        self.check(hello)
        if self._remembers and hello.life > self.met.life:
            _, self.state = step(self.state, LinkEvent.GREETED_ANEW)
            self._hello = hello
            news.remember = Met(hello.life, hello.folder)
            return
        _, self.state = step(self.state, LinkEvent.GREETED)
        self.met = Met(hello.life, hello.folder)
        self._meet(hello, news)

    def _meet(self, hello: Hello, news: LinkNews) -> None:
        """Agree on the session; both ends do this with the same two greetings, so they find the same."""
        knows_us = hello.peer_life == self._me.life
        resets = max(self._resets if hello.life == self._peer_life else 0, hello.resets if knows_us else 0)
        begun = (hello.life, resets) != (self._peer_life, self._resets)
        if begun:
            self._begin(hello.life, resets, news)
        knows_session = knows_us and hello.resets == resets
        self._check_numbers(hello.expects if knows_session else 1, begun, knows_session)
        self.delivered_bytes += self._out.resume(hello.expects if knows_session else 1)
        self.trouble = ""
        self._refused = False
        news.about = hello.about
        news.frames += self._out.fly(self._acknowledge_now)

    def _begin(self, life: int, resets: int, news: LinkNews) -> None:
        """Another session. What waits for a peer that we never met is for this one; else it was for the one before."""
        if self._peer_life:
            restarted = life != self._peer_life
            reason = "the daemon was restarted and lost what it held" if restarted else "it began the link anew"
            self._lose(reason, news)
        self._peer_life = life
        self._resets = resets

    def _check_numbers(self, wanted: int, begun: bool, knows_session: bool) -> None:
        """Whoever sees a session for the first time has sent and got nothing in it.

        Raises BrokenSessionError if that, or what was acknowledged, does not fit: two daemons that had the same life.
        """
        if not self._out.oldest <= wanted <= self._out.next_part:
            kept = f"parts {self._out.oldest} to {self._out.next_part}"
            raise BrokenSessionError(f"link keeps {kept}; the peer wants {wanted}")
        if begun and wanted != 1:
            raise BrokenSessionError(f"link begins a session; the peer wants part {wanted}")
        if not knows_session and self._in.expects != 1:
            raise BrokenSessionError(f"link has parts before {self._in.expects}; the peer begins the session")

    # -- time ---------------------------------------------------------------------------------

    def tick(self, now_us: int) -> LinkNews:
        """Time passed: acknowledge, measure, and give up on a connection that went silent."""
        news = LinkNews([], [])
        reaction, _ = step(self.state, LinkEvent.TIME)
        if reaction is Reaction.NOTHING:
            return news
        if now_us - self._heard_at_us > self._limits.silence_us:
            news.close = f"{self.peer} was silent for {(now_us - self._heard_at_us) / 1e6:.1f} s"
            self.closed(news.close)
        elif reaction is Reaction.TEND:
            if self._ack_due_us is not None and now_us >= self._ack_due_us:
                news.frames.append(Ack(self._acknowledge_now()))
            if now_us - self._pinged_at_us >= self._limits.ping_us:
                news.frames.append(self._ping(now_us))
        return news

    def _ping(self, now_us: int) -> Ping:
        self._pinged_at_us = now_us
        self._pings.append(now_us)
        return Ping(now_us)


def _require_life(site: str, other: str, seen: int, life: int) -> None:
    """Raises PeerRefusedError if ``site`` has met a later life of ``other`` than this."""
    if life < seen:
        got = f"got life {life}: an old data directory, or a daemon that another of its site has replaced"
        raise PeerRefusedError(f"site {site} has met life {seen} of site {other}, and requires no earlier one; {got}")
