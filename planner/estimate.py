"""How many rows, keys and tuples the steps of a query's walks will have, from what was measured of its streams.

What is expected of a carry depends only on its head and on the set of streams that were joined, not on
their order: so a search over sets is exact. Within a group of streams that are joined by the same key the
sketches are compared key by key (``planner.samples``); groups are taken to be independent of each other.
Predicates that are not equalities are guessed (``planner.selectivity``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.constants import BOOK_KEYS_MAX, BOOK_QUESTIONS_MAX
from planner.framing import NEWS_S
from planner.model import ColumnRef, JoinQuery, RangeWindow, columns_of
from planner.samples import F64, Asked, Joined, KeySample, kept_name, member_of, sample_of, with_kept
from planner.selectivity import selectivity
from planner.sketches import key_groups
from planner.stats import HASH_END, KeySketch, Statistics, StreamProfile
from planner.step_stats import CarryStats, JoinStats, KeysStats

#: A window forgets what has left it when its site hears that all who could see it are done: after some two batches,
#: and news waits for company (``node.core.held``).
_DONE_BATCHES = 2.0

#: How many matches there are taken to be among sampled tuples that have none: not one, or it would have been seen.
_UNSEEN = 0.25

#: With many streams there are many sets of them, so less is spent on each.
_KEYS_BY_STREAMS = ((4, 4096), (6, 2048), (8, 768), (64, 256))


@dataclass(frozen=True, slots=True)
class Group:
    """Streams that are joined by the same columns, as bits and as a sample."""

    place: int
    members: int
    columns: Mapping[str, tuple[str, ...]]
    sample: KeySample


class Estimator:
    """Estimates for one query, remembered."""

    def __init__(self, query: JoinQuery, statistics: Statistics) -> None:
        self.query = query
        self.statistics = statistics
        self.aliases = query.aliases
        self.tau_s = statistics.tau_us / 1e6
        self._profiles = [statistics.profiles[alias] for alias in self.aliases]
        self.rates = [profile.rate for profile in self._profiles]
        self.windows_s = [self._window_s(number) for number in range(len(self.aliases))]
        self.windows = [max(1e-9, rate * length) for rate, length in zip(self.rates, self.windows_s, strict=True)]
        self.batches_s = [self._batch_s(number) for number in range(len(self.aliases))]
        self.kept_s = [
            length + NEWS_S + _DONE_BATCHES * batch_s
            for length, batch_s in zip(self.windows_s, self.batches_s, strict=True)
        ]
        self.groups = self._groups()
        self._residuals = [(self._bits(columns_of(expr)), selectivity(expr)) for expr in query.residuals]
        self._factors: dict[tuple[int, int, int], float] = {}
        self._rows: dict[tuple[int, int], float] = {}
        self._carries: dict[tuple[int, int], CarryStats] = {}
        self._joins: dict[tuple[int, int, int], JoinStats] = {}
        self._keys: dict[tuple[int, tuple[str, ...], float], KeysStats] = {}
        self._matches: dict[tuple[int, int, int, int, bool], float] = {}

    # -- streams ------------------------------------------------------------------------------

    def _window_s(self, number: int) -> float:
        window = self.query.streams[number].window
        if isinstance(window, RangeWindow):
            return window.length_us / 1e6
        return window.count / max(1e-9, self._profiles[number].rate)

    def _batch_s(self, number: int) -> float:
        """Event time between batches: a tick, or more when a recording is read in larger pieces."""
        profile = self._profiles[number]
        if profile.batch_rows <= 1 or profile.rate <= 0:
            return self.tau_s
        return max(self.tau_s, profile.batch_rows / profile.rate)

    def _bits(self, columns: frozenset[ColumnRef]) -> int:
        aliases = {column.alias for column in columns}
        return sum(1 << number for number, alias in enumerate(self.aliases) if alias in aliases)

    def _groups(self) -> tuple[Group, ...]:
        keys_max = next(keys for streams, keys in _KEYS_BY_STREAMS if len(self.aliases) <= streams)
        found: list[Group] = []
        for columns in key_groups(self.query):
            whole = {alias: self._sketch(alias, names) for alias, names in columns.items()}
            parts = [columns]
            if any(sketch is None for sketch in whole.values()):
                count = len(next(iter(columns.values())))
                parts = [{alias: (names[place],) for alias, names in columns.items()} for place in range(count)]
            for part in parts:
                sketches = self._sketches(part)
                spans = {alias: self._profile(alias).span_us / 1e6 for alias in part}
                lengths = {alias: self.windows_s[self.aliases.index(alias)] for alias in part}
                kept = {alias: self.kept_s[self.aliases.index(alias)] for alias in part}
                members = sum(1 << self.aliases.index(alias) for alias in part)
                sample = with_kept(sample_of(sketches, spans, lengths, keys_max), kept)
                found.append(Group(len(found), members, part, sample))
        return tuple(found)

    def _profile(self, alias: str) -> StreamProfile:
        return self.statistics.profiles[alias]

    def _sketch(self, alias: str, names: tuple[str, ...]) -> KeySketch | None:
        """The sketch of these columns. Several columns are looked up in any order, as whoever made it chose."""
        keys = self._profile(alias).keys
        return keys.get(names) or next((keys[own] for own in keys if sorted(own) == sorted(names)), None)

    def _sketches(self, columns: Mapping[str, tuple[str, ...]]) -> dict[str, KeySketch]:
        """Those that were measured; if one is missing, all streams are taken to have the same keys, one per tuple."""
        found = {alias: self._sketch(alias, names) for alias, names in columns.items()}
        known = {alias: sketch for alias, sketch in found.items() if sketch is not None}
        if len(known) == len(found):
            return known
        distinct = max(1, *(self._profile(alias).rows for alias in columns))
        kept = min(distinct, 1024)
        hashes = np.arange(kept, dtype=np.uint64)
        limit = HASH_END * kept // distinct
        made = {}
        for alias in columns:
            counts = np.full(kept, max(1, round(self._profile(alias).rows / distinct)), np.int64)
            made[alias] = KeySketch(hashes, counts, limit)
        return made

    # -- carries ------------------------------------------------------------------------------

    def carry(self, head: int, joined: int) -> CarryStats:
        """The walks of a head when these streams, the head among them, are joined."""
        if (head, joined) not in self._carries:
            rows = self.rows(head, joined)
            heads = min(rows, self.rates[head] * self._surviving(head, joined))
            step = self.batches_s[head]
            self._carries[head, joined] = CarryStats(rows, heads, -float(np.expm1(-heads * step)) / step)
        return self._carries[head, joined]

    def rows(self, head: int, joined: int) -> float:
        """Rows in a second."""
        if (head, joined) not in self._rows:
            rows = self._rows_before_residuals(head, joined)
            for columns, kept in self._residuals:
                if columns & joined == columns:
                    rows *= kept
            self._rows[head, joined] = rows
        return self._rows[head, joined]

    def _rows_before_residuals(self, head: int, joined: int) -> float:
        rows = self.rates[head]
        for number, window in enumerate(self.windows):
            if joined >> number & 1 and number != head:
                rows *= window
        for place in range(len(self.groups)):
            rows *= self._factor(place, head, joined)
        return rows

    def _factor(self, place: int, head: int, joined: int) -> float:
        """How much less a group's equalities leave of a product."""
        group = self.groups[place]
        inside = group.members & joined
        if not inside & (inside - 1):
            return 1.0
        pivot = head if inside >> head & 1 else -1
        if (place, pivot, inside) not in self._factors:
            self._factors[place, pivot, inside] = self._factor_of(group, pivot, inside)
        return self._factors[place, pivot, inside]

    def _factor_of(self, group: Group, head: int, inside: int) -> float:
        others = tuple(number for number in range(len(self.aliases)) if inside >> number & 1 and number != head)
        product = float(np.prod([self.windows[number] for number in others]))
        found = self._joined(group, head, inside)
        total = float((found.weight * found.combos).sum())
        if head >= 0:
            looked = max(1.0, float(group.sample.members[self.aliases[head]].counts.sum()))
            expected = total / max(1.0, float(found.weight.sum()))
        else:
            looked = max(1.0, *(float(group.sample.members[self.aliases[number]].counts.sum()) for number in others))
            expected = total / group.sample.share
        # Nothing in common on the sample does not mean nothing at all.
        floor = _UNSEEN / looked * (1.0 if head >= 0 else min(self.windows[number] for number in others))
        return min(1.0, (expected if total > 0 else floor) / product)

    def _joined(self, group: Group, head: int, inside: int, *more: str) -> Joined:
        others = tuple(alias for number, alias in enumerate(self.aliases) if inside >> number & 1 and number != head)
        others += more
        if head >= 0 and inside >> head & 1:
            return group.sample.head_joined(self.aliases[head], others)
        return group.sample.windows_joined(others)

    def _surviving(self, head: int, joined: int) -> float:
        """The share of the head's tuples that are in some row of the carry."""
        kept, elsewhere = 1.0, False
        for group in self.groups:
            inside = group.members & joined
            if inside & (inside - 1):
                if inside >> head & 1:
                    # Nothing found on the sample says nothing: then there are as many as rows.
                    kept *= self._found_share(self._joined(group, head, inside)) or 1.0
                else:
                    elsewhere = True
        rows = self.rows(head, joined) / max(1e-300, self.rates[head])
        if elsewhere and kept > 0:
            kept *= -float(np.expm1(-rows / kept))
        return min(kept, rows) if rows > 0 else 0.0

    @staticmethod
    def _found_share(found: Joined) -> float:
        weight = float(found.weight.sum())
        return float((found.weight * found.found).sum()) / weight if weight > 0 else 0.0

    # -- joins --------------------------------------------------------------------------------

    def join(self, head: int, joined: int, following: int) -> JoinStats:
        """What it takes to join one more stream to the carry."""
        key = (head, joined, following)
        if key not in self._joins:
            self._joins[key] = self._join(head, joined, following)
        return self._joins[key]

    def _join(self, head: int, joined: int, following: int) -> JoinStats:
        carry = self.carry(head, joined)
        after = joined | 1 << following
        before = self._rows_before_residuals(head, joined)
        raw = carry.rows * _ratio(self._rows_before_residuals(head, after), before)
        rate = self.rates[following]
        links = [group for group in self.groups if group.members >> following & 1 and group.members & joined]
        fan_out = _ratio(raw, carry.rows)
        if not links:
            match = -float(np.expm1(-self.windows[following]))
            return JoinStats(carry, carry.rows, carry.rows, 0.0, match, match, self.rows(head, after), 1.0, 1.0, 0.0)
        parts = [self._part(group, head, joined, following, carry) for group in links]
        keys = min(carry.rows, _together([part.keys for part in parts], carry.rows, carry.batches))
        fresh = 1 - float(np.prod([1 - min(1.0, _ratio(part.keys_new, part.keys)) for part in parts]))
        match = min([fan_out, *(part.match for part in parts)])
        longer = self.kept_s[following] / max(1e-9, self.windows_s[following])
        match_kept = max(match, min([fan_out * longer, *(part.match_kept for part in parts)]))
        expected = _ratio(raw, rate)
        reduced = min([expected, *(part.asked.reduced or expected for part in parts)])
        mixed = max(reduced, parts[0].asked.mixed if len(parts) == 1 else reduced)
        fetched = min([keys, *(part.asked.fetched_keys for part in parts)])
        noted = max(part.keys_noted for part in parts)
        rows_out = self.rows(head, after)
        return JoinStats(carry, keys, keys * fresh, noted, match, match_kept, rows_out, reduced, mixed, fetched)

    def _part(self, group: Group, head: int, joined: int, following: int, carry: CarryStats) -> _Part:
        inside = group.members & joined
        found = self._joined(group, head, inside)
        alias, length = self.aliases[following], self.windows_s[following]
        by_head = bool(inside >> head & 1)
        if by_head:
            share = self._found_share(found)
            asking = found.found * min(1.0, _ratio(carry.heads, self.rates[head] * share))
            if share <= 0:
                asking = np.full_like(asking, min(1.0, _ratio(carry.heads, self.rates[head])))
            touched = self._touched_by_head(group, head, found, asking)
            asked = group.sample.asked_by_head(self.aliases[head], alias, asking)
            per_s = self.rates[head] / max(1.0, float(group.sample.members[self.aliases[head]].counts.sum()))
        else:
            touched = self._touched_by_rows(group, head, found, carry)
            asks_per_s = touched / np.maximum(found.life_s, self.batches_s[head])
            asked = group.sample.asked_at_rate(alias, asks_per_s, np.minimum(length, found.life_s))
            per_s = 1 / (self._span_s(group) * group.sample.share)
        keys = min(carry.rows, float(touched.sum()) * per_s)
        horizon = min(BOOK_QUESTIONS_MAX / max(1e-9, carry.batches), BOOK_KEYS_MAX / max(1e-9, keys))
        new, noted = _book(touched, found.life_s, horizon, self._span_s(group))
        matches = [self._match(group, head if by_head else -1, inside, following, kept) for kept in (False, True)]
        return _Part(keys, keys * new, noted / group.sample.share, matches[0], max(matches), asked)

    def _touched_by_head(self, group: Group, head: int, found: Joined, asking: F64) -> F64:
        """For each sampled key, in how many batches of the profile's time the carry has it, if the head has the key."""
        counts = group.sample.members[self.aliases[head]].counts
        batches = found.life_s / self.batches_s[head] + 1
        occupied = batches * -np.expm1(counts * np.log1p(-1 / np.maximum(batches, 1 + 1e-9)))
        return np.minimum(counts, occupied) * asking

    def _touched_by_rows(self, group: Group, head: int, found: Joined, carry: CarryStats) -> F64:
        """The same if a joined stream has it: then all rows share the keys that are in windows at that time."""
        batches = found.life_s / self.batches_s[head] + 1
        weights = found.weight * found.combos
        total = float(weights.sum())
        rows = carry.rows * self._span_s(group) * group.sample.share * weights / max(1e-300, total)
        return batches * -np.expm1(-rows / batches)

    def _span_s(self, group: Group) -> float:
        return min(member.span_s for member in group.sample.members.values())

    def _match(self, group: Group, head: int, inside: int, following: int, kept: bool) -> float:
        """The share of the carry's rows that find something in one more window of the group, perhaps as it is kept."""
        key = (group.place, head, inside, following, kept)
        if key not in self._matches:
            alias = self.aliases[following]
            found = self._joined(group, head, inside)
            with_it = self._joined(group, head, inside, kept_name(alias) if kept else alias)
            few = (group.sample.members[alias].counts <= 2) & group.sample.timed
            self._matches[key] = _match_of(found, with_it, few, head >= 0)
        return self._matches[key]

    # -- keys of a window ---------------------------------------------------------------------

    def keys(self, number: int, names: tuple[str, ...]) -> KeysStats:
        """The different keys of a stream's window, by these columns."""
        return self._keys_of(number, names, self.windows_s[number])

    def kept_keys(self, number: int, names: tuple[str, ...]) -> KeysStats:
        """Those of the window as it is kept: a key stays until it is known that nobody looks."""
        return self._keys_of(number, names, self.kept_s[number])

    def _keys_of(self, number: int, names: tuple[str, ...], length_s: float) -> KeysStats:
        key = (number, names, length_s)
        if key not in self._keys:
            self._keys[key] = self._counted_keys(number, names, length_s)
        return self._keys[key]

    def _counted_keys(self, number: int, names: tuple[str, ...], length_s: float) -> KeysStats:
        rate = self.rates[number]
        window = max(1e-9, rate * length_s)
        sketch = self._sketch(self.aliases[number], names)
        if sketch is not None:
            return _keys_of(sketch, self._profiles[number].span_us / 1e6, length_s, rate)
        if len(names) == 1:
            return KeysStats(window, rate)
        parts = [self._keys_of(number, (name,), length_s) for name in names]
        alive = min(window, float(np.prod([part.alive for part in parts])))
        return KeysStats(alive, min(rate, max(*(part.born for part in parts), rate * alive / window)))

    @cached_property
    def all_streams(self) -> int:
        """Every stream, as bits."""
        return (1 << len(self.aliases)) - 1


@dataclass(frozen=True, slots=True)
class _Part:
    """What one group says about a join."""

    keys: float
    keys_new: float
    keys_noted: float
    match: float
    match_kept: float
    asked: Asked


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _match_of(found: Joined, with_it: Joined, few: NDArray[np.bool_], by_head: bool) -> float:
    """By keys, each with the weight of its rows: combinations count, not head tuples."""
    weights = found.weight * found.combos
    total = float(weights.sum())
    if total <= 0:
        return _UNSEEN / max(1.0, float(found.weight.sum()))
    seen = np.where(weights > 0, with_it.weight * with_it.combos / np.maximum(weights, 1e-300), 0.0)
    if by_head:
        # Where the chance differs between the times of a key, the mean of the chances is known better.
        known = np.where(found.found > 0, with_it.found / np.maximum(found.found, 1e-300), 0.0)
        chance = np.minimum(1.0, np.where(few, known, np.minimum(known, seen)))
    else:
        chance = np.where(few, np.minimum(1.0, seen), -np.expm1(-seen))
    # Nothing found on the sample does not mean nothing at all.
    return float((weights * chance).sum()) / total or _UNSEEN / max(1.0, float(found.weight.sum()))


def _book(touched: F64, life_s: F64, horizon_s: float, span_s: float) -> tuple[float, float]:
    """The share of keys asked about that were not within the horizon before; and how many sampled keys are noted."""
    total = float(touched.sum())
    if total <= 0:
        return 1.0, 0.0
    times = np.maximum(touched, 1.0)
    gap = np.maximum(life_s / times, 1e-9)
    new = touched * (1 / times + (1 - 1 / times) * np.exp(-horizon_s / gap))
    long = np.maximum(life_s, horizon_s)
    noted = -np.expm1(-touched * horizon_s / long) * np.minimum(1.0, long / span_s)
    return float(new.sum()) / total, float(noted.sum())


def _together(keys: list[float], rows: float, batches: float) -> float:
    """Different keys of several groups at once: any combination of them, as far as there are rows."""
    if len(keys) == 1:
        return keys[0]
    per_batch = [key / max(1e-9, batches) for key in keys]
    return max(*keys, min(rows, batches * float(np.prod(per_batch))))


def _keys_of(sketch: KeySketch, span_s: float, window_s: float, rate: float) -> KeysStats:
    member, timed = member_of(sketch, span_s, window_s)
    share = sketch.limit / HASH_END * span_s
    alive = float(member.stays_s(timed).sum()) / share
    return KeysStats(min(alive, rate * window_s), min(rate, float(member.births(timed).sum()) / share))
