"""Groups of streams that are joined by the same key, each with the sample on which its sketches can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.estimate.samples import KeySample, sample_of, with_kept
from planner.estimate.sketches import key_groups
from planner.estimate.statistics import HASH_END, KeySketch
from planner.estimate.stream_sizes import StreamSizes
from planner.model.query import JoinQuery

#: With many streams there are many sets of them, so less is spent on each.
_KEYS_BY_STREAMS = ((4, 4096), (6, 2048), (8, 768), (64, 256))
#: Keys of the sketch that stands for one that was not made.
_MADE_KEYS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Group:
    """Streams that are joined by the same columns, as bits and as a sample."""

    place: int
    members: int
    #: By stream.
    columns: Mapping[int, tuple[str, ...]]
    sample: KeySample

    @property
    def span_s(self) -> float:
        """The time that was looked at, of all of them."""
        return min(member.span_s for member in self.sample.members.values())


def groups_of(query: JoinQuery, streams: StreamSizes) -> tuple[Group, ...]:
    """The groups of a query. Columns of which no sketch was made together are taken one by one."""
    keys_max = next(keys for most, keys in _KEYS_BY_STREAMS if len(query.aliases) <= most)
    found: list[Group] = []
    for by_alias in key_groups(query):
        columns = {query.position(alias): names for alias, names in by_alias.items()}
        parts = [columns]
        if any(streams.sketch(number, names) is None for number, names in columns.items()):
            count = len(next(iter(columns.values())))
            parts = [{number: (names[place],) for number, names in columns.items()} for place in range(count)]
        for part in parts:
            members = sum(1 << number for number in part)
            found.append(Group(len(found), members, part, _sample(query, streams, part, keys_max)))
    return tuple(found)


def _sample(query: JoinQuery, streams: StreamSizes, columns: Mapping[int, tuple[str, ...]], keys_max: int) -> KeySample:
    names = {number: query.aliases[number] for number in columns}
    sketches = {names[number]: sketch for number, sketch in _sketches(streams, columns).items()}
    spans_s = {alias: streams.span_s(number) for number, alias in names.items()}
    windows_s = {alias: streams.windows_s[number] for number, alias in names.items()}
    kept_s = {alias: streams.kept_s[number] for number, alias in names.items()}
    return with_kept(sample_of(sketches, spans_s, windows_s, keys_max), kept_s)


def _sketches(streams: StreamSizes, columns: Mapping[int, tuple[str, ...]]) -> dict[int, KeySketch]:
    """Those that were measured; if one is missing, all streams are taken to have the same keys, one per tuple."""
    found = {number: streams.sketch(number, names) for number, names in columns.items()}
    known = {number: sketch for number, sketch in found.items() if sketch is not None}
    if len(known) == len(found):
        return known
    rows = {number: round(streams.rows(number)) for number in columns}
    distinct = max(1, *rows.values())
    kept = min(distinct, _MADE_KEYS_MAX)
    hashes = np.arange(kept, dtype=np.uint64)
    limit = HASH_END * kept // distinct
    return {
        number: KeySketch(hashes, np.full(kept, max(1, round(count / distinct)), np.int64), limit)
        for number, count in rows.items()
    }
