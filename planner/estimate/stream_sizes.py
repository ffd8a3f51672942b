"""The streams of a query by themselves: their rates, the length of their windows, and the keys in them.

A count window is taken to be as long as its tuples take to come. What has left a window is kept a little longer: until
the window's site hears that all who could see it are done.
"""

from __future__ import annotations

import numpy as np

from planner.algorithms.framing import NEWS_S
from planner.algorithms.step_stats import KeysStats
from planner.estimate.samples import member_of
from planner.estimate.statistics import HASH_END, KeySketch, Statistics
from planner.model.query import JoinQuery, RangeWindow

#: Batches of the stream until it is known that a batch is done; and the news of it may wait NEWS_S for a message that
#: takes it along (``node.core.queries.news``).
_DONE_BATCHES = 2.0


def kept_s(window_s: float, batch_s: float) -> float:
    """How long a tuple is kept, for a window of this length and batches so far apart."""
    return window_s + NEWS_S + _DONE_BATCHES * batch_s


class StreamSizes:
    """Figures of each stream, in the query's order; those of keys are remembered."""

    def __init__(self, query: JoinQuery, statistics: Statistics) -> None:
        self._query = query
        self._profiles = [statistics.profiles[alias] for alias in query.aliases]
        self._tau_s = statistics.tau_us / 1e6
        numbers = range(len(self._profiles))
        #: Tuples in a second, and from one batch to the next.
        self.rates = [profile.rate for profile in self._profiles]
        self.batches_s = [self._batch_s(number) for number in numbers]
        #: Of each window: seconds, the same until what has left it is forgotten, and tuples.
        self.windows_s = [self._window_s(number) for number in numbers]
        self.kept_s = [kept_s(self.windows_s[number], self.batches_s[number]) for number in numbers]
        self.windows = [max(1e-9, self.rates[number] * self.windows_s[number]) for number in numbers]
        self._keys: dict[tuple[int, tuple[str, ...], float], KeysStats] = {}

    def _window_s(self, number: int) -> float:
        window = self._query.streams[number].window
        if isinstance(window, RangeWindow):
            return window.length_us / 1e6
        return window.count / max(1e-9, self._profiles[number].rate)

    def _batch_s(self, number: int) -> float:
        """Event time between batches: a tick, or more when a recording is read in larger pieces."""
        profile = self._profiles[number]
        if profile.batch_rows <= 1 or profile.rate <= 0:
            return self._tau_s
        return max(self._tau_s, profile.batch_rows / profile.rate)

    def rows(self, number: int) -> float:
        """Tuples that were looked at."""
        return self._profiles[number].rows

    def span_s(self, number: int) -> float:
        """The time that was looked at."""
        return self._profiles[number].span_us / 1e6

    def sketch(self, number: int, names: tuple[str, ...]) -> KeySketch | None:
        """The sketch of these columns. Several columns are looked up in any order, as whoever made it chose."""
        keys = self._profiles[number].keys
        return keys.get(names) or next((keys[own] for own in keys if sorted(own) == sorted(names)), None)

    def keys(self, number: int, names: tuple[str, ...], length_s: float) -> KeysStats:
        """The different keys, by these columns, of a window of this length."""
        key = (number, names, length_s)
        if key not in self._keys:
            self._keys[key] = self._counted_keys(number, names, length_s)
        return self._keys[key]

    def _counted_keys(self, number: int, names: tuple[str, ...], length_s: float) -> KeysStats:
        """From their sketch; without one, by the columns alone, or else as if every tuple had a key of its own."""
        rate = self.rates[number]
        window = max(1e-9, rate * length_s)
        sketch = self.sketch(number, names)
        if sketch is not None:
            return _keys_of(sketch, self.span_s(number), length_s, rate)
        if len(names) == 1:
            return KeysStats(window, rate)
        parts = [self.keys(number, (name,), length_s) for name in names]
        alive = min(window, float(np.prod([part.alive for part in parts])))
        return KeysStats(alive, min(rate, max(*(part.born for part in parts), rate * alive / window)))


def _keys_of(sketch: KeySketch, span_s: float, window_s: float, rate: float) -> KeysStats:
    member, timed = member_of(sketch, span_s, window_s)
    share = sketch.limit / HASH_END * span_s
    alive = float(member.stays_s(timed).sum()) / share
    return KeysStats(min(alive, rate * window_s), min(rate, float(member.births(timed).sum()) / share))
