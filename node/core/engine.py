"""What the core asks of an engine: local work on Arrow data, as values.

A window holds the tuples of one stream view at one site. Its rows carry their
event time in the column ``TS`` (int64, in the query's time unit) and arrive in
batches whose times never go back behind an earlier batch. A probe joins carry
rows, which have their head's event time in ``TS`` too, with a window.

A pair (carry row c, window row w) is in the answer iff every key of c equals
the corresponding key of w (null equals nothing) and

    c.TS - range_length <= w.TS < c.TS        or, when ``include_ties``,
    c.TS - range_length <= w.TS <= c.TS

This is DESIGN section 2 for one pair, so a window that is ahead of the carry,
or that still holds tuples from before the bound, changes nothing. Ties are
included when the window's stream stands before the head's in the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

#: Name of the event-time column in window and carry rows. Other columns are
#: named ``alias.column``, so the two cannot clash.
TS = "__ts"


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """Create an empty window. ``schema`` has TS and the view's columns; ``keys`` are its join columns."""

    window: str
    schema: pa.Schema
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """Add rows, sorted by TS, none older than the newest row of the window."""

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

    The answer has all columns of ``rows`` followed by all columns of the window
    except TS, in their order. ``carry_keys[i]`` is compared with the window's ``keys[i]``.
    Order of the answer's rows is the engine's choice.
    """

    window: str
    rows: pa.RecordBatch
    carry_keys: tuple[str, ...]
    range_length: int
    include_ties: bool


Op = OpenWindow | Append | Expire | CloseWindow | Probe


class Engine(Protocol):
    """Runs a site's local joins."""

    def run(self, ops: Sequence[Op]) -> list[pa.RecordBatch]:
        """Perform the operations in order; the answers of the probes among them, in order."""
        ...


def joined_schema(carry: pa.Schema, window: pa.Schema) -> pa.Schema:
    """The schema of a probe's answer."""
    return pa.schema([*carry, *(field for field in window if field.name != TS)])
