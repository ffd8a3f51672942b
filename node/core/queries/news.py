"""Small news that nobody waits for: alone it would cost more framing than it says, so it leaves with other messages.

There are two kinds: walks that ended without rows (``Endings``, for the sink) and done frontiers (for
the sites). Both only let others forget and read on. So they leave with the next message to the same
site, or when enough of them are held, or after a while by the clock. None of that can stall a query:
what is held at a time is a small part of the batches that a source may be ahead, and the clock always comes.
"""

from __future__ import annotations

from dataclasses import dataclass

from node.core.limits import Limits
from node.core.queries.waiting import Walk
from node.core.streams.ticks import TICK_END, Span


@dataclass(slots=True)
class HeldNews:
    """How much news is held, and since when."""

    count: int = 0
    _since_us: int = 0

    def add(self, now_us: int) -> None:
        if not self.count:
            self._since_us = now_us
        self.count += 1

    def due(self, limits: Limits, now_us: int) -> bool:
        """Whether it must not wait any longer for company."""
        waited_us = now_us - self._since_us
        return self.count > 0 and (self.count >= limits.news_held or waited_us >= limits.news_us)


@dataclass(frozen=True, slots=True)
class Ending:
    """Walks of one head, one after the other, that gave no rows."""

    head: str
    span: Span
    sealed_at_us: int


class Endings:
    """Walks that ended without rows and of which the sink has not been told."""

    def __init__(self) -> None:
        self._held = HeldNews()
        self._walks: list[Ending] = []

    def __len__(self) -> int:
        return len(self._walks)

    def add(self, walk: Walk, now_us: int) -> None:
        self._walks.append(Ending(walk.head, walk.span, walk.sealed_at_us))
        self._held.add(now_us)

    def heads(self) -> tuple[str, ...]:
        """The heads of the walks that are held."""
        return tuple(dict.fromkeys(ending.head for ending in self._walks))

    def due(self, limits: Limits, now_us: int) -> bool:
        """Whether the sink must be told now; the end of a stream may be all it waits for."""
        return self._held.due(limits, now_us) or any(ending.span.end == TICK_END for ending in self._walks)

    def take(self) -> list[Ending]:
        """What to tell the sink: spans that touch are told as one."""
        walks, self._walks, self._held = self._walks, [], HeldNews()
        merged: list[Ending] = []
        for ending in sorted(walks, key=lambda walk: (walk.head, walk.span)):
            last = merged[-1] if merged else None
            if last is not None and last.head == ending.head and last.span.end == ending.span.first:
                newest_us = max(last.sealed_at_us, ending.sealed_at_us)
                merged[-1] = Ending(ending.head, Span(last.span.first, ending.span.end), newest_us)
            else:
                merged.append(ending)
        return merged
