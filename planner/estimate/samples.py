"""Streams that are joined by the same key, on the sample of keys that their sketches have in common.

What any subset of them joins to is then a sum over sampled keys, with no assumption that streams are
independent: gateways that hear the same frame are not. If sketches do not know times, or do not cover the same time, a
key's tuples are taken to be spread over the whole profile.

A head's tuple at time t sees of another stream what came in the window's length before t. So sums run over
a few such times for each key of the head. Times at which a window was not yet observed whole are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from planner.estimate.members import F64, POINTS, Member, member_at
from planner.estimate.sketches import below
from planner.estimate.statistics import HASH_END, KeySketch

#: How many matches there are taken to be among sampled tuples that have none: not one, or it would have been seen.
UNSEEN = 0.25
#: If less than this share of a head's tuples came when the windows were observed, times say nothing.
_OBSERVED_MIN = 0.05
#: Sums of some sets are needed again and again, but all of them would be too much to keep.
_KEPT_MAX = 64


@dataclass(frozen=True, slots=True)
class Joined:
    """A head's tuples, or a time, joined with windows of some of the streams, key by key.

    Each sampled key stands for ``1 / share`` keys.
    """

    #: Expected combinations for each key: for one tuple of that key of the head, or at one time.
    combos: F64
    #: Share of the head's tuples of that key that find all of the others.
    found: F64
    #: How much each key counts: the head's tuples that were looked at, or the seconds the key lives.
    weight: F64
    #: Seconds from the first to the last time at which the key is there.
    life_s: F64

    @property
    def found_share(self) -> float:
        """The share of the head's tuples that find all of the others."""
        weight = float(self.weight.sum())
        return float((self.weight * self.found).sum()) / weight if weight > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a stream is asked for by keys: shares of its tuples, and keys in a second."""

    #: While they are in the window (W').
    reduced: float = 0.0
    #: With all that have the same key, as long as that is in the window without a break (M).
    mixed: float = 0.0
    #: How often a key is asked for that was not in M.
    fetched_keys: float = 0.0


@dataclass(frozen=True, slots=True)
class _Chances:
    """For each key: how much it counts, and the chances that a tuple of the head comes in time for its tuples."""

    weight: F64
    sent: F64
    kept: F64


@dataclass(slots=True)
class KeySample:
    """The streams of one group of key columns."""

    members: Mapping[str, Member]
    #: The sampled keys: all that any of the streams has with a hash below ``limit``.
    hashes: NDArray[np.uint64]
    limit: int
    timed: bool
    #: The moment from which seconds are counted.
    origin_us: int
    _points: dict[str, F64] = field(init=False, default_factory=dict)
    _seen: dict[tuple[str, str], F64] = field(init=False, default_factory=dict)
    _joined: dict[tuple[str | None, tuple[str, ...]], Joined] = field(init=False, default_factory=dict)
    _chances: dict[tuple[str, str], _Chances | None] = field(init=False, default_factory=dict)
    _births: dict[str, F64] = field(init=False, default_factory=dict)

    @property
    def share(self) -> float:
        """Of all keys, those that are sampled."""
        return self.limit / HASH_END

    def head_joined(self, head: str, others: tuple[str, ...]) -> Joined:
        """A head's tuples with the windows of ``others``, all of this group."""
        return self._remember(head, others, lambda: self._from_head(head, others))

    def windows_joined(self, aliases: tuple[str, ...]) -> Joined:
        """The windows of these streams with each other, at any time: what the head joins by is something else."""
        return self._remember(None, aliases, lambda: self._at_any_time(aliases))

    def _remember(self, head: str | None, others: tuple[str, ...], make: Callable[[], Joined]) -> Joined:
        found = self._joined.get((head, others))
        if found is None:
            if len(self._joined) >= _KEPT_MAX:
                del self._joined[next(iter(self._joined))]
            found = self._joined[head, others] = make()
        return found

    def points_of(self, alias: str) -> F64:
        """Times of tuples of each key of a stream."""
        if alias not in self._points:
            member = self.members[alias]
            self._points[alias] = member.points() if self.timed else np.zeros((len(member.counts), 1))
        return self._points[alias]

    def seen(self, head: str, alias: str) -> F64:
        """How many tuples a window has of each key when a tuple of the head with that key comes."""
        if (head, alias) not in self._seen:
            member, times = self.members[alias], self.points_of(head)
            self._seen[head, alias] = member.before(times) if self.timed else member.spread(member.window_s)
        return self._seen[head, alias]

    def present(self, alias: str, expected: F64) -> F64:
        """The chance that there is a tuple of each key where ``expected`` are expected."""
        few = self.members[alias].few[:, None]
        return np.where(few & self.timed, np.minimum(expected, 1.0), -np.expm1(-expected))

    def asked_by_head(self, head: str, alias: str, asking: F64) -> Asked:
        """What the head's tuples ask for; ``asking`` is, for each key, the share of them that get to ask."""
        asker, member = self.members[head], self.members[alias]
        if (head, alias) not in self._chances:
            self._chances[head, alias] = self._chances_of(head, alias)
        chances = self._chances[head, alias]
        if chances is None:
            length = np.full_like(asking, member.window_s)
            return self.asked_at_rate(alias, asker.counts / asker.span_s * asking, length)
        return self._asked(alias, chances.weight, chances.sent * asking, chances.kept * asking)

    def _chances_of(self, head: str, alias: str) -> _Chances | None:
        """None where times say nothing."""
        asker, member = self.members[head], self.members[alias]
        length, total = member.window_s, float(member.counts.sum())
        times = self.points_of(alias)
        observed = times + length <= asker.end + asker.span_s / 50
        known = (member.counts[:, None] * observed).sum() >= _OBSERVED_MIN * times.shape[1] * total
        if not self.timed or length >= asker.span_s or not known or total <= 0:
            return None
        looked = observed.sum(axis=1)
        chance = self.present(head, asker.within(times, times + length)) * observed
        sent = chance.sum(axis=1) / np.maximum(looked, 1)
        in_life = asker.within((member.first - 1e-6)[:, None], (member.last + length)[:, None])
        kept = np.where(member.pace() <= length, np.maximum(self.present(head, in_life)[:, 0], sent), sent)
        return _Chances(member.counts * looked, sent, kept)

    def asked_at_rate(self, alias: str, asks_per_s: F64, length_s: F64) -> Asked:
        """What is asked for if keys are asked for at a rate, at any time; their tuples are there for ``length_s``."""
        member = self.members[alias]
        rate = np.maximum(member.counts / member.span_s, 1e-12)
        alive = np.minimum(member.span_s, np.expm1(np.minimum(rate * member.window_s, 50.0)) / rate)
        sent, kept = (-np.expm1(-asks_per_s * time) for time in (length_s, np.maximum(alive, length_s)))
        return self._asked(alias, member.counts, sent, kept)

    def _asked(self, alias: str, weight: F64, sent: F64, kept: F64) -> Asked:
        total, member = float(weight.sum()), self.members[alias]
        if total <= 0:
            return Asked()
        reduced = float((weight * sent).sum() / total)
        mixed = max(reduced, float((weight * kept).sum() / total))
        if alias not in self._births:
            self._births[alias] = np.where(member.counts > 0, member.births(self.timed), 0.0)
        return Asked(reduced, mixed, float((self._births[alias] * kept).sum()) / self.share / member.span_s)

    def _from_head(self, head: str, others: tuple[str, ...]) -> Joined:
        member, times = self.members[head], self.points_of(head)
        combos, found = np.ones_like(times), np.ones_like(times)
        observed = np.ones(times.shape, bool)
        for alias in others:
            seen = self.seen(head, alias)
            combos = combos * seen
            found = found * self.present(alias, seen)
            if self.timed:
                observed = observed & self.members[alias].observed(times)
        share = observed.mean(axis=1)
        if (member.counts * share).sum() < _OBSERVED_MIN * member.counts.sum():
            return _evenly_spread([self.members[alias] for alias in others], member.counts, member.span_s)
        known = np.maximum(observed.sum(axis=1), 1)
        combos_mean, found_mean = ((each * observed).sum(axis=1) / known for each in (combos, found))
        life = member.last - member.first if self.timed else np.full(len(member.counts), member.span_s)
        return Joined(combos_mean, found_mean, member.counts * share, life)

    def _at_any_time(self, aliases: tuple[str, ...]) -> Joined:
        members = [self.members[alias] for alias in aliases]
        placed = [member for member in members if not member.uniform] if self.timed else []
        present = np.all([member.counts > 0 for member in members], axis=0)
        if not placed:
            return _evenly_spread(members, np.ones(len(present)), min(member.span_s for member in members))
        low = np.max([member.first for member in placed], axis=0)
        high = np.min([member.last + member.window_s for member in placed], axis=0)
        observed = min(member.end for member in placed) - max(member.begin for member in placed)
        span = observed if observed > 0 else min(member.span_s for member in placed)
        length = np.where(present, np.clip(high - low, 0.0, None), 0.0)
        times = low[:, None] + (np.arange(POINTS) + 0.5) / POINTS * length[:, None]
        combos = np.ones_like(times)
        for member in members:
            inside = member.upto(times) - member.upto(times - member.window_s)
            combos = combos * (member.spread(member.window_s) if member.uniform else inside)
        return Joined(combos.mean(axis=1), np.minimum(combos, 1.0).mean(axis=1), length / span, length)


def _evenly_spread(members: Sequence[Member], weight: F64, life_s: float) -> Joined:
    """Windows joined where times say nothing: tuples of a key come at any time that was observed."""
    combos, found = np.ones_like(weight), np.ones_like(weight)
    for member in members:
        expected = member.spread(member.window_s)[:, 0]
        combos = combos * expected
        found = found * -np.expm1(-expected)
    return Joined(combos, found, weight, np.full(len(weight), life_s))


def match_share(found: Joined, with_it: Joined, few: NDArray[np.bool_], by_head: bool) -> float:
    """The share of rows that find something in one more window; ``few`` are the keys that it has at most two tuples of.

    By keys, each with the weight of its rows: combinations count, not head tuples.
    """
    weights = found.weight * found.combos
    total = float(weights.sum())
    if total <= 0:
        return UNSEEN / max(1.0, float(found.weight.sum()))
    seen = np.where(weights > 0, with_it.weight * with_it.combos / np.maximum(weights, 1e-300), 0.0)
    if by_head:
        # Where the chance differs between the times of a key, the mean of the chances is known better.
        known = np.where(found.found > 0, with_it.found / np.maximum(found.found, 1e-300), 0.0)
        chance = np.minimum(1.0, np.where(few, known, np.minimum(known, seen)))
    else:
        chance = np.where(few, np.minimum(1.0, seen), -np.expm1(-seen))
    # Nothing found on the sample does not mean nothing at all.
    return float((weights * chance).sum()) / total or UNSEEN / max(1.0, float(found.weight.sum()))


def sample_of(
    sketches: Mapping[str, KeySketch],
    spans_s: Mapping[str, float],
    windows_s: Mapping[str, float],
    keys_max: int,
) -> KeySample:
    """The streams' sketches, side by side: the keys that any of them has, up to where all of them look."""
    limit = min(sketch.limit for sketch in sketches.values())
    cut = {alias: below(sketch, limit) for alias, sketch in sketches.items()}
    keys = np.unique(np.concatenate([sketch.hashes for sketch in cut.values()]))
    if len(keys) > keys_max:
        limit = int(keys[keys_max])
        keys = keys[:keys_max]
        cut = {alias: below(sketch, limit) for alias, sketch in cut.items()}
    timed = all(sketch.first_us is not None and sketch.last_us is not None for sketch in cut.values())
    firsts = [sketch.first_us for sketch in cut.values() if sketch.first_us is not None and len(sketch.hashes)]
    origin = min((int(first.min()) for first in firsts), default=0)
    members = {
        alias: member_at(sketch, keys, origin, timed, spans_s[alias], windows_s[alias]) for alias, sketch in cut.items()
    }
    return KeySample(members, keys, limit, timed, origin)


def with_kept(sample: KeySample, kept_s: Mapping[str, float]) -> KeySample:
    """The sample with, beside each stream, its window as it is kept: longer, until it is known that nobody looks."""
    kept = {kept_name(alias): replace(sample.members[alias], window_s=length) for alias, length in kept_s.items()}
    return KeySample({**sample.members, **kept}, sample.hashes, sample.limit, sample.timed, sample.origin_us)


def kept_name(alias: str) -> str:
    """Under which a sample has a stream's window as it is kept; no stream is called so."""
    return f"{alias} kept"


def member_of(sketch: KeySketch, span_s: float, window_s: float) -> tuple[Member, bool]:
    """One stream by itself, and whether times are known."""
    sample = sample_of({"": sketch}, {"": span_s}, {"": window_s}, len(sketch.hashes))
    return sample.members[""], sample.timed
