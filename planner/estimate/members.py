"""One stream on a sample of keys: how many of its tuples have each key, and when they came.

A key's tuples are taken to be spread evenly between its first and its last one; up to two are where they were, if they
were: those of a stream that is only expected (``planner.estimate.derived``), of which a key has parts, are anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.estimate.statistics import KeySketch

F64 = NDArray[np.float64]

#: Times that are looked at for each key.
POINTS = 4


@dataclass(frozen=True, slots=True)
class Member:
    """One stream on the sample: for each sampled key its count and its first and last time, in seconds."""

    counts: F64
    first: F64
    last: F64
    #: What was observed of the stream.
    begin: float
    end: float
    span_s: float
    window_s: float

    @property
    def uniform(self) -> bool:
        """Whether the window is longer than what was observed: then times say nothing about it."""
        return self.window_s >= self.span_s

    @property
    def few(self) -> NDArray[np.bool_]:
        """The keys of which it is known where each tuple was."""
        few: NDArray[np.bool_] = (self.counts <= 2) & (self.counts == np.floor(self.counts))
        return few

    def upto(self, times: F64) -> F64:
        """How many tuples of each key came until then. Up to two are where they were, more are spread evenly."""
        counts, first, last = self.counts[:, None], self.first[:, None], self.last[:, None]
        pace = self.pace()[:, None]
        place = (times - first) / np.where(pace > 0, pace, 1.0)
        inside = np.where(self.few[:, None], np.floor(place) + 1, place + 0.5)
        between = np.where(times >= last, counts, np.clip(inside, 0, counts))
        return np.where(times < first, 0.0, between)

    def spread(self, length_s: float) -> F64:
        """How many tuples of each key come in that time on average."""
        return self.counts[:, None] * (length_s / self.span_s)

    def before(self, times: F64) -> F64:
        """How many tuples of each key the window has at these times."""
        if self.uniform:
            return np.broadcast_to(self.spread(self.window_s), times.shape)
        known = np.clip(times - self.begin, self.span_s / 2, self.window_s)
        scale = np.where(known < self.window_s, self.window_s / known, 1.0)
        return (self.upto(times) - self.upto(times - self.window_s)) * scale

    def within(self, low: F64, high: F64) -> F64:
        """How many tuples of each key come after ``low`` and until ``high``."""
        return self.upto(high) - self.upto(low)

    def pace(self) -> F64:
        """Seconds between two tuples of each key."""
        return (self.last - self.first) / np.maximum(self.counts - 1, 1)

    def births(self, timed: bool) -> F64:
        """How often each key comes into the window, which did not have it, in the time that was observed."""
        per_s = self.counts / self.span_s
        if not timed or self.uniform:
            return self.counts * np.exp(-per_s * self.window_s)
        ever = np.minimum(self.counts, 1.0)
        # Before what was observed it may have come too.
        unseen = np.clip(self.window_s - (self.first - self.begin), 0.0, None)
        gap = np.maximum(self.pace(), 1e-9)
        again: F64 = np.where(self.few, 1.0 * (gap > self.window_s), np.exp(-self.window_s / gap))
        return ever * np.exp(-per_s * unseen) + np.maximum(self.counts - 1, 0) * again

    def stays_s(self, timed: bool) -> F64:
        """How long each key is in the window, in the time that was observed."""
        if not timed or self.uniform:
            return self.span_s * -np.expm1(-self.counts / self.span_s * self.window_s)
        return np.minimum(self.last - self.first + self.window_s, self.counts * self.window_s)

    def observed(self, times: F64) -> NDArray[np.bool_]:
        """Whether the window was observed whole, or nearly, at these times."""
        if self.uniform:
            return np.ones(times.shape, bool)
        slack = self.span_s / 50
        return (times >= self.begin + min(self.window_s, self.span_s / 2) - slack) & (times <= self.end + slack)

    def points(self) -> F64:
        """A few times at which a tuple of each key came."""
        steps = (np.arange(POINTS) + 0.5) / POINTS
        ends = np.where(steps < 0.5, 0.0, 1.0)
        shares = np.where(self.few[:, None], ends, steps)
        return self.first[:, None] + shares * (self.last - self.first)[:, None]


def member_at(
    sketch: KeySketch, keys: NDArray[np.uint64], origin: int, timed: bool, span_s: float, window_s: float
) -> Member:
    """A stream on the sample of these keys, which has all of its sketch; times are seconds from ``origin`` on."""
    places = np.searchsorted(keys, sketch.hashes)
    counts, first, last = np.zeros(len(keys)), np.zeros(len(keys)), np.zeros(len(keys))
    counts[places] = sketch.counts
    begin = end = 0.0
    if timed and sketch.first_us is not None and sketch.last_us is not None and len(sketch.hashes):
        first[places] = (sketch.first_us - origin) / 1e6
        last[places] = (sketch.last_us - origin) / 1e6
        begin, end = float(first[places].min()), float(last[places].max())
    return Member(counts, first, last, begin, end, span_s, window_s)
