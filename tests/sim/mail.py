"""The messages that are under way between sites, as those see them: sent by one site, not yet given to the other."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from node.core.effects import Effect, Send
from node.core.events import Event, MessageReceived, PeerStateLost
from node.core.links.messages import Message
from node.core.site import Site

Way = tuple[str, str]


class MailError(AssertionError):
    """A link gave a site something else than what was sent next."""


class Mail:
    """Looks over the shoulders of all sites."""

    def __init__(self) -> None:
        self._under_way: defaultdict[Way, deque[Message]] = defaultdict(deque)
        #: Everything that was sent in the turn of a site.
        self.sent: list[Message] = []

    def watch(self, site: Site) -> None:
        """Note what a site is given and what it sends, from now on."""
        handle = site.handle

        def watched(events: Sequence[Event], now_us: int) -> list[Effect]:
            self.sent = []
            for event in events:
                if isinstance(event, MessageReceived):
                    self._received(event, site.name)
                elif isinstance(event, PeerStateLost):
                    self._under_way[site.name, event.peer].clear()
            effects = handle(events, now_us)
            for effect in effects:
                if isinstance(effect, Send):
                    self.sent.append(effect.message)
                    self._under_way[site.name, effect.peer].append(effect.message)
            return effects

        site.handle = watched  # type: ignore[method-assign]

    def _received(self, event: MessageReceived, site: str) -> None:
        under_way = self._under_way[event.peer, site]
        if not under_way or under_way[0] != event.message:
            expected = under_way[0] if under_way else "nothing"
            raise MailError(f"{site} required {expected} from {event.peer} next; got {event.message}")
        under_way.popleft()

    def lost(self, site: str) -> None:
        """The site was restarted: what it had sent is gone. What was sent to it goes when its peers notice."""
        for way in list(self._under_way):
            if way[0] == site:
                del self._under_way[way]

    def between(self, sender: str, receiver: str) -> deque[Message]:
        """What one site has sent to the other and that has not arrived, oldest first."""
        return self._under_way[sender, receiver]

    def everything(self) -> Iterator[Message]:
        for messages in self._under_way.values():
            yield from messages
