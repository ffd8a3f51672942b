"""What a site says in a turn: effects for the world, and messages, which go to itself as to any other site."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from node.core.effects import Effect, IgnoreReason, NoteIgnored, Send
from node.core.limits import Limits
from node.core.links.causes import Cause, cause_of
from node.core.links.messages import Message, subject_of


class Outbox:
    """Shared by all parts of a site, so that what they ask for keeps its order. ``now_us`` is the time of the turn."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.now_us = 0
        #: The sites with which there are links; None if there is one with every site.
        self.peers: frozenset[str] | None = None
        #: How many bytes are on their way to a site, or wait for that.
        self.backlog_bytes: Callable[[str], int] = lambda _: 0
        #: Whether there is a connection with a site.
        self.is_up: Callable[[str], bool] = lambda _: True
        self._effects: list[Effect] = []
        self._here: deque[Message] = deque()

    def do(self, effect: Effect) -> None:
        """Ask the world for something, after what was asked before."""
        self._effects.append(effect)

    def send(self, peer: str, message: Message, cause: Cause | None = None) -> None:
        """Send a message, which may be to this very site. What it is for is seen from it, unless it is about a copy.

        A site may have left the configuration since a record named it: then there is nobody to hear it.
        """
        if peer == self.site:
            self._here.append(message)
        elif self.unlinked((peer,)):
            self.do(NoteIgnored(IgnoreReason.UNKNOWN_SITE, f"{subject_of(message)} for site {peer}"))
        else:
            self._effects.append(Send(peer, message, cause or cause_of(message)))

    def ignore(self, reason: IgnoreReason, message: Message) -> None:
        """Note that a message was set aside without harm."""
        self.do(NoteIgnored(reason, subject_of(message)))

    def unlinked(self, sites: Iterable[str]) -> list[str]:
        """Those of these sites to which nothing can be sent."""
        linked = self.peers
        return [] if linked is None else [site for site in sites if site != self.site and site not in linked]

    def away(self, sites: Iterable[str]) -> list[str]:
        """Those of these sites with which there is no connection."""
        return [site for site in sites if site != self.site and not self.is_up(site)]

    def sent_to(self) -> frozenset[str]:
        """The sites that get a message in this turn anyway."""
        return frozenset(effect.peer for effect in self._effects if isinstance(effect, Send))

    def messages_here(self) -> Iterator[Message]:
        """Messages from this site to itself, also those that come up meanwhile."""
        while self._here:
            yield self._here.popleft()

    def take_effects(self) -> list[Effect]:
        """What the turn asked of the world."""
        effects, self._effects = self._effects, []
        return effects


def too_large(message: Message, size: int, limits: Limits) -> str:
    """What is said of a message that no link takes."""
    return (
        f"{type(message).__name__} requires at most {limits.shipment_bytes_max} bytes; got {size}: "
        f"a smaller tau or window makes smaller batches"
    )
