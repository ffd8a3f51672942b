"""The link: every message once, in order, whatever happens to connections, frames and daemons."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from node.core.errors import LocalProtocolError
from node.core.limits import Limits
from node.core.links.link import PROTOCOL_VERSION, Identity, Link, LinkNews, LinkState
from node.core.links.link_frames import Ack, Frame, Hello, Kind, Packed, Part, Ping, Pong, Refuse
from tests.examples import examples

TINY = Limits(part_bytes_max=3, inflight_bytes_max=7, ack_bytes=4, ack_us=50, ping_us=2_000, silence_us=10_000)


def identity(site: str, session: int, **change: object) -> Identity:
    me = Identity("c", 100, site, session, f"about {site}".encode())
    return replace(me, **change)  # type: ignore[arg-type]


# -- any history ------------------------------------------------------------------------------


class Side:
    """One daemon in all its lives."""

    def __init__(self, site: str, peer: str) -> None:
        self.site = site
        self.peer = peer
        self.sessions = 0
        self.restart()

    def restart(self) -> None:
        self.sessions += 1
        #: No session is ever used twice, at either site.
        self.session = self.sessions * 2 + (self.site == "bow")
        self.link = Link(identity(self.site, self.session), self.peer, TINY)
        #: The connection it believes in.
        self.connection: int | None = None
        #: Messages since the peer is known to be in its present life: (session, epoch, number, size).
        self.epoch = 0
        self.sent = 0
        self.met: list[int] = []
        self.got: dict[tuple[int, int], int] = defaultdict(int)
        self.unacked: dict[int, int] = {}


class LossyLink(RuleBasedStateMachine):
    """Two links and a network that loses any suffix, or any part, of what is on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 1_000_000
        self.sides = {"ash": Side("ash", "bow"), "bow": Side("bow", "ash")}
        self.connection: int | None = None
        self.connections = 0
        #: What is on its way to a side: (connection, frame).
        self.on_way: dict[str, deque[tuple[int, Frame]]] = {"ash": deque(), "bow": deque()}
        #: Which life of the receiver an epoch of the sender was delivered to.
        self.audience: dict[tuple[int, int], int] = {}

    # -- what the world does

    @rule(side=st.sampled_from(["ash", "bow"]), size=st.integers(0, 20), kind=st.sampled_from(list(Kind)))
    def send(self, side: str, size: int, kind: Kind) -> None:
        me = self.sides[side]
        text = f"{me.session} {me.epoch} {me.sent} {int(kind)} ".encode()
        me.sent += 1
        self.take(me, me.link.send(kind, text + b"x" * size))

    @rule()
    def dial(self) -> None:
        """A new connection; what the old one still had on its way may arrive only where it is believed in."""
        self.connections += 1
        self.connection = self.connections

    @rule(side=st.sampled_from(["ash", "bow"]))
    def notice_the_new_connection(self, side: str) -> None:
        me = self.sides[side]
        if self.connection is not None and me.connection != self.connection:
            me.connection = self.connection
            me.unacked.clear()
            self.on_way[side] = deque(item for item in self.on_way[side] if item[0] == self.connection)
            self.take(me, me.link.opened(self.now_us))

    @rule(side=st.sampled_from(["ash", "bow"]))
    def notice_the_end(self, side: str) -> None:
        me = self.sides[side]
        if me.connection is not None and me.connection != self.connection:
            self.leave(me, "gone")

    @precondition(lambda self: self.connection is not None)
    @rule(side=st.sampled_from(["ash", "bow"]), kept=st.integers(0, 5), other_kept=st.integers(0, 5))
    def cut(self, side: str, kept: int, other_kept: int) -> None:
        """The connection dies: of what was on its way, only the beginning arrives."""
        self.connection = None
        for name, keep in ((side, kept), (self.sides[side].peer, other_kept)):
            self.on_way[name] = deque(list(self.on_way[name])[:keep])

    @rule(side=st.sampled_from(["ash", "bow"]), at=st.integers(0, 3))
    def swallow(self, side: str, at: int) -> None:
        """One frame vanishes from a connection that lives on."""
        if at < len(self.on_way[side]):
            del self.on_way[side][at]

    @rule(side=st.sampled_from(["ash", "bow"]), count=st.integers(1, 8))
    def deliver(self, side: str, count: int) -> None:
        for _ in range(min(count, len(self.on_way[side]))):
            connection, frame = self.on_way[side].popleft()
            if self.sides[side].connection == connection:
                self.receive(self.sides[side], frame)

    @rule(passed_us=st.sampled_from([1, 60, 2_000, 11_000]), side=st.sampled_from(["ash", "bow"]))
    def time_passes(self, passed_us: int, side: str) -> None:
        self.now_us += passed_us
        me = self.sides[side]
        self.take(me, me.link.tick(self.now_us))

    @rule(side=st.sampled_from(["ash", "bow"]))
    def kill(self, side: str) -> None:
        self.sides[side].restart()
        self.on_way[side].clear()
        self.connection = None

    # -- what must hold

    def receive(self, me: Side, frame: Frame) -> None:
        if isinstance(frame, Part | Ack):
            acked = frame.ack if isinstance(frame, Part) else frame.expects
            me.unacked = {seq: size for seq, size in me.unacked.items() if seq >= acked}
        news = me.link.received(frame, self.now_us)
        if isinstance(frame, Hello) and news.about is not None:
            restarted = bool(me.met) and me.met[-1] != frame.session
            assert news.peer_restarted == restarted  # once for each new life, and only then
            assert news.about == f"about {me.peer}".encode()
            if not me.met or restarted:
                assert frame.session not in me.met
                me.met.append(frame.session)
            if restarted:
                me.epoch += 1
                me.sent = 0
        else:
            assert not news.peer_restarted
        for kind, (payload, _) in news.messages:
            session, epoch, number, sent_as = map(int, payload.split(b" ")[:4])
            assert (session, sent_as) == (me.met[-1], kind)
            assert number == me.got[session, epoch], "every message once, in order"
            assert self.audience.setdefault((session, epoch), me.session) == me.session
            me.got[session, epoch] += 1
        self.take(me, news)

    def take(self, me: Side, news: LinkNews) -> None:
        if news.frames:
            assert me.connection is not None
        for frame in news.frames:
            if isinstance(frame, Part):
                assert len(frame.payload) <= TINY.part_bytes_max
                me.unacked[frame.seq] = len(frame.payload)
            if me.connection == self.connection:
                self.on_way[me.peer].append((self.connection or 0, frame))
        if news.close is not None:
            assert re.search(r"requires part \d+ next|requires Hello first|silent for", news.close), news.close
            self.leave(me, news.close)

    def leave(self, me: Side, reason: str) -> None:
        if me.connection == self.connection:
            self.connection = None
        me.connection = None
        me.unacked.clear()
        me.link.closed(reason)
        assert me.link.state is LinkState.DOWN

    @invariant()
    def what_flies_is_bounded(self) -> None:
        for me in self.sides.values():
            assert sum(me.unacked.values()) < TINY.inflight_bytes_max + TINY.part_bytes_max

    def teardown(self) -> None:
        """Once the network heals, everything that was sent in these lives arrives."""
        self.dial()
        for side in self.sides:
            self.notice_the_new_connection(side)
        for _ in range(2_000):
            if not any(self.on_way.values()) and not any(me.link.backlog_bytes for me in self.sides.values()):
                break
            for side in self.sides:
                self.deliver(side, 1)
                self.time_passes(30, side)
        for me in self.sides.values():
            assert me.link.state is LinkState.UP
            assert me.link.backlog_bytes == 0
            assert self.sides[me.peer].got.get((me.session, me.epoch), 0) == me.sent


LossyLink.TestCase.settings = examples(250, stateful_step_count=60)
TestAnyHistory = LossyLink.TestCase


# -- by hand ----------------------------------------------------------------------------------


class Pair:
    """Two links and a wire without faults, but for what a test does to it."""

    def __init__(self, limits: Limits = TINY) -> None:
        self.limits = limits
        self.now_us = 1_000_000
        self.links = {"ash": Link(identity("ash", 1), "bow", limits), "bow": Link(identity("bow", 2), "ash", limits)}
        self.got: dict[str, list[bytes]] = {"ash": [], "bow": []}
        self.closes: list[str] = []
        self.frames: list[Frame] = []
        self.on_way: deque[tuple[str, Frame]] = deque()
        #: Looks at each frame on its way to a site; None loses it.
        self.meddle: Callable[[str, Frame], Frame | None] = lambda _, frame: frame

    def connect(self) -> None:
        self.on_way.clear()
        for site, link in self.links.items():
            self.take(site, link.opened(self.now_us))
        self.run()

    def close(self) -> None:
        self.on_way.clear()
        for link in self.links.values():
            link.closed("cut")

    def send(self, site: str, payload: bytes, kind: Kind = Kind.CONTROL) -> None:
        self.take(site, self.links[site].send(kind, payload))
        self.run()

    def tick(self, passed_us: int) -> None:
        self.now_us += passed_us
        for site, link in self.links.items():
            self.take(site, link.tick(self.now_us))
        self.run()

    def run(self) -> None:
        while self.on_way:
            site, frame = self.on_way.popleft()
            changed = self.meddle(site, frame)
            if changed is not None:
                self.take(site, self.links[site].received(changed, self.now_us))

    def take(self, site: str, news: LinkNews) -> None:
        self.got[site] += [packed.payload for _, packed in news.messages]
        if news.close is not None:
            self.closes.append(news.close)
            self.close()
            return
        self.frames += news.frames
        self.on_way.extend(("bow" if site == "ash" else "ash", frame) for frame in news.frames)

    def meddle_once(self, change: Callable[[Part], Frame | None], seq: int) -> None:
        """Change part ``seq`` on its first way to bow."""

        def meddle(site: str, frame: Frame) -> Frame | None:
            if site == "bow" and isinstance(frame, Part) and frame.seq == seq:
                self.meddle = lambda _, later: later
                return change(frame)
            return frame

        self.meddle = meddle


def test_messages_sent_before_the_first_connection_wait_for_it() -> None:
    pair = Pair()
    pair.send("ash", b"early")
    assert pair.links["ash"].backlog_bytes == 5
    assert pair.links["ash"].state is LinkState.DOWN
    pair.connect()
    assert pair.got["bow"] == [b"early"]


def test_a_message_of_any_size_arrives_whole() -> None:
    pair = Pair()
    pair.connect()
    messages = [b"m" * size for size in range(12)]
    for message in messages:
        pair.send("ash", message)
        pair.tick(60)
    assert pair.got["bow"] == messages
    assert max(len(frame.payload) for frame in pair.frames if isinstance(frame, Part)) == TINY.part_bytes_max


def test_a_message_above_the_limit_is_our_own_fault() -> None:
    limits = Limits(shipment_bytes_max=0, message_bytes_max=1 << 20)
    link = Link(identity("ash", 1), "bow", limits)
    link.send(Kind.CONTROL, b"x" * (1 << 20))
    with pytest.raises(LocalProtocolError, match="link requires smaller messages; got 1048577"):
        link.send(Kind.CONTROL, b"x" * ((1 << 20) + 1))


def test_a_peer_that_sends_more_than_a_message_may_have_is_cut_off() -> None:
    limits = Limits(shipment_bytes_max=0, message_bytes_max=1 << 20)
    link = up(limits)
    payload = b"x" * (1 << 20)
    assert link.received(part(1, payload, more=True), 0).close is None
    news = link.received(part(2, b"y", more=False), 0)
    assert news.close == "bow broke the protocol: link requires messages of at most 1048576 bytes; got more"
    assert news.messages == []


def test_what_was_sent_and_not_acknowledged_is_repeated_and_delivered_once() -> None:
    pair = Pair()
    pair.connect()
    pair.meddle = lambda site, frame: None if site == "ash" else frame  # bow hears, ash does not
    pair.send("ash", b"ab")
    assert pair.got["bow"] == [b"ab"]
    pair.close()
    pair.meddle = lambda _, frame: frame
    pair.send("ash", b"cd")
    pair.connect()
    assert pair.got["bow"] == [b"ab", b"cd"]
    assert pair.links["ash"].reconnects == 1


def test_a_message_cut_in_the_middle_is_continued_not_repeated() -> None:
    #  parts   1 2 | cut | 3 4
    pair = Pair()
    pair.connect()
    pair.meddle = lambda site, frame: None if isinstance(frame, Part) and frame.seq > 2 else frame
    pair.send("ash", b"abcdefghij")
    pair.close()
    seen = len(pair.frames)
    pair.meddle = lambda _, frame: frame
    pair.connect()
    assert pair.got["bow"] == [b"abcdefghij"]
    assert [frame.seq for frame in pair.frames[seen:] if isinstance(frame, Part)] == [3, 4]
    assert pair.links["bow"].duplicates == 0


def test_a_repeated_part_is_counted_and_dropped() -> None:
    link = up()
    first = link.received(part(1, b"a"), 0)
    again = link.received(part(1, b"a"), 0)
    assert first.messages == [(Kind.CONTROL, Packed(b"a"))]
    assert (again.messages, again.close, link.duplicates) == ([], None, 1)


def test_sending_stops_when_enough_flies_and_goes_on_with_the_acknowledgement() -> None:
    link = up()
    parts = [frame for frame in link.send(Kind.CONTROL, b"x" * 30).frames if isinstance(frame, Part)]
    assert [frame.seq for frame in parts] == [1, 2, 3]  # 9 bytes: the last began below 7
    assert link.send(Kind.CONTROL, b"more").frames == []
    more = link.received(Ack(3), 0).frames
    assert [frame.seq for frame in more if isinstance(frame, Part)] == [4, 5]
    assert link.backlog_bytes == 30 - 6 + 4


def test_an_acknowledgement_goes_out_at_once_when_much_arrived() -> None:
    link = up()
    assert link.received(part(1, b"abc", more=True), 0).frames == []
    assert link.received(part(2, b"a"), 0).frames == [Ack(3)]


def test_an_acknowledgement_waits_a_little_for_a_message_to_ride_on() -> None:
    link = up()
    link.received(part(1, b"a"), 1_000)
    (ridden,) = link.send(Kind.TUPLES, b"z").frames
    assert isinstance(ridden, Part)
    assert ridden.ack == 2
    assert [frame for frame in link.tick(2_000).frames if isinstance(frame, Ack)] == []


def test_an_acknowledgement_goes_out_alone_when_nothing_comes() -> None:
    link = up()
    link.received(part(1, b"a"), 1_000)
    assert Ack(2) not in link.tick(1_049).frames
    assert Ack(2) in link.tick(1_050).frames
    assert Ack(2) not in link.tick(5_000).frames


def test_an_acknowledgement_of_what_was_never_sent_closes_the_link() -> None:
    link = up()
    link.send(Kind.CONTROL, b"a")
    news = link.received(Ack(3), 0)
    assert (
        news.close == "bow broke the protocol: link has sent parts up to 1; got an acknowledgement for 2"
    )  # and part 1 is still kept
    assert link.backlog_bytes == 1


@pytest.mark.parametrize("sent", [0, 1, 5])
def test_an_acknowledgement_of_what_was_never_sent_closes_the_link_also_when_nothing_flies(sent: int) -> None:
    link = up()
    for _ in range(sent):
        link.send(Kind.CONTROL, b"a")
    assert link.received(Ack(sent + 1), 0).close is None
    news = link.received(Ack(sent + 2), 0)
    assert news.close is not None
    assert f"link has sent parts up to {sent}; got an acknowledgement for {sent + 1}" in news.close


def test_an_old_acknowledgement_changes_nothing() -> None:
    link = up()
    link.send(Kind.CONTROL, b"abcdef")
    link.received(Ack(3), 0)
    assert link.received(Ack(1), 0).close is None
    assert link.backlog_bytes == 0


# -- gaps and order -----------------------------------------------------------------------------------


def test_a_lost_part_is_a_gap_that_the_next_connection_fills() -> None:
    pair = Pair()
    pair.connect()
    pair.meddle_once(lambda _: None, 1)
    pair.send("ash", b"abcdef")
    assert pair.closes == ["ash broke the protocol: link requires part 1 next; got 2"]
    pair.connect()
    assert pair.got["bow"] == [b"abcdef"]


@pytest.mark.parametrize("frame", [Ack(1), Ping(1), Pong(1), Part(1, Kind.CONTROL, False, b"", 1)])
def test_nothing_is_taken_before_the_greeting(frame: Frame) -> None:
    link = Link(identity("ash", 1), "bow", TINY)
    link.opened(0)
    news = link.received(frame, 0)
    assert news.close == f"bow broke the protocol: link requires Hello first; got {type(frame).__name__}"


def test_a_second_greeting_is_refused() -> None:
    link = up()
    assert link.received(hello(), 0).close == "bow broke the protocol: link requires one Hello; got a second"


def test_a_peer_that_wants_what_was_acknowledged_is_told_so() -> None:
    link = up()
    link.send(Kind.CONTROL, b"a")
    link.received(Ack(2), 0)
    link.closed("cut")
    link.opened(0)
    news = link.received(hello(peer_session=1, expects=1), 0)
    assert news.close == "bow broke the protocol: link keeps parts 2 to 2; the peer wants 1"


def test_a_peer_that_wants_what_was_never_made_is_told_so() -> None:
    link = Link(identity("ash", 1), "bow", TINY)
    link.opened(0)
    news = link.received(hello(peer_session=1, expects=5), 0)
    assert news.close == "bow broke the protocol: link keeps parts 1 to 1; the peer wants 5"


# -- greeting ---------------------------------------------------------------------------------


def test_a_greeting_says_who_where_and_what_is_expected() -> None:
    link = Link(identity("ash", 7), "bow", TINY)
    assert link.opened(0).frames == [Hello(PROTOCOL_VERSION, "c", 100, "ash", "bow", 7, 0, 1, b"about ash")]
    link.received(hello(session=9), 0)
    link.received(part(1, b"a"), 0)
    link.closed("cut")
    assert link.opened(0).frames == [Hello(PROTOCOL_VERSION, "c", 100, "ash", "bow", 7, 9, 2, b"about ash")]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 1}, f"site ash requires protocol version {PROTOCOL_VERSION}; got 1 from 'bow'"),
        ({"cluster": "other"}, "site ash requires cluster 'c'; got 'other' from 'bow'"),
        ({"tau_ms": 101}, "site ash requires tau in ms 100; got 101 from 'bow'"),
        ({"peer": "cam"}, "site ash requires a call for site 'ash'; got 'cam' from 'bow'"),
        ({"site": "cam"}, "site ash requires a call from site 'bow'; got 'cam' from 'cam'"),
    ],
)
def test_a_stranger_is_refused_and_told_why(change: dict[str, object], text: str) -> None:
    link = Link(identity("ash", 1), "bow", TINY)
    link.opened(0)
    news = link.received(replace(hello(), **change), 0)  # type: ignore[arg-type]
    assert news.frames == [Refuse(text)]
    assert news.close == f"refused: {text}"
    assert news.about is None
    link.closed(news.close)
    assert link.trouble == f"refused: {text}"
    assert link.state is LinkState.DOWN
    # The text stays while dialling goes on, until a greeting succeeds.
    link.opened(0)
    link.closed("connection reset")
    assert link.trouble == f"refused: {text}"
    link.opened(0)
    link.received(hello(), 0)
    assert link.trouble == ""


def test_a_refusal_from_the_peer_is_shown() -> None:
    link = Link(identity("ash", 1), "bow", TINY)
    link.opened(0)
    news = link.received(Refuse("site bow requires cluster 'd'; got 'c' from 'ash'"), 0)
    assert news.close == "refused by bow: site bow requires cluster 'd'; got 'c' from 'ash'"
    link.closed(news.close)
    assert link.trouble == news.close


def test_a_new_life_of_the_peer_is_reported_once_and_never_resumed() -> None:
    link = up(session=2)
    link.send(Kind.CONTROL, b"abcdefghijklm")
    link.received(part(1, b"abc", more=True), 0)  # half a message of the old life
    link.closed("cut")
    link.send(Kind.CONTROL, b"for the old life")
    link.opened(0)
    news = link.received(hello(session=4), 0)
    assert news.peer_restarted
    assert news.frames == []
    assert link.backlog_bytes == 0
    whole = link.received(part(1, b"new"), 0)
    assert whole.messages == [(Kind.CONTROL, Packed(b"new"))]
    (sent,) = link.send(Kind.CONTROL, b"hi").frames
    assert isinstance(sent, Part)
    assert (sent.seq, sent.ack) == (1, 2)
    link.closed("cut")
    link.opened(0)
    assert not link.received(hello(session=4, peer_session=1, expects=1), 0).peer_restarted


def test_our_own_new_life_starts_counting_at_one_whatever_the_peer_remembers() -> None:
    link = Link(identity("ash", 3), "bow", TINY)
    link.send(Kind.CONTROL, b"a")
    link.opened(0)
    news = link.received(hello(peer_session=1, expects=17), 0)
    assert not news.peer_restarted
    assert [frame.seq for frame in news.frames if isinstance(frame, Part)] == [1]


# -- time -------------------------------------------------------------------------------------


def test_round_trips_are_measured() -> None:
    link = up()
    assert up().rtt_us is None
    (ping,) = link.tick(5_000).frames
    assert ping == Ping(5_000)
    assert link.received(Pong(5_000), 5_750).frames == []
    assert link.rtt_us == 750
    assert link.tick(6_999).frames == []
    assert link.tick(7_000).frames == [Ping(7_000)]
    assert link.tick(9_000).frames == [Ping(9_000)]
    link.received(Pong(7_000), 9_500)
    assert link.rtt_us == 2_500


@pytest.mark.parametrize("answer", [Pong(-(2**63)), Pong(4_999), Pong(2**62)])
def test_an_answer_to_no_ping_is_not_believed(answer: Pong) -> None:
    """Round trips decide plans at other sites: what a peer makes up must not get there."""
    link = up()
    link.tick(5_000)
    assert link.received(answer, 5_750).close is not None
    assert link.rtt_us is None


def test_an_answer_counts_once_and_only_on_its_connection() -> None:
    link = up()
    link.tick(5_000)
    link.received(Pong(5_000), 5_750)
    assert link.received(Pong(5_000), 9_000).close is not None


@pytest.mark.parametrize(
    "second",
    [
        Part(2, Kind.CONTROL, True, b"", 1),
        Part(2, Kind.RESULTS, False, b"b", 1),
        Part(2, Kind.CONTROL, False, b"b", 1, (7,)),
    ],
)
def test_a_part_that_is_not_of_the_message_before_it_closes_the_connection(second: Part) -> None:
    link = up()
    assert link.received(Part(1, Kind.CONTROL, True, b"a", 1), 0).close is None
    assert link.received(second, 0).close is not None


def test_a_session_without_a_number_is_refused() -> None:
    """It could not be told from none, so that the peer's next life would not be noticed."""
    link = up()
    link.closed("for this test")
    link.opened(0)
    assert link.received(hello(session=0), 0).close is not None


def test_a_ping_is_answered_with_its_own_number() -> None:
    assert up().received(Ping(-42), 0).frames == [Pong(-42)]


def test_silence_is_noticed_after_its_time_and_any_frame_breaks_it() -> None:
    link = up()
    link.tick(9_000)
    assert link.tick(10_000).close is None
    link.received(Ping(1), 10_000)
    assert link.tick(20_000).close is None
    assert link.tick(20_001).close == "bow was silent for 0.0 s"


def test_silence_while_greeting_is_noticed_too() -> None:
    link = Link(identity("ash", 1), "bow", TINY)
    link.opened(0)
    assert link.tick(10_000).frames == []
    assert link.tick(10_001).close is not None


def test_time_means_nothing_to_a_link_that_is_down() -> None:
    link = Link(identity("ash", 1), "bow", TINY)
    news = link.tick(10**12)
    assert (news.frames, news.close) == ([], None)


def test_closing_twice_counts_once() -> None:
    link = up()
    link.closed("cut")
    link.closed("cut again")
    assert (link.reconnects, link.trouble) == (1, "cut")


# -- helpers ----------------------------------------------------------------------------------


def hello(session: int = 2, peer_session: int = 0, expects: int = 1) -> Hello:
    """What bow says."""
    return Hello(PROTOCOL_VERSION, "c", 100, "bow", "ash", session, peer_session, expects, b"about bow")


def part(seq: int, payload: bytes, more: bool = False) -> Part:
    return Part(seq, Kind.CONTROL, more, payload, 1)


def up(limits: Limits = TINY, session: int = 2) -> Link:
    """Ash's link with bow, greeted at time 0."""
    link = Link(identity("ash", 1), "bow", limits)
    link.opened(0)
    news = link.received(hello(session), 0)
    assert (news.about, news.close, link.state) == (b"about bow", None, LinkState.UP)
    return link
