"""Since when things are as they are: noticed about once a second, for people who ask for the status.

Nothing here decides anything, so a second more or less does not matter. Times are given by the caller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping

#: Rates are taken over this long.
RATE_SPAN_S = 5.0
#: Moments that a lag remembers before it forgets every second one.
_MOMENTS_MAX = 600


class Since:
    """How long each thing has had its present value."""

    def __init__(self) -> None:
        #: By thing: its value, since when, and when it was last noted.
        self._values: dict[Hashable, tuple[object, float, float]] = {}

    def seconds(self, thing: Hashable, value: object, now_s: float) -> float:
        """Note the value; for how long it has been the same."""
        before = self._values.get(thing)
        began_s = now_s if before is None or before[0] != value else before[1]
        self._values[thing] = (value, began_s, now_s)
        return max(0.0, now_s - began_s)

    def forget_gone(self, now_s: float) -> None:
        """Things that were not noted now are no more: queries come and go as long as a daemon lives."""
        self._values = {thing: noted for thing, noted in self._values.items() if noted[2] >= now_s}


class Lag:
    """How long the oldest of numbered things waits, at least, that was made and is not yet taken."""

    def __init__(self) -> None:
        self._moments: list[tuple[float, int]] = []

    def note(self, made: int, now_s: float) -> None:
        """Now there are those with numbers below ``made``."""
        if self._moments and made < self._moments[-1][1]:
            # Numbers began anew.
            self._moments.clear()
        if not self._moments or made > self._moments[-1][1]:
            self._moments.append((now_s, made))
        if len(self._moments) > _MOMENTS_MAX:
            del self._moments[1::2]

    def seconds(self, taken: int, now_s: float) -> float:
        """Those with numbers below ``taken`` wait no more."""
        gone = next((at for at, (_, made) in enumerate(self._moments) if made > taken), len(self._moments))
        # The last is kept: what is noted next is compared with it.
        waiting = self._moments[gone:]
        self._moments = waiting or self._moments[-1:]
        return max(0.0, now_s - waiting[0][0]) if waiting else 0.0


class Rates:
    """How fast counts grow."""

    def __init__(self, span_s: float = RATE_SPAN_S) -> None:
        self._span_s = span_s
        self._moments: deque[tuple[float, Mapping[Hashable, int]]] = deque()

    def note(self, counts: Mapping[Hashable, int], now_s: float) -> None:
        """What they are now."""
        self._moments.append((now_s, counts))
        while now_s - self._moments[0][0] > self._span_s:
            self._moments.popleft()

    def grown(self, thing: Hashable, count: int) -> int:
        """By how much it has grown since the oldest moment that is remembered; one that began anew has grown by all."""
        before = self._moments[0][1].get(thing, 0) if self._moments else 0
        return count - before if count >= before else count

    def per_s(self, thing: Hashable, count: int, now_s: float) -> float:
        """By how much it grows in a second."""
        if not self._moments:
            return 0.0
        return self.grown(thing, count) / max(0.001, now_s - self._moments[0][0])
