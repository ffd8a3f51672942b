"""What gRPC and HTTP/2 add to the messages of a plan, shared by those that leave together.

A site writes once per turn to each peer: what one batch makes it send to a peer is one shipment, however many
steps and copies it is for. A shipment costs the same however many messages are in it, more if something came the other
way since the one before. So what a message costs depends on the rest of the plan, and is known only for a plan as a
whole. News that nobody waits for rides on other messages (``node.core.queries.news``), or goes alone if there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import expm1

from planner.algorithms.http2 import WINDOW_UPDATE_BYTES, framing_bytes

#: What is added to a shipment that is not large; if something came the other way before it, WINDOW_UPDATE_BYTES more.
SHIPMENT_BYTES = float(framing_bytes(0))
#: What is added to the usual message, before a plan is known as a whole: others share its shipment, and something came.
FRAMING_BYTES = 0.625 * (SHIPMENT_BYTES + WINDOW_UPDATE_BYTES)
#: News that no other message takes along leaves alone when this many wait, or after this time; ``node.core.limits`` has
#: its limits from here.
NEWS_HELD = 32
NEWS_S = 1.0
#: How often the batches of two streams of a site are sealed in the same turn.
_SAME_TURN = 0.5


@dataclass(frozen=True, slots=True)
class Mail:
    """Messages of one kind from one site to another."""

    source: str
    target: str
    per_s: float
    #: The stream whose batches they go back to, and the sites that were at work on them since, in order.
    stream: str = ""
    path: tuple[str, ...] = ()
    #: Whether it is news that waits for other messages.
    news: bool = False


@dataclass(frozen=True, slots=True)
class Posted:
    """What becomes of mail: messages in a second, fewer than its news if several leave as one; and their framing."""

    messages: float = 0.0
    framing_bytes: float = 0.0


def posted(mails: Sequence[Mail], tick_s: float) -> list[Posted]:
    """What becomes of each, of everything that a plan sends."""
    links: dict[tuple[str, str], list[int]] = {}
    for place, mail in enumerate(mails):
        if mail.per_s > 0:
            links.setdefault((mail.source, mail.target), []).append(place)
    found = {link: _Link([mails[place] for place in places], tick_s) for link, places in links.items()}
    result = [Posted()] * len(mails)
    for (source, target), places in links.items():
        link, back = found[source, target], found.get((target, source))
        answered = 0.0 if back is None else min(1.0, back.shipments / link.shipments)
        shipment_bytes = SHIPMENT_BYTES + WINDOW_UPDATE_BYTES * answered
        for place in places:
            messages, shipments = link.shares(mails[place])
            result[place] = Posted(messages, shipments * shipment_bytes)
    return result


class _Link:
    """One direction of a link: how many shipments it carries in a second, and for whom."""

    def __init__(self, mails: Sequence[Mail], tick_s: float) -> None:
        turns: dict[tuple[str, ...], dict[str, list[float]]] = {}
        for mail in mails:
            if not mail.news:
                turns.setdefault(mail.path, {}).setdefault(mail.stream, []).append(mail.per_s)
        by_turn = {path: _shipments(list(streams.values()), tick_s) for path, streams in turns.items()}
        news = sum(mail.per_s for mail in mails if mail.news)
        self.shipments = max(sum(by_turn.values()), news / NEWS_HELD, min(news, 1 / NEWS_S))
        riding = sum(self._riding(mail) for mail in mails if mail.news)
        self._riding_each = riding / self.shipments
        messages = {path: sum(sum(rates) for rates in streams.values()) for path, streams in turns.items()}
        self._messages_each = {path: messages[path] / by_turn[path] for path in turns}
        self._all_each = (sum(messages.values()) + riding) / self.shipments

    def _riding(self, mail: Mail) -> float:
        """Messages of news: what has come since the shipment before leaves as one."""
        return self.shipments * -expm1(-mail.per_s / self.shipments)

    def shares(self, mail: Mail) -> tuple[float, float]:
        """Messages of this mail in a second, and how many shipments it pays."""
        if mail.news:
            messages = self._riding(mail)
            return messages, messages / self._all_each
        return mail.per_s, mail.per_s / (self._messages_each[mail.path] + self._riding_each)


def _shipments(streams: Sequence[Sequence[float]], tick_s: float) -> float:
    """Shipments in a second of messages that go back, by the same way, to batches of these streams."""
    each = [_any(min(1.0, rate * tick_s) for rate in rates) for rates in streams]
    together = _any(each)
    return (together + (1 - _SAME_TURN) * max(0.0, sum(each) - together)) / tick_s


def _any(shares: Iterable[float]) -> float:
    """The share of ticks that have any of them; not zero unless all are, however small they are."""
    found = 0.0
    for share in shares:
        found += share * (1 - found)
    return found
