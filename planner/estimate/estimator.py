"""How many rows, keys and tuples the steps of a query's walks will have, from what was measured of its streams.

What is expected of a carry depends only on its head and on the set of streams that were joined, not on
their order: so a search over sets is exact. Within a group of streams that are joined by the same key the
sketches are compared key by key (``planner.estimate.samples``); groups are taken to be independent of each other.
Predicates that are not equalities are guessed (``planner.model.selectivity``); but not those that say that a component
of a kept join is in its window: of these the share is known that they keep, of what others see of the kept join.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.algorithms.step_stats import CarryStats, JoinStats, KeysStats
from planner.estimate.groups import Group, groups_of
from planner.estimate.members import F64
from planner.estimate.samples import UNSEEN, Asked, Joined, kept_name, match_share
from planner.estimate.statistics import KeySketch, Statistics, StreamProfile
from planner.estimate.stream_sizes import StreamSizes
from planner.model.constants import BOOK_KEYS_MAX, BOOK_QUESTIONS_MAX
from planner.model.kept import is_visibility
from planner.model.query import ColumnRef, JoinQuery, columns_of
from planner.model.selectivity import selectivity


class Estimator:
    """Estimates for one query, remembered."""

    def __init__(self, query: JoinQuery, statistics: Statistics) -> None:
        self.query = query
        self.statistics = statistics
        self.aliases = query.aliases
        self._streams = StreamSizes(query, statistics)
        self.rates = self._streams.rates
        self.windows_s = self._streams.windows_s
        self.kept_s = self._streams.kept_s
        self.batches_s = self._streams.batches_s
        self._windows = self._streams.windows
        self.groups = groups_of(query, self._streams)
        self._visible = {
            number: visible
            for number, alias in enumerate(self.aliases)
            if (visible := statistics.profiles[alias].visible) is not None
        }
        derived = tuple(self.aliases[number] for number in self._visible)
        guessed = [expr for expr in query.residuals if not is_visibility(expr, derived)]
        self._residuals = [(self._bits(columns_of(expr)), selectivity(expr)) for expr in guessed]
        self._factors: dict[tuple[int, int, int], float] = {}
        self._rows: dict[tuple[int, int], float] = {}
        self._carries: dict[tuple[int, int], CarryStats] = {}
        self._joins: dict[tuple[int, int, int], JoinStats] = {}
        self._matches: dict[tuple[int, int, int, int, bool], float] = {}

    @cached_property
    def all_streams(self) -> int:
        """Every stream, as bits."""
        return (1 << len(self.aliases)) - 1

    def keys(self, number: int, names: tuple[str, ...]) -> KeysStats:
        """The different keys of a stream's window, by these columns."""
        return self._streams.keys(number, names, self.windows_s[number])

    def kept_keys(self, number: int, names: tuple[str, ...]) -> KeysStats:
        """Those of the window as it is kept: a key stays until it is known that nobody looks."""
        return self._streams.keys(number, names, self._streams.kept_s[number])

    def kept_rows(self, number: int) -> float:
        """The tuples of the window as it is kept."""
        return self.rates[number] * self.kept_s[number]

    def _profile(self, number: int) -> StreamProfile:
        return self.statistics.profiles[self.aliases[number]]

    def _bits(self, columns: frozenset[ColumnRef]) -> int:
        aliases = {column.alias for column in columns}
        return sum(1 << number for number, alias in enumerate(self.aliases) if alias in aliases)

    # -- carries ------------------------------------------------------------------------------

    def carry(self, head: int, joined: int) -> CarryStats:
        """The walks of a head when these streams, the head among them, are joined."""
        if (head, joined) not in self._carries:
            rows = self.rows(head, joined)
            heads = min(rows, self.rates[head] * self._surviving(head, joined))
            step = self.batches_s[head]
            arrivals = heads / self._profile(head).together
            self._carries[head, joined] = CarryStats(rows, heads, -float(np.expm1(-arrivals * step)) / step)
        return self._carries[head, joined]

    def rows(self, head: int, joined: int) -> float:
        """Rows in a second."""
        if (head, joined) not in self._rows:
            rows = self._rows_before_residuals(head, joined) * self._kept_share(joined)
            for number, visible in self._visible.items():
                # Of a kept join that is the head itself all components are seen: the others are older.
                if joined >> number & 1 and number != head:
                    rows *= visible
            self._rows[head, joined] = rows
        return self._rows[head, joined]

    def rows_at_once(self, joined: int) -> float:
        """Rows that the windows of these streams have among each other at any time."""
        return self._combined(-1, joined) * self._kept_share(joined)

    def _kept_share(self, joined: int) -> float:
        """What predicates leave that are not equalities."""
        share = 1.0
        for columns, kept in self._residuals:
            if columns & joined == columns:
                share *= kept
        return share

    def _rows_before_residuals(self, head: int, joined: int) -> float:
        return self.rates[head] * self._combined(head, joined)

    def _combined(self, head: int, joined: int) -> float:
        """Combinations of the windows of all but the head that its tuple finds; without a head, -1, at any time."""
        rows = 1.0
        for number, window in enumerate(self._windows):
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
        pivot = head if head >= 0 and inside >> head & 1 else -1
        if (place, pivot, inside) not in self._factors:
            self._factors[place, pivot, inside] = self._factor_of(group, pivot, inside)
        return self._factors[place, pivot, inside]

    def key_rows(self, group: Group, head: int, joined: int) -> F64:
        """For each sampled key of a group that has some of these streams: which share of a head's rows have it."""
        inside = group.members & joined
        found = self._joined(group, head if inside >> head & 1 else -1, inside)
        weights = found.weight * found.combos
        if not weights.any():
            # Nothing in common on the sample: any key may be that of a row.
            for alias in self._inside(inside):
                weights = weights + group.sample.members[alias].counts
        return weights / max(1e-300, float(weights.sum()))

    def sketch(self, number: int, names: tuple[str, ...]) -> KeySketch | None:
        """What was measured of the keys of a stream by these columns."""
        return self._streams.sketch(number, names)

    def span_s(self, number: int) -> float:
        """The time that was looked at."""
        return self._streams.span_s(number)

    def _inside(self, joined: int) -> tuple[str, ...]:
        return tuple(alias for number, alias in enumerate(self.aliases) if joined >> number & 1)

    def _factor_of(self, group: Group, head: int, inside: int) -> float:
        others = tuple(number for number in range(len(self.aliases)) if inside >> number & 1 and number != head)
        product = float(np.prod([self._windows[number] for number in others]))
        found = self._joined(group, head, inside)
        total = float((found.weight * found.combos).sum())
        if head >= 0:
            looked = max(1.0, float(group.sample.members[self.aliases[head]].counts.sum()))
            expected = total / max(1.0, float(found.weight.sum()))
        else:
            looked = max(1.0, *(float(group.sample.members[self.aliases[number]].counts.sum()) for number in others))
            expected = total / group.sample.share
        # Nothing in common on the sample does not mean nothing at all.
        floor = UNSEEN / looked * (1.0 if head >= 0 else min(self._windows[number] for number in others))
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
                    kept *= self._joined(group, head, inside).found_share or 1.0
                else:
                    elsewhere = True
        rows = self.rows(head, joined) / max(1e-300, self.rates[head])
        if elsewhere and kept > 0:
            kept *= -float(np.expm1(-rows / kept))
        return min(kept, rows) if rows > 0 else 0.0

    # -- joins --------------------------------------------------------------------------------

    def join(self, head: int, joined: int, following: int) -> JoinStats:
        """What it takes to join one more stream to the carry."""
        key = (head, joined, following)
        if key not in self._joins:
            carry = self.carry(head, joined)
            groups = [group for group in self.groups if group.members >> following & 1 and group.members & joined]
            if groups:
                parts = [self._part(group, head, joined, following, carry) for group in groups]
                self._joins[key] = self._join(head, joined, following, parts)
            else:
                self._joins[key] = self._product(head, joined, following)
        return self._joins[key]

    def _product(self, head: int, joined: int, following: int) -> JoinStats:
        """No equality links the stream: each row meets the whole window, and no key can be asked for."""
        carry = self.carry(head, joined)
        not_empty = -float(np.expm1(-self._windows[following]))
        return JoinStats(
            carry=carry,
            keys=carry.rows,
            keys_new=carry.rows,
            keys_noted=0.0,
            match=not_empty,
            match_kept=not_empty,
            rows_out=self.rows(head, joined | 1 << following),
            reduced_share=1.0,
            mixed_share=1.0,
            fetched_keys=0.0,
        )

    def _join(self, head: int, joined: int, following: int, parts: list[_Part]) -> JoinStats:
        """What the groups that link the stream say together: each of them can only lower what the others leave."""
        carry, after = self.carry(head, joined), joined | 1 << following
        growth = _ratio(self._rows_before_residuals(head, after), self._rows_before_residuals(head, joined))
        # Rows by their keys alone: what residuals drop is dropped after tuples were sent.
        rows_by_keys = carry.rows * growth
        rows_per_row = _ratio(rows_by_keys, carry.rows)
        rows_per_tuple = _ratio(rows_by_keys, self.rates[following])
        keys = min(carry.rows, _together([part.keys for part in parts], carry.rows, carry.batches))
        # A key of several columns is new if one of them is.
        new_share = 1 - float(np.prod([1 - min(1.0, _ratio(part.keys_new, part.keys)) for part in parts]))
        # No more rows can have a match than there are rows afterwards; and a window that is kept longer has more.
        match = min([rows_per_row, *(part.match for part in parts)])
        longer = self._streams.kept_s[following] / max(1e-9, self.windows_s[following])
        match_kept = max(match, min([rows_per_row * longer, *(part.match_kept for part in parts)]))
        # No more tuples can be asked for than there are rows; M is sent whole keys, so at least as much.
        reduced = min([rows_per_tuple, *(part.asked.reduced or rows_per_tuple for part in parts)])
        mixed = max(reduced, parts[0].asked.mixed if len(parts) == 1 else reduced)
        return JoinStats(
            carry=carry,
            keys=keys,
            keys_new=keys * new_share,
            keys_noted=max(part.keys_noted for part in parts),
            match=match,
            match_kept=match_kept,
            rows_out=self.rows(head, after),
            reduced_share=reduced,
            mixed_share=mixed,
            fetched_keys=min([keys, *(part.asked.fetched_keys for part in parts)]),
        )

    def _part(self, group: Group, head: int, joined: int, following: int, carry: CarryStats) -> _Part:
        """What one group says: by the head's own keys, or by those that rows have of streams joined before."""
        inside = group.members & joined
        found = self._joined(group, head, inside)
        by_head = bool(inside >> head & 1)
        if by_head:
            touched, asked = self._asked_by_head(group, head, following, found, carry)
            counts = group.sample.members[self.aliases[head]].counts
            per_s = self.rates[head] / max(1.0, float(counts.sum()))
        else:
            touched, asked = self._asked_by_rows(group, head, following, found, carry)
            per_s = 1 / (group.span_s * group.sample.share)
        keys = min(carry.rows, float(touched.sum()) * per_s)
        # Both ends remember keys by numbers: for this long, until the book is full or has seen enough questions.
        horizon_s = min(BOOK_QUESTIONS_MAX / max(1e-9, carry.batches), BOOK_KEYS_MAX / max(1e-9, keys))
        new_share, noted = _book(touched, found.life_s, horizon_s, group.span_s)
        matches = [self._match(group, head if by_head else -1, inside, following, kept) for kept in (False, True)]
        return _Part(keys, keys * new_share, noted / group.sample.share, matches[0], max(matches), asked)

    def _asked_by_head(
        self, group: Group, head: int, following: int, found: Joined, carry: CarryStats
    ) -> tuple[F64, Asked]:
        """If the head has the key: the batches looked at in which the carry has each; and what is asked for."""
        share = found.found_share
        asking = found.found * min(1.0, _ratio(carry.heads, self.rates[head] * share))
        if share <= 0:
            asking = np.full_like(asking, min(1.0, _ratio(carry.heads, self.rates[head])))
        counts = group.sample.members[self.aliases[head]].counts
        batches = found.life_s / self.batches_s[head] + 1
        # Tuples of a key fall into its batches at random, so some batches have several and some none.
        occupied = batches * -np.expm1(counts * np.log1p(-1 / np.maximum(batches, 1 + 1e-9)))
        touched = np.minimum(counts, occupied) * asking
        return touched, group.sample.asked_by_head(self.aliases[head], self.aliases[following], asking)

    def _asked_by_rows(
        self, group: Group, head: int, following: int, found: Joined, carry: CarryStats
    ) -> tuple[F64, Asked]:
        """The same if a joined stream has the key: then all rows share the keys that are in windows at that time."""
        batches = found.life_s / self.batches_s[head] + 1
        weights = found.weight * found.combos
        total = float(weights.sum())
        rows = carry.rows * group.span_s * group.sample.share * weights / max(1e-300, total)
        touched = batches * -np.expm1(-rows / batches)
        asks_per_s = touched / np.maximum(found.life_s, self.batches_s[head])
        lengths_s = np.minimum(self.windows_s[following], found.life_s)
        return touched, group.sample.asked_at_rate(self.aliases[following], asks_per_s, lengths_s)

    def _match(self, group: Group, head: int, inside: int, following: int, kept: bool) -> float:
        """The share of the carry's rows that find something in one more window of the group, perhaps as it is kept."""
        key = (group.place, head, inside, following, kept)
        if key not in self._matches:
            alias = self.aliases[following]
            found = self._joined(group, head, inside)
            with_it = self._joined(group, head, inside, kept_name(alias) if kept else alias)
            few = group.sample.members[alias].few & group.sample.timed
            self._matches[key] = match_share(found, with_it, few, head >= 0)
        return self._matches[key]


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
