"""No message of a peer ends a daemon: not one that others have sent, nor one with something of others in it, ever."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import replace
from typing import Any

import pytest

from node.core.errors import PeerProtocolError
from node.core.events import ClockAdvanced
from node.core.links.messages import Fence, LeaseCopy, Message, Start
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.wire import decode_message, encode_message
from planner.model.beginning import BeginAt, Beginning
from planner.model.query import Algorithm
from tests.examples import some_of
from tests.oracle.oracle import Window
from tests.unit.sites import Cluster

SITES = ("ash", "bow", "cam")
STEPS = 80
WINDOWS: list[Window] = [("range", 30_000), ("rows", 3)]
#: What a number in a message may be, beside those of other messages.
NUMBERS = (TICK_MIN, -1, 0, 1, 2, 3, 8, TICK_END - 1, TICK_END)


class Meddled(Cluster):
    """A cluster in which sites also hear what nobody said to them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        # All of its logs: what a site that dies had read beyond them would have to be read again.
        super().__init__(window=self.draw.choice(WINDOWS), keep_whole=True)
        self.heard: list[Message] = []
        #: By name, what fields of messages had in them.
        self.values: dict[str, list[Any]] = {}
        self.ts = dict.fromkeys(self.infos, 5)
        self.issued = 0

    def deliver(self, sender: str, receiver: str, count: int = 1) -> Message:
        message = super().deliver(sender, receiver, count)
        self.heard.append(message)
        self._learn(message)
        return message

    def _learn(self, value: Any) -> None:
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            self.values.setdefault(field.name, []).append(part)
            if dataclasses.is_dataclass(part):
                self._learn(part)

    def step(self) -> None:
        """Something happens."""
        rare = [self._wait, self._lose, self._die]
        often = [self._issue, self._arrive, self._begin_again, self._replan]
        self.draw.choice([*rare, *2 * often, self._begin_again, *5 * [self._meddle], *8 * [self._go_on]])()

    def _issue(self) -> None:
        if self.issued < 3:
            self.issued += 1
            beginning = Beginning(self.draw.choice([BeginAt.START, BeginAt.NOW]), 0)
            self.issue(self.draw.choice(SITES), self.draw.choice([*Algorithm]), f"q{self.issued}", beginning)

    def _replan(self) -> None:
        if self.issued:
            sink = self.draw.choice(SITES)
            self.replan(sink, self.draw.choice([*Algorithm]), f"q{self.draw.randint(1, self.issued)}")

    def _arrive(self) -> None:
        for stream in [*self.reads][: self.draw.randint(1, 2)]:
            ts = [self.ts[stream] + place for place in range(self.draw.randint(0, 3))]
            self.ts[stream] += self.draw.choice([3, 10, 30])
            self.arrive(stream, *ts, ended=self.draw.random() < 0.05, watermark=self.ts[stream])

    def _wait(self) -> None:
        self.now_us += self.draw.choice([1_000, 1_000_000, 35_000_000, 61_000_000])
        for site in SITES:
            self.give(site, ClockAdvanced())

    def _lose(self) -> None:
        self.lose_session(*self.draw.sample(SITES, 2))

    def _die(self) -> None:
        self.restart(self.draw.choice(SITES))

    def _go_on(self) -> None:
        """Some of what is under way arrives."""
        for _ in range(self.draw.randint(1, 6)):
            pairs = [pair for pair, mail in self.mail.items() if mail]
            asked = [site for site, answers in self.answers.items() if answers]
            if pairs:
                self.deliver(*self.draw.choice(pairs))
            elif asked:
                self.answer(self.draw.choice(asked))

    def _begin_again(self) -> None:
        """A home has one site begin another generation, or something like that."""
        homes = [(site, home) for site in SITES for home in self.sites[site].homes.values() if home.sink is not None]
        if not homes:
            return
        site, home = self.draw.choice(homes)
        prepare = home.prepare()
        assert prepare.resumed is not None
        others = [other for other in SITES if other != site]
        receiver, generation = self.draw.choice(others), home.generation + self.draw.randint(0, 9)
        resumed = replace(prepare.resumed, is_alone=self.draw.random() < 0.5)
        said: list[tuple[str, Message]] = [
            (other, Fence(home.query_id, generation)) for other in SITES if other != receiver
        ]
        said.append((site, replace(prepare, generation=generation, resumed=resumed)))
        copies = self.sites[receiver].arrangements.owned
        said += [(one.peer, LeaseCopy(home.query_id, one.number, self.draw.randint(0, 2))) for one in copies.all]
        said += [(site, one) for one in self.heard if isinstance(one, Start) and one.query_id == home.query_id][-1:]
        for sender, message in said:
            if self.draw.random() < 0.9:
                self._say(sender, receiver, message)

    def _meddle(self) -> None:
        """A message that was heard is heard again, somewhere, and maybe with something else in it."""
        if self.heard:
            message = self.draw.choice(self.heard[-40:])
            if self.draw.random() < 0.8:
                message = self._altered(message)
            sender, receiver = self.draw.sample(SITES, 2)
            self._say(sender, receiver, message)

    def _altered(self, value: Any) -> Any:
        field = self.draw.choice(dataclasses.fields(value)).name
        old = getattr(value, field)
        if isinstance(old, bool):
            new: Any = not old
        elif isinstance(old, int):
            new = self.draw.choice([old - 1, old + 1, *NUMBERS, *self.values[field][-9:]])
        elif dataclasses.is_dataclass(old) and self.draw.random() < 0.5:
            new = self._altered(old)
        else:
            new = self.draw.choice(self.values[field])
        try:
            return replace(value, **{field: new})
        except Exception:
            return value

    def _say(self, sender: str, receiver: str, message: Message) -> None:
        try:
            packed = encode_message(message)
        except (ValueError, AttributeError, TypeError):
            # It cannot be said at all.
            return
        try:
            heard = decode_message(packed)
        except PeerProtocolError:
            # A link does not take it.
            return
        self.say(sender, receiver, heard)


@pytest.mark.parametrize("seed", range(some_of(50)))
def test_no_message_of_a_peer_ends_a_daemon(seed: int) -> None:
    cluster = Meddled(seed)
    for _ in range(STEPS):
        cluster.step()
