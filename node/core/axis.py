"""The axis along which a window is cut: event time, or the number of a tuple in its stream.

DESIGN section 2 in terms of positions. For a head row c and a tuple w of the window's stream:

    time window    w is visible iff  c.ts - T <= w.ts < c.ts  (<= c.ts when ties are before the head)
    count window   w is visible iff  r - n <= w.number < r,  r = how many tuples are before c

So a count window is a range window over numbers, and an engine needs to know only ranges. The number
of tuples before a row comes from the event times of all tuples, ``Ordinals``, wherever it is needed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from node.core.engine import TS
from node.core.fifo import Fifo
from node.core.hashing import I64
from node.core.ticks import TICK_END, TICK_MIN
from planner.model import RowsWindow, TimeUnit, Window

#: Carry column with the number of tuples before each row, during a probe of a count window.
RANK = "__rank"


class Ordinals:
    """Event times of a stream's tuples, in order, by their number since the query's start."""

    def __init__(self) -> None:
        self._times = Fifo(np.int64)
        #: Number of the oldest tuple whose time is still known.
        self.first = 0
        #: Rows before this event time get wrong ranks: times of tuples before them are forgotten.
        self.known_from = TICK_MIN

    @property
    def end(self) -> int:
        """The number of the next tuple."""
        return self.first + len(self._times)

    @property
    def nbytes(self) -> int:
        return self._times.nbytes

    def append(self, ts: I64) -> int:
        """Tuples arrived, ascending in time; the number of the first of them."""
        first = self.end
        self._times.append(ts)
        return first

    def rank(self, ts: I64, include_ties: bool) -> I64:
        """How many tuples are before rows with these times."""
        side = "right" if include_ties else "left"
        ranks: I64 = np.searchsorted(self._times.values, ts, side) + self.first  # type: ignore[call-overload]
        return ranks

    def rank_one(self, ts: int, include_ties: bool = False) -> int:
        return int(self.rank(np.array([ts], np.int64), include_ties)[0])

    def forget_before(self, ordinal: int) -> None:
        """Nobody will ask about a time before that tuple's."""
        gone = self._times.pop(max(0, min(ordinal, self.end) - self.first))
        self.first += len(gone)
        if len(gone):
            self.known_from = int(gone[-1]) + 1


class TimeAxis:
    """Positions are event times."""

    def __init__(self, length: int, ordinals: Ordinals) -> None:
        self.length = length
        self.ordinals = ordinals

    def positions(self, rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The rows of tuples ``first``, ``first + 1``, ... with their positions in TS."""
        return rows

    def placed(self, rows: pa.RecordBatch, include_ties: bool) -> tuple[pa.RecordBatch, str, bool]:
        """Carry rows, which column has their positions, and whether a tuple at the very position is visible."""
        return rows, TS, include_ties

    def visible(self, low_ts: int, high_ts: int, include_ties: bool) -> tuple[int, int]:
        """Everything that rows from ``low_ts`` to ``high_ts`` can see has a position in [low, high)."""
        return low_ts - self.length, high_ts + include_ties

    def position_of(self, ts: int) -> int:
        """The position of the first tuple that is not before ``ts``."""
        return ts

    def before(self, ts: int) -> int:
        """What is before this position is invisible to every row at ``ts`` or later."""
        return TICK_END if ts >= TICK_END else ts - self.length

    def first_live(self, before: int) -> int:
        """The number of the first tuple that is not before that position."""
        return self.ordinals.rank_one(before)

    def forget(self, before: int, ts: int) -> None:
        self.ordinals.forget_before(self.first_live(before))


class CountAxis:
    """Positions are numbers of tuples."""

    def __init__(self, count: int, ordinals: Ordinals) -> None:
        self.length = count
        self.ordinals = ordinals

    def positions(self, rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
        numbers = pa.array(np.arange(first, first + rows.num_rows))
        return rows.set_column(rows.schema.get_field_index(TS), rows.schema.field(TS), numbers)

    def placed(self, rows: pa.RecordBatch, include_ties: bool) -> tuple[pa.RecordBatch, str, bool]:
        ranks = self.ordinals.rank(rows.column(TS).to_numpy(), include_ties)
        return rows.append_column(pa.field(RANK, pa.int64()), pa.array(ranks)), RANK, False

    def visible(self, low_ts: int, high_ts: int, include_ties: bool) -> tuple[int, int]:
        ordinals = self.ordinals
        low = TICK_MIN if low_ts < ordinals.known_from else ordinals.rank_one(low_ts, include_ties) - self.length
        return low, ordinals.rank_one(high_ts, include_ties)

    def position_of(self, ts: int) -> int:
        return self.ordinals.rank_one(ts)

    def before(self, ts: int) -> int:
        return self.ordinals.end if ts >= TICK_END else self.ordinals.rank_one(ts) - self.length

    def first_live(self, before: int) -> int:
        return before

    def forget(self, before: int, ts: int) -> None:
        self.ordinals.forget_before(self.ordinals.rank_one(ts))


Axis = TimeAxis | CountAxis


def axis_of(window: Window, unit: TimeUnit) -> Axis:
    """The axis of a window, which knows no tuple yet."""
    if isinstance(window, RowsWindow):
        return CountAxis(window.count, Ordinals())
    return TimeAxis(window.length(unit), Ordinals())
