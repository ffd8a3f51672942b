"""Which walks have come for a step from the other half: every tick at most once, and none that is done.

The batches of a head tile the axis of ticks, and a walk keeps the span of its batch on all its way. So of two spans
that overlap one is wrong. A half finds what it knows of a walk by the walk's first tick, which relies on this. Walks
may come in any order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from node.core.errors import PeerProtocolError
from node.core.streams.ticks import TICK_END, TICK_MIN, Span, tick_text


class SpanLedger:
    """The walks of one head that came for one step."""

    def __init__(self, who: str) -> None:
        """``who`` takes them, in words."""
        self._who = who
        #: The sink is done with all walks before this tick.
        self._done = TICK_MIN
        #: Those that came and are not done, in order.
        self._came: list[Span] = []

    def __len__(self) -> int:
        return len(self._came)

    def take(self, span: Span) -> None:
        """A walk comes.

        Raises PeerProtocolError if some of its ticks are done, or came before.
        """
        place = bisect_left(self._came, span)
        first = self._came[place - 1].end if place else self._done
        end = self._came[place].first if place < len(self._came) else TICK_END
        if span.first < first or span.end > end:
            ticks = f"ticks from {tick_text(self._done)} on, each once"
            raise PeerProtocolError(f"{self._who} requires walks of {ticks}; got {span}")
        self._came.insert(place, span)

    def done(self, tick: int) -> None:
        """The sink is done with all walks before this tick."""
        self._done = tick
        del self._came[: bisect_right(self._came, tick, key=lambda span: span.end)]
