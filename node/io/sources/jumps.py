"""A row of a recording from the far future, because of which most of those that follow would be late: an error.

A row in question is one that is newer than all before it. Those that follow it are **behind** if they are more than the
stream's ``max_ahead``, and its lateness, before it. A gap in a recording is no error: time goes on from behind the gap.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from node.config import StreamConfig
from node.io.sources.readers import source_error
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit

Times = npt.NDArray[np.int64]

#: Event times stay below this in absolute value, so that adding a window or converting never overflows.
TS_LIMIT = 2**62
#: Lower than every event time: the running maximum before the first one.
BEFORE_ALL = -TS_LIMIT
#: So many rows after the one in question decide, or the end of the file, unless fewer than one in ten rows follow it.
FOLLOWING_ROWS = 100
FEW_ROWS = 10
_UNITS = {TimeUnit.MS: "ms", TimeUnit.US: "us", TimeUnit.NS: "ns"}


class JumpWatch:
    """The newest row of a recording so far, and where those that follow it lie."""

    def __init__(self, stream: StreamConfig, info: StreamInfo) -> None:
        self._stream = stream
        self._info = info
        self._behind_by = min(TS_LIMIT, (stream.max_ahead_ms + stream.lateness_ms) * info.unit)
        self._rows = 0
        self._newest = BEFORE_ALL
        #: The newest row, counted from 1; how many rows follow it, and how many of these are behind.
        self._number = 0
        self._following = 0
        self._behind = 0

    def add(self, times: Times, newest: Times) -> None:
        """The next rows: their times, BEFORE_ALL where there is none, and the newest time up to each.

        Raises SourceError if a row was wrong.
        """
        # A place for the newest row before these, so that each row that is newer begins a run of those that follow it.
        firsts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(newest, prepend=self._newest) > 0)])
        behind = np.concatenate([[False], (times > BEFORE_ALL) & (times < newest - self._behind_by)])
        following = np.diff(firsts, append=len(behind)) - 1
        of_these = np.add.reduceat(behind.astype(np.int64), firsts)
        numbers = firsts + self._rows
        numbers[0] = self._number
        following[0] += self._following
        of_these[0] += self._behind
        wrong = np.flatnonzero((following >= FOLLOWING_ROWS) & (2 * of_these > following))
        at = int(wrong[0]) if len(wrong) else -1
        self._number, self._following, self._behind = int(numbers[at]), int(following[at]), int(of_these[at])
        self._newest = int(newest[firsts[at] - 1]) if firsts[at] else self._newest
        self._rows += len(times)
        if len(wrong):
            self._refuse()

    def check(self) -> None:
        """No row follows, or none is waited for, before this is decided. Raises SourceError if one was wrong."""
        if 2 * self._behind > self._following and self._following * FEW_ROWS >= self._rows:
            self._refuse()

    def _refuse(self) -> None:
        unit = self._info.unit
        when = pa.scalar(self._newest, pa.timestamp(_UNITS[unit])).cast(pa.string()).as_py()
        ahead = f"{self._stream.max_ahead_ms / 3_600_000:g}h"
        got = (
            f"row {self._number} at {when}: of {self._following} rows that follow it, {self._behind} are more than "
            f"{ahead} before it and would be late"
        )
        raise source_error(self._stream, "max_ahead", "rows in order of time, or a longer max_ahead or lateness", got)
