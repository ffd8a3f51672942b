"""What the core asks of an engine: local work on Arrow data, as values.

A **table** holds rows of one stream, or of a copy of one, at one site, each row once. Every row has a position
(int64, column ``POSITION``): its number in the stream, or its event time. Positions may come in any order. An
**index** of a table finds its rows by some of its columns, the keys; a table may have any number of indexes, and
one of them may have no keys: then all rows are found.

A pair (carry row c, table row w) is in the answer of a probe iff every key of c equals the corresponding key of w
(null equals nothing), ``c.LOW <= w.POSITION < c.HIGH``, and the probe's condition is true of the two. What a
window is, which ties are seen, and where a query begins is all said by the two bounds of each carry row. So a
table that is ahead of the carry, or that still holds rows from before the bounds, changes nothing; and probes of
different queries, with different windows, can be answered together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from planner.model.constants import EVENT_TIME
from planner.model.query import Expr

#: Name of the event-time column in carries. Other columns of a carry are named ``alias.column``, so the two
#: cannot clash.
TS = EVENT_TIME
#: Position of a row in its table.
POSITION = "__position"
#: In the answer of a Find: which of the keys asked for the row has.
KEY = "__key"
#: Bounds of a carry row during a probe: it sees rows with LOW <= POSITION < HIGH.
LOW = "__low"
HIGH = "__high"


@dataclass(frozen=True, slots=True)
class OpenTable:
    """Create an empty table. ``schema`` has POSITION first, then the columns, named as in the stream."""

    table: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """Find the table's rows by these columns from now on, also those that it has already."""

    table: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CloseIndex:
    """Nobody looks by these keys any more."""

    table: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """Add rows, in any order of POSITION.

    A column of Arrow's null type is one of which nothing is known of these rows: there they have nulls, which take no
    memory. So a table may have columns that some of its rows were never given.
    """

    table: str
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Expire:
    """Rows with POSITION < before will never be asked for again and may be forgotten."""

    table: str
    before: int


@dataclass(frozen=True, slots=True)
class CloseTable:
    """Forget the table, its indexes and everything in it."""

    table: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Join carry rows with a table.

    ``rows`` has, beside its own columns, LOW and HIGH (int64, no nulls). ``carry_keys[i]`` is compared with
    ``keys[i]``, the keys of an open index. In the joined row the table's columns are named ``alias.column``.
    Of the joined rows those remain for which ``condition`` is true (not false, not null); the answer has their
    columns named in ``columns``, in that order. Order of the answer's rows is the engine's choice.
    """

    table: str
    keys: tuple[str, ...]
    rows: pa.RecordBatch
    carry_keys: tuple[str, ...]
    alias: str
    #: Reads columns of the joined row: the query's filter on the table's stream, and what else can be asked now.
    condition: Expr | None
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Find:
    """The table's rows with one of these keys and ``low <= POSITION < high``, for which ``condition`` is true.

    ``wanted`` has one column per key of the index, in its order, of a comparable type; its rows are distinct, one
    with a null finds nothing. ``condition`` reads the table's columns as ``alias.column``. The answer has POSITION,
    then ``columns`` (names of the table), then KEY (int64): the row of ``wanted`` that the row equals. Order of
    the answer's rows is the engine's choice.
    """

    table: str
    keys: tuple[str, ...]
    wanted: pa.RecordBatch
    low: int
    high: int
    alias: str
    condition: Expr | None
    columns: tuple[str, ...]


Change = OpenTable | OpenIndex | CloseIndex | Append | Expire | CloseTable
#: The operations that are answered with rows.
Question = Probe | Find
Op = Change | Question
#: What became of an operation: the answer of a question, None for a change; or why it could not be done.
Outcome: TypeAlias = pa.RecordBatch | Exception | None


class Engine(Protocol):
    """Runs a site's local joins."""

    def run(self, ops: Sequence[Op]) -> list[Outcome]:
        """Perform the operations; for each of them what became of it.

        Changes of a table happen in order, and a question sees at least what was appended before it. It may be
        answered together with later questions to the same table, and so after later appends, but not after an
        Expire, a CloseIndex or a CloseTable that comes later. What fails is that operation alone.
        """
        ...


class SiteEngine(Engine, Protocol):
    """What a daemon wants of an engine besides: figures, and an end."""

    def rows(self, table: str) -> int:
        """Live rows of a table; ValueError if it is not open."""
        ...

    def nbytes(self, table: str) -> int:
        """Bytes that a table and its indexes take; ValueError if it is not open."""
        ...

    def close(self) -> None:
        """Let go of everything. Operations that are under way in another thread end soon, well or not."""
        ...


def joined_schema(carry: pa.Schema, table: pa.Schema, alias: str) -> pa.Schema:
    """The columns of a joined row: those of the carry without the bounds, then the table's without the position."""
    own = [field for field in carry if field.name not in (LOW, HIGH)]
    theirs = [field.with_name(f"{alias}.{field.name}") for field in table if field.name != POSITION]
    return pa.schema([*own, *theirs])


def probe_schema(probe: Probe, table: pa.Schema) -> pa.Schema:
    """The schema of a probe's answer."""
    joined = joined_schema(probe.rows.schema, table, probe.alias)
    return pa.schema([joined.field(name) for name in probe.columns])


def find_schema(find: Find, table: pa.Schema) -> pa.Schema:
    """The schema of a find's answer."""
    fields = [table.field(name) for name in (POSITION, *find.columns)]
    return pa.schema([*fields, pa.field(KEY, pa.int64())])
