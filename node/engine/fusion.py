"""Many questions to one index, answered together: searched once, gathered once, and then parted.

Questions of different queries differ in the rows that ask, in conditions and in what they want to have; those of one
query only in their rows, so these are put together first. Everything that costs the same for one row as for many is
thereby done once for all questions, or once for each shape, and hardly anything for each question.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from node.core.encoding import payload
from node.core.engine import KEY, POSITION, Find, Probe, Question
from node.core.kernels.evaluation import holds
from node.core.keys import keycodes
from node.core.keys.hashing import I64
from node.engine import checks
from node.engine.shapes import Columns, Shape
from node.engine.table import Found, Table

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
#: From so many pairs on, what no condition reads is gathered when it is known which pairs remain.
_LATE_PAIRS = 4096


@dataclass(frozen=True, slots=True)
class _Askers:
    """The questions of one shape: their places in the group, their rows put together, and where each one's end."""

    shape: Shape
    places: list[int]
    rows: pa.RecordBatch
    ends: list[int]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """For each pair its place among all that were found, the row that asked, and columns of the table, at least one."""

    places: I64
    asking: I64
    theirs: pa.RecordBatch

    def at(self, numbers: I64) -> _Pairs:
        """Some of them, in the order of the numbers."""
        return _Pairs(self.places[numbers], self.asking[numbers], payload.take_batch(self.theirs, numbers))


def answer(table: Table, asked: Sequence[tuple[Question, Shape]]) -> list[pa.RecordBatch]:
    """The answers of questions of one kind to one index, whose keys have the same types. Fails as a whole."""
    askers = _by_shape(asked)
    ops = [op for op, _ in asked]
    wanted = [_together([each.rows.column(each.shape.keys[i]) for each in askers]) for i in range(len(ops[0].keys))]
    low, high, inclusive = _bounds(ops, askers)
    found = table.search(ops[0].keys, wanted, low, high, inclusive)
    answers = [shape.empty for _, shape in asked]
    if not found:
        return answers
    pairs = _verified(table, ops[0].keys, wanted, _gathered(table, ops[0], found, askers))
    if len(ops) > 1:
        pairs = pairs.at(np.argsort(pairs.asking, kind="stable"))
    begins = [0, *itertools.accumulate(each.rows.num_rows for each in askers)]
    pairs = _completed(table, found, askers, _holding(pairs, begins, askers))
    cuts = _cuts(pairs, begins)
    for number, each in enumerate(askers):
        first, last = cuts[number], cuts[number + 1]
        if first < last:
            theirs = pairs.theirs.slice(first, last - first)
            _put(each, pairs.asking[first:last] - begins[number], theirs, answers)
    return answers


def _by_shape(asked: Sequence[tuple[Question, Shape]]) -> list[_Askers]:
    grouped: dict[Shape, list[int]] = {}
    for place, (_, shape) in enumerate(asked):
        grouped.setdefault(shape, []).append(place)
    askers = []
    for shape, places in grouped.items():
        rows = [asking_rows(asked[place][0]) for place in places]
        ends = list(itertools.accumulate(batch.num_rows for batch in rows))
        askers.append(_Askers(shape, places, rows[0] if len(rows) == 1 else pa.concat_batches(rows), ends))
    return askers


def asking_rows(op: Question) -> pa.RecordBatch:
    """The rows of a question that ask."""
    return op.rows if isinstance(op, Probe) else op.wanted


def _together(columns: list[pa.Array]) -> pa.Array:
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def _bounds(ops: Sequence[Question], askers: Sequence[_Askers]) -> tuple[I64, I64, bool]:
    """The least and the greatest position that each asking row sees, and whether the greatest is one of them."""
    finds = [op for op in ops if isinstance(op, Find)]
    if not finds:
        places = [(each.rows, each.shape.bounds) for each in askers]
        low = _together([rows.column(bounds[0]) for rows, bounds in places if bounds])
        high = _together([rows.column(bounds[1]) for rows, bounds in places if bounds])
        checks.check_probe_bounds(ops[0].table, low, high)
        return keycodes.integers(low), keycodes.integers(high), False
    lows, highs, counts = [], [], []
    for place in (place for each in askers for place in each.places):
        find = finds[place]
        checks.check_find_bounds(find)
        # Inclusive, because what is above all int64 cannot be said otherwise.
        first, last = max(find.low, _INT64_MIN), min(find.high - 1, _INT64_MAX)
        lows.append(first if first <= last else _INT64_MAX)
        highs.append(last if first <= last else _INT64_MIN)
        counts.append(find.wanted.num_rows)
    return np.repeat(np.array(lows, np.int64), counts), np.repeat(np.array(highs, np.int64), counts), True


def _numbers(askers: Sequence[_Askers]) -> I64:
    """Of each asking row its number in its question."""
    counts = np.concatenate([np.diff([0, *each.ends]) for each in askers])
    numbers: I64 = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbers


def _gathered(table: Table, first: Question, found: Sequence[Found], askers: Sequence[_Askers]) -> _Pairs:
    """All pairs, with the columns that conditions read, the keys if they must be compared, and mostly all others."""
    asking = np.concatenate([each.asking for each in found])
    late = asking.size >= _LATE_PAIRS and any(each.shape.condition is not None for each in askers)
    names = dict.fromkeys(name for each in askers for name in (each.shape.read.theirs if late else each.shape.needed))
    if not table.indexes[first.keys]:
        names |= dict.fromkeys(first.keys)
    columns: dict[str, pa.Array] = {}
    if isinstance(first, Find):
        columns[POSITION] = pa.array(np.concatenate([each.positions for each in found]))
        columns[KEY] = pa.array(_numbers(askers)[asking])
    elif not names:
        # Nobody wants a column of the table, but something must tell how many rows there are.
        columns[KEY] = pa.array(asking)
    theirs = table.gather([(each.run, each.rows) for each in found], list(names)) if names else None
    return _Pairs(np.arange(asking.size), asking, _beside(columns, theirs))


def _completed(table: Table, found: Sequence[Found], askers: Sequence[_Askers], pairs: _Pairs) -> _Pairs:
    """With the columns that were left for later."""
    had = dict(zip(pairs.theirs.schema.names, pairs.theirs.columns, strict=True))
    names = dict.fromkeys(name for each in askers for name in each.shape.needed if name not in had)
    if not names or not pairs.places.size:
        return pairs
    # Those of a single question are still in the order in which they were found, run by run.
    order = np.argsort(pairs.places) if len(askers) > 1 or len(askers[0].places) > 1 else None
    places = pairs.places if order is None else pairs.places[order]
    ends = list(itertools.accumulate(each.rows.size for each in found))
    cuts = [0, *np.searchsorted(places, ends).tolist()]
    parts = [
        (each.run, each.rows[places[first:last] - (end - each.rows.size)])
        for each, end, first, last in zip(found, ends, cuts, cuts[1:], strict=False)
        if first < last
    ]
    rows = table.gather(parts, list(names))
    if order is not None:
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        rows = payload.take_batch(rows, back)
    return _Pairs(pairs.places, pairs.asking, _beside(had, rows))


def _beside(columns: dict[str, pa.Array], rows: pa.RecordBatch | None) -> pa.RecordBatch:
    """One batch of both."""
    if rows is not None:
        if not columns:
            return rows
        columns = columns | dict(zip(rows.schema.names, rows.columns, strict=True))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _verified(table: Table, keys: tuple[str, ...], wanted: Sequence[pa.Array], pairs: _Pairs) -> _Pairs:
    """Without the pairs that only collide. Looks at gathered rows: collisions are too rare to look before."""
    if table.indexes[keys]:
        return pairs
    theirs = [pairs.theirs.column(name) for name in keys]
    same = keycodes.equal_keys([payload.take(column, pairs.asking) for column in wanted], theirs)
    if same.all():
        return pairs
    return pairs.at(np.flatnonzero(same))


def _cuts(pairs: _Pairs, begins: Sequence[int]) -> list[int]:
    """Where the pairs of each shape begin, and where the last end."""
    # Pairs of a single question are in no order, and need none.
    if len(begins) == 2:
        return [0, pairs.asking.size]
    cuts: list[int] = np.searchsorted(pairs.asking, begins).tolist()
    return cuts


def _holding(pairs: _Pairs, begins: Sequence[int], askers: Sequence[_Askers]) -> _Pairs:
    """The pairs for which the condition of their question is true."""
    if all(each.shape.condition is None for each in askers):
        return pairs
    cuts = _cuts(pairs, begins)
    mask = np.ones(pairs.asking.size, dtype=np.bool_)
    for number, each in enumerate(askers):
        first, last = cuts[number], cuts[number + 1]
        if each.shape.condition is not None and first < last:
            asking, theirs = pairs.asking[first:last] - begins[number], pairs.theirs.slice(first, last - first)
            mask[first:last] = holds(each.shape.condition, _joined(each.shape.read, each.rows, asking, theirs))
    if mask.all():
        return pairs
    return pairs.at(np.flatnonzero(mask))


def _put(askers: _Askers, asking: I64, theirs: pa.RecordBatch, answers: list[pa.RecordBatch]) -> None:
    """Put the answers of a shape's questions in their places; those that stay empty are there already."""
    rows = _joined(askers.shape.given, askers.rows, asking, theirs)
    if len(askers.places) == 1:
        answers[askers.places[0]] = rows
        return
    first = 0
    for place, last in zip(askers.places, np.searchsorted(asking, askers.ends).tolist(), strict=True):
        if first < last:
            answers[place] = rows.slice(first, last - first)
        first = last


def _joined(columns: Columns, own: pa.RecordBatch, asking: I64, theirs: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of the pairs."""
    arrays = []
    if columns.own:
        rows = own.select(columns.own)
        arrays = (rows.take(pa.array(asking)) if columns.plain else payload.take_batch(rows, asking)).columns
    if columns.theirs:
        arrays += theirs.select(columns.theirs).columns
    if not arrays:
        return theirs.select([])
    return pa.RecordBatch.from_arrays([arrays[place] for place in columns.order], schema=columns.schema)
