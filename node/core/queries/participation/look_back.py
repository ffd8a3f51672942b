"""How far back a stream is there for a query that looks back: as far as its windows show, if the stream's log has that.

Of a time window that is what the log has of it. A count window is there as a whole or not at all, for whoever asks from
when on rows are complete; behind a filter it is not, because logs do not count what passes.
"""

from __future__ import annotations

from node.core.arrangements.reach import Reach
from node.core.streams.stream import StreamState
from node.core.streams.ticks import tick_of, tick_start


def seen_from(stream: StreamState, reach: Reach, tick: int) -> int:
    """From which tick on a query can see a stream whose rows begin with ``tick`` or later; that at the latest."""
    whole_from = stream.whole_from
    if reach.count is None:
        return min(tick, max(whole_from, tick_of(reach.before(tick_start(tick, reach.tau)), reach.tau)))
    found = None if reach.filter is not None else stream.last_rows_from(reach.count, tick)
    return tick if found is None or found < whole_from else min(tick, found)
