"""Many queries over two streams ``a`` and ``b``, no two alike, and how many rows each must give.

There are three sets: queries that select few columns, queries that select most, and those of a dashboard, which have
more in common: their filters differ only in constants, and their select lists are of a few columns.

Query ``i`` is the same however many are made. Any two differ in filter, select list, aliases and both windows; filters
are on several columns, so most do not imply one another. Query 0, which stands alone where one query is compared
with many, is an average one by window, rows and bytes: a cheap one would make many look dear, a dear one cheap.

Rows are counted here without the system's code: the filters by pyarrow's compute functions, the join by
``bench.records.matches_of``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.records import SEED, Mask, Stream, matches_of
from node.core.encoding.rows import encode_rows
from node.core.links.compression import Compressor

STREAMS = ("a", "b")
#: Event time of the streams' beginning.
START_MS = 1_760_000_000_000
#: So long a tuple has the columns below, and a text of some size.
WIDTH = 142
COLUMNS = ("ts", "key", "amount", "quantity", "state", "customer", "seconds", "trace", "path")
WINDOW_MS = (5_000, 20_000)
#: How many of the 18 columns a query selects: few, or most.
SHORT_LISTS, LONG_LISTS = (3, 6), (12, 15)
#: Of query 0: as many columns as the others have on average, and about as many bytes of them from each stream.
_FIRST_LIST = (("a", "amount"), ("a", "customer"), ("b", "amount"), ("b", "seconds"))
_DASHBOARD_COLUMNS = ("key", "amount", "quantity", "state", "customer")
_STATES = ("paid", "shipped", "pending", "delivered")
_STATE_LISTS = tuple(
    states for count in (2, 1, 3) for states in itertools.combinations(_STATES, count) if "paid" in states
) + tuple((*states, "returned") for count in (1, 2, 3) for states in itertools.combinations(_STATES, count))
_GOLDEN, _SQUARE = (math.sqrt(5) - 1) / 2, math.sqrt(2)

Value = float | int | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one stream's column with a constant."""

    stream: str
    column: str
    operator: str
    value: Value

    def text(self, alias: str) -> str:
        return f"{alias}.{self.column} {self.operator} {_literal(self.value)}"

    def holds(self, rows: pa.Table) -> pa.ChunkedArray:
        """Which rows of the stream pass."""
        column = rows.column(self.column)
        match self.operator:
            case "<":
                return pc.less(column, self.value)
            case ">":
                return pc.greater(column, self.value)
            case "IN":
                return pc.is_in(column, value_set=pa.array(self.value))
            case _:
                raise ValueError(f"a condition requires <, > or IN; got {self.operator!r}")


@dataclass(frozen=True, slots=True)
class Query:
    """One query; ``aliases`` and ``windows_ms`` are those of a and b."""

    conditions: tuple[Condition, ...]
    #: (stream, column), in the order of the select list.
    selected: tuple[tuple[str, str], ...]
    aliases: tuple[str, str]
    windows_ms: tuple[int, int]

    @property
    def text(self) -> str:
        alias = dict(zip(STREAMS, self.aliases, strict=True))
        outputs = ", ".join(f"{alias[s]}.{column} AS {alias[s]}_{column}" for s, column in self.selected)
        (a, b), (a_ms, b_ms) = self.aliases, self.windows_ms
        where = " AND ".join(condition.text(alias[condition.stream]) for condition in self.conditions)
        joined = f"a [RANGE {a_ms} MS] AS {a} JOIN b [RANGE {b_ms} MS] AS {b} ON {a}.key = {b}.key"
        return f"SELECT {outputs} FROM {joined} WHERE {where}"

    def rows(self, tables: Mapping[str, pa.Table]) -> int:
        """How many rows it must give over the whole streams; event times in milliseconds, ascending."""
        passing = {name: self._passing(name, tables[name]) for name in STREAMS}
        if not all(len(stream.ts) for stream in passing.values()):
            return 0
        return matches_of(passing, *self.windows_ms).rows

    def used(self, tables: Mapping[str, pa.Table], name: str) -> tuple[Mask, Mask]:
        """Of a stream: which tuples are in some result, and which pass the filter."""
        passing = {each: self._passing(each, tables[each]) for each in STREAMS}
        passes = np.ones(tables[name].num_rows, np.bool_)
        for condition in self.conditions:
            if condition.stream == name:
                passes &= condition.holds(tables[name]).to_numpy()
        used = np.zeros(len(passes), np.bool_)
        used[passes] = matches_of(passing, *self.windows_ms).in_result[name]
        return used, passes

    def _passing(self, name: str, rows: pa.Table) -> Stream:
        for condition in self.conditions:
            if condition.stream == name:
                rows = rows.filter(condition.holds(rows))
        ts = rows.column("ts").to_numpy()
        # Small numbers, because matches_of puts key and time into one.
        return Stream(ts - START_MS, rows.column("key").to_numpy())


def make_queries(
    count: int, window_ms: tuple[int, int] = WINDOW_MS, lists_of: tuple[int, int] = SHORT_LISTS
) -> list[Query]:
    """The first ``count`` queries, with windows and select lists in the given ranges."""
    rng = np.random.default_rng(SEED)
    lists: dict[tuple[tuple[str, str], ...], None] = {_FIRST_LIST: None} if lists_of == SHORT_LISTS else {}
    while len(lists) < count:
        lists.setdefault(_select_list(rng, lists_of))
    return [
        Query(_conditions(number), selected, (f"l{number}", f"r{number}"), _windows(number, window_ms))
        for number, selected in enumerate(lists)
    ]


def make_dashboard(count: int, window_ms: tuple[int, int] = WINDOW_MS) -> list[Query]:
    """The first ``count`` queries of a dashboard."""
    columns = [(stream, column) for stream in STREAMS for column in _DASHBOARD_COLUMNS]
    lists = [chosen for chosen in itertools.combinations(columns, 4) if len({stream for stream, _ in chosen}) == 2]
    order = np.random.default_rng(SEED).permutation(len(lists))
    return [
        Query(
            tuple(
                Condition(stream, "amount", ">", round(5 + 10 * _spread(number, step), 2))
                for stream, step in zip(STREAMS, (_GOLDEN, _SQUARE), strict=True)
            ),
            lists[order[number]],
            (f"l{number}", f"r{number}"),
            _windows(number, window_ms),
        )
        for number in range(count)
    ]


def needed_bytes(queries: Sequence[Query], tables: Mapping[str, pa.Table], name: str, per_tick: int) -> tuple[int, int]:
    """What queries need of a stream, each value once, encoded and compressed batch by batch, without frames.

    First what they select of the tuples that are in some result: the lower bound of ``bench.bytes``. Then what they
    select of all tuples that pass, with times and keys: shipping everything.
    """
    matching: dict[str, Mask] = {}
    passing: dict[str, Mask] = {}
    for query in queries:
        used, passes = query.used(tables, name)
        selected = {column for stream, column in query.selected if stream == name}
        for column in selected:
            matching[column] = matching.get(column, False) | used
        for column in {"ts", "key", *selected}:
            passing[column] = passing.get(column, False) | passes
    return _packed(tables[name], matching, per_tick), _packed(tables[name], passing, per_tick)


def _packed(rows: pa.Table, cells: Mapping[str, Mask], per_tick: int) -> int:
    """The values at these places, through one compressor, as on a link."""
    compressor, total = Compressor(), 0
    columns = {name: rows.column(name).combine_chunks() for name in COLUMNS if name in cells}
    for first in range(0, rows.num_rows, per_tick):
        for name, column in columns.items():
            mask = pa.array(cells[name][first : first + per_tick])
            values = column.slice(first, per_tick).filter(mask)
            if len(values):
                total += len(compressor.compress(encode_rows(pa.RecordBatch.from_arrays([values], names=[name]))))
    return total


def _select_list(rng: np.random.Generator, lists_of: tuple[int, int]) -> tuple[tuple[str, str], ...]:
    columns = [(stream, column) for stream in STREAMS for column in COLUMNS]
    picked = rng.choice(len(columns), int(rng.integers(lists_of[0], lists_of[1] + 1)), replace=False)
    return tuple(columns[place] for place in sorted(picked.tolist()))


def _spread(number: int, step: float) -> float:
    """0 to 1, one half for number 0; numbers in a row fill the range evenly, and none comes twice."""
    return (0.5 + number * step) % 1


def _windows(number: int, window_ms: tuple[int, int]) -> tuple[int, int]:
    shortest, longest = window_ms
    a_ms, b_ms = (shortest + round(_spread(number, step) * (longest - shortest)) for step in (_GOLDEN, _SQUARE))
    return a_ms, b_ms


def _conditions(number: int) -> tuple[Condition, ...]:
    """One or two: each kind of the first is about another column, and the second about the other stream."""
    kind, place = number % 6, _spread(number // 6, _GOLDEN)
    first, other = STREAMS if (number + number // 6) % 2 == 0 else STREAMS[::-1]
    values: tuple[tuple[str, str, Value], ...] = (
        ("amount", "<", round(25 + 80 * place, 2)),
        ("trace", ">", f"{round(0xB000 * place):04x}"),
        ("seconds", "<", round(0.14 + 0.3 * place, 4)),
        ("state", "IN", _STATE_LISTS[number // 6 % len(_STATE_LISTS)]),
        ("amount", ">", round(10 + 40 * place, 2)),
        ("customer", ">", 100_001 + number // 6),
    )
    main = Condition(first, *values[kind])
    if number % 3 == 2:
        return (main,)
    beside: Condition = (
        Condition(other, "quantity", "<", 2 + (number + 1) % 4)
        if number % 3 == 0
        else Condition(other, "trace", "<", f"{0x6000 + 0x200 * (number % 64):04x}")
    )
    return (main, beside)


def _literal(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_literal(item) for item in value)})"
    return f"'{value}'" if isinstance(value, str) else str(value)
