"""What is expected of a join that is kept, as if it had been measured: its rows as a stream, and those that make it.

Its rows a second are those that its streams have together, from all of them as heads; which keys they have, and when,
is seen on the samples on which its streams are compared. A key that one stream alone has to do with is in as many rows
as its tuples find partners on the average; when these come is taken to be by chance, so where a tuple finds many there
are fewer keys than expected. Not all that is in its window is seen: that of the streams together, each through its own
window, is less than what the shortest of these windows has of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import log2

import numpy as np
import pyarrow as pa

from planner.algorithms.traffic import REPEATED_SHARE
from planner.estimate.estimator import Estimator
from planner.estimate.groups import Group
from planner.estimate.members import F64
from planner.estimate.sketches import key_choices
from planner.estimate.statistics import KeySketch, Statistics, StreamProfile
from planner.estimate.stream_sizes import kept_s
from planner.model.constants import EVENT_TIME
from planner.model.kept import TS, components_of
from planner.model.query import ColumnRef, JoinQuery, KeptJoin, RangeWindow
from planner.model.time_unit import TimeUnit

#: An event time that travels as a column too is mostly the same bytes as one that is there already.
_TIME_SHARE = 0.5
#: What is expected less often than this is not expected.
_LEAST = 1e-9
#: A text in memory takes so many times what it takes on a link, and no less than this.
_TEXT_FACTOR, _TEXT_BYTES_MIN = 3.0, 8.0
#: A row is in the table of the stream, and in its log.
TIMES_STORED = 2


def inner_statistics(statistics: Statistics, inner: JoinQuery) -> Statistics:
    """What is known of the streams of a query that makes a kept join."""
    return replace(statistics, profiles=_with_times(statistics, inner, inner.aliases))


def outer_statistics(statistics: Statistics, outer: JoinQuery, kept: Mapping[str, StreamProfile]) -> Statistics:
    """What is known of the streams of a query that reads kept joins, which have these profiles."""
    others = [alias for alias in outer.aliases if alias not in kept]
    # Nothing of a stream that is not there yet runs, whatever has its name.
    names = [outer.ref(alias).stream.name for alias in others]
    copies = tuple(copy for copy in statistics.copies if copy.stream in names)
    return replace(statistics, profiles={**_with_times(statistics, outer, others), **kept}, copies=copies)


def _with_times(statistics: Statistics, query: JoinQuery, aliases: Iterable[str]) -> dict[str, StreamProfile]:
    """The profiles of streams whose event times are read as columns too."""
    found = {}
    for alias in aliases:
        profile = statistics.profiles[alias]
        size = _TIME_SHARE * profile.column_bytes.get(EVENT_TIME, 0.0)
        found[alias] = replace(profile, column_bytes={query.ref(alias).stream.ts: size, **profile.column_bytes})
    return found


@dataclass(frozen=True, slots=True)
class KeptRows:
    """What is expected of the rows of a kept join."""

    #: As a site would measure them for the query that reads them.
    profile: StreamProfile
    window_s: float
    #: What they take at the site that keeps them, in the table and in the log.
    stored_bytes: float


def kept_rows(estimator: Estimator, join: KeptJoin, outer: JoinQuery) -> KeptRows:
    """By the estimates for the query as it was asked; ``outer`` is the one that reads them."""
    derived = _Derived(estimator, join)
    profile, ref = derived.profile(outer), outer.ref(join.name)
    assert isinstance(ref.window, RangeWindow)
    rows = profile.rate * kept_s(ref.window.length_us / 1e6, derived.batch_s)
    return KeptRows(profile, ref.window.length_us / 1e6, TIMES_STORED * rows * _row_bytes(ref.stream.schema, profile))


class _Derived:
    """The rows of a kept join of a query."""

    def __init__(self, estimator: Estimator, join: KeptJoin) -> None:
        self._estimator = estimator
        self._query = estimator.query
        self._join = join
        self._columns = components_of(self._query, join)
        self._numbers = [self._query.position(alias) for alias in join.aliases]
        self._bits = sum(1 << number for number in self._numbers)
        #: Rows in a second, by the stream that found them.
        self._found = {number: estimator.rows(number, self._bits) for number in self._numbers}
        self._rate = sum(self._found.values())
        self._window_s = min(estimator.windows_s[number] for number in self._numbers)
        self._span_s = min(estimator.span_s(number) for number in self._numbers)
        self.batch_s = max(estimator.batches_s[number] for number in self._numbers)

    def profile(self, outer: JoinQuery) -> StreamProfile:
        """What a site would measure of it for the query that reads it."""
        keys = {names: self._sketch(names) for names in key_choices(outer, self._join.name)}
        return StreamProfile(
            rows=self._rate * self._span_s,
            span_us=max(1, round(self._span_s * 1e6)),
            batch_rows=max(1.0, self._rate * self.batch_s),
            column_bytes=self._column_bytes(),
            keys={names: sketch for names, sketch in keys.items() if sketch is not None},
            visible=self._visible_share(),
            together=max(1.0, self._rate / max(_LEAST, sum(self._heads(number) for number in self._numbers))),
        )

    def _heads(self, number: int) -> float:
        """Tuples of a stream in a second that find a row."""
        return min(self._found[number], self._estimator.carry(number, self._bits).heads)

    def _visible_share(self) -> float:
        in_window = max(1e-300, self._rate * self._window_s)
        return min(1.0, max(_LEAST, self._estimator.rows_at_once(self._bits) / in_window))

    def _column_bytes(self) -> dict[str, float]:
        """A batch is in the order of times: what is of the newest component repeats from row to row."""
        sizes = {EVENT_TIME: self._mean({number: self._size(number, EVENT_TIME) for number in self._numbers})}
        sizes[TS] = _TIME_SHARE * sizes[EVENT_TIME]
        for name, column in self._columns.items():
            if isinstance(column, ColumnRef):
                number = self._query.position(column.alias)
                size = self._size(number, column.column)
                sizes[name] = self._mean(dict.fromkeys(self._numbers, size), number)
            else:
                number = self._query.position(column)
                older = self._older_time_bytes(number)
                each = {other: sizes[TS] if other == number else older for other in self._numbers}
                sizes[name] = self._mean(each, number)
        return sizes

    def _mean(self, sizes: Mapping[int, float], owner: int | None = None) -> float:
        """Of a row, whoever found it, if a value costs ``sizes`` in those that each stream found.

        Rows that one tuple finds repeat what is of its stream, the ``owner`` of the column; None: whichever that is.
        """
        if self._rate <= 0:
            return max(sizes.values())
        total = 0.0
        for number, rows in self._found.items():
            own = owner is None or owner == number
            heads = self._heads(number) if own else rows
            total += sizes[number] * (heads + REPEATED_SHARE * (rows - heads))
        return total / self._rate

    def _size(self, number: int, column: str) -> float:
        profile = self._estimator.statistics.profiles[self._query.aliases[number]]
        return profile.column_bytes.get(column, 0.0)

    def _older_time_bytes(self, number: int) -> float:
        """Of the time of a component that is not the newest: any within its window."""
        ref = self._query.streams[number]
        units = self._estimator.windows_s[number] * 1e6 * ref.stream.unit / TimeUnit.US / ref.stream.ts_scale
        return log2(1 + units) / 8

    def _sketch(self, names: tuple[str, ...]) -> KeySketch | None:
        """Of these columns of the kept stream; None where they are of several streams, or nothing is known of them."""
        columns = [self._columns.get(name) for name in names]
        owners = {column.alias: None for column in columns if isinstance(column, ColumnRef)}
        if len(owners) != 1:
            return None
        own = self._query.position(next(iter(owners)))
        wanted = tuple(column.column for column in columns if isinstance(column, ColumnRef))
        for group in self._estimator.groups:
            if sorted(group.columns.get(own, ())) == sorted(wanted):
                return self._sampled(group)
        measured = self._estimator.sketch(own, wanted)
        return None if measured is None else self._like(own, measured)

    def _like(self, number: int, measured: KeySketch) -> KeySketch:
        """Keys of one of its streams: in as many rows as its tuples find partners on the average."""
        ratio = self._rate / max(1e-300, self._estimator.rates[number])
        return replace(measured, counts=measured.counts.astype(np.float64) * ratio)

    def _sampled(self, group: Group) -> KeySketch | None:
        """By key, how many rows have it, and when."""
        sample = group.sample
        rows = np.zeros(len(sample.hashes))
        for number, found in self._found.items():
            rows += found * self._span_s * sample.share * self._estimator.key_rows(group, number, self._bits)
        there = np.flatnonzero(rows > _LEAST)
        first = last = None
        if sample.timed:
            first, last = (
                np.round(times[there] * 1e6).astype(np.int64) + sample.origin_us for times in self._times(group)
            )
        return KeySketch(sample.hashes[there], rows[there], sample.limit, first, last)

    def _times(self, group: Group) -> tuple[F64, F64]:
        """Seconds at which there is the first and the last row of each key."""
        inside = [number for number in self._numbers if group.members >> number & 1]
        members = [group.sample.members[self._query.aliases[number]] for number in inside]
        first = np.max([member.first for member in members], axis=0)
        last = np.min([member.last + member.window_s for member in members], axis=0)
        last = np.maximum(first, np.minimum(last, np.max([member.last for member in members], axis=0)))
        # What a stream without the key finds, it finds later.
        share = sum(self._found[number] for number in inside) / max(1e-300, self._rate)
        later = (1 - min(1.0, share)) * min(member.window_s for member in members) / 2
        return first + later, last + later


def _row_bytes(schema: pa.Schema, profile: StreamProfile) -> float:
    """Of a row in memory, as Arrow has it."""
    return sum(_value_bytes(field.type, profile.column_bytes.get(field.name, 0.0)) for field in schema)


def _value_bytes(kind: pa.DataType, size: float) -> float:
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return max(_TEXT_BYTES_MIN, _TEXT_FACTOR * size)
