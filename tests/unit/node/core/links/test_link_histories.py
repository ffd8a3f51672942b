"""Any history of two nodes: connections are cut, left, doubled and forged, daemons restart, sessions end.

The nodes are whole but for what a site does about its events: here it only counts. Ash dials bow. Everything is real
from the messages down to the bytes of a connection, and the lives that are written down.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.codec import FrameReader, FrameWriter, Shipment
from node.core.effects import Effect, Send
from node.core.events import Event, MessageReceived, PeerGreeted, PeerStateLost
from node.core.limits import Limits
from node.core.links.causes import Cause, Purpose
from node.core.links.link import PROTOCOL_VERSION
from node.core.links.link_frames import Hello, Kind, Refuse
from node.core.links.link_states import LinkState
from node.core.links.lives import Met, Session
from node.core.links.messages import Drop
from node.stack import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    LifeRemembered,
    RememberLife,
    SendFrame,
    Stack,
    TimePassed,
    greeting_of,
)
from node.wire import encode_about
from tests.examples import examples

MIB = 1 << 20
LIMITS = Limits(
    part_bytes_max=300,
    inflight_bytes_max=900,
    ack_bytes=500,
    ack_us=50_000,
    shipment_bytes_max=0,
    message_bytes_max=MIB,
    queue_bytes_max=MIB,
    ping_us=400_000,
    silence_us=1_000_000,
    answer_us=200_000,
)
PEER = {"ash": "bow", "bow": "ash"}
CAUSE = Cause("q", Purpose.CONTROL)
SITES = st.sampled_from(["ash", "bow"])


class Daemon:
    """One site in all its lives."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.life = 0
        #: The peer's lives that are on disk.
        self.durable: dict[str, Met] = {}
        self.writing: deque[RememberLife] = deque()
        self.start()

    def start(self) -> None:
        self.life += 10
        self.stack = Stack("c", self.site, [PEER[self.site]], 100, self.life, [], LIMITS, dict(self.durable))
        self.stack.site.handle = self.handle  # type: ignore[method-assign]
        self.link = self.stack.links[PEER[self.site]]
        self.writing.clear()
        #: Sessions that this life has lost, messages sent and received since.
        self.lost = 0
        self.sent = 0
        self.says: list[Send] = []
        self.got: dict[tuple[int, int], int] = defaultdict(int)
        #: In which of its sessions this life was up, by name.
        self.sessions: dict[Session, int] = {}

    def say(self, size: int) -> None:
        """Text that says who sends it, in which life, since which loss, and which number it has."""
        text = f"{self.life} {self.lost} {self.sent} ".ljust(size, "x")
        self.sent += 1
        self.says.append(Send(PEER[self.site], Drop(text), CAUSE))

    def handle(self, events: Sequence[Event], now_us: int) -> list[Effect]:
        for event in events:
            match event:
                case PeerStateLost():
                    self.lost += 1
                    self.sent = 0
                    self.says.clear()
                case PeerGreeted():
                    assert event.session is not None
                    known = self.sessions.setdefault(event.session, self.lost)
                    assert known == self.lost, "a session that is lost is over"
                case MessageReceived():
                    assert isinstance(event.message, Drop)
                    life, lost, number = map(int, event.message.query_id.split(" ")[:3])
                    assert number == self.got[life, lost], "every message once, in order"
                    self.got[life, lost] += 1
                case _:
                    pass
        says, self.says = self.says, []
        return list(says)


@dataclass
class Connection:
    """What is on its way on one connection, and which ends still believe in it. A stranger's has one end."""

    number: int
    on_way: dict[str, deque[Shipment]] = field(default_factory=lambda: {"ash": deque(), "bow": deque()})
    ends: set[str] = field(default_factory=set)
    whole: bool = True
    greeted: bool = False


class Histories(RuleBasedStateMachine):
    """Two daemons and a network that does its worst."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 1_000_000
        self.daemons = {site: Daemon(site) for site in PEER}
        self.connections: dict[int, Connection] = {}
        self.count = 0
        #: Which life of the receiver heard what a life of the sender said between two losses.
        self.audience: dict[tuple[str, int, int], tuple[int, int]] = {}

    # -- daemons

    @rule(site=SITES, size=st.integers(10, 2_000))
    def say(self, site: str, size: int) -> None:
        self.daemons[site].say(size)
        self.give(site)

    @rule(site=SITES)
    def say_more_than_may_wait(self, site: str) -> None:
        """With what follows the queue is too long; what was said after that, not knowing it, is not sent."""
        for size in (MIB // 2, MIB // 2, 10, 20):
            self.daemons[site].say(size)
        self.give(site)

    @rule(site=SITES)
    def say_what_cannot_be_read(self, site: str) -> None:
        daemon = self.daemons[site]
        daemon.stack._carry_out(daemon.link, daemon.link.send(Kind.CONTROL, b"\2\xff\xff"))
        daemon.sent = -1 << 40  # nothing after it arrives in this session
        self.give(site)

    @rule(site=SITES)
    def restart(self, site: str) -> None:
        self.daemons[site].start()
        for connection in self.connections.values():
            connection.ends.discard(site)
            connection.whole = False

    @rule(site=SITES)
    def write_down(self, site: str) -> None:
        daemon = self.daemons[site]
        if daemon.writing:
            effect = daemon.writing.popleft()
            daemon.durable[effect.peer] = max(effect.met, daemon.durable.get(effect.peer, Met()))
            self.give(site, LifeRemembered(effect.peer, effect.met))

    @rule(passed_us=st.sampled_from([1_000, 60_000, 210_000, 410_000]))
    def time_passes(self, passed_us: int) -> None:
        self.now_us += passed_us
        for site in PEER:
            self.give(site, TimePassed())

    # -- the network

    @rule(leaves=st.booleans())
    def dial(self, leaves: bool) -> None:
        """Ash dials; if it has a connection it leaves that, and bow may never hear of it."""
        for before in [one for one in self.connections.values() if "ash" in one.ends]:
            if not leaves:
                return
            before.ends.discard("ash")
            self.give("ash", ConnectionClosed("bow", before.number, "left"))
        connection = self.new()
        connection.ends.add("ash")
        self.give("ash", ConnectionOpened("bow", connection.number))

    @rule(kind=st.sampled_from(["cluster", "version", "for another", "old", "twin"]))
    def forge(self, kind: str) -> None:
        """A stranger greets bow as ash, says no more, and listens to nothing."""
        ash = self.daemons["ash"]
        hello = Hello(PROTOCOL_VERSION, "c", 100, "ash", "bow", ash.life, 0, 0, 1, encode_about([]))
        hello = {
            "cluster": replace(hello, cluster="d"),
            "version": replace(hello, version=PROTOCOL_VERSION - 1),
            "for another": replace(hello, peer="cam"),
            "old": replace(hello, life=max(0, self.daemons["bow"].link.met.life - 1)),
            "twin": hello,
        }[kind]
        connection = self.new()
        connection.whole = kind != "twin"
        (shipment,) = FrameWriter().write([hello])
        connection.on_way["bow"].append(shipment)
        before = self.current("bow")
        self.deliver_to("bow", connection)
        if kind != "twin":
            assert self.current("bow") == before, "who is refused replaces nobody"
            (answer,) = connection.on_way["ash"]
            assert [type(frame) for frame in FrameReader().read(answer)] == [Refuse]
            connection.whole = False

    @rule(number=st.integers(0, 3), site=SITES, count=st.integers(1, 6))
    def deliver(self, number: int, site: str, count: int) -> None:
        alive = [one for one in self.connections.values() if one.on_way[site]]
        if alive:
            for _ in range(count):
                self.deliver_to(site, alive[number % len(alive)])

    @rule(number=st.integers(0, 3), kept=st.integers(0, 3))
    def cut(self, number: int, kept: int) -> None:
        """A connection dies: of what is on its way only the beginning arrives, and its ends hear of it some time."""
        whole = [one for one in self.connections.values() if one.whole]
        if whole:
            connection = whole[number % len(whole)]
            connection.whole = False
            for site, shipments in connection.on_way.items():
                connection.on_way[site] = deque(list(shipments)[:kept])

    @rule(number=st.integers(0, 3), site=SITES, at=st.integers(0, 2))
    def swallow(self, number: int, site: str, at: int) -> None:
        """One shipment vanishes from a connection that lives on."""
        alive = [one for one in self.connections.values() if len(one.on_way[site]) > at]
        if alive:
            del alive[number % len(alive)].on_way[site][at]

    @rule(number=st.integers(0, 3), site=SITES)
    def notice(self, number: int, site: str) -> None:
        """An end hears that its connection is dead."""
        dead = [one for one in self.connections.values() if not one.whole and site in one.ends]
        if dead:
            connection = dead[number % len(dead)]
            connection.ends.discard(site)
            self.give(site, ConnectionClosed(PEER[site], connection.number, "cut"))

    # -- what that means

    def new(self) -> Connection:
        self.count += 1
        self.connections[self.count] = connection = Connection(self.count)
        return connection

    def current(self, site: str) -> int | None:
        connection = self.daemons[site].stack._connections.get(PEER[site])
        return connection.number if connection is not None else None

    def deliver_to(self, site: str, connection: Connection) -> None:
        shipments = connection.on_way[site]
        if not shipments:
            return
        shipment = shipments.popleft()
        if site == "bow" and not connection.greeted:
            connection.greeted = True
            connection.ends.add("bow")
            self.give("bow", ConnectionOpened("ash", connection.number, greeting_of(shipment)))
        elif site in connection.ends:
            self.give(site, FrameArrived(PEER[site], connection.number, shipment))

    def give(self, site: str, *inputs: Input) -> None:
        daemon = self.daemons[site]
        before = dict(daemon.got)
        for output in daemon.stack.handle(inputs, self.now_us):
            match output:
                case SendFrame():
                    connection = self.connections[output.connection]
                    if connection.whole and site in connection.ends:
                        connection.on_way[PEER[site]].append(output.shipment)
                case CloseConnection():
                    connection = self.connections[output.connection]
                    connection.ends.discard(site)
                    connection.whole = False
                case RememberLife():
                    daemon.writing.append(output)
                case _:
                    pass
        for heard in daemon.got.keys() - {key for key, count in before.items() if count == daemon.got[key]}:
            listener = daemon.life, daemon.lost
            assert self.audience.setdefault((PEER[site], *heard), listener) == listener, "one session, two listeners"

    @invariant()
    def who_is_up_has_its_peers_life_on_disk(self) -> None:
        for site, daemon in self.daemons.items():
            if daemon.link.state is LinkState.UP:
                session = daemon.link.session
                assert session is not None
                life = session.second_life if site == "ash" else session.first_life
                assert daemon.durable[PEER[site]].life >= life

    def teardown(self) -> None:
        """Once faults stop, both are up in one session, and what is said arrives."""
        for connection in self.connections.values():
            connection.whole = False
        self.heal(20)
        ash, bow = self.daemons["ash"], self.daemons["bow"]
        for _ in range(10):
            if ash.link.state is bow.link.state is LinkState.UP and not ash.link.backlog_bytes + bow.link.backlog_bytes:
                break
            self.heal(20)
        last = {site: (daemon.life, daemon.lost, daemon.sent) for site, daemon in self.daemons.items()}
        for site in PEER:
            self.say(site, 50)
        self.heal(20)
        assert ash.link.state is bow.link.state is LinkState.UP
        assert ash.link.session == bow.link.session
        for site, (life, lost, number) in last.items():
            assert self.daemons[PEER[site]].got[life, lost] == number + 1

    def heal(self, turns: int) -> None:
        """The network and the disks do what they should for so long."""
        for _ in range(turns):
            if not any("ash" in one.ends for one in self.connections.values()):
                self.dial(leaves=False)
            for site in PEER:
                self.write_down(site)
                self.notice(0, site)
                for connection in list(self.connections.values()):
                    for _ in range(3):
                        self.deliver_to(site, connection)
            self.time_passes(60_000)


Histories.TestCase.settings = examples(80, stateful_step_count=50)
TestAnyHistory = Histories.TestCase
