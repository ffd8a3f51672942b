"""The messages that are under way between sites, as those see them: sent by one site, not yet given to the other."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from node.core.effects import Effect, Send
from node.core.events import Event, MessageReceived, PeerStateLost
from node.core.links.messages import FIRST_GENERATION, CopyMessage, Fence, Message
from node.core.site import Site

Way = tuple[str, str]


class MailError(AssertionError):
    """A link gave a site something else than what was sent next."""


class Mail:
    """Looks over the shoulders of all sites."""

    def __init__(self) -> None:
        self._under_way: defaultdict[Way, deque[Message]] = defaultdict(deque)
        #: The generations of those messages, as the fences before them say; and what the last fence said.
        self._generations: defaultdict[Way, deque[int]] = defaultdict(deque)
        self._fences: dict[tuple[Way, str], int] = {}
        #: What daemons had sent that are dead: some of it had arrived, and its link gives it to its site later.
        self._former: defaultdict[Way, deque[Message]] = defaultdict(deque)
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
                    self._forget((site.name, event.peer))
            effects = handle(events, now_us)
            for effect in effects:
                if isinstance(effect, Send):
                    self.sent.append(effect.message)
                    self._post((site.name, effect.peer), effect.message)
            return effects

        site.handle = watched  # type: ignore[method-assign]

    def _post(self, way: Way, message: Message) -> None:
        query_id = "" if isinstance(message, CopyMessage) else message.query_id
        if isinstance(message, Fence):
            self._fences[way, query_id] = message.generation
        self._under_way[way].append(message)
        self._generations[way].append(self._fences.get((way, query_id), FIRST_GENERATION))

    def _forget(self, way: Way) -> None:
        self._under_way[way].clear()
        self._generations[way].clear()
        self._fences = {place: generation for place, generation in self._fences.items() if place[0] != way}

    def _received(self, event: MessageReceived, site: str) -> None:
        under_way = self._under_way[event.peer, site]
        if (not under_way or under_way[0] != event.message) and self._was_sent(event, site):
            return
        if not under_way or under_way[0] != event.message:
            expected = under_way[0] if under_way else "nothing"
            raise MailError(f"{site} required {expected} from {event.peer} next; got {event.message}")
        under_way.popleft()
        self._generations[event.peer, site].popleft()

    def _was_sent(self, event: MessageReceived, site: str) -> bool:
        """Whether a daemon that is dead had sent this, and nothing behind it has come."""
        former = self._former[event.peer, site]
        if event.message not in former:
            return False
        while former.popleft() != event.message:
            pass
        return True

    def lost(self, site: str) -> None:
        """The site was restarted: what it had sent is gone. What was sent to it goes when its peers notice."""
        for way in list(self._under_way):
            if way[0] == site:
                self._former[way] += self._under_way[way]
                self._forget(way)

    def between(self, sender: str, receiver: str) -> deque[Message]:
        """What one site has sent to the other and that has not arrived, oldest first."""
        return self._under_way[sender, receiver]

    def everything(self) -> Iterator[tuple[Message, int]]:
        """All that is under way, each with the generation of its query that it belongs to."""
        for way, messages in self._under_way.items():
            yield from zip(messages, self._generations[way], strict=True)
