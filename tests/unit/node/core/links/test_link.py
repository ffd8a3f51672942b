"""The link by hand: parts, greetings, sessions, time. Any history of two of them is in ``test_link_histories``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import pytest

from node.core.errors import LocalProtocolError, PeerRefusedError
from node.core.limits import Limits
from node.core.links.link import PROTOCOL_VERSION, Identity, Link, LinkNews
from node.core.links.link_frames import Ack, Frame, Hello, Kind, Packed, Part, Ping, Pong, Refuse
from node.core.links.link_states import LinkState
from node.core.links.lives import Met, Session

TINY = Limits(
    part_bytes_max=3, inflight_bytes_max=7, ack_bytes=4, ack_us=50, ping_us=2_000, silence_us=10_000, answer_us=3_000
)


def identity(site: str, life: int) -> Identity:
    return Identity("c", 100, site, life, f"about {site}".encode())


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
    assert news.lost == news.close
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


# -- sessions ---------------------------------------------------------------------------------


def test_a_peer_that_wants_what_was_acknowledged_is_met_in_a_new_session() -> None:
    """The link was wedged by this for good: "link keeps parts 2 to 2; the peer wants 1"."""
    link = up()
    link.send(Kind.CONTROL, b"a")
    link.received(Ack(2), 0)
    link.closed("cut")
    link.opened(0)
    news = link.received(hello(peer_life=1, expects=1), 0)
    assert news.close == "bow broke the protocol: link keeps parts 2 to 2; the peer wants 1"
    assert (news.lost, news.about) == (news.close, None)
    assert link.state is LinkState.DOWN
    # The peer hears of the reset, follows, and all is well.
    (greeting,) = link.opened(0).frames
    assert isinstance(greeting, Hello)
    assert (greeting.life, greeting.peer_life, greeting.resets, greeting.expects) == (1, 2, 1, 1)
    link.send(Kind.CONTROL, b"b")
    news = link.received(hello(peer_life=1, expects=1), 0)
    assert (news.lost, news.close, link.state) == (None, None, LinkState.UP)
    assert [frame.seq for frame in news.frames if isinstance(frame, Part)] == [1]
    assert link.session == Session(1, 2, 1)


@pytest.mark.parametrize(
    ("greeting", "text"),
    [
        # It has had more than was ever sent, or begins although it has had much.
        ({"peer_life": 1, "expects": 3}, "link keeps parts 1 to 2; the peer wants 3"),
        ({"peer_life": 0, "expects": 1}, "link has parts before 2; the peer begins the session"),
        # It knows of resets of which we do not, and has had parts since: nobody sent them.
        ({"peer_life": 1, "expects": 2, "resets": 4}, "link keeps parts 1 to 1; the peer wants 2"),
    ],
)
def test_numbers_that_do_not_fit_are_a_reset(greeting: dict[str, int], text: str) -> None:
    link = up()
    link.send(Kind.CONTROL, b"a")
    link.received(part(1, b"b"), 0)
    link.closed("cut")
    link.opened(0)
    news = link.received(hello(**greeting), 0)
    assert news.close == f"bow broke the protocol: {text}"
    assert news.lost is not None
    assert link.backlog_bytes == 0
    session = link.session
    assert session is not None
    assert session.resets == greeting.get("resets", 0) + 1


def test_who_never_met_the_peer_and_is_told_that_it_did_begins_anew() -> None:
    """Two daemons of a site had the same life: what the first one did is not ours."""
    link = Link(identity("ash", 1), "bow", TINY)
    link.send(Kind.CONTROL, b"abcdef")
    link.opened(0)
    news = link.received(hello(peer_life=1, expects=2), 0)
    assert news.close == "bow broke the protocol: link begins a session; the peer wants part 2"
    assert link.session == Session(1, 2, 1)


def test_a_reset_of_the_peer_is_followed() -> None:
    link = up()
    link.send(Kind.CONTROL, b"a")
    link.received(part(1, b"abc", more=True), 0)
    link.closed("cut")
    link.opened(0)
    news = link.received(hello(peer_life=1, resets=3), 0)
    assert (news.lost, news.close, news.frames) == ("it began the link anew", None, [])
    assert (link.session, link.backlog_bytes, link.state) == (Session(1, 2, 3), 0, LinkState.UP)
    assert link.received(part(1, b"new"), 0).messages == [(Kind.CONTROL, Packed(b"new"))]


def test_both_ends_may_reset_at_once_and_lose_one_session() -> None:
    pair = Pair()
    pair.connect()
    pair.send("ash", b"old")
    for site, link in pair.links.items():
        pair.take(site, link.reset("for this test"))
    pair.send("ash", b"new")
    pair.connect()
    assert pair.got["bow"] == [b"old", b"new"]
    assert [link.session for link in pair.links.values()] == [Session(1, 2, 1)] * 2
    assert [link.sessions_lost for link in pair.links.values()] == [1, 1]


def test_a_session_has_one_name_at_both_ends() -> None:
    pair = Pair()
    assert [link.session for link in pair.links.values()] == [None, None]
    pair.connect()
    assert [link.session for link in pair.links.values()] == [Session(1, 2, 0)] * 2


@pytest.mark.parametrize("state", list(LinkState))
def test_a_reset_ends_the_connection_and_counts_within_a_session_only(state: LinkState) -> None:
    link = in_state(state)
    link.send(Kind.CONTROL, b"a")
    news = link.reset("it went wrong")
    assert (news.lost, news.frames, link.state, link.backlog_bytes) == ("it went wrong", [], LinkState.DOWN, 0)
    assert news.close == (None if state is LinkState.DOWN else "it went wrong")
    assert link.session == (Session(1, 2, 1) if state is LinkState.UP else None)


def test_a_queue_that_is_too_long_is_given_up_with_the_session() -> None:
    limits = Limits(shipment_bytes_max=0, message_bytes_max=1 << 20, queue_bytes_max=3 << 20)
    for link in (up(limits), Link(identity("ash", 1), "bow", limits)):
        was_up = link.state is LinkState.UP
        for _ in range(3):
            assert link.send(Kind.CONTROL, bytes(1 << 20)).lost is None
        news = link.send(Kind.CONTROL, b"x")
        assert news.lost == "link requires at most 3145728 bytes that wait for bow; got 3145729"
        assert news.close == (news.lost if was_up else None)
        assert (link.backlog_bytes, link.next_part, link.state) == (0, 1, LinkState.DOWN)
        assert link.send(Kind.CONTROL, b"of the next session").lost is None


# -- lives ------------------------------------------------------------------------------------


def test_a_life_that_is_over_is_refused() -> None:
    link = up(life=5)
    link.closed("cut")
    link.opened(0)
    news = link.received(hello(life=4, peer_life=1), 0)
    text = (
        "site ash has met life 5 of site bow, and requires no earlier one; got life 4: an old data directory, or a "
        "daemon that another of its site has replaced"
    )
    assert news.frames == [Refuse(text)]
    assert (news.close, news.lost, news.about) == (f"refused: {text}", None, None)
    assert link.met.life == 5
    link.opened(0)
    assert link.received(hello(life=5, peer_life=1), 0).lost is None


def test_a_life_that_was_written_down_before_we_started_counts() -> None:
    link = Link(identity("ash", 1), "bow", TINY, met=Met(5))
    with pytest.raises(PeerRefusedError, match="has met life 5 of site bow"):
        link.check(hello(life=4))
    link.check(hello(life=5))
    link.check(hello(life=6))


def test_who_is_told_that_a_later_life_of_its_own_was_met_does_not_go_on() -> None:
    """The peer refuses us; were we up meanwhile, we would lose what we had with it in vain."""
    link = Link(identity("ash", 3), "bow", TINY)
    link.opened(0)
    news = link.received(hello(peer_life=4), 0)
    assert news.close is not None
    assert "site bow has met life 4 of site ash, and requires no earlier one; got life 3" in news.close
    assert link.state is LinkState.DOWN


@pytest.mark.parametrize("change", [{"life": 0}, {"life": 1 << 62}, {"resets": 1 << 62}])
def test_numbers_that_nobody_counted_to_are_refused(change: dict[str, int]) -> None:
    link = Link(identity("ash", 1), "bow", TINY)
    with pytest.raises(PeerRefusedError, match="requires a life above 0 and resets"):
        link.check(hello(**change))


def test_a_new_life_is_written_down_before_the_link_is_up() -> None:
    link = Link(identity("ash", 1), "bow", TINY, met=Met(1), remembers=True)
    link.send(Kind.CONTROL, b"hi")
    link.opened(0)
    news = link.received(hello(life=2), 0)
    assert (news.remember, news.about, news.frames, link.state) == (Met(2), None, [], LinkState.REMEMBERING)
    # What comes meanwhile is not lost, and not believed yet.
    assert link.received(part(1, b"early"), 0) == LinkNews([], [])
    assert link.received(Ping(7), 0) == LinkNews([], [])
    assert link.met.life == 1
    news = link.remembered(Met(2), 0)
    assert (link.state, link.met.life, news.about) == (LinkState.UP, 2, b"about bow")
    assert [type(frame) for frame in news.frames] == [Part, Ack, Pong]
    assert news.messages == [(Kind.CONTROL, Packed(b"early"))]


def test_a_life_that_could_not_be_written_down_is_asked_for_again() -> None:
    link = Link(identity("ash", 1), "bow", TINY, remembers=True)
    for _ in range(2):
        link.opened(0)
        assert link.received(hello(life=2), 0).remember == Met(2)
        link.closed("nothing came")
    # Written down at last, while there is no connection.
    assert link.remembered(Met(2), 0) == LinkNews([], [])
    link.opened(0)
    assert link.received(hello(life=2), 0).remember is None
    assert link.state is LinkState.UP


def test_a_life_that_was_written_down_for_an_earlier_connection_is_not_the_one_that_is_waited_for() -> None:
    link = Link(identity("ash", 1), "bow", TINY, remembers=True)
    link.opened(0)
    link.received(hello(life=2), 0)
    link.opened(0)
    assert link.received(hello(life=3), 0).remember == Met(3)
    assert link.remembered(Met(2), 0) == LinkNews([], [])
    assert link.state is LinkState.REMEMBERING
    assert link.remembered(Met(3), 0).about == b"about bow"


def test_what_was_held_while_a_life_was_written_down_and_is_wrong_closes_the_connection() -> None:
    link = Link(identity("ash", 1), "bow", TINY, remembers=True)
    link.opened(0)
    link.received(hello(life=2), 0)
    link.received(part(2, b"gap"), 0)
    link.received(part(1, b"a"), 0)
    news = link.remembered(Met(2), 0)
    assert news.close == "bow broke the protocol: link requires part 1 next; got 2"
    assert (news.messages, link.state) == ([], LinkState.DOWN)


# -- a second connection ----------------------------------------------------------------------


@pytest.mark.parametrize("state", list(LinkState))
def test_only_a_link_that_is_up_can_be_asked_whether_it_lives(state: LinkState) -> None:
    news = in_state(state).ask(7)
    assert news.frames == ([Ping(7)] if state is LinkState.UP else [])


def test_who_is_asked_says_what_has_come() -> None:
    link = up()
    link.received(part(1, b"a"), 0)
    assert link.received(Ping(5), 1).frames == [Pong(5), Ack(2)]
    assert link.received(Ping(6), 1).frames == [Pong(6)], "that was said"


def test_who_is_asked_has_its_time_to_answer_and_more_if_the_question_waits_behind_others() -> None:
    link = up()
    assert not link.owes_answer(1_000, 4_000)
    assert link.owes_answer(1_000, 4_001)
    link.send(Kind.CONTROL, b"a")
    assert not link.owes_answer(1_000, 11_000)
    assert link.owes_answer(1_000, 11_001)


@pytest.mark.parametrize("state", list(LinkState))
def test_who_was_turned_away_is_the_trouble_only_of_a_link_that_is_down(state: LinkState) -> None:
    link = in_state(state)
    link.turned_away("another cluster")
    assert (link.trouble == "refused: another cluster") == (state is LinkState.DOWN)


# -- greeting ---------------------------------------------------------------------------------


def test_a_greeting_says_who_where_and_what_is_expected() -> None:
    link = Link(identity("ash", 7), "bow", TINY)
    assert link.opened(0).frames == [Hello(PROTOCOL_VERSION, "c", 100, "ash", "bow", 7, 0, 0, 1, b"about ash")]
    link.received(hello(life=9), 0)
    link.received(part(1, b"a"), 0)
    link.closed("cut")
    assert link.opened(0).frames == [Hello(PROTOCOL_VERSION, "c", 100, "ash", "bow", 7, 9, 0, 2, b"about ash")]


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
    link = up(life=2)
    link.send(Kind.CONTROL, b"abcdefghijklm")
    link.received(part(1, b"abc", more=True), 0)  # half a message of the old life
    link.closed("cut")
    link.send(Kind.CONTROL, b"for the old life")
    link.opened(0)
    news = link.received(hello(life=4), 0)
    assert news.lost == "the daemon was restarted and lost what it held"
    assert news.frames == []
    assert link.backlog_bytes == 0
    whole = link.received(part(1, b"new"), 0)
    assert whole.messages == [(Kind.CONTROL, Packed(b"new"))]
    (sent,) = link.send(Kind.CONTROL, b"hi").frames
    assert isinstance(sent, Part)
    assert (sent.seq, sent.ack) == (1, 2)
    link.closed("cut")
    link.opened(0)
    assert link.received(hello(life=4, peer_life=1, expects=2), 0).lost is None


def test_our_own_new_life_starts_counting_at_one_whatever_the_peer_remembers() -> None:
    link = Link(identity("ash", 3), "bow", TINY)
    link.send(Kind.CONTROL, b"a")
    link.opened(0)
    news = link.received(hello(peer_life=1, expects=17, resets=3), 0)
    assert news.lost is None
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
    news = link.received(second, 0)
    # It would be the same on the next connection, and on all after it.
    assert news.close == news.lost is not None


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


def hello(life: int = 2, peer_life: int = 0, expects: int = 1, resets: int = 0) -> Hello:
    """What bow says."""
    return Hello(PROTOCOL_VERSION, "c", 100, "bow", "ash", life, peer_life, resets, expects, b"about bow")


def part(seq: int, payload: bytes, more: bool = False) -> Part:
    return Part(seq, Kind.CONTROL, more, payload, 1)


def up(limits: Limits = TINY, life: int = 2) -> Link:
    """Ash's link with bow, greeted at time 0."""
    link = Link(identity("ash", 1), "bow", limits)
    link.opened(0)
    news = link.received(hello(life), 0)
    assert (news.about, news.close, link.state) == (b"about bow", None, LinkState.UP)
    return link


def in_state(state: LinkState) -> Link:
    """Ash's link with bow in that state, at time 0."""
    link = Link(identity("ash", 1), "bow", TINY, remembers=True)
    if state is not LinkState.DOWN:
        link.opened(0)
    if state in (LinkState.REMEMBERING, LinkState.UP):
        link.received(hello(), 0)
    if state is LinkState.UP:
        link.remembered(Met(2), 0)
    assert link.state is state
    return link
