"""What a full copy has, and how a batch of it travels: nothing that nobody needs, and nothing twice.

All queries at a site that need the whole of a view share one copy of the stream. What it has is in **portions**: for
each filter the columns that the queries behind it need. A batch of the copy has the tuples that pass at least one of
the filters, and of each tuple the columns of the portions whose filters it passes. It travels as

    event times, and ``PASSES`` where there are several portions
    for each set of portions: of the tuples that pass at least one of them, the columns that just these portions have

A tuple does not travel with the columns of its filters: a number, ``PASSES``, has the bit of each portion that it is
in. Bits of portions that ended are given to new ones: queries see only tuples that are newer than their own portion.
What was not sent of a tuple is null, and nobody who may look needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from node.core.encoding.columns import rows_bytes
from node.core.encoding.payload import spread, take_batch
from node.core.encoding.rows import RowsReader, check_fits, empty_batch, encode_rows, fits
from node.core.engine import TS
from node.core.errors import PeerProtocolError
from node.core.keys.hashing import I64
from node.core.streams.view import SealedRows
from planner.model.query import Call, ColumnRef, Expr, Literal, names_in

#: Of a tuple in a full copy: the portions that it is in, a bit for each.
PASSES = "__passes"
#: Twice the highest bit must be a number of 64 bits with a sign (``is_in``). Number 0 is the portion without a filter.
PORTIONS_MAX = 62


@dataclass(frozen=True, slots=True)
class Portion:
    """The columns, in the stream's order, that are needed of the tuples that pass a filter."""

    filter: Expr | None
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A batch of a full copy."""

    ts: I64
    rows: pa.RecordBatch
    passes: Passes


class Passes:
    """Which tuples of a batch are in which portions."""

    def __init__(self, bits: I64, numbers: Mapping[Expr | None, int]) -> None:
        self._bits = bits
        self._numbers = numbers

    def places(self, condition: Expr) -> I64 | None:
        """The places of the tuples that pass a filter; None if it has no portion."""
        number = self._numbers.get(condition)
        return None if number is None else np.flatnonzero(self._bits & (1 << number))


class Portions:
    """Those of one copy, by number. Both halves have them, and change them at the same batch."""

    def __init__(self, schema: pa.Schema) -> None:
        """``schema`` is the stream's."""
        self._schema = schema
        self._portions: dict[int, Portion] = {}
        self._numbers: dict[Expr | None, int] = {}
        #: Of each portion the tuples that passed, and those that might have, since it is there.
        self._passed: dict[int, tuple[int, int]] = {}
        #: The columns by the portions that have them, as bits.
        self._grouped: list[tuple[int, tuple[str, ...]]] = []

    @property
    def all(self) -> dict[int, Portion]:
        return dict(self._portions)

    def put(self, number: int, portion: Portion) -> None:
        """A portion is new, or has other columns than before."""
        self._portions[number] = portion
        self._passed.setdefault(number, (0, 0))
        self._regroup()

    def drop(self, number: int) -> None:
        """Nobody needs a portion any more."""
        del self._portions[number], self._passed[number]
        self._regroup()

    def number_of(self, condition: Expr | None) -> int | None:
        """The portion of a filter, if there is one."""
        return self._numbers.get(condition)

    def share_of(self, number: int) -> float | None:
        """The share of the stream's tuples that are in a portion; None if there were none yet."""
        passed, seen = self._passed[number]
        return passed / seen if seen else None

    def _regroup(self) -> None:
        self._portions = dict(sorted(self._portions.items()))
        self._numbers = {each.filter: number for number, each in self._portions.items()}
        grouped: dict[int, list[str]] = {}
        for name in self._schema.names:
            bits = sum(1 << number for number, each in self._portions.items() if name in each.columns)
            if bits:
                grouped.setdefault(bits, []).append(name)
        self._grouped = [(bits, tuple(names)) for bits, names in grouped.items()]

    def encode(self, sealed: SealedRows, first_ts: int) -> tuple[bytes, int]:
        """A batch of the stream, from an event time on, as it travels; and how many tuples that is.

        Raises TooManyRowsError if the other half would not take it.
        """
        passes = np.zeros(len(sealed), np.int64)
        for number, each in self._portions.items():
            places = sealed.passing(each.filter, first_ts)
            passes[places] += 1 << number
            passed, seen = self._passed[number]
            self._passed[number] = passed + len(places), seen + len(sealed)
        chosen = np.flatnonzero(passes)
        if not len(chosen):
            return b"", 0
        passes = passes[chosen]
        head = [pa.array(sealed.ts[chosen]), pa.array(passes)][: len(self._head_schema)]
        pieces = [encode_rows(pa.RecordBatch.from_arrays(head, schema=self._head_schema))]
        nbytes = 2 * passes.nbytes
        for bits, names in self._grouped:
            places = chosen[passes & bits != 0]
            if len(places):
                rows = sealed.rows.select(list(names))
                rows = rows if len(places) == len(sealed) else take_batch(rows, places)
                nbytes += rows.nbytes + rows_bytes(rows.schema, len(chosen) - len(places))
                pieces.append(encode_rows(rows))
        check_fits(len(chosen), self._width, nbytes)
        return b"".join(pieces), len(chosen)

    def decode(self, data: bytes) -> Arrived:
        """What came of a batch.

        Raises PeerProtocolError if the bytes are not that.
        """
        if not data:
            nothing = np.empty(0, np.int64)
            return Arrived(nothing, self._rows({}, 0), Passes(nothing, self._numbers))
        reader = RowsReader(data)
        head = reader.read(self._head_schema)
        passes = self._checked_passes(head)
        columns: dict[str, pa.Array] = {PASSES: pa.array(passes)}
        for bits, names in self._grouped:
            mask = passes & bits != 0
            wanted = int(np.count_nonzero(mask))
            schema = pa.schema([self._schema.field(name) for name in names])
            rows = reader.read(schema, len(passes)) if wanted else empty_batch(schema)
            if rows.num_rows != wanted:
                raise PeerProtocolError(f"columns {list(names)} require {wanted} tuples; got {rows.num_rows}")
            for name, column in zip(names, rows.columns, strict=True):
                columns[name] = column if wanted == len(passes) else spread(column, mask)
        reader.check_empty()
        return Arrived(head.column(TS).to_numpy(), self._rows(columns, head.num_rows), Passes(passes, self._numbers))

    @property
    def _head_schema(self) -> pa.Schema:
        """Where there is one portion, all tuples are in it."""
        names = [TS] if len(self._portions) == 1 else [TS, PASSES]
        return pa.schema([pa.field(name, pa.int64()) for name in names])

    @property
    def _width(self) -> int:
        """How many columns a batch has, of all portions together."""
        return len(self._head_schema) + sum(len(names) for _, names in self._grouped)

    def _checked_passes(self, head: pa.RecordBatch) -> I64:
        if any(column.null_count for column in head.columns):
            raise PeerProtocolError("a batch of a full copy requires times, and what passes, of every tuple; got nulls")
        if not fits(head.num_rows, self._width):
            raise PeerProtocolError(f"a batch of a full copy requires fewer values; got {head.num_rows} tuples")
        known = sum(1 << number for number in self._portions)
        if head.num_columns == 1:
            return np.full(head.num_rows, known, np.int64)
        passes: I64 = head.column(PASSES).to_numpy()
        if (passes & ~known).any() or not passes.all():
            raise PeerProtocolError(f"tuples of a full copy require to be in some of portions {list(self._portions)}")
        return passes

    def _rows(self, columns: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
        """The rows of the copy's table; of columns that nobody needs nothing is known."""
        names = table_schema(self._schema).names
        nothing = pa.nulls(count)
        return pa.RecordBatch.from_arrays([columns.get(name, nothing) for name in names], names=names)


class Coverage:
    """Since which tick each column of each portion has come to the holder, without a gap."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[int, dict[str, int]]] = {}

    def put(self, number: int, columns: Sequence[str], tick: int) -> None:
        """From this tick on a portion has these columns."""
        begun, before = self._since.get(number, (tick, {}))
        self._since[number] = begun, {name: before.get(name, tick) for name in columns}

    def drop(self, number: int) -> None:
        """A portion has ended."""
        self._since.pop(number, None)

    def since(self, number: int, columns: Sequence[str]) -> int | None:
        """From which tick on a portion has had these columns; None if it has not."""
        if number not in self._since:
            return None
        begun, known = self._since[number]
        return max((known[name] for name in columns), default=begun) if known.keys() >= {*columns} else None


def table_schema(stream: pa.Schema) -> pa.Schema:
    """The columns of the table in which a full copy of a stream is kept."""
    return pa.schema([*(pa.field(field.name, field.type) for field in stream), pa.field(PASSES, pa.int64())])


def is_in(alias: str, number: int) -> Expr:
    """The condition that a tuple of a full copy is in a portion."""
    whole = pa.int64()
    rest = Call("%", (ColumnRef(alias, PASSES), Literal(1 << (number + 1), whole)), whole)
    return Call(">=", (rest, Literal(1 << number, whole)), pa.bool_())


def numbered(filters: Iterable[Expr | None], before: Mapping[Expr | None, int]) -> dict[Expr | None, int]:
    """The numbers of these filters' portions; those that had one ``before`` keep it.

    0 if no other is left: the tuples of such a filter travel with all others, and it is the holder who looks. It stays
    so, because older tuples have no bit for it.
    """
    known = {each: before[each] for each in filters if each in before}
    free = iter(sorted({*range(1, PORTIONS_MAX)} - {*known.values()}))
    return {each: known[each] if each in known else 0 if each is None else next(free, 0) for each in filters}


def portions_of(needed: Sequence[Portion], numbers: Mapping[Expr | None, int], schema: pa.Schema) -> dict[int, Portion]:
    """What is needed, put together by number."""
    filters: dict[int, Expr | None] = {}
    columns: dict[int, set[str]] = {}
    for each in needed:
        number = numbers[each.filter]
        filters[number] = each.filter if number else None
        columns.setdefault(number, set()).update(each.columns, () if number else names_in(each.filter))
    return {
        number: Portion(filters[number], tuple(name for name in schema.names if name in columns[number]))
        for number in sorted(columns)
    }
