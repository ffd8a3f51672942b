"""What the core asks of an engine: local work on Arrow data, as values.

A window holds the tuples of one stream view at one site. Its rows carry their
position in the column ``TS`` (int64): their event time in the query's time unit,
or, for count windows, their number in the stream. A probe joins carry rows, which
have their own position on that axis in the column ``position``, with a window.

A pair (carry row c, window row w) is in the answer iff every key of c equals
the corresponding key of w (null equals nothing) and

    c.position - range_length <= w.TS < c.position        or, when ``include_ties``,
    c.position - range_length <= w.TS <= c.position

and, where ``low`` is given, low <= w.TS.

This is DESIGN section 2 for one pair, so a window that is ahead of the carry,
or that still holds tuples from before the bound, changes nothing. Ties are
included when the window's stream stands before the head's in the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from planner.constants import EVENT_TIME
from planner.model import Expr

#: Name of the event-time column in window and carry rows. Other columns are
#: named ``alias.column``, so the two cannot clash.
TS = EVENT_TIME
#: In the answer of a Find: which of the keys asked for the row has.
KEY = "__key"


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """Create an empty window. ``schema`` has TS and the view's columns; ``keys`` are its join columns, maybe none."""

    window: str
    schema: pa.Schema
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """Add rows, in any order of TS."""

    window: str
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Expire:
    """Rows with TS < before_ts will never be asked for again and may be forgotten."""

    window: str
    before_ts: int


@dataclass(frozen=True, slots=True)
class CloseWindow:
    """Forget the window and everything in it."""

    window: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Join carry rows with a window.

    The joined row has all columns of ``rows`` followed by all columns of the window
    except TS. ``carry_keys[i]`` is compared with the window's ``keys[i]``; without keys
    every pair in the range is joined. Of the joined rows those remain for which
    ``residual`` is true (not false, not null), and of their columns those in ``columns``,
    in that order; None keeps all. Order of the answer's rows is the engine's choice.
    """

    window: str
    rows: pa.RecordBatch
    carry_keys: tuple[str, ...]
    range_length: int
    include_ties: bool
    #: The carry column (int64, no nulls) with the rows' positions on the window's axis.
    position: str = TS
    #: Reads columns of the joined row, named ``alias.column``.
    residual: Expr | None = None
    columns: tuple[str, ...] | None = None
    #: What is before this position is invisible; None: nothing is.
    low: int | None = None


@dataclass(frozen=True, slots=True)
class Find:
    """The window's rows with one of these keys and ``low <= TS < high``.

    ``keys`` has one column per key of the window, in the window's order, of a comparable
    type; its rows are distinct, one with a null finds nothing. The answer has all columns
    of the window, TS included, in their order, then KEY (int64): the row of ``keys`` that
    the row equals. Order of the answer's rows is the engine's choice.
    """

    window: str
    keys: pa.RecordBatch
    low: int
    high: int


Op = OpenWindow | Append | Expire | CloseWindow | Probe | Find
#: The operations that are answered with rows.
Question = Probe | Find


#: What became of a group of operations: its answers, or why there are none.
Outcome = list[pa.RecordBatch] | Exception


class Engine(Protocol):
    """Runs a site's local joins."""

    def run(self, ops: Sequence[Op]) -> list[pa.RecordBatch]:
        """Perform the operations in order; the answers of the probes and finds among them, in order."""
        ...


class SiteEngine(Engine, Protocol):
    """What a daemon wants of an engine besides: operations of several queries at once, and figures."""

    def run_all(self, groups: Sequence[Sequence[Op]]) -> list[Outcome]:
        """Perform groups of operations in order; what fails in one is that group's alone."""
        ...

    def rows(self, window: str) -> int:
        """Live rows of a window; ValueError if it is not open."""
        ...

    def nbytes(self, window: str) -> int:
        """Bytes that a window takes; ValueError if it is not open."""
        ...

    def close(self) -> None:
        """Let go of everything. Operations that are under way in another thread end soon, well or not."""
        ...


def joined_schema(carry: pa.Schema, window: pa.Schema) -> pa.Schema:
    """The columns of a joined row."""
    return pa.schema([*carry, *(field for field in window if field.name != TS)])


def answer_schema(probe: Probe, window: pa.Schema) -> pa.Schema:
    """The schema of a probe's answer."""
    joined = joined_schema(probe.rows.schema, window)
    return joined if probe.columns is None else pa.schema([joined.field(name) for name in probe.columns])
